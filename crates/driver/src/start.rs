//! From what the user asked for to a driver that can run here.

use crate::driver::{Driver, Options};
use crate::error::DriverError;
use crate::journal::Setup;
use crate::left_alone::LeftAlone;
use crate::place::{Place, Places};
use crate::source::choice::choose;
use crate::watched::Selection;
use crate::{SlowTier, SlowTiers, clock};
use frostline_core::TierLimits;
use frostline_core::event::SampleKind;
use frostline_core::policy::registry::facts;
use frostline_core::policy::{Facts, Offer, Telemetry};
use frostline_core::spec::Spec;
use frostline_core::types::*;
use frostline_linux::frames::FrameNodes;
use frostline_linux::groups::{GroupName, Trees};
use frostline_linux::next_touch::NextTouch;
use frostline_linux::topology::Topology;
use frostline_linux::{LinuxError, Root, Span, process, swap};

/// Most bytes that an unused migration rate saves up.
const BURST: Bytes = Bytes(64 << 20);
/// Something that the user should know about the choices made.
pub type Notes = Vec<String>;

/// Makes a driver for what is there.
///
/// # Errors
/// Where the policy does not exist or needs what this system cannot give, and where nobody is
/// there to be managed.
pub fn start(
    root: Root,
    options: Options,
    selection: Selection,
) -> Result<(Driver, Notes), DriverError> {
    begin(root, options, selection, None)
}

/// The same for a driver that lives in the program, which can have pages in nodes fault. `own` tells
/// the memory that it needs itself, which is left alone.
///
/// # Errors
/// As [`start`].
pub fn start_inside(
    root: Root,
    options: Options,
    own: fn() -> Vec<Span>,
) -> Result<(Driver, Notes), DriverError> {
    let this = Selection::Process { pid: std::process::id(), tree: false };
    begin(root, options, this, Some(own))
}

/// How pages of slower tiers fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    /// All of them are in swap space, and do so by themselves.
    Swap,
    /// Those in nodes are taken out of their places.
    Armed,
    /// Those in nodes do not.
    Never,
}

