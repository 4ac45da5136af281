//! The environment of a program that an agent is in.

use crate::target::Target;
use crate::target::texts;
use frostline_core::types::TierId;
use frostline_driver::SlowTier;
use frostline_driver::environment::{Settings, VARIABLE, field, text};
use frostline_driver::variables::{Collector, Variables};

pub const TARGET: Target = Target {
    name: "environment",
    check,
    seeds: || {
        texts(&[
            "HOME=/\0FROSTLINE=hybridtier:momentum=2\0FROST=x\0\0PATH=a:FROSTLINE=b\0FROSTLINE_FAST=40%\0\
             FROSTLINE_SLOW=\0LAST=1\0",
            "FROSTLINE={\"policy\":\"memtis\",\"slow\":[\"node:1\",\"zram:size=1GiB\"],\"limit\":\"node:1=30%\",\
             \"cpu_limit\":\"2%\",\"settling_cpu_limit\":\"1/3\",\"migration_limit\":\"5MiB\",\"samples\":\"damon\",\
             \"seed\":7,\"swap_device\":\"/dev/zram0\",\"journal\":\"/tmp/j\",\"extents\":true,\"children\":false,\
             \"fast\":\"77MiB\"}\0",
            "FROSTLINE={\"consolidate\":\"auto\",\"log\":\"/tmp/l\",\"status\":\"/tmp\"}\0",
        ])
    },
    words: &[
        "\0",
        "FROSTLINE=",
        "FROSTLINE={",
        "\"policy\":\"",
        "\"fast\":\"",
        "\"slow\":[\"",
        "\"limit\":\"",
        "\"cpu_limit\":\"",
        "\"samples\":\"",
        "\"seed\":",
        "\"children\":false",
        "\"consolidate\":\"",
        "\"migration_limit\":\"",
        "node:1",
        "zram:size=1GiB",
        "swap",
        "none",
        "auto",
        "memtis",
        "1:4",
    ],
};

fn collected(bytes: &[u8], piece: usize) -> Variables {
    let mut collector = Collector::new();
    bytes.chunks(piece).for_each(|piece| collector.add(piece));
    collector.variables()
}

/// The same in the obvious way.
fn obvious<'a>(bytes: &'a [u8], name: &str) -> Option<&'a str> {
    let mut variables = bytes.split(|byte| *byte == 0);
    let value =
        variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    std::str::from_utf8(value?).ok()
}

fn check(bytes: &[u8]) {
    let variables = collected(bytes, 4096);
    for piece in [1, 7] {
        let other = collected(bytes, piece);
        assert_eq!(other.is_cut(), variables.is_cut());
        assert_eq!(other.get(VARIABLE), variables.get(VARIABLE), "in pieces of {piece}");
    }
    if !variables.is_cut() {
        assert_eq!(variables.get(VARIABLE), obvious(bytes, VARIABLE));
    }
    let Some(value) = variables.get(VARIABLE) else { return };
    for key in ["policy", "children", "log", "status"] {
        let _ = (field(value, key), text(value, key));
    }
    let Ok(mut read) = Settings::read(value) else { return };
    // Keys that are spelt with escapes, or stand there twice, are found by the reader alone.
    if !value.contains('\\') && value.matches("\"children\"").count() < 2 {
        assert_eq!(field(value, "children") != Some("false"), read.children);
    }
    let told = read.text().expect("all paths are text");
    assert_eq!(Settings::read(&told).expect("we wrote it"), read);
    let Some(options) = &mut read.options else { return };
    let shares = [options.cpu_limit.get(), options.settling_cpu_limit.get()];
    assert!(shares.iter().all(|share| *share > 0.0 && *share <= 1.0), "{shares:?}");
    if options.settle(|| SlowTier::Swap).is_ok() {
        let _ = options.tiers().limit(TierId(1));
    }
}
