//! Python module `frostline._native`: traces, replays and advice, thin over `frostline-study`.
//!
//! Results cross as JSON, accesses of traces as Arrow. The package in `python/frostline` makes objects and tables of them.
#![forbid(unsafe_code)]

mod accesses;
mod errors;
mod events;
mod lists;
mod policy;
mod stream;
mod studies;
mod trace;
mod watched;
mod writer;

use pyo3::prelude::*;

/// What the package is made of.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::lists::{expand, machine, machines, policies, with_seed};
    #[pymodule_export]
    use super::policy::{Proposed, Seen};
    #[pymodule_export]
    use super::studies::{advise, compare};
    #[pymodule_export]
    use super::trace::Trace;
    #[pymodule_export]
    use super::writer::Writer;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        module.add("FrostlineError", py.get_type::<errors::FrostlineError>())?;
        module.add("UsageError", py.get_type::<errors::UsageError>())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
