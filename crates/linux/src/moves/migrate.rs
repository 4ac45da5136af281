//! Moving pages between NUMA nodes, verified.
//!
//! Sources: move_pages(2), `do_pages_move` in the kernel's `mm/migrate.c`.

use crate::LinuxError;
use crate::process::Target;
use crate::sys::memory::move_pages;
use frostline_core::event::MoveOutcome;
use frostline_core::types::{PAGE_BYTES, Vpn};

/// Addresses in one call. A call costs about 29 us whatever its length, and a page less than one
/// tenth of that; on the other hand nothing else gets done while it lasts.
const CALL_PAGES: usize = 1024;
/// How often pages are tried that the kernel did not come to, or found busy.
const ATTEMPTS: u32 = 3;
/// What no node and no error number is: the kernel did not come to this page.
const UNTOUCHED: i32 = i32::MIN;

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeStatus {
    /// In the memory of this node.
    Node(u32),
    /// Not in memory: never touched, or in swap.
    Absent,
    /// Nowhere: the zero page, or an address that is not mapped.
    Nowhere,
    /// The kernel would not say; the error number.
    Unknown(i32),
}

impl NodeStatus {
    fn of(status: i32) -> Self {
        match u32::try_from(status) {
            Ok(node) => Self::Node(node),
            Err(_) if status == -libc::ENOENT => Self::Absent,
            Err(_) if status == -libc::EFAULT => Self::Nowhere,
            Err(_) => Self::Unknown(status.saturating_neg()),
        }
    }
}

/// Nodes of `pages`, in their order.
///
/// # Errors
/// [`LinuxError::Gone`] where the process has ended; [`LinuxError::Unsupported`] without the right
/// to look into it, or in a kernel without NUMA.
pub fn nodes_of(target: &Target, pages: &[Vpn]) -> Result<Vec<NodeStatus>, LinuxError> {
    let mut status = vec![UNTOUCHED; pages.len()];
    for (pages, status) in pages.chunks(CALL_PAGES).zip(status.chunks_mut(CALL_PAGES)) {
        query(target, pages, status)?;
    }
    Ok(status.into_iter().map(NodeStatus::of).collect())
}

fn query(target: &Target, pages: &[Vpn], status: &mut [i32]) -> Result<(), LinuxError> {
    call(target, pages, None, status).map(|_| ())
}

/// One call for at most [`CALL_PAGES`] pages, between two looks at the process: the number that
/// the call takes belongs to it unless it ended in between, and then the result does not count.
fn call(
    target: &Target,
    pages: &[Vpn],
    node: Option<i32>,
    status: &mut [i32],
) -> Result<Result<u64, i32>, LinuxError> {
    let addresses: Vec<u64> = pages.iter().map(|page| page.0.saturating_mul(PAGE_BYTES)).collect();
    target.check_alive()?;
    let result = move_pages(target.pid(), &addresses, node, status);
    target.check_alive()?;
    match result {
        // The only error that concerns pages and not the call as a whole.
        Err(libc::ENOMEM) if node.is_some() => Ok(Err(libc::ENOMEM)),
        Err(errno) => Err(refused(target.pid(), node, errno)),
        Ok(left) => Ok(Ok(left)),
    }
}

fn refused(pid: u32, node: Option<i32>, errno: i32) -> LinuxError {
    let (what, hint) = match (errno, node) {
        // It is ending, and has let go of its memory (`find_mm_struct` in the kernel).
        (libc::EINVAL, _) => return LinuxError::Gone { pid },
        (libc::EPERM, _) => (
            format!("no right to move the pages of process {pid}"),
            "run as root, or with CAP_SYS_NICE and CAP_SYS_PTRACE",
        ),
        (libc::ENOSYS, _) => {
            ("this kernel has no move_pages".to_owned(), "use a kernel with CONFIG_NUMA")
        }
        (libc::EACCES, Some(node)) => (
            format!("process {pid} may not use node {node}"),
            "allow the node in cpuset.mems of its cgroup",
        ),
        (libc::ENODEV, Some(node)) => (
            format!("there is no memory on node {node}"),
            "see /sys/devices/system/node/has_memory",
        ),
        _ => return LinuxError::call("move_pages", pid, errno),
    };
    LinuxError::Unsupported { what, hint: hint.into() }
}

