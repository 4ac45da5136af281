//! The best sources that a system has for what a policy needs.

use super::Source;
use super::allocations::Allocations;
use super::damon::DamonPages;
use super::hint_faults::HintFaults;
use super::idle::IdlePages;
use super::pmu::Pmu;
use super::refaults::Refaults;
use super::sweeps::Sweeps;
use super::writes::Writes;
use crate::options::Options;
use crate::place::{Place, Places};
use frostline_core::event::SampleKind;
use frostline_core::policy::{Origin, Sampling, Telemetry};
use frostline_core::spec::SpecError;
use frostline_core::types::Nanos;
use frostline_daemon::COUNTED;
use frostline_linux::accesses::balancing::{self, Availability};
use frostline_linux::accesses::damon;
use frostline_linux::changes::Changes;
use frostline_linux::files::closings::Closings;
use frostline_linux::perf::pmu::{self, PmuSource};
use frostline_linux::{LinuxError, Root};
use std::num::NonZeroU32;
use std::str::FromStr;

/// Where samples of accesses shall come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Samples {
    /// The first of the others that works here.
    #[default]
    Auto,
    /// The processor's sampling unit.
    Pmu,
    /// NUMA hint faults of pages in slower nodes; DAMON or idle page tracking for fast ones, where
    /// there is either.
    HintFaults,
    /// DAMON.
    Damon,
    /// Idle page tracking.
    PageIdle,
    /// Access bits in page tables, of all pages again and again.
    PageTables,
    /// Pages that come back from swap.
    Refaults,
}

impl Samples {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Auto, "auto"),
        (Self::Pmu, "pmu"),
        (Self::HintFaults, "hint-faults"),
        (Self::Damon, "damon"),
        (Self::PageIdle, "page-idle"),
        (Self::PageTables, Sweeps::NAME),
        (Self::Refaults, "refaults"),
    ];
}

impl FromStr for Samples {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let names = Self::ALL.map(|(_, name)| name);
        let found = Self::ALL.into_iter().find(|(_, name)| *name == text);
        found
            .map(|(samples, _)| samples)
            .ok_or_else(|| SpecError::unknown("source of samples", text, &names))
    }
}

/// Of so many loads one is counted in the lab, whose programs make fewer of them.
const COUNTED_IN_LAB: u32 = 199;

/// Sources, and what the user should know about them.
#[derive(Default)]
pub struct Choice {
    /// In the order in which they are asked.
    pub sources: Vec<Box<dyn Source>>,
    /// Samples of loads that come from them, where the policy wants any.
    pub loads: Option<Sampling>,
    /// Programs make as many accesses in all their life as others in a second.
    pub brief: bool,
    /// Where samples come from; `None` where the policy needs none.
    pub why: Option<String>,
    /// How allocations are followed; `None` where nobody needs to know.
    pub allocations: Option<String>,
    /// Closings of files, where the policy wants to know.
    pub closings: Option<Closings>,
    /// What is said of that: how they are followed, or why they cannot be.
    pub files: Option<String>,
    /// Samples come from refaults alone: a page in use must be paged out now and then to be seen.
    pub probes: bool,
    /// Touches that are seen anyway stand for access bits of single pages.
    pub answers: bool,
}

impl Choice {
    /// Adds to what is said of samples.
    fn say(&mut self, text: &str) {
        let why = self.why.get_or_insert_default();
        let and = if why.is_empty() { "" } else { "; " };
        *why += and;
        *why += text;
    }
}

/// Samples of loads by these sources, the best of them first.
fn loads_of(sources: &[Box<dyn Source>]) -> Sampling {
    let has = |names: &[&str]| sources.iter().any(|source| names.contains(&source.name()));
    let of = |origin, per_second| Sampling { origin, per_second, cost_ns: None };
    if has(&["pmu-loads", super::LAB_PMU]) {
        Sampling::HARDWARE
    } else if has(&[HintFaults::NAME]) {
        of(Origin::HintFaults, Some(2500.0))
    } else if has(&[Sweeps::NAME]) {
        of(Origin::Sweeps, Some(10_000.0))
    } else if has(&["damon", "page-idle"]) {
        of(Origin::InTurn, Some(1000.0))
    } else {
        of(Origin::Refaults, Some(1000.0))
    }
}

