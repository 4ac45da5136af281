//! Capabilities of this system, found out by trying wherever trying is harmless.
//!
//! What is tried is tried on a child process that exists for nothing else. "Available" is only
//! said of what was tried and worked, or is certain from what the kernel says.

mod capability;
mod child;
mod memory;
mod moving;
mod rights;
mod seeing;
#[cfg(test)]
mod tests;

use child::Child;
use frostline_linux::LinuxError;
use frostline_linux::Root;

pub use capability::Capability;

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
