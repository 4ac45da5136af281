//! Laws of popularity, which say what key is asked for next, and orders of keys.

use frostline_core::rng::Rng;

/// Popularity of keys.
#[derive(Clone, Copy, Debug)]
pub enum Law {
    /// Normal around the middle key; the standard deviation as a share of all keys.
    Gauss(f64),
    /// Zipf with this exponent, scrambled: popular keys lie anywhere.
    Zipf(f64),
}

/// Draws keys.
#[derive(Debug)]
pub struct Keys {
    count: u32,
    rng: Rng,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Gauss { deviation: f64 },
    Zipf { zipf: Zipf, key_of: Vec<u32> },
}

impl Keys {
    pub fn new(law: Law, count: u32, mut rng: Rng) -> Self {
        let kind = match law {
            Law::Gauss(share) => Kind::Gauss { deviation: share * f64::from(count) },
            Law::Zipf(s) => {
                Kind::Zipf { zipf: Zipf::new(count, s), key_of: shuffled(count, &mut rng) }
            }
        };
        Self { count, rng, kind }
    }

    pub fn draw(&mut self) -> u32 {
        match &self.kind {
            Kind::Gauss { deviation } => loop {
                let key = f64::from(self.count) / 2.0 + deviation * normal(&mut self.rng);
                if (0.0..f64::from(self.count)).contains(&key) {
                    return key as u32;
                }
            },
            Kind::Zipf { zipf, key_of } => key_of[zipf.draw(&mut self.rng) as usize],
        }
    }
}

/// The Zipf law over `0..count`, 0 the most popular.
#[derive(Debug)]
pub struct Zipf {
    up_to: Vec<f64>,
}

impl Zipf {
    pub fn new(count: u32, s: f64) -> Self {
        let mut sum = 0.0;
        let up_to = (1..=count).map(|rank| {
            sum += f64::from(rank).powf(-s);
            sum
        });
        Self { up_to: up_to.collect() }
    }

    pub fn draw(&self, rng: &mut Rng) -> u32 {
        let all = self.up_to.last().copied().unwrap_or(0.0);
        let at = rng.unit_f64() * all;
        self.up_to.partition_point(|&sum| sum <= at).min(self.up_to.len() - 1) as u32
    }
}

/// Normal with mean 0 and deviation 1, by the method of Box and Muller.
pub fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit_f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit_f64()).cos()
}

/// `0..count` in random order.
pub fn shuffled(count: u32, rng: &mut Rng) -> Vec<u32> {
    let mut all: Vec<u32> = (0..count).collect();
    rng.shuffle(&mut all);
    all
}

/// Letters, so many.
pub fn letters(count: usize, rng: &mut Rng) -> Vec<u8> {
    let mut text: Vec<u8> = Vec::with_capacity(count + 7);
    while text.len() < count {
        text.extend(rng.next_u64().to_le_bytes().map(|byte| b'a' + byte % 26));
    }
    text.truncate(count);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(law: Law) -> Vec<u32> {
        let mut keys = Keys::new(law, 1000, Rng::new(1));
        let mut counts = vec![0; 1000];
        (0..200_000).for_each(|_| counts[keys.draw() as usize] += 1);
        counts
    }

    #[test]
    fn two_thirds_are_within_a_deviation_of_the_middle() {
        let counts = counts(Law::Gauss(1.0 / 6.0));
        let near: u32 = counts[333..667].iter().sum();
        assert!((0.67..0.70).contains(&(f64::from(near) / 200_000.0)), "{near}");
    }

    #[test]
    fn the_first_rank_is_twice_as_popular_as_the_second() {
        let mut counts = counts(Law::Zipf(1.0));
        counts.sort_unstable_by_key(|&n| std::cmp::Reverse(n));
        let ratio = f64::from(counts[0]) / f64::from(counts[1]);
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
        let share = f64::from(counts[0]) / 200_000.0;
        assert!((0.13..0.14).contains(&share), "one of 7.485: {share}");
    }

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut all = shuffled(1000, &mut Rng::new(3));
        assert!(!all.is_sorted());
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1000));
    }
}
