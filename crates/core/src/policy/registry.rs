//! The table of all policies.
//!
//! A new policy is its file with an [`Entry`], its test, and one line in [`REGISTRY`].

use super::contract::PolicyError;
use super::entry::{Entry, Group, Made, Terms};
use super::offer::Offer;
use super::{
    arms, autonuma, autotiering, cache, colloid, damon, frost, hemem, hotbox, hybridtier,
    interleave, memtierd, memtis, mglru_pd, multi_clock, nimble, offline, pet, simple, swap_belady,
    swap_lru, thermostat, tmts, tpp,
};
use crate::spec::{self, Spec, SpecError};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Every policy, in the order of listings.
pub static REGISTRY: &[Entry] = &[
    frost::ENTRY,
    memtis::ENTRY,
    memtis::PLUS,
    hybridtier::ENTRY,
    hemem::ENTRY,
    hotbox::ENTRY,
    pet::ENTRY,
    simple::FIRST_TOUCH,
    memtis::NO_SPLIT,
    memtis::NO_WARM,
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
    multi_clock::ENTRY,
    mglru_pd::ENTRY,
    memtierd::ENTRY,
    cache::ARC,
    cache::TWOQ,
    thermostat::ENTRY,
    tmts::ENTRY,
    damon::ENTRY,
    colloid::ENTRY,
    arms::ENTRY,
    swap_lru::ENTRY,
    offline::ORACLE_STATIC,
    offline::ORACLE_EPOCH,
    pet::ORACLE,
    swap_belady::ENTRY,
];

/// The policy that runs where nobody names one.
pub const DEFAULT: &str = frost::ENTRY.name;

/// What Linux does without tiering, the reference of every comparison.
pub const FIRST_TOUCH: &str = simple::FIRST_TOUCH.name;
/// Enough fast memory for everything.
pub const ALL_FAST: &str = simple::ALL_FAST.name;
/// No fast memory.
pub const ALL_SLOW: &str = simple::ALL_SLOW.name;
/// Marks to measure by, which tier nothing.
pub const REFERENCES: [&str; 4] = [FIRST_TOUCH, ALL_FAST, ALL_SLOW, interleave::ENTRY.name];

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
pub fn make(text: &str, offer: &Offer) -> Result<Made, PolicyError> {
    let spec = Spec::parse(text)?;
    find(spec.name())?.make(&spec, offer)
}

/// Makes a policy that the table does not list, by its entry, whose name `text` begins with.
///
/// # Errors
/// As [`make`].
pub fn make_unlisted(entry: &Entry, text: &str, offer: &Offer) -> Result<Made, PolicyError> {
    entry.make(&Spec::parse(text)?, offer)
}

/// What is known of the policy that `text` describes, in a world that offers this, before it is made.
///
/// # Errors
/// As [`make`], but for the oracle.
pub fn terms(text: &str, offer: &Offer) -> Result<Terms, PolicyError> {
    let spec = Spec::parse(text)?;
    find(spec.name())?.terms(&spec, offer)
}

/// Checks a description without making the policy; gives its entry.
///
/// # Errors
/// As [`make`], but for the oracle.
pub fn check(text: &str) -> Result<&'static Entry, PolicyError> {
    let spec = Spec::parse(text)?;
    let entry = find(spec.name())?;
    entry.read(&spec, &Offer::default())?;
    Ok(entry)
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