fn begin(
    root: Root,
    options: Options,
    selection: Selection,
    own: Option<fn() -> Vec<Span>>,
) -> Result<(Driver, Notes), DriverError> {
    let mut notes = Notes::new();
    let mut places = places(&root, &options.slow)?;
    places.device = options.swap_device.clone();
    if let (true, Some(SlowTier::Zram { size, .. })) = (options.dry_run, options.slow.zram()) {
        places.planned = Some(size.map_or_else(|| process::total_memory(&root), Ok)?);
    }
    if let (Selection::Process { pid, .. }, None) = (&selection, own)
        && let Ok(Some(why)) = LeftAlone::when_named(&root, *pid)
    {
        return Err(DriverError::LeftAlone { pid: *pid, why });
    }
    let pids = selection.pids(&root)?;
    let there: Vec<process::Target> =
        pids.iter().filter_map(|pid| process::Target::open(&root, *pid).ok()).collect();
    if there.is_empty() {
        let numbers: Vec<String> = pids.iter().map(u32::to_string).collect();
        return Err(DriverError::NoTarget(match (&*numbers, &selection) {
            ([], Selection::Cgroup(name)) => nobody_in(&root, name)?,
            ([], _) => "nobody is there".into(),
            (numbers, _) => format!("{} does not run", numbers.join(", ")),
        }));
    }
    let resident: u64 = there
        .iter()
        .filter_map(|target| target.usage().ok())
        .map(|usage| usage.anonymous.0 + usage.swapped.0)
        .sum();
    let pages = Bytes(resident).pages();
    let fast = options.fast.bytes(Bytes(resident)).pages();
    let context =
        Offer { seed: options.seed, fast_pages: fast, total_pages_hint: pages, ..Offer::default() };
    let direct = (1..places.tiers.len()).any(|tier| places.is_direct(TierId(tier as u8)));
    let needs = facts(&options.policy, &context)?.needs;
    let arms = own.is_some() && direct && needs.faults && needs.swap_faults && !options.dry_run;
    let next_touch = match arms.then(NextTouch::begin).transpose() {
        Ok(next_touch) => next_touch,
        Err(error) => {
            notes.push(format!("pages in nodes do not fault: {error}").replace('\n', "; "));
            None
        }
    };
    let faults = match (direct, &next_touch) {
        (false, _) => Faults::Swap,
        (true, Some(_)) => Faults::Armed,
        (true, None) => Faults::Never,
    };
    let mut options = options;
    options.policy = suit(&options.policy, needs, faults, &mut notes)?;
    let known = facts(&options.policy, &context)?;
    let mut needs = known.needs;
    check(&options.policy, needs, faults)?;
    if known.swaps && direct {
        let what = "slow memory that is no memory but a swap device";
        let hint = "take --slow zram, or a policy that uses memory where it is";
        return Err(DriverError::Telemetry { policy: options.policy.clone(), what, hint });
    }
    needs.allocation_extents |= options.extents;
    let mut choice = choose(&root, needs, &options, &places)?;
    let policy = with_parameters(&options.policy, &choice.parameters)?;
    let suited = facts(&policy, &context)?.needs;
    if suited.closed_files && choice.files.is_some() && choice.closings.is_none() {
        let what = "closings of files";
        let hint = "run as root, or leave `files` to frostline";
        return Err(DriverError::Telemetry { policy: options.policy.clone(), what, hint });
    }
    for (kind, before, period) in [
        (SampleKind::LoadMiss, needs.load_sample_period, suited.load_sample_period),
        (SampleKind::Store, needs.store_sample_period, suited.store_sample_period),
    ] {
        if period != before {
            choice.sources.iter_mut().for_each(|source| source.set_period(kind, period));
        }
    }
    if let Some(why) = &choice.why {
        notes.push(format!("{why} (policy {policy})"));
    }
    notes.extend(unheard(&policy, &known));
    notes.extend(choice.allocations.clone());
    notes.extend(choice.files.clone());
    let limits = |index: usize| -> Result<TierLimits, LinuxError> {
        let tier = TierId(index as u8);
        let capacity = if tier == TierId::FAST {
            fast
        } else {
            let most = options.slow.limit(tier).map_or(Bytes::MAX, |l| l.bytes(Bytes(resident)));
            places.free(&root, tier, PageCount::ZERO)?.min(most).pages()
        };
        let direct_access = places.is_direct(tier);
        Ok(TierLimits { capacity, keep_free: PageCount::ZERO, direct_access })
    };
    let setup = Setup {
        policy,
        seed: options.seed,
        scale: 1.0,
        fast_pages: fast.0,
        total_pages_hint: pages.0,
        latency_gap: context.latency_gap,
        tiers: (0..places.tiers.len()).map(limits).collect::<Result<_, _>>()?,
        migration_bytes_per_second: options.migration_bytes_per_second,
        migration_burst: BURST,
    };
    let closings = choice.closings.take();
    let mut driver = Driver::new(root, options, selection, &setup, places, choice)?;
    driver.own = own;
    if let Some(next_touch) = next_touch.filter(|_| needs.faults) {
        driver.arm_by(next_touch);
    }
    if let Some(closings) = closings {
        driver.follow_closings(closings);
    }
    Ok((driver, notes))
}

/// Why nobody in a control group can be managed.
fn nobody_in(root: &Root, name: &GroupName) -> Result<String, LinuxError> {
    let Some(group) = Trees::read(root)?.find(root, name)? else {
        return Ok(format!("there is no control group '{name}'"));
    };
    Ok(match group.members(root)?.len() {
        0 => format!("the control group '{name}' is empty"),
        n => format!("all of the control group '{name}', {n} in number, are left alone"),
    })
}

