//! Huge pages: split, and built again.

use super::Driver;
use crate::error::DriverError;
use crate::groups::{Groups, Way};
use frostline_core::event::Event;
use frostline_core::types::*;
use frostline_linux::span::Span;

impl Driver {
    pub(super) fn split(&mut self, region: Region) -> Result<Vec<Event>, DriverError> {
        let split = self.reshape(region, true)?;
        self.accounts.splits += u64::from(split);
        self.accounts.failed_splits += u64::from(!split);
        let mut events = vec![Event::SplitDone { region, split }];
        if split && let Some((process, vpn)) = self.map.place(region.first()) {
            // All-zero pages are freed by the split.
            self.tell(std::mem::take(&mut events))?;
            let span = Span::region_of(vpn);
            if let Err(error) = self.places_of(process.0, span, &mut events)
                && !error.is_gone()
            {
                return Err(error.into());
            }
        }
        Ok(events)
    }

    pub(super) fn collapse(
        &mut self,
        region: Region,
        to: TierId,
    ) -> Result<Vec<Event>, DriverError> {
        let built = self.reshape(region, false)?;
        self.accounts.collapses += u64::from(built);
        self.accounts.failed_collapses += u64::from(!built);
        let tier = built.then_some(to);
        Ok(vec![Event::CollapseDone { region, tier }])
    }

    /// Splits or rebuilds one folio; whether that was found done.
    fn reshape(&mut self, region: Region, split: bool) -> Result<bool, DriverError> {
        self.disarm(region.run());
        let place = self.map.place(region.first());
        let Some((process, vpn)) = place.filter(|_| !self.options.dry_run) else {
            return Ok(false);
        };
        // A folio is built beside the pages that it is made of, and takes in those that are in swap.
        let takes = PageCount(HUGE_PAGES.into());
        let allows = |groups: &Groups| split || groups.allows(process.0, Way::In, takes);
        if !self.groups.as_ref().is_none_or(allows) {
            return Ok(false);
        }
        let Some(watched) = self.watched.get_mut(&process.0) else { return Ok(false) };
        match crate::place::reshape(&watched.target, &mut watched.pagemap, vpn, split) {
            Err(error) if error.is_gone() => Ok(false),
            other => Ok(other?),
        }
    }
}
