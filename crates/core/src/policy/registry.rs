//! The table of all policies.
//!
//! A new policy is its file with an [`Entry`], its test, and one line in [`REGISTRY`].

use super::offline::{self, Oracle};
use super::settings::{Param, Settings};
use super::{
    BoxedPolicy, PolicyError, autonuma, autotiering, cache, damon, hemem, hotbox, hybridtier,
    interleave, memtierd, memtis, mglru_pd, multi_clock, nimble, pet, simple, swap_belady,
    swap_lru, thermostat, tmts, tpp,
};
use crate::engine::MOST_TIER_PAGES;
use crate::spec::{self, Spec, SpecError};
use crate::types::PageCount;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Every policy, in the order of listings.
pub static REGISTRY: &[Entry] = &[
    memtis::ENTRY,
    hybridtier::ENTRY,
    hemem::ENTRY,
    hotbox::ENTRY,
    pet::ENTRY,
    simple::FIRST_TOUCH,
    memtis::NO_SPLIT,
    memtis::NO_WARM,
    memtis::PAPER,
    memtis::ARTIFACT,
    hotbox::NO_THROTTLE,
    hotbox::EAGER,
    pet::NO_FILES,
    hybridtier::EXACT,
    hybridtier::UNBLOCKED,
    hybridtier::FREQUENCY,
    hybridtier::ARTIFACT,
    simple::ALL_FAST,
    simple::ALL_SLOW,
    interleave::ENTRY,
    autonuma::ENTRY,
    autonuma::NO_DEMOTION,
    autonuma::TIERING,
    tpp::ENTRY,
    autotiering::ENTRY,
    nimble::ENTRY,
    nimble::HUGE,
    multi_clock::ENTRY,
    mglru_pd::ENTRY,
    memtierd::ENTRY,
    cache::ARC,
    cache::TWOQ,
    thermostat::ENTRY,
    tmts::ENTRY,
    damon::ENTRY,
    simple::CACHE_LINE,
    swap_lru::ENTRY,
    offline::ORACLE_STATIC,
    offline::ORACLE_EPOCH,
    pet::ORACLE,
    swap_belady::ENTRY,
];

/// What a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Online policies that one would choose between; what `all` stands for.
    Principal,
    /// Policies with parts switched off or changed, to see what the parts do.
    Variants,
    /// References without tiering, and the systems that publications compare with.
    Baselines,
    /// Policies that know the future: bounds, simulator only.
    Offline,
}

impl Group {
    /// Every group.
    pub const ALL: [Self; 4] = [Self::Principal, Self::Variants, Self::Baselines, Self::Offline];

    /// As in lists of policies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Principal => "principal",
            Self::Variants => "variants",
            Self::Baselines => "baselines",
            Self::Offline => "offline",
        }
    }
}

/// What a policy is made for.
#[derive(Clone)]
pub struct PolicyContext {
    /// Seed of its random choices.
    pub seed: u64,
    /// Factor, 1 or more, by which footprint and run length are smaller than those that the
    /// policy's constants were chosen for. Divides intervals in samples and in time; 1 keeps the
    /// constants.
    pub scale: f64,
    /// Capacity of the fastest tier.
    pub fast_pages: PageCount,
    /// Pages that will be resident, where known; to size tables, never to decide.
    pub total_pages_hint: PageCount,
    /// How much slower the next tier is: the difference of latencies over that of the fastest.
    pub latency_gap: f64,
    /// Knowledge of the whole trace, for offline policies.
    pub oracle: Option<Arc<dyn Oracle>>,
}

/// Most pages that tables are given room for before there are any.
const MOST_ROOM: u64 = 1 << 20;