/// Where fast and slow memory are.
fn places(root: &Root, slow: &SlowTiers) -> Result<Places, DriverError> {
    let unsupported = |what: String, hint: &str| {
        DriverError::from(LinuxError::Unsupported { what, hint: hint.into() })
    };
    if slow.swap() == Some(&SlowTier::Swap) && swap::devices(root)?.is_empty() {
        let what = "this system has no swap".into();
        return Err(unsupported(what, "turn some on, or take --slow zram"));
    }
    let mut nodes: Vec<u32> = Vec::new();
    for slow in slow.iter() {
        if let SlowTier::Node(node) = slow.tier {
            nodes.push(node);
        }
    }
    // Where nothing is moved, the second tier stays empty.
    let last = if slow.is_empty() || slow.swap().is_some() { Some(Place::Swap) } else { None };
    let fast = if nodes.is_empty() {
        Place::Memory
    } else {
        let topology = Topology::read(root)?;
        if let Some(node) = nodes.iter().find(|node| topology.node(**node).is_none()) {
            let what = format!("there is no node {node}");
            return Err(unsupported(what, "`frostline doctor` lists the nodes"));
        }
        let others = topology.nodes.iter().filter(|other| !nodes.contains(&other.id));
        let fast = others.max_by_key(|node| (!node.cpus.is_empty(), node.total_bytes));
        let Some(fast) = fast else {
            let what = match &*nodes {
                [node] => format!("node {node} is the only one"),
                _ => "all nodes are slow tiers".into(),
            };
            return Err(unsupported(what, "take --slow zram, which needs one node only"));
        };
        Place::Node(fast.id)
    };
    let slower = nodes.into_iter().map(Place::Node).chain(last);
    let tiers = std::iter::once(fast).chain(slower).collect();
    // Where nodes cannot be told by frames, the kernel is asked for every page.
    let frames = FrameNodes::read(root).ok();
    Ok(Places { tiers, device: None, planned: None, frames })
}

/// Has a policy do without what no source here gives, where it can and the user does not insist;
/// says how it departs from its source then.
fn suit(
    policy: &str,
    needs: Telemetry,
    faults: Faults,
    notes: &mut Notes,
) -> Result<String, DriverError> {
    let entry = frostline_core::policy::registry::check(policy)?;
    let spec = Spec::parse(policy).map_err(frostline_core::policy::PolicyError::from)?;
    let free = |key: &str| entry.default_of(key).is_some() && spec.get(key).is_none();
    let name = entry.name;
    let mut parameters = Vec::new();
    if needs.counters && free("throttle") {
        parameters.push(("throttle", "off"));
        notes.push(format!(
            "nothing here counts accesses by tier: {name} never pauses (throttle=off)"
        ));
    }
    if needs.faults && needs.swap_faults {
        match faults {
            Faults::Never if free("eager") => {
                parameters.push(("eager", "on"));
                notes.push(format!(
                    "pages in nodes cannot be unmapped from outside a program: {name} moves what it \
                     finds hot at once, not at the next touch (eager=on), which departs from its source"
                ));
            }
            Faults::Never => {}
            Faults::Armed => notes.push(format!(
                "pages in nodes whose next touch {name} wants to know are taken out of their places \
                 (userfaultfd), and come back when they are touched"
            )),
            Faults::Swap => notes.push(format!(
                "pages in swap fault by themselves and come in at their first touch, whether {name} \
                 has found them hot or not"
            )),
        }
    }
    with_parameters(policy, &parameters)
}

/// What a policy wishes of new memory, which nobody can choose here but the kernel.
fn unheard(policy: &str, facts: &Facts) -> Option<String> {
    facts.starts_slow.then(|| {
        format!(
            "new memory is fast here, as the kernel allocates it: {policy}, which would begin all or some of it \
             in slow memory, moves it there afterwards as far as it demotes at all"
        )
    })
}

/// Refuses policies that need what no source here gives.
fn check(policy: &str, needs: Telemetry, faults: Faults) -> Result<(), DriverError> {
    let faults = needs.faults && (faults == Faults::Never || !needs.swap_faults);
    let other = match needs.swap_faults {
        true => {
            "take --slow zram, where pages fault by themselves, or `frostline run --in-process` as root, \
             which has those in nodes fault"
        }
        false => "take a policy that works with samples",
    };
    let uncounted = match needs.access_bits {
        true => "leave `throttle` to frostline, or set it to `off`",
        false => "take a policy that works with samples",
    };
    let missing = [
        (needs.offline, "knowledge of the future", "it runs in `frostline sim` only"),
        (faults, "faults on armed pages", other),
        (needs.counters, "counters of accesses by tier", uncounted),
    ];
    match missing.into_iter().find(|(needed, ..)| *needed) {
        Some((_, what, hint)) => Err(DriverError::Telemetry { policy: policy.into(), what, hint }),
        None => Ok(()),
    }
}

