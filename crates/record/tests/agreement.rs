//! The two recorders see the same program: what misses the last-level cache agrees within 2 %.

mod common;

use common::{Recorded, run, tool};
use frostline_record::{Options, Recorder};
use frostline_testing::{Requirement, skip};
use std::fmt::Write;
use std::path::Path;
use tempfile::TempDir;

/// Loads and stores that missed, by recorder.
fn misses(command: &[&str]) -> Option<[u64; 2]> {
    if Recorder::ALL.into_iter().any(|recorder| tool(recorder).is_none()) {
        return None;
    }
    if !Path::new(command[0]).exists() {
        skip(Requirement::Programs, format!("{} is not installed", command[0]));
        return None;
    }
    let demand = |recorded: &Recorded| {
        assert_eq!(recorded.outcome.code, 0);
        recorded.accesses.iter().filter(|access| access.kind.is_demand()).count() as u64
    };
    // Small enough a cache that much misses in a short run.
    let options = Options { llc_bytes: 1 << 20, ..Options::default() };
    let [valgrind, qemu] =
        Recorder::ALL.map(|recorder| run(recorder, command, &options).map(|r| demand(&r)));
    Some([valgrind?, qemu?])
}

fn agree(what: &str, [valgrind, qemu]: [u64; 2]) {
    let apart = (qemu as f64 / valgrind as f64 - 1.0) * 100.0;
    eprintln!("{what}: {valgrind} misses under Valgrind, {qemu} under QEMU, {apart:+.2} %");
    assert!(valgrind > 50_000, "{what}: {valgrind} misses compare nothing");
    assert!(apart.abs() <= 2.0, "{what}: {valgrind} and {qemu} misses");
}

#[test]
fn a_data_base_misses_as_often() {
    let script = "create table t(id integer primary key, name text); \
                  insert into t select value, hex(value * 7919 % 100003) || printf('%040d', value) \
                  from generate_series(1, 30000); create index i on t(name); \
                  select count(*) from t where name > '8';";
    let Some(misses) = misses(&["/usr/bin/sqlite3", ":memory:", script]) else { return };
    agree("sqlite3", misses);
}

#[test]
fn a_solver_misses_as_often() {
    let dir = TempDir::new().unwrap();
    let (data, model) = (dir.path().join("data"), dir.path().join("model"));
    let mut text = String::new();
    let mut state = 1_u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    // With 2000 rows the data has about the size of the cache, and 2 % of the misses depend on where it lies.
    for _ in 0..3000 {
        let _ = write!(text, "{}", if next(2) == 0 { "+1" } else { "-1" });
        let mut feature = 0;
        for _ in 0..40 {
            feature += 1 + next(200);
            let _ = write!(text, " {feature}:0.{}", 1 + next(999));
        }
        text.push('\n');
    }
    std::fs::write(&data, text).unwrap();
    let command = ["/usr/bin/liblinear-train", "-s", "1", "-q"];
    let command = [&command[..], &[data.to_str().unwrap(), model.to_str().unwrap()]].concat();
    let Some(misses) = misses(&command) else { return };
    agree("liblinear-train", misses);
}
