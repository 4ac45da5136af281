//! Cost of one sample of `hybridtier` and its variants beside `memtis`, from the sample to the decision.
//!
//! Zipf(0.99) samples over 16 M pages of which 1 M fit into fast memory. Timed is what the policy does:
//! taking samples in and deciding on promotions and demotions; not the engine's checks, nor the moves,
//! which end at once, nor looking up in which tier a sample falls. Policies take turns by rounds, so
//! that a busy machine slows all of them. `-- --quick` takes a tenth of the samples, `-- --huge` maps
//! all memory by huge pages. `-- --misses` prints cache misses for a sample in place of times, of a tenth
//! of the samples under cachegrind, beyond those of a policy that does nothing.

mod samples;

use frostline_core::PageCount;
use frostline_core::event::Event;
use frostline_core::policy::PolicyContext;
use samples::tiered::Tiered;
use samples::{PAGES, busy_ns, cachegrind, median, samples};
use std::ffi::OsStr;

const FAST: u64 = 1 << 20;
const ROUND: usize = 10_000_000;
const ROUNDS: usize = 10;
/// Samples that come together.
const BATCH: usize = 50_000;
/// Modelled time between samples.
const SAMPLE_NS: u64 = 10_000;

const POLICIES: [&str; 5] =
    ["hybridtier", "hybridtier-exact", "hybridtier-cbf", "hybridtier-artifact", "memtis"];

/// Does nothing with samples.
const IDLE: &str = "first-touch";
/// First-level and last-level cache of `--misses`, in bytes.
const CACHES: [u32; 2] = [32 << 10, 32 << 20];

struct Contestant {
    name: &'static str,
    tiered: Tiered,
    /// Of a sample, by rounds: until it is taken in, and its share of the decisions.
    ns: [Vec<f64>; 2],
}

impl Contestant {
    fn new(name: &'static str, huge: bool) -> Self {
        Self { name, tiered: tiered(name, huge), ns: Default::default() }
    }

    fn round(&mut self, events: &[Event]) {
        let mut busy = [0.0; 2];
        let mut batch = Vec::with_capacity(BATCH);
        for chunk in events.chunks(BATCH) {
            batch.clear();
            batch.extend_from_slice(chunk);
            self.tiered.locate(&mut batch);
            let before = busy_ns();
            self.tiered.observe(&batch, chunk.len() as u64 * SAMPLE_NS);
            let between = busy_ns();
            self.tiered.decide();
            busy[0] += between - before;
            busy[1] += busy_ns() - between;
            self.tiered.move_pages();
        }
        for (ns, busy) in self.ns.iter_mut().zip(busy) {
            ns.push(busy / events.len() as f64);
        }
    }
}

fn tiered(policy: &str, huge: bool) -> Tiered {
    let context = PolicyContext {
        fast_pages: PageCount(FAST),
        total_pages_hint: PageCount(u64::from(PAGES)),
        ..PolicyContext::default()
    };
    Tiered::new(policy, &context, huge)
}

/// Prints misses of the first and of the last level for a sample.
fn misses(huge: bool) -> Result<(), String> {
    let samples = (ROUNDS * ROUND / 10) as f64;
    let pages = if huge { "--huge" } else { "--base" };
    let run = |name: &str| {
        eprintln!("cachegrind: {name}");
        cachegrind::measure(CACHES, &["--run", name, pages].map(OsStr::new))
    };
    let idle = run(IDLE)?;
    println!("misses for a sample, first level {} bytes, last level {}", CACHES[0], CACHES[1]);
    for name in POLICIES {
        let [first, last] = run(name)?.beyond(idle).each().map(|misses| misses / samples);
        println!("  {name:20} {first:6.2} {last:6.2}");
    }
    Ok(())
}

/// What `--misses` counts: without the clock, which Valgrind does not know.
fn work(policy: &str, huge: bool) {
    let mut tiered = tiered(policy, huge);
    let events = samples(ROUND / 10);
    let mut batch = Vec::with_capacity(BATCH);
    for chunk in (0..ROUNDS).flat_map(|_| events.chunks(BATCH)) {
        batch.clear();
        batch.extend_from_slice(chunk);
        tiered.locate(&mut batch);
        tiered.observe(&batch, chunk.len() as u64 * SAMPLE_NS);
        tiered.decide();
        tiered.move_pages();
    }
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().collect();
    let has = |option: &str| args.iter().any(|arg| arg == option);
    let huge = has("--huge");
    if let Some(run) = args.iter().position(|arg| arg == "--run") {
        work(&args[run + 1], huge);
        return Ok(());
    }
    if has("--misses") {
        return misses(huge);
    }
    let round = if has("--quick") { ROUND / 10 } else { ROUND };
    let mut contestants = POLICIES.map(|name| Contestant::new(name, huge));
    let events = samples(round);
    for _ in 0..ROUNDS {
        contestants.iter_mut().for_each(|contestant| contestant.round(&events));
    }
    println!("hybridtier_samples: {ROUNDS} x {round} samples, {PAGES} pages, {FAST} fast; medians");
    for contestant in contestants {
        let [observed, decided] = contestant.ns.map(median);
        println!(
            "  {:20} {:6.2} ns/sample ({observed:6.2} taking in)  {:10} bytes  {} pages moved",
            contestant.name,
            observed + decided,
            contestant.tiered.policy.metadata_bytes().0,
            contestant.tiered.moved_pages,
        );
    }
    Ok(())
}
