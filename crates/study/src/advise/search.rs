//! Sizes to look at, so that few replays tell how much is needed.

use super::curve::Curve;

/// Unit of sizes: a part of the footprint.
pub(super) const UNITS: u32 = 1024;
/// Smallest size that is looked at, in units.
pub(super) const LEAST: u32 = 16;
/// Sizes that are looked at first, in units.
pub(super) const FIRST: [u32; 10] = [64, 128, 192, 256, 384, 512, 640, 768, 896, UNITS];
/// By how much smaller the next size is, where the smallest is enough.
const SMALLER: u32 = 4;
/// A replay is close enough to the answer where it is within one part in so many, or one unit.
const CLOSE: f64 = 40.0;
/// Least part of a goal that a loss counts as where the answer is guessed on an exponential curve.
const LEAST_LOSS: f64 = 0.25;

pub(super) fn share(units: u32) -> f64 {
    f64::from(units) / f64::from(UNITS)
}

fn units(share: f64) -> f64 {
    share * f64::from(UNITS)
}

/// Sizes to look at next, ascending; none where all answers are close to a replay. `spare` is how many are looked
/// at in no more time than one.
pub(super) fn next(curve: &Curve, goals: &[f64], spare: usize) -> Vec<u32> {
    let mut next: Vec<u32> = goals.iter().filter_map(|goal| one(curve, *goal)).collect();
    if next.len() < spare {
        let others: Vec<u32> = goals.iter().filter_map(|goal| other(curve, *goal)).collect();
        next.extend(others);
    }
    next.sort_unstable();
    next.dedup();
    next.retain(|size| curve.points().iter().all(|(share, _)| units(*share) != f64::from(*size)));
    next
}

/// Where the answer is likely, unless a replay is close.
fn one(curve: &Curve, goal: f64) -> Option<u32> {
    let Some((below, above)) = bracket(curve, goal) else {
        let (least, loss) = *curve.points().first()?;
        let least = units(least) as u32;
        return (loss <= goal && least > LEAST).then(|| (least / SMALLER).max(LEAST));
    };
    let size = line(below, above, goal);
    let far = (size - below.0).min(above.0 - size);
    if far <= (size / CLOSE).max(1.0) || above.0 - below.0 <= 1.0 {
        return None;
    }
    // A line is above a curve that falls ever more slowly, as most do, and an exponential curve often below.
    inside(below, above, (size + exponential(below, above, goal)) / 2.0)
}

/// Another size between the same two, on the other side of the likely one.
fn other(curve: &Curve, goal: f64) -> Option<u32> {
    one(curve, goal)?;
    let (below, above) = bracket(curve, goal)?;
    inside(below, above, line(below, above, goal))
}

/// Sizes, in units, and their losses, between which the answer is.
fn bracket(curve: &Curve, goal: f64) -> Option<((f64, f64), (f64, f64))> {
    let (below, above) = curve.bracket(goal)?;
    let in_units = |(share, loss): (f64, f64)| (units(share), loss);
    Some((in_units(below), in_units(above)))
}

fn line(below: (f64, f64), above: (f64, f64), goal: f64) -> f64 {
    below.0 + (above.0 - below.0) * (below.1 - goal) / (below.1 - above.1)
}

fn exponential(below: (f64, f64), above: (f64, f64), goal: f64) -> f64 {
    let part = (below.1 / goal).ln() / (below.1 / above.1.max(goal * LEAST_LOSS)).ln();
    below.0 + (above.0 - below.0) * part
}

fn inside(below: (f64, f64), above: (f64, f64), size: f64) -> Option<u32> {
    let (low, high) = (below.0 as u32 + 1, above.0 as u32 - 1);
    (low <= high).then(|| (size.round() as u32).clamp(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Answers, and replays, of a search on a curve.
    fn search(loss: impl Fn(f64) -> f64, goals: &[f64], spare: usize) -> (Curve, usize) {
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut sizes = FIRST.to_vec();
        while !sizes.is_empty() {
            points.extend(sizes.iter().map(|size| (share(*size), loss(share(*size)))));
            sizes = next(&Curve::new(points.clone()), goals, spare);
        }
        let replays = points.len();
        (Curve::new(points), replays)
    }

    #[test]
    fn few_replays_find_the_answers_of_a_smooth_curve() {
        // 30 % at nothing, and a tenth of it with every third of the memory.
        let loss = |size: f64| 0.3 * (-7.0 * size).exp();
        let goals = [0.01, 0.02, 0.05, 0.1];
        let (curve, replays) = search(loss, &goals, 2);
        for goal in goals {
            let right = (0.3 / goal).ln() / 7.0;
            let found = curve.size_for(goal).expect("there is one");
            assert!((found / right - 1.0).abs() < 0.03, "{goal}: {found}, not {right}");
        }
        assert!(replays <= 18, "{replays}");
    }

    #[test]
    fn sizes_below_the_first_are_looked_at_where_they_may_be_enough() {
        let (curve, _) = search(|size| 0.0005 / size, &[0.02], 2);
        let found = curve.size_for(0.02).expect("there is one");
        assert!((found / 0.025 - 1.0).abs() < 0.05, "{found}");
        let (curve, _) = search(|_| 0.0, &[0.02], 2);
        assert_eq!(curve.points().first(), Some(&(share(LEAST), 0.0)));
        let (_, replays) = search(|_| 1.0, &[0.02], 2);
        assert_eq!(replays, FIRST.len(), "nothing is enough");
    }

    proptest! {
        #[test]
        fn a_search_ends_close_to_its_answer(
            steps in proptest::collection::vec(0.0_f64..0.1, UNITS as usize + 1),
            goal in 0.001_f64..0.2,
            spare in 1_usize..4,
        ) {
            // Any curve, even one that rises.
            let loss = |size: f64| steps[units(size) as usize];
            let (curve, replays) = search(loss, &[goal], spare);
            prop_assert!(replays < 60);
            if let (Some(size), Some((below, above))) = (curve.size_for(goal), curve.bracket(goal)) {
                let far = (size - below.0).min(above.0 - size);
                prop_assert!(far <= (size / CLOSE).max(share(1)) + 1e-9);
            }
        }
    }
}