/// Chooses sources, `inside` the only target or beside all of them. With a swap tier, refaults are always among them:
/// they are moves, too.
///
/// # Errors
/// Where what is wanted cannot be had, and where the kernel refuses a source that it claims to
/// have; [`LinuxError::Unsupported`] where the extents of allocations, or access bits, are needed
/// and cannot be had.
pub fn choose(
    root: &Root,
    needs: Telemetry,
    options: &Options,
    places: &Places,
    inside: bool,
) -> Result<Choice, LinuxError> {
    let here = Here::new(root, places, options, inside);
    let mut choice = of_loads(needs, options, &here)?;
    let counts_stores = |name| name == Pmu::STORES || name == super::LAB_PMU;
    let sampled = choice.sources.iter().any(|source| counts_stores(source.name()));
    if needs.store_sample_period > 0
        && !sampled
        && let Ok(writes) = Writes::new(root, options.cpu_limit.get(), needs.store_sample_period)
    {
        choice.sources.push(Box::new(writes));
        choice.say("stores come from soft-dirty bits, which CRIU must not use meanwhile");
    }
    if needs.counters && !choice.loads.is_some_and(|loads| loads.counts_accesses()) {
        let counted = if here.lab() { COUNTED_IN_LAB } else { COUNTED };
        let loads = Telemetry { load_sample_period: counted, ..Telemetry::default() };
        if let Some((sources, _)) = here.pmu(loads)? {
            choice.sources.extend(sources);
            choice.say(
                "accesses are counted by tier, by one load of many that the processor samples",
            );
        }
    }
    let has_hints = choice.sources.iter().any(|source| source.name() == HintFaults::NAME);
    if needs.faults && !inside && !has_hints && here.slower_nodes(false).is_ok() {
        choice.sources.push(Box::new(HintFaults::new(Changes::of_this_process(root)?)?));
    }
    if needs.access_bits {
        add_bits(&here, needs.swap_faults, &mut choice)?;
    }
    if needs.allocation_extents {
        choice.sources.push(Box::new(Allocations::new(root)?));
        let how = "allocations are followed by tracepoints, in the extents that were asked for";
        choice.allocations = Some(how.into());
    }
    if needs.closed_files && options.moves() {
        add_closings(&mut choice);
    }
    Ok(choice)
}

/// Whether accesses can be counted by tier: where slow memory is accessed where it is, and loads are sampled.
///
/// # Errors
/// Where what the processor offers cannot be read.
pub fn can_count(root: &Root, places: &Places, options: &Options) -> Result<bool, LinuxError> {
    let here = Here::new(root, places, options, false);
    let nodes = places.tiers.iter().skip(1).any(|place| matches!(place, Place::Node(_)));
    Ok(nodes && (here.lab() || Pmu::best(&pmu::sources(root)?, SampleKind::LoadMiss).is_some()))
}

/// Whether touches of pages in slower nodes can be had by hint faults.
///
/// # Errors
/// Where the kernel's settings cannot be read.
pub fn can_hint(root: &Root, places: &Places, options: &Options) -> Result<bool, LinuxError> {
    match Here::new(root, places, options, false).slower_nodes(false) {
        Err(LinuxError::Unsupported { .. }) => Ok(false),
        other => other.map(|()| true),
    }
}

/// What tells of closed files; a policy does without where nothing can.
fn add_closings(choice: &mut Choice) {
    choice.files = Some(match Closings::new() {
        Ok(closings) => {
            choice.closings = Some(closings);
            "files of 128 KiB and more that nobody holds open any more leave fast memory, too"
                .into()
        }
        Err(error) => briefly(&error),
    });
}

