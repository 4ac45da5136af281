//! Cost of one sample of several policies, from the sample to the decision, and memory for each page.
//!
//! Zipf(0.99) samples over 16 M pages of which 1 M fit into fast memory. Timed is what the policy does:
//! taking samples and ends of moves in, and deciding as often as it wishes, at most after each batch; not
//! the engine's checks, nor the moves, which end at once, nor looking up in which tier a sample falls.
//! Policies take turns by rounds, so that a busy machine slows all of them. Names of policies leave out
//! the others.
//!
//! - `-- --huge` maps all memory by huge pages, `--large` has 64 M pages of which 4 M are fast.
//! - `-- --quick` takes a tenth of the samples.
//! - `-- --misses` prints cache misses for a sample in place of times, where no counters of the processor
//!   are to be had: `valgrind --tool=cachegrind` on a run of a million samples and on one of two, which
//!   make the difference, beyond those of a policy that does nothing. Moves are among them, prefetches are
//!   not seen. Valgrind has to be installed.

mod samples;

use frostline_core::PageCount;
use frostline_core::event::Event;
use frostline_core::policy::Offer;
use samples::tiered::Tiered;
use samples::{busy_ns, cachegrind, median, samples};
use std::ffi::OsStr;
use std::fmt;

const ROUND: usize = 10_000_000;
const ROUNDS: usize = 10;
/// Samples between two looks at where pages are.
const BLOCK: usize = 64 * 1024;
/// Samples that come together.
const BATCH: usize = 128;
/// Modelled time between samples.
const SAMPLE_NS: u64 = 10_000;

const POLICIES: [&str; 8] = [
    "frost",
    "memtis",
    "memtis-plus",
    "hemem",
    "hybridtier",
    "hybridtier-exact",
    "hybridtier-cbf",
    "hybridtier-artifact",
];

/// Does nothing with samples.
const IDLE: &str = "first-touch";
/// First-level and last-level cache of `--misses`, in bytes.
const CACHES: [u32; 2] = [32 << 10, 32 << 20];

/// Memory that is sampled.
#[derive(Clone, Copy)]
struct Memory {
    pages: u32,
    fast: u32,
    huge: bool,
}

impl Memory {
    fn new(large: bool, huge: bool) -> Self {
        let pages = if large { 1 << 26 } else { 1 << 24 };
        Self { pages, fast: pages / 16, huge }
    }

    fn tiered(self, policy: &str) -> Tiered {
        let context = Offer {
            fast_pages: PageCount(self.fast.into()),
            total_pages_hint: PageCount(self.pages.into()),
            ..Offer::default()
        };
        Tiered::new(policy, &context, self.huge)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.huge { "folios of 512" } else { "base pages" };
        write!(f, "{} pages ({kind}), {} fast", self.pages, self.fast)
    }
}

struct Contestant {
    name: &'static str,
    tiered: Tiered,
    /// Of a sample, by rounds.
    ns: Vec<f64>,
}

impl Contestant {
    fn round(&mut self, events: &[Event], clock_ns: f64) {
        let (took, looks) = run(&mut self.tiered, events, busy_ns);
        self.ns.push((took - looks as f64 * clock_ns) / events.len() as f64);
    }
}

/// Has a policy take samples in and decide; gives what that took, by the clock, and how often the clock
/// was looked at meanwhile.
fn run(tiered: &mut Tiered, events: &[Event], clock: fn() -> f64) -> (f64, u64) {
    let (mut took, mut looks) = (0.0, 0);
    let mut located = Vec::with_capacity(BLOCK);
    for block in events.chunks(BLOCK) {
        located.clear();
        located.extend_from_slice(block);
        tiered.locate(&mut located);
        let start = clock();
        for batch in located.chunks(BATCH) {
            tiered.observe(batch, batch.len() as u64 * SAMPLE_NS);
            tiered.decide();
            if tiered.has_decided() {
                let before = clock();
                tiered.move_pages();
                took -= clock() - before;
                looks += 1;
            }
        }
        took += clock() - start;
        looks += 1;
    }
    (took, looks)
}

