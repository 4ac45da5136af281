//! Board on which all targets of a daemon see each other's figures.

use super::config::{Config, Target};
use super::share::{Want, share};
use frostline_core::types::{Bytes, PAGE_BYTES};
use frostline_driver::status::{Saving, own_limit, slow_bytes};
use frostline_driver::{Limit, SlowTiers, Status};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Limits and the latest numbers of all targets, by name.
#[derive(Debug, Default)]
pub struct Board(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Fast memory for all together.
    total: Option<Limit>,
    entries: BTreeMap<String, Entry>,
}

/// What a target may have, as its user wants it.
#[derive(Clone, Copy, Debug)]
struct Terms {
    fast: Limit,
    min_fast: Option<Limit>,
    priority: u8,
    weight: f64,
    /// It has a goal by name, by which it keeps more than what is left to it where all shall save.
    keeps_goal: bool,
}

impl Terms {
    fn of(target: &Target) -> Self {
        let options = &target.options;
        Self {
            fast: options.most_fast(),
            min_fast: options.min_fast.as_deref().copied(),
            priority: target.priority,
            weight: target.weight,
            keeps_goal: options.max_slowdown.is_some(),
        }
    }
}

#[derive(Debug)]
struct Entry {
    terms: Terms,
    /// What it asks for, in bytes, where it has a goal.
    claim: Option<f64>,
    /// Whether its pages can be moved: others neither wait for it nor give way to it.
    takes_part: bool,
    status: Status,
}

impl Board {
    /// Takes over limits; targets that are no longer there are forgotten, new ones not yet known.
    pub fn configure(&self, config: &Config) {
        let mut state = self.lock();
        state.total = config.daemon.total();
        state.entries.retain(|name, _| config.targets.iter().any(|target| target.name == *name));
        for target in &config.targets {
            if let Some(entry) = state.entries.get_mut(&target.name) {
                entry.terms = Terms::of(target);
            }
        }
    }

    /// A target that is waited for.
    pub fn waits(&self, target: &Target, status: Status) {
        self.enter(target, false, status);
    }

    /// A target that is managed from now on.
    pub fn begins(&self, target: &Target, slow: &SlowTiers) {
        let takes_part = !slow.is_empty() && !target.options.dry_run;
        self.enter(
            target,
            takes_part,
            Status { name: target.name.clone().into(), ..Status::default() },
        );
    }

    fn enter(&self, target: &Target, takes_part: bool, status: Status) {
        let mut state = self.lock();
        // Limits that it has already are of a later configuration.
        let known = state.entries.get(&target.name).map(|entry| entry.terms);
        let terms = known.unwrap_or(Terms::of(target));
        let entry = Entry { terms, claim: None, takes_part, status };
        state.entries.insert(target.name.clone(), entry);
    }

    /// Takes a managed target's numbers, corrects in them what it cannot know alone, and gives its
    /// limit of fast memory, and what is fast at least where it has a goal.
    pub fn tell(&self, status: &mut Status) -> (Limit, Option<Limit>) {
        let mut state = self.lock();
        let name = status.name.raw().to_owned();
        if let Some(entry) = state.entries.get_mut(&name) {
            entry.status = status.clone();
        }
        if let Some(compressed) = status.compressed_bytes {
            let all: u64 = state.entries.values().map(|entry| swapped(&entry.status)).sum();
            let own = swapped(status);
            let part = u128::from(compressed) * u128::from(own) / u128::from(all.max(1));
            status.compressed_bytes = Some(part as u64);
            status.saved_bytes = own.saturating_sub(part as u64);
        }
        // The process is one, and so is its memory.
        let managed: u64 = state.entries.values().map(|entry| entry.status.footprint_bytes).sum();
        let at_work = state.entries.values().filter(|entry| entry.status.footprint_bytes > 0);
        status.own_limit_bytes = own_limit(Bytes(managed), at_work.count()).0;
        state.reconsider(&name);
        let bounds = state.bounds(&name);
        if let Some(saving) = state.saving() {
            status.saving = Some(saving);
        }
        if let Some(entry) = state.entries.get_mut(&name) {
            entry.status = status.clone();
        }
        // Forgotten by a configuration that is being taken over: it will be told to end.
        bounds.unwrap_or((Limit::Share(1.0), None))
    }

