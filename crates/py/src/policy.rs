//! Policies that are written in Python, called in batches.

use crate::errors;
use crate::watched::Failure;
use crate::writer::values;
use frostline_core::action::{Lane, Plan};
use frostline_core::budget::Budget;
use frostline_core::event::{Event, SampleKind};
use frostline_core::placement::{PageState, View};
use frostline_core::policy::{
    Facts, Made, MetricSink, Offer, Policy, PolicyError, Telemetry, example, registry,
};
use frostline_core::types::*;
use frostline_study::Policies;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Tier of a page that is in none.
const NOWHERE: u8 = u8::MAX;
/// Bytes of a sample: page (32 bits), tier, whether it is a store, and two that are 0.
const SAMPLE_BYTES: usize = 8;

/// What it wants to be told.
#[derive(Deserialize)]
struct Needs {
    load_sample_period: u32,
    store_sample_period: u32,
    base_pages: bool,
}

/// Maker of policies by classes of Python, and of those in the registry; and of the example of how one is written, which a
/// class can be compared with.
pub struct Classes {
    classes: BTreeMap<String, Py<PyAny>>,
    failure: Arc<Failure>,
}

impl Classes {
    /// `classes` make an adapter of what is offered; what they raise goes to `failure`.
    pub fn new(classes: BTreeMap<String, Py<PyAny>>, failure: Arc<Failure>) -> Self {
        Self { classes, failure }
    }

    fn of_class(&self, name: &str, class: &Py<PyAny>, offer: &Offer) -> PyResult<Made> {
        Python::attach(|py| {
            let made = class.call1(py, (offer.seed, offer.scale, offer.fast_pages.0))?;
            let needs: String = made.call_method0(py, "needs")?.extract(py)?;
            let needs: Needs = serde_json::from_str(&needs)
                .map_err(|error| errors::UsageError::new_err(error.to_string()))?;
            let facts = Facts {
                needs: Telemetry {
                    load_sample_period: needs.load_sample_period,
                    store_sample_period: needs.store_sample_period,
                    ..Telemetry::default()
                },
                base_pages: needs.base_pages,
                ..Facts::default()
            };
            let failure = Arc::clone(&self.failure);
            let policy = InPython { made, failure, due: Some(Nanos::ZERO), digest: 0, proposed: 0 };
            Ok(Made::unlisted(name, Box::new(policy), facts))
        })
    }
}

impl Policies for Classes {
    fn make(&self, policy: &str, offer: &Offer) -> Result<Made, PolicyError> {
        let Some(class) = self.classes.get(policy) else {
            return match policy == example::ENTRY.name {
                true => registry::make_unlisted(&example::ENTRY, policy, offer),
                false => registry::make(policy, offer),
            };
        };
        self.of_class(policy, class, offer).map_err(|error| {
            let what = format!("{policy} cannot be made: {error}");
            self.failure.note(error);
            PolicyError { what }
        })
    }
}

/// Policy whose decisions are made in Python. Once it has raised, it does nothing more.
struct InPython {
    made: Py<PyAny>,
    failure: Arc<Failure>,
    due: Option<Nanos>,
    /// Of all proposals so far, in their order.
    digest: u32,
    proposed: u64,
}

/// Memory as a policy sees it.
#[pyclass(frozen, module = "frostline._native", name = "View")]
pub struct Seen {
    /// Pages used and free, by tier.
    tiers: Vec<(u64, u64)>,
    /// Tier of each page; empty while samples are told.
    pages: Vec<u8>,
}

impl Seen {
    fn new(view: &View<'_>, with_pages: bool) -> Self {
        let tiers = (0..view.tiers()).map(|tier| TierId(tier as u8));
        let of = |state: &u8| PageState(*state).tier().map_or(NOWHERE, |tier| tier.0);
        Self {
            tiers: tiers.map(|tier| (view.used(tier).0, view.free(tier).0)).collect(),
            pages: if with_pages { view.states().iter().map(of).collect() } else { Vec::new() },
        }
    }

    fn tier(&self, tier: usize) -> PyResult<(u64, u64)> {
        let found = self.tiers.get(tier).copied();
        found.ok_or_else(|| errors::UsageError::new_err(format!("there is no tier {tier}")))
    }
}

#[pymethods]
impl Seen {
    /// Number of tiers.
    #[getter]
    fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// Pages in a tier.
    fn used(&self, tier: usize) -> PyResult<u64> {
        Ok(self.tier(tier)?.0)
    }

    /// Pages for which a tier has room.
    fn free(&self, tier: usize) -> PyResult<u64> {
        Ok(self.tier(tier)?.1)
    }

    /// Tier of each page, 255 for none, as bytes. Empty while samples are told.
    fn pages<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.pages)
    }
}

