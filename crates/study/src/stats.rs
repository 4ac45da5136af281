//! Means with intervals.

use std::fmt;

/// Mean of several runs with the half width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half width by Student's t; none for a single run.
    pub half_width: Option<f64>,
}

/// 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The normal distribution's, which the t distribution approaches.
const T_MANY: f64 = 1.960;

impl Stat {
    /// Over all values; 0 for none.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let n = values.clone().count();
        if n == 0 {
            return Self { mean: 0.0, half_width: None };
        }
        let mean = values.clone().sum::<f64>() / n as f64;
        let half_width = (n > 1).then(|| {
            let variance = values.map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            T.get(n - 2).copied().unwrap_or(T_MANY) * (variance / n as f64).sqrt()
        });
        Self { mean, half_width }
    }

    /// In another unit.
    pub fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, half_width: self.half_width.map(|w| w * factor) }
    }

    /// `1.234` or `1.234 ±0.005`.
    pub fn show(self, decimals: usize) -> String {
        match self.half_width {
            Some(width) => format!("{:.decimals$} ±{width:.decimals$}", self.mean),
            None => format!("{:.decimals$}", self.mean),
        }
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show(f.precision().unwrap_or(3)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let stat = Stat::of([1.0, 2.0, 3.0, 4.0, 5.0].into_iter());
        assert_eq!(stat.mean, 3.0);
        // s = 1.5811, s / sqrt(5) = 0.70711, times 2.776.
        assert!((stat.half_width.unwrap() - 1.9629).abs() < 1e-3);
        assert_eq!(format!("{stat:.1}"), "3.0 ±2.0");
    }

    #[test]
    fn a_single_run_has_no_interval() {
        let stat = Stat::of([2.0].into_iter());
        assert_eq!((stat.mean, stat.half_width), (2.0, None));
        assert_eq!(stat.show(2), "2.00");
        assert_eq!(Stat::of([].into_iter()).mean, 0.0);
    }
}
