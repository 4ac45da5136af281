//! What this system lets us do, found out by trying wherever trying is harmless.
//!
//! What is tried is tried on a child process that exists for nothing else. "Available" is only
//! said of what was tried and worked, or is certain from what the kernel says.

mod child;
mod memory;
mod moving;
mod rights;
mod seeing;
#[cfg(test)]
mod tests;

use crate::error::LinuxError;
use crate::root::Root;
use child::Child;
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
    fn yes(name: &'static str, why: impl Into<String>) -> Self {
        Self { name, available: true, why: why.into(), hint: None }
    }

    fn no(name: &'static str, why: impl Into<String>) -> Self {
        Self { name, available: false, why: why.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn failed(name: &'static str, error: &LinuxError) -> Self {
        match error {
            LinuxError::Unsupported { what, hint } => Self::no(name, what).hint(hint),
            error if error.is_denied() => {
                Self::no(name, error.to_string()).hint("run as root, outside of a container")
            }
            error => Self::no(name, error.to_string()),
        }
    }

    /// The capability of `found`, or why it is none.
    fn of(name: &'static str, found: Result<Self, LinuxError>) -> Self {
        found.unwrap_or_else(|error| Self::failed(name, &error))
    }
}

/// Looks at everything, and tries it where `root` is the running system. Takes some tens of
/// milliseconds. Changes nothing that lasts.
pub fn examine(root: &Root) -> Vec<Capability> {
    let mut child = if root.is_system() {
        Child::start(root)
    } else {
        Err(LinuxError::Unsupported {
            what: "not tried: these are the files of another system".into(),
            hint: "run it there".into(),
        })
    };
    let mut found = rights::examine(root);
    found.extend(memory::examine(root));
    found.extend(moving::examine(root, &mut child));
    found.extend(seeing::examine(root, &mut child));
    found
}

/// Runs a probe on the child, where there is one.
fn on_child(
    name: &'static str,
    child: &mut Result<Child, LinuxError>,
    probe: impl FnOnce(&mut Child) -> Result<Capability, LinuxError>,
) -> Capability {
    match child {
        Ok(child) => Capability::of(name, probe(child)),
        Err(error) => Capability::failed(name, error),
    }
}
