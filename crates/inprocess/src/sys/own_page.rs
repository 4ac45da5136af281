//! Move of a single page of this process.

/// Move only what belongs to the process alone (`include/uapi/linux/mempolicy.h`).
const MPOL_MF_MOVE: libc::c_int = 1 << 1;

/// Moves a page of this process to a node, without allocating anything; whether it is there now.
pub fn move_own_page(address: u64, node: u32) -> bool {
    let Ok(node) = i32::try_from(node) else { return false };
    let mut status = i32::MIN;
    // SAFETY: the kernel reads one address and one node and writes one status, which all outlive
    // the call. The page keeps its contents and its place in the address space.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            1,
            &raw const address,
            &raw const node,
            &raw mut status,
            MPOL_MF_MOVE,
        )
    };
    result == 0 && status == node
}
