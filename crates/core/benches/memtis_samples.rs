//! Cost of one sample: `memtis` beside a naive loop, over 16 M pages.
//!
//! The naive loop is what one would write first: eight bytes per page, a histogram by
//! `floor(log2)`, one sample after the other. Both get the same events, Zipf(0.99) ranks scattered
//! over the pages by a seeded permutation. Rounds alternate between the two, and medians are
//! compared, so that a busy machine slows both. `memtis` also feeds its second histogram, both hit
//! ratios, the promotion list and its intervals meanwhile; the third line adds its coolings.

mod samples;

use frostline_core::engine::{Engine, EngineConfig};
use frostline_core::event::Event;
use frostline_core::policy::{BoxedPolicy, Offer, make};
use frostline_core::{Nanos, PageCount, PageRun, TierId};
use samples::{PAGES, median, ns_per_sample, samples};
use std::hint::black_box;

const SAMPLES: usize = 4_000_000;
const ROUNDS: usize = 11;

struct Naive {
    counts: Vec<u64>,
    histogram: [u64; 16],
}

impl Naive {
    fn observe(&mut self, events: &[Event]) {
        let bin = |count: u64| ((count * 512) | 1).ilog2().min(15) as usize;
        for event in events {
            if let Event::Sample(sample) = event {
                let count = &mut self.counts[sample.page.index()];
                let before = bin(*count);
                *count += 1;
                let after = bin(*count);
                if before != after {
                    self.histogram[before] -= 1;
                    self.histogram[after] += 1;
                }
            }
        }
    }
}

fn memtis(text: &str, populated: &Event, world: &Engine) -> BoxedPolicy {
    let context = Offer { total_pages_hint: PageCount(u64::from(PAGES)), ..Offer::default() };
    let mut policy = make(text, &context).expect("the description is right").policy;
    policy.observe(Nanos(0), std::slice::from_ref(populated), &world.view());
    policy
}

fn main() {
    let run = PageRun::between(0, PAGES);
    let populated = Event::Populated { run, tier: TierId::FAST, huge: false };
    let capacity = PageCount(u64::from(PAGES));
    let nothing = make("first-touch", &Offer::default()).expect("it has no parameters");
    let mut world = Engine::new(EngineConfig::two_tiers(capacity, capacity), nothing).unwrap();
    world.handle_events(Nanos(0), &[populated]);
    let view = world.view();

    let events = samples(SAMPLES, PAGES);
    let mut naive = Naive { counts: vec![0; PAGES as usize], histogram: [0; 16] };
    naive.histogram[0] = u64::from(PAGES);
    let mut alone = memtis("memtis-plus:cooling=1T", &populated, &world);
    let mut cooling = memtis("memtis-plus", &populated, &world);

    let (mut n, mut a, mut c) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        n.push(ns_per_sample(&events, |batch| naive.observe(batch)));
        a.push(ns_per_sample(&events, |batch| alone.observe(Nanos(0), batch, &view)));
        c.push(ns_per_sample(&events, |batch| cooling.observe(Nanos(0), batch, &view)));
    }
    black_box((&naive.histogram, alone.classes(), cooling.classes()));
    let (n, a, c) = (median(n), median(a), median(c));
    println!("memtis_samples: {SAMPLES} samples, {PAGES} pages, medians of {ROUNDS} rounds");
    println!("  naive loop              {n:6.2} ns/sample");
    println!("  memtis                  {a:6.2} ns/sample  {:.2} x", a / n);
    println!("  memtis, coolings in it  {c:6.2} ns/sample  {:.2} x", c / n);
    println!(
        "  metadata                {:6.3} B/page (naive 8)",
        alone.metadata_bytes().0 as f64 / f64::from(PAGES)
    );
}
