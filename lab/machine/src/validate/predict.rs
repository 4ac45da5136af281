//! Prediction of the simulator for a recording, with the lab's parameters.

use super::Numbers;
use super::recording::Recording;
use crate::measured::{Free, Watermarks};
use crate::programs::Program;
use crate::systems::validated_daemon;
use crate::trial::Trial;
use anyhow::{Context, ensure};
use frostline_core::policy::{Offer, make};
use frostline_core::types::{Bytes, Nanos, PageCount, TierId};
use frostline_guest::LabOptions;
use frostline_sim::{
    HostedDaemon, Machine, Moment, Scale, SeriesOptions, SeriesPoint, SimOptions,
    measure_footprint, simulate,
};
use frostline_trace::TraceReader;
use std::collections::BTreeMap;

/// Time between points of a prediction's series, as between those of a trial's.
const INTERVAL: Nanos = Nanos(250_000_000);

/// Debian's kernel finds old pages by generations, and a scan takes 0.55 us for a page, by the time
/// that the next one is later for it.
const KERNEL: &str = "lru=generations:scan-cost=550ns";

/// What is the same in every trial of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Node {
    /// What is free in node 0 where the kernel gives no more of it.
    pub full: Free,
    /// Where it makes room there.
    pub watermarks: Watermarks,
}

/// The simulator's machine that is like the lab for a program.
pub fn machine(work: Program, lab: LabOptions) -> String {
    let (fast_ns, slow_ns) = lab.latency_ns;
    // The guest's kernel gives huge pages to whoever does not refuse them, as Redis does, and
    // the load generator unless it is told otherwise.
    let asks = work.command.split_whitespace().any(|word| word == "--huge");
    let refuses = ["frostline-load", "redis-server"].contains(&work.comm);
    let huge = asks || !refuses;
    let [huge, remote] = [huge, asks].map(|on| if on { "on" } else { "off" });
    format!(
        "lab:thp={huge}:os.collapse={huge}:os.thp_remote={remote}:tiers.fast.read_ns={fast_ns}:tiers.fast.write_ns={fast_ns}\
         :tiers.slow.read_ns={slow_ns}:tiers.slow.write_ns={slow_ns}",
    )
}

/// What a trial in the lab had.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Policy with the parameters that it ran with.
    pub policy: String,
    /// Fast memory that it could use.
    pub fast_bytes: Bytes,
    /// The daemon that was there, where there was one.
    pub daemon: Option<HostedDaemon>,
    /// Blocks of node 0 that fitted huge folios, where that was measured.
    pub kernel_blocks: Option<u64>,
    /// Seed.
    pub seed: u64,
    /// The machine, with changes.
    pub machine: String,
}

impl Parameters {
    /// Of a trial: of frostline's the policy and the limits, of first touch as much of node 0 as
    /// the kernel would give.
    ///
    /// # Errors
    /// Where the simulator has no such system, or frostline's summary lacks something.
    pub fn of(trial: &Trial, node: Node, work: Program, lab: LabOptions) -> anyhow::Result<Self> {
        let mut machine = machine(work, lab);
        // What somebody has demoted by then, the kernel would give again.
        let given = trial.resident.pages[0] + trial.free.pages.saturating_sub(node.full.pages);
        let mut daemon = None;
        let (policy, fast_bytes) = match &trial.driver {
            None if trial.system == "first-touch" => {
                ("first-touch".to_owned(), PageCount(given).bytes())
            }
            None if trial.system == "autonuma" => {
                // New memory leaves free what is below the watermark.
                let marks = node.watermarks;
                ensure!(marks.low_pages > 0, "its watermarks were not measured");
                let fast = (given + marks.low_pages) as f64;
                machine += &format!(":watermark={}", marks.min_pages as f64 / fast);
                let gap = (marks.low_pages - marks.min_pages.min(marks.low_pages)) as f64 / fast;
                let policy = format!("autonuma:watermark-gap={gap}:{KERNEL}");
                (policy, PageCount(fast as u64).bytes())
            }
            None => anyhow::bail!("the simulator has no {}", trial.system),
            Some(driver) => {
                let run = &driver["runs"][0];
                let policy = run["policy"].as_str().context("no policy in the summary")?;
                let fast = run["tiers"][0]["capacity_bytes"].as_u64();
                let fast = Bytes(fast.context("no limit in the summary")?);
                let spare = PageCount(given).bytes().saturating_sub(fast);
                daemon = Some(validated_daemon(spare));
                (policy.to_owned(), fast)
            }
        };
        Ok(Self {
            policy,
            fast_bytes,
            daemon,
            kernel_blocks: Some(trial.free_before.blocks).filter(|blocks| *blocks > 0),
            seed: trial.seed,
            machine,
        })
    }
}

/// A prediction.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// What it comes to while the program worked.
    pub numbers: Numbers,
    /// Counters of the whole recording.
    pub counters: BTreeMap<String, f64>,
    /// Of every quarter of a second from the beginning of the recording.
    pub series: Vec<SeriesPoint>,
    /// When the work began, in seconds from there.
    pub begin_seconds: f64,
}

