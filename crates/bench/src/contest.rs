//! Measurement of contestants in turn, so that a slow spell of the machine hits all of them.

use anyhow::Result;
use std::time::{Duration, Instant};

/// What one round of one contestant gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Processor time of what is to be measured; set-up may stay outside.
    pub time: Duration,
    /// Units of work done (accesses, records).
    pub work: u64,
    /// Result that must not differ between contestants of the same check, as a miss count.
    pub check: u64,
}

impl Round {
    /// Measures `work`, which gives the units of work done and the result to compare: processor
    /// time of this thread where the system tells it, so that other load does not count, else real
    /// time.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn measure(work: impl FnOnce() -> Result<(u64, u64)>) -> Result<Self> {
        let (start, processor) = (Instant::now(), processor_time());
        let (work, check) = work()?;
        let time = match (processor, processor_time()) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => start.elapsed(),
        };
        Ok(Self { time, work, check })
    }
}

/// What this thread has run so far, by Linux's `/proc/thread-self/schedstat`: its first number, in
/// nanoseconds.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// One way of doing the work.
pub struct Contestant<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<Round> + 'a>,
}

impl<'a> Contestant<'a> {
    /// Named as it shall be printed.
    pub fn new(name: impl Into<String>, run: impl FnMut() -> Result<Round> + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// Millions of units of work per second over all rounds of one contestant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Slowest round.
    pub least: f64,
    /// Median round.
    pub median: f64,
    /// Fastest round.
    pub most: f64,
}

impl Speed {
    fn of(rounds: &[Round]) -> Self {
        let mut speeds: Vec<f64> =
            rounds.iter().map(|r| r.work as f64 / r.time.as_secs_f64() / 1e6).collect();
        speeds.sort_by(f64::total_cmp);
        let last = speeds.len() - 1;
        let median = (speeds[last / 2] + speeds[last.div_ceil(2)]) / 2.0;
        Self { least: speeds[0], median, most: speeds[last] }
    }
}

/// Lets every contestant run `rounds` times in turn and prints medians, ranges and how many times
/// faster than the last contestant each one is.
///
/// # Errors
/// Those of a contestant; and where two rounds gave different results or amounts of work.
///
/// # Panics
/// Without rounds or contestants.
pub fn run(title: &str, rounds: usize, contestants: &mut [Contestant<'_>]) -> Result<Vec<Speed>> {
    assert!(rounds > 0 && !contestants.is_empty(), "nothing to measure");
    let mut results = vec![Vec::new(); contestants.len()];
    for _ in 0..rounds {
        for (contestant, results) in contestants.iter_mut().zip(&mut results) {
            results.push((contestant.run)()?);
        }
    }
    let first = results[0][0];
    for (contestant, results) in contestants.iter().zip(&results) {
        for round in results {
            anyhow::ensure!(
                (round.work, round.check) == (first.work, first.check),
                "{title}: {} did {} units with result {}, {} did {} with {}",
                contestants[0].name,
                first.work,
                first.check,
                contestant.name,
                round.work,
                round.check,
            );
        }
    }
    let speeds: Vec<Speed> = results.iter().map(|rounds| Speed::of(rounds)).collect();
    println!("{title} ({rounds} rounds of {:.1} M)", first.work as f64 / 1e6);
    for (contestant, speed) in contestants.iter().zip(&speeds) {
        print!("  {:<34}{:>9.1} M/s", contestant.name, speed.median);
        print!("   [{:.1} .. {:.1}]", speed.least, speed.most);
        match (speeds.len(), speeds.last()) {
            (2.., Some(peer)) => println!("   {:.2} x", speed.median / peer.median),
            _ => println!(),
        }
    }
    Ok(speeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(millis: u64, check: u64) -> Round {
        Round { time: Duration::from_millis(millis), work: 1_000_000, check }
    }

    #[test]
    fn medians_of_odd_and_even_numbers_of_rounds() {
        let speed = Speed::of(&[round(1000, 0), round(500, 0), round(100, 0)]);
        assert_eq!(speed, Speed { least: 1.0, median: 2.0, most: 10.0 });
        assert_eq!(Speed::of(&[round(1000, 0), round(500, 0)]).median, 1.5);
    }

    #[test]
    fn contestants_take_turns() {
        let order = std::cell::RefCell::new(String::new());
        let enter = |name: &'static str| {
            let order = &order;
            Contestant::new(name, move || {
                order.borrow_mut().push_str(name);
                Ok(round(10, 7))
            })
        };
        let speeds = run("turns", 3, &mut [enter("a"), enter("b")]).expect("they agree");
        assert_eq!(order.into_inner(), "ababab");
        assert_eq!(speeds.len(), 2);
    }

    #[test]
    fn different_results_are_an_error() {
        let mut contestants = [
            Contestant::new("ours", || Ok(round(10, 7))),
            Contestant::new("theirs", || Ok(round(10, 8))),
        ];
        let error = run("misses", 1, &mut contestants).expect_err("7 is not 8").to_string();
        assert!(error.contains("theirs") && error.contains('8'), "{error}");
    }
}
