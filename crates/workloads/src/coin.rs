//! Random decisions of a given probability.

use frostline_core::rng::Rng;
use frostline_core::types::AccessKind;
use frostline_trace::batch::Column;

/// Heads with a given probability, exact to 2^-32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coin {
    below: u64,
}

impl Coin {
    pub(super) fn new(probability: f64) -> Self {
        Self { below: (probability * 4_294_967_296.0).round() as u64 }
    }

    /// Throws once.
    #[inline]
    pub(super) fn throw(self, rng: &mut Rng) -> bool {
        rng.next_u64() >> 32 < self.below
    }

    /// Stores for heads, loads for tails.
    pub(super) fn fill(self, rng: &mut Rng, len: usize, kinds: &mut Column) {
        if self.below == 0 {
            return kinds.set_constant(AccessKind::Load as u32);
        }
        let kinds = kinds.values_mut();
        kinds.reserve(len + 1);
        while kinds.len() < len {
            let random = rng.next_u64();
            let kind = |half: u64| {
                u32::from(half < self.below) * (AccessKind::Store as u32 - AccessKind::Load as u32)
            };
            kinds.extend([kind(random & 0xffff_ffff), kind(random >> 32)]);
        }
        kinds.truncate(len);
    }
}
