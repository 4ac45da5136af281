//! Memory that does not compress, such as that of compressed or encrypted data. Compressed memory saves nothing of it, and takes
//! processor time both ways: it is left where it is.
//!
//! Pages that are about to leave are looked at, some of each piece of address space, and compressed by LZ4, which is near to
//! what zram does by default. What does not compress is looked at again after some minutes.

use frostline_core::span::Span;
use frostline_core::types::*;
use frostline_daemon::Unit;
use frostline_linux::pages::contents;
use frostline_linux::process::Target;
use lz4_flex::block;
use std::collections::BTreeMap;

/// Pages that are judged together: 8 MiB.
const PIECE: u64 = 2048;
/// Pages of a piece that are looked at, and after how many it is judged.
const SAMPLE: u32 = 16;
const JUDGED: u32 = 8;
/// Bytes that a page takes at most: more than what LZ4 can make of it.
const MOST_COMPRESSED: usize = 2 * PAGE_BYTES as usize;
/// Bytes of a page from which on zram keeps it as it is: `huge_class_size` in its driver.
const KEPT_AS_IS: usize = 3264;
/// Part of its size that memory has compressed which is worth nothing.
const WORTHLESS: f64 = 0.8;
/// How long a judgement holds: for what compresses, and for what does not.
const GOOD_FOR: Nanos = Nanos(120_000_000_000);
const BAD_FOR: Nanos = Nanos(300_000_000_000);
/// Between two looks for those that hold no longer.
const SWEEP: Nanos = Nanos(1_000_000_000);

/// A piece of address space.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    /// Pages that were looked at.
    pages: u32,
    /// Bytes of them, compressed.
    compressed: u64,
    /// It begins anew then.
    until: Nanos,
    left_alone: bool,
}

impl Piece {
    fn add(&mut self, compressed: usize) {
        let kept = if compressed < KEPT_AS_IS { compressed as u64 } else { PAGE_BYTES };
        (self.pages, self.compressed) = (self.pages + 1, self.compressed + kept);
    }

    fn is_worthless(&self) -> bool {
        let all = f64::from(self.pages) * PAGE_BYTES as f64;
        self.pages >= JUDGED && self.compressed as f64 >= WORTHLESS * all
    }
}

/// Pieces of a process's address space that were looked at lately, by their number.
#[derive(Debug, Default)]
pub struct Probes {
    pieces: BTreeMap<u64, Piece>,
    /// When those are next dropped that are to begin anew.
    sweep: Nanos,
}

/// What has come of looking at pages that are about to leave.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sifted {
    /// They may go.
    pub fit: Vec<Unit>,
    /// They stay.
    pub unfit: Vec<Span>,
    /// Pieces that were found not to compress just now, of which pages may be out already.
    pub found: Vec<Span>,
}

impl Probes {
    /// What of `units`, which are in memory, may be compressed, and what shall stay.
    pub fn sift(&mut self, target: &Target, units: &[Unit], now: Nanos) -> Sifted {
        if now >= self.sweep {
            self.pieces.retain(|_, piece| piece.until > now);
            self.sweep = now.saturating_add(SWEEP);
        }
        let mut sifted = Sifted::default();
        for unit in units {
            let number = unit.span.start.0 / PIECE;
            let piece = self.pieces.entry(number).or_default();
            if piece.until <= now {
                *piece = Piece { until: now.saturating_add(GOOD_FOR), ..Piece::default() };
            }
            let step = unit.span.pages.div_ceil(SAMPLE.into()).max(1) as usize;
            for page in unit.span.iter().step_by(step) {
                if piece.pages >= SAMPLE || piece.left_alone {
                    break;
                }
                // What cannot be read is the kernel's to judge.
                if let Some(compressed) = compressed(target, page) {
                    piece.add(compressed);
                }
            }
            if !piece.left_alone && piece.is_worthless() {
                (piece.left_alone, piece.until) = (true, now.saturating_add(BAD_FOR));
                sifted.found.push(span_of(number));
            }
        }
        // Also those that were looked at before their piece was judged.
        let stays = |unit: &&Unit| self.pieces[&(unit.span.start.0 / PIECE)].left_alone;
        let (unfit, fit): (Vec<&Unit>, Vec<&Unit>) = units.iter().partition(stays);
        sifted.unfit = unfit.into_iter().map(|unit| unit.span).collect();
        sifted.fit = fit.into_iter().copied().collect();
        sifted
    }

