//! Validation of generators against the programs that they stand for.

pub mod pairs;
pub mod programs;
pub mod report;
pub mod show;

use crate::names::chosen;
use frostline_terminal::errors::failure;
use pairs::{Nothing, Pair};
use programs::{ALL, Program};
use std::path::Path;

/// Records, profiles and compares the programs of these names, or all of them where none is given.
///
/// # Errors
/// A name that has no program beside it, and a stop by the user. What is missing or fails is in
/// the pairs.
pub fn validate(names: &[String], dir: &Path) -> anyhow::Result<Vec<Pair>> {
    let unknown = ": no real program is known to be held against it";
    let programs = chosen(ALL, |program: &Program| program.name, names, unknown)?;
    programs.into_iter().map(|program| Pair::of(program, dir)).collect()
}

/// The first thing that a user who asked for these by name did not get; where none was named, only
/// what failed counts.
///
/// # Errors
/// That thing.
pub fn check(pairs: Vec<Pair>, named: bool) -> anyhow::Result<()> {
    for pair in pairs {
        match pair.outcome {
            Err(Nothing::Missing(missing)) if named => {
                let (what, hint) = missing.split_once(": ").unwrap_or((&missing, ""));
                return Err(failure(format!("{}: {what}", pair.program.name), hint));
            }
            Err(Nothing::Failed(error)) => return Err(error.context(pair.program.name)),
            _ => {}
        }
    }
    Ok(())
}
