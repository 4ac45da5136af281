//! Pages of a running program, drawn at random.

use frostline_core::rng::Rng;
use frostline_core::span::Span;
use frostline_core::types::Vpn;
use frostline_linux::pages::pagemap::{Categories, Pagemap};
use frostline_linux::process::maps::{MapsReader, tierable};
use frostline_linux::{LinuxError, Target};

/// Anonymous memory that a process has.
pub(crate) struct There {
    /// Runs, and whether they are in swap.
    runs: Vec<(Span, bool)>,
    /// Pages in huge folios, which are not among them.
    pub(crate) huge: u64,
}

impl There {
    /// What there is now.
    pub(crate) fn of(target: &Target, pagemap: &mut Pagemap) -> Result<Self, LinuxError> {
        let (mut mappings, mut found) = (Vec::new(), Vec::new());
        MapsReader::new().read(target, &mut mappings)?;
        for (span, _) in tierable(&mappings) {
            pagemap.places(span, &mut found)?;
        }
        let mut there = Self { runs: Vec::new(), huge: 0 };
        for (span, at) in found {
            if at.has(Categories::HUGE) {
                there.huge += span.pages;
            } else if !at.has(Categories::ZERO) {
                there.runs.push((span, at.has(Categories::SWAPPED)));
            }
        }
        Ok(there)
    }

    /// Pages that are in no huge folios.
    pub(crate) fn pages(&self) -> u64 {
        self.runs.iter().map(|(span, _)| span.pages).sum()
    }

    /// So many of them, each as likely as any other, or all where there are fewer; and whether they are in swap.
    pub(crate) fn draw(&self, wanted: u64, seed: u64) -> impl Iterator<Item = (Vpn, bool)> {
        let (mut left, mut wanted) = (self.pages(), wanted.min(self.pages()));
        let mut rng = Rng::new(seed);
        let pages =
            self.runs.iter().flat_map(|(span, swapped)| span.iter().map(|at| (at, *swapped)));
        pages.filter(move |_| {
            let taken = rng.below(left) < wanted;
            (left, wanted) = (left - 1, wanted - u64::from(taken));
            taken
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_drawn_evenly() {
        let runs = vec![(Span::new(Vpn(10), 600), false), (Span::new(Vpn(5000), 400), true)];
        let there = There { runs, huge: 0 };
        let mut times = [0_u32; 2];
        for seed in 0..50 {
            let drawn: Vec<_> = there.draw(100, seed).collect();
            assert_eq!(drawn.len(), 100);
            assert!(drawn.windows(2).all(|pair| pair[0].0 < pair[1].0), "each once");
            for (at, is_out) in drawn {
                assert_eq!(is_out, at.0 >= 5000);
                times[usize::from(is_out)] += 1;
            }
        }
        assert!((2800..3200).contains(&times[0]), "{times:?}");
        assert_eq!(there.draw(5000, 1).count(), 1000, "all there are");
    }
}
