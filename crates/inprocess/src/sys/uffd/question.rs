//! Questions to the kernel about pages that do nothing to them.

use super::calls::{self, Uffd};
use super::room::Room;

/// Addresses of 2 MiB share a page table.
const TABLE_BYTES: u64 = 2 << 20;

/// Asks by moves that cannot succeed.
#[derive(Debug)]
pub struct Question {
    /// Keeps the page table there in which `nothing` has an empty entry.
    _room: Room,
    /// Address of a page that does not exist.
    nothing: u64,
}

impl Question {
    /// # Errors
    /// `ENOMEM`.
    pub fn new() -> Result<Self, i32> {
        // With neighbours on both sides, one of them shares its table.
        let mut room = Room::map(3, false)?;
        room.mark(1);
        let table = |page| room.address(page) / TABLE_BYTES;
        let nothing = room.address(if table(0) == table(1) { 0 } else { 2 });
        Ok(Self { _room: room, nothing })
    }

    /// Whether there is a page at an address, and faults of its mapping are handed over by this
    /// descriptor. Until the next event, both stays so.
    ///
    /// # Errors
    /// `ENOENT` where nothing is there, `EINVAL` where its faults are not handed over, or nothing
    /// can be moved there, `EAGAIN` while mappings change.
    pub fn is_there_and_handed_over(&self, fd: &Uffd, address: u64) -> Result<(), i32> {
        // The destination is looked at first: `move_pages` in mm/userfaultfd.c.
        match calls::move_page(fd, address, self.nothing) {
            Err(libc::EEXIST) => Ok(()),
            Err(errno) => Err(errno),
            Ok(()) => Err(libc::EINVAL),
        }
    }

    /// Whether a thread changes mappings and waits until that event is read, or did a moment ago.
    pub fn are_mappings_changing(&self, fd: &Uffd) -> bool {
        calls::move_page(fd, self.nothing, self.nothing) == Err(libc::EAGAIN)
    }
}
