//! Consolidation of hot pages: continuous, or on request.

use crate::remarks;
use crate::work::own_memory;
use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::span::{Span, joined};
use frostline_core::types::Vpn;
use frostline_inprocess::consolidate::request::{self, Answer, Request};
use frostline_inprocess::consolidate::{Consolidator, Numbers, Telemetry};
use frostline_linux::process::Identity;
use frostline_linux::{LinuxError, Root};
use std::time::{Duration, Instant};

/// Between two looks whether anybody asks.
const LOOK: Duration = Duration::from_millis(200);

/// See the module.
pub struct Consolidation {
    root: Root,
    own: Identity,
    /// All the time.
    limit: Option<ConsolidationLimit>,
    /// Of a core, for that.
    share: f64,
    /// What came of that.
    numbers: Option<Numbers>,
    at_work: Option<Consolidator>,
    asked: Option<Request>,
}

impl Consolidation {
    /// All the time, where there is a limit, by a share of a core.
    ///
    /// # Errors
    /// Where this process cannot be read.
    pub fn begin(
        root: &Root,
        limit: Option<ConsolidationLimit>,
        share: f64,
    ) -> Result<Self, LinuxError> {
        let own = Identity::own(root)?;
        request::forget_answer(root, own.pid);
        let root = root.clone();
        Ok(Self { root, own, limit, share, numbers: None, at_work: None, asked: None })
    }

    /// What came of doing it all the time; `None` where that is not wanted.
    pub fn numbers(&self) -> Option<&Numbers> {
        let now = self.at_work.as_ref().filter(|_| self.asked.is_none());
        now.map(Consolidator::numbers).or(self.numbers.as_ref())
    }

    /// Who is at work, to be told of pages that are touched.
    pub fn at_work(&mut self) -> Option<&mut Consolidator> {
        self.at_work.as_mut()
    }

    /// Does what is due; gives the time until there may be more.
    pub fn step(&mut self) -> Duration {
        if let Some(asked) = request::asked(&self.root, self.own) {
            self.numbers = self.numbers().cloned();
            self.asked = Some(asked);
            self.at_work = None;
        }
        if self.asked.is_none() && self.limit.is_none() {
            return LOOK;
        }
        match self.go_on() {
            Ok(due) => {
                let done = self.at_work.as_ref().filter(|work| work.numbers().rounds > 0);
                let numbers = done.map(|work| work.numbers().clone());
                match numbers.and_then(|numbers| Some((self.asked.take()?, numbers))) {
                    Some((asked, numbers)) => {
                        self.answer(&asked, numbers);
                        Duration::ZERO
                    }
                    None => due.saturating_duration_since(Instant::now()).min(LOOK),
                }
            }
            Err(error) => {
                self.refuse(&error);
                LOOK
            }
        }
    }

    fn go_on(&mut self) -> Result<Instant, LinuxError> {
        let work = match &mut self.at_work {
            Some(work) => work,
            none => none.insert(match &mut self.asked {
                Some(Request { limit, dry_run, hot, .. }) => {
                    let telemetry = hot.take().map_or(Telemetry::Writes(1.0), given);
                    Consolidator::new(&self.root, *limit, *dry_run, telemetry)?
                }
                None => {
                    let (limit, telemetry) =
                        (self.limit.unwrap_or_default(), Telemetry::Writes(self.share));
                    let mut work = Consolidator::new(&self.root, limit, false, telemetry)?;
                    if let Some(numbers) = self.numbers.take() {
                        work.resume(numbers);
                    }
                    work
                }
            }),
        };
        work.step(&own_memory)
    }

    fn refuse(&mut self, error: &LinuxError) {
        let why = error.to_string();
        let numbers = self.at_work.take().map(|work| work.numbers().clone()).unwrap_or_default();
        let numbers = Numbers { refused: Some(why.clone()), ..numbers };
        match self.asked.take() {
            Some(asked) => self.answer(&asked, numbers),
            None => {
                self.limit = None;
                self.numbers = Some(numbers);
                remarks::complain(&format!("the program goes on without consolidation: {why}"));
            }
        }
    }

    fn answer(&mut self, asked: &Request, numbers: Numbers) {
        self.at_work = None;
        let answer = Answer { number: asked.number, numbers };
        if let Err(error) = request::answer(&self.root, self.own.pid, &answer) {
            remarks::note(&format!("nobody was answered: {error}"));
        }
    }
}

/// As it was seen from outside.
fn given(runs: Vec<(u64, u64)>) -> Telemetry {
    let spans = runs.into_iter().map(|(start, pages)| Span::new(Vpn(start), pages));
    Telemetry::Given(joined(spans))
}
