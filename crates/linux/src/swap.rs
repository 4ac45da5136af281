//! Swap: devices, zswap and the kernel's settings.
//!
//! Sources: proc_swaps(5), `Documentation/admin-guide/mm/zswap.rst` and
//! `Documentation/admin-guide/sysctl/vm.rst` in the kernel.

pub mod zram;

use crate::moves::advise::page_out_verified;
use crate::pages::pagemap::Pagemap;
use crate::{LinuxError, Root, Target};
use frostline_core::span::Span;
use frostline_core::types::{Bytes, PAGE_BYTES, Vpn};
use std::path::{Path, PathBuf};

/// Swap with less than this free is full: pages are swapped in batches and clusters.
const FULL_BYTES: u64 = 64 * PAGE_BYTES;

/// Number of neighbours, as a power of two, that are read along with a page from swap. They would
/// come into fast memory without anybody having asked for them: a slow tier wants 0.
pub const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
/// How the kernel weighs anonymous memory against files when it reclaims, `0..=200`.
pub const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

/// No swap device has a higher priority (`SWAP_FLAG_PRIO_MASK` in `include/linux/swap.h`).
pub const HIGHEST_PRIORITY: u16 = 0x7fff;
/// What helps where there are [`never_behind`].
pub const LOWER: &str =
    "turn it off and on again with a lower priority: swapoff DEVICE && swapon -p 100 DEVICE";

/// A line of `/proc/swaps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapDevice {
    /// Device or file.
    pub path: PathBuf,
    /// Whether it is a device.
    pub is_device: bool,
    /// Room on it.
    pub size: Bytes,
    /// Room that is taken.
    pub used: Bytes,
    /// Higher ones are filled first.
    pub priority: i32,
}

/// Swap devices in use.
///
/// # Errors
/// Where the list exists and cannot be read. A kernel without swap has none.
pub fn devices(root: &Root) -> Result<Vec<SwapDevice>, LinuxError> {
    let text = root.read_optional("/proc/swaps")?.unwrap_or_default();
    Ok(text.lines().skip(1).filter_map(parse_device).collect())
}

/// Swap devices other than `own` before which none can be filled, with commas between them: they
/// have the highest priority, and take their turns with whatever else has it. `None` without any.
///
/// # Errors
/// As [`devices`].
pub fn never_behind(root: &Root, own: Option<&Path>) -> Result<Option<String>, LinuxError> {
    let others = devices(root)?.into_iter().filter(|device| {
        device.priority >= i32::from(HIGHEST_PRIORITY) && Some(device.path.as_path()) != own
    });
    let names: Vec<String> = others.map(|device| device.path.display().to_string()).collect();
    Ok((!names.is_empty()).then(|| names.join(", ")))
}

fn parse_device(line: &str) -> Option<SwapDevice> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next()?.replace("\\040", " ");
    let is_device = words.next()? == "partition";
    // One that was turned on in another mount name space is told from the root of its `/dev`.
    let path = match name.strip_prefix('/') {
        Some(inner) if is_device && !name.starts_with("/dev/") => Path::new("/dev").join(inner),
        _ => PathBuf::from(name),
    };
    let size = Bytes(words.next()?.parse::<u64>().ok()?.saturating_mul(1024));
    let used = Bytes(words.next()?.parse::<u64>().ok()?.saturating_mul(1024));
    Some(SwapDevice { path, is_device, size, used, priority: words.next()?.parse().ok()? })
}

/// Whether there is no swap, or next to no room in it.
///
/// # Errors
/// As [`devices`].
pub fn is_full(root: &Root) -> Result<bool, LinuxError> {
    let free = |device: &SwapDevice| device.size.saturating_sub(device.used).0;
    Ok(devices(root)?.iter().map(free).fold(0, u64::saturating_add) < FULL_BYTES)
}

/// Number of the swap device to which a page goes that is paged out now, as
/// [`PageEntry::swap_place`](crate::pages::pagemap::PageEntry::swap_place) tells it: found out by paging
/// a page of this process out. `None` where it does not go, or without `CAP_SYS_ADMIN`.
///
/// # Errors
/// Without the right to advise even oneself, as in some sandboxes.
pub fn device_in_use() -> Result<Option<u8>, LinuxError> {
    const PAGE: usize = PAGE_BYTES as usize;
    let root = Root::system();
    let own = Target::open(&root, std::process::id())?;
    let mut pagemap = Pagemap::open(&own)?;
    // The inner page of these holds nothing else. Not zero: the kernel may treat zeros apart.
    let scratch = std::hint::black_box(vec![1_u8; 3 * PAGE]);
    let page = Vpn((scratch.as_ptr() as u64).div_ceil(PAGE_BYTES));
    page_out_verified(&own, &mut pagemap, &[Span::single(page)])?;
    let entry = pagemap.page(page)?;
    drop(scratch);
    Ok(entry.swap_place().map(|(device, _)| device))
}

