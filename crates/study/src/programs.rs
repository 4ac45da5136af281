//! Programs that share a machine: several at once, each by itself or in a virtual machine.

use super::input::Input;
use super::runner::with_seed;
use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::spec;
use frostline_sim::{FastSize, Footprint, GuestSetup, Machine, Scale, SimError, Together};

/// Kinds of virtual machines, all of which are run.
pub type Guests = std::sync::Arc<Vec<GuestSetup>>;

/// Reads a list of kinds of virtual machines.
///
/// # Errors
/// One that is none.
pub fn guests(list: &str) -> Result<Guests, spec::SpecError> {
    Ok(Guests::new(spec::list(list).map(GuestSetup::parse).collect::<Result<_, _>>()?))
}

/// A trace, and what runs at the same time.
#[derive(Clone, Debug)]
pub struct Programs {
    /// As the user named it.
    pub trace: String,
    /// How often, at least 1.
    pub copies: u32,
    /// Others.
    pub beside: Vec<String>,
    /// Share of the trace's records after which these begin, 0 to 1.
    pub beside_after: f64,
    /// Limit of `gpac` where it names none.
    pub limit: Option<ConsolidationLimit>,
    /// Memory of guests, by what is resident in them, where they name none.
    pub guest_memory: Option<f64>,
    /// Size of fast memory, in place of the request's.
    pub fast: Option<FastSize>,
    /// Scale of intervals, in place of the request's.
    pub scale: Option<Scale>,
    /// Machine, in place of the request's.
    pub machine: Option<Machine>,
}

impl Programs {
    /// A trace by itself.
    pub fn alone(trace: &str) -> Self {
        Self {
            trace: trace.to_owned(),
            copies: 1,
            beside: Vec::new(),
            beside_after: 0.0,
            limit: None,
            guest_memory: None,
            fast: None,
            scale: None,
            machine: None,
        }
    }

    /// With generated traces of this seed, but for those that name one.
    pub fn seeded(&self, seed: u64) -> Self {
        let beside = self.beside.iter().map(|trace| with_seed(trace, seed)).collect();
        Self { trace: with_seed(&self.trace, seed), beside, ..self.clone() }
    }

    /// Whether it is more than one.
    pub fn are_several(&self) -> bool {
        self.copies > 1 || !self.beside.is_empty()
    }

    /// Names of all but the first, each with the number of the trace that it is a copy of.
    fn others(&self, seed: u64) -> Vec<(usize, String)> {
        let plain = |copy: u32| match super::runner::seedless(&self.trace) {
            Some(trace) => with_seed(&trace, 1000 * seed + u64::from(copy)),
            None => self.trace.clone(),
        };
        let copies = (1..self.copies).map(|copy| (0, plain(copy)));
        let beside = self.beside.iter().enumerate().map(|(i, name)| (i + 1, name.clone()));
        copies.chain(beside).collect()
    }
}

/// All programs that run at once, ready to be read any number of times.
pub struct CoRunners {
    /// Those beside the first one.
    others: Vec<Input>,
    /// Of all, the first one first.
    footprints: Vec<Footprint>,
    limit: Option<ConsolidationLimit>,
    guest_memory: Option<f64>,
    /// The first program that waits, and for which share of the first one's records.
    waits: Option<(usize, f64)>,
}

impl CoRunners {
    /// Opens the programs beside the first one by `open`; `measure` gives footprints.
    ///
    /// # Errors
    /// Those of opening and measuring.
    pub fn open(
        programs: &Programs,
        first: &Footprint,
        seed: u64,
        open: impl Fn(&str) -> anyhow::Result<Input>,
        measure: impl Fn(&Input) -> anyhow::Result<Footprint>,
    ) -> anyhow::Result<Self> {
        let (mut others, mut footprints) = (Vec::new(), vec![first.clone()]);
        for (of, name) in programs.others(seed) {
            let input = open(&name)?;
            // Copies of a generated trace are alike in size.
            let footprint = if of == 0 { first.clone() } else { measure(&input)? };
            others.push(input);
            footprints.push(footprint);
        }
        let waits = (programs.beside_after > 0.0)
            .then_some((programs.copies.max(1) as usize, programs.beside_after));
        let Programs { limit, guest_memory, .. } = *programs;
        Ok(Self { others, footprints, limit, guest_memory, waits })
    }

    /// What they have together.
    pub fn footprint(&self, guests: &[GuestSetup]) -> Footprint {
        let guests = guests.iter().map(|guest| guest.with(self.limit, self.guest_memory));
        let largest = guests.map(|guest| Together::footprint(&self.footprints, Some(&guest)));
        let largest = largest.max_by_key(|footprint| footprint.guest_pages);
        largest.unwrap_or_else(|| Together::footprint(&self.footprints, None))
    }

