//! Cost of one sample of `hybridtier` and its variants beside `memtis`, from the sample to the decision.
//!
//! Zipf(0.99) samples over 16 M pages of which 1 M fit into fast memory. Timed is what the policy does:
//! taking samples in and deciding on promotions and demotions; not the engine's checks, nor the moves,
//! which end at once, nor looking up in which tier a sample falls. Policies take turns by rounds, so
//! that a busy machine slows all of them; names of policies leave out the others. `-- --quick` takes a
//! tenth of the samples, `-- --huge` maps all memory by huge pages. `-- --misses` prints cache misses for
//! a sample in place of times, of a tenth of the samples under cachegrind, beyond those of a policy that
//! does nothing.

mod samples;

use frostline_core::PageCount;
use frostline_core::event::Event;
use frostline_core::policy::Offer;
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
        let busy = run(&mut self.tiered, events, busy_ns);
        for (ns, busy) in self.ns.iter_mut().zip(busy) {
            ns.push(busy / events.len() as f64);
        }
    }
}

/// Has a policy take samples in and decide; gives what either took, by the clock.
fn run(tiered: &mut Tiered, events: &[Event], clock: fn() -> f64) -> [f64; 2] {
    let mut took = [0.0; 2];
    let mut batch = Vec::with_capacity(BATCH);
    for chunk in events.chunks(BATCH) {
        batch.clear();
        batch.extend_from_slice(chunk);
        tiered.locate(&mut batch);
        let before = clock();
        tiered.observe(&batch, chunk.len() as u64 * SAMPLE_NS);
        let between = clock();
        tiered.decide();
        took[0] += between - before;
        took[1] += clock() - between;
        tiered.move_pages();
    }
    took
}

fn tiered(policy: &str, huge: bool) -> Tiered {
    let context = Offer {
        fast_pages: PageCount(FAST),
        total_pages_hint: PageCount(u64::from(PAGES)),
        ..Offer::default()
    };
    Tiered::new(policy, &context, huge)
}

/// Prints misses of the first and of the last level for a sample.
fn misses(policies: &[&str], huge: bool) -> Result<(), String> {
    let samples = (ROUNDS * ROUND / 10) as f64;
    let pages = if huge { "--huge" } else { "--base" };
    let measured = |name: &str| {
        eprintln!("cachegrind: {name}");
        cachegrind::measure(CACHES, &["--run", name, pages].map(OsStr::new))
    };
    let idle = measured(IDLE)?;
    println!("misses for a sample, first level {} bytes, last level {}", CACHES[0], CACHES[1]);
    for name in policies {
        let [first, last] = measured(name)?.beyond(idle).each().map(|misses| misses / samples);
        println!("  {name:20} {first:6.2} {last:6.2}");
    }
    Ok(())
}

/// What `--misses` counts: without the clock, which Valgrind does not know.
fn work(policy: &str, huge: bool) {
    let mut tiered = tiered(policy, huge);
    let events = samples(ROUND / 10);
    for _ in 0..ROUNDS {
        run(&mut tiered, &events, || 0.0);
    }
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().collect();
    let has = |option: &str| args.iter().any(|arg| arg == option);
    let huge = has("--huge");
    let named: Vec<_> = POLICIES.into_iter().filter(|name| has(name)).collect();
    let policies = if named.is_empty() { POLICIES.to_vec() } else { named };
    if let Some(at) = args.iter().position(|arg| arg == "--run") {
        work(&args[at + 1], huge);
        return Ok(());
    }
    if has("--misses") {
        return misses(&policies, huge);
    }
    let round = if has("--quick") { ROUND / 10 } else { ROUND };
    let mut contestants: Vec<_> = policies.iter().map(|name| Contestant::new(name, huge)).collect();
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
