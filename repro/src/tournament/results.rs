//! Results of a tournament: what was played how, and what each case came to.

use super::families::Set;
use super::units::Unit;
use frostline_core::policy::{PageSize, pages};
use frostline_core::spec::SpecError;
use frostline_sim::FastSize;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What all cases of a file have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Policy that is judged.
    pub policy: String,
    /// What it is measured against.
    pub rivals: Vec<String>,
    /// Rivals run with the pages of their sources only.
    pub as_is: bool,
    /// Seeds on which the best rival is chosen.
    pub choice_seeds: u64,
    /// Others, on which it is compared with the policy.
    pub compare_seeds: u64,
    /// Name of the form.
    pub form: String,
    /// Digest of the program: another build may simulate something else.
    pub build: String,
}

impl Settings {
    /// Seeds of choice.
    pub fn choice(&self) -> impl Iterator<Item = u64> {
        1..=self.choice_seeds
    }

    /// Seeds of comparison, none of which is one of choice.
    pub fn compare(&self) -> impl Iterator<Item = u64> {
        1001..=1000 + self.compare_seeds
    }
}

/// Sizes of pages that a policy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pages {
    /// Those of its source.
    Own,
    /// Folios where a program's memory allows them.
    Folios,
    /// Base pages only.
    Base,
}

impl Pages {
    /// The policy with such pages.
    ///
    /// # Errors
    /// A description that cannot be read.
    pub fn of(self, policy: &str) -> Result<String, SpecError> {
        match self {
            Self::Own => Ok(policy.to_owned()),
            Self::Folios => pages::set(policy, PageSize::Folio),
            Self::Base => pages::set(policy, PageSize::Base),
        }
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "pages of its own",
            Self::Folios => "folios",
            Self::Base => "base pages",
        })
    }
}

/// A rival in a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rival {
    /// The policy.
    pub policy: String,
    /// Its pages.
    pub pages: Pages,
    /// Modelled run time, a mean over seeds.
    pub seconds: f64,
}

/// A program with a size of fast memory on a machine. Times are modelled seconds, means over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Set of the family.
    pub set: Set,
    /// Family of the program.
    pub family: String,
    /// The program.
    pub trace: String,
    /// The machine model, with parameters.
    pub machine: String,
    /// Whether the translation lookaside buffer was modelled.
    pub tlb: bool,
    /// Size of fast memory, by the footprint with folios.
    pub fast: String,
    /// The same in bytes, on the first seed of comparison.
    pub fast_bytes: u64,
    /// Of the policy, on the seeds of comparison.
    pub seconds: f64,
    /// Of the policy, on the first of these; none where there is no bound.
    pub share_of_bound: Option<f64>,
    /// Samples that the policy had of each page, on the first of these.
    pub samples_per_page: f64,
    /// Best rival on the seeds of choice, with its time on those of comparison.
    pub rival: Rival,
    /// Of first touch with folios, on the seeds of comparison.
    pub first_touch_seconds: f64,
    /// Every rival's time on the seeds of choice, the best first.
    pub choice: Vec<Rival>,
}

impl Case {
    /// How much longer the policy takes than the best rival, as a share; below 0 where it is faster.
    pub fn regret(&self) -> f64 {
        self.seconds / self.rival.seconds - 1.0
    }

    /// How much longer the policy takes than first touch, as a share.
    pub fn over_first_touch(&self) -> f64 {
        self.seconds / self.first_touch_seconds - 1.0
    }

    /// Whether it is this size of that unit.
    pub fn is(&self, unit: &Unit, fast: FastSize) -> bool {
        (&self.family, &self.trace, &self.machine, self.tlb)
            == (&unit.family, &unit.trace, &unit.machine, unit.tlb)
            && self.fast == fast.to_string()
    }

    /// The command that repeats the comparison on its first seed.
    ///
    /// # Errors
    /// A policy that cannot be read.
    pub fn command(&self, settings: &Settings) -> Result<String, SpecError> {
        let seed = settings.compare().next().unwrap_or(1);
        let trace = frostline_study::with_seed(&self.trace, seed);
        let tlb = if self.tlb { "on" } else { "off" };
        let rival = self.rival.pages.of(&self.rival.policy)?;
        let Self { fast, machine, .. } = self;
        Ok(format!(
            "frostline compare {trace} -p {},{rival} -f {fast} -m {machine} --tlb {tlb} --seed {seed}",
            settings.policy
        ))
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// Settings of a small tournament.
    pub fn settings() -> Settings {
        Settings {
            policy: "frost".into(),
            rivals: vec!["memtis".into()],
            as_is: false,
            choice_seeds: 2,
            compare_seeds: 3,
            form: "quick".into(),
            build: "b".into(),
        }
    }

    /// A case in which the best rival takes two seconds, first touch three.
    pub fn case(machine: &str, fast: &str, seconds: f64) -> Case {
        let rival = Rival { policy: "memtis".into(), pages: Pages::Base, seconds: 2.0 };
        Case {
            set: Set::Development,
            family: "zipf".into(),
            trace: "synth:zipf".into(),
            machine: machine.into(),
            tlb: true,
            fast: fast.into(),
            fast_bytes: 8 << 20,
            seconds,
            share_of_bound: Some(0.5),
            samples_per_page: 0.4,
            rival: rival.clone(),
            first_touch_seconds: 3.0,
            choice: vec![rival],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{case, settings};

    #[test]
    fn the_seeds_of_choice_and_of_comparison_are_not_the_same() {
        let settings = settings();
        assert_eq!((settings.choice().count(), settings.compare().count()), (2, 3));
        assert!(settings.choice().all(|seed| settings.compare().all(|other| other != seed)));
    }

    #[test]
    fn a_rival_with_base_pages_is_repeated_with_such() {
        let case = case("dram-cxl:workers=shared", "1:2", 2.2);
        assert!((case.regret() - 0.1).abs() < 1e-9 && case.over_first_touch() < 0.0);
        assert_eq!(
            case.command(&settings()).expect("a policy"),
            "frostline compare synth:zipf:seed=1001 -p frost,memtis:pages=base -f 1:2 \
             -m dram-cxl:workers=shared --tlb on --seed 1001",
        );
    }
}