/// A source that tells of accesses to single pages; with `returns`, a policy for swap space that does
/// without one.
fn add_bits(here: &Here<'_>, returns: bool, choice: &mut Choice) -> Result<(), LinuxError> {
    let can = |source: &dyn Source| source.wants_pages(Nanos::MAX) > 0;
    let has = |name: &str| choice.sources.iter().any(|source| source.name() == name);
    let how = if has(Sweeps::NAME) {
        choice.answers = true;
        "access bits are those of the last round".to_owned()
    } else if let Some(source) = choice.sources.iter().find(|source| can(&***source)) {
        format!("access bits come from {}, some pages at a time", source.name())
    } else if let Ok((sources, _)) = here.looks() {
        choice.sources.extend(sources);
        return add_bits(here, returns, choice);
    } else if returns {
        choice.answers = true;
        "access bits cannot be had: a page counts as accessed where it has come back from swap since it was \
         last asked about"
            .to_owned()
    } else {
        return Err(LinuxError::Unsupported {
            what: "access bits of single pages cannot be had: page tables cannot be read, there is no idle page \
                   tracking, and DAMON is missing or used by somebody else"
                .into(),
            hint: "take a policy that works with samples; `frostline doctor` says what would help"
                .into(),
        });
    };
    choice.say(&how);
    Ok(())
}

fn of_loads(needs: Telemetry, options: &Options, here: &Here<'_>) -> Result<Choice, LinuxError> {
    let swap = here.places.swap().is_some();
    let mut choice = Choice::default();
    if swap {
        choice.sources.push(Box::new(Refaults::new(here.root)?));
    }
    if needs.load_sample_period == 0 {
        return Ok(choice);
    }
    let (sources, why) = match *options.samples {
        Samples::Auto => here.best(needs)?,
        Samples::Pmu => here
            .pmu(needs)?
            .ok_or_else(|| unsupported("no processor here can sample", "take --samples auto"))?,
        Samples::HintFaults => here.hint_faults(true)?,
        Samples::Damon => here.damon()?,
        Samples::PageIdle => here.page_idle()?,
        Samples::PageTables => here.page_tables()?,
        Samples::Refaults if swap => here.refaults(),
        Samples::Refaults => {
            return Err(unsupported(
                "no samples from refaults: no tier is swap",
                "add --slow zram, or take --samples auto",
            ));
        }
    };
    choice.probes = swap && sources.is_empty();
    choice.sources.extend(sources);
    choice.loads = Some(loads_of(&choice.sources));
    choice.brief = choice.sources.iter().any(|source| source.name() == super::LAB_PMU);
    choice.why = Some(why);
    Ok(choice)
}

fn unsupported(what: &str, hint: &str) -> LinuxError {
    LinuxError::Unsupported { what: what.into(), hint: hint.into() }
}

/// Sources, and what is said of them.
type Found = (Vec<Box<dyn Source>>, String);
/// An error in a few words.
fn briefly(error: &LinuxError) -> String {
    match error {
        LinuxError::Unsupported { what, .. } => what.clone(),
        other => other.to_string(),
    }
}

struct Here<'a> {
    root: &'a Root,
    places: &'a Places,
    cpu_share: f64,
    dry_run: bool,
    /// We live in the only target.
    inside: bool,
}

impl<'a> Here<'a> {
    fn new(root: &'a Root, places: &'a Places, options: &Options, inside: bool) -> Self {
        let (cpu_share, dry_run) = (options.cpu_limit.get(), options.dry_run);
        Self { root, places, cpu_share, dry_run, inside }
    }

    /// Whether this is the lab's machine, which samples accesses itself.
    fn lab(&self) -> bool {
        #[cfg(feature = "lab")]
        return matches!(frostline_linux::lab::LabMemory::find(self.root), Ok(Some(_)));
        #[cfg(not(feature = "lab"))]
        false
    }

    fn best(&self, needs: Telemetry) -> Result<Found, LinuxError> {
        if let Some(found) = self.pmu(needs)? {
            return Ok(found);
        }
        let swap = self.places.swap().is_some();
        if !self.places.tiers.iter().skip(1).any(|place| matches!(place, Place::Node(_))) {
            return Ok(match swap {
                true => self.page_tables().unwrap_or_else(|_| self.refaults()),
                false => self.looks().unwrap_or_else(|_| {
                    let text = "nothing here tells which memory is in use\n\
                                hint: `frostline doctor` says what this system lacks";
                    (Vec::new(), text.into())
                }),
            });
        }
        let (sources, mut text) = self.for_nodes();
        if swap {
            text += "; those of pages in swap from refaults";
        }
        Ok((sources, text))
    }

