//! Zipf-distributed ranks, exactly and fast.
//!
//! Ranks are cut into groups: single ones at first, then as wide as 1/64 of their first rank. A
//! group is drawn by the alias method (Walker 1977; Vose 1991) with the weight that it would have
//! if all its ranks were as likely as its first; a rank in it is drawn uniformly and kept with the
//! probability of its true weight relative to the first's, otherwise all is drawn anew. This is
//! rejection sampling (von Neumann 1951), hence exact. About s/128 of the draws are rejected, and
//! the table of about a thousand groups stays in the cache, for any number of ranks.

use frostline_core::rng::Rng;

const RELATIVE_WIDTH: u64 = 64;

/// Entry of the alias table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// The entry's own group is taken up to this fraction of 2^64, else `alias`.
    keep: u64,
    alias: u32,
}

impl Choice {
    /// Highest fraction of 2^64 at which the entry itself is kept, and the other one.
    pub(super) const fn parts(self) -> (u64, u32) {
        (self.keep, self.alias)
    }
}

#[derive(Clone, Copy, Debug)]
struct Group {
    first: u32,
    width: u32,
    /// Any rank of the group is accepted up to this fraction of 2^64.
    accept: u64,
}

/// Draws ranks `0..n` with probability proportional to `1 / (rank + 1)^s`.
#[derive(Clone, Debug)]
pub struct ZipfLaw {
    s: f64,
    choices: Vec<Choice>,
    groups: Vec<Group>,
}

impl ZipfLaw {
    /// `n` at least 1, `s` at least 0.
    pub fn new(n: u32, s: f64) -> Self {
        let mut groups = Vec::new();
        let mut weights = Vec::new();
        let mut first = 0u64;
        while first < u64::from(n) {
            let width = (first / RELATIVE_WIDTH).max(1).min(u64::from(n) - first);
            weights.push(width as f64 * ((first + 1) as f64).powf(-s));
            let last = ratio(first, first + width - 1, s);
            // Slightly low, so that rounding never accepts too much without the exact test.
            let accept = if width == 1 { u64::MAX } else { fraction(last * (1.0 - 1e-12)) };
            groups.push(Group { first: first as u32, width: width as u32, accept });
            first += width;
        }
        Self { s, choices: alias_table(&weights), groups }
    }

    /// Fills `ranks`.
    pub fn fill(&self, rng: &mut ZipfRng, ranks: &mut [u32]) {
        // In two passes, the first without a branch: most of the time went into branches
        // mispredicted.
        for rank in ranks.iter_mut() {
            *rank = self.group(&mut rng.groups);
        }
        for rank in ranks {
            let group = *rank;
            *rank = match self.rank_in(group, &mut rng.offsets) {
                Some(rank) => rank,
                None => self.draw(rng),
            };
        }
    }

    /// One rank.
    #[inline]
    pub fn draw(&self, rng: &mut ZipfRng) -> u32 {
        loop {
            let group = self.group(&mut rng.groups);
            if let Some(rank) = self.rank_in(group, &mut rng.offsets) {
                return rank;
            }
        }
    }

    #[inline]
    fn group(&self, rng: &mut Rng) -> u32 {
        let (index, rest) = split(rng.next_u64(), self.choices.len() as u64);
        let choice = self.choices[index as usize];
        if rest <= choice.keep { index as u32 } else { choice.alias }
    }

    /// A rank of the group, or none where it is rejected.
    #[inline]
    fn rank_in(&self, group: u32, rng: &mut Rng) -> Option<u32> {
        let group = &self.groups[group as usize];
        let (offset, rest) = split(rng.next_u64(), u64::from(group.width));
        let rank = group.first + offset as u32;
        (rest <= group.accept || self.accept_exactly(group.first, rank, rest)).then_some(rank)
    }

    #[cold]
    fn accept_exactly(&self, first: u32, rank: u32, rest: u64) -> bool {
        rest <= fraction(ratio(u64::from(first), u64::from(rank), self.s))
    }
}

/// Randomness for [`ZipfLaw`]: two generators, so that neither waits for the other.
#[derive(Clone, Debug)]
pub struct ZipfRng {
    groups: Rng,
    offsets: Rng,
}

impl ZipfRng {
    /// Both are made from this one.
    pub fn new(rng: &mut Rng) -> Self {
        Self { groups: rng.fork(), offsets: rng.fork() }
    }
}

/// Weight of `rank` relative to that of `first`.
fn ratio(first: u64, rank: u64, s: f64) -> f64 {
    ((first + 1) as f64 / (rank + 1) as f64).powf(s)
}

/// As a fraction of 2^64; saturates.
fn fraction(p: f64) -> u64 {
    (p * 18_446_744_073_709_551_616.0) as u64
}

/// Uniform number below `n` and the fraction of 2^64 left over, from 64 random bits.
#[inline]
fn split(random: u64, n: u64) -> (u64, u64) {
    let product = u128::from(random) * u128::from(n);
    ((product >> 64) as u64, product as u64)
}

/// Walker's table: an entry is drawn uniformly, and kept or exchanged.
pub(super) fn alias_table(weights: &[f64]) -> Vec<Choice> {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let mut choices: Vec<Choice> =
        (0..weights.len()).map(|i| Choice { keep: u64::MAX, alias: i as u32 }).collect();
    let mut left: Vec<f64> = weights.iter().map(|w| w / mean).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..left.len()).partition(|&i| left[i] < 1.0);
    while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
        small.pop();
        choices[poor] = Choice { keep: fraction(left[poor]), alias: rich as u32 };
        left[rich] -= 1.0 - left[poor];
        if left[rich] < 1.0 {
            large.pop();
            small.push(rich);
        }
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chi_square_ok;

    fn check(n: u32, s: f64, draws: u64, seed: u64) {
        let law = ZipfLaw::new(n, s);
        let mut rng = ZipfRng::new(&mut Rng::new(seed));
        let mut counts = vec![0u64; n as usize];
        let mut ranks = [0u32; 256];
        for _ in 0..draws / 256 {
            law.fill(&mut rng, &mut ranks);
            for &rank in &ranks {
                counts[rank as usize] += 1;
            }
        }
        let pmf: Vec<f64> = (0..n).map(|r| f64::from(r + 1).powf(-s)).collect();
        chi_square_ok(&counts, &pmf);
    }

    #[test]
    fn follows_the_law() {
        for (n, s) in [(1, 1.0), (2, 0.5), (63, 0.99), (64, 1.0), (65, 1.2), (1000, 0.99)] {
            check(n, s, 2_000_000, 11);
        }
        check(500, 0.0, 1_000_000, 5);
        check(3000, 2.5, 1_000_000, 6);
    }

    #[test]
    fn wide_groups_are_rejected_into_shape() {
        // With s = 10 the ranks of one group differ by up to 15 %: the exact test decides often.
        let law = ZipfLaw::new(4096, 0.99);
        assert!(law.groups.last().is_some_and(|g| g.width > 1 && g.accept < u64::MAX));
        check(4096, 0.99, 8_000_000, 7);
        check(256, 10.0, 1_000_000, 8);
    }

    #[test]
    fn groups_cover_every_rank_once() {
        for n in [1u32, 100, 128, 129, 70_000, 1 << 28] {
            let law = ZipfLaw::new(n, 0.99);
            let mut next = 0;
            for group in &law.groups {
                assert_eq!(group.first, next);
                next += group.width;
            }
            assert_eq!(next, n);
            assert!(law.groups.len() < 2500);
        }
    }
}
