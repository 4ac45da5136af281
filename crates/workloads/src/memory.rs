//! The memory of a modelled program as its data structures see it, or none while they are built.

use super::cpu::Cpu;
use super::stage::{Area, Stage};

/// Where the loads and stores of a data structure go.
pub(super) trait Memory {
    /// Instructions that have passed.
    fn clock(&self) -> u64;
    /// Loads the line at `offset`.
    fn load(&mut self, area: Area, offset: u64);
    /// Loads every line of `[offset, offset + len)`.
    fn load_all(&mut self, area: Area, offset: u64, len: u64);
    /// Stores to the line at `offset`.
    fn store(&mut self, area: Area, offset: u64);
    /// Stores to every line of `[offset, offset + len)`.
    fn store_all(&mut self, area: Area, offset: u64, len: u64);
}

/// Memory behind the caches of a core.
pub(super) struct Cached<'a> {
    pub(super) cpu: &'a mut Cpu,
    pub(super) stage: &'a mut Stage,
}

impl Memory for Cached<'_> {
    #[inline]
    fn clock(&self) -> u64 {
        self.stage.clock()
    }

    #[inline]
    fn load(&mut self, area: Area, offset: u64) {
        self.cpu.load(self.stage, area, offset);
    }

    #[inline]
    fn load_all(&mut self, area: Area, offset: u64, len: u64) {
        self.cpu.load_all(self.stage, area, offset, len);
    }

    #[inline]
    fn store(&mut self, area: Area, offset: u64) {
        self.cpu.store(self.stage, area, offset);
    }

    #[inline]
    fn store_all(&mut self, area: Area, offset: u64, len: u64) {
        self.cpu.store_all(self.stage, area, offset, len);
    }
}

/// Memory whose accesses are in no trace: for building what is there before the measured phase.
pub(super) struct Untraced;

impl Memory for Untraced {
    fn clock(&self) -> u64 {
        0
    }

    fn load(&mut self, _: Area, _: u64) {}

    fn load_all(&mut self, _: Area, _: u64, _: u64) {}

    fn store(&mut self, _: Area, _: u64) {}

    fn store_all(&mut self, _: Area, _: u64, _: u64) {}
}

/// Scatters the bits of a number: the finalizer of SplitMix64 (Steele et al., OOPSLA 2014).
#[inline]
pub(super) fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
