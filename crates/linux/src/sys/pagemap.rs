//! The `PAGEMAP_SCAN` request of `/proc/PID/pagemap` (Linux 6.7), from `include/uapi/linux/fs.h`.

use rustix::fd::{AsRawFd, BorrowedFd};

/// `struct page_region`: addresses `[start, end)` of pages with equal `categories`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRegion {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Categories that were asked for and hold.
    pub categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Which pages are wanted, and what of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanMasks {
    /// Categories that a page must all have.
    pub all_of: u64,
    /// Categories of which a page must have one; 0 for no such condition.
    pub any_of: u64,
    /// Categories that are told, and by which pages are told apart.
    pub told: u64,
    /// Protects the pages found from being written without it being noted. They must be asked to be
    /// such as can be.
    pub protects: bool,
    /// Pages after which the walk ends; 0 for no such limit.
    pub most_pages: u64,
}

/// `PM_SCAN_WP_MATCHING`.
const PROTECTS: u64 = 1 << 0;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl =
    (3 << 30 | (size_of::<ScanArguments>() as libc::Ioctl) << 16 | (b'f' as libc::Ioctl) << 8 | 16)
        as libc::Ioctl;

/// Walks the addresses `[start, end)` of the process to which the file belongs, until the end or
/// until `found` is full. Gives the number of elements written and the address where it stopped.
/// Changes no contents in the process.
pub fn scan(
    pagemap: BorrowedFd<'_>,
    start: u64,
    end: u64,
    masks: ScanMasks,
    found: &mut [PageRegion],
) -> Result<(usize, u64), i32> {
    let mut arguments = ScanArguments {
        size: size_of::<ScanArguments>() as u64,
        flags: if masks.protects { PROTECTS } else { 0 },
        start,
        end,
        vec: found.as_mut_ptr().expose_provenance() as u64,
        vec_len: found.len() as u64,
        max_pages: masks.most_pages,
        category_mask: masks.all_of,
        category_anyof_mask: masks.any_of,
        return_mask: masks.told,
        ..ScanArguments::default()
    };
    // SAFETY: the kernel reads and writes `arguments`, whose layout and size are those of the
    // request, and writes at most `vec_len` elements to `found`, which has as many, any bits being
    // valid in them. On a file that is no pagemap this request number is refused with ENOTTY, or
    // belongs to a driver that takes an argument of this size. No flag set here changes contents.
    let result = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arguments) };
    match usize::try_from(result) {
        Ok(count) => Ok((count.min(found.len()), arguments.walk_end)),
        Err(_) => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}
