//! Programs side by side on one machine, each by itself or in a virtual machine.
//!
//! To the host, a guest is one process that has mapped its guest-physical memory at once. Between
//! the guest's trace and the machine stands the guest's own page table ([`frame_map`]), so that the
//! replay behind it knows guest-physical pages only, as a host does. Each program has a clock of its
//! own: the one that is behind goes next, and who waits for slow memory gets less done.

mod frame_map;
mod free_frames;
mod gpac;
mod program;
mod setup;
mod shift;
mod tally;
mod together;
mod virtual_machine;

pub use setup::GuestSetup;
pub use together::Together;

pub(crate) use frame_map::Moved;
pub(crate) use program::Program;
pub(crate) use virtual_machine::Done;
