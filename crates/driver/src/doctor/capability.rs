//! Capability of a system, and why it is there or not.

use super::child::Child;
use frostline_linux::LinuxError;
use serde::Serialize;

/// Something that tiering can make use of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Its name, lower case and with hyphens; the same in every version.
    pub name: &'static str,
    /// Whether it can be relied on. False also where it could not be found out.
    pub available: bool,
    /// What was seen: one line without a full stop.
    pub why: String,
    /// What would help, where something would.
    pub hint: Option<String>,
}

impl Capability {
    pub(super) fn yes(name: &'static str, why: impl Into<String>) -> Self {
        Self { name, available: true, why: why.into(), hint: None }
    }

    pub(super) fn no(name: &'static str, why: impl Into<String>) -> Self {
        Self { name, available: false, why: why.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn failed(name: &'static str, error: &LinuxError) -> Self {
        match error {
            LinuxError::Unsupported { what, hint } => Self::no(name, what).hint(hint),
            error if error.is_denied() => {
                Self::no(name, error.to_string()).hint("run as root, outside of a container")
            }
            error => Self::no(name, error.to_string()),
        }
    }

    /// The capability of `found`, or why it is none.
    pub(super) fn of(name: &'static str, found: Result<Self, LinuxError>) -> Self {
        found.unwrap_or_else(|error| Self::failed(name, &error))
    }
}

/// Runs a probe on the child, where there is one.
pub(super) fn on_child(
    name: &'static str,
    child: &mut Result<Child, LinuxError>,
    probe: impl FnOnce(&mut Child) -> Result<Capability, LinuxError>,
) -> Capability {
    match child {
        Ok(child) => Capability::of(name, probe(child)),
        Err(error) => Capability::failed(name, error),
    }
}
