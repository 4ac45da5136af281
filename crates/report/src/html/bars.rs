//! Comparison bars: slowdown and share of the bound.

use super::palette::Palette;
use super::rows::Rows;
use super::svg::{frame, number, round_up, slowest_shown, spec};
use frostline_study::stats::Stat;
use frostline_study::{PolicyStudy, SizeStudy};

/// Run time against all-fast. Bars begin at 1: their lengths compare as the time that is lost does. One that
/// would squeeze all others ends at the border, and its number says how long it is.
pub fn slowdown(size: &SizeStudy, palette: &Palette) -> String {
    let stat = |policy: &PolicyStudy| size.slowdown(policy);
    let upper = |p: &&PolicyStudy| stat(p).mean + stat(p).half_width.unwrap_or(0.0);
    let ranked = size.ranked();
    let worst = slowest_shown(ranked.iter().map(upper));
    let mut rows = Rows::new("", [1.0, above(worst)], "run time, all memory fast = 1", |v| {
        format!("{} ×", number(v))
    });
    for policy in &ranked {
        let picture = rows.bar(&palette.look(&policy.spec).fill, stat(policy).mean)
            + &rows.whisker(stat(policy).mean, stat(policy).half_width);
        rows.row(&spec(&policy.spec), &value(stat(policy), 3, "×"), &picture);
    }
    frame(
        "Slowdown",
        "Modelled run time against all memory being fast (1, the left edge). Shorter is better; a bar that \
         reaches the right edge may be longer.",
        &rows.show(&format!("Slowdown of every policy at {}, the fastest first", size.fast)),
    )
}

/// Share of the bound. Empty where no policy has one.
pub fn share_of_bound(size: &SizeStudy, palette: &Palette) -> String {
    let Ok(bound) = &size.bound else { return String::new() };
    let stat = |policy: &PolicyStudy| policy.stat_option(|run| run.share_of_bound);
    let shares: Vec<Stat> = size.policies.iter().filter_map(stat).collect();
    if shares.is_empty() {
        return String::new();
    }
    // Moving the wrong pages costs more than it saves; what is far below ends at the border.
    let worst = shares.iter().map(|s| s.mean - s.half_width.unwrap_or(0.0)).fold(0.0, f64::min);
    let least = (worst * 4.0).floor().max(-4.0) / 4.0;
    let percent = |v: f64| format!("{} %", number(v * 100.0).replace('-', "−"));
    let mut rows = Rows::new("", [least, 1.0], "share of the bound's saving", percent);
    rows.unsure(bound.feasible_share, 1.0);
    rows.limit(1.0);
    for policy in size.ranked() {
        let (value, picture) = match stat(policy) {
            Some(share) => (
                value(share.times(100.0), 1, "%"),
                rows.bar(&palette.look(&policy.spec).fill, share.mean)
                    + &rows.whisker(share.mean, share.half_width),
            ),
            None => ("<small>more fast memory</small>".to_owned(), String::new()),
        };
        rows.row(&spec(&policy.spec), &value, &picture);
    }
    frame(
        "Share of the bound",
        &format!(
            "Saved memory latency, migration paid, of what no placement can beat. Longer is better. \
             A plan that knows the future is known to reach {:.1} %; beyond that (hatched) the bound \
             may promise too much.",
            bound.feasible_share * 100.0
        ),
        &rows.show(&format!("Share of the bound of every policy at {}", size.fast)),
    )
}

/// The next round value that leaves some room.
fn above(value: f64) -> f64 {
    let step = round_up((value - 1.0) / 8.0);
    1.0 + ((value - 1.0) / step * 1.001).ceil().max(1.0) * step
}

/// `1.234 ±0.005 ×`, the interval less prominent than the mean.
pub fn value(stat: Stat, decimals: usize, unit: &str) -> String {
    let mean = format!("{:.decimals$}", stat.mean).replace('-', "−");
    match stat.half_width {
        Some(width) => format!("<b>{mean}</b> <small>±{width:.decimals$}</small> {unit}"),
        None => format!("<b>{mean}</b> {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_above_the_longest_bar() {
        for (longest, end) in
            [(1.0, 2.0), (1.08, 1.09), (1.63, 1.7), (2.42, 2.6), (7.9, 8.0), (121.0, 141.0)]
        {
            assert!((above(longest) - end).abs() < 1e-9, "{longest}: {}", above(longest));
        }
    }

    #[test]
    fn minus_is_a_minus() {
        let stat = Stat { mean: -3.04, half_width: Some(0.7) };
        assert_eq!(value(stat, 1, "%"), "<b>−3.0</b> <small>±0.7</small> %");
    }
}
