//! Calm: the share of samples that fast memory serves is what it has been.

/// Samples of a block.
const BLOCK: u32 = 64;

/// Blocks before one can be unusual.
const LEAST_BLOCKS: u32 = 8;

/// Watches the hit ratio of samples in blocks, against mean and spread of the blocks before.
#[derive(Clone, Debug, Default)]
pub(super) struct Calm {
    samples: u32,
    hits: u32,
    blocks: u32,
    sum: f64,
    squares: f64,
}

impl Calm {
    /// Counts samples, at most one block of them; true where a block that ends with them has far
    /// fewer hits than those before. A program that alternates has a wide spread and is calm.
    pub(super) fn observe(&mut self, samples: u32, hits: u32) -> bool {
        self.samples += samples;
        self.hits += hits;
        if self.samples < BLOCK {
            return false;
        }
        let ratio = f64::from(self.hits) / f64::from(self.samples);
        let blocks = f64::from(self.blocks.max(1));
        let mean = self.sum / blocks;
        let chance = mean * (1.0 - mean) / f64::from(self.samples);
        let variance = (self.squares / blocks - mean * mean).max(chance);
        let drop = (mean - ratio).max(0.0);
        let unusual = self.blocks >= LEAST_BLOCKS && drop * drop > 16.0 * variance;
        (self.samples, self.hits) = (0, 0);
        self.blocks += 1;
        self.sum += ratio;
        self.squares += ratio * ratio;
        unusual
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn blocks(calm: &mut Calm, hits: impl IntoIterator<Item = u32>) -> Vec<usize> {
        let unusual = hits.into_iter().map(|hits| calm.observe(BLOCK, hits));
        unusual.enumerate().filter(|(_, unusual)| *unusual).map(|(i, _)| i).collect()
    }

    #[test]
    fn a_drop_is_noticed_and_a_rise_is_not() {
        let steady = (0..20).map(|i| 48 + i % 5);
        let mut calm = Calm::default();
        assert_eq!(blocks(&mut calm, steady.chain([64, 64, 50, 10])), [23]);
    }

    #[test]
    fn ups_and_downs_are_calm() {
        let mut calm = Calm::default();
        assert!(blocks(&mut calm, (0..60).map(|i| if i % 6 < 2 { 64 } else { 0 })).is_empty());
    }

    #[test]
    fn small_chunks_make_blocks() {
        let mut calm = Calm::default();
        let steps = (0..400).map(|_| calm.observe(10, 8)).filter(|unusual| *unusual).count();
        assert_eq!((steps, calm.blocks), (0, 57));
    }
}
