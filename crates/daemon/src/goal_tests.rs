//! Controller in a closed loop with a made-up program.

use crate::ages::Cold;
use crate::goal::{Controller, Goal, Memory};
use crate::loss::{Lost, Meter, Stretch};
use alloc::vec::Vec;
use frostline_core::rng::Rng;
use frostline_core::types::*;

/// Time of a refault (ns).
const REFAULT: f64 = 6000.0;
const SECOND: f64 = 1e9;

/// Program whose pages are touched at rates of their own; the coldest leave fast memory first, by a policy that
/// knows them.
struct Program {
    /// What could be out is known from the start.
    is_swept: bool,
    /// Pages that come back in a second where those from a rank on are in swap, by rank.
    returning: Vec<f64>,
    /// Pages from there on are in swap.
    fast: usize,
    /// Cores that it keeps busy.
    cores: f64,
    rng: Rng,
}

impl Program {
    /// Pages with these touches in a second, the hottest first. Each comes back at most once, since it is fast
    /// then until it leaves again.
    fn new(rates: &[f64], cores: f64) -> Self {
        let mut returning: Vec<f64> = core::iter::once(0.0)
            .chain(rates.iter().rev().scan(0.0, |sum, rate| {
                *sum += rate.min(1.0);
                Some(*sum)
            }))
            .collect();
        returning.reverse();
        Self { is_swept: false, returning, fast: rates.len(), cores, rng: Rng::new(5) }
    }

    fn pages(&self) -> usize {
        self.returning.len() - 1
    }

    fn cold(&self) -> Vec<Cold> {
        let point = |fast: usize| Cold {
            age: Nanos::ZERO,
            pages: PageCount((self.pages() - fast) as u64),
            returns: self.returning[fast] / self.cores,
            most_returns: 1.1 * self.returning[fast] / self.cores,
        };
        let sizes = (0..=self.pages()).rev().step_by(1 + self.pages() / 50);
        sizes.map(point).collect()
    }

    fn memory(&self) -> Memory {
        let bytes = |pages: usize| pages as f64 * PAGE_BYTES as f64;
        Memory { footprint: bytes(self.pages()), used: bytes(self.fast) }
    }

    fn returned(&mut self) -> u64 {
        let noise = 1.0 + 0.3 * (self.rng.below(1000) as f64 / 500.0 - 1.0);
        (self.returning[self.fast] * noise) as u64
    }

    fn share_at(&self, fast: usize) -> f64 {
        let lost = self.returning[fast] * REFAULT;
        lost / (self.cores * SECOND - lost).max(1.0)
    }

    /// Fewest pages with which it loses no more than that.
    fn fewest(&self, most: f64) -> usize {
        (0..=self.pages()).find(|fast| self.share_at(*fast) <= most).unwrap_or(self.pages())
    }
}

/// Limits and losses, second by second.
fn run(
    program: &mut Program,
    controller: &mut Controller,
    meter: &mut Meter,
    from: u64,
    seconds: u64,
) -> Vec<(u64, f64)> {
    let mut past = Vec::new();
    for second in from..from + seconds {
        let returned = program.returned();
        let now = Nanos(second * SECOND as u64);
        for step in 1..=20 {
            let at = Nanos(now.0 + step * 50_000_000);
            let pages = returned / 20;
            if let Some(limit) = controller.step(at, pages, program.memory()) {
                program.fast = limit.pages().0 as usize;
            }
        }
        let lost = Lost { swap_ins: returned as f64 * REFAULT, ..Lost::default() };
        let useful = (program.cores * SECOND - lost.swap_ins).max(0.1 * SECOND);
        meter.add(Stretch { useful, lost });
        let end = Nanos(now.0 + SECOND as u64);
        let cold = program.is_swept.then(|| program.cold());
        let limit = controller.second(end, meter, returned, program.memory(), cold.as_deref());
        program.fast = limit.pages().0 as usize;
        past.push((limit.pages().0, lost.swap_ins / useful));
    }
    past
}

fn goal(most_loss: f64) -> Goal {
    Goal { most_loss, floor: None, ceiling: None }
}

/// Rates that fall with the rank, as powers.
fn zipf(pages: usize, hottest: f64, power: f64) -> Vec<f64> {
    (1..=pages).map(|rank| hottest / libm::pow(rank as f64, power)).collect()
}

