//! Advice beside the lab: how much slower programs are with the fast memory that was advised for them.

use crate::programs::Program;
use crate::systems::{System, validated_daemon};
use crate::trial::{self, Trial};
use crate::validate::{predict, recording};
use anyhow::{Context, ensure};
use frostline_core::Limit;
use frostline_core::types::Bytes;
use frostline_guest::LabOptions;
use frostline_sim::{FastSize, Machine, Scale, SimOptions};
use frostline_study::Unwatched;
use frostline_study::advise::{Advice, Extent, Question, Trace, advise};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// Points of slowdown that advice and lab may differ by.
pub const TOLERANCE_POINTS: f64 = 2.0;
/// Memory that `frostline.sh` leaves to frostline itself, in MiB. The kernel gives it to whoever asks.
const SPARE_MIB: u64 = 12;
/// What the guest's own memory varies by, in MiB.
const VARIES_MIB: u64 = 2;
/// What node 0 has beside the program where all memory is fast, so that nothing is ever short.
const AMPLE_MIB: u64 = 192;
/// Sizes of nodes are multiples of a huge folio.
const BLOCK_MIB: u64 = 2;
const MIB: f64 = (1u64 << 20) as f64;
const PAGES_IN_MIB: u64 = 256;

/// What is asked of all programs.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// A policy of ours.
    pub policy: &'a str,
    /// Slowdown that is accepted: 0.02 for 2 %.
    pub goal: f64,
    /// The machine.
    pub lab: LabOptions,
    /// Seed of recording, replays and machine.
    pub seed: u64,
    /// Where recordings and runs in the lab are kept.
    pub folder: &'a Path,
    /// Changes to the simulated machine, separated by colons; empty for none.
    pub with: &'a str,
}

/// A program.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Its name.
    pub program: String,
    /// Slowdown that is accepted.
    pub goal: f64,
    /// Its memory in the recording.
    pub footprint_bytes: u64,
    /// Fast memory that was advised; `None` where all of it is not enough.
    pub advised_bytes: Option<u64>,
    /// What it had in the lab.
    pub fast_bytes: u64,
    /// Slowdown with that, as advised.
    pub predicted: f64,
    /// Modelled time of its work in the lab with all memory fast and nothing attending to it, and with that.
    pub seconds: [f64; 2],
}

impl Case {
    /// Slowdown in the lab.
    pub fn measured(&self) -> f64 {
        self.seconds[1] / self.seconds[0] - 1.0
    }

    /// Points by which it was predicted too high.
    pub fn points(&self) -> f64 {
        100.0 * (self.predicted - self.measured())
    }

    /// Whether both agree.
    pub fn agrees(&self) -> bool {
        self.points().abs() <= TOLERANCE_POINTS
    }
}

/// Asks for advice on a recording of the program, and follows it in the lab.
///
/// # Errors
/// Where it cannot be recorded or simulated, or does not run in the lab.
pub fn follow(work: Program, asked: Asked<'_>) -> anyhow::Result<Case> {
    let system = System::find(asked.policy)?.validated();
    ensure!(system.is_ours(), "{}: no policy of ours\nhint: frostline list policies", system.name);
    let advice = advice(work, asked)?;
    let answer = advice.answers[0];
    let size = answer.size.unwrap_or(1.0);
    let footprint = advice.footprint_bytes as f64;
    let run = |fast_mib: u64, system: &System| kept(Program { fast_mib, ..work }, system, asked);
    let whole_mib = in_blocks(footprint) + AMPLE_MIB;
    let all = run(whole_mib, &System::find("first-touch")?)?;
    let spills = all.resident.pages[1] > 0;
    ensure!(!spills, "{}: {} pages are not in node 0", work.name, all.resident.pages[1]);
    // What the guest's own memory takes is known now.
    let guest_mib = whole_mib.saturating_sub(all.free_before.pages / PAGES_IN_MIB);
    let less = run(
        in_blocks(size * footprint) + in_blocks((guest_mib + SPARE_MIB + VARIES_MIB) as f64 * MIB),
        &system,
    )?;
    let fast_bytes = fast_bytes(&less)?;
    let predicted = advice.curve.loss_with(fast_bytes as f64 / footprint).context("no replays")?;
    Ok(Case {
        program: work.name.to_owned(),
        goal: answer.goal,
        footprint_bytes: advice.footprint_bytes,
        advised_bytes: answer.size.map(|size| (size * footprint) as u64),
        fast_bytes,
        predicted,
        seconds: [all.seconds, less.seconds],
    })
}