    /// Ready to take turns from the start.
    ///
    /// # Errors
    /// Those of opening, and programs that do not fit together.
    pub fn together(
        &self,
        first: &Input,
        guest: Option<&GuestSetup>,
        scale: f64,
        seed: u64,
    ) -> Result<Together, SimError> {
        let mut programs = Vec::new();
        for (input, footprint) in std::iter::once(first).chain(&self.others).zip(&self.footprints) {
            programs.push((input.source()?, footprint.clone()));
        }
        let guest = guest.map(|guest| guest.with(self.limit, self.guest_memory));
        let mut together = Together::new(programs, guest.as_ref(), scale, seed)?;
        if let Some((first, share)) = self.waits {
            together.hold_back(first, share);
        }
        Ok(together)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_generated_traces_have_seeds_of_their_own() {
        let programs = Programs {
            trace: "synth:masim:size=4MiB:seed=3".into(),
            copies: 3,
            beside: vec!["t.flt".into()],
            beside_after: 0.0,
            limit: None,
            guest_memory: None,
            fast: None,
            scale: None,
            machine: None,
        };
        let others: Vec<String> = programs.others(3).into_iter().map(|(_, name)| name).collect();
        let expected =
            ["synth:masim:size=4MiB:seed=3001", "synth:masim:size=4MiB:seed=3002", "t.flt"];
        assert_eq!(others, expected);
        let recorded = Programs { trace: "t.flt".into(), beside: Vec::new(), ..programs };
        assert_eq!(recorded.others(3), [(0, "t.flt".to_owned()), (0, "t.flt".to_owned())]);
        assert!(recorded.are_several());
    }

    /// Under one policy, with half of the memory fast.
    fn study(programs: Programs, kinds: &str, policy: &str) -> crate::Study {
        let machine = frostline_sim::Machine::parse("dram-nvm").unwrap();
        let half = "50%".parse().unwrap();
        let request = crate::Request {
            traces: vec![programs],
            guests: guests(kinds).unwrap().to_vec(),
            sizes: vec![half],
            policies: vec![policy.into()],
            seeds: 1,
            bound: true,
            jobs: Some(1),
            options: frostline_sim::SimOptions::new(machine, half),
            every_series: false,
            limit: frostline_core::Limit::default(),
        };
        crate::run(&request, &crate::Unwatched).unwrap()
    }

    #[test]
    fn what_runs_beside_may_begin_later() {
        let run = |beside_after| {
            let programs = Programs {
                trace: "synth:uniform:size=4MiB:accesses=400K".into(),
                copies: 1,
                beside: vec!["synth:uniform:size=4MiB:accesses=200K".into()],
                beside_after,
                limit: None,
                guest_memory: None,
                fast: None,
                scale: None,
                machine: None,
            };
            let study = study(programs, "", "first-touch");
            let report = study.traces[0].sizes[0].policies[0].first().report.clone();
            let number = |name: &str| report.counters[name];
            let seconds = [1, 2].map(|n| number(&format!("programs.{n}.seconds")));
            (report.accesses, seconds, number("programs.2.fast_hit_ratio"))
        };
        let (together, half, last) = (run(0.0), run(0.5), run(1.0));
        assert!(together.0 == half.0 && half.0 == last.0, "all of both, always");
        // Fast memory goes to who comes first, and back when that ends.
        assert!((0.4..0.6).contains(&together.2), "{together:?}");
        assert!(half.2 < 0.1 && last.2 > 0.9, "{half:?}, {last:?}");
        // It is its own time, without that before it began: half the records, all of them fast.
        assert!(half.1[1] > last.1[1] && last.1[1] < 0.6 * last.1[0], "{half:?}, {last:?}");
    }

    #[test]
    fn several_guests_run_to_their_ends() {
        let programs = Programs {
            trace: "synth:masim:size=16MiB:accesses=200K".into(),
            copies: 2,
            beside: vec!["synth:uniform:size=4MiB:accesses=50K".into()],
            beside_after: 0.0,
            limit: Some(ConsolidationLimit::Pages(5)),
            guest_memory: None,
            fast: None,
            scale: None,
            machine: None,
        };
        let study = study(programs, "none,gpac", "memtierd");
        let size = &study.traces[0].sizes[0];
        assert!(size.bound.is_err(), "no bound for programs that take turns");
        let names: Vec<&str> = size.policies.iter().map(|p| p.spec.as_str()).collect();
        assert_eq!(names, ["memtierd", "memtierd+gpac"]);
        for policy in &size.policies {
            let report = &policy.first().report;
            assert_eq!(report.counters["programs.count"], 3.0);
            assert!(report.accesses >= 450_000, "all of all three: {}", report.accesses);
        }
        assert_eq!(size.policies[1].first().report.policy_config["guest"].to_string(), "gpac");
    }
}
