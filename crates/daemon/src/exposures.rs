//! Exposures of pages: how long each was in swap until it was touched, where touches are seen there alone.
//!
//! A refault says that a page is in use; how soon it came says how much. Of each page the geometric mean of the times
//! that it was out is kept, over the last few, so that a page in use of late is told from one that was so before.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use frostline_core::View;
use frostline_core::event::Event;
use frostline_core::types::*;

/// Unit of times: 2^24 ns, 17 ms.
const UNIT_BITS: u32 = 24;
/// Bits of a stamp that are a time, which comes round after 39 hours.
const TIME_BITS: u32 = 23;
const TIMES: u32 = (1 << TIME_BITS) - 1;
const OUT: u32 = 1 << TIME_BITS;
/// Bits of a float that a logarithm leaves out: it has three below the point.
const LEFT_OUT: u32 = f32::MANTISSA_DIGITS - 1 - 3;
/// Upper bits of 1, less one: logarithms begin at 1, and 0 is none.
const NONE: u32 = (1f32.to_bits() >> LEFT_OUT) - 1;

/// Logarithm of a time, in eighths of an octave, and one.
fn logarithm(units: u32) -> u32 {
    ((units.clamp(1, TIMES) as f32).to_bits() >> LEFT_OUT) - NONE
}

/// A time of that logarithm, above 0 (ms).
fn milliseconds(logarithm: u32) -> NonZeroU32 {
    let units = f32::from_bits((logarithm.max(1) + NONE) << LEFT_OUT);
    let time = f64::from(units) * f64::from(1 << UNIT_BITS) / 1e6;
    NonZeroU32::new(time as u32).unwrap_or(NonZeroU32::MIN)
}

/// A page: since when it is in memory, or in swap, and the logarithm of the mean time for which it is out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp(u32);

impl Stamp {
    fn new(now: u32, out: bool, mean: u32) -> Self {
        Self(now & TIMES | if out { OUT } else { 0 } | mean << (TIME_BITS + 1))
    }

    fn is_out(self) -> bool {
        self.0 & OUT != 0
    }

    fn mean(self) -> u32 {
        self.0 >> (TIME_BITS + 1)
    }

    fn since(self, now: u32) -> u32 {
        now.wrapping_sub(self.0) & TIMES
    }

    /// With the time for which it has been out by now.
    fn touched(self, now: u32) -> Self {
        let new = logarithm(self.since(now));
        let mean = match self.mean() {
            0 => new,
            old => u32::midpoint(old, new),
        };
        Self::new(now, false, mean)
    }
}

/// A page that has come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Returned {
    /// Time for which the page was out, within 17 ms.
    pub(crate) after: Nanos,
    /// Mean time for which it is out (ms).
    pub(crate) gap_ms: NonZeroU32,
}

/// See the module; 4 bytes a page.
#[derive(Debug, Default)]
pub(crate) struct Exposures(Vec<Stamp>);

fn units(now: Nanos) -> u32 {
    (now.0 >> UNIT_BITS) as u32
}

impl Exposures {
    /// Takes in where pages are since `events`, which `view` knows of; `swap` is where touches are seen.
    pub(crate) fn follow(&mut self, now: Nanos, events: &[Event], view: &View<'_>, swap: TierId) {
        let (pages, now) = (view.pages() as usize, units(now));
        if pages > self.0.len() {
            self.0.resize(pages, Stamp::default());
        }
        for event in events {
            let (run, is_new) = match event {
                Event::Populated { run, .. } => (run, true),
                Event::Moved { run, .. } | Event::MigrationDone { run, .. } => (run, false),
                _ => continue,
            };
            for page in run.iter() {
                let out = view.state(page).tier() == Some(swap);
                let stamp = &mut self.0[page.index()];
                if is_new {
                    *stamp = Stamp::new(now, out, 0);
                } else if stamp.is_out() != out {
                    *stamp = Stamp::new(now, out, stamp.mean());
                }
            }
        }
    }

