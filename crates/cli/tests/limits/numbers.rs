//! Absurd numbers on the command line.

use crate::support::{assert_good, assert_refused, frostline, told};
use frostline_core::policy::registry::{self, REGISTRY};
use std::path::Path;
use std::process::Output;

const SMALL: &str = "synth:zipf:pages=2K:accesses=20K";

fn words(folder: &Path, text: &str) -> Output {
    let args: Vec<&str> = text.split(' ').collect();
    frostline(folder, &args)
}

#[test]
fn fast_memory_may_have_any_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let policies: Vec<&str> = REGISTRY.iter().map(|entry| entry.name).collect();
    let policies = policies.join(",");
    for fast in ["18446744073709551615", "16EiB", "1TiB", "1000000%", "4294967295:0"] {
        let output =
            words(folder.path(), &format!("compare {SMALL} --fast {fast} --policies {policies}"));
        match fast {
            "16EiB" => assert_refused(&output, fast),
            _ => assert_good(&output, fast),
        }
    }
}

#[test]
fn every_parameter_of_every_policy_is_refused_or_runs_in_little_memory() {
    const ABSURD: [&str; 12] = [
        "0",
        "1",
        "-0",
        "1e308",
        "1e15",
        "1e15x",
        "4T",
        "18446744073709551615",
        "1ns",
        "0ns",
        "1000000h",
        "1e18",
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let (mut ran, mut refused) = (0, 0);
    for entry in REGISTRY {
        let specs = entry.params().flat_map(|param| {
            ABSURD.iter().map(move |value| format!("{}:{}={value}", entry.name, param.name))
        });
        let (good, bad): (Vec<String>, Vec<String>) =
            specs.partition(|spec| registry::check(spec).is_ok());
        if let Some(spec) = bad.first() {
            let output = words(
                folder.path(),
                &format!("compare {SMALL} --policies {spec} --fast 1:8 --no-bound"),
            );
            assert_refused(&output, spec);
            refused += bad.len();
        }
        for some in good.chunks(40) {
            let list = some.join(",");
            let output =
                words(folder.path(), &format!("compare {SMALL} --fast 1:4 --policies {list}"));
            let told = told(&output);
            assert!(matches!(output.status.code(), Some(0 | 2)), "{list}: {output:?}");
            assert!(output.status.success() || told.contains("\nhint: "), "{list}: {told}");
            ran += some.len();
        }
    }
    assert!(ran > 300 && refused > 300, "{ran} ran, {refused} were refused");
}

#[test]
fn absurd_sizes_end_with_2_and_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    for machine in [
        "dram-nvm:tiers.nvm.read_ns=1e308",
        "dram-nvm:tiers.nvm.read_ns=-1",
        "dram-nvm:tiers.nvm.read_bytes_per_second=inf",
        "dram-nvm:ghz=0",
        "dram-nvm:ghz=1e308",
        "dram-nvm:ipc=NaN",
        "dram-nvm:mlp=1e-300",
        "dram-nvm:cores=0",
        "dram-nvm:cores=99999999999999999999",
        "dram-nvm:costs.split_ns=1e300",
        "dram-nvm:tlb.walk_base_ns=-5",
        "dram-nvm:tlb.l2_entries=4294967295",
        "dram-nvm:fragmentation=2",
        "dram-nvm:watermark=-0.1",
    ] {
        let output = words(
            folder.path(),
            &format!(
                "compare {SMALL} --machine {machine} --policies memtis-plus --fast 1:8 --no-bound"
            ),
        );
        assert_refused(&output, machine);
    }
    for option in [
        "--max-memory=-1",
        "--fast=-1",
        "--fast=1e40",
        "--scale=nan",
        "--lost-samples=2",
        "--busy-pages=-1",
        "--guest gpac:memory=1e300",
        "--guest none:window=0",
        "--guest none:aged=1",
        "--policies hybridtier:filter-size=1e308",
        "--policies oracle-epoch:horizon=18446744073709551615",
    ] {
        assert_refused(&words(folder.path(), &format!("compare {SMALL} {option}")), option);
    }
    for machine in [
        "dram-nvm:tiers.dram.capacity_bytes=9223372036854775807",
        "dram-nvm:tiers.nvm.read_ns=1e12:tiers.nvm.write_ns=1e12:costs.refault_ns=1e12",
        "dram-nvm:cores=4294967295",
        "dram-nvm:fragmentation=1",
    ] {
        let text = format!(
            "compare {SMALL} --policies tpp --machine {machine} --series s.csv --report r.html --fast 1:8 --no-bound"
        );
        let output = words(folder.path(), &text);
        let code = output.status.code();
        assert!(matches!(code, Some(0..=2)), "{machine}: {output:?}");
        assert!(!told(&output).contains("panicked"), "{machine}: {output:?}");
    }
    for options in [
        "--epochs 4294967295",
        "--epochs 0",
        "--gap 0 --iterations 1",
        "--fast=18446744073709551615",
    ] {
        let output = words(folder.path(), &format!("bound {SMALL} {options}"));
        assert!(matches!(output.status.code(), Some(0 | 2)), "{options}: {output:?}");
    }
    let series = words(
        folder.path(),
        &format!(
            "compare {SMALL} --series s.csv --series-interval 1ns --policies memtis-plus --fast 1:8 --no-bound"
        ),
    );
    assert_good(&series, "a series of every nanosecond has as many points as there are batches");
}