    /// Address space that does not compress, ascending and apart.
    pub fn left_alone(&self, now: Nanos) -> Vec<Span> {
        let left = self.pieces.iter().filter(|(_, piece)| piece.left_alone && piece.until > now);
        left.map(|(number, _)| span_of(*number)).collect()
    }
}

fn span_of(number: u64) -> Span {
    Span::new(Vpn(number * PIECE), PIECE)
}

/// Bytes that a page takes compressed.
fn compressed(target: &Target, page: Vpn) -> Option<usize> {
    let (mut bytes, mut compressed) = ([0; PAGE_BYTES as usize], [0; MOST_COMPRESSED]);
    let is_read = contents::read(target, page, &mut bytes);
    is_read.then(|| block::compress_into(&bytes, &mut compressed).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::rng::Rng;
    use frostline_linux::Root;

    /// Pages of this process whose first `random` bytes are random, in whole pieces.
    fn memory(random: usize, rng: &mut Rng) -> (Vec<u8>, Span) {
        let mut bytes = vec![7_u8; 3 * (PIECE * PAGE_BYTES) as usize];
        for page in bytes.chunks_exact_mut(PAGE_BYTES as usize) {
            page[..random].iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
        }
        let first = (bytes.as_ptr() as u64).div_ceil(PIECE * PAGE_BYTES) * PIECE;
        (bytes, Span::new(Vpn(first), 2 * PIECE))
    }

    fn units(span: Span) -> Vec<Unit> {
        let unit = |span| Unit { span, huge: false, from: Some(TierId::FAST) };
        span.pieces(64).map(unit).collect()
    }

    #[test]
    fn what_does_not_compress_stays_until_it_is_looked_at_again() {
        let target = Target::open(&Root::system(), std::process::id()).unwrap();
        let (mut rng, mut probes) = (Rng::new(3), Probes::default());
        let now = Nanos(1);
        // The random part of a page is offset by where the memory begins in its page, which changes nothing.
        let (_text, compressible) = memory(1200, &mut rng);
        let (mut noise, random) = memory(4096, &mut rng);
        let all = units(compressible);
        let whole = Sifted { fit: all.clone(), ..Sifted::default() };
        assert_eq!(probes.sift(&target, &all, now), whole);
        let all = units(random);
        let sifted = probes.sift(&target, &all, now);
        assert_eq!((sifted.fit.len(), sifted.unfit.len()), (0, all.len()));
        let left = [Span::new(random.start, PIECE), Span::new(Vpn(random.start.0 + PIECE), PIECE)];
        assert_eq!((probes.left_alone(now), sifted.found), (left.to_vec(), left.to_vec()));
        // It stays so whatever comes to be there, and is judged anew after minutes.
        noise.fill(1);
        let sifted = probes.sift(&target, &all, Nanos(BAD_FOR.0));
        assert!(sifted.fit.is_empty() && sifted.found.is_empty(), "{sifted:?}");
        let later = Nanos(BAD_FOR.0 + 2);
        assert!(probes.left_alone(later).is_empty());
        assert_eq!(probes.sift(&target, &all, later).fit.len(), all.len());
    }

    #[test]
    fn what_cannot_be_read_goes_as_it_is() {
        let target = Target::open(&Root::system(), std::process::id()).unwrap();
        let all = units(Span::new(Vpn(1), 128));
        let mut probes = Probes::default();
        assert_eq!(probes.sift(&target, &all, Nanos(1)).fit, all);
    }
}