/// Sets parameters that the policy has and the user did not set.
fn with_parameters(policy: &str, parameters: &[(&str, &str)]) -> Result<String, DriverError> {
    if parameters.is_empty() {
        return Ok(policy.to_owned());
    }
    let mut spec = Spec::parse(policy).map_err(frostline_core::policy::PolicyError::from)?;
    let entry = frostline_core::policy::registry::check(policy)?;
    for (key, value) in parameters {
        if entry.default_of(key).is_some() && spec.get(key).is_none() {
            spec = spec.with(key, value);
        }
    }
    Ok(spec.to_string())
}

/// A driver's time: nanoseconds since it was made.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Nanos);

impl Stopwatch {
    /// Begins now.
    pub fn start() -> Self {
        Self(clock::monotonic())
    }

    /// Time since then.
    pub fn elapsed(self) -> Nanos {
        clock::monotonic().saturating_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a policy, and what is said of it.
    fn suited(policy: &str, faults: Faults) -> String {
        let mut notes = Notes::new();
        let needs = |policy: &str| facts(policy, &Offer::default()).unwrap().needs;
        let suited = suit(policy, needs(policy), faults, &mut notes).unwrap();
        match check(&suited, needs(&suited), faults) {
            Ok(()) => format!("{suited} {}", notes.join("; ")),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn policies_do_without_what_is_not_to_be_had_or_are_refused() {
        let nodes = suited("hotbox", Faults::Never);
        assert!(nodes.starts_with("hotbox:throttle=off:eager=on "), "{nodes}");
        assert!(nodes.contains("never pauses") && nodes.contains("departs from its source"));
        let inside = suited("hotbox", Faults::Armed);
        assert!(inside.starts_with("hotbox:throttle=off "), "{inside}");
        assert!(inside.contains("never pauses") && inside.contains("userfaultfd"), "{inside}");
        assert!(suited("pet", Faults::Armed).starts_with("pet "));
        let outside = suited("pet", Faults::Never);
        assert!(outside.contains("hint: ") && outside.contains("--in-process"), "{outside}");
        let swap = suited("hotbox", Faults::Swap);
        assert!(swap.starts_with("hotbox:throttle=off "), "{swap}");
        assert!(swap.contains("first touch"), "{swap}");
        assert_eq!(
            suited("hotbox-eager:throttle=off", Faults::Never),
            "hotbox-eager:throttle=off "
        );
        assert_eq!(suited("hybridtier", Faults::Never), "hybridtier ");
        let counters = suited("hotbox:throttle=on", Faults::Never);
        assert!(counters.contains("counters") && counters.contains("hint: leave"), "{counters}");
        let waits = suited("hotbox:eager=off", Faults::Never);
        assert!(waits.contains("faults") && waits.contains("hint: take --slow zram"), "{waits}");
        for faults in [Faults::Never, Faults::Swap, Faults::Armed] {
            let refused = suited("autonuma", faults);
            assert!(refused.contains("faults") && refused.contains("hint: "), "{refused}");
        }
        assert!(suited("swap-lru", Faults::Swap).starts_with("swap-lru "));
    }

    #[test]
    fn who_cannot_begin_in_slow_memory_here_is_told() {
        let told = |policy: &str| unheard(policy, &facts(policy, &Offer::default()).unwrap());
        for policy in ["arc", "twoq", "interleave", "all-slow"] {
            assert!(told(policy).is_some_and(|note| note.contains(policy)), "{policy}");
        }
        for policy in ["memtis", "hybridtier", "hotbox", "pet", "first-touch"] {
            assert_eq!(told(policy), None, "{policy}");
        }
    }

    #[test]
    fn policies_take_parameters_that_they_have_and_that_nobody_has_set() {
        let rare = [("adaptation", "2000"), ("batch", "2000"), ("frequency-cooling", "3.2")];
        let with = |policy: &str| with_parameters(policy, &rare).unwrap();
        assert_eq!(with("memtis"), "memtis:adaptation=2000");
        assert_eq!(with("hybridtier"), "hybridtier:batch=2000:frequency-cooling=3.2");
        assert_eq!(with("hybridtier:batch=7"), "hybridtier:batch=7:frequency-cooling=3.2");
        assert_eq!(with("first-touch"), "first-touch");
    }
}
