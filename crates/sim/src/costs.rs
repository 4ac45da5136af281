//! Costs of the operating system's work: the one table of the model.

use serde::{Deserialize, Serialize};

/// Time that page faults, migration, scans and sampling take.
///
/// Sources: *measured* means measured with small programs on Linux 6.18 in a virtual machine on an
/// AMD EPYC; *published* names the publication; *assumed* is a round figure for bare metal where
/// neither exists. `docs/reference/machines.md` says for each cost who pays it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// First touch of a base page: exception, allocation, page table; without zeroing. Assumed 500
    /// (a virtual machine pays ten times as much, for its second page table).
    pub fault_base_ns: f64,
    /// First touch of a huge folio, without zeroing. Assumed 1500.
    pub fault_huge_ns: f64,
    /// Rate at which fresh memory is zeroed. Measured 8-10 GB/s.
    pub zero_bytes_per_second: f64,
    /// Part of a tier's write latency that zeroing waits for with each line, on top of that rate: 0
    /// where stores stream, 1 where nothing overlaps. The program then finds the zeroed lines in the
    /// cache.
    pub zero_line_stalls: f64,
    /// Touch of an armed page: exception and return. Measured 1080 (NUMA hint fault).
    pub hint_fault_ns: f64,
    /// Touch of a page in a tier without direct access: exception, lookup, decompression.
    /// Measured 6000-8000 with zram.
    pub refault_ns: f64,
    /// Moving one page out to a tier without direct access. Measured 6000-12000 with zram.
    pub evict_ns: f64,
    /// Bringing one page in ahead of its touch from a tier without direct access. Measured
    /// 4000-5000 with zram (`MADV_WILLNEED`).
    pub prefetch_ns: f64,
    /// Fixed part of one `move_pages` call. Measured 29000.
    pub migrate_call_ns: f64,
    /// Addresses per `move_pages` call. Gains end at 512 (measured 685, 318, 260 ns a page at 64,
    /// 512, 4096).
    pub migrate_call_folios: u32,
    /// Per base page moved: unmap, page-table update; without the copy. Measured 318.
    pub migrate_base_ns: f64,
    /// Per huge folio moved, without the copy. Assumed 4000.
    pub migrate_huge_ns: f64,
    /// Copy rate of one core; a tier's bandwidth can lower it further. Assumed 8 GB/s.
    pub copy_bytes_per_second: f64,
    /// Splitting a huge folio. Measured 170000-400000 (`MADV_COLD` on a part of it).
    pub split_ns: f64,
    /// Rebuilding a huge folio, copy included. Measured 800000-2000000 (`MADV_COLLAPSE`).
    pub collapse_ns: f64,
    /// Reading, and clearing, one access bit. Measured 34 (bulk read of `pagemap`).
    pub scan_ns: f64,
    /// Looking up where one page or folio is, by its page table entry and its frame. Measured 34 (bulk
    /// read of `pagemap`).
    pub lookup_ns: f64,
    /// What engine and policy do with a page that was found so, where their time matters. Assumed 0.
    pub found_ns: f64,
    /// What a daemon does in every step, whatever there is to do. Assumed 0.
    pub step_ns: f64,
    /// Arming or disarming one page. Measured 124 (write-protection by `userfaultfd`).
    pub arm_ns: f64,
    /// What one TLB shootdown takes from each core that runs the program. Assumed 1500 (an
    /// inter-processor interrupt and the refill of the flushed entries).
    pub shootdown_ns: f64,
    /// What one hardware sample takes from the program. Published 200-300: Akiyama and Hirofuchi,
    /// *Quantitative evaluation of Intel PEBS overhead*, ROSS 2017.
    pub sample_assist_ns: f64,
    /// Processing of one sample by the sampling thread: ring buffer, page lookup, counting.
    /// Assumed 250 (parsing of the ring alone: 4.5, measured).
    pub sample_cpu_ns: f64,
    /// What policy and engine do with a sample, where their time matters: policies that limit the
    /// sampler are not told of it. Assumed 0.
    pub sample_policy_ns: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            fault_base_ns: 500.0,
            fault_huge_ns: 1500.0,
            zero_bytes_per_second: 9e9,
            zero_line_stalls: 0.0,
            hint_fault_ns: 1080.0,
            refault_ns: 7000.0,
            evict_ns: 8000.0,
            prefetch_ns: 4500.0,
            migrate_call_ns: 29_000.0,
            migrate_call_folios: 512,
            migrate_base_ns: 318.0,
            migrate_huge_ns: 4000.0,
            copy_bytes_per_second: 8e9,
            split_ns: 285_000.0,
            collapse_ns: 1_400_000.0,
            scan_ns: 34.0,
            lookup_ns: 34.0,
            found_ns: 0.0,
            step_ns: 0.0,
            arm_ns: 124.0,
            shootdown_ns: 1500.0,
            sample_assist_ns: 250.0,
            sample_cpu_ns: 250.0,
            sample_policy_ns: 0.0,
        }
    }
}
