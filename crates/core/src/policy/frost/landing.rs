//! Landing of folios: the chance that fast memory has room in one piece for one that comes.
//!
//! A folio that finds none is refused, and what has left for it has left in vain. It is split then, as kernels
//! do.

/// Weight of the last try.
const WEIGHT: f32 = 0.25;
/// Part of the doubt that each plan takes away, since memory becomes whole again.
const FORGIVEN: f32 = 1.0 / 256.0;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landing {
    chance: f32,
}

impl Default for Landing {
    fn default() -> Self {
        Self { chance: 1.0 }
    }
}

impl Landing {
    /// A folio has come, or was refused though there was room in pieces.
    pub(super) fn tried(&mut self, came: bool) {
        self.chance += WEIGHT * (f32::from(u8::from(came)) - self.chance);
    }

    /// A plan begins.
    pub(super) fn pass(&mut self) {
        self.chance += FORGIVEN * (1.0 - self.chance);
    }

    /// That a folio comes, `[0, 1]`.
    pub(super) fn chance(self) -> f32 {
        self.chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_doubted_for_a_while() {
        let mut landing = Landing::default();
        (0..8).for_each(|_| landing.tried(false));
        assert!(landing.chance() < 0.2);
        landing.tried(true);
        assert!(landing.chance() > 0.25);
        (0..4096).for_each(|_| landing.pass());
        assert!(landing.chance() > 0.99);
    }
}