/// Compression of pages on their way to swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zswap {
    /// Whether it is on.
    pub enabled: bool,
    /// Name of the compressor.
    pub compressor: String,
    /// Most of the memory that compressed pages may take, in percent.
    pub max_pool_percent: u32,
}

/// State of zswap; `None` in a kernel without it.
///
/// # Errors
/// Where it exists and cannot be read.
pub fn zswap(root: &Root) -> Result<Option<Zswap>, LinuxError> {
    let of = |name: &str| root.read_optional(format!("/sys/module/zswap/parameters/{name}"));
    let Some(enabled) = of("enabled")? else { return Ok(None) };
    Ok(Some(Zswap {
        enabled: enabled == "Y",
        compressor: of("compressor")?.unwrap_or_default(),
        max_pool_percent: of("max_pool_percent")?.and_then(|text| text.parse().ok()).unwrap_or(0),
    }))
}

/// The number in a file such as [`PAGE_CLUSTER`].
///
/// # Errors
/// Where it cannot be read or holds no number.
pub fn setting(root: &Root, path: &str) -> Result<u64, LinuxError> {
    let text = root.read(path)?;
    text.parse().map_err(|_| LinuxError::Malformed {
        path: root.path(path),
        what: format!("'{text}' is not a number"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn tree_of(files: &[(&str, &str)]) -> Tree {
        let tree = Tree::new();
        for (path, text) in files {
            tree.file(path, text);
        }
        tree
    }

    #[test]
    fn devices_are_listed_with_their_room() {
        let tree = tree_of(&[(
            "proc/swaps",
            "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
             /dev/zram0                              partition\t1024\t\t1000\t\t100\n\
             /a\\040b                                file\t\t4096\t\t0\t\t-2\n\
             odd line\n",
        )]);
        let devices = devices(tree.root()).expect("read");
        assert_eq!(devices.len(), 2);
        assert_eq!(devices[0].path, PathBuf::from("/dev/zram0"));
        assert_eq!((devices[0].size, devices[0].used), (Bytes(1 << 20), Bytes(1_024_000)));
        assert!(devices[0].is_device && !devices[1].is_device);
        assert_eq!((devices[1].path.to_str(), devices[1].priority), (Some("/a b"), -2));
        assert!(!is_full(tree.root()).expect("read"));
    }

    #[test]
    fn room_beyond_every_number_is_room() {
        let line = "/dev/a file 18446744073709551615 0 -2\n";
        let tree = tree_of(&[("proc/swaps", &format!("Filename\n{line}{line}"))]);
        assert!(!is_full(tree.root()).expect("read"));
    }

    #[test]
    fn a_device_of_another_mount_name_space_is_the_same_device() {
        let line = "/zram2  partition\t65532\t\t0\t\t101\n/swap  file\t4096\t0\t-2\n";
        let tree = tree_of(&[("proc/swaps", &format!("Filename\n{line}"))]);
        let paths: Vec<_> =
            devices(tree.root()).expect("read").into_iter().map(|d| d.path).collect();
        assert_eq!(paths, [PathBuf::from("/dev/zram2"), PathBuf::from("/swap")]);
    }

    #[test]
    fn who_has_the_highest_priority_is_never_behind() {
        let lines = "Filename\n/dev/a partition 8 0 32767\n/dev/b partition 8 0 32766\n";
        let tree = tree_of(&[("proc/swaps", lines)]);
        let others = |own: &str| never_behind(tree.root(), Some(Path::new(own))).expect("read");
        assert_eq!(others("/dev/b").as_deref(), Some("/dev/a"));
        assert_eq!(others("/dev/a"), None);
    }

    #[test]
    fn no_swap_is_full_swap() {
        let tree = tree_of(&[]);
        assert!(is_full(tree.root()).expect("read"));
        let tree = tree_of(&[("proc/swaps", "Filename\n/dev/a partition 1024 1000 5\n")]);
        assert!(is_full(tree.root()).expect("read"));
    }

    #[test]
    fn zswap_may_be_missing() {
        let tree = tree_of(&[]);
        assert_eq!(zswap(tree.root()).expect("read"), None);
        let tree = tree_of(&[
            ("sys/module/zswap/parameters/enabled", "Y\n"),
            ("sys/module/zswap/parameters/compressor", "zstd\n"),
            ("sys/module/zswap/parameters/max_pool_percent", "20\n"),
            ("proc/sys/vm/page-cluster", "3\n"),
            ("proc/sys/vm/swappiness", "many\n"),
        ]);
        let expected = Zswap { enabled: true, compressor: "zstd".into(), max_pool_percent: 20 };
        assert_eq!(zswap(tree.root()).expect("read"), Some(expected));
        assert_eq!(setting(tree.root(), PAGE_CLUSTER).expect("read"), 3);
        assert!(setting(tree.root(), SWAPPINESS).is_err());
    }
}