    /// The best for slower nodes.
    fn for_nodes(&self) -> Found {
        let no_faults = match self.hint_faults(false) {
            Ok(found) => return found,
            Err(error) => briefly(&error),
        };
        let (sources, mut text) = match self.looks() {
            Ok(found) => found,
            Err(_) => {
                let text = "no source of samples for nodes: the policy will not learn which pages \
                            are hot\nhint: `frostline doctor` says what this system lacks";
                return (Vec::new(), text.into());
            }
        };
        text += &format!("; {no_faults}");
        (sources, text)
    }

    fn pmu(&self, needs: Telemetry) -> Result<Option<Found>, LinuxError> {
        #[cfg(feature = "lab")]
        if let Some(memory) = frostline_linux::lab::LabMemory::find(self.root)? {
            use super::lab_pmu::LabPmu;
            let (loads, stores) = (needs.load_sample_period, needs.store_sample_period);
            let text = "samples come from the lab's machine";
            return Ok(Some((vec![Box::new(LabPmu::new(memory, loads, stores))], text.into())));
        }
        self.hardware(&pmu::sources(self.root)?, needs)
    }

    fn hardware(
        &self,
        hardware: &[PmuSource],
        needs: Telemetry,
    ) -> Result<Option<Found>, LinuxError> {
        let sampler = |kind, period| {
            let wanted = NonZeroU32::new(period).zip(Pmu::best(hardware, kind));
            wanted.map(|(period, source)| Pmu::new(self.root, source, kind, period)).transpose()
        };
        let Some(loads) = sampler(SampleKind::LoadMiss, needs.load_sample_period)? else {
            return Ok(None);
        };
        let text = format!("samples come from the processor ({})", loads.source());
        let mut sources: Vec<Box<dyn Source>> = vec![Box::new(loads)];
        if let Some(stores) = sampler(SampleKind::Store, needs.store_sample_period)? {
            sources.push(Box::new(stores));
        }
        Ok(Some((sources, text)))
    }

    fn refaults(&self) -> Found {
        let text = "samples come from refaults: pages that are paged out, some at random among \
                    them, and touched again";
        (Vec::new(), text.into())
    }

    /// With `insist`, also where that overrules what the administrator has set.
    fn hint_faults(&self, insist: bool) -> Result<Found, LinuxError> {
        self.slower_nodes(insist)?;
        let faults = HintFaults::new(Changes::of_this_process(self.root)?)?;
        let mut text = format!(
            "samples come from hint faults of pages in slower nodes ({})",
            HintFaults::TAKES
        );
        if !faults.sees_slower_tiers() {
            text += ", as soon as less fast memory is free";
        }
        let mut sources: Vec<Box<dyn Source>> = vec![Box::new(faults)];
        if let Ok((others, _)) = self.looks() {
            let names: Vec<&str> = others.iter().map(|other| other.name()).collect();
            text += &format!(", and from {} for fast pages", names.join(", "));
            sources.extend(others);
        }
        Ok((sources, text))
    }

    /// Refuses where pages of the slower nodes cannot have hint faults.
    fn slower_nodes(&self, insist: bool) -> Result<(), LinuxError> {
        let no = |what: &str, hint: &str| unsupported(&format!("no hint faults: {what}"), hint);
        let nodes = match balancing::availability(self.root)? {
            Availability::Free { nodes, .. } => nodes,
            Availability::Promoting { nodes, .. } if insist => nodes,
            Availability::Promoting { mode, .. } => {
                return Err(no(
                    &format!("by kernel.numa_balancing={mode}, the kernel promotes pages itself"),
                    "--samples hint-faults stops that for the time being",
                ));
            }
            Availability::NoLowerTier => {
                let what = "to the kernel, all nodes are of one tier";
                return Err(no(what, "firmware must report speeds (HMAT)"));
            }
            Availability::Missing => {
                let what = "the kernel cannot be kept from promoting";
                return Err(no(what, "needs Linux 6.1 with CONFIG_NUMA_BALANCING"));
            }
        };
        if self.dry_run {
            let what = "they take a setting of the kernel's, and a dry run changes none";
            return Err(no(what, "take --samples auto"));
        }
        let slower = |place: &Place| matches!(place, Place::Node(node) if nodes.contains(node));
        if !self.places.tiers.iter().skip(1).filter(|place| **place != Place::Swap).all(slower) {
            let what = "the slow node is in no lower tier of the kernel's";
            return Err(no(what, "`frostline doctor` lists the tiers"));
        }
        if !self.places.tiers.iter().skip(1).any(slower) {
            return Err(no("no tier is a slower node", "take --samples auto"));
        }
        Ok(())
    }

