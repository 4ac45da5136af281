//! Seconds that the bound takes for 10^8 accesses to 4 M pages, popular by Zipf's law.
//!
//! `cargo bench -p frostline-bound -- [ACCESSES [PAGES]]`

use frostline_bound::{BoundModel, EpochChoice, EpochMatrix, SolveOptions, solve};
use frostline_core::rng::Rng;
use frostline_trace::{BLOCK_RECORDS, Batch, TraceError, TraceHeader, TraceSource};
use std::time::Instant;

/// Zipf(0.99) by the inverse of the approximated distribution function (Gray et al. 1994, "Quickly
/// generating billion-record synthetic databases", section 3).
struct Zipf {
    header: TraceHeader,
    rng: Rng,
    left: u64,
    pages: u64,
    zeta: f64,
    eta: f64,
    place: Vec<u32>,
}

const THETA: f64 = 0.99;

impl Zipf {
    fn new(accesses: u64, pages: u32) -> Self {
        let mut rng = Rng::new(7);
        let zeta: f64 = (1..=pages).map(|rank| f64::from(rank).powf(-THETA)).sum();
        let zeta2 = 1.0 + 0.5f64.powf(THETA);
        let eta = (1.0 - (2.0 / f64::from(pages)).powf(1.0 - THETA)) / (1.0 - zeta2 / zeta);
        let mut place: Vec<u32> = (0..pages).collect();
        rng.shuffle(&mut place);
        let header = TraceHeader::named("zipf");
        Self { header, rng, left: accesses, pages: u64::from(pages), zeta, eta, place }
    }

    fn rank(&mut self) -> u64 {
        let u = self.rng.unit_f64();
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let alpha = 1.0 / (1.0 - THETA);
        let rank = self.pages as f64 * (self.eta * u - self.eta + 1.0).powf(alpha);
        (rank as u64).min(self.pages - 1)
    }
}

impl TraceSource for Zipf {
    fn header(&self) -> &TraceHeader {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        for _ in 0..self.left.min(BLOCK_RECORDS as u64) {
            let rank = self.rank();
            batch.pages.push(self.place[rank as usize]);
        }
        self.left -= batch.pages.len() as u64;
        Ok(!batch.is_empty())
    }
}

/// User CPU seconds of this process so far (proc(5), `stat` field 14, in ticks of 10 ms): unlike
/// elapsed time it does not depend on what else the machine does.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().nth(11).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0) / 100.0
}

/// Elapsed and CPU seconds.
struct Clock(Instant, f64);

impl Clock {
    fn start() -> Self {
        Self(Instant::now(), cpu_s())
    }
    fn show(&self) -> String {
        format!("{:.1} s ({:.1} s of CPU)", self.0.elapsed().as_secs_f64(), cpu_s() - self.1)
    }
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let accesses = numbers.first().copied().unwrap_or(100_000_000);
    let pages = numbers.get(1).map_or(4 << 20, |&pages| pages as u32);

    let clock = Clock::start();
    let mut generated = Zipf::new(accesses, pages);
    let mut batch = Batch::new();
    while generated.next_batch(&mut batch).expect("a generator does not fail") {}
    let generating = clock.show();

    let clock = Clock::start();
    let matrix = EpochMatrix::from_source(&mut Zipf::new(accesses, pages), EpochChoice::default())
        .expect("a generator does not fail");
    let sorting = clock.show();
    println!(
        "{accesses} accesses, {} pages touched, {} epochs; generating alone {generating}, \
         generating and sorting {sorting}",
        matrix.touched_pages(),
        matrix.epochs(),
    );

    for slow_parts in [2u64, 8, 16] {
        let model = BoundModel {
            read_saving_ns: 97.0,
            write_saving_ns: 97.0,
            write_back_saving_ns: 0.0,
            promotion_cost_ns: 300.0,
            demotion_cost_ns: 300.0,
            capacity_pages: matrix.peak_resident_pages() / (slow_parts + 1),
        };
        let clock = Clock::start();
        let bound = solve(&matrix, &model, &SolveOptions::default()).expect("the model is sound");
        println!(
            "1:{slow_parts}: {}, {} iterations, bound {:.4} of all fast, gap {:.3} %",
            clock.show(),
            bound.iterations,
            bound.saving_upper_ns / bound.all_fast_saving_ns,
            bound.gap * 100.0,
        );
    }
}
