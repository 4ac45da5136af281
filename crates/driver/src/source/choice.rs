//! The best sources that a system has for what a policy needs.

use super::Source;
use super::allocations::Allocations;
use super::damon::DamonPages;
use super::idle::IdlePages;
use super::pmu::Pmu;
use super::refaults::Refaults;
use super::writes::Writes;
use frostline_core::event::SampleKind;
use frostline_core::policy::Telemetry;
use frostline_core::types::Nanos;
use frostline_linux::changes::Changes;
use frostline_linux::damon::{Availability, availability};
use frostline_linux::perf::pmu;
use frostline_linux::{LinuxError, Root};

/// Sources, and what the user should know about them.
pub struct Choice {
    /// In the order in which they are asked.
    pub sources: Vec<Box<dyn Source>>,
    /// Samples are much rarer than a hardware sampler's.
    pub rare_samples: bool,
    /// Where samples come from; `None` where the policy needs none.
    pub why: Option<String>,
    /// How allocations are followed; `None` where nobody needs to know.
    pub allocations: Option<String>,
}

/// Chooses sources. With a `swap` tier, refaults are always among them: they are moves, too.
///
/// # Errors
/// Where the kernel refuses one that it claims to have; [`LinuxError::Unsupported`] where the
/// extents of allocations, or access bits, are needed and cannot be had.
pub fn choose(
    root: &Root,
    needs: Telemetry,
    swap: bool,
    cpu_share: f64,
) -> Result<Choice, LinuxError> {
    let mut choice = of_loads(root, needs, swap, cpu_share)?;
    let sampled = choice.sources.iter().any(|source| source.name() == Pmu::STORES);
    if needs.store_sample_period > 0
        && !sampled
        && let Ok(writes) = Writes::new(root, cpu_share, needs.store_sample_period)
    {
        choice.sources.push(Box::new(writes));
        let why = choice.why.get_or_insert_default();
        let and = if why.is_empty() { "" } else { "; " };
        *why += and;
        *why += "stores come from soft-dirty bits, which CRIU must not use meanwhile";
    }
    if needs.access_bits {
        add_bits(root, cpu_share, &mut choice)?;
    }
    if needs.allocation_extents {
        choice.sources.push(Box::new(Allocations::new(root)?));
        let how = "allocations are followed by tracepoints, in the extents that were asked for";
        choice.allocations = Some(how.into());
    }
    Ok(choice)
}

/// A source that can be asked about single pages.
fn add_bits(root: &Root, cpu_share: f64, choice: &mut Choice) -> Result<(), LinuxError> {
    let can = |source: &dyn Source| source.wants_pages(Nanos::MAX) > 0;
    let fvaddr = |operations: &[String]| operations.iter().any(|name| name == "fvaddr");
    let name = if let Some(source) = choice.sources.iter().find(|source| can(&***source)) {
        source.name()
    } else if let Ok(idle) = IdlePages::new(root, cpu_share) {
        choice.sources.push(Box::new(idle));
        "page-idle"
    } else if matches!(availability(root)?, Availability::Free { operations } if fvaddr(&operations))
    {
        let changes = Changes::of_this_process(root)?;
        choice.sources.push(Box::new(DamonPages::new(changes, cpu_share)));
        "damon"
    } else {
        return Err(LinuxError::Unsupported {
            what: "access bits of single pages cannot be had: there is no idle page tracking, and \
                   DAMON is missing or used by somebody else"
                .into(),
            hint: "take a policy that works with samples; `frostline doctor` says what would help"
                .into(),
        });
    };
    let why = choice.why.get_or_insert_default();
    let and = if why.is_empty() { "" } else { "; " };
    *why += &format!("{and}access bits come from {name}, some pages at a time");
    Ok(())
}

fn of_loads(
    root: &Root,
    needs: Telemetry,
    swap: bool,
    cpu_share: f64,
) -> Result<Choice, LinuxError> {
    let (sources, rare_samples, why, allocations) = (Vec::new(), false, None, None);
    let mut choice = Choice { sources, rare_samples, why, allocations };
    if swap {
        choice.sources.push(Box::new(Refaults::new(root)?));
    }
    if needs.load_sample_period == 0 {
        return Ok(choice);
    }
    let hardware = pmu::sources(root)?;
    if let Some(source) = Pmu::best(&hardware, SampleKind::LoadMiss) {
        choice.why = Some(format!("samples come from the processor ({})", source.device));
        let kind = SampleKind::LoadMiss;
        choice.sources.push(Box::new(Pmu::new(root, source, kind, needs.load_sample_period)?));
        if let Some(source) = Pmu::best(&hardware, SampleKind::Store)
            && needs.store_sample_period > 0
        {
            let kind = SampleKind::Store;
            choice.sources.push(Box::new(Pmu::new(root, source, kind, needs.store_sample_period)?));
        }
        return Ok(choice);
    }
    choice.rare_samples = true;
    let can = |operations: &[String]| operations.iter().any(|name| name == "fvaddr");
    choice.why = Some(if swap {
        "samples come from refaults: pages that are paged out, some at random among them, and \
         touched again"
            .into()
    } else if matches!(availability(root)?, Availability::Free { operations } if can(&operations)) {
        let changes = Changes::of_this_process(root)?;
        choice.sources.push(Box::new(DamonPages::new(changes, cpu_share)));
        "samples come from DAMON, which looks at some pages at a time".into()
    } else if let Ok(idle) = IdlePages::new(root, cpu_share) {
        choice.sources.push(Box::new(idle));
        "samples come from idle page tracking, which looks at some pages at a time".into()
    } else {
        "no source of samples for nodes: the policy will not learn which pages are hot\nhint: \
         `frostline doctor` says what this system lacks"
            .into()
    });
    Ok(choice)
}