/// Moves `pages` to `node` and tells for each, in their order, how it ended; `Moved` also where it
/// was there before. Of a huge folio one page is enough: all of it moves.
///
/// `Moved` is what the kernel itself reported for the page. Where a call fails half-way it reports
/// nothing for some pages; these are looked up. `Busy`: pinned, under I/O, locked by another.
/// `NoSpace`: the node is full, and nothing more was tried. `Gone`: not in memory. `Shared`: mapped
/// by other processes, too.
///
/// # Errors
/// [`LinuxError::Gone`] where the process has ended; [`LinuxError::Unsupported`] without the right,
/// for a node without memory, or one that the process may not use.
pub fn move_to_node(
    target: &Target,
    pages: &[Vpn],
    node: u32,
) -> Result<Vec<MoveOutcome>, LinuxError> {
    // A number too large for the system call is refused by it as any unknown node is.
    let wanted = i32::try_from(node).unwrap_or(i32::MAX);
    let mut outcomes = vec![MoveOutcome::NoSpace; pages.len()];
    for (pages, outcomes) in pages.chunks(CALL_PAGES).zip(outcomes.chunks_mut(CALL_PAGES)) {
        let full = move_batch(target, pages, wanted, outcomes)?;
        if full {
            break;
        }
    }
    Ok(outcomes)
}

/// Moves at most [`CALL_PAGES`] pages; true where the node is full.
fn move_batch(
    target: &Target,
    pages: &[Vpn],
    node: i32,
    outcomes: &mut [MoveOutcome],
) -> Result<bool, LinuxError> {
    let mut open: Vec<usize> = (0..pages.len()).collect();
    for attempt in 1..=ATTEMPTS {
        let tried: Vec<Vpn> = open.iter().map(|&index| pages[index]).collect();
        let mut status = vec![UNTOUCHED; tried.len()];
        let result = call(target, &tried, Some(node), &mut status)?;
        let full = result == Err(libc::ENOMEM);
        let mut now = vec![UNTOUCHED; tried.len()];
        if status.contains(&UNTOUCHED) {
            query(target, &tried, &mut now)?;
        }
        let mut left = Vec::new();
        for (&index, (&status, &now)) in open.iter().zip(status.iter().zip(&now)) {
            let outcome = settle(status, now, node, full);
            outcomes[index] = outcome;
            if outcome == MoveOutcome::Busy {
                left.push(index);
            }
        }
        if full || left.is_empty() || attempt == ATTEMPTS {
            return Ok(full);
        }
        open = left;
    }
    Ok(false)
}

