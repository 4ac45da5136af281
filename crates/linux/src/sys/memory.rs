//! Advice about, migration and look-up of another process's memory.
//!
//! Nothing here can change what the memory of any process contains, the caller's own included:
//! [`Advice`] has only such kinds as keep contents, and [`touch`] only reads.

use rustix::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Most ranges in one call (`UIO_MAXIOV`).
pub const MOST_RANGES: usize = 1024;
/// Move only what belongs to the process alone (`include/uapi/linux/mempolicy.h`).
const MPOL_MF_MOVE: libc::c_int = 1 << 1;

/// Kinds of advice that keep contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Advice {
    /// Read in from swap.
    WillNeed = libc::MADV_WILLNEED,
    /// First to be reclaimed; splits a huge folio of which it names a part.
    Cold = libc::MADV_COLD,
    /// Reclaim now.
    PageOut = libc::MADV_PAGEOUT,
    /// Make huge folios, now.
    Collapse = libc::MADV_COLLAPSE,
}

/// Whether a process lives in the address space of this one: a child that was started by `vfork`
/// and has not executed its program yet. False where the kernel does not tell.
///
/// Source: kcmp(2).
pub fn shares_our_memory(pid: u32) -> bool {
    const KCMP_VM: libc::c_long = 1;
    let own = std::process::id();
    let (own_pid, pid) = (libc::c_long::from(own), libc::c_long::from(pid));
    // SAFETY: kcmp takes numbers only, and changes nothing.
    own_pid != pid && unsafe { libc::syscall(libc::SYS_kcmp, own_pid, pid, KCMP_VM, 0, 0) } == 0
}

/// Gives what this process has freed, and its allocator keeps, back to the kernel (malloc_trim(3)).
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, and no memory that is in use is touched.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has all threads of this process that begin from now on allocate from one heap (`M_ARENA_MAX`, mallopt(3)): what one has
/// freed is there for the others.
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes numbers only, and concerns allocations to come.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// A range of addresses, as `struct iovec`.
#[derive(Clone, Copy, Debug)]
pub struct AddressRange {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len_bytes: u64,
}

impl AddressRange {
    fn iovec(&self) -> libc::iovec {
        // The kernel takes both for numbers: neither is looked at in this address space.
        libc::iovec {
            iov_base: ptr::without_provenance_mut(self.start as usize),
            iov_len: self.len_bytes as usize,
        }
    }
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// process_madvise(2) for the first [`MOST_RANGES`] of `ranges`. Gives the number of bytes advised
/// before the first range that failed, or the error number where that was the first one.
pub fn process_madvise(
    pidfd: BorrowedFd<'_>,
    ranges: &[AddressRange],
    advice: Advice,
) -> Result<u64, i32> {
    let vectors: Vec<libc::iovec> =
        ranges.iter().take(MOST_RANGES).map(AddressRange::iovec).collect();
    // SAFETY: the kernel reads `vectors`, which is alive and as long as said. The ranges in it
    // are addresses of the other process. Should that be this process: no kind of `Advice`
    // changes contents or unmaps anything.
    let result = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            vectors.as_ptr(),
            vectors.len(),
            advice as i32,
            0_u32,
        )
    };
    u64::try_from(result).map_err(|_| last_errno())
}

/// madvise(2) of this process's own memory, range by range, for which no rights are needed. Gives
/// what [`process_madvise`] does.
pub fn madvise_own(ranges: &[AddressRange], advice: Advice) -> Result<u64, i32> {
    let mut done = 0;
    for range in ranges.iter().take(MOST_RANGES) {
        let start = ptr::without_provenance_mut(range.start as usize);
        // SAFETY: no kind of `Advice` changes contents or unmaps anything.
        let result = unsafe { libc::madvise(start, range.len_bytes as usize, advice as i32) };
        match result {
            0 => done += range.len_bytes,
            _ if done > 0 => break,
            _ => return Err(last_errno()),
        }
    }
    Ok(done)
}

