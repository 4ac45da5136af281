//! Contest of a policy and its rivals in one unit: the best rival is chosen on some seeds, and compared on
//! others.
//!
//! The best of many on the seeds that it was chosen on is better there than it is: with a score of rivals, chance alone
//! is worth a per cent or two. Rivals run with folios and with base pages, in as many bytes of fast
//! memory.

use super::results::{Case, Pages, Rival, Settings};
use super::units::Unit;
use frostline_core::policy::registry;
use frostline_sim::{FastSize, SimOptions};
use frostline_study::{Monitor, Programs, Request, SizeStudy, run, with_seed};
use frostline_terminal::limit;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a case's rivals from another tournament.
pub type Known<'a> = &'a dyn Fn(FastSize) -> Option<Case>;

/// A policy with such pages.
type Player = (String, Pages);

/// Modelled seconds by player, summed over seeds.
type Sums = BTreeMap<Player, f64>;

/// What the first seed of comparison says of a size.
#[derive(Clone, Copy, Debug, Default)]
struct First {
    fast_bytes: u64,
    share_of_bound: Option<f64>,
    samples_per_page: f64,
}

/// Plays all sizes of a unit.
///
/// # Errors
/// Those of a study, and a stop.
pub fn play(
    unit: &Unit,
    settings: &Settings,
    known: Known<'_>,
    monitor: &dyn Monitor,
) -> anyhow::Result<Vec<Case>> {
    let known: Option<Vec<Case>> = unit.fast.iter().map(|&fast| known(fast)).collect();
    let contest = Contest { unit, settings, monitor };
    let choices = match &known {
        Some(cases) => cases.iter().map(|case| case.choice.clone()).collect(),
        None => contest.choose()?,
    };
    let rivals = if known.is_some() { Vec::new() } else { choices.clone() };
    let (sums, firsts) = contest.compare(&rivals)?;
    let compared = settings.compare_seeds as f64;
    let mut cases = Vec::new();
    for (size, (&fast, choice)) in unit.fast.iter().zip(choices).enumerate() {
        let mean = |policy: &str, pages| {
            sums[size].get(&(policy.to_owned(), pages)).map_or(f64::NAN, |sum| sum / compared)
        };
        let (rival, first_touch_seconds) = match &known {
            Some(cases) => (cases[size].rival.clone(), cases[size].first_touch_seconds),
            None => {
                let Rival { policy, pages, .. } = choice[0].clone();
                let seconds = mean(&policy, pages);
                (Rival { policy, pages, seconds }, mean(registry::FIRST_TOUCH, Pages::Folios))
            }
        };
        cases.push(Case {
            set: unit.set,
            family: unit.family.clone(),
            trace: unit.trace.clone(),
            machine: unit.machine.clone(),
            tlb: unit.tlb,
            fast: fast.to_string(),
            fast_bytes: firsts[size].fast_bytes,
            seconds: mean(&settings.policy, Pages::Own),
            share_of_bound: firsts[size].share_of_bound,
            samples_per_page: firsts[size].samples_per_page,
            rival,
            first_touch_seconds,
            choice,
        });
    }
    Ok(cases)
}

struct Contest<'a> {
    unit: &'a Unit,
    settings: &'a Settings,
    monitor: &'a dyn Monitor,
}

impl Contest<'_> {
    /// Rivals of each size, the best first, by their mean times on the seeds of choice.
    fn choose(&self) -> anyhow::Result<Vec<Vec<Rival>>> {
        let Self { unit, settings, .. } = self;
        let mut sums = vec![Sums::new(); unit.fast.len()];
        let forms: &[Pages] =
            if settings.as_is { &[Pages::Own] } else { &[Pages::Folios, Pages::Base] };
        let players = settings
            .rivals
            .iter()
            .flat_map(|rival| forms.iter().map(|pages| (rival.clone(), *pages)))
            .collect();
        for seed in settings.choice() {
            add(&mut sums, &players, &self.replay(&players, seed, false)?)?;
        }
        let seeds = settings.choice_seeds as f64;
        let rival = |((policy, pages), sum)| Rival { policy, pages, seconds: sum / seeds };
        let ranked = |sums: Sums| {
            let mut rivals: Vec<Rival> = sums.into_iter().map(rival).collect();
            rivals.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
            rivals
        };
        Ok(sums.into_iter().map(ranked).collect())
    }

    /// The policy, first touch and the best of the rivals of each size, on the seeds of comparison; the
    /// policy alone where there are no rivals.
    fn compare(&self, rivals: &[Vec<Rival>]) -> anyhow::Result<(Vec<Sums>, Vec<First>)> {
        let Self { unit, settings, .. } = self;
        let best = rivals.iter().filter_map(|rivals| rivals.first());
        let mut players: BTreeSet<Player> =
            best.map(|rival| (rival.policy.clone(), rival.pages)).collect();
        if !rivals.is_empty() {
            players.insert((registry::FIRST_TOUCH.to_owned(), Pages::Folios));
        }
        players.insert((settings.policy.clone(), Pages::Own));
        let (mut sums, mut firsts) = (vec![Sums::new(); unit.fast.len()], Vec::new());
        for seed in settings.compare() {
            let bound = unit.bound && firsts.is_empty();
            let sizes = self.replay(&players, seed, bound)?;
            add(&mut sums, &players, &sizes)?;
            if firsts.is_empty() {
                firsts = sizes.iter().map(|size| first(size, &settings.policy)).collect();
            }
        }
        Ok((sums, firsts))
    }

    fn replay(
        &self,
        players: &BTreeSet<Player>,
        seed: u64,
        bound: bool,
    ) -> anyhow::Result<Vec<SizeStudy>> {
        let machine = frostline_study::machine(&self.unit.machine)?;
        let (tlb, sizes) = (self.unit.tlb, &self.unit.fast);
        let policies = players.iter().map(|(policy, pages)| pages.of(policy));
        // Two may be the same.
        let policies: BTreeSet<String> = policies.collect::<Result<_, _>>()?;
        let request = Request {
            traces: vec![Programs::alone(&with_seed(&self.unit.trace, seed))],
            guests: Vec::new(),
            sizes: sizes.clone(),
            policies: policies.into_iter().collect(),
            seeds: 1,
            bound,
            jobs: Some(1),
            options: SimOptions { seed, tlb, ..SimOptions::new(machine, sizes[0]) },
            every_series: false,
            limit: limit::current(),
        };
        let traces = run(&request, self.monitor)?.traces;
        Ok(traces.into_iter().flat_map(|trace| trace.sizes).collect())
    }
}

