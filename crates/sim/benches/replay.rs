//! Accesses per second of a replay, decoding included, on one core:
//! `cargo bench -p frostline-sim --bench replay [-- FILTER]`.
//!
//! Rates are per second of processor time where the system tells it (`schedstat`), so that other
//! load does not count. The trace is Zipf(0.99) over 4 M pages by default; `TRACE=synth:...` or a file replaces it, and
//! `ROUNDS` (default 3) says how often each run is repeated; the best counts.

use frostline_core::policy::oracle::{EpochReader, Oracle, PageSaving};
use frostline_core::policy::{Offer, registry};
use frostline_core::types::{PageCount, PageId};
use frostline_sim::{FastSize, Footprint, Machine, SimOptions, measure_footprint, simulate};
use frostline_trace::{Batch, MemTrace, TraceSource};
use std::sync::Arc;
use std::time::Instant;

/// Processor time of this thread, or real time where the system does not tell.
struct Stopwatch {
    cpu_ns: Option<u64>,
    wall: Instant,
}

impl Stopwatch {
    fn start() -> Self {
        Self { cpu_ns: cpu_ns(), wall: Instant::now() }
    }
    fn seconds(&self) -> f64 {
        match (self.cpu_ns, cpu_ns()) {
            (Some(before), Some(now)) => (now - before) as f64 / 1e9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}

fn cpu_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

const TRACE: &str = "synth:zipf:s=0.99:pages=4M:accesses=64M:seed=7";
const EPOCHS: u64 = 16;

/// Accesses per page and epoch.
struct Counts {
    epochs: Arc<Vec<Vec<(u32, u32)>>>,
    saving_ns: f64,
    move_ns: f64,
}

impl Counts {
    fn read(trace: &MemTrace, footprint: &Footprint, machine: &Machine) -> Self {
        let mut source = trace.reader().expect("captured");
        let mut counts = vec![0u32; footprint.page_ids as usize];
        let mut epochs = Vec::new();
        let (mut batch, mut records, length) = (Batch::new(), 0, epoch_records(footprint));
        let mut close = |counts: &mut Vec<u32>| {
            let used = counts.iter().enumerate().filter(|(_, n)| **n > 0);
            epochs.push(used.map(|(page, n)| (page as u32, *n)).collect());
            counts.fill(0);
        };
        while source.next_batch(&mut batch).expect("captured") {
            for page in &batch.pages {
                counts[*page as usize] += 1;
            }
            records += batch.len() as u64;
            if records >= length {
                close(&mut counts);
                records = 0;
            }
        }
        close(&mut counts);
        let model = machine.saving_model();
        Self {
            epochs: Arc::new(epochs),
            saving_ns: model.read_saving_ns,
            move_ns: model.promotion_cost_ns.max(model.demotion_cost_ns),
        }
    }
}

impl Oracle for Counts {
    fn totals(&self, sink: &mut dyn FnMut(PageSaving)) {
        let mut read = self.epochs();
        (0..self.epochs.len() as u64).for_each(|epoch| {
            read(epoch, sink);
        });
    }
    fn epochs(&self) -> EpochReader {
        let (epochs, ns) = (Arc::clone(&self.epochs), self.saving_ns);
        Box::new(move |number, sink| {
            for (page, n) in epochs.get(number as usize).into_iter().flatten() {
                sink(PageSaving { page: PageId(*page), saving_ns: f64::from(*n) * ns });
            }
            number < epochs.len() as u64
        })
    }
    fn promotion_cost_ns(&self) -> f64 {
        self.move_ns
    }
    fn demotion_cost_ns(&self) -> f64 {
        self.move_ns
    }
}

fn epoch_records(footprint: &Footprint) -> u64 {
    footprint.records / EPOCHS + 1
}

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let spec = std::env::var("TRACE").unwrap_or_else(|_| TRACE.to_owned());
    let rounds: u32 = std::env::var("ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let trace = match spec.starts_with("synth:") {
        true => {
            let mut source = frostline_workloads::open(&spec).expect("trace");
            MemTrace::capture(source.as_mut()).expect("capture")
        }
        false => MemTrace::load(&spec).expect("load"),
    };
    let machine = Machine::parse("dram-nvm").expect("preset");
    let base_pages = Machine::parse("dram-nvm:thp=off").expect("preset");
    let footprint = |machine| {
        let mut source = trace.reader().expect("captured");
        measure_footprint(&mut source, machine).expect("footprint")
    };
    let (huge, base) = (footprint(&machine), footprint(&base_pages));
    println!(
        "{spec}: {} M records, {:.2} B each, {} MiB",
        huge.records / 1_000_000,
        trace.len_bytes() as f64 / huge.records as f64,
        huge.bytes() >> 20
    );
    decode(&trace, rounds, &huge);
    let oracle: Arc<dyn Oracle> = Arc::new(Counts::read(&trace, &huge, &machine));
    let cases = [
        ("first-touch", &machine, &huge, false),
        ("first-touch", &base_pages, &base, false),
        ("oracle-epoch", &machine, &huge, false),
        ("oracle-epoch", &base_pages, &base, false),
        ("memtis", &machine, &huge, false),
        ("memtis", &base_pages, &base, false),
        ("memtis", &machine, &huge, true),
        ("memtis", &base_pages, &base, true),
        ("frost", &machine, &huge, false),
        ("frost", &base_pages, &base, false),
        ("frost", &machine, &huge, true),
    ];
    for (policy, machine, footprint, tlb) in cases {
        let pages = if machine.os.thp { "huge" } else { "base" };
        let name = format!("{policy} {pages} tlb={}", if tlb { "on" } else { "off" });
        if name.contains(&filter) {
            let mut best = f64::INFINITY;
            let mut hits = 0.0;
            for _ in 0..rounds {
                let (seconds, ratio) = run(&trace, policy, machine, footprint, tlb, &oracle);
                best = best.min(seconds);
                hits = ratio;
            }
            let rate = footprint.records as f64 / best / 1e6;
            println!("{name:28} {rate:7.1} M accesses/s   hits {hits:.3}");
        }
    }
}

fn decode(trace: &MemTrace, rounds: u32, footprint: &Footprint) {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let started = Stopwatch::start();
        let mut source = trace.reader().expect("captured");
        let mut batch = Batch::new();
        let mut sum = 0u64;
        while source.next_batch(&mut batch).expect("captured") {
            sum += u64::from(batch.pages.first().copied().unwrap_or(0));
        }
        std::hint::black_box(sum);
        best = best.min(started.seconds());
    }
    println!("{:28} {:7.1} M accesses/s", "decode only", footprint.records as f64 / best / 1e6);
}

fn run(
    trace: &MemTrace,
    policy: &str,
    machine: &Machine,
    footprint: &Footprint,
    tlb: bool,
    oracle: &Arc<dyn Oracle>,
) -> (f64, f64) {
    let fast = FastSize::Ratio(1, 8);
    let options = SimOptions {
        tlb,
        epoch_records: epoch_records(footprint),
        ..SimOptions::new(machine.clone(), fast)
    };
    let context = Offer {
        seed: 1,
        scale: options.scale.factor(footprint),
        fast_pages: fast.pages(footprint),
        total_pages_hint: PageCount(footprint.peak_resident_pages),
        oracle: Some(Arc::clone(oracle)),
        ..Offer::default()
    };
    let policy = registry::make(policy, &context).expect("policy");
    let mut source = trace.reader().expect("captured");
    let started = Stopwatch::start();
    let outcome = simulate(&mut source, footprint, policy, &options, &mut ()).expect("run");
    (started.seconds(), outcome.report.fast_hit_ratio)
}
