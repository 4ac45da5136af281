//! Duel of a policy with first touch: a random program, or two of which one begins later, on a random machine.

use super::draw::Draw;
use super::generators::program;
use frostline_core::policy::registry;
use frostline_sim::{FastSize, SimOptions};
use frostline_study::{Monitor, Programs, Request, run};
use frostline_terminal::{errors, limit};
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};

const MACHINES: [&str; 5] =
    ["dram-nvm", "dram-cxl", "dram-cxl124", "hbm-dram", "disaggregated-1000"];
const SIZES: [&str; 9] = ["2MiB", "2:1", "1:1", "1:2", "1:4", "1:8", "1:16", "1:32", "4MiB"];

/// What is simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Duel {
    /// Its number among all of a seed.
    pub number: u64,
    /// The program.
    pub trace: String,
    /// Another one, and the per cent of the first one's records after which it begins.
    pub beside: Option<(String, u64)>,
    /// The machine, with parameters.
    pub machine: String,
    /// Size of fast memory.
    pub fast: String,
    /// Whether the translation lookaside buffer is modelled.
    pub tlb: bool,
    /// Seed of everything random of the machine.
    pub seed: u64,
}

/// What it came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The duel.
    #[serde(flatten)]
    pub duel: Duel,
    /// Modelled run time of the policy and of first touch; none where the duel failed.
    pub seconds: Option<(f64, f64)>,
    /// Why it failed.
    pub failed: Option<String>,
}

impl Outcome {
    /// How much longer the policy takes than first touch, as a share; none where the duel failed.
    pub fn loss(&self) -> Option<f64> {
        self.seconds.map(|(policy, first_touch)| policy / first_touch - 1.0)
    }
}

impl Duel {
    /// The duel of that number.
    ///
    /// # Errors
    /// A machine that is not known.
    pub fn draw(seed: u64, number: u64) -> anyhow::Result<Self> {
        let mut draw = Draw::new(seed, number);
        let two = draw.chance(30);
        let share = if two { 0.5 } else { 1.0 };
        let trace = program(&mut draw, share);
        let beside = two.then(|| (program(&mut draw, share), 10 * draw.within(0, 8)));
        let mut machine = draw.one(&MACHINES).to_owned();
        if draw.chance(40) {
            machine += ":workers=shared";
        }
        if draw.chance(25) {
            machine += ":os.thp=off";
        } else if draw.chance(15) {
            machine += &format!(":os.fragmentation={}", draw.within(1, 9) as f64 / 10.0);
        }
        frostline_study::machine(&machine)?;
        let (fast, tlb) = (draw.one(&SIZES).to_owned(), draw.chance(70));
        Ok(Self { number, trace, beside, machine, fast, tlb, seed: draw.within(1, 1_000_000) })
    }

    /// Simulates it. What fails or panics in a simulation is found by the search as well.
    ///
    /// # Errors
    /// A stop.
    pub fn fight(self, policy: &str, monitor: &dyn Monitor) -> anyhow::Result<Outcome> {
        let seconds = catch_unwind(AssertUnwindSafe(|| self.seconds(policy, monitor)))
            .unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked")));
        monitor.check()?;
        Ok(match seconds {
            Ok(seconds) => Outcome { duel: self, seconds: Some(seconds), failed: None },
            Err(error) => Outcome { duel: self, seconds: None, failed: Some(errors::text(&error)) },
        })
    }

    fn seconds(&self, policy: &str, monitor: &dyn Monitor) -> anyhow::Result<(f64, f64)> {
        let mut programs = Programs::alone(&self.trace);
        if let Some((beside, after)) = &self.beside {
            programs.beside = vec![beside.clone()];
            programs.beside_after = *after as f64 / 100.0;
        }
        let fast: FastSize = self.fast.parse()?;
        let machine = frostline_study::machine(&self.machine)?;
        let (seed, tlb) = (self.seed, self.tlb);
        let request = Request {
            traces: vec![programs],
            guests: Vec::new(),
            sizes: vec![fast],
            policies: vec![policy.to_owned(), registry::FIRST_TOUCH.to_owned()],
            seeds: 1,
            bound: false,
            jobs: Some(1),
            options: SimOptions { seed, tlb, ..SimOptions::new(machine, fast) },
            every_series: false,
            limit: limit::current(),
        };
        let study = run(&request, monitor)?;
        let policies = &study.traces[0].sizes[0].policies;
        let seconds = |of: usize| policies[of].first().report.modelled_seconds;
        Ok((seconds(0), seconds(1)))
    }

    /// The command that repeats it.
    pub fn command(&self, policy: &str) -> String {
        let Self { trace, machine, fast, seed, .. } = self;
        let beside = match &self.beside {
            None => String::new(),
            Some((trace, 0)) => format!(" --beside {trace}"),
            Some((trace, after)) => format!(" --beside {trace} --beside-after {after}%"),
        };
        let tlb = if self.tlb { "on" } else { "off" };
        let policies = format!("{policy},{}", registry::FIRST_TOUCH);
        format!(
            "frostline compare {trace}{beside} -p {policies} -f {fast} -m {machine} --tlb {tlb} \
             --seed {seed} --no-bound"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_study::Unwatched;

    #[test]
    fn duels_follow_from_seed_and_number() {
        let draw = |seed, number| Duel::draw(seed, number).expect("machines are known");
        assert_eq!(draw(1, 5), draw(1, 5));
        assert_ne!(draw(1, 5).trace, draw(2, 5).trace);
        let many: Vec<Duel> = (0..60).map(|number| draw(3, number)).collect();
        let some = |has: fn(&Duel) -> bool| many.iter().any(has) && !many.iter().all(has);
        assert!(some(|duel| duel.beside.is_some()) && some(|duel| duel.tlb));
        assert!(some(|duel| duel.machine.contains("workers=shared")));
        assert!(some(|duel| duel.machine.contains("os.thp=off")));
    }

    #[test]
    fn a_duel_is_repeated_by_a_command() {
        let duel = Duel {
            number: 0,
            trace: "synth:zipf:size=6MiB:accesses=100K:seed=3".into(),
            beside: Some(("synth:hotcold:size=8MiB:accesses=100K:seed=4".into(), 40)),
            machine: "dram-cxl:workers=shared".into(),
            fast: "2MiB".into(),
            tlb: true,
            seed: 9,
        };
        assert_eq!(
            duel.command("hemem"),
            "frostline compare synth:zipf:size=6MiB:accesses=100K:seed=3 --beside \
             synth:hotcold:size=8MiB:accesses=100K:seed=4 --beside-after 40% -p hemem,first-touch \
             -f 2MiB -m dram-cxl:workers=shared --tlb on --seed 9 --no-bound"
        );
        let outcome = duel.clone().fight("hemem", &Unwatched).expect("runs");
        assert!(outcome.loss().is_some() && outcome.failed.is_none());
        assert_eq!(duel.clone().fight("hemem", &Unwatched).expect("runs"), outcome);
        // What goes wrong is an outcome, too.
        let broken = Duel { fast: "none".into(), ..duel };
        let failed = broken.fight("hemem", &Unwatched).expect("no stop");
        assert!(failed.loss().is_none() && failed.failed.is_some());
    }
}
