//! Machines of the literature.

use super::{CpuModel, LINE_BYTES, Machine, OsModel, TierModel, TlbModel, Workers};
use crate::costs::Costs;

/// Every preset: name and what it is.
pub(super) const PRESETS: &[(&str, &str)] = &[
    ("dram-nvm", "DRAM 80 ns, Optane 300 ns (MEMTIS, section 6)"),
    ("dram-cxl", "DRAM 80 ns, CXL memory 177 ns (MEMTIS, section 6.3)"),
    ("dram-cxl124", "DRAM 80 ns, CXL memory 124 ns (emulated on a remote socket)"),
    ("disaggregated-750", "DRAM 80 ns, remote memory 750 ns (HotBox)"),
    ("disaggregated-1000", "DRAM 80 ns, remote memory 1000 ns (HotBox)"),
    ("disaggregated-1250", "DRAM 80 ns, remote memory 1250 ns (HotBox)"),
    ("disaggregated-1500", "DRAM 80 ns, remote memory 1500 ns (HotBox)"),
    (
        "hotbox4",
        "disaggregated-750 with the processor of HotBox, section 6: 4 cores at 2.6 GHz, 4 threads, no other cores",
    ),
    ("hbm-dram", "HBM 100 ns and 5 times the bandwidth, DRAM 130 ns"),
    ("dram-zram", "DRAM 80 ns, compressed memory without direct access"),
    ("pet24", "dram-nvm with the machine of PET, section 5: 24 cores at 2.4 GHz, 4 + 2 modules"),
    ("gpac12", "dram-nvm with the processor of GPAC, section 5: 2.3 GHz, 12 virtual cores a guest"),
    (
        "memtis20",
        "dram-nvm with the processor of MEMTIS, section 6: 20 cores at 2.1 GHz, 20 threads",
    ),
    (
        "hybridtier16",
        "dram-cxl124 with the processor of HybridTier, section 5: 16 cores, 16 threads",
    ),
    ("lab", "the emulated machine of docs/notes/lab.md: 100 and 300 ns, an instruction takes 1 ns"),
];

fn tier(name: &str, latency_ns: f64, read_gbps: f64, write_gbps: f64) -> TierModel {
    TierModel {
        name: name.into(),
        read_ns: latency_ns,
        write_ns: latency_ns,
        read_bytes_per_second: read_gbps * 1e9,
        write_bytes_per_second: write_gbps * 1e9,
        granule_bytes: LINE_BYTES,
        service_ns: None,
        capacity_bytes: None,
        direct_access: true,
    }
}

/// So many Optane modules: 6.5 GB/s of reads and 2.3 GB/s of writes each, in pieces of 256 B.
fn optane(modules: f64) -> TierModel {
    TierModel { granule_bytes: 256, ..tier("nvm", 300.0, modules * 6.5, modules * 14.0 / 6.0) }
}

/// One page moved on demand takes 4 us, shootdown included, and `move_pages` 26 us more for a call
/// (HotBox, section 3.3 and Fig. 7).
fn disaggregated(costs: &mut Costs) {
    let copy_ns = 4096.0 * 1e9 / costs.copy_bytes_per_second;
    costs.migrate_base_ns = 4000.0 - copy_ns - costs.shootdown_ns;
    costs.migrate_call_ns = 26_000.0;
}

/// Interruptions of so many cores, for each page that moves: assumed. A core that is interrupted loses half a
/// microsecond; who asks waits for all of them, which is a worker's time.
fn interruptions(costs: &mut Costs, cores: u32) {
    costs.shootdown_ns = 500.0;
    costs.migrate_base_ns += 1500.0 + 100.0 * f64::from(cores);
}

/// Clocks of MEMTIS's and GPAC's Xeons are in the papers, that of PET's Platinum 8260 and of HybridTier's
/// 4314 and HotBox's E5-4620 v2 Intel's. HotBox's authors switched unused cores off. How many threads
/// the programs of PET and GPAC have their papers do not say: one.
fn processor(name: &str) -> CpuModel {
    let (ghz, cores, lanes, workers) = match name {
        "memtis20" => (2.1, 20, 20, Workers::Shared),
        "hybridtier16" => (2.4, 16, 16, Workers::Own),
        "hotbox4" => (2.6, 4, 4, Workers::Shared),
        "pet24" => (2.4, 24, 1, Workers::Own),
        "gpac12" => (2.3, 12, 1, Workers::Own),
        _ => return CpuModel::default(),
    };
    CpuModel { ghz, cores, lanes, workers, prefetch: true, ..CpuModel::default() }
}

