//! Latencies of nodes as this system has them, and what moving a page takes.
//!
//! A chain of pointers through memory, of which every access waits for the one before, measures a load that
//! misses all caches, walks of the page table included. Time is that of the thread, since the program may begin
//! meanwhile on the same processor.

use crate::moves::migrate::move_to_node;
use crate::process::clock;
use crate::sys::cache::evict;
use crate::{LinuxError, Root, Target};
use frostline_core::event::MoveOutcome;
use frostline_core::types::{Nanos, PAGE_BYTES, Vpn};
use memmap2::{Advice, MmapMut};

const LINE: usize = 64;
/// Memory of a chain.
const CHAIN: u64 = 512 << 10;
/// Accesses in a chain: less than its lines, of which each is visited once.
const ACCESSES: u32 = 4096;
/// Parts of them.
const PARTS: usize = 9;

/// What a node is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeLatency {
    /// A load that missed all caches (ns).
    pub load_ns: f64,
    /// A base page moved to this node (ns); less where some were there.
    pub move_ns: f64,
}

/// A chain of pointers in memory of its own.
#[derive(Debug)]
pub struct Chain {
    memory: MmapMut,
}

impl Chain {
    /// Base pages of so many bytes, at least one page.
    ///
    /// # Errors
    /// Where there is not so much memory.
    pub fn new(bytes: u64) -> Result<Self, LinuxError> {
        let failed = |error: std::io::Error| LinuxError::Unsupported {
            what: format!("no memory to measure with: {error}"),
            hint: "free some".into(),
        };
        let length = bytes.max(PAGE_BYTES) as usize;
        let mut memory = MmapMut::map_anon(length).map_err(failed)?;
        // A kernel without huge pages has none to be without.
        let _ = memory.advise(Advice::NoHugePage);
        link(&mut memory);
        Ok(Self { memory })
    }

    /// Moves it to a node; the mean time for a page (ns).
    ///
    /// # Errors
    /// Where the kernel refuses, or the node has no room.
    pub fn go_to(&self, target: &Target, node: u32) -> Result<f64, LinuxError> {
        let first = self.memory.as_ptr().addr() as u64 / PAGE_BYTES;
        let pages: Vec<Vpn> =
            (first..first + self.memory.len() as u64 / PAGE_BYTES).map(Vpn).collect();
        let began = clock::thread_cpu();
        let outcomes = move_to_node(target, &pages, node)?;
        let took = since(began);
        let there = outcomes.iter().filter(|outcome| **outcome == MoveOutcome::Moved).count();
        if there < pages.len() {
            return Err(LinuxError::Unsupported {
                what: format!("{there} of {} pages are on node {node}", pages.len()),
                hint: "free memory there".into(),
            });
        }
        Ok(took / pages.len() as f64)
    }

    /// Time of one of so many accesses, one after the other (ns): the median of the means of its parts. Whoever
    /// takes the processor from a virtual machine meanwhile is in few of them.
    pub fn follow(&self, accesses: u32) -> f64 {
        let part = accesses.div_ceil(PARTS as u32).max(1);
        let mut line = 0;
        let mut means = [0.0; PARTS];
        for mean in &mut means {
            let began = clock::thread_cpu();
            for _ in 0..part {
                line = next(&self.memory, line);
            }
            *mean = since(began) / f64::from(part);
        }
        std::hint::black_box(line);
        median(means)
    }
}

fn median(mut of: [f64; PARTS]) -> f64 {
    of.sort_by(f64::total_cmp);
    of[PARTS / 2]
}

/// Time of this thread since (ns).
fn since(began: Nanos) -> f64 {
    clock::thread_cpu().saturating_sub(began).0 as f64
}

/// Each line holds the number of the next one; all are one ring, in an order that jumps.
fn link(memory: &mut [u8]) {
    let lines = memory.len() / LINE;
    // An odd step visits every line of a power of two of them.
    let step = (lines / 8 * 5) | 1;
    for line in 0..lines {
        let next = (line + step) % lines;
        memory[line * LINE..line * LINE + 8].copy_from_slice(&(next as u64).to_le_bytes());
    }
}

fn next(memory: &[u8], line: usize) -> usize {
    let at = line * LINE;
    let mut word = [0; 8];
    word.copy_from_slice(&memory[at..at + 8]);
    u64::from_le_bytes(word) as usize
}

/// Measures nodes, the fastest first, with memory of its own that is given back. Takes a few
/// milliseconds, in an emulated machine 40: who waits to be placed waits for it.
///
/// # Errors
/// Where memory of this process cannot be on one of them.
pub fn measure(root: &Root, nodes: &[u32]) -> Result<Vec<NodeLatency>, LinuxError> {
    let target = Target::open(root, std::process::id())?;
    let chain = Chain::new(CHAIN)?;
    // Pages that are moved are in no cache as a rule.
    evict(&chain.memory);
    // New memory is on the fastest one as a rule, so that all of it moves to each of the others.
    let mut measured: Vec<NodeLatency> = nodes
        .iter()
        .rev()
        .map(|&node| {
            let move_ns = chain.go_to(&target, node)?;
            evict(&chain.memory);
            Ok(NodeLatency { load_ns: chain.follow(ACCESSES), move_ns })
        })
        .collect::<Result<_, LinuxError>>()?;
    measured.reverse();
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_testing::{Requirement, skip};

    #[test]
    fn a_chain_visits_every_line_once() {
        for pages in [1usize, 2, 16, 64] {
            let mut memory = vec![0; pages * 4096];
            link(&mut memory);
            let lines = memory.len() / LINE;
            let mut seen = vec![false; lines];
            let mut line = 0;
            for _ in 0..lines {
                assert!(!std::mem::replace(&mut seen[line], true));
                line = next(&memory, line);
            }
            assert_eq!(line, 0);
        }
    }

    #[test]
    fn a_load_that_misses_takes_longer_than_one_that_hits() {
        let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        if processor.contains("QEMU TCG") {
            return skip(Requirement::Caches, "the processor is emulated");
        }
        let few = Chain::new(PAGE_BYTES).expect("there is memory");
        few.follow(1000);
        let many = Chain::new(CHAIN).expect("there is memory");
        evict(&many.memory);
        // Both are on whatever node there is; the difference is a factor of 30.
        assert!(many.follow(ACCESSES) > few.follow(ACCESSES));
        assert!(u64::from(ACCESSES) + PARTS as u64 <= CHAIN / LINE as u64);
    }

    #[test]
    fn few_interruptions_change_nothing() {
        let mut means = [200.0; PARTS];
        means[..PARTS / 2].fill(12_000.0);
        assert_eq!(median(means), 200.0);
    }
}
