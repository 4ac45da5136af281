//! Description of the modelled machine.

mod offer;
mod parse;
pub(crate) mod part;
mod presets;

use crate::costs::Costs;
use crate::error::SimError;
use frostline_core::params::{Kind, Param};
use frostline_core::types::*;
use part::part;
use serde::{Deserialize, Serialize};

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: u64 = 64;
/// Longest latency or cost of a machine, in nanoseconds: 1000 s. Sums of them stay numbers.
const LONGEST_NS: f64 = 1e12;
/// Highest bandwidth, in bytes per second.
const HIGHEST_RATE: f64 = 1e18;

part! {
    /// A memory tier.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct TierModel in each "tiers.*" {
        /// For people: `dram`, `nvm`.
        name: String = Kind::Text, "";
        /// Unloaded latency of a load or fetch that missed all caches.
        read_ns: f64 = Kind::Nanoseconds, "";
        /// Unloaded latency of a store that missed all caches (the line is read first).
        write_ns: f64 = Kind::Nanoseconds, "";
        /// Bandwidth of reads.
        read_bytes_per_second: f64 = Kind::Rate, "";
        /// Bandwidth of writes.
        write_bytes_per_second: f64 = Kind::Rate, "";
        /// Bytes that it reads or writes at once, a power of two from a cache line to a page: a line alone
        /// takes the bandwidth of so many. 256 for Optane (Yang et al., FAST '20).
        #[serde(default = "line")]
        granule_bytes: u64 = Kind::Bytes, "64";
        /// Part of the latency that queues behind other requests: the service time of the M/D/1 queue.
        /// Default: half the read latency, which doubles the latency at 80 % load.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service_ns: Option<f64> = Kind::Nanoseconds, "";
        /// Capacity. Tier 0 gets it from the `--fast` option. Default of the others: as much as the
        /// program can need.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capacity_bytes: Option<u64> = Kind::Bytes, "";
        /// Whether the processor can load and store in it; false for swap tiers, where every touch
        /// faults and brings the page in.
        #[serde(default = "yes")]
        direct_access: bool = Kind::Switch, "on";
    }
}

fn yes() -> bool {
    true
}

fn line() -> u64 {
    LINE_BYTES
}

impl TierModel {
    pub(crate) fn service(&self) -> f64 {
        self.service_ns.unwrap_or(self.read_ns / 2.0)
    }

    /// Cache lines that it reads or writes at once.
    pub(crate) fn granule_lines(&self) -> u32 {
        (self.granule_bytes / LINE_BYTES) as u32
    }
}

part! {
    /// The processor that runs the program.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct CpuModel in "cpu" {
        /// Clock frequency.
        ghz: f64 = Kind::Float, "3";
        /// Instructions per cycle while nothing waits for memory.
        ipc: f64 = Kind::Float, "2";
        /// Memory-level parallelism: accesses in flight at once, per core; divides latencies.
        mlp: f64 = Kind::Float, "4";
        /// Cores that the program's threads can use. Work is divided by the smaller of this and the
        /// number of live threads.
        cores: u32 = Kind::Count, "1";
        /// Threads of the program for which each thread of a trace stands: all do the same on other
        /// memory, or on parts of the same.
        lanes: u32 = Kind::Count, "1";
        /// Whether lines that a program sweeps over are fetched ahead: such accesses take bandwidth, a
        /// tenth of their stall, and no sampler of loads that missed sees them. 32 pages at once, from the
        /// third line in a row on (Intel optimisation manual).
        prefetch: bool = Kind::Switch, "off";
        /// Whose processor time background workers use.
        workers: Workers = Kind::Choice(&["own", "shared"]), "own";
    }
}

impl CpuModel {
    /// Threads of the program that run at the same time, where so many threads of a trace are alive;
    /// at least 1.
    pub fn parallel(&self, threads: u32) -> f64 {
        f64::from(threads.saturating_mul(self.lanes).clamp(1, self.cores))
    }
}

/// Where background work (sampling thread, migration workers, scanners) runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workers {
    /// On cores that the program does not use: it only feels shootdowns and lost bandwidth.
    Own,
    /// On the program's cores: all of it delays the program.
    Shared,
}