/// How it ended for a page with this status after the call, and `now` when looked up thereafter.
fn settle(status: i32, now: i32, node: i32, full: bool) -> MoveOutcome {
    let known = if status == UNTOUCHED { now } else { status };
    if known == node {
        return MoveOutcome::Moved;
    }
    match -i64::from(known) {
        errno if errno == i64::from(libc::EACCES) => MoveOutcome::Shared,
        errno if errno == i64::from(libc::ENOENT) => MoveOutcome::Gone,
        errno if errno == i64::from(libc::EFAULT) => MoveOutcome::Gone,
        errno if errno == i64::from(libc::ENOMEM) => MoveOutcome::NoSpace,
        _ if full => MoveOutcome::NoSpace,
        _ => MoveOutcome::Busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use frostline_testing::{Requirement, skip};

    #[test]
    fn every_status_has_an_outcome() {
        let cases = [
            (1, UNTOUCHED, false, MoveOutcome::Moved),
            (UNTOUCHED, 1, true, MoveOutcome::Moved),
            (UNTOUCHED, 0, true, MoveOutcome::NoSpace),
            (UNTOUCHED, 0, false, MoveOutcome::Busy),
            (0, UNTOUCHED, false, MoveOutcome::Busy),
            (-libc::EACCES, UNTOUCHED, false, MoveOutcome::Shared),
            (-libc::EACCES, UNTOUCHED, true, MoveOutcome::Shared),
            (-libc::EFAULT, UNTOUCHED, false, MoveOutcome::Gone),
            (UNTOUCHED, -libc::ENOENT, true, MoveOutcome::Gone),
            (-libc::EBUSY, UNTOUCHED, false, MoveOutcome::Busy),
            (-libc::EIO, UNTOUCHED, false, MoveOutcome::Busy),
            (-libc::ENOMEM, UNTOUCHED, false, MoveOutcome::NoSpace),
            (UNTOUCHED, UNTOUCHED, false, MoveOutcome::Busy),
        ];
        for (status, now, full, outcome) in cases {
            assert_eq!(settle(status, now, 1, full), outcome, "{status} {now} {full}");
        }
    }

    #[test]
    fn a_status_says_where_a_page_is() {
        assert_eq!(NodeStatus::of(3), NodeStatus::Node(3));
        assert_eq!(NodeStatus::of(-libc::ENOENT), NodeStatus::Absent);
        assert_eq!(NodeStatus::of(-libc::EFAULT), NodeStatus::Nowhere);
        assert_eq!(NodeStatus::of(-libc::EACCES), NodeStatus::Unknown(libc::EACCES));
        assert_eq!(NodeStatus::of(UNTOUCHED), NodeStatus::Unknown(i32::MAX));
    }

    #[test]
    fn own_pages_are_on_a_node() {
        let target = Target::open(&Root::system(), std::process::id()).expect("opens");
        let data = vec![1_u8; 3000 * PAGE_BYTES as usize];
        let first = (data.as_ptr() as u64).div_ceil(PAGE_BYTES);
        let mut pages: Vec<Vpn> = (first..first + 2999).map(Vpn).collect();
        pages.push(Vpn(1));
        let nodes = match nodes_of(&target, &pages) {
            Ok(nodes) => nodes,
            Err(error) => return skip(Requirement::OtherMemory, error),
        };
        assert!(nodes[..2999].iter().all(|status| matches!(status, NodeStatus::Node(_))));
        assert!(!matches!(nodes[2999], NodeStatus::Node(_)), "nothing is mapped there");
        assert_eq!(data.iter().map(|&byte| u64::from(byte)).sum::<u64>(), data.len() as u64);
    }

    #[test]
    fn moving_to_where_they_are_is_done_at_once() {
        let target = Target::open(&Root::system(), std::process::id()).expect("opens");
        let data = vec![1_u8; 1500 * PAGE_BYTES as usize];
        let first = (data.as_ptr() as u64).div_ceil(PAGE_BYTES);
        let mut pages: Vec<Vpn> = (first..first + 1499).map(Vpn).collect();
        let node = match nodes_of(&target, &pages[..1]).as_deref() {
            Ok(&[NodeStatus::Node(node)]) => node,
            other => return skip(Requirement::OtherMemory, format!("{other:?}")),
        };
        pages.push(Vpn(1));
        let outcomes = move_to_node(&target, &pages, node).expect("allowed");
        let moved = outcomes.iter().filter(|&&outcome| outcome == MoveOutcome::Moved).count();
        // Memory of this process may lie on other nodes and be busy there; here it does not.
        assert_eq!((moved, outcomes[1499]), (1499, MoveOutcome::Gone));
        let error = move_to_node(&target, &pages, 900).expect_err("no such node");
        assert!(error.to_string().contains("hint:"), "{error}");
    }
}
