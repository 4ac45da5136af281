//! Start of a driver: the options of the user, checked against what this system offers.

use crate::driver::Driver;
use crate::error::DriverError;
use crate::journal::Setup;
use crate::left_alone::LeftAlone;
use crate::losses::Losses;
use crate::options::Options;
use crate::place::{Place, Places};
use crate::source::choice::{can_count, can_hint, choose};
use crate::source::hint_faults::HintFaults;
use crate::watched::Selection;
use crate::{SlowTier, SlowTiers};
use frostline_core::TierLimits;
use frostline_core::engine::EngineConfig;
use frostline_core::event::SampleKind;
use frostline_core::policy::registry::{self, terms};
use frostline_core::policy::{
    Facts, Faults, Lack, Offer, Offered, Suited, Telemetry, Terms, TierOffer,
};
use frostline_core::span::Span;
use frostline_core::types::*;
use frostline_inprocess::next_touch::{MOST_PAGES, NextTouch};
use frostline_linux::groups::{GroupName, Trees};
use frostline_linux::latency;
use frostline_linux::pages::frames::FrameNodes;
use frostline_linux::process::clock;
use frostline_linux::topology::Topology;
use frostline_linux::{LinuxError, Root, process, swap};

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

fn begin(
    root: Root,
    mut options: Options,
    selection: Selection,
    own: Option<fn() -> Vec<Span>>,
) -> Result<(Driver, Notes), DriverError> {
    let mut notes = Notes::new();
    let mut places = places(&root, options.tiers())?;
    places.device = options.swap_device.clone();
    if let (true, Some(SlowTier::Zram { size, .. })) = (options.dry_run, options.tiers().zram()) {
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
    let fast = options.most_fast().bytes(Bytes(resident)).pages();
    let mut offer =
        Offer { seed: options.seed, fast_pages: fast, total_pages_hint: pages, ..live() };
    let asked = options.policy.clone();
    let asked = asked.text();
    let wished = terms(asked, &Offer::default())?.facts.needs;
    let direct = (1..places.tiers.len()).any(|tier| places.is_direct(TierId(tier as u8)));
    let arms = own.is_some() && direct && wished.faults && wished.swap_faults && !options.dry_run;
    let next_touch = match arms.then(NextTouch::begin).transpose() {
        Ok(next_touch) => next_touch,
        Err(error) => {
            notes.push(format!("pages in nodes do not fault: {error}").replace('\n', "; "));
            None
        }
    };
    offer.telemetry.faults = match (direct, &next_touch) {
        (false, _) => Faults::Swap,
        (true, Some(_)) => Faults::Slower,
        (true, None) if own.is_none() && can_hint(&root, &places, &options)? => Faults::Hints,
        (true, None) => Faults::Never,
    };
    offer.telemetry.most_armed = next_touch.as_ref().map(|_| PageCount(MOST_PAGES as u64));
    // Who wants none is not kept waiting, or from running, by what would count them.
    offer.telemetry.counters = wished.counters && can_count(&root, &places, &options)?;
    let known = terms(asked, &offer)?;
    notes.extend(departures(asked, wished, &known, offer.telemetry.faults)?);
    check(asked, &known, &offer.telemetry)?;
    if known.facts.swaps && direct {
        let what = "slow memory that is no memory but a swap device";
        let hint = "take --slow zram, or a policy that uses memory where it is".into();
        return Err(DriverError::Telemetry { policy: asked.into(), what, hint });
    }
    let mut needs = known.facts.needs;
    needs.allocation_extents |= options.extents;
    let mut choice = choose(&root, needs, &options, &places, own.is_some())?;
    offer.telemetry.closed_files = choice.closings.is_some() || choice.files.is_none();
    offer.telemetry.loads = choice.loads;
    offer.brief = choice.brief;
    if !options.dry_run {
        notes.extend(measure(&root, &places, &mut offer));
    }
    let measured = (&places, &choice, &offer);
    let losses = Losses::begin(&root, &mut options, measured, own.is_some(), &mut notes)?;
    let fast = options.most_fast().bytes(Bytes(resident)).pages();
    offer.fast_pages = fast;
    let known = terms(asked, &offer)?;
    let suited = known.facts.needs;
    let lacks_files = |fit: &&Suited| matches!(fit.without, Some((Lack::ClosedFiles, _)));
    if suited.closed_files
        && let Some(fit) = known.insisted.iter().find(lacks_files)
    {
        let what = "closings of files";
        let hint = format!("run as root, or leave `{}` to frostline", fit.key);
        return Err(DriverError::Telemetry { policy: asked.into(), what, hint });
    }
    for (kind, before, period) in [
        (SampleKind::LoadMiss, needs.load_sample_period, suited.load_sample_period),
        (SampleKind::Store, needs.store_sample_period, suited.store_sample_period),
    ] {
        if period != before {
            choice.sources.iter_mut().for_each(|source| source.set_period(kind, period));
        }
    }
    let policy = known.name;
    if let Some(why) = &choice.why {
        notes.push(format!("{why} (policy {policy})"));
    }
    notes.extend(missing_telemetry(&policy, &known.facts));
    notes.extend(choice.allocations.clone());
    notes.extend(match known.departures.iter().find(lacks_files) {
        Some(fit) => choice.files.as_ref().map(|why| {
            let instead = fit.without.map_or("", |(_, instead)| instead);
            format!("{instead} ({}={}): {why}", fit.key, fit.value)
        }),
        None => choice.files.clone(),
    });
    let limits = |index: usize| -> Result<TierLimits, LinuxError> {
        let tier = TierId(index as u8);
        let capacity = if tier == TierId::FAST {
            fast
        } else {
            let most = options.tiers().limit(tier).map_or(Bytes::MAX, |l| l.bytes(Bytes(resident)));
            places.free(&root, tier, PageCount::ZERO)?.min(most).pages()
        };
        let direct_access = places.is_direct(tier);
        Ok(TierLimits { capacity, keep_free: PageCount::ZERO, direct_access })
    };
    let setup = Setup {
        policy: asked.into(),
        offer,
        config: EngineConfig {
            tiers: (0..places.tiers.len()).map(limits).collect::<Result<_, _>>()?,
            migration_bytes_per_second: options
                .migration_limit
                .as_deref()
                .map(|limit| limit.bytes()),
            migration_burst: BURST,
        },
    };
    let closings = choice.closings.take();
    let mut driver = Driver::new(root, options, selection, &setup, places, choice, losses)?;
    if let Some(own) = own {
        driver.live_inside(own);
    }
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
    // What swap the system has is nobody's to use then.
    let planned = slow.is_empty().then_some(Bytes::ZERO);
    let slower = nodes.into_iter().map(Place::Node).chain(last);
    let tiers = std::iter::once(fast).chain(slower).collect();
    // Where nodes cannot be told by frames, the kernel is asked for every page.
    let frames = FrameNodes::read(root).ok();
    Ok(Places { tiers, device: None, planned, frames })
}

/// What is offered before sources are known: nobody knows how long accesses take, or the future.
fn live() -> Offer {
    let telemetry = Offered { read_latencies: false, epochs: false, ..Offered::default() };
    Offer { telemetry, shares_cores: true, chooses_page_size: false, ..Offer::default() }
}

/// How much slower a tier is at least than the one before, or both are taken to be emulated.
const LEAST_GAP: f64 = 1.2;

/// Has the offer say what nodes are like and what moves take, where all memory is in nodes.
fn measure(root: &Root, places: &Places, offer: &mut Offer) -> Option<String> {
    let nodes: Option<Vec<u32>> = places
        .tiers
        .iter()
        .map(|place| match place {
            Place::Node(node) => Some(*node),
            Place::Memory | Place::Swap => None,
        })
        .collect();
    match latency::measure(root, &nodes?) {
        Ok(measured) => {
            let loads: Vec<f64> = measured.iter().map(|node| node.load_ns).collect();
            let text: Vec<String> = loads.iter().map(|ns| format!("{ns:.0}")).collect();
            let text = text.join(", ");
            if !loads.is_sorted_by(|fast, slow| *slow > fast * LEAST_GAP) {
                return Some(format!(
                    "a load takes {text} ns by tier, so that slow memory is not slow here; \
                     80 and 300 ns are presumed"
                ));
            }
            offer.tiers = loads.into_iter().map(TierOffer::loads_in).collect();
            offer.costs.base_move_ns = measured.iter().map(|node| node.move_ns).reduce(f64::max);
            let moves = offer.costs.base_move_ns.unwrap_or(0.0) / 1000.0;
            Some(format!("a load takes {text} ns by tier, a move of a page {moves:.1} us"))
        }
        Err(error) => {
            Some(format!("latencies of nodes are not known: {error}").replace('\n', "; "))
        }
    }
}

/// What the user is told of what a policy does without, of what it `wished` for, and of how touches
/// reach it.
fn departures(
    policy: &str,
    wished: Telemetry,
    known: &Terms,
    faults: Faults,
) -> Result<Notes, DriverError> {
    let name = registry::check(policy)?.name;
    let mut notes = Notes::new();
    for Suited { key, value, without } in &known.departures {
        match without {
            Some((Lack::Counters, instead)) => notes.push(format!(
                "nothing here counts accesses by tier: {name} {instead} ({key}={value})"
            )),
            Some((Lack::Faults, instead)) => notes.push(format!(
                "pages in nodes cannot be unmapped from outside a program: {name} {instead} \
                 ({key}={value}), which departs from its source"
            )),
            Some((Lack::PageSize, instead)) => notes.push(format!(
                "the kernel chooses the size of pages: {name} {instead} ({key}={value})"
            )),
            Some((Lack::ClosedFiles, _)) | None => {}
        }
    }
    let sizes = |fit: &&Suited| matches!(fit.without, Some((Lack::PageSize, _)));
    if let Some(Suited { key, .. }) = known.insisted.iter().find(sizes) {
        notes.push(format!("the kernel chooses the size of pages: `{key}` changes nothing"));
    }
    if wished.faults && wished.swap_faults {
        match faults {
            Faults::Slower => notes.push(format!(
                "pages in nodes whose next touch {name} wants to know are taken out of their places \
                 (userfaultfd), and come back when they are touched"
            )),
            Faults::Swap => notes.push(format!(
                "pages in swap fault by themselves and come in at their first touch, whether {name} \
                 has found them hot or not"
            )),
            Faults::Hints => notes.push(format!(
                "touches of pages in nodes come from hint faults, which each page has once in a while, whether \
                 {name} waits for its touch or not ({})",
                HintFaults::TAKES
            )),
            Faults::Any | Faults::Never => {}
        }
    }
    Ok(notes)
}

/// What a policy wishes of new memory, which nobody can choose here but the kernel.
fn missing_telemetry(policy: &str, facts: &Facts) -> Option<String> {
    facts.starts_slow.then(|| {
        format!(
            "new memory is fast here, as the kernel allocates it: {policy}, which would begin all or some of it \
             in slow memory, moves it there afterwards as far as it demotes at all"
        )
    })
}

/// Refuses policies that need what no source here gives.
fn check(policy: &str, known: &Terms, offered: &Offered) -> Result<(), DriverError> {
    let needs = known.facts.needs;
    let faults = needs.faults && (offered.faults == Faults::Never || !needs.swap_faults);
    let other = match needs.swap_faults {
        true => {
            "take --slow zram, where pages fault by themselves, or `frostline run --in-process` as root, \
             which has those in nodes fault; from outside it takes hint faults, of which `frostline doctor` tells"
        }
        false => "take a policy that works with samples",
    };
    let counts = |fit: &&Suited| matches!(fit.without, Some((Lack::Counters, _)));
    let uncounted = match known.insisted.iter().find(counts) {
        Some(Suited { key, value, .. }) => {
            format!("leave `{key}` to frostline, or set it to `{value}`")
        }
        None => "take a policy that works with samples".into(),
    };
    let missing = [
        (needs.offline, "knowledge of the future", "it runs in the simulator only".into()),
        (faults, "faults on armed pages", other.into()),
        (needs.counters && !offered.counters, "counters of accesses by tier", uncounted),
        (
            needs.read_latencies,
            "latencies of reads by tier",
            "take a policy that works with samples".into(),
        ),
    ];
    match missing.into_iter().find(|(needed, ..)| *needed) {
        Some((_, what, hint)) => Err(DriverError::Telemetry { policy: policy.into(), what, hint }),
        None => Ok(()),
    }
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

    /// What becomes of a policy, and what is said of it, where nobody counts accesses by tier.
    fn suited(policy: &str, faults: Faults) -> String {
        suited_to(policy, faults, false)
    }

    fn suited_to(policy: &str, faults: Faults, counters: bool) -> String {
        let mut offer = live();
        (offer.telemetry.faults, offer.telemetry.counters) = (faults, counters);
        let wished = terms(policy, &Offer::default()).unwrap().facts.needs;
        let known = terms(policy, &offer).unwrap();
        let notes = departures(policy, wished, &known, faults).unwrap();
        match check(policy, &known, &offer.telemetry) {
            Ok(()) => format!("{} {}", known.name, notes.join("; ")),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn policies_do_without_what_is_not_to_be_had_or_are_refused() {
        let nodes = suited("hotbox", Faults::Never);
        assert!(nodes.starts_with("hotbox:throttle=off:eager=on:pages=machine "), "{nodes}");
        assert!(nodes.contains("never pauses") && nodes.contains("departs from its source"));
        let inside = suited("hotbox", Faults::Slower);
        assert!(inside.starts_with("hotbox:throttle=off:pages=machine "), "{inside}");
        assert!(inside.contains("never pauses") && inside.contains("userfaultfd"), "{inside}");
        assert!(suited("pet", Faults::Slower).starts_with("pet:pages=machine "));
        for policy in ["pet", "hotbox"] {
            let hinted = suited(policy, Faults::Hints);
            assert!(hinted.contains("hint faults") && !hinted.contains("eager=on"), "{hinted}");
        }
        let outside = suited("pet", Faults::Never);
        assert!(outside.contains("hint: ") && outside.contains("--in-process"), "{outside}");
        let swap = suited("hotbox", Faults::Swap);
        assert!(swap.starts_with("hotbox:throttle=off:pages=machine "), "{swap}");
        assert!(swap.contains("first touch"), "{swap}");
        let eager = suited("hotbox-eager:throttle=off", Faults::Never);
        assert!(eager.starts_with("hotbox-eager:throttle=off:pages=machine "), "{eager}");
        let sizes = "the kernel chooses the size of pages";
        assert_eq!(
            suited("hybridtier", Faults::Never),
            format!(
                "hybridtier:pages=machine {sizes}: hybridtier has pages of the sizes that the system maps (pages=machine)"
            )
        );
        assert_eq!(suited("memtis", Faults::Never), "memtis ");
        let insists = suited("hybridtier:pages=base", Faults::Never);
        assert_eq!(insists, format!("hybridtier {sizes}: `pages` changes nothing"));
        let counters = suited("hotbox:throttle=on", Faults::Never);
        assert!(counters.contains("counters") && counters.contains("hint: leave"), "{counters}");
        let counted = suited_to("hotbox:throttle=on", Faults::Swap, true);
        assert!(counted.starts_with("hotbox:") && !counted.contains("pauses"), "{counted}");
        let waits = suited("hotbox:eager=off", Faults::Never);
        assert!(waits.contains("faults") && waits.contains("hint: take --slow zram"), "{waits}");
        for faults in [Faults::Never, Faults::Swap, Faults::Slower, Faults::Hints] {
            let refused = suited("autonuma", faults);
            assert!(refused.contains("faults") && refused.contains("hint: "), "{refused}");
            let refused = suited("colloid", faults);
            assert!(refused.contains("latencies of reads") && refused.contains("hint: take"));
        }
        assert!(suited("swap-lru", Faults::Swap).starts_with("swap-lru:pages=machine "));
    }

    #[test]
    fn who_cannot_begin_in_slow_memory_here_is_told() {
        let told = |policy: &str| {
            missing_telemetry(policy, &terms(policy, &Offer::default()).unwrap().facts)
        };
        for policy in ["arc", "twoq", "interleave", "all-slow"] {
            assert!(told(policy).is_some_and(|note| note.contains(policy)), "{policy}");
        }
        for policy in ["memtis", "hybridtier", "hotbox", "pet", "first-touch"] {
            assert_eq!(told(policy), None, "{policy}");
        }
    }
}