    /// Who tells of touches of pages wherever they are.
    fn looks(&self) -> Result<Found, LinuxError> {
        self.page_tables().or_else(|_| self.damon()).or_else(|_| self.page_idle())
    }

    fn damon(&self) -> Result<Found, LinuxError> {
        damon::check_free(self.root)?;
        let changes = Changes::of_this_process(self.root)?;
        let source = DamonPages::new(changes, self.cpu_share);
        let text = "samples come from DAMON, which looks at some pages at a time";
        Ok((vec![Box::new(source)], text.into()))
    }

    fn page_tables(&self) -> Result<Found, LinuxError> {
        if self.inside {
            // It takes rights over the kernel's memory, which nobody gives a program for its own.
            return Err(unsupported(
                "page tables are not read from inside",
                "take --samples auto, or attach from outside",
            ));
        }
        let source = Sweeps::new(self.root, self.cpu_share)?;
        let text = "samples come from access bits in page tables, which are read again and again";
        Ok((vec![Box::new(source)], text.into()))
    }

    fn page_idle(&self) -> Result<Found, LinuxError> {
        let source = IdlePages::new(self.root, self.cpu_share)?;
        let text = "samples come from idle page tracking, which looks at some pages at a time";
        Ok((vec![Box::new(source)], text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::two_tiers;
    use super::*;
    use frostline_linux::accesses::balancing::{MODE, RATE};
    use frostline_testing::{Requirement, skip};

    fn choose_here(root: &Root, samples: &str, places: &[Place], dry_run: bool) -> String {
        let needs = Telemetry { load_sample_period: 200, ..Telemetry::default() };
        choose_for(root, needs, samples, places, dry_run)
    }

    fn choose_for(
        root: &Root,
        needs: Telemetry,
        samples: &str,
        places: &[Place],
        dry_run: bool,
    ) -> String {
        let options = Options {
            slow: Some("node:1".parse().expect("right")),
            cpu_limit: "10%".parse().expect("right"),
            samples: samples.parse().expect("right"),
            dry_run,
            ..Options::default()
        };
        let places = Places { tiers: places.to_vec(), device: None, planned: None, frames: None };
        match choose(root, needs, &options, &places, false) {
            Err(error) => format!("error: {error}"),
            Ok(choice) => {
                let names: Vec<&str> = choice.sources.iter().map(|s| s.name()).collect();
                let in_turn = choice.loads.is_some_and(|loads| loads.looks_in_turn());
                format!("{names:?} {in_turn} {}", choice.why.unwrap_or_default())
            }
        }
    }

    const NODES: &[Place] = &[Place::Node(0), Place::Node(1)];

    #[test]
    fn names_are_read_and_written() {
        for (samples, name) in Samples::ALL {
            assert_eq!(name.parse::<Samples>(), Ok(samples));
        }
        let error = "damn".parse::<Samples>().unwrap_err().to_string();
        assert!(error.contains("`damon`"), "{error}");
    }

    #[test]
    fn hint_faults_come_first_and_leave_no_trace() {
        let Some((_dir, root)) = two_tiers("1") else { return };
        let settings = || [MODE, RATE].map(|path| root.read(path).unwrap());
        for samples in ["auto", "hint-faults"] {
            let text = choose_here(&root, samples, NODES, false);
            assert!(text.starts_with("[\"hint-faults\"] true samples come from hint"), "{text}");
        }
        assert_eq!(settings(), ["1", "65536"]);
        let text = choose_here(&root, "auto", NODES, true);
        assert!(text.starts_with("[] false no source") && text.contains("hint:"), "{text}");
        let text = choose_here(&root, "hint-faults", NODES, true);
        assert!(text.contains("dry run") && text.contains("\nhint: "), "{text}");
        let both = [Place::Node(0), Place::Node(1), Place::Swap];
        let text = choose_here(&root, "auto", &both, false);
        assert!(text.starts_with("[\"refaults\", \"hint-faults\"] true"), "{text}");
    }

    #[test]
    fn who_wants_to_know_of_touches_gets_hint_faults_beside_access_bits() {
        let Some((_dir, root)) = two_tiers("0") else { return };
        let needs = Telemetry { faults: true, swap_faults: true, ..Telemetry::default() };
        let text = choose_for(&root, needs, "auto", NODES, false);
        assert!(text.starts_with("[\"hint-faults\"] false"), "{text}");
        let swap = [Place::Memory, Place::Swap];
        let text = choose_for(&root, needs, "auto", &swap, false);
        assert!(text.starts_with("[\"refaults\"] false"), "{text}");
    }

    #[test]
    fn page_tables_tell_of_all_memory_and_answer_about_single_pages() {
        let root = Root::system();
        if let Err(error) = Sweeps::new(&root, 0.1) {
            return skip(Requirement::PageTables, error);
        }
        let text = choose_here(&root, "auto", NODES, false);
        assert!(text.contains("\"page-tables\"]"), "{text}");
        let bits = Telemetry { access_bits: true, swap_faults: true, ..Telemetry::default() };
        let swap = [Place::Node(0), Place::Swap];
        let text = choose_for(&root, bits, "auto", &swap, false);
        assert!(text.starts_with("[\"refaults\", \"page-tables\"] false"), "{text}");
        assert!(text.ends_with("access bits are those of the last round"), "{text}");
    }

    #[test]
    fn what_the_administrator_wants_is_overruled_only_on_demand() {
        let Some((_dir, root)) = two_tiers("2") else { return };
        let text = choose_here(&root, "auto", NODES, false);
        assert!(text.starts_with("[] false"), "{text}");
        let text = choose_here(&root, "hint-faults", NODES, false);
        assert!(text.starts_with("[\"hint-faults\"] true"), "{text}");
        assert_eq!(root.read(RATE).unwrap(), "65536");
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_hint() {
        let Some((_dir, root)) = two_tiers("0") else { return };
        let swap = [Place::Memory, Place::Swap];
        for (samples, places, what) in [
            ("refaults", NODES, "no tier is swap"),
            ("pmu", NODES, "no processor"),
            ("damon", NODES, "no DAMON"),
            ("page-idle", NODES, "idle pages"),
            ("hint-faults", &swap, "no tier is a slower node"),
            ("hint-faults", &[Place::Node(1), Place::Node(0)], "no lower tier"),
        ] {
            let text = choose_here(&root, samples, places, false);
            assert!(text.starts_with("error: ") && text.contains("\nhint: "), "{text}");
            assert!(text.contains(what), "{samples}: {text}");
        }
        let text = choose_here(&root, "auto", &swap, false);
        assert!(text.starts_with("[\"refaults\"] false samples come from refaults"), "{text}");
    }

    #[test]
    fn what_a_policy_needs_beyond_samples_is_there_or_missed() {
        let Some((dir, root)) = two_tiers("0") else { return };
        let with = |needs| choose_for(&root, needs, "auto", NODES, false);
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        std::fs::write(dir.path().join("proc/self/mounts"), "").unwrap();
        let extents = Telemetry { allocation_extents: true, ..Telemetry::default() };
        let text = with(extents);
        assert!(text.starts_with("error: allocations cannot be followed: "), "{text}");
        assert!(text.contains("\nhint: "), "{text}");
        let bits = Telemetry { access_bits: true, ..Telemetry::default() };
        let text = with(bits);
        assert!(text.starts_with("error: access bits of single pages"), "{text}");
        assert!(text.contains("\nhint: "), "{text}");
        let bitmap = dir.path().join("sys/kernel/mm/page_idle/bitmap");
        std::fs::create_dir_all(bitmap.parent().unwrap()).unwrap();
        std::fs::write(bitmap, [0; 64]).unwrap();
        assert_eq!(
            with(bits),
            "[\"page-idle\"] false access bits come from page-idle, some pages at a time"
        );
        let stores = Telemetry { store_sample_period: 100, ..Telemetry::default() };
        let text = with(stores);
        match frostline_linux::accesses::soft_dirty::check_support() {
            Ok(()) => assert!(text.starts_with("[\"soft-dirty\"] false stores come"), "{text}"),
            Err(_) => assert_eq!(text, "[] false "),
        }
    }
}
