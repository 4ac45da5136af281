//! Normally distributed keys, as benchmarks draw them.

use frostline_core::rng::Rng;

/// Draws `0..keys` by the normal law around the middle, cut off at both ends.
#[derive(Clone, Debug)]
pub(super) struct NormalLaw {
    keys: u32,
    deviation: f64,
    rng: Rng,
    spare: Option<f64>,
}

impl NormalLaw {
    /// `deviation` is a share of `keys` and not 0.
    pub(super) fn new(keys: u32, deviation: f64, rng: Rng) -> Self {
        Self { keys, deviation, rng, spare: None }
    }

    /// One key.
    pub(super) fn draw(&mut self) -> u32 {
        loop {
            let normal = match self.spare.take() {
                Some(spare) => spare,
                None => self.pair(),
            };
            let key = f64::from(self.keys) * (0.5 + self.deviation * normal);
            if key >= 0.0 && key < f64::from(self.keys) {
                return key as u32;
            }
        }
    }

    /// Marsaglia's polar method: two at a time.
    fn pair(&mut self) -> f64 {
        loop {
            let [x, y] = [0, 1].map(|_| 2.0 * self.rng.unit_f64() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * scale);
                return x * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chi_square_ok;

    #[test]
    fn keys_follow_the_normal_law() {
        let mut law = NormalLaw::new(1200, 1.0 / 6.0, Rng::new(3));
        let mut counts = vec![0u64; 1200];
        for _ in 0..1_000_000 {
            counts[law.draw() as usize] += 1;
        }
        let density = |key: usize| (-0.5 * ((key as f64 + 0.5 - 600.0) / 200.0).powi(2)).exp();
        chi_square_ok(&counts, &(0..1200).map(density).collect::<Vec<_>>());
    }
}