#[test]
fn the_limit_goes_to_where_the_goal_just_holds() {
    for (rates, cores) in [
        (zipf(131_072, 1e5, 1.2), 1.0),
        (zipf(131_072, 1e4, 0.8), 4.0),
        // A fifth is hot, the rest is touched about once in a minute.
        ((0..262_144).map(|page| if page < 52_429 { 50.0 } else { 0.01 }).collect(), 1.0),
        // A cliff.
        ((0..65_536).map(|page| if page < 30_000 { 10.0 } else { 0.0 }).collect(), 1.0),
    ] {
        for most in [0.01, 0.02, 0.05] {
            let mut program = Program::new(&rates, cores);
            let (mut controller, mut meter) = (Controller::new(goal(most)), Meter::default());
            let past = run(&mut program, &mut controller, &mut meter, 0, 900);
            let settled = &past[600..];
            let mean: f64 =
                settled.iter().map(|(_, share)| share).sum::<f64>() / settled.len() as f64;
            assert!(mean <= most, "{cores} cores, goal {most}: {mean}");
            let fewest = program.fewest(most).max(rates.len() / 64) as f64;
            let last = settled.last().unwrap().0 as f64;
            let close = program.fewest(0.4 * most).max(rates.len() / 64) as f64;
            assert!(last >= 0.9 * fewest, "{last} of at least {fewest}");
            assert!(
                last <= 1.1 * close,
                "goal {most}: {last} pages, {fewest} would do, {close} for a part of it"
            );
            let (low, high) = settled
                .iter()
                .fold((u64::MAX, 0), |(low, high), (limit, _)| (low.min(*limit), high.max(*limit)));
            assert!(high as f64 <= 1.15 * low as f64, "it hunts: {low} to {high}");
        }
    }
}

#[test]
fn what_is_known_to_be_cold_leaves_soon_and_no_more() {
    for most in [0.01, 0.05] {
        let rates = zipf(131_072, 1e4, 1.2);
        let mut program = Program { is_swept: true, ..Program::new(&rates, 1.0) };
        let (mut controller, mut meter) = (Controller::new(goal(most)), Meter::default());
        let past = run(&mut program, &mut controller, &mut meter, 0, 300);
        let close = program.fewest(0.5 * most).max(rates.len() / 64) as u64;
        let reached = past.iter().position(|(limit, _)| *limit <= close + close / 10).unwrap();
        assert!(reached < 60, "goal {most}: {close} pages after {reached} s");
        let (lost, seconds) = (past.iter().map(|(_, share)| share).sum::<f64>(), past.len() as f64);
        assert!(lost / seconds <= most, "goal {most}: {}", lost / seconds);
    }
}

#[test]
fn the_limit_waits_until_something_is_known_but_not_forever() {
    let program = Program::new(&[0.0; 65_536], 1.0);
    let (mut controller, mut meter) = (Controller::new(goal(0.01)), Meter::default());
    let limits: Vec<u64> = (1..=40)
        .map(|second| {
            meter.add(Stretch { useful: SECOND, lost: Lost::default() });
            let now = Nanos(second * SECOND as u64);
            controller.second(now, &meter, 0, program.memory(), Some(&[])).pages().0
        })
        .collect();
    assert!(limits[..30].iter().all(|limit| *limit == 65_536), "{limits:?}");
    assert!(limits[39] < 65_536, "{limits:?}");
}

#[test]
fn a_loss_in_the_beginning_does_not_keep_memory_that_is_cold() {
    let mut program = Program { is_swept: true, ..Program::new(&[0.0; 65_536], 1.0) };
    let (mut controller, mut meter) = (Controller::new(goal(0.01)), Meter::default());
    run(&mut program, &mut controller, &mut meter, 0, 3);
    for second in 3..6 {
        let lost = Lost { swap_ins: 0.04 * SECOND, ..Lost::default() };
        meter.add(Stretch { useful: SECOND, lost });
        let now = Nanos(second * SECOND as u64);
        let limit = controller.second(now, &meter, 6000, program.memory(), None);
        program.fast = limit.pages().0 as usize;
    }
    let past = run(&mut program, &mut controller, &mut meter, 6, 120);
    assert!(past.last().is_some_and(|(limit, _)| *limit < 2000), "{:?}", past.last());
}

#[test]
fn a_rush_opens_fast_memory_within_two_steps() {
    let cold: Vec<f64> = (0..131_072).map(|page| if page < 20_000 { 100.0 } else { 0.0 }).collect();
    let mut program = Program::new(&cold, 1.0);
    let (mut controller, mut meter) = (Controller::new(goal(0.01)), Meter::default());
    run(&mut program, &mut controller, &mut meter, 0, 300);
    let before = program.fast;
    assert!(before < 40_000, "{before}");
    // It touches as much as it can: 8400 pages within 50 ms, which take a little more than a twentieth of a second.
    let mut limits = Vec::new();
    for step in 1..=4 {
        let at = Nanos(300_000_000_000 + step * 50_000_000);
        limits.push(controller.step(at, 8400, program.memory()).map(|limit| limit.pages().0));
    }
    assert!(limits[0].is_some_and(|limit| limit >= before as u64 + 16_000), "{limits:?}");
    assert_eq!(limits[2], Some(131_072), "{limits:?}");
}

