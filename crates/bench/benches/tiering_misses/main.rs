//! Share of all cache misses that are tiering's, of HybridTier (Song et al., ASPLOS 2025), Fig. 13 and 14.
//!
//! The loads and stores of a generated program that miss a first-level cache are made again, by
//! loads from memory of that size; one in 200 of its loads that also miss the last level is a sample,
//! and a policy works on the samples in between, on the same caches. Cachegrind counts the misses of
//! all that, and of the same with a policy that does nothing. What the policy's memory misses when it
//! is made is taken off. Not among the misses: those of copies of moved pages, of walks of page
//! tables, and of the kernel that hands samples out.

#[path = "../../../core/benches/samples/cachegrind.rs"]
mod cachegrind;
mod program;
#[path = "../../../core/benches/samples/tiered.rs"]
#[allow(dead_code, reason = "each benchmark uses a part")]
mod tiered;

use anyhow::{Context, Error, Result, ensure};
use cachegrind::Misses;
use frostline_core::PageCount;
use frostline_core::event::Event;
use frostline_core::policy::Offer;
use program::{Accesses, PAGES};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use tiered::Tiered;

/// The two of the publication that are caches; it runs one of them in its Fig. 5, too.
const WORKLOADS: [&str; 2] = ["cachelib-cdn", "cachelib-graph"];
const POLICIES: [&str; 3] = ["memtis", "hybridtier-cbf", "hybridtier"];
/// Does nothing with samples.
const IDLE: &str = "first-touch";
/// Published as 1:4, of the footprint.
const FAST_SHARE: f64 = 0.48;
/// Samples that a policy takes in together.
const BATCH: usize = 256;
/// Modelled time between samples.
const SAMPLE_NS: u64 = 10_000;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [run, policy, huge, accesses] = &args[..]
        && run == "--run"
    {
        return work(policy, huge == "huge", Path::new(accesses));
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!(
            "tiering_misses: skipped, there is no valgrind (Debian: apt-get install valgrind)"
        );
        return Ok(());
    }
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    for workload in WORKLOADS {
        let file = folder.path().join(workload);
        let accesses = program::write(workload, &file)?;
        println!("{workload}: {accesses}");
        for kind in ["base", "huge"] {
            compare(kind, &file, &accesses)?;
        }
    }
    Ok(())
}

/// Prints what every policy misses beside the program.
fn compare(kind: &str, file: &Path, accesses: &Accesses) -> Result<()> {
    // Only what comes of accesses: without any, memory is made all the same.
    let misses = |policy: &str| -> Result<Misses> {
        Ok(measure(policy, kind, file)?.beyond(measure(policy, kind, Path::new("/dev/null"))?))
    };
    let program = misses(IDLE)?;
    let modelled = accesses.last_level_misses as f64 / program.last_level as f64;
    ensure!((0.95..1.05).contains(&modelled), "the cache that samples come from is another one");
    println!(
        "  {kind} pages; the program: {} first-level, {} last-level misses",
        program.first_level, program.last_level
    );
    println!("    {:16} {:^21}  {:^21}", "policy", "first level", "last level");
    let mut all = Vec::new();
    for policy in POLICIES {
        let own = misses(policy)?.beyond(program).each();
        let shown = [0, 1].map(|level| {
            let each = own[level] / accesses.samples as f64;
            let share = 100.0 * own[level] / (own[level] + program.each()[level]);
            format!("{each:5.2} each, {share:5.2} %")
        });
        println!("    {policy:16} {:>21}  {:>21}", shown[0], shown[1]);
        all.push(own);
    }
    for (more, fewer) in [(0, 2), (0, 1), (1, 2)] {
        let ratio = |level: usize| all[more][level] / all[fewer][level];
        println!(
            "    {} / {}: {:.2} and {:.2}",
            POLICIES[more],
            POLICIES[fewer],
            ratio(0),
            ratio(1)
        );
    }
    Ok(())
}

/// What this program misses with one policy.
fn measure(policy: &str, kind: &str, accesses: &Path) -> Result<Misses> {
    eprintln!("cachegrind: {policy}, {kind} pages");
    let args = ["--run", policy, kind].map(OsStr::new);
    let args = [&args[..], &[accesses.as_os_str()]].concat();
    cachegrind::measure(program::CACHES, &args).map_err(Error::msg)
}

/// The program and a policy in turns.
fn work(policy: &str, huge: bool, accesses: &Path) -> Result<()> {
    let context = Offer {
        fast_pages: PageCount((f64::from(PAGES) * FAST_SHARE) as u64 / 512 * 512),
        total_pages_hint: PageCount(u64::from(PAGES)),
        scale: program::SCALE,
        ..Offer::default()
    };
    let mut tiered = Tiered::new(policy, &context, huge);
    let mut samples: Vec<Event> = Vec::with_capacity(BATCH);
    program::run(accesses, |sample| {
        samples.push(Event::Sample(sample));
        if samples.len() == BATCH {
            tiered.locate(&mut samples);
            tiered.observe(&samples, BATCH as u64 * SAMPLE_NS);
            tiered.decide();
            tiered.move_pages();
            samples.clear();
        }
    })
}
