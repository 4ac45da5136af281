//! Random values of parameters, as texts of descriptions.

use frostline_core::rng::Rng;

/// Draws one value after the other.
pub struct Draw {
    rng: Rng,
}

impl Draw {
    /// The draws of a number, which do not depend on those of others.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut seeds = Rng::new(seed);
        let own = seeds.next_u64().wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { rng: Rng::new(own) }
    }

    /// One of them.
    pub fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len() as u64) as usize]
    }

    /// Whether something of this probability, in per cent, happens.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// An integer of a range whose end is included, each as likely.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// An integer of a range whose end is included, each order of magnitude as likely.
    pub fn magnitude(&mut self, least: u64, most: u64) -> u64 {
        let (low, high) = ((least as f64).ln(), (most as f64).ln());
        let drawn = (low + (high - low) * self.rng.unit_f64()).exp();
        (drawn.round() as u64).clamp(least, most)
    }

    /// A share, as per cent.
    pub fn percent(&mut self, least: u64, most: u64) -> String {
        format!("{}%", self.within(least, most))
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_range_and_follow_from_the_number() {
        let draws = |number| {
            let mut draw = Draw::new(7, number);
            (0..100).map(|_| draw.magnitude(5, 96)).collect::<Vec<_>>()
        };
        assert!(draws(1).iter().all(|n| (5..=96).contains(n)));
        assert!(draws(1).iter().any(|n| *n < 12) && draws(1).iter().any(|n| *n > 40));
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        let mut draw = Draw::new(1, 1);
        assert!((0..100).map(|_| draw.within(2, 3)).all(|n| n == 2 || n == 3));
    }
}
