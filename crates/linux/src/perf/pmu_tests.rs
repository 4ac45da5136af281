use super::*;
use crate::testing::Tree;
use proptest::prelude::*;

fn device(tree: &Tree, name: &str, files: &[(&str, &str)]) {
    for (file, text) in files {
        tree.file(format!("{DEVICES}/{name}/{file}"), format!("{text}\n"));
    }
}

const INTEL: &[(&str, &str)] = &[
    ("type", "4"),
    ("format/event", "config:0-7"),
    ("format/umask", "config:8-15"),
    ("format/ldlat", "config1:0-15"),
    ("caps/max_precise", "3"),
    ("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("events/mem-stores", "event=0xd0,umask=0x82"),
];

fn period(misses: u32) -> NonZeroU32 {
    NonZeroU32::new(misses).expect("not 0")
}

fn found(tree: &Tree) -> Vec<PmuSource> {
    sources(tree.root()).expect("all files are sound")
}

fn by_kind(sources: &[PmuSource], kind: PmuKind) -> &PmuSource {
    sources.iter().find(|source| source.kind == kind).expect("it is offered")
}

#[test]
fn intel_before_sapphire_rapids() {
    let tree = Tree::new();
    device(&tree, "cpu", INTEL);
    device(&tree, "software", &[("type", "1")]);
    let sources = found(&tree);
    let kinds: Vec<_> = sources.iter().map(|source| source.kind).collect();
    assert_eq!(kinds, [PmuKind::IntelLoadMiss, PmuKind::IntelLoadLatency, PmuKind::IntelStore]);
    let misses = &by_kind(&sources, PmuKind::IntelLoadMiss).attr;
    assert_eq!((misses.pmu, misses.config, misses.precise), (4, 0x20d1, 2));
    let loads = by_kind(&sources, PmuKind::IntelLoadLatency);
    assert_eq!((loads.attr.config, loads.attr.config1), (0x1cd, LEAST_LATENCY_CYCLES));
    assert_eq!(loads.leader, None);
    assert_eq!(by_kind(&sources, PmuKind::IntelStore).attr.config, 0x82d0);
    let [watch, sampling] = &loads.specs(period(1000))[..] else { panic!("two events") };
    assert_eq!((watch.attr.pmu, watch.attr.period), (sys::PERF_TYPE_SOFTWARE, 0));
    assert_eq!((sampling.attr.period, sampling.attr.sample_type), (1000, FIELDS));
    assert!(sampling.attr.inherit && watch.cpus.is_none());
}

#[test]
fn intel_with_a_leader_and_two_kinds_of_cores() {
    let tree = Tree::new();
    let mut files = INTEL.to_vec();
    files.extend([
        ("events/mem-loads-aux", "event=0x03,umask=0x82"),
        ("events/mem-stores", "event=0xcd,umask=0x2"),
        ("cpus", "0-3"),
    ]);
    device(&tree, "cpu_core", &files);
    files.extend([("type", "10"), ("cpus", "4-7"), ("events/mem-stores", "event=0xd0,umask=0x6")]);
    files.retain(|(file, _)| *file != "events/mem-loads-aux");
    device(&tree, "cpu_atom", &files);
    let sources = found(&tree);
    let of = |device: &str, kind| {
        let source = sources.iter().find(|s| s.device == device && s.kind == kind);
        source.cloned().ok_or(())
    };
    let big = of("cpu_core", PmuKind::IntelLoadLatency).expect("it is offered");
    assert_eq!(big.leader.as_ref().map(|leader| leader.config), Some(0x8203));
    let [watch, sampling] = &big.specs(period(1))[..] else { panic!("two events") };
    assert_eq!((&watch.cpus, sampling.cpus.as_deref()), (&None, Some(&[0, 1, 2, 3][..])));
    assert!(sampling.leader.as_ref().is_some_and(|leader| leader.inherit && leader.period == 0));
    assert_eq!(of("cpu_core", PmuKind::IntelStore).expect("it is offered").attr.config, 0x2cd);
    let small = of("cpu_atom", PmuKind::IntelLoadLatency).expect("it is offered");
    assert_eq!((small.attr.pmu, small.leader, small.cpus), (10, None, Some(vec![4, 5, 6, 7])));
    assert_eq!(of("cpu_atom", PmuKind::IntelLoadMiss), Err(()), "another number there");
}

#[test]
fn amd_with_and_without_misses_only() {
    let tree = Tree::new();
    device(&tree, "ibs_op", &[("type", "9"), ("format/cnt_ctl", "config:19")]);
    let sources = found(&tree);
    assert_eq!(sources.len(), 1);
    assert_eq!((sources[0].attr.pmu, sources[0].attr.config), (9, 1 << 19));
    device(
        &tree,
        "ibs_op",
        &[("format/l3missonly", "config:16"), ("caps/zen4_ibs_extensions", "1")],
    );
    let sources = found(&tree);
    assert_eq!(sources[0].kind, PmuKind::AmdIbsMiss);
    assert_eq!(sources[0].attr.config, 1 << 19 | 1 << 16);
    assert_eq!(sources[1].kind, PmuKind::AmdIbs);
}

/// Periods are meant for misses. One taken as micro-operations would be an interrupt every 200 of
/// them.
#[test]
fn ibs_periods_are_micro_operations_as_many_as_a_miss_stands_for() {
    let tree = Tree::new();
    device(&tree, "cpu", INTEL);
    device(&tree, "ibs_op", &[("type", "9"), ("format/cnt_ctl", "config:19")]);
    let files = [("format/l3missonly", "config:16"), ("caps/zen4_ibs_extensions", "1")];
    device(&tree, "ibs_op", &files);
    let mut of_ibs = 0;
    for source in found(&tree) {
        let of = |misses| source.specs(period(misses))[1].attr.period;
        let ibs = source.device == "ibs_op";
        of_ibs += u32::from(ibs);
        assert_eq!(of(200), if ibs { 200 * MICRO_OPS_PER_MISS } else { 200 });
        assert_eq!(source.to_string().contains("micro-operations"), ibs, "{source}");
        for misses in [1, 199, 20_011, 1_500_003, u32::MAX] {
            assert!(of(misses) > 0 && (!ibs || of(misses) % 16 == 0 && of(misses) < 1 << 27));
        }
    }
    assert_eq!(of_ibs, 2);
}

#[test]
fn processors_without_memory_events_offer_nothing() {
    let tree = Tree::new();
    assert_eq!(found(&tree), []);
    device(&tree, "cpu", &[("type", "4"), ("format/event", "config:0-7")]);
    assert_eq!(found(&tree), [], "a virtual machine, or an AMD processor's counters");
    device(&tree, "arm_spe_0", &[("type", "8")]);
    assert_eq!(found(&tree), []);
    assert_eq!(unread_devices(tree.root()).expect("they can be listed"), ["arm_spe_0"]);
}

#[test]
fn damaged_descriptions_are_named() {
    for (file, text) in [
        ("type", "x"),
        ("format/ldlat", "config9:0-15"),
        ("format/ldlat", "config1"),
        ("format/ldlat", "config1:0-99"),
        ("format/umask", "config:8-x"),
        ("events/mem-loads", "event=,umask=0x1"),
        ("events/mem-loads", "event=0xcd,other=0x1"),
        ("cpus", "a-b"),
    ] {
        let tree = Tree::new();
        device(&tree, "cpu", INTEL);
        device(&tree, "cpu", &[(file, text)]);
        let error = sources(tree.root()).expect_err("damaged").to_string();
        assert!(error.contains(DEVICES), "{file}: {error}");
    }
}

/// As the kernel puts it together: operation, level, number of the level, remote.
fn data_source(op: u32, level: u32, number: u32, remote: u64) -> u64 {
    u64::from(op) | u64::from(level) << 5 | u64::from(number) << 33 | remote << 37
}

#[test]
fn what_served_an_access_is_told() {
    let (load, store) = (sys::PERF_MEM_OP_LOAD, sys::PERF_MEM_OP_STORE);
    let sample = |kind, data_source| {
        PmuSample::of(kind, &RawSample { address: 0x1000, data_source, ..RawSample::default() })
    };
    let served =
        |data_source| sample(PmuKind::IntelLoadMiss, data_source).map(|sample| sample.served_by);
    let hit = sys::PERF_MEM_LVL_HIT;
    let ram = sys::PERF_MEM_LVLNUM_RAM;
    for (expected, data_source) in [
        (ServedBy::LocalMemory, data_source(load, 0, ram, 0)),
        (ServedBy::RemoteMemory, data_source(load, 0, ram, 1)),
        (ServedBy::Cxl, data_source(load, 0, sys::PERF_MEM_LVLNUM_CXL, 0)),
        (ServedBy::Persistent, data_source(load, 0, sys::PERF_MEM_LVLNUM_PMEM, 0)),
        (ServedBy::Cache, data_source(load, 0, sys::PERF_MEM_LVLNUM_L3, 0)),
        (ServedBy::LocalMemory, data_source(load, hit | sys::PERF_MEM_LVL_LOC_RAM, 0, 0)),
        (ServedBy::RemoteMemory, data_source(load, hit | sys::PERF_MEM_LVL_REM_RAM1, 0, 0)),
        (ServedBy::Cache, data_source(load, hit | sys::PERF_MEM_LVL_L3, 0, 0)),
        (ServedBy::Unknown, data_source(load, sys::PERF_MEM_LVL_NA, 0xf, 0)),
    ] {
        assert_eq!(served(data_source), Some(expected), "{data_source:#x}");
    }
    for (expected, bits) in [
        (Some(true), sys::PERF_MEM_TLB_MISS | sys::PERF_MEM_TLB_L2),
        (Some(false), sys::PERF_MEM_TLB_HIT | sys::PERF_MEM_TLB_L1),
        (None, sys::PERF_MEM_TLB_NA),
        (None, sys::PERF_MEM_TLB_HIT | sys::PERF_MEM_TLB_MISS),
    ] {
        let source = data_source(load, 0, ram, 0) | u64::from(bits) << 26;
        let sample = sample(PmuKind::AmdIbs, source).unwrap();
        assert_eq!((sample.walked, sample.served_by.missed()), (expected, Some(true)), "{bits:#x}");
    }
    let kind = |kind, op| sample(kind, data_source(op, 0, ram, 0)).map(|sample| sample.kind);
    assert_eq!(kind(PmuKind::AmdIbs, load), Some(SampleKind::LoadMiss));
    assert_eq!(kind(PmuKind::AmdIbs, store), Some(SampleKind::Store));
    assert_eq!(kind(PmuKind::AmdIbs, sys::PERF_MEM_OP_NA), None, "no access at all");
    assert_eq!(kind(PmuKind::IntelStore, sys::PERF_MEM_OP_NA), Some(SampleKind::Store));
    for address in [0, 0xffff_8000_0000_0000] {
        let raw = RawSample { address, ..RawSample::default() };
        assert_eq!(PmuSample::of(PmuKind::IntelLoadMiss, &raw), None, "{address:#x}");
    }
}

proptest! {
    #[test]
    fn values_go_into_the_bits_that_are_named(word: u64, value: u64, first in 0u32..50, count in 1u32..14) {
        let bits = format!("{first}-{}", first + count - 1);
        let mask = ((1u64 << count) - 1) << first;
        let result = spread(word, value, &bits);
        prop_assert_eq!(result, Some(word & !mask | value << first & mask));
    }

    #[test]
    fn any_description_is_read_without_panic(terms: String, format: String) {
        let tree = Tree::new();
        device(&tree, "cpu", INTEL);
        device(&tree, "cpu", &[("events/mem-loads", &terms), ("format/ldlat", &format)]);
        let _ = sources(tree.root());
    }
}