part! {
    /// A translation lookaside buffer of two levels, per thread.
    ///
    /// Intel Ice Lake and Cascade Lake have 64 + 32 first-level entries, 4 ways, and 1536 or 2048
    /// second-level ones; seven cycles for a second-level hit (Intel optimisation manual). Walks:
    /// assumed one page-table entry from the last-level cache, and for 4 KiB pages every other
    /// time from memory. In guests, walks to two entries of 2 MiB are assumed twice as long as one,
    /// and others longer as measured by Merrifield and Taheri (VEE '16) with 64 GB.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct TlbModel in "tlb" {
        /// First-level entries for 4 KiB pages.
        l1_base_entries: u32 = Kind::Count, "64";
        /// First-level entries for 2 MiB folios.
        l1_huge_entries: u32 = Kind::Count, "32";
        /// Associativity of the first level.
        l1_ways: u32 = Kind::Count, "4";
        /// Second-level entries, shared by both sizes.
        l2_entries: u32 = Kind::Count, "1536";
        /// Associativity of the second level.
        l2_ways: u32 = Kind::Count, "12";
        /// Added to an access that hits the second level only.
        l2_hit_ns: f64 = Kind::Nanoseconds, "2.3";
        /// Added to an access that walks the page table to a 4 KiB entry.
        walk_base_ns: f64 = Kind::Nanoseconds, "30";
        /// Added to an access that walks the page table to a 2 MiB entry.
        walk_huge_ns: f64 = Kind::Nanoseconds, "12";
        /// Added to an access in a guest that walks both page tables to entries of 2 MiB.
        nested_ns: f64 = Kind::Nanoseconds, "24";
        /// How many times as long a walk takes where the guest has a base page there and the host a
        /// folio.
        nested_host_huge: f64 = Kind::Float, "2.3";
        /// The same, where both have base pages.
        nested_host_base: f64 = Kind::Float, "4.2";
    }
}

part! {
    /// How the operating system allocates memory.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct OsModel in "os" {
        /// Transparent huge pages `always`: the first touch of a 2 MiB region that lies wholly in
        /// anonymous memory maps a huge folio.
        thp: bool = Kind::Switch, "on";
        /// Whether base pages can become a huge folio later. A program that refuses huge folios
        /// (`MADV_NOHUGEPAGE`) has neither.
        collapse: bool = Kind::Switch, "on";
        /// Whether the first touch can map a folio beyond tier 0, or after compaction. Linux's default
        /// (`defrag` is `madvise`) gives such only to programs that ask (`MADV_HUGEPAGE`): others get a
        /// folio where the processor's own node has a free block, else base pages.
        thp_remote: bool = Kind::Switch, "on";
        /// Share of 2 MiB physical blocks that hold something unmovable, so that no folio fits; `[0,
        /// 1]`. These are handed out first, by pieces of 8 pages wherever they lie; all others, where this is
        /// above 0, in random order.
        fragmentation: f64 = Kind::Ratio, "0";
        /// Low watermark: share of each tier that moves leave free for new memory, `[0, 1)`.
        low_watermark: f64 = Kind::Ratio, "0.001";
    }
}

/// A modelled machine: tiers, processor, operating system, costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Preset or file name, with the parameters that were changed.
    pub name: String,
    /// Tiers from the fastest to the slowest, 2 to [`MAX_TIERS`].
    pub tiers: Vec<TierModel>,
    /// Processor.
    #[serde(default)]
    pub cpu: CpuModel,
    /// Memory management.
    #[serde(default)]
    pub os: OsModel,
    /// Translation lookaside buffer, modelled where the run asks for it.
    #[serde(default)]
    pub tlb: TlbModel,
    /// Costs of system work.
    #[serde(default)]
    pub costs: Costs,
}

/// Nanoseconds that the upper bound and `saving_ns` count, for one fast and one slow tier: unqueued
/// latency over memory-level parallelism, and migration at the cheapest rate per byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SavingModel {
    /// A load or fetch served fast instead of slow.
    pub read_saving_ns: f64,
    /// A store served fast instead of slow.
    pub write_saving_ns: f64,
    /// A write-back served fast: 0, nobody waits for it.
    pub write_back_saving_ns: f64,
    /// One page moved to the fast tier.
    pub promotion_cost_ns: f64,
    /// One page moved to the slow tier.
    pub demotion_cost_ns: f64,
}

