//! Costs of the operating system's work: the one table of the model.

use crate::machine::part::part;
use frostline_core::params::Kind;
use serde::{Deserialize, Serialize};

part! {
    /// Time that page faults, migration, scans and sampling take.
    ///
    /// Sources: *measured* means measured with small programs on Linux 6.18 in a virtual machine on an
    /// AMD EPYC; *published* names the publication; *assumed* is a round figure for bare metal where
    /// neither exists. `docs/reference/machines.md` says for each cost who pays it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct Costs in "costs" {
        /// First touch of a base page: exception, allocation, page table; without zeroing. Assumed 500
        /// (a virtual machine pays ten times as much, for its second page table).
        fault_base_ns: f64 = Kind::Nanoseconds, "500";
        /// First touch of a huge folio, without zeroing. Assumed 1500.
        fault_huge_ns: f64 = Kind::Nanoseconds, "1.5us";
        /// Rate at which fresh memory is zeroed. Measured 8-10 GB/s.
        zero_bytes_per_second: f64 = Kind::Rate, "9e9";
        /// Part of a tier's write latency that zeroing waits for with each line, on top of that rate: 0
        /// where stores stream, 1 where nothing overlaps. The program then finds the zeroed lines in the
        /// cache.
        zero_line_stalls: f64 = Kind::Float, "0";
        /// Touch of an armed page: exception and return. Measured 1080 (NUMA hint fault).
        hint_fault_ns: f64 = Kind::Nanoseconds, "1080";
        /// Touch of a page in a tier without direct access: exception, lookup, decompression.
        /// Measured 6000-8000 with zram.
        refault_ns: f64 = Kind::Nanoseconds, "7us";
        /// Moving one page out to a tier without direct access. Measured 6000-12000 with zram.
        evict_ns: f64 = Kind::Nanoseconds, "8us";
        /// Bringing one page in ahead of its touch from a tier without direct access. Measured
        /// 4000-5000 with zram (`MADV_WILLNEED`).
        prefetch_ns: f64 = Kind::Nanoseconds, "4.5us";
        /// Touch of a page in memory that a policy uses as a swap device, without the copy: exception,
        /// swap cache, allocation, page table. Measured 4250 (zram with pages of one word, no read-ahead).
        swap_in_ns: f64 = Kind::Nanoseconds, "4.25us";
        /// Moving one page out to such memory, without the copy. Measured 4250 (`MADV_PAGEOUT`).
        swap_out_ns: f64 = Kind::Nanoseconds, "4.25us";
        /// Fixed part of one `move_pages` call. Measured 29000.
        migrate_call_ns: f64 = Kind::Nanoseconds, "29us";
        /// Addresses per `move_pages` call. Gains end at 512 (measured 685, 318, 260 ns a page at 64,
        /// 512, 4096).
        migrate_call_folios: u32 = Kind::Count, "512";
        /// Per base page moved: unmap, page-table update; without the copy. Measured 318.
        migrate_base_ns: f64 = Kind::Nanoseconds, "318";
        /// Per huge folio moved, without the copy. Assumed 4000.
        migrate_huge_ns: f64 = Kind::Nanoseconds, "4us";
        /// Copy rate of one core; a tier's bandwidth can lower it further. Assumed 8 GB/s.
        copy_bytes_per_second: f64 = Kind::Rate, "8e9";
        /// Splitting a huge folio. Measured 170000-400000 (`MADV_COLD` on a part of it).
        split_ns: f64 = Kind::Nanoseconds, "285us";
        /// Rebuilding a huge folio, copy included. Measured 800000-2000000 (`MADV_COLLAPSE`).
        collapse_ns: f64 = Kind::Nanoseconds, "1.4ms";
        /// Reading, and clearing, one access bit. Measured 34 (bulk read of `pagemap`).
        scan_ns: f64 = Kind::Nanoseconds, "34";
        /// Looking up where one page or folio is, by its page table entry and its frame. Measured 34 (bulk
        /// read of `pagemap`).
        lookup_ns: f64 = Kind::Nanoseconds, "34";
        /// What engine and policy do with a page that was found so, where their time matters. Assumed 0.
        found_ns: f64 = Kind::Nanoseconds, "0";
        /// From a program's start to the first step of a daemon that begins with it, what the daemon measures
        /// before included. Assumed 20 ms.
        start_ns: f64 = Kind::Nanoseconds, "20ms";
        /// What a daemon does in every step, whatever there is to do. Assumed 0.
        step_ns: f64 = Kind::Nanoseconds, "0";
        /// Arming or disarming one page. Measured 124 (write-protection by `userfaultfd`).
        arm_ns: f64 = Kind::Nanoseconds, "124";
        /// What one TLB shootdown takes from each core that runs the program. Assumed 1500 (an
        /// inter-processor interrupt and the refill of the flushed entries).
        shootdown_ns: f64 = Kind::Nanoseconds, "1.5us";
        /// What one hardware sample takes from the program. Published 200-300: Akiyama and Hirofuchi,
        /// *Quantitative evaluation of Intel PEBS overhead*, ROSS 2017.
        sample_assist_ns: f64 = Kind::Nanoseconds, "250";
        /// Processing of one sample by the sampling thread: ring buffer, page lookup, counting.
        /// Assumed 250 (parsing of the ring alone: 4.5, measured).
        sample_cpu_ns: f64 = Kind::Nanoseconds, "250";
        /// One page of a policy's tables that it goes over in the background, as MEMTIS does where it cools
        /// and looks for skew. Assumed 10: a line from memory for a few pages.
        entry_ns: f64 = Kind::Nanoseconds, "10";
        /// What policy and engine do with a sample, where their time matters: policies that limit the
        /// sampler are not told of it. Assumed 0.
        sample_policy_ns: f64 = Kind::Nanoseconds, "0";
    }
}