/// What looking at the clock takes.
fn clock_ns() -> f64 {
    const LOOKS: u32 = 100_000;
    let start = busy_ns();
    let last = (0..LOOKS).map(|_| busy_ns()).fold(start, f64::max);
    (last - start) / f64::from(LOOKS)
}

/// Prints misses of the first and of the last level for a sample: of the second half of a run, since the
/// first one also takes in what memory there is.
fn misses(
    policies: &[&str],
    memory: Memory,
    samples: usize,
    options: &[&str],
) -> Result<(), String> {
    let measured = |name: &str, samples: usize| {
        eprintln!("cachegrind: {name}, {samples} samples");
        let samples = samples.to_string();
        let args = ["--run", name, &samples].into_iter().chain(options.iter().copied());
        cachegrind::measure(CACHES, &args.map(OsStr::new).collect::<Vec<_>>())
    };
    let second_half =
        |name: &str| Ok::<_, String>(measured(name, 2 * samples)?.beyond(measured(name, samples)?));
    let idle = second_half(IDLE)?;
    println!("misses for a sample, {samples} of them, {memory}");
    println!("  first level {} bytes, last level {}", CACHES[0], CACHES[1]);
    for name in policies {
        let [first, last] =
            second_half(name)?.beyond(idle).each().map(|misses| misses / samples as f64);
        println!("  {name:20} {first:6.2} {last:6.2}");
    }
    Ok(())
}

/// What `--misses` counts: without the clock, which Valgrind does not know.
fn work(policy: &str, memory: Memory, samples_wanted: usize) {
    let mut tiered = memory.tiered(policy);
    run(&mut tiered, &samples(samples_wanted, memory.pages), || 0.0);
}

fn times(policies: &[&'static str], memory: Memory, round: usize) {
    let mut contestants: Vec<_> = policies
        .iter()
        .map(|&name| Contestant { name, tiered: memory.tiered(name), ns: Vec::new() })
        .collect();
    let events = samples(round, memory.pages);
    let clock_ns = clock_ns();
    for _ in 0..ROUNDS {
        contestants.iter_mut().for_each(|contestant| contestant.round(&events, clock_ns));
    }
    println!(
        "policy_samples: {ROUNDS} x {round} samples, {memory}; medians, the least and the most"
    );
    for Contestant { name, tiered, ns } in contestants {
        let [least, most] = [f64::min, f64::max].map(|of| ns.iter().copied().reduce(of));
        println!(
            "  {name:20} {:6.1} ns/sample ({:.1} to {:.1})  {:6.2} bytes/page  \
             {} pages moved, {} folios split",
            median(ns),
            least.unwrap_or_default(),
            most.unwrap_or_default(),
            tiered.policy.metadata_bytes().0 as f64 / f64::from(memory.pages),
            tiered.moved_pages,
            tiered.splits,
        );
    }
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().collect();
    let has = |option: &str| args.iter().any(|arg| arg == option);
    let memory = Memory::new(has("--large"), has("--huge"));
    let options: Vec<_> = ["--large", "--huge"].into_iter().filter(|option| has(option)).collect();
    let named: Vec<_> = POLICIES.into_iter().filter(|name| has(name)).collect();
    let round = if has("--quick") { ROUND / 10 } else { ROUND };
    let policies = if named.is_empty() { POLICIES.to_vec() } else { named };
    if let Some(at) = args.iter().position(|arg| arg == "--run") {
        let samples = args[at + 2].parse().map_err(|_| "no number of samples")?;
        work(&args[at + 1], memory, samples);
    } else if has("--misses") {
        misses(&policies, memory, round / 10, &options)?;
    } else {
        times(&policies, memory, round);
    }
    Ok(())
}