impl Machine {
    /// Parameters of all parts. Those of a tier have `*` in place of its name.
    pub fn params() -> impl Iterator<Item = &'static Param> {
        let parts =
            [TierModel::PARAMS, CpuModel::PARAMS, OsModel::PARAMS, TlbModel::PARAMS, Costs::PARAMS];
        parts.into_iter().flatten()
    }

    /// The slowest tier's index.
    pub fn slowest(&self) -> usize {
        self.tiers.len() - 1
    }

    /// Whether every tier can be accessed directly. Where not, a share of the bound is undefined.
    pub fn all_direct(&self) -> bool {
        self.tiers.iter().all(|t| t.direct_access)
    }

    /// Constants of the upper bound for tier 0 over the slowest tier.
    pub fn saving_model(&self) -> SavingModel {
        let slowest = self.slowest();
        SavingModel {
            read_saving_ns: self.saving_ns(AccessKind::Load, 0),
            write_saving_ns: self.saving_ns(AccessKind::Store, 0),
            write_back_saving_ns: self.saving_ns(AccessKind::WriteBack, 0),
            promotion_cost_ns: self.move_page_ns(slowest, 0),
            demotion_cost_ns: self.move_page_ns(0, slowest),
        }
    }

    /// What the program waits for one access, unqueued.
    pub fn stall_ns(&self, kind: AccessKind, tier: usize) -> f64 {
        let tier = &self.tiers[tier];
        let latency_ns = match kind {
            AccessKind::Load | AccessKind::Fetch => tier.read_ns,
            AccessKind::Store => tier.write_ns,
            AccessKind::WriteBack => 0.0,
        };
        latency_ns / self.cpu.mlp
    }

    /// What an access in `tier` saves over one in the slowest tier.
    pub fn saving_ns(&self, kind: AccessKind, tier: usize) -> f64 {
        self.stall_ns(kind, self.slowest()) - self.stall_ns(kind, tier)
    }

    /// Time to copy one 4 KiB page at the machine's best rate: a page's cheapest migration.
    pub fn move_page_ns(&self, from: usize, to: usize) -> f64 {
        PAGE_BYTES as f64 * 1e9 / self.copy_bytes_per_second(from, to)
    }

    /// One page brought in by its touch from a tier that serves no access: `refault_ns`. From memory
    /// that only the policy uses as a swap device, the kernel's part and the copy.
    pub fn page_in_ns(&self, from: usize, to: usize) -> f64 {
        if self.tiers[from].direct_access {
            self.costs.swap_in_ns + self.tiers[from].read_ns + self.move_page_ns(from, to)
        } else {
            self.costs.refault_ns
        }
    }

    /// One page moved to, or ahead of its touch from, a tier that serves no access; see
    /// [`Self::page_in_ns`].
    pub fn swap_ns(&self, from: usize, to: usize) -> f64 {
        if !self.tiers[to].direct_access {
            self.costs.evict_ns
        } else if !self.tiers[from].direct_access {
            self.costs.prefetch_ns
        } else {
            let kernel_ns = if to > from { self.costs.swap_out_ns } else { self.costs.swap_in_ns };
            kernel_ns + self.move_page_ns(from, to)
        }
    }

    /// A base page, or a folio of so many, moved between tiers that serve accesses while the program
    /// waits: the first line takes the latency of the tier that it comes from.
    pub fn move_in_fault_ns(&self, from: usize, to: usize, pages: u32) -> f64 {
        let costs = &self.costs;
        let fixed = if pages > 1 { costs.migrate_huge_ns } else { costs.migrate_base_ns };
        fixed + self.tiers[from].read_ns + f64::from(pages) * self.move_page_ns(from, to)
    }

    /// Rate of one core that copies between tiers.
    pub fn copy_bytes_per_second(&self, from: usize, to: usize) -> f64 {
        self.costs
            .copy_bytes_per_second
            .min(self.tiers[from].read_bytes_per_second)
            .min(self.tiers[to].write_bytes_per_second)
    }

    /// Checks that the description can be computed with.
    ///
    /// # Errors
    /// Too few or too many tiers, a number that is not finite, negative or zero where it divides.
    pub fn validate(&self) -> Result<(), SimError> {
        let fail = |what: String, hint: &str| {
            Err(SimError::Machine { name: self.name.clone(), what, hint: hint.to_owned() })
        };
        if !(2..=MAX_TIERS).contains(&self.tiers.len()) {
            return fail(format!("{} tiers", self.tiers.len()), "a machine has 2 to 8 tiers");
        }
        if !self.tiers[0].direct_access {
            return fail("tier 0 without direct access".into(), "only slower tiers can be swap");
        }
        for tier in &self.tiers {
            let positive = [
                ("read_ns", tier.read_ns, LONGEST_NS),
                ("write_ns", tier.write_ns, LONGEST_NS),
                ("read_bytes_per_second", tier.read_bytes_per_second, HIGHEST_RATE),
                ("write_bytes_per_second", tier.write_bytes_per_second, HIGHEST_RATE),
            ];
            for (key, value, most) in positive {
                if !(value > 0.0 && value <= most) {
                    return fail(
                        format!("tier `{}`: {key} is {value}", tier.name),
                        "latencies are above 0 and at most 1e12 ns, bandwidths above 0 and at most 1e18",
                    );
                }
            }
            let granule = tier.granule_bytes;
            if !granule.is_power_of_two() || !(LINE_BYTES..=PAGE_BYTES).contains(&granule) {
                return fail(
                    format!("tier `{}`: granule_bytes is {granule}", tier.name),
                    "a power of two from 64 to 4096",
                );
            }
            if !(0.0..=LONGEST_NS).contains(&tier.service()) {
                return fail(format!("tier `{}`: service_ns", tier.name), "within 0 and 1e12");
            }
        }
        let cpu = &self.cpu;
        let divisors = [("ghz", cpu.ghz), ("ipc", cpu.ipc), ("mlp", cpu.mlp)];
        for (key, value) in divisors {
            if !(1e-6..=1e12).contains(&value) {
                return fail(format!("cpu.{key} is {value}"), "it has to be within 1e-6 and 1e12");
            }
        }
        for (key, value) in [("cores", cpu.cores), ("lanes", cpu.lanes)] {
            if value == 0 {
                return fail(format!("cpu.{key} is 0"), "at least 1");
            }
        }
        let os = &self.os;
        if !(0.0..=1.0).contains(&os.fragmentation) || !(0.0..1.0).contains(&os.low_watermark) {
            return fail(
                "os.fragmentation or os.low_watermark out of range".into(),
                "both are shares between 0 and 1",
            );
        }
        self.validate_costs()
    }

    fn validate_costs(&self) -> Result<(), SimError> {
        let c = &self.costs;
        let fail = |what: String, hint: &str| {
            Err(SimError::Machine { name: self.name.clone(), what, hint: hint.to_owned() })
        };
        let spans = [
            ("fault_base_ns", c.fault_base_ns),
            ("fault_huge_ns", c.fault_huge_ns),
            ("hint_fault_ns", c.hint_fault_ns),
            ("refault_ns", c.refault_ns),
            ("evict_ns", c.evict_ns),
            ("swap_in_ns", c.swap_in_ns),
            ("swap_out_ns", c.swap_out_ns),
            ("prefetch_ns", c.prefetch_ns),
            ("migrate_call_ns", c.migrate_call_ns),
            ("migrate_base_ns", c.migrate_base_ns),
            ("migrate_huge_ns", c.migrate_huge_ns),
            ("split_ns", c.split_ns),
            ("collapse_ns", c.collapse_ns),
            ("scan_ns", c.scan_ns),
            ("zero_line_stalls", c.zero_line_stalls),
            ("lookup_ns", c.lookup_ns),
            ("found_ns", c.found_ns),
            ("start_ns", c.start_ns),
            ("step_ns", c.step_ns),
            ("arm_ns", c.arm_ns),
            ("entry_ns", c.entry_ns),
            ("shootdown_ns", c.shootdown_ns),
            ("sample_assist_ns", c.sample_assist_ns),
            ("sample_cpu_ns", c.sample_cpu_ns),
            ("sample_policy_ns", c.sample_policy_ns),
        ];
        for (key, value) in spans {
            if !(0.0..=LONGEST_NS).contains(&value) {
                return fail(format!("costs.{key} is {value}"), "0 to 1e12 nanoseconds");
            }
        }
        if !(c.zero_bytes_per_second > 0.0 && c.copy_bytes_per_second > 0.0)
            || c.migrate_call_folios == 0
        {
            return fail("a rate or batch of `costs` is 0".into(), "it has to be above 0");
        }
        let t = &self.tlb;
        let walks = [t.l2_hit_ns, t.walk_base_ns, t.walk_huge_ns, t.nested_ns];
        let factors = [t.nested_host_huge, t.nested_host_base];
        if walks.iter().chain(&factors).any(|walk| !(0.0..=LONGEST_NS).contains(walk)) {
            let what = "a time of `tlb`, or a factor of tlb.nested_ns, is out of range";
            return fail(what.into(), "within 0 and 1e12");
        }
        let shapes = [
            ("l1_base_entries", t.l1_base_entries, t.l1_ways),
            ("l1_huge_entries", t.l1_huge_entries, t.l1_ways),
            ("l2_entries", t.l2_entries, t.l2_ways),
        ];
        for (key, entries, ways) in shapes {
            if ways == 0 || ways > 64 || entries == 0 || entries % ways != 0 || entries > 1 << 20 {
                return fail(
                    format!("tlb.{key} is {entries} with {ways} ways"),
                    "entries are a multiple of the ways, which are 1 to 64",
                );
            }
        }
        Ok(())
    }
}