fn add(sums: &mut [Sums], players: &BTreeSet<Player>, sizes: &[SizeStudy]) -> anyhow::Result<()> {
    for player in players {
        let spec = player.1.of(&player.0)?;
        for (sums, size) in sums.iter_mut().zip(sizes) {
            let runs = size.policies.iter().filter(|policy| policy.spec == spec);
            let seconds: f64 = runs.map(|policy| policy.first().report.modelled_seconds).sum();
            *sums.entry(player.clone()).or_default() += seconds;
        }
    }
    Ok(())
}

fn first(size: &SizeStudy, policy: &str) -> First {
    let of = size.policies.iter().find(|of| of.spec == policy).map(|of| &of.first().report);
    let Some(report) = of else { return First::default() };
    let samples = report.counters.get("machine.samples").copied().unwrap_or(0.0);
    let pages = (report.footprint_bytes / frostline_core::types::PAGE_BYTES).max(1);
    First {
        fast_bytes: size.fast_bytes,
        share_of_bound: report.share_of_bound,
        samples_per_page: samples / pages as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::super::families::Set;
    use super::super::results::testing;
    use super::*;
    use frostline_sim::RunReport;
    use frostline_study::Unwatched;

    fn unit(trace: &str) -> Unit {
        Unit {
            set: Set::Development,
            family: "f".into(),
            trace: trace.into(),
            machine: "dram-nvm".into(),
            tlb: true,
            bound: true,
            fast: ["1:2", "2MiB"].map(|text| text.parse().expect("a size")).to_vec(),
        }
    }

    fn settings() -> Settings {
        Settings {
            policy: "memtis".into(),
            rivals: ["hybridtier", "all-slow", "first-touch"].map(str::to_owned).to_vec(),
            choice_seeds: 1,
            compare_seeds: 2,
            ..testing::settings()
        }
    }

    #[test]
    fn rivals_play_with_both_sizes_of_pages_in_as_many_bytes() {
        // Two fifths of its pages are in use: by its own footprint base pages would get less.
        let unit = unit("synth:btree:size=16MiB:accesses=300K");
        let settings = settings();
        let contest = Contest { unit: &unit, settings: &settings, monitor: &Unwatched };
        let players = [Pages::Folios, Pages::Base].map(|pages| ("all-slow".to_owned(), pages));
        let sizes = contest.replay(&players.into(), 1, false).expect("runs");
        let size = &sizes[0];
        let [base, folios] = [0, 1].map(|one| &size.policies[one].first().report);
        assert_eq!((base.fast_bytes, folios.fast_bytes), (size.fast_bytes, size.fast_bytes));
        let faults = |report: &RunReport| report.counters["machine.huge_faults"];
        assert!(faults(folios) > 0.0 && faults(base) == 0.0);
        let resident =
            |report: &RunReport| report.tiers.iter().map(|t| t.resident_bytes_max).sum::<u64>();
        assert!(resident(base) < resident(folios) * 2 / 3, "{} bytes", resident(base));
        let choices = contest.choose().expect("runs");
        assert_eq!(choices.len(), 2);
        for rivals in &choices {
            assert_eq!(rivals.len(), 6);
            assert!(rivals.windows(2).all(|pair| pair[0].seconds <= pair[1].seconds));
        }
    }

    #[test]
    fn a_case_is_compared_on_seeds_that_its_rival_was_not_chosen_on() {
        let (unit, settings) = (unit("synth:zipf:size=16MiB:accesses=300K"), settings());
        let cases = play(&unit, &settings, &|_| None, &Unwatched).expect("runs");
        assert_eq!(cases.len(), 2);
        for case in &cases {
            let best = &case.choice[0];
            assert_eq!((&best.policy, best.pages), (&case.rival.policy, case.rival.pages));
            assert!(best.seconds.to_bits() != case.rival.seconds.to_bits(), "another seed");
            assert!(case.seconds > 0.0 && case.first_touch_seconds > 0.0);
            assert!(case.share_of_bound.is_some() && case.samples_per_page > 0.0);
        }
        assert_eq!(cases[1].fast_bytes, 2 << 20, "one folio");
        // With the rivals known, only the policy plays, and nothing else comes out.
        let known = |fast: FastSize| cases.iter().find(|case| case.is(&unit, fast)).cloned();
        assert_eq!(play(&unit, &settings, &known, &Unwatched).expect("runs"), cases);
    }

    #[test]
    fn rivals_as_they_are_have_pages_of_their_own() {
        let (mut unit, settings) = (unit("synth:zipf:size=4MiB:accesses=100K"), settings());
        unit.fast.truncate(1);
        let settings = Settings { as_is: true, ..settings };
        let cases = play(&unit, &settings, &|_| None, &Unwatched).expect("runs");
        assert_eq!(cases[0].choice.len(), 3);
        assert!(cases[0].choice.iter().all(|rival| rival.pages == Pages::Own));
    }
}
