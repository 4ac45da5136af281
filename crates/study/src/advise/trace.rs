//! Trace that advice is asked of, read once.

use super::thin::{Counted, Part, Regions};
use crate::runner::footprint_by;
use crate::{Input, Monitor, StudyError};
use frostline_core::Limit;
use frostline_sim::{Footprint, Machine};
use std::sync::Arc;

/// Reads of a trace that are expected: it is kept in memory where it fits.
const READS: usize = 16;

/// A trace in memory, with what passes over it have found: any number of questions may be asked of it.
pub struct Trace {
    input: Arc<Input>,
    regions: Regions,
    /// For machines with base pages only, and with huge folios.
    footprints: [Option<Footprint>; 2],
    /// What was drawn last, and by which seed.
    drawn: Option<(u64, Arc<Input>)>,
}

impl Trace {
    /// Opens a file or `synth:...`. `limit` is what reading may take without accounting for it.
    ///
    /// # Errors
    /// A trace that cannot be read, or a stop.
    pub fn open(name: &str, limit: Limit, monitor: &dyn Monitor) -> anyhow::Result<Self> {
        let input = Arc::new(Input::open(name, READS, limit, monitor)?);
        Ok(Self { input, regions: Regions::default(), footprints: [None, None], drawn: None })
    }

    /// All of it.
    pub(super) fn input(&self) -> Arc<Input> {
        Arc::clone(&self.input)
    }

    /// Accesses by region, of a trace whose footprint is known.
    pub(super) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// What it uses of a machine.
    ///
    /// # Errors
    /// A trace that cannot be read or has no accesses, or a stop.
    pub(super) fn footprint(
        &mut self,
        machine: &Machine,
        monitor: &dyn Monitor,
    ) -> anyhow::Result<Footprint> {
        let known = &mut self.footprints[usize::from(machine.os.thp)];
        if let Some(footprint) = known {
            return Ok(footprint.clone());
        }
        let mut regions = Regions::default();
        let footprint = footprint_by(&self.input, machine, monitor, |source| {
            Box::new(Counted::new(Box::new(source), &mut regions))
        })?;
        if footprint.peak_resident_pages == 0 {
            let hint = "record a program that uses memory";
            let what = format!("{} has no accesses", self.input.name());
            return Err(StudyError::failed(what, hint).into());
        }
        self.regions = regions;
        *known = Some(footprint.clone());
        Ok(footprint)
    }

    /// What happens in so many of its regions, drawn by a seed.
    ///
    /// # Errors
    /// A trace that cannot be read, or a stop.
    pub(super) fn draw(
        &mut self,
        wanted: usize,
        seed: u64,
        monitor: &dyn Monitor,
    ) -> anyhow::Result<Arc<Input>> {
        if let Some((by, input)) = &self.drawn
            && *by == seed
        {
            return Ok(Arc::clone(input));
        }
        let part = Part::draw(&self.regions, wanted, seed);
        let input = Arc::new(self.input.thinned(&part, monitor)?);
        self.drawn = Some((seed, Arc::clone(&input)));
        Ok(input)
    }
}