    /// Takes in that a page has come back because it was touched. `None` where it is not known when it left.
    pub(crate) fn touched(&mut self, now: Nanos, page: PageId) -> Option<Returned> {
        let stamp = self.0.get_mut(page.index()).filter(|stamp| stamp.is_out())?;
        let after = Nanos(u64::from(stamp.since(units(now))) << UNIT_BITS);
        *stamp = stamp.touched(units(now));
        Some(Returned { after, gap_ms: milliseconds(stamp.mean()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::event::MoveCause;
    use frostline_core::policy::{Offer, make};
    use frostline_core::{Engine, EngineConfig};

    const SWAP: TierId = TierId(1);

    struct World {
        engine: Engine,
        exposures: Exposures,
        now: Nanos,
    }

    impl World {
        fn tell(&mut self, after_ms: u64, event: Event) {
            self.now = self.now.saturating_add(Nanos(after_ms * 1_000_000));
            self.engine.handle_events(self.now, &[event]);
            self.exposures.follow(self.now, &[event], &self.engine.view(), SWAP);
        }

        fn moves(&mut self, after_ms: u64, to: TierId) {
            let run = PageRun::between(0, 4);
            self.tell(after_ms, Event::Moved { run, to, cause: MoveCause::Unknown });
        }

        fn touches(&mut self, after_ms: u64) -> Option<u32> {
            let now = self.now.saturating_add(Nanos(after_ms * 1_000_000));
            let gap = self.exposures.touched(now, PageId(1)).map(|touched| touched.gap_ms.get());
            self.moves(after_ms, TierId::FAST);
            gap
        }
    }

    fn world() -> World {
        let policy = make("first-touch", &Offer::default()).unwrap();
        let tiers = EngineConfig::two_tiers(PageCount(1 << 20), PageCount(1 << 20));
        let engine = Engine::new(tiers, policy).unwrap();
        let mut world = World { engine, exposures: Exposures::default(), now: Nanos::ZERO };
        let run = PageRun::between(0, 4);
        world.tell(0, Event::Populated { run, tier: TierId::FAST, huge: false });
        world
    }

    fn is_about(gap: Option<u32>, ms: f64) {
        let gap = gap.map_or(0.0, f64::from);
        assert!((gap / ms).ln().abs() < 0.2, "{gap} ms for {ms}");
    }

    #[test]
    fn a_page_is_touched_as_often_as_it_came_back_soon() {
        let mut world = world();
        assert_eq!(world.touches(700), None, "it was never out");
        world.moves(5000, SWAP);
        is_about(world.touches(10_000), 10_000.0);
        world.moves(60_000, SWAP);
        is_about(world.touches(100), 1000.0);
        world.moves(0, SWAP);
        is_about(world.touches(100), 316.0);
    }

    #[test]
    fn only_touches_count() {
        let mut world = world();
        world.moves(0, SWAP);
        world.moves(50, TierId::FAST);
        assert_eq!(world.touches(0), None, "it was brought in");
        world.moves(0, SWAP);
        world.moves(400, SWAP);
        is_about(world.touches(400), 800.0);
        world.moves(0, SWAP);
        world.tell(9, Event::Freed { run: PageRun::between(0, 4) });
        world.tell(9, Event::Populated { run: PageRun::between(0, 4), tier: SWAP, huge: false });
        is_about(world.touches(3000), 3000.0);
    }

    #[test]
    fn logarithms_keep_times_within_an_eighth() {
        for units in [1, 2, 3, 7, 8, 9, 100, 1000, 12_345, TIMES] {
            let exact = f64::from(units) * f64::from(1 << UNIT_BITS) / 1e6;
            let kept = f64::from(milliseconds(logarithm(units)).get());
            assert!(kept <= exact && kept > exact * 0.875 - 1.0, "{units}: {kept} for {exact}");
        }
        assert!(logarithm(TIMES) < 1 << (31 - TIME_BITS), "it has room beside the time");
    }
}
