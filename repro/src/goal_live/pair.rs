//! Two of the same program, one of them tiered, that work in turn for some milliseconds each: what disturbs one of them
//! disturbs the other as much.
//!
//! Work of a program in the turn of the other, such as to collect garbage, counts as time of its own.

use super::programs::{Program, Work};
use super::senpai::Group;
use anyhow::{Context, anyhow};
use frostline_core::rng::Rng;
use frostline_terminal::cancel;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rustix::thread::CpuSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time that a turn takes, about.
const TURN: Duration = Duration::from_millis(20);
/// Time whose ratio is taken for one observation.
const BLOCK: Duration = Duration::from_secs(2);
/// Half width of an interval that holds the mean in 95 of 100 cases, in standard errors.
const WIDTH: f64 = 1.96;

/// Both programs.
pub struct Pair {
    tiered: Box<dyn Work>,
    alone: Box<dyn Work>,
    /// Units of a turn.
    units: u64,
    rng: Rng,
}

/// Seconds of the tiered and of the other one for the same work, by blocks.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<(f64, f64)>);

/// A share with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Share {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Pair {
    /// Starts both, with files in two folders of `dir`, one of them in that control group.
    ///
    /// # Errors
    /// Where one does not start.
    pub fn start(program: &Program, dir: &Path, group: Option<&Group>) -> anyhow::Result<Self> {
        let one = |name: &str| {
            let dir = dir.join(name);
            std::fs::create_dir(&dir)?;
            (program.start)(&dir).with_context(|| said(&dir))
        };
        let (tiered, alone) = std::thread::scope(|scope| {
            let other = scope.spawn(|| one("alone"));
            let tiered = Group::within(group, || one("tiered"));
            (tiered, other.join().unwrap_or_else(|_| Err(anyhow!("the start failed"))))
        });
        leave_last_core()?;
        let mut pair = Self { tiered: tiered?, alone: alone?, units: 1, rng: Rng::new(1) };
        while pair.turn()?.1 < TURN.as_secs_f64() && pair.units < 1 << 32 {
            pair.units *= 2;
        }
        Ok(pair)
    }

    /// Process that is tiered.
    pub fn pid(&self) -> u32 {
        self.tiered.pid()
    }

    /// Both work so long.
    ///
    /// # Errors
    /// Where one fails, and after a Ctrl-C.
    pub fn run(&mut self, span: Duration) -> anyhow::Result<Times> {
        let (began, mut times) = (Instant::now(), Times::default());
        while began.elapsed() < span {
            let (block, mut sum) = (Instant::now(), (0.0, 0.0));
            while block.elapsed() < BLOCK {
                let (tiered, alone) = self.turn()?;
                sum = (sum.0 + tiered, sum.1 + alone);
            }
            times.0.push(sum);
            cancel::check()?;
        }
        Ok(times)
    }

    fn turn(&mut self) -> anyhow::Result<(f64, f64)> {
        let Self { tiered, alone, units, rng } = self;
        // Neither is always the one that comes first.
        if rng.below(2) == 0 {
            return each(&mut **tiered, &mut **alone, *units);
        }
        let (alone, tiered) = each(&mut **alone, &mut **tiered, *units)?;
        Ok((tiered, alone))
    }
}

/// Seconds that both take for so many units, one after the other.
fn each(first: &mut dyn Work, second: &mut dyn Work, units: u64) -> anyhow::Result<(f64, f64)> {
    let one = time(first, &*second, units)?;
    let other = time(second, &*first, units)?;
    Ok((one.0 + other.1, other.0 + one.1))
}

/// Seconds that a program takes for so many units, and that `other` works meanwhile, on the same core.
fn time(program: &mut dyn Work, other: &dyn Work, units: u64) -> anyhow::Result<(f64, f64)> {
    let (began, before) = (Instant::now(), on_core(other)?);
    program.work(units)?;
    let besides = on_core(other)?.saturating_sub(before).as_secs_f64();
    Ok((began.elapsed().as_secs_f64() - besides, besides))
}

/// Time on processors of a program so far.
fn on_core(program: &dyn Work) -> anyhow::Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(program.pid().cast_signed()))?;
    Ok(clock_gettime(clock)?.into())
}

/// Keeps the client, this thread, off the core of the programs: it would take turns with them.
fn leave_last_core() -> anyhow::Result<()> {
    let mut cores = rustix::thread::sched_getaffinity(None)?;
    if cores.count() > 1 {
        let last = (0..CpuSet::MAX_CPU).rfind(|core| cores.is_set(*core));
        last.into_iter().for_each(|core| cores.unset(core));
        rustix::thread::sched_setaffinity(None, &cores)?;
    }
    Ok(())
}

fn said(dir: &Path) -> String {
    let text = std::fs::read_to_string(dir.join("said")).unwrap_or_default();
    text.lines().last().unwrap_or("it says nothing").to_owned()
}

impl Times {
    /// Time of the tiered one in those of the other: the ratio, and the standard error of its logarithm.
    fn ratio(&self) -> (f64, f64) {
        let count = self.0.len() as f64;
        let (tiered, alone) = self.0.iter().fold((0.0, 0.0), |sum, (a, b)| (sum.0 + a, sum.1 + b));
        let ratio = tiered / alone;
        let squares: f64 = self.0.iter().map(|(a, b)| (a - ratio * b).powi(2)).sum();
        (ratio, (squares * count / (count - 1.0).max(1.0)).sqrt() / tiered)
    }

    /// Slowdown since `before`, when neither was tiered.
    pub fn slowdown(&self, before: &Self) -> Share {
        let ((now, error), (then, other)) = (self.ratio(), before.ratio());
        let (mean, width) = (now / then - 1.0, WIDTH * error.hypot(other));
        Share { mean, low: mean - width, high: mean + width }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowdown_is_that_of_one_of_two() {
        let times = |ratio: f64| {
            let noise = |i: i32| f64::from(i * 7 % 11 - 5) / 100.0;
            let block = |i| (ratio * (1.0 + noise(i)), 1.0 + noise(i) + noise(i + 3) / 50.0);
            Times((0..110).map(block).collect())
        };
        let share = times(1.05).slowdown(&times(1.03));
        assert!((share.mean - (1.05 / 1.03 - 1.0)).abs() < 1e-3, "{share:?}");
        assert!(share.low < share.mean && share.high - share.low < 0.002, "{share:?}");
        let same = times(1.0).slowdown(&times(1.0));
        assert!(same.mean == 0.0 && same.low < 0.0, "{same:?}");
    }
}
