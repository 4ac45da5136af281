//! Search for what harms a policy: random small duels with first touch.

pub mod draw;
pub mod duel;
pub mod generators;
pub mod show;

use crate::lines::Lines;
use crate::parallel;
use duel::{Duel, Outcome};
use frostline_terminal::progress::bar;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What all duels of a file have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Policy that is tried.
    pub policy: String,
    /// What all duels are drawn from.
    pub seed: u64,
    /// Digest of the program: another build may simulate something else.
    pub build: String,
}

/// Fights those of the first `cases` duels that `results` does not have yet.
///
/// # Errors
/// Duels that cannot be drawn, a stop, and results that cannot be written. A duel that fails is a result.
pub fn fight(
    settings: &Settings,
    cases: u64,
    jobs: usize,
    results: &mut Lines<Outcome>,
) -> anyhow::Result<()> {
    let done: BTreeSet<u64> = results.rows().iter().map(|one| one.duel.number).collect();
    let numbers: Vec<u64> = (0..cases).filter(|number| !done.contains(number)).collect();
    let bar = bar("fighting", "duels", Some(numbers.len() as u64));
    let results = Mutex::new(results);
    let outcome = parallel::each(&numbers, jobs, |&number, monitor| {
        let duel = Duel::draw(settings.seed, number)?;
        let outcome = duel.fight(&settings.policy, monitor)?;
        bar.inc(1);
        results.lock().unwrap_or_else(PoisonError::into_inner).add(outcome)
    });
    bar.finish_and_clear();
    outcome
}
