//! Cost of one sample of `hybridtier` and its variants beside `memtis`, from the sample to the decision.
//!
//! Zipf(0.99) samples over 16 M pages of which 1 M fit into fast memory. Timed is what the policy does:
//! taking samples in and deciding on promotions and demotions; not the engine's checks, nor the moves,
//! which end at once, nor looking up in which tier a sample falls. Policies take turns by rounds, so
//! that a busy machine slows all of them. `-- --quick` takes a tenth of the samples, `-- --huge` maps
//! all memory by huge pages.

mod samples;

use frostline_core::PageCount;
use frostline_core::event::Event;
use frostline_core::policy::PolicyContext;
use samples::tiered::Tiered;
use samples::{PAGES, busy_ns, median, samples};

const FAST: u64 = 1 << 20;
const ROUND: usize = 10_000_000;
const ROUNDS: usize = 10;
/// Samples that come together.
const BATCH: usize = 50_000;
/// Modelled time between samples.
const SAMPLE_NS: u64 = 10_000;

const POLICIES: [&str; 5] =
    ["hybridtier", "hybridtier-exact", "hybridtier-cbf", "hybridtier-artifact", "memtis"];

struct Contestant {
    name: &'static str,
    tiered: Tiered,
    /// Of a sample, by rounds: until it is taken in, and its share of the decisions.
    ns: [Vec<f64>; 2],
}

impl Contestant {
    fn new(name: &'static str, huge: bool) -> Self {
        let context = PolicyContext {
            fast_pages: PageCount(FAST),
            total_pages_hint: PageCount(u64::from(PAGES)),
            ..PolicyContext::default()
        };
        Self { name, tiered: Tiered::new(name, &context, huge), ns: Default::default() }
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

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let huge = args.iter().any(|arg| arg == "--huge");
    let round = if args.iter().any(|arg| arg == "--quick") { ROUND / 10 } else { ROUND };
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
}