/// Bandwidths: six channels of DDR4-2933 reach about 100 GB/s of reads on one socket; six Optane
/// modules 39 GB/s of reads and 14 GB/s of writes (Izraelevitz et al., 2019); a CXL x8 card about
/// 22 GB/s; a 100 Gbit/s network 12.5 GB/s.
pub(super) fn preset(name: &str) -> Option<Machine> {
    if name == "lab" {
        return Some(lab());
    }
    let dram = || tier("dram", 80.0, 100.0, 80.0);
    let cpu = processor(name);
    let (mut os, mut costs) = (OsModel::default(), Costs::default());
    if cpu.lanes > 1 {
        interruptions(&mut costs, cpu.cores);
    }
    let tiers = match name {
        "dram-nvm" => vec![dram(), tier("nvm", 300.0, 39.0, 14.0)],
        "memtis20" | "gpac12" => vec![dram(), optane(6.0)],
        "pet24" => vec![tier("dram", 80.0, 67.0, 53.0), optane(2.0)],
        "dram-cxl" => vec![dram(), tier("cxl", 177.0, 22.0, 20.0)],
        "dram-cxl124" | "hybridtier16" => vec![dram(), tier("cxl", 124.0, 34.0, 30.0)],
        "hbm-dram" => vec![tier("hbm", 100.0, 500.0, 400.0), tier("dram", 130.0, 100.0, 80.0)],
        "dram-zram" => {
            os.thp = false;
            let mut zram = tier("zram", 7000.0, 2.0, 1.0);
            zram.direct_access = false;
            vec![dram(), zram]
        }
        _ => {
            let latency_ns = match name {
                "disaggregated-750" | "hotbox4" => 750.0,
                "disaggregated-1000" => 1000.0,
                "disaggregated-1250" => 1250.0,
                "disaggregated-1500" => 1500.0,
                _ => return None,
            };
            disaggregated(&mut costs);
            vec![dram(), tier("remote", latency_ns, 12.5, 12.5)]
        }
    };
    Some(Machine { name: name.into(), tiers, cpu, os, tlb: TlbModel::default(), costs })
}

/// What `lab/plugin` models, with live frostline as `lab/machine` starts it. Costs were measured by
/// `lab-guest costs` and from what frostline used of the processor: `docs/notes/validation.md` has them.
fn lab() -> Machine {
    let without_queues = |name: &str, latency_ns: f64| TierModel {
        service_ns: Some(0.0),
        ..tier(name, latency_ns, 1000.0, 1000.0)
    };
    Machine {
        name: "lab".into(),
        tiers: vec![without_queues("fast", 100.0), without_queues("slow", 300.0)],
        cpu: CpuModel {
            ghz: 1.0,
            ipc: 1.0,
            mlp: 1.0,
            cores: 1,
            lanes: 1,
            prefetch: false,
            workers: Workers::Shared,
        },
        os: OsModel { low_watermark: 0.0, ..OsModel::default() },
        tlb: TlbModel::default(),
        costs: Costs {
            fault_base_ns: 4000.0,
            fault_huge_ns: 0.98e6,
            hint_fault_ns: 2300.0,
            zero_bytes_per_second: 1e12,
            zero_line_stalls: 1.0,
            migrate_call_ns: 0.0,
            migrate_call_folios: 256,
            migrate_base_ns: 11_300.0,
            migrate_huge_ns: 8.15e6,
            // 64 lines of 100 ns and 64 of 300.
            copy_bytes_per_second: 160e6,
            lookup_ns: 620.0,
            found_ns: 600.0,
            start_ns: 85e6,
            // 0.8 % of a processor, at 20 steps a second.
            step_ns: 400_000.0,
            shootdown_ns: 0.0,
            sample_assist_ns: 250.0,
            sample_cpu_ns: 0.0,
            sample_policy_ns: 1100.0,
            ..Costs::default()
        },
    }
}
