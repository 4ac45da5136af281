//! The upper bound beside the runs.

use super::input::{Input, Watched};
use super::memory;
use crate::Monitor;
use frostline_bound::{BoundModel, EpochChoice, EpochMatrix, SolveOptions, solve};
use frostline_sim::{FaultInjection, Footprint, Machine};
use std::fmt;

/// Peak bytes per record, and per page id, of building an [`EpochMatrix`].
const BYTES_PER_RECORD: u64 = 9;
const BYTES_PER_PAGE: u64 = 16;

/// What a size of fast memory can save at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundResult {
    /// No placement saves more, in nanoseconds.
    pub saving_upper_ns: f64,
    /// Share of it that a plan with knowledge of the future is known to reach.
    pub feasible_share: f64,
    /// `(upper - feasible) / upper`.
    pub gap: f64,
    /// What fast memory without limit would save, in nanoseconds.
    pub all_fast_saving_ns: f64,
}

impl BoundResult {
    /// Share of the bound that a saving reaches; none where nothing can be saved.
    pub fn share(&self, saving_ns: f64) -> Option<f64> {
        (self.saving_upper_ns > 0.0).then(|| saving_ns / self.saving_upper_ns)
    }
}

/// Why there is no bound.
#[derive(Clone, Debug, PartialEq)]
pub enum NoBound {
    /// Nobody asked for it.
    NotAsked,
    /// A tier cannot be accessed directly.
    SwapModel,
    /// More than two tiers.
    Tiers(usize),
    /// Ends of processes are injected: memory comes back in other places for nothing.
    InjectedExits,
    /// Programs take turns, or are in virtual machines: what they access depends on the run.
    Together,
    /// The trace does not fit into this computer's memory.
    Memory {
        /// Needed, in bytes.
        needed: u64,
        /// Available, in bytes.
        available: u64,
    },
}

impl fmt::Display for NoBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const GIB: f64 = (1u64 << 30) as f64;
        match self {
            Self::NotAsked => f.write_str("not asked for"),
            Self::SwapModel => f.write_str("swap model: a tier cannot be accessed directly"),
            Self::Tiers(n) => write!(f, "{n} tiers, and the bound is for two"),
            Self::Together => f.write_str("it is for one program, in no virtual machine"),
            Self::InjectedExits => f.write_str("injected exits free memory at no cost"),
            Self::Memory { needed, available } => write!(
                f,
                "computing it needs {:.1} GiB of memory, {:.1} GiB are available",
                *needed as f64 / GIB,
                *available as f64 / GIB
            ),
        }
    }
}

/// Whether a bound makes sense here, and fits.
pub fn applies(
    machine: &Machine,
    faults: &FaultInjection,
    footprint: &Footprint,
) -> Result<(), NoBound> {
    if !machine.all_direct() {
        return Err(NoBound::SwapModel);
    }
    if machine.tiers.len() > 2 {
        return Err(NoBound::Tiers(machine.tiers.len()));
    }
    if faults.exits > 0 {
        return Err(NoBound::InjectedExits);
    }
    fits(footprint)
}

/// Whether the trace can be held page by page.
pub fn fits(footprint: &Footprint) -> Result<(), NoBound> {
    let needed =
        footprint.records * BYTES_PER_RECORD + u64::from(footprint.page_ids) * BYTES_PER_PAGE;
    let available = memory::available_bytes();
    if needed > available { Err(NoBound::Memory { needed, available }) } else { Ok(()) }
}

/// The trace page by page.
///
/// # Errors
/// A trace that cannot be read, or a stop.
pub fn matrix(
    input: &Input,
    footprint: &Footprint,
    monitor: &dyn Monitor,
) -> anyhow::Result<EpochMatrix> {
    let records = Some(footprint.records);
    let mut source = Watched::new(input.source()?, "sorting by page", records, monitor);
    let matrix = EpochMatrix::from_source(&mut source, EpochChoice::default())?;
    monitor.check()?;
    Ok(matrix)
}

/// The machine as the bound sees it.
pub fn model(machine: &Machine, capacity_pages: u64) -> BoundModel {
    let saving = machine.saving_model();
    BoundModel {
        read_saving_ns: saving.read_saving_ns,
        write_saving_ns: saving.write_saving_ns,
        write_back_saving_ns: saving.write_back_saving_ns,
        promotion_cost_ns: saving.promotion_cost_ns,
        demotion_cost_ns: saving.demotion_cost_ns,
        capacity_pages,
    }
}

/// The bound for one size.
///
/// # Errors
/// A machine with which it cannot be computed.
pub fn compute(
    matrix: &EpochMatrix,
    machine: &Machine,
    capacity_pages: u64,
    monitor: &dyn Monitor,
) -> anyhow::Result<BoundResult> {
    let pass = monitor.pass("computing the bound", "", None);
    let bound = solve(matrix, &model(machine, capacity_pages), &SolveOptions::default());
    drop(pass);
    let bound = bound?;
    let share = bound.share(bound.saving_feasible_ns).unwrap_or(0.0);
    Ok(BoundResult {
        saving_upper_ns: bound.saving_upper_ns,
        feasible_share: share,
        gap: bound.gap,
        all_fast_saving_ns: bound.all_fast_saving_ns,
    })
}
