//! Validation of generators against the programs that they stand for.

pub mod pairs;
pub mod programs;
pub mod report;
pub mod show;

use frostline_terminal::errors::{failure, usage};
use pairs::{Nothing, Pair};
use programs::{ALL, Program};
use std::path::Path;

/// Records, profiles and compares the programs of these names, or all of them where none is given.
///
/// # Errors
/// A name that has no program beside it, and a stop by the user. What is missing or fails is in
/// the pairs.
pub fn validate(names: &[String], dir: &Path) -> anyhow::Result<Vec<Pair>> {
    let programs: Vec<&'static Program> = match names {
        [] => ALL.iter().collect(),
        names => names.iter().map(|name| find(name)).collect::<Result<_, _>>()?,
    };
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

fn find(name: &str) -> anyhow::Result<&'static Program> {
    let known: Vec<&str> = ALL.iter().map(|program| program.name).collect();
    ALL.iter().find(|program| program.name == name).ok_or_else(|| {
        usage(
            format!("`{name}`: no real program is known to be held against it"),
            format!("there are: {}", known.join(", ")),
        )
    })
}