impl PolicyContext {
    /// Pages that tables are given room for at once: the hint, up to 4 GiB of pages. Tables grow beyond
    /// it as pages appear.
    pub fn table_pages(&self) -> PageCount {
        PageCount(self.total_pages_hint.0.min(MOST_ROOM))
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// A scale below 1, a latency gap below 0, more pages than addresses reach.
    pub fn check(&self) -> Result<(), PolicyError> {
        if !(self.scale >= 1.0 && self.scale.is_finite()) {
            let error = SpecError::new(
                alloc::format!("the scale {} is not a finite number of at least 1", self.scale),
                "1 keeps the constants of the policy's source",
            );
            return Err(error.into());
        }
        if !(self.latency_gap >= 0.0 && self.latency_gap.is_finite()) {
            let error = SpecError::new(
                alloc::format!(
                    "the latency gap {} is not a number of at least 0",
                    self.latency_gap
                ),
                "it is how much slower the slow tier is: 2.75 for 80 and 300 ns",
            );
            return Err(error.into());
        }
        for (what, pages) in [("fast", self.fast_pages), ("expected", self.total_pages_hint)] {
            if pages > MOST_TIER_PAGES {
                let error = SpecError::new(
                    alloc::format!("{} {what} pages are more than addresses reach", pages.0),
                    alloc::format!("the most is {}", MOST_TIER_PAGES.0),
                );
                return Err(error.into());
            }
        }
        Ok(())
    }
}

impl Default for PolicyContext {
    /// Seed 0, constants unscaled, 80 and 300 ns, no oracle.
    fn default() -> Self {
        Self {
            seed: 0,
            scale: 1.0,
            fast_pages: PageCount::ZERO,
            total_pages_hint: PageCount::ZERO,
            latency_gap: (300.0 - 80.0) / 80.0,
            oracle: None,
        }
    }
}

/// One policy: how it is called, what it is, how it is made.
pub struct Entry {
    /// Name in specs.
    pub name: &'static str,
    /// What it is for.
    pub group: Group,
    /// One line.
    pub summary: &'static str,
    /// Where it comes from.
    pub citation: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Defaults that replace those of [`Self::params`] (variants).
    pub preset: &'static [(&'static str, &'static str)],
    pub(super) build: fn(Settings, &PolicyContext) -> Result<BoxedPolicy, PolicyError>,
}

impl Entry {
    /// A parameter's default as written in the table, the preset included; `None` where unknown.
    pub fn default_of(&self, key: &str) -> Option<&'static str> {
        let preset = self.preset.iter().find_map(|(k, text)| (*k == key).then_some(*text));
        preset.or_else(|| self.params.iter().find(|p| p.key == key).map(|p| p.default))
    }
}

impl From<SpecError> for PolicyError {
    fn from(error: SpecError) -> Self {
        Self { what: error.to_string() }
    }
}

/// The entry of a name.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn find(name: &str) -> Result<&'static Entry, PolicyError> {
    REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = REGISTRY.iter().map(|entry| entry.name).collect();
        SpecError::unknown("policy", name, &names).into()
    })
}

/// Makes the policy that `text` describes, such as `memtis:alpha=0.75:cooling=0.1x`.
///
/// # Errors
/// An unknown name or parameter, a value of another kind, an offline policy without an oracle, or
/// a context that cannot be: a scale below 1, a latency gap below 0, more pages than addresses reach.
pub fn make(text: &str, context: &PolicyContext) -> Result<BoxedPolicy, PolicyError> {
    let (entry, settings) = read(text, context)?;
    (entry.build)(settings, context)
}

/// Checks a description without making the policy; gives its entry.
///
/// # Errors
/// As [`make`], but for the oracle.
pub fn check(text: &str) -> Result<&'static Entry, PolicyError> {
    read(text, &PolicyContext::default()).map(|(entry, _)| entry)
}

fn read(text: &str, context: &PolicyContext) -> Result<(&'static Entry, Settings), PolicyError> {
    context.check()?;
    let spec = Spec::parse(text)?;
    let entry = find(spec.name())?;
    Ok((entry, Settings::read(&spec, entry.params, entry.preset, context)?))
}

/// Takes a list such as `all,memtis:alpha=0.75,offline` apart: `all` and the names of groups
/// stand for their members, everything else is checked. Each description comes once.
///
/// # Errors
/// As [`check`], and an empty list.
pub fn expand(list: &str) -> Result<Vec<String>, PolicyError> {
    let mut out: Vec<String> = Vec::new();
    let mut push = |text: &str| {
        if !out.iter().any(|known| known == text) {
            out.push(text.to_string());
        }
    };
    for item in spec::list(list) {
        let item_group = if item == "all" { Group::Principal.name() } else { item };
        match Group::ALL.into_iter().find(|group| group.name() == item_group) {
            Some(group) => {
                REGISTRY.iter().filter(|entry| entry.group == group).for_each(|e| push(e.name));
            }
            None => {
                check(item)?;
                push(item);
            }
        }
    }
    if out.is_empty() {
        let names: Vec<&str> = Group::ALL.iter().map(|group| group.name()).collect();
        let hint = alloc::format!("name policies, or a group: all, {}", names.join(", "));
        return Err(SpecError::new("no policy is named", hint).into());
    }
    Ok(out)
}