    /// The latest numbers of all targets, by name; those that are waited for have no processes.
    pub fn statuses(&self) -> Vec<Status> {
        self.lock().entries.values().map(|entry| entry.status.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every entry is replaced as a whole: whoever panicked has left nothing half done.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Change of a claim in a second, at most.
const CLAIMED: f64 = 0.01;
/// Room above its limit that is asked for where nothing keeps a target from more.
const ROOM: f64 = 1.05;
/// What all ask for together, in totals, at most.
const MOST_CLAIMS: f64 = 1.25;
/// The same where so much shall be saved and no more.
const SAVING_CLAIMS: f64 = 1.0;
/// Goal by which the loss of those without one is measured where so much shall be saved: the default.
const USUAL: Option<f64> = Some(0.01);
/// A limit within so much of what was granted is what was granted.
const BOUND: f64 = 0.99;

impl State {
    /// Has a target with a goal ask for what its goal takes: more where it has all that was granted, and loses
    /// more of what it may than others.
    fn reconsider(&mut self, name: &str) {
        let Some(granted) = self.granted(name) else { return };
        let Some(entry) = self.entries.get_mut(name) else { return };
        let saves = matches!(self.total, Some(Limit::AllBut(_)));
        let usual = USUAL.filter(|_| saves);
        let known = entry.status.loss.and_then(|loss| Some((loss.goal.or(usual)?, loss)));
        let Some((goal, loss)) = known else { return };
        let footprint = entry.status.footprint_bytes;
        let limit = entry.status.tiers.first().map_or(0, |fast| fast.capacity_bytes) as f64;
        let granted = granted.bytes(Bytes(footprint)).0 as f64;
        let claim = match (entry.claim, limit >= BOUND * granted) {
            (Some(claim), true) => {
                // From -1 to 1, and different for any two losses.
                let part = entry.terms.weight * loss.latest.share / goal;
                let claim = claim * (1.0 + CLAIMED * (part - 1.0) / (part + 1.0));
                // Its goal keeps it from what was to be saved.
                if saves && entry.terms.keeps_goal { claim.max(limit) } else { claim }
            }
            (None, true) | (_, false) => limit * ROOM,
        };
        entry.claim = Some(claim.clamp(PAGE_BYTES as f64, footprint.max(PAGE_BYTES) as f64));
        // Proportions count. Where all have come to ask for everything, none are left.
        let claims = || self.entries.values().filter_map(|entry| entry.claim);
        let (all, total) =
            (claims().sum::<f64>(), self.total().map_or(f64::MAX, |total| total.0 as f64));
        let most = if saves { SAVING_CLAIMS } else { MOST_CLAIMS } * total;
        if all > most || (saves && all > 0.0) {
            let factor = most / all;
            self.entries.values_mut().for_each(|entry| {
                entry.claim = entry.claim.map(|claim| claim * factor);
            });
        }
    }

    fn partners(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.entries.iter().filter(|(_, entry)| entry.takes_part)
    }

    /// Fast memory for all together, of what they have now.
    fn total(&self) -> Option<Bytes> {
        let all = self.partners().map(|(_, entry)| entry.status.footprint_bytes).sum();
        Some(self.total?.bytes(Bytes(all)))
    }

    fn granted(&self, name: &str) -> Option<Limit> {
        let own = self.entries.get(name)?;
        let Some(total) = self.total().filter(|_| own.takes_part) else {
            return Some(own.terms.fast);
        };
        let saves = matches!(self.total, Some(Limit::AllBut(_)));
        let most = |entry: &Entry| entry.terms.fast.bytes(Bytes(entry.status.footprint_bytes)).0;
        let wants: Vec<Want> = self
            .partners()
            .map(|(_, entry)| {
                let most = most(entry);
                let bytes = entry.claim.map_or(most, |claim| most.min(claim as u64));
                Want { priority: entry.terms.priority, bytes }
            })
            .collect();
        let index = self.partners().position(|(other, _)| *other == name)?;
        let granted = share(total.0, &wants);
        if saves {
            // No more than that is saved: what nobody asks for goes to those who could do with it.
            let rest = total.0 - granted.iter().sum::<u64>();
            let more = self.partners().zip(&granted).map(|((_, entry), granted)| Want {
                priority: entry.terms.priority,
                bytes: most(entry).saturating_sub(*granted),
            });
            let more = share(rest, &more.collect::<Vec<_>>());
            return Some(Limit::Size(Bytes(granted[index] + more[index])));
        }
        // As a share it keeps pace with the footprint.
        let whole = granted[index] == wants[index].bytes;
        Some(if whole { own.terms.fast } else { Limit::Size(Bytes(granted[index])) })
    }

    /// The most that a target may have, and the least where it has a goal.
    fn bounds(&self, name: &str) -> Option<(Limit, Option<Limit>)> {
        let granted = self.granted(name)?;
        let Entry { terms, takes_part, status, .. } = self.entries.get(name)?;
        let saves = *takes_part && matches!(self.total, Some(Limit::AllBut(_)));
        if !saves {
            return Some((granted, terms.min_fast));
        }
        let bytes = |limit: Limit| limit.bytes(Bytes(status.footprint_bytes));
        let least = terms.min_fast.filter(|least| bytes(*least) > bytes(granted));
        Some((terms.fast, least.or(Some(granted))))
    }

    /// What shall be saved of all, and what is.
    fn saving(&self) -> Option<Saving> {
        let Some(Limit::AllBut(asked)) = self.total else { return None };
        let slow = |(_, entry): (_, &Entry)| slow_bytes(&entry.status.tiers);
        Some(Saving {
            asked_bytes: asked.0,
            slow_bytes: self.partners().map(slow).sum(),
            of_all: true,
        })
    }
}

/// What of a target is in swap.
fn swapped(status: &Status) -> u64 {
    status.tiers.iter().filter(|tier| tier.name == "swap").map(|tier| tier.used_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::Foreign;
    use frostline_driver::status::{Loss, TierStatus};

    const CONFIG: &str = "[daemon]\nfast = \"1000MiB\"\n\
        [[target]]\nname = \"a\"\npid = 9\nfast = \"50%\"\npriority = 90\n\
        [[target]]\nname = \"b\"\npid = 2\nfast = \"600MiB\"\npriority = 10\n\
        [[target]]\nname = \"c\"\npid = 3\nfast = \"5000MiB\"\nslow = \"none\"\n";

    const MIB: u64 = 1 << 20;

    fn size(mib: u64) -> Limit {
        Limit::Size(Bytes(mib * MIB))
    }

    fn status(name: &str, footprint_mib: u64, swapped_mib: u64) -> Status {
        let (footprint_bytes, swapped) = (footprint_mib * MIB, swapped_mib * MIB);
        let name_of_swap = "swap".into();
        let swap = TierStatus { name: name_of_swap, used_bytes: swapped, ..TierStatus::default() };
        let compressed_bytes = Some(300 * MIB);
        let tiers = vec![TierStatus::default(), swap];
        let name = name.into();
        Status { name, footprint_bytes, tiers, compressed_bytes, ..Status::default() }
    }

    fn board(text: &str) -> Board {
        let config = Config::parse("f", text).unwrap();
        let board = Board::default();
        board.configure(&config);
        for target in &config.targets {
            let slow = target.options.slow.as_ref().map_or("zram", |slow| slow.text());
            board.begins(target, &slow.parse().unwrap());
        }
        board
    }

    #[test]
    fn limits_follow_footprints_and_priorities() {
        let board = board(CONFIG);
        assert_eq!(board.tell(&mut status("a", 800, 0)).0, Limit::Share(0.5));
        assert_eq!(board.tell(&mut status("b", 800, 0)).0, size(600), "all fits");
        assert_eq!(board.tell(&mut status("c", 9000, 0)).0, size(5000));
        assert_eq!(board.tell(&mut status("a", 1600, 0)).0, Limit::Share(0.5));
        assert_eq!(board.tell(&mut status("b", 800, 0)).0, size(200), "gives way");
    }

    #[test]
    fn a_new_configuration_changes_limits_of_those_that_stay() {
        let board = board(CONFIG);
        board.tell(&mut status("a", 1600, 0));
        let text = CONFIG.replace("priority = 10", "priority = 95").replace("\"a\"", "\"z\"");
        board.configure(&Config::parse("f", &text).unwrap());
        assert_eq!(board.tell(&mut status("b", 800, 0)).0, size(600));
        let names: Vec<Foreign> = board.statuses().into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(board.tell(&mut status("a", 1, 0)).0, Limit::Share(1.0), "left alone");
    }

    #[test]
    fn what_zram_takes_is_divided_among_its_users() {
        let board = board(CONFIG);
        board.tell(&mut status("a", 5000, 1000));
        let mut b = status("b", 5000, 2000);
        board.tell(&mut b);
        assert_eq!((b.compressed_bytes, b.saved_bytes), (Some(200 * MIB), 1800 * MIB));
        let mut a = status("a", 5000, 1000);
        board.tell(&mut a);
        assert_eq!((a.compressed_bytes, a.saved_bytes), (Some(100 * MIB), 900 * MIB));
    }

    /// Targets with goals, of which each loses the less the more it has: `hunger / fast - hunger / footprint`. Gives
    /// what of 2000 MiB each has in the end, and what it loses.
    fn settled(terms: [&str; 2], daemon: &str, hunger: [f64; 2]) -> [(f64, f64); 2] {
        use frostline_driver::status::LossStatus;
        let board = board(&format!(
            "[daemon]\n{daemon}\n[[target]]\nname = \"a\"\npid = 9\n{}\n\
             [[target]]\nname = \"b\"\npid = 2\n{}\n",
            terms[0], terms[1]
        ));
        let goals = terms.map(|terms| if terms.contains("2%") { 0.02 } else { 0.01 });
        let mut limits = [1000.0_f64; 2];
        let loss = |index: usize, fast: f64| hunger[index] / fast - hunger[index] / 2000.0;
        for _ in 0..2500 {
            for (index, name) in ["a", "b"].into_iter().enumerate() {
                let mut status = status(name, 2000, 0);
                status.tiers[0].capacity_bytes = (limits[index] * MIB as f64) as u64;
                status.tiers[1].used_bytes = ((2000.0 - limits[index]) * MIB as f64) as u64;
                let share = loss(index, limits[index]);
                let latest = Loss { share, ..Loss::default() };
                let goal = Some(goals[index]);
                status.loss = Some(LossStatus { goal, latest, ..LossStatus::default() });
                let (most, least) = board.tell(&mut status);
                let mib = |limit: Limit| limit.bytes(Bytes(2000 * MIB)).0 as f64 / MIB as f64;
                // Its controller asks for what the goal takes.
                let bounded = !daemon.contains("save") || terms[index].contains("max_slowdown");
                let enough = hunger[index] / (goals[index] + hunger[index] / 2000.0);
                let enough = if bounded { enough } else { 0.0 };
                limits[index] = enough.max(least.map_or(0.0, mib)).min(mib(most));
            }
        }
        [0, 1].map(|index| (limits[index], loss(index, limits[index]) / goals[index]))
    }

    const GOALS: [&str; 2] = ["max_slowdown = \"2%\"", "max_slowdown = \"1%\""];

    #[test]
    fn goals_that_do_not_fit_are_missed_by_the_same_part() {
        let [a, b] = settled(GOALS, "fast = \"1000MiB\"", [40.0, 8.0]);
        // One is told of before the other has asked for less.
        assert!(a.0 + b.0 <= 1010.0, "{a:?} {b:?}");
        assert!(a.1 > 1.0 && (a.1 / b.1 - 1.0).abs() < 0.1, "{a:?} {b:?}");
    }

    #[test]
    fn a_loss_that_weighs_more_is_a_smaller_one() {
        let heavy = [GOALS[0], "max_slowdown = \"1%\"\nweight = 3"];
        let [a, b] = settled(heavy, "fast = \"1000MiB\"", [40.0, 8.0]);
        assert!(a.0 + b.0 <= 1010.0, "{a:?} {b:?}");
        assert!((a.1 / b.1 - 3.0).abs() < 0.3, "{a:?} {b:?}");
    }

    #[test]
    fn what_shall_be_saved_is_taken_where_it_costs_least_and_no_more() {
        let [a, b] = settled(["", ""], "save = \"1500MiB\"", [10.0, 2.0]);
        assert!((a.0 + b.0 - 2500.0).abs() < 25.0, "{a:?} {b:?}");
        assert!(a.1 < 1.0 && (a.1 / b.1 - 1.0).abs() < 0.15, "{a:?} {b:?}");
    }

    #[test]
    fn what_shall_be_saved_breaks_no_goal_by_name() {
        // `a` reaches its goal at 952 MiB; `b` has none by name, and gives what is missing.
        let [a, b] = settled([GOALS[0], ""], "save = \"3000MiB\"", [36.4, 8.0]);
        assert!((a.1 - 1.0).abs() < 0.02, "{a:?} {b:?}");
        assert!((a.0 + b.0 - 1000.0).abs() < 50.0, "{a:?} {b:?}");
        // Where both have one, less is saved than was asked for.
        let [a, b] = settled(GOALS, "save = \"3900MiB\"", [36.4, 8.0]);
        assert!((a.1 - 1.0).abs() < 0.02 && (b.1 - 1.0).abs() < 0.02, "{a:?} {b:?}");
    }

    #[test]
    fn all_targets_show_what_is_saved_together() {
        let board = board(
            "[daemon]\nsave = \"600MiB\"\n\
            [[target]]\nname = \"a\"\npid = 9\n[[target]]\nname = \"b\"\npid = 2\n\
            [[target]]\nname = \"c\"\npid = 3\nslow = \"none\"\n",
        );
        for (name, swapped) in [("a", 100), ("b", 200), ("c", 0)] {
            board.tell(&mut status(name, 1000, swapped));
        }
        let mut a = status("a", 1000, 100);
        let (most, least) = board.tell(&mut a);
        let bounds = (Limit::Share(1.0), Some(size(700)));
        assert_eq!((most, least), bounds, "of two that take part");
        let saving = Saving { asked_bytes: 600 * MIB, slow_bytes: 300 * MIB, of_all: true };
        assert_eq!(a.saving, Some(saving));
    }
}
