//! The environment of a program that an agent is in.

use crate::target::Target;
use crate::target::texts;
use frostline_core::consolidation::ConsolidationLimit;
use frostline_driver::environment::{CONSOLIDATE, POLICY, VARIABLES, options, variables};
use frostline_driver::words::{Collector, Words};
use frostline_driver::{Options, SlowTier};

pub const TARGET: Target = Target {
    name: "environment",
    check,
    seeds: || {
        texts(&[
            "HOME=/\0FROSTLINE=hybridtier:momentum=2\0FROST=x\0\0PATH=a:FROSTLINE=b\0FROSTLINE_FAST=40%\0\
             FROSTLINE_SLOW=\0LAST=1\0",
            "FROSTLINE=memtis\0FROSTLINE_SLOW=node:1,zram:size=1GiB\0FROSTLINE_LIMIT=node:1=30%\0\
             FROSTLINE_CPU_LIMIT=2%\0FROSTLINE_SETTLING_CPU_LIMIT=1/3\0FROSTLINE_MIGRATION_LIMIT=5MiB\0\
             FROSTLINE_SAMPLES=damon\0FROSTLINE_SEED=7\0FROSTLINE_SWAP_DEVICE=/dev/zram0\0\
             FROSTLINE_JOURNAL=/tmp/j\0FROSTLINE_EXTENTS=on\0FROSTLINE_CHILDREN=off\0FROSTLINE_FAST=77\0",
            "FROSTLINE_CONSOLIDATE=auto\0FROSTLINE_LOG=/tmp/l\0FROSTLINE_STATUS=/tmp\0",
        ])
    },
    words: &[
        "\0",
        "FROSTLINE=",
        "FROSTLINE_FAST=",
        "FROSTLINE_SLOW=",
        "FROSTLINE_LIMIT=",
        "FROSTLINE_CPU_LIMIT=",
        "FROSTLINE_SAMPLES=",
        "FROSTLINE_SEED=",
        "FROSTLINE_CONSOLIDATE=",
        "FROSTLINE_MIGRATION_LIMIT=",
        "node:1",
        "zram:size=1GiB",
        "swap",
        "none",
        "auto",
        "memtis",
        "1:4",
    ],
};

fn collected(bytes: &[u8], piece: usize) -> Words {
    let mut collector = Collector::new();
    bytes.chunks(piece).for_each(|piece| collector.add(piece));
    collector.words()
}

/// The same in the obvious way.
fn obvious<'a>(bytes: &'a [u8], name: &str) -> Option<&'a str> {
    let mut variables = bytes.split(|byte| *byte == 0);
    let value =
        variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    std::str::from_utf8(value?).ok()
}

fn check(bytes: &[u8]) {
    let words = collected(bytes, 4096);
    for piece in [1, 7] {
        let other = collected(bytes, piece);
        assert_eq!(other.is_cut(), words.is_cut());
        for name in VARIABLES {
            assert_eq!(other.get(name), words.get(name), "{name} in pieces of {piece}");
        }
    }
    if !words.is_cut() {
        for name in VARIABLES {
            assert_eq!(words.get(name), obvious(bytes, name), "{name}");
        }
    }
    if let Some(text) = words.get(CONSOLIDATE) {
        let _ = ConsolidationLimit::parse(text);
    }
    if words.get(POLICY).is_none() {
        return;
    }
    let read = options(|name| words.get(name).map(str::to_owned), || SlowTier::Swap);
    let Ok(read) = read else { return };
    let shares = [read.cpu_share, read.settling_cpu_share];
    assert!(shares.iter().all(|share| *share > 0.0 && *share <= 1.0), "{shares:?}");
    let told = variables(&read);
    let get = |name| told.iter().find(|(other, _)| *other == name).map(|(_, text)| text.clone());
    let again: Options = options(get, || SlowTier::Swap).expect("we wrote them");
    assert_eq!(again.slow.to_string(), read.slow.to_string());
    assert_eq!((again.seed, again.samples), (read.seed, read.samples));
    assert_eq!(again.migration_bytes_per_second, read.migration_bytes_per_second);
    assert_eq!(shares, [again.cpu_share, again.settling_cpu_share]);
    assert_eq!(again.policy, read.policy);
}