/// move_pages(2): asks for the nodes of pages (`node` is `None`) or moves them, as far as they
/// belong to process `pid` alone. `status` gets a node or a negative error number for each address
/// that the kernel came to and keeps its value for the others. Gives the number of pages that were
/// not moved. Looks at as many addresses as both slices have.
pub fn move_pages(
    pid: u32,
    addresses: &[u64],
    node: Option<i32>,
    status: &mut [i32],
) -> Result<u64, i32> {
    let count = addresses.len().min(status.len());
    let wanted = vec![node.unwrap_or(0); count];
    let nodes = if node.is_some() { wanted.as_ptr() } else { ptr::null() };
    // SAFETY: the kernel reads `count` addresses and nodes and writes `count` elements of
    // `status`; all three have at least that many and outlive the call. The addresses are numbers
    // to it. Pages that move keep their contents and their place in the address space.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid as libc::pid_t,
            count,
            addresses.as_ptr(),
            nodes,
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    u64::try_from(result).map_err(|_| last_errno())
}

/// Reads one byte of each of the first [`MOST_RANGES`] pages in another process, by which pages in
/// swap come back and are mapped; the bytes are thrown away. Gives the number of pages read before
/// the first that could not be, or the error number where that was the first one.
pub fn touch(pid: u32, addresses: &[u64]) -> Result<u64, i32> {
    let remote: Vec<libc::iovec> = addresses
        .iter()
        .take(MOST_RANGES)
        .map(|&start| AddressRange { start, len_bytes: 1 }.iovec())
        .collect();
    let mut bytes = [0_u8; MOST_RANGES];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: remote.len() };
    // SAFETY: the kernel writes at most `remote.len()` bytes to `bytes`, which has MOST_RANGES and
    // hence not fewer, and reads the vectors, which are as long as said. The other process's
    // memory is only read; addresses that do not exist there give an error.
    let result = unsafe {
        libc::process_vm_readv(
            pid as libc::pid_t,
            &raw const local,
            1,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    u64::try_from(result).map_err(|_| last_errno())
}

/// Reads from another process at an address, as much as `bytes` holds; the number of bytes that could be read, or the
/// error number where that was none.
pub fn read(pid: u32, address: u64, bytes: &mut [u8]) -> Result<u64, i32> {
    let remote = AddressRange { start: address, len_bytes: bytes.len() as u64 }.iovec();
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: the kernel writes at most `bytes.len()` bytes to `bytes`, which is borrowed for writing, and reads both
    // vectors, one each. The other process's memory is only read; an address that does not exist there is an error.
    let result = unsafe {
        let pid = pid as libc::pid_t;
        libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0)
    };
    u64::try_from(result).map_err(|_| last_errno())
}

#[cfg(test)]
mod tests {
    use crate::moves::advise::page_out_verified;
    use crate::pages::pagemap::{Categories, Pagemap};
    use crate::{Root, Target};
    use frostline_core::event::MoveOutcome;
    use frostline_core::span::Span;
    use frostline_core::types::Vpn;
    use frostline_testing::{Requirement, skip};
    use memmap2::MmapMut;

    /// `MADV_GUARD_INSTALL` (Linux 6.13).
    const GUARD_INSTALL: libc::c_int = 102;

    #[test]
    fn guard_pages_are_nowhere() {
        let mut map = MmapMut::map_anon(8 * 4096).expect("memory");
        map.fill(7);
        let start = map.as_mut_ptr();
        // SAFETY: the pages are this function's, which does not look into them any more.
        let result = unsafe { libc::madvise(start.add(2 * 4096).cast(), 4 * 4096, GUARD_INSTALL) };
        if result != 0 {
            return skip(Requirement::GuardPages, "this kernel has none");
        }
        let target = Target::open(&Root::system(), std::process::id()).expect("runs");
        let mut pagemap = Pagemap::open(&target).expect("ours");
        let first = Vpn(start as u64 / 4096);
        let guards = Span::new(Vpn(first.0 + 2), 4);
        let entry = pagemap.page(guards.start).expect("runs");
        assert!(!entry.present() && !entry.in_transit());
        if !entry.guard() {
            return skip(Requirement::GuardPages, "this kernel does not tell them apart");
        }
        assert!(!entry.swapped());
        let mut runs = Vec::new();
        pagemap.places(Span::new(first, 8), &mut runs).expect("runs");
        assert_eq!(
            runs,
            [
                (Span::new(first, 2), Categories::PRESENT),
                (Span::new(guards.end(), 2), Categories::PRESENT)
            ]
        );
        match page_out_verified(&target, &mut pagemap, &[guards]) {
            Ok(outcomes) => assert_eq!(outcomes, [(guards, MoveOutcome::Gone)]),
            Err(error) => skip(Requirement::OtherMemory, error),
        }
    }
}
