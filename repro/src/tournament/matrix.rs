//! Matrix of a tournament, from a file.

use anyhow::Context;
use frostline_core::policy::registry;
use frostline_sim::FastSize;
use frostline_terminal::errors::usage;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The matrix that comes with the program.
const BUILT_IN: &str = include_str!("../../tournament.toml");

/// What plays on what.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Matrix {
    /// Machine models.
    pub machines: Vec<String>,
    /// Sizes of fast memory.
    pub fast: Vec<String>,
    /// Policies and groups of them, separated by commas.
    pub policies: String,
    /// Traces by the name of their family.
    pub families: BTreeMap<String, Family>,
}

/// Traces that are judged together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Files, and descriptions of generated ones.
    pub traces: Vec<String>,
}

/// What is played in one go: a trace on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// Family that the trace is of.
    pub family: &'a str,
    /// The trace.
    pub trace: &'a str,
    /// The machine model.
    pub machine: &'a str,
}

impl Matrix {
    /// Reads a file, or takes the matrix that comes with the program.
    ///
    /// # Errors
    /// A file that cannot be read, or has something else in it.
    pub fn read(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(toml::from_str(BUILT_IN)?) };
        let named = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(named)?;
        toml::from_str(&text).with_context(named)
    }

    /// Policies, each once.
    ///
    /// # Errors
    /// One that is not known.
    pub fn policies(&self) -> anyhow::Result<Vec<String>> {
        Ok(registry::expand(&self.policies)?)
    }

    /// Sizes of fast memory, at least one.
    ///
    /// # Errors
    /// None, or one that cannot be read.
    pub fn sizes(&self) -> anyhow::Result<Vec<FastSize>> {
        let sizes: Vec<FastSize> =
            self.fast.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        match sizes.is_empty() {
            true => Err(usage("the matrix has no sizes of fast memory", "fast = [\"1:8\"]")),
            false => Ok(sizes),
        }
    }

    /// Traces on machines, of one family or of all.
    ///
    /// # Errors
    /// A family that is not there.
    pub fn units(&self, family: Option<&str>) -> anyhow::Result<Vec<Unit<'_>>> {
        if let Some(name) = family.filter(|name| !self.families.contains_key(*name)) {
            let known: Vec<&str> = self.families.keys().map(String::as_str).collect();
            let hint = format!("there are {}", known.join(", "));
            return Err(usage(format!("there is no family '{name}'"), hint));
        }
        let chosen =
            self.families.iter().filter(|(name, _)| family.is_none_or(|family| family == *name));
        let mut units = Vec::new();
        for (family, of) in chosen {
            for trace in &of.traces {
                units.extend(self.machines.iter().map(|machine| Unit { family, trace, machine }));
            }
        }
        Ok(units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_that_comes_with_the_program_can_be_played() {
        let matrix = Matrix::read(None).expect("it is ours");
        assert!(matrix.policies().expect("known").len() > 10);
        assert_eq!(matrix.sizes().expect("readable").len(), 3);
        let units = matrix.units(None).expect("all");
        for unit in &units {
            frostline_study::machine(unit.machine).expect("known");
            frostline_workloads::from_spec(unit.trace).expect(unit.trace);
        }
        let held_out = matrix.units(Some("held-out")).expect("there is one").len();
        assert!(held_out > 0 && held_out < units.len());
        assert!(matrix.units(Some("x")).is_err());
    }
}
