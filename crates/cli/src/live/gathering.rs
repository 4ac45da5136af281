//! Gathering of hot pages in programs that run: which are hot is seen from outside, an agent inside moves them.

use super::inside::Agent;
use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::span::Span;
use frostline_driver::HotPages;
use frostline_driver::environment::AGENT_THREAD;
use frostline_inprocess::consolidate::Numbers;
use frostline_inprocess::consolidate::request::{self, Request};
use frostline_inprocess::inject::{self, Injected};
use frostline_linux::{Root, Target};
use frostline_terminal::errors::{self, failure};
use frostline_terminal::progress::note;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A look takes a second, and as long as the program keeps the thread from working.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for a thread that can be made to load the library.
pub const THREAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks whether something has come.
const LOOK: Duration = Duration::from_millis(20);

/// What is to be done.
#[derive(Debug)]
pub struct Plan {
    /// From how many hot pages on a region is dense.
    pub limit: ConsolidationLimit,
    /// Move nothing.
    pub dry_run: bool,
    /// Share of a core for looking which pages are hot.
    pub share: f64,
    /// Library that is brought into programs without an agent; without it these are left alone.
    pub library: Option<Agent>,
}

/// See the module.
pub struct Gatherer {
    root: Root,
    plan: Plan,
    /// Who sees hot pages, or why nobody does.
    sees: Result<HotPages, String>,
    asked: u64,
}

impl Gatherer {
    /// Nobody was asked yet.
    pub fn new(root: Root, plan: Plan) -> Self {
        let sees = HotPages::new(&root, plan.share).map_err(|error| errors::text(&error.into()));
        Self { root, plan, sees, asked: 0 }
    }

    /// How hot pages are known.
    pub fn telemetry(&self) -> String {
        match &self.sees {
            Ok(_) => {
                "hot pages are those whose access bits are found set in two rounds over page tables"
                    .into()
            }
            Err(why) => format!(
                "hot pages are those that are written in two windows, which the programs see to: {}",
                why.lines().next().unwrap_or_default()
            ),
        }
    }

    /// Has each of these processes gather its hot pages once; what came of it. Ends early where `stop` says so.
    ///
    /// # Errors
    /// Where hot pages cannot be seen any more.
    pub fn round(
        &mut self,
        pids: &[u32],
        stop: &dyn Fn() -> bool,
    ) -> anyhow::Result<Vec<(u32, anyhow::Result<Numbers>)>> {
        let mut results = Vec::new();
        let mut ready = Vec::new();
        for pid in pids {
            match self.check(*pid) {
                Ok(target) => ready.push(target),
                Err(error) => results.push((*pid, Err(error))),
            }
        }
        let pids: Vec<u32> = ready.iter().map(Target::pid).collect();
        let mut hot = match &mut self.sees {
            Ok(sees) if !pids.is_empty() => sees.of(&pids, stop)?,
            _ => BTreeMap::new(),
        };
        for target in ready {
            if stop() {
                break;
            }
            let pid = target.pid();
            results.push((pid, self.ask(&target, hot.remove(&pid))));
        }
        Ok(results)
    }

    /// A process that can be asked.
    fn check(&self, pid: u32) -> anyhow::Result<Target> {
        let target = Target::open(&self.root, pid)?;
        check_user(&self.root, &target)?;
        if self.plan.library.is_none() && !has_agent(&self.root, &target)? {
            return Err(failure(
                format!("process {pid} ({}) has no agent in it", target.comm()?),
                "start it by `frostline run --consolidate -- ...`, or let --inject bring one into it",
            ));
        }
        Ok(target)
    }

    fn ask(&mut self, target: &Target, hot: Option<Vec<Span>>) -> anyhow::Result<Numbers> {
        self.asked += 1;
        let request = Request {
            pid: target.pid(),
            start_ticks: target.identity().start_ticks,
            limit: self.plan.limit,
            dry_run: self.plan.dry_run,
            number: u64::from(std::process::id()) << 32 | self.asked,
            hot: hot.map(|spans| spans.iter().map(|span| (span.start.0, span.pages)).collect()),
        };
        let library = match &self.plan.library {
            Some(library) if !has_agent(&self.root, target)? => Some(library),
            _ => None,
        };
        // Before the library is there: this is what it is to begin for.
        request::ask(&self.root, &request)?;
        let answer = library
            .map_or(Ok(()), |library| bring_in(target, library))
            .and_then(|()| wait_for_answer(&self.root, target, &request));
        let numbers = answer.inspect_err(|_| request::forget(&self.root, target.pid()))?;
        match numbers.refused {
            Some(why) => anyhow::bail!(why),
            None => Ok(numbers),
        }
    }
}

/// Questions are files that only who has asked may remove.
fn check_user(root: &Root, target: &Target) -> anyhow::Result<()> {
    let own = Target::open(root, std::process::id())?;
    match target.user() {
        Some(theirs) if own.user() != Some(theirs) => Err(failure(
            format!(
                "process {} belongs to another user ({theirs}), and could not answer",
                target.pid()
            ),
            "have that user start it by `frostline run --consolidate -- ...`, which needs no questions",
        )),
        _ => Ok(()),
    }
}

/// Whether there is an agent in a program.
///
/// # Errors
/// Where its threads cannot be listed.
pub fn has_agent(root: &Root, target: &Target) -> anyhow::Result<bool> {
    let pid = target.pid();
    let comm = |tid| root.read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    Ok(target
        .threads()?
        .into_iter()
        .any(|tid| comm(tid).trim_end().as_bytes() == AGENT_THREAD.to_bytes()))
}

fn bring_in(target: &Target, library: &Agent) -> anyhow::Result<()> {
    match inject::inject(target, library.path(), THREAD_TIMEOUT)? {
        Injected::Loaded => note("the library is in the program, and stays there"),
        Injected::LetGo => note("the program loads the library, which takes longer than usual"),
    }
    Ok(())
}

fn wait_for_answer(root: &Root, target: &Target, request: &Request) -> anyhow::Result<Numbers> {
    let began = Instant::now();
    loop {
        if let Some(numbers) = request::answered(root, request) {
            return Ok(numbers);
        }
        if began.elapsed() > TIMEOUT || !target.is_alive() {
            target.check_alive()?;
            return Err(failure(
                format!("the agent in process {} does not answer", target.pid()),
                "it looks again when the program has 4 MiB of memory, and must be allowed to write \
                 to /run/frostline",
            ));
        }
        std::thread::sleep(LOOK);
    }
}
