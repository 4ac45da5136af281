//! Cost of one sample: `memtis` beside a naive loop, over 16 M pages.
//!
//! The naive loop is what one would write first: eight bytes per page, a histogram by
//! `floor(log2)`, one sample after the other. Both get the same events, Zipf(0.99) ranks scattered
//! over the pages by a seeded permutation. Rounds alternate between the two, and medians are
//! compared, so that a busy machine slows both. `memtis` also feeds its second histogram, both hit
//! ratios, the promotion list and its intervals meanwhile; the third line adds its coolings.

use frostline_core::engine::{Engine, EngineConfig};
use frostline_core::event::{Event, Sample, SampleKind};
use frostline_core::policy::{BoxedPolicy, PolicyContext, make};
use frostline_core::rng::Rng;
use frostline_core::{Nanos, PageCount, PageId, PageRun, ProcessId, TierId};
use std::hint::black_box;
use std::time::Instant;

const PAGES: u32 = 1 << 24;
const SAMPLES: usize = 4_000_000;
const ROUNDS: usize = 11;
const BATCH: usize = 256;

/// Zipf ranks by rejection-inversion (Hörmann and Derflinger, 1996).
struct Zipf {
    theta: f64,
    low: f64,
    high: f64,
    cut: f64,
}

impl Zipf {
    fn new(n: u32, theta: f64) -> Self {
        let mut zipf = Self { theta, low: 0.0, high: 0.0, cut: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(f64::from(n) + 0.5);
        zipf.cut = 2.0 - zipf.inverse(zipf.integral(2.5) - 2f64.powf(-theta));
        zipf
    }
    fn integral(&self, x: f64) -> f64 {
        (x.powf(1.0 - self.theta) - 1.0) / (1.0 - self.theta)
    }
    fn inverse(&self, y: f64) -> f64 {
        (1.0 + y * (1.0 - self.theta)).powf(1.0 / (1.0 - self.theta))
    }
    fn rank(&self, rng: &mut Rng) -> u32 {
        loop {
            let u = self.high + rng.unit_f64() * (self.low - self.high);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().max(1.0);
            if k - x <= self.cut || u >= self.integral(k + 0.5) - k.powf(-self.theta) {
                return k as u32 - 1;
            }
        }
    }
}

/// A permutation of 24-bit numbers.
fn scatter(rank: u32) -> u32 {
    let mut x = rank;
    for odd in [0x9e_3779_u32, 0x85_eb6b, 0xc2_b2ab] {
        x = x.wrapping_mul(odd | 1) & (PAGES - 1);
        x ^= x >> 12;
    }
    x
}

fn samples() -> Vec<Event> {
    let mut rng = Rng::new(1);
    let zipf = Zipf::new(PAGES, 0.99);
    let sample = |page| Sample {
        page: PageId(page),
        kind: SampleKind::LoadMiss,
        tier: TierId::FAST,
        process: ProcessId(0),
    };
    (0..SAMPLES).map(|_| Event::Sample(sample(scatter(zipf.rank(&mut rng)) % PAGES))).collect()
}

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
    let context =
        PolicyContext { total_pages_hint: PageCount(u64::from(PAGES)), ..PolicyContext::default() };
    let mut policy = make(text, &context).expect("the description is right");
    policy.observe(Nanos(0), std::slice::from_ref(populated), &world.view());
    policy
}

/// Processor time of this process where the kernel tells it (other programs' turns left out),
/// else time since `start`.
fn busy_ns(start: Instant) -> f64 {
    let read = || {
        let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok().filter(|ns| *ns > 0.0)
    };
    read().unwrap_or_else(|| start.elapsed().as_secs_f64() * 1e9)
}

fn ns_per_sample(events: &[Event], mut observe: impl FnMut(&[Event])) -> f64 {
    let start = Instant::now();
    let before = busy_ns(start);
    for batch in events.chunks(BATCH) {
        observe(batch);
    }
    (busy_ns(start) - before) / events.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let run = PageRun::between(0, PAGES);
    let populated = Event::Populated { run, tier: TierId::FAST, huge: false };
    let capacity = PageCount(u64::from(PAGES));
    let nothing = make("first-touch", &PolicyContext::default()).expect("it has no parameters");
    let mut world = Engine::new(EngineConfig::two_tiers(capacity, capacity), nothing);
    world.handle_events(Nanos(0), &[populated]);
    let view = world.view();

    let events = samples();
    let mut naive = Naive { counts: vec![0; PAGES as usize], histogram: [0; 16] };
    naive.histogram[0] = u64::from(PAGES);
    let mut alone = memtis("memtis:cooling=1T", &populated, &world);
    let mut cooling = memtis("memtis", &populated, &world);

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
