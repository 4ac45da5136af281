//! Policies and machines that can be named.

use crate::errors;
use frostline_core::policy::registry;
use frostline_sim::Machine;
use pyo3::prelude::*;
use serde_json::{Value, json};

/// Policies with their parameters, as JSON.
#[pyfunction]
pub fn policies() -> String {
    let listed = registry::REGISTRY.iter().map(|entry| {
        let params = entry.params().map(|param| {
            json!({
                "name": param.name,
                "default": param.default,
                "scaled": param.scaled,
                "unit": param.unit,
                "about": param.about,
            })
        });
        json!({
            "name": entry.name,
            "group": entry.group.name(),
            "summary": entry.summary,
            "citation": entry.citation,
            "params": params.collect::<Vec<Value>>(),
        })
    });
    Value::from(listed.collect::<Vec<Value>>()).to_string()
}

/// Policies of a list with groups in it, checked, with references where it names `all`.
#[pyfunction]
pub fn expand(policies: &str) -> PyResult<Vec<String>> {
    let expanded = frostline_study::policies(policies);
    expanded.map_err(|error| errors::of_study(&error.into()))
}

/// Trace that stands for a seed, as comparisons with several seeds have it.
#[pyfunction]
pub fn with_seed(trace: &str, seed: u64) -> String {
    frostline_study::with_seed(trace, seed)
}

/// Names of machines, and what they are.
#[pyfunction]
pub fn machines() -> Vec<(&'static str, &'static str)> {
    Machine::presets().collect()
}

/// A machine by its name or file, with parameters: all of its description, as JSON.
#[pyfunction]
pub fn machine(name: &str) -> PyResult<String> {
    let machine =
        frostline_study::machine(name).map_err(|error| errors::of_study(&error.into()))?;
    serde_json::to_string(&machine).map_err(|error| errors::of_study(&error.into()))
}