#[test]
fn work_after_a_pause_is_no_rush() {
    // A program that works for three seconds of ten.
    let rates: Vec<f64> =
        (0..65_536).map(|page| if page < 20_000 { 100.0 } else { 0.02 }).collect();
    let mut program = Program::new(&rates, 1.0);
    let (mut controller, mut meter) = (Controller::new(goal(0.02)), Meter::default());
    let (mut limits, mut share) = (Vec::new(), (0.0, 0.0));
    for second in 0..900 {
        let works = second % 10 < 3;
        let returned = if works { program.returned() } else { 0 };
        for step in 1..=20 {
            let at = Nanos(second * 1_000_000_000 + step * 50_000_000);
            if let Some(limit) = controller.step(at, returned / 20, program.memory()) {
                program.fast = limit.pages().0 as usize;
            }
        }
        let lost = returned as f64 * REFAULT;
        let useful = if works { SECOND - lost } else { 0.02 * SECOND };
        meter.add(Stretch { useful, lost: Lost { swap_ins: lost, ..Lost::default() } });
        let now = Nanos((second + 1) * 1_000_000_000);
        program.fast =
            controller.second(now, &meter, returned, program.memory(), None).pages().0 as usize;
        limits.push(program.fast);
        if second >= 300 {
            share = (share.0 + lost, share.1 + useful);
        }
    }
    let settled = &limits[300..];
    assert!(settled.iter().all(|limit| *limit < 40_000), "{:?}", settled.iter().max());
    assert!(share.0 / share.1 <= 0.02, "{share:?}");
}

#[test]
fn what_comes_back_though_all_may_be_fast_delays_nothing() {
    let mut program = Program::new(&[0.0; 65_536], 1.0);
    let (mut controller, mut meter) = (Controller::new(goal(0.01)), Meter::default());
    // Pages that somebody else has paged out: 3 % of the time, for ten seconds.
    for second in 0..10 {
        let lost = Lost { swap_ins: 0.03 * SECOND, ..Lost::default() };
        meter.add(Stretch { useful: SECOND, lost });
        let now = Nanos(second * SECOND as u64);
        controller.step(now, 5000, program.memory());
        let limit = controller.second(now, &meter, 5000, program.memory(), None);
        assert_eq!(limit.pages().0, 65_536);
    }
    let past = run(&mut program, &mut controller, &mut meter, 10, 60);
    assert!(past.last().is_some_and(|(limit, _)| *limit < 50_000), "{:?}", past.last());
}

#[test]
fn floor_and_ceiling_hold_whatever_is_lost() {
    let limit = |text: &str| crate::limit::Limit::parse(text).ok();
    let mut program = Program::new(&[0.0; 65_536], 1.0);
    let bounds = Goal { most_loss: 0.02, floor: limit("30%"), ceiling: limit("60%") };
    let (mut controller, mut meter) = (Controller::new(bounds), Meter::default());
    let past = run(&mut program, &mut controller, &mut meter, 0, 200);
    assert!(past.iter().all(|(limit, _)| (19_660..=39_322).contains(limit)));
    assert_eq!(past.last().unwrap().0, 19_660);
    let mut program = Program::new(&[1.0; 65_536], 1.0);
    let (mut controller, mut meter) = (Controller::new(bounds), Meter::default());
    let past = run(&mut program, &mut controller, &mut meter, 0, 200);
    assert!(past[20..].iter().all(|(limit, _)| *limit == 39_321), "{:?}", past.last());
}

#[test]
fn no_numbers_break_the_controller() {
    let mut rng = Rng::new(11);
    for _ in 0..200 {
        let most = [1e-9, 0.01, 1.0, 1e6][rng.below(4) as usize];
        let (mut controller, mut meter) = (Controller::new(goal(most)), Meter::default());
        for second in 0..100 {
            let mut number = |scale: f64| rng.below(1000) as f64 / 999.0 * scale;
            let footprint = number(1e12);
            let memory = Memory { footprint, used: number(footprint) };
            let lost = Lost { swap_ins: number(1e11), ours: number(1e9), ..Lost::default() };
            meter.add(Stretch { useful: number(1e11), lost });
            let now = Nanos(second * 1_000_000_000);
            let returned = rng.below(1 << 40);
            controller.step(now, returned, memory);
            let limit = controller.second(now, &meter, returned, memory, None);
            assert!(limit.0 as f64 <= footprint && limit.0 as f64 >= footprint / 65.0 - 1.0);
        }
    }
}

/// Pages that are fast a minute after a start at 100000 of them, 50000 of which were not touched for `age` and are
/// touched 10000 times in a second.
fn fast_after_a_minute(age: Nanos) -> u64 {
    let (mut controller, mut meter) = (Controller::new(goal(0.02)), Meter::default());
    let pages = PageCount(50_000);
    let cold = [Cold { age, pages, returns: 1e4, most_returns: 1e4 }];
    let footprint = PageCount(100_000).bytes().0 as f64;
    let mut used = footprint;
    for second in 1..=60 {
        meter.add(Stretch { useful: SECOND, lost: Lost::default() });
        let memory = Memory { footprint, used };
        let now = Nanos(second * 1_000_000_000);
        used = controller.second(now, &meter, 0, memory, Some(&cold)).0 as f64;
    }
    Bytes(used as u64).pages().0
}

#[test]
fn of_pages_that_are_too_many_a_part_leaves() {
    // 2500 refaults in a second are three quarters of the goal: a quarter of the pages. No more than is foreseen leaves,
    // however little was lost so far.
    for age in [5_000_000_000, 60_000_000_000] {
        let fast = fast_after_a_minute(Nanos(age));
        assert!((87_499..=87_501).contains(&fast), "{fast}");
    }
}
