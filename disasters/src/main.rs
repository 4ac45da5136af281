//! Player of disasters: seed after seed on all processors, until the steps or the time are used up.
#![forbid(unsafe_code)]

use clap::Parser;
use frostline_disasters::{Disaster, Find, Played, Without, play, shorten};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Steps of a seed, without those in calm.
const STEPS: u64 = 10_000;

/// Plays disasters for the daemon.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask disasters")]
struct Args {
    /// Ends after so many steps: 500000, 100M
    #[arg(long, value_parser = count)]
    steps: Option<u64>,
    /// Ends after so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Plays this seed alone
    #[arg(long)]
    seed: Option<u64>,
    /// First seed; without it, one that the clock gives
    #[arg(long, conflicts_with = "seed")]
    from: Option<u64>,
    /// Disasters that do not happen, with commas between them
    #[arg(long, default_value = "", value_parser = Without::parse)]
    without: Without,
    /// Seeds that are played at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// A number, with k or M behind it.
fn count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'M']) {
        Some(digits) if text.ends_with('k') => (digits, 1000),
        Some(digits) => (digits, 1_000_000),
        None => (text, 1),
    };
    let count = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(factor));
    count.filter(|count| *count > 0).ok_or_else(|| format!("'{text}' is no number of steps"))
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.seed {
        Some(seed) => one(seed, args.steps.unwrap_or(STEPS), args.without),
        None => many(&args),
    }
}

/// Plays one seed.
fn one(seed: u64, steps: u64, without: Without) -> ExitCode {
    match play(seed, steps, without) {
        Ok(played) => {
            println!("seed {seed}: {} steps, {} moves", played.steps, played.moves);
            ExitCode::SUCCESS
        }
        Err(find) => {
            told(seed, steps, without, &find);
            ExitCode::FAILURE
        }
    }
}

fn told(seed: u64, steps: u64, without: Without, find: &Find) {
    let but = match without.to_string() {
        names if names.is_empty() => String::new(),
        names => format!(" --without {names}"),
    };
    println!("FOUND at step {} of {}: {}", find.step, find.policy, find.what);
    println!("again: cargo xtask disasters --seed {seed} --steps {steps}{but}");
}

/// Plays seed after seed.
fn many(args: &Args) -> ExitCode {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let from = args.from.unwrap_or_else(clock);
    let began = Instant::now();
    let limit = args.seconds.map(Duration::from_secs);
    let most = args.steps.unwrap_or(if limit.is_some() { u64::MAX } else { 1_000_000 });
    let (next, steps) = (AtomicU64::new(from), AtomicU64::new(0));
    let minute = AtomicU64::new(0);
    let sum = Mutex::new(Played::default());
    let found = Mutex::new(None);
    let worker = || {
        loop {
            let over = limit.is_some_and(|limit| began.elapsed() >= limit);
            let locked = found
                .lock()
                .is_ok_and(|found: std::sync::MutexGuard<'_, Option<_>>| found.is_some());
            if over || locked || steps.load(Ordering::Relaxed) >= most {
                return;
            }
            let seed = next.fetch_add(1, Ordering::Relaxed);
            match play(seed, STEPS, args.without) {
                Ok(played) => {
                    let so_far = steps.fetch_add(played.steps, Ordering::Relaxed) + played.steps;
                    let minutes = began.elapsed().as_secs() / 60;
                    if minute.fetch_max(minutes, Ordering::Relaxed) < minutes {
                        eprintln!("{:.1} million steps in {minutes} min", so_far as f64 / 1e6);
                    }
                    if let Ok(mut sum) = sum.lock() {
                        sum.add(&played);
                    }
                }
                Err(find) => {
                    if let Ok(mut found) = found.lock() {
                        found.get_or_insert((seed, find));
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        (0..args.jobs.max(1)).for_each(|_| drop(scope.spawn(worker)));
    });
    let played = sum.into_inner().unwrap_or_default();
    report(&played, from, next.into_inner() - from, began.elapsed());
    match found.into_inner() {
        Ok(Some((seed, find))) => {
            println!("seed {seed} at step {}: {}", find.step, find.what);
            let (steps, without, find) =
                shorten(|steps, without| play(seed, steps, without), STEPS, find);
            told(seed, steps, without, &find);
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn report(played: &Played, from: u64, seeds: u64, took: Duration) {
    for &disaster in Disaster::ALL {
        println!("{:16} {:>12}", disaster.name(), played.tally.of(disaster));
    }
    let minutes = took.as_secs_f64() / 60.0;
    println!(
        "{seeds} seeds from {from}: {} steps, {:.2} million a minute; {} moves ended, the truth was \
         known {} times",
        played.steps,
        played.steps as f64 / minutes / 1e6,
        played.moves,
        played.truths
    );
}
