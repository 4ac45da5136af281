//! Slowdown by size of fast memory, and the size that a slowdown takes.

/// Losses at sizes, by ascending size. Sizes are shares of the footprint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// Of sizes and what is lost with each, in any order; each size once.
    pub fn new(mut points: Vec<(f64, f64)>) -> Self {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { points }
    }

    /// Sizes and losses, by ascending size.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Size from which on no more than `goal` is lost, whatever more there is: between two points in a straight
    /// line. `None` where that is not so with the largest; the smallest where it always is.
    pub fn size_for(&self, goal: f64) -> Option<f64> {
        let fits = |(_, loss): &&(f64, f64)| *loss <= goal;
        let enough = self.points.iter().rev().take_while(fits).count();
        let first = self.points.len() - enough;
        let &(size, loss) = self.points.get(first)?;
        let Some(&(below, lost)) = first.checked_sub(1).map(|index| &self.points[index]) else {
            return Some(size);
        };
        Some(below + (size - below) * (lost - goal) / (lost - loss))
    }

    /// What is lost with `size`: between two points in a straight line, beyond them as at the next. `None` where
    /// there are no points.
    pub fn loss_with(&self, size: f64) -> Option<f64> {
        let above = self.points.partition_point(|(point, _)| *point < size);
        let Some(&(to, after)) = self.points.get(above) else {
            return self.points.last().map(|(_, loss)| *loss);
        };
        let Some(&(from, before)) = above.checked_sub(1).map(|below| &self.points[below]) else {
            return Some(after);
        };
        Some(before + (after - before) * (size - from) / (to - from))
    }

    /// Sizes between which the answer is, and their losses: the largest with which more than `goal` is lost, and
    /// the next.
    pub fn bracket(&self, goal: f64) -> Option<((f64, f64), (f64, f64))> {
        let index = self.points.iter().rposition(|(_, loss)| *loss > goal)?;
        Some((self.points[index], *self.points.get(index + 1)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_lies_in_a_straight_line_between_two_points() {
        let curve = Curve::new(vec![(1.0, 0.0), (0.5, 0.02), (0.25, 0.1)]);
        assert_eq!(curve.size_for(0.01), Some(0.75));
        assert_eq!(curve.bracket(0.01), Some(((0.5, 0.02), (1.0, 0.0))));
        assert_eq!(curve.size_for(0.2), Some(0.25));
        assert_eq!(curve.bracket(0.2), None);
        assert_eq!(Curve::new(vec![(0.5, 0.2), (1.0, 0.1)]).size_for(0.05), None);
        assert_eq!(Curve::default().size_for(0.05), None);
        let losses = [0.1, 0.25, 0.75, 1.0, 2.0].map(|size| curve.loss_with(size).expect("points"));
        assert_eq!(losses, [0.1, 0.1, 0.01, 0.0, 0.0]);
        assert_eq!(Curve::default().loss_with(0.5), None);
    }

    proptest! {
        #[test]
        fn whatever_is_larger_than_the_answer_is_enough(
            losses in proptest::collection::vec(0.0_f64..0.2, 1..40), goal in 0.001_f64..0.2
        ) {
            let points = losses.iter().enumerate().map(|(i, loss)| ((i + 1) as f64, *loss)).collect();
            let curve = Curve::new(points);
            // By brute force: the first from which on all are enough.
            let enough = (0..=losses.len()).find(|i| losses[*i..].iter().all(|loss| *loss <= goal));
            let enough = enough.filter(|i| *i < losses.len());
            match (curve.size_for(goal), enough) {
                (None, None) => {}
                (Some(size), Some(index)) => {
                    prop_assert!(size <= (index + 1) as f64 && (index == 0 || size >= index as f64));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
