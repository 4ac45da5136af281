//! Errors as Python has them.

use frostline_study::StudyError;
use frostline_trace::TraceError;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyValueError};
use pyo3::{PyErr, create_exception};

create_exception!(frostline, FrostlineError, PyException, "What was asked for cannot be had here.");
create_exception!(frostline, UsageError, PyValueError, "What was asked for cannot be right.");

/// An error of a study: wrong usage, a stop, or anything else. Its text ends with a `hint:` where there is a remedy.
pub fn of_study(error: &anyhow::Error) -> PyErr {
    let text = error.to_string();
    let text = error.chain().skip(1).fold(text, |text, cause| format!("{text}: {cause}"));
    match error.chain().find_map(|cause| cause.downcast_ref::<StudyError>()) {
        Some(StudyError::Stopped { .. }) => PyKeyboardInterrupt::new_err(text),
        Some(StudyError::Usage { .. }) => UsageError::new_err(text),
        _ if is_usage(error) => UsageError::new_err(text),
        _ => FrostlineError::new_err(text),
    }
}

/// A trace that cannot be read.
pub fn of_trace(error: &TraceError) -> PyErr {
    FrostlineError::new_err(error.to_string())
}

fn is_usage(error: &anyhow::Error) -> bool {
    use frostline_core::policy::PolicyError;
    use frostline_core::spec::SpecError;
    error.chain().any(|cause| {
        let trace = cause.downcast_ref::<TraceError>();
        let described = trace.is_some_and(|error| matches!(error, TraceError::Spec { .. }));
        described || cause.is::<SpecError>() || cause.is::<PolicyError>()
    })
}
