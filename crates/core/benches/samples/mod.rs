//! Support for the benchmarks of samples: where samples fall, and how time is taken.
#![allow(dead_code, reason = "each benchmark uses a part")]

pub mod cachegrind;
pub mod tiered;

use frostline_core::event::{Event, Sample, SampleKind};
use frostline_core::rng::Rng;
use frostline_core::{PageId, ProcessId, TierId};
use rustix::time::{ClockId, clock_gettime};

/// Pages that are sampled.
pub const PAGES: u32 = 1 << 24;

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

/// A permutation of the numbers below `pages`, a power of two.
fn scatter(rank: u32, pages: u32) -> u32 {
    let mut x = rank;
    for odd in [0x9e_3779_u32, 0x85_eb6b, 0xc2_b2ab] {
        x = x.wrapping_mul(odd | 1) & (pages - 1);
        x ^= x >> 12;
    }
    x
}

/// Samples of Zipf(0.99) ranks, scattered over `pages`, a power of two.
pub fn samples(count: usize, pages: u32) -> Vec<Event> {
    let mut rng = Rng::new(1);
    let zipf = Zipf::new(pages, 0.99);
    let sample = |page| Sample::new(PageId(page), SampleKind::LoadMiss, TierId::FAST, ProcessId(0));
    (0..count).map(|_| Event::Sample(sample(scatter(zipf.rank(&mut rng), pages)))).collect()
}

/// Processor time of this thread: other programs' turns are left out.
pub fn busy_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Mean processor time of a sample, in ns.
pub fn ns_per_sample(events: &[Event], mut observe: impl FnMut(&[Event])) -> f64 {
    let before = busy_ns();
    for batch in events.chunks(256) {
        observe(batch);
    }
    (busy_ns() - before) / events.len() as f64
}

/// The middle of measurements.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