/// What the program came to in the lab, as it was kept, or for the first time.
fn kept(work: Program, system: &System, asked: Asked<'_>) -> anyhow::Result<Trial> {
    let name = format!("{}-{}-{}-{}MiB.json", work.name, asked.seed, system.name, work.fast_mib);
    let path = asked.folder.join(name);
    if let Ok(text) = std::fs::read_to_string(&path) {
        return serde_json::from_str(&text).with_context(|| path.display().to_string());
    }
    let trial = trial::run(work, system, asked.seed, asked.lab)?;
    std::fs::write(&path, serde_json::to_string(&trial)?)?;
    Ok(trial)
}

/// MiB that so many bytes fit into.
fn in_blocks(bytes: f64) -> u64 {
    (bytes / MIB / BLOCK_MIB as f64).ceil() as u64 * BLOCK_MIB
}

/// Of the part of the recording in which the program works.
fn advice(work: Program, asked: Asked<'_>) -> anyhow::Result<Advice> {
    let recording = recording::make(work, asked.seed, asked.folder)?;
    let mut machine = predict::machine(work, asked.lab);
    if !asked.with.is_empty() {
        machine += &format!(":{}", asked.with);
    }
    let machine = Machine::parse(&machine)?;
    let options = SimOptions {
        daemon: Some(validated_daemon(Bytes(SPARE_MIB << 20))),
        seed: asked.seed,
        scale: Scale::Paper,
        moments: recording.moments.clone(),
        ..SimOptions::new(machine, FastSize::Bytes(Bytes(1)))
    };
    let question = Question {
        goals: vec![asked.goal],
        policies: vec![asked.policy.to_owned()],
        extent: Extent::All,
        jobs: None,
        options,
    };
    let path = recording.path.to_string_lossy();
    let mut trace = Trace::open(&path, Limit::default(), &Unwatched)?;
    Ok(advise(&mut trace, &question, &Unwatched)?.remove(0))
}

/// Limit that frostline had.
fn fast_bytes(trial: &Trial) -> anyhow::Result<u64> {
    let driver = trial.driver.as_ref().context("no summary of frostline")?;
    driver["runs"][0]["tiers"][0]["capacity_bytes"].as_u64().context("no limit in the summary")
}

/// A line for each program, and how many agree.
pub fn table(cases: &[Case]) -> String {
    let mut text = String::from(
        "| program | slower by at most | memory, MiB | advised | had | predicted | measured | points |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for case in cases {
        let mib = |bytes: u64| format!("{:.0}", bytes as f64 / MIB);
        let mark = if case.agrees() { "" } else { "**" };
        let _ = writeln!(
            text,
            "| {} | {:.0} % | {} | {} | {} | {:.1} % | {:.1} % | {mark}{:+.1}{mark} |",
            case.program,
            100.0 * case.goal,
            mib(case.footprint_bytes),
            case.advised_bytes.map_or("more".to_owned(), mib),
            mib(case.fast_bytes),
            100.0 * case.predicted,
            100.0 * case.measured(),
            case.points(),
        );
    }
    let agreeing = cases.iter().filter(|case| case.agrees()).count();
    text + &format!("\nWithin {TOLERANCE_POINTS:.0} points: {agreeing} of {}.\n", cases.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_agree_or_do_not() {
        let case = |predicted, seconds| Case {
            program: "p".into(),
            goal: 0.02,
            footprint_bytes: 300 << 20,
            advised_bytes: None,
            fast_bytes: 200 << 20,
            predicted,
            seconds: [10.0, seconds],
        };
        let cases = [case(0.02, 10.39), case(0.02, 10.41), case(0.1, 10.7)];
        assert_eq!(cases.each_ref().map(Case::agrees), [true, false, false]);
        let text = table(&cases);
        assert!(text.contains("2 points: 1 of 3") && text.contains("| **-2.1** |"), "{text}");
        assert!(text.contains("| 300 | more | 200 | 10.0 % | 7.0 % | **+3.0** |"), "{text}");
    }
}