/// Replays the recording.
///
/// # Errors
/// Where it cannot be read, or the machine or the policy is wrong.
pub fn run(recording: &Recording, wanted: &Parameters) -> anyhow::Result<Predicted> {
    let machine = Machine::parse(&wanted.machine)?;
    let footprint = measure_footprint(&mut TraceReader::open(&recording.path)?, &machine)?;
    let context = Offer {
        seed: wanted.seed,
        fast_pages: wanted.fast_bytes.pages(),
        total_pages_hint: PageCount(footprint.peak_resident_pages),
        ..match wanted.daemon {
            Some(_) => machine.offer_outside(),
            None => Offer::default(),
        }
    };
    let policy = make(&wanted.policy, &context)?;
    let options = SimOptions {
        limits: vec![(TierId::FAST.0, wanted.fast_bytes)],
        daemon: wanted.daemon.clone(),
        kernel_blocks: wanted.kernel_blocks,
        seed: wanted.seed,
        scale: Scale::Paper,
        moments: recording.moments.clone(),
        series: SeriesOptions { interval: Some(INTERVAL), ..SeriesOptions::default() },
        ..SimOptions::new(machine, "1:1".parse()?)
    };
    let mut source = TraceReader::open(&recording.path)?;
    let outcome = simulate(&mut source, &footprint, policy, &options, &mut ())?;
    Ok(Predicted {
        numbers: numbers(&outcome.moments)?,
        counters: outcome.report.counters,
        series: outcome.series,
        begin_seconds: outcome.moments[0].seconds,
    })
}

/// Between the first moment and the last one; what is late is after the one in between.
fn numbers(moments: &[Moment]) -> anyhow::Result<Numbers> {
    ensure!(moments.len() == 3, "the trace ended before the work did");
    let share = |from: &Moment, to: &Moment| {
        let of = |tier: usize| to.accesses[tier] - from.accesses[tier];
        let all: u64 = (0..to.accesses.len()).map(of).sum();
        (all, if all == 0 { 1.0 } else { of(0) as f64 / all as f64 })
    };
    let (begin, middle, end) = (&moments[0], &moments[1], &moments[2]);
    let (accesses, fast_hit_ratio) = share(begin, end);
    let moved = |moment: &Moment| moment.promoted_pages + moment.demoted_pages;
    Ok(Numbers {
        accesses,
        fast_hit_ratio,
        fast_hit_ratio_late: share(middle, end).1,
        seconds: end.seconds - begin.seconds,
        moved_bytes: PageCount(moved(end) - moved(begin)).bytes().0,
        tiering_seconds: end.tiering_seconds - begin.tiering_seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_work() {
        let moment = |seconds, fast, slow, promoted_pages| Moment {
            seconds,
            accesses: vec![fast, slow],
            promoted_pages,
            demoted_pages: 0,
            tiering_seconds: seconds / 10.0,
        };
        let found =
            numbers(&[moment(1.0, 10, 0, 1), moment(2.0, 10, 50, 1), moment(4.0, 60, 50, 3)]);
        let found = found.expect("three moments");
        assert_eq!((found.accesses, found.moved_bytes), (100, 8192));
        assert!((found.fast_hit_ratio - 0.5).abs() < 1e-12);
        assert!((found.fast_hit_ratio_late - 1.0).abs() < 1e-12);
        assert!((found.seconds - 3.0).abs() < 1e-12 && (found.tiering_seconds - 0.3).abs() < 1e-12);
        assert!(numbers(&[moment(1.0, 1, 1, 0)]).is_err());
    }

    #[test]
    fn parameters_are_those_of_the_trial() {
        let work = crate::programs::find("masim").expect("known");
        let lab = LabOptions { latency_ns: (90, 200), ..LabOptions::default() };
        let mut trial = Trial { system: "first-touch".into(), seed: 3, ..Trial::default() };
        trial.resident.pages = [100, 20];
        let mut node = Node::default();
        let found = Parameters::of(&trial, node, work, lab).expect("first touch");
        assert_eq!((&*found.policy, found.fast_bytes), ("first-touch", Bytes(409_600)));
        let machine = Machine::parse(&found.machine).expect("a machine");
        assert!(machine.os.thp && machine.tiers[1].read_ns == 200.0);
        trial.system = "damon".into();
        assert!(Parameters::of(&trial, node, work, lab).is_err());
        trial.system = "autonuma".into();
        node.watermarks = Watermarks { min_pages: 40, low_pages: 50 };
        let found = Parameters::of(&trial, node, work, lab).expect("the kernel's");
        assert_eq!((found.fast_bytes.pages(), &found.daemon), (PageCount(150), &None));
        let machine = Machine::parse(&found.machine).expect("a machine");
        assert!((machine.os.low_watermark * 150.0 - 40.0).abs() < 1e-9);
        let tiers = serde_json::json!([{ "capacity_bytes": 8192 }]);
        trial.driver = Some(serde_json::json!({
            "runs": [{ "policy": "hemem:hot=2", "tiers": tiers }]
        }));
        (trial.free, trial.free_before) =
            (Free { pages: 70, blocks: 0 }, Free { pages: 0, blocks: 5 });
        node.full = Free { pages: 50, blocks: 0 };
        let found = Parameters::of(&trial, node, work, lab).expect("ours");
        assert_eq!((&*found.policy, found.fast_bytes), ("hemem:hot=2", Bytes(8192)));
        let daemon = found.daemon.expect("a daemon");
        assert_eq!((daemon.spare, found.kernel_blocks), (Bytes(118 * 4096), Some(5)));
        assert_eq!((daemon.cpu_share, daemon.settling_cpu_share), (0.25, 0.5));
    }
}