/// What a policy proposes.
#[pyclass(frozen, module = "frostline._native", name = "Plan")]
pub struct Proposed {
    tiers: usize,
    moves: Mutex<Vec<Move>>,
}

#[derive(Clone, Copy)]
enum Move {
    To(u32, u8),
    Exchange(u32, u32),
}

impl Proposed {
    fn add(&self, moves: impl Iterator<Item = Move>) {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner).extend(moves);
    }
}

/// Page ids, as bytes in this machine's order.
fn ids(pages: &[u8]) -> impl ExactSizeIterator<Item = u32> {
    values(pages).map(u32::from_ne_bytes)
}

#[pymethods]
impl Proposed {
    /// Pages shall go to a tier, the first one first.
    fn migrate(&self, pages: &[u8], tier: usize) -> PyResult<()> {
        if tier >= self.tiers {
            return Err(errors::UsageError::new_err(format!("there is no tier {tier}")));
        }
        self.add(ids(pages).map(|page| Move::To(page, tier as u8)));
        Ok(())
    }

    /// Pages shall change places, each with the other one of the same index.
    fn exchange(&self, ones: &[u8], others: &[u8]) -> PyResult<()> {
        let (ones, others) = (ids(ones), ids(others));
        if ones.len() != others.len() {
            let what = format!("{} pages cannot change places with {}", ones.len(), others.len());
            return Err(errors::UsageError::new_err(what));
        }
        self.add(ones.zip(others).map(|(one, other)| Move::Exchange(one, other)));
        Ok(())
    }
}

impl InPython {
    fn call<T>(&mut self, what: impl FnOnce(Python<'_>, &Py<PyAny>) -> PyResult<T>) -> Option<T> {
        if self.failure.is_noted() {
            self.due = None;
            return None;
        }
        let result = Python::attach(|py| what(py, &self.made));
        result.map_err(|error| self.failure.note(error)).ok()
    }

    fn propose(&mut self, moves: &[Move], view: &View<'_>, plan: &mut Plan) {
        let unit = |page: u32| (page < view.pages()).then(|| view.unit(PageId(page)));
        let mut last = None;
        for step in moves {
            let numbers = match *step {
                Move::To(page, tier) => {
                    let Some(unit) = unit(page) else { continue };
                    // A folio is named by each of its pages.
                    if last.replace((unit, tier)) == Some((unit, tier)) {
                        continue;
                    }
                    let lane = if tier == 0 { Lane::PROMOTE } else { Lane::DEMOTE };
                    plan.migrate(unit, TierId(tier), lane);
                    [unit.start.0, tier.into()]
                }
                Move::Exchange(one, other) => {
                    let Some((one, other)) = unit(one).zip(unit(other)) else { continue };
                    plan.exchange(one, other, Lane::PROMOTE);
                    [one.start.0, other.start.0]
                }
            };
            self.proposed += 1;
            for number in numbers {
                self.digest = (self.digest ^ number).wrapping_mul(0x0100_0193).rotate_left(5);
            }
        }
    }
}

impl Policy for InPython {
    fn observe(&mut self, now: Nanos, events: &[Event], view: &View<'_>) {
        let mut samples = Vec::new();
        for event in events {
            let Event::Sample(sample) = event else { continue };
            let mut bytes = [0; SAMPLE_BYTES];
            bytes[..4].copy_from_slice(&sample.page.0.to_ne_bytes());
            bytes[4] = view.state(sample.page).tier().map_or(NOWHERE, |tier| tier.0);
            bytes[5] = u8::from(sample.kind == SampleKind::Store);
            samples.extend(bytes);
        }
        if samples.is_empty() {
            return;
        }
        let seen = Seen::new(view, false);
        self.call(|py, made| {
            made.call_method1(py, "observe", (now.0, PyBytes::new(py, &samples), seen))
        });
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, _: Budget, plan: &mut Plan) {
        let seen = Seen::new(view, true);
        let tiers = view.tiers();
        let decided = self.call(|py, made| {
            let proposed = Bound::new(py, Proposed { tiers, moves: Mutex::default() })?;
            let next: Option<u64> =
                made.call_method1(py, "decide", (now.0, seen, &proposed))?.extract(py)?;
            let mut moves = proposed.get().moves.lock().unwrap_or_else(PoisonError::into_inner);
            Ok((next, std::mem::take(&mut *moves)))
        });
        let Some((next, moves)) = decided else { return };
        self.due = next.map(|next| Nanos(next.max(now.0 + 1)));
        self.propose(&moves, view, plan);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        self.due
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        sink("proposed_units_total", self.proposed as f64);
        sink("decisions_digest", f64::from(self.digest));
    }

    fn metadata_bytes(&self) -> Bytes {
        // What Python objects take is not counted.
        Bytes(0)
    }
}
