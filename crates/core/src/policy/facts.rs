//! Facts about a policy that hold as long as it runs, as plain data.

use crate::types::*;

/// Sources of knowledge about accesses that a policy can ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// `Sample` events of loads that missed the last-level cache; the period at the start, 0 none.
    pub load_sample_period: u32,
    /// `Sample` events of retired stores; the period at the start, 0 none.
    pub store_sample_period: u32,
    /// `Scan` actions are answered.
    pub access_bits: bool,
    /// `Arm` actions work, and [`Policy::on_fault`](super::contract::Policy::on_fault) is called.
    pub faults: bool,
    /// Where `faults` are needed: those that pages in swap space have by themselves will do, where
    /// all slower tiers are swap space.
    pub swap_faults: bool,
    /// `Mapped` and `Unmapped` carry original allocation extents.
    pub allocation_extents: bool,
    /// `FileClosed` events come, and `DemoteFile` actions are carried out.
    pub closed_files: bool,
    /// `Counters` events.
    pub counters: bool,
    /// `ReadLatency` events.
    pub read_latencies: bool,
    /// `Epoch` events and knowledge of the whole trace: simulator only.
    pub offline: bool,
}

/// What the world has to know of a policy before it runs. The default is a program outside of the
/// kernel that is told nothing and wishes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// What it must be told.
    pub needs: Telemetry,
    /// New memory, or some of it, shall begin in a slower tier though the fastest has room. A world
    /// that cannot choose tells its user that it does not.
    pub starts_slow: bool,
    /// Tier that touched pages shall go to as far as there is room, for worlds that cannot ask
    /// [`Policy::on_fault`](super::contract::Policy::on_fault) before whoever touches a page goes on,
    /// and move it a moment later. `None` leaves them where they are.
    pub touched_to: Option<TierId>,
    /// New memory shall be mapped by base pages only, where the world can choose. The entry sets it.
    pub base_pages: bool,
    /// It stands for code of a kernel, whose moves need no system calls: a world that models costs
    /// charges none for them.
    pub in_kernel: bool,
    /// Threads of it that never rest: a world that models cores has them compete with the program where
    /// both run on the same ones.
    pub spinning_threads: u32,
    /// Memory outside the fastest tier is a swap device to it: no access is served there, every touch
    /// faults and brings the page in. A world that can forbid direct access does so; others refuse
    /// the policy unless all slower tiers are without it anyway.
    pub swaps: bool,
    /// It describes a machine whose fastest tier holds everything: the world gives that tier room for
    /// all memory. True of the reference `all-fast` only.
    pub unlimited_fast: bool,
}
