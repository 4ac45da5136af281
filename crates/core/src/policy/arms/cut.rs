//! Least density of the pages that fill fast memory.

use super::averages::Ranked;

/// Steps of densities: eight for each power of two, from 2^-24 on.
const STEPS: usize = 8 * 48;

/// Step of a density above 0.
fn step(density: f32) -> usize {
    let octaves = libm::log2f(density) + 24.0;
    ((octaves * 8.0).max(0.0) as usize).min(STEPS - 1)
}

/// Least density of a step.
fn least(step: usize) -> f32 {
    libm::exp2f(step as f32 / 8.0 - 24.0)
}

/// The density from which on all pages fit into `room` pages: by steps, so that at most a tenth of a
/// density is between two pages that are told apart.
pub(super) fn cut(ranked: &[Ranked], room: u64) -> f32 {
    let mut pages = [0u64; STEPS];
    for unit in ranked.iter().filter(|unit| unit.density > 0.0) {
        pages[step(unit.density)] += u64::from(unit.pages);
    }
    let mut sum = 0;
    for step in (0..STEPS).rev() {
        sum += pages[step];
        if sum > room {
            return least(step + 1);
        }
    }
    0.0
}
