//! Memory that fills a node, so that a program has so much of it and no more.

use anyhow::bail;
use frostline_core::event::MoveOutcome;
use frostline_core::types::Vpn;
use frostline_core::types::{Bytes, PAGE_BYTES};
use frostline_linux::Root;
use frostline_linux::moves::migrate::move_to_node;
use frostline_linux::process::Target;
use frostline_linux::topology::Topology;
use frostline_terminal::errors::failure;
use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};

/// Pages that are moved in one go.
const AT_ONCE: usize = 4096;

/// Memory of this process that stays on node 0 as long as this is there.
#[derive(Debug)]
pub struct Filler {
    _memory: Vec<u8>,
}

impl Filler {
    /// Takes as much of node 0 as leaves `size` to programs, beyond what the kernel keeps free.
    ///
    /// # Errors
    /// Where less is free; without the right to lock memory.
    pub fn leave(root: &Root, size: Bytes) -> anyhow::Result<Self> {
        let free = Topology::read(root)?.node(0).map_or(0, |node| node.free_bytes);
        let kept = kept_free(&root.read("/proc/zoneinfo")?);
        let Some(excess) = free.checked_sub(size.0 + kept) else {
            let [free, kept] = [free, kept].map(|bytes| bytes >> 20);
            let what = format!("node 0 has {free} MiB free, of which the kernel keeps {kept}");
            return Err(failure(what, "a smaller --fast, or fewer other programs"));
        };
        // Written, so that each page is one of its own.
        let memory = vec![1u8; excess as usize];
        let first = (memory.as_ptr().addr() as u64).div_ceil(PAGE_BYTES);
        let pages: Vec<Vpn> =
            (0..(excess / PAGE_BYTES).saturating_sub(1)).map(|at| Vpn(first + at)).collect();
        let own = Target::open(root, std::process::id())?;
        let mut elsewhere = 0;
        for some in pages.chunks(AT_ONCE) {
            let outcomes = move_to_node(&own, some, 0)?;
            elsewhere += outcomes.iter().filter(|outcome| **outcome != MoveOutcome::Moved).count();
        }
        if elsewhere > pages.len() / 100 {
            bail!("{elsewhere} of {} pages do not go to node 0", pages.len());
        }
        mlockall(MlockAllFlags::MCL_CURRENT)?;
        Ok(Self { _memory: memory })
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = munlockall();
    }
}

/// What the kernel keeps free of node 0: its zones' high watermarks, as in `/proc/zoneinfo`.
fn kept_free(text: &str) -> u64 {
    let mut is_first = false;
    let mut pages = 0;
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("Node ") {
            is_first = head.starts_with("0,");
        } else if let (true, Some(high)) = (is_first, line.trim().strip_prefix("high ")) {
            pages += high.trim().parse().unwrap_or(0);
        }
    }
    pages * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_are_those_of_the_first_node() {
        let first =
            "Node 0, zone DMA\n pages free 3\n min 1\n high 3\nNode 0, zone Normal\n high     40\n";
        let text = format!("{first}    high: 9\nNode 1, zone Normal\n high 500\n");
        assert_eq!(kept_free(&text), 43 * PAGE_BYTES);
        assert_eq!(kept_free(""), 0);
    }
}
