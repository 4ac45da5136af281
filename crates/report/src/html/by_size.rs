//! Slowdown by size of fast memory: how much of it is enough.

use super::palette::Palette;
use super::plot::{Entry, Plot, legend};
use super::svg::{Unit, data, frame, number, round_up, slowest_shown};
use crate::units;
use frostline_core::policy::registry;
use frostline_study::{PolicyStudy, SizeStudy, TraceStudy};

const PERCENT: Unit = Unit { divisor: 0.01, name: "%" };
const TIMES: Unit = Unit { divisor: 1.0, name: "×" };

/// Slowdown that most can live with; a dashed line.
const GOAL: f64 = 1.05;

/// The chart; empty where there is one size only.
pub fn chart(trace: &TraceStudy, palette: &Palette) -> String {
    let footprint = trace.footprint.bytes() as f64;
    let mut sizes: Vec<_> = trace.sizes.iter().collect();
    sizes.sort_by_key(|size| size.fast_bytes);
    sizes.dedup_by_key(|size| size.fast_bytes);
    let [_, .., largest] = sizes[..] else { return String::new() };
    let share = |bytes: u64| bytes as f64 / footprint.max(1.0);
    let upper = |size: &SizeStudy, p: &PolicyStudy| {
        let stat = size.slowdown(p);
        stat.mean + stat.half_width.unwrap_or(0.0)
    };
    let uppers = sizes.iter().flat_map(|size| size.policies.iter().map(|p| upper(size, p)));
    let worst = slowest_shown(uppers);
    let step = round_up((worst - 1.0) / 5.0);
    let top = 1.0 + ((worst - 1.0) / step).ceil().max(1.0) * step;

    let mut plot = Plot::new(260.0, [0.0, share(largest.fast_bytes) * 1.02], [1.0, top]);
    plot.x_axis(PERCENT, "fast memory (% of the footprint)", number);
    plot.y_axis(TIMES, "slowdown (×)", number);
    plot.limit(GOAL);
    for size in &sizes {
        plot.note(share(size.fast_bytes), &size.fast.to_string());
    }
    let ranked: Vec<&str> = sizes[sizes.len() / 2].ranked().iter().map(|p| &*p.spec).collect();
    let shown: Vec<&str> = ranked.into_iter().filter(|spec| *spec != registry::ALL_FAST).collect();
    let mut entries = Vec::new();
    let looks: Vec<_> = shown.iter().map(|spec| palette.look(spec)).collect();
    for (i, (spec, look)) in shown.iter().zip(&looks).enumerate() {
        let of_spec = sizes.iter().filter_map(|size| {
            let policy = size.policies.iter().find(|policy| policy.spec == *spec)?;
            Some((share(size.fast_bytes), size.slowdown(policy)))
        });
        let points: Vec<_> = of_spec.collect();
        let line: Vec<(f64, f64)> =
            points.iter().map(|(x, stat)| (*x, stat.mean.min(top))).collect();
        plot.curve(&look.stroke, &line, spec, Some(i + 1));
        for (x, stat) in points {
            if stat.mean > top {
                plot.beyond(x, &format!("↑ {} ×", number((stat.mean * 10.0).round() / 10.0)));
                continue;
            }
            plot.dot(&look.fill, x, stat.mean, stat.half_width);
        }
        entries.push(Entry::Line(&look.stroke, Some(i + 1), spec));
    }

    let headings: Vec<String> = std::iter::once("fast memory".to_owned())
        .chain(shown.iter().map(|spec| format!("{spec} (×)")))
        .collect();
    let rows: Vec<Vec<String>> = sizes
        .iter()
        .map(|size| {
            let named = |spec: &&str| size.policies.iter().find(|p| p.spec == **spec);
            let cell = |spec| named(spec).map_or_else(String::new, |p| size.slowdown(p).show(3));
            std::iter::once(size.fast.to_string()).chain(shown.iter().map(cell)).collect()
        })
        .collect();
    let label = "Slowdown of every policy by size of fast memory";
    let best = shown.first().map_or("none", |spec| *spec);
    let description = format!("{} sizes; best at the middle one: {best}", sizes.len());
    let several = sizes.iter().flat_map(|size| &size.policies).any(|p| p.runs.len() > 1);
    let whiskers = if several { " Whiskers are 95 % intervals." } else { "" };
    frame(
        "How much fast memory is enough?",
        &format!(
            "Modelled run time against all memory being fast (1, the bottom). Lower is better.{whiskers} {}",
            goal(&sizes, &shown)
        ),
        &(plot.show(label, &description) + &legend(&entries) + &data(&headings, &rows)),
    )
}

/// The smallest size, of ascending ones, at which a policy of `shown` loses no more than [`GOAL`] says.
fn goal(sizes: &[&SizeStudy], shown: &[&str]) -> String {
    let reached = sizes.iter().find_map(|size| {
        let ranked = size.ranked();
        let best = ranked.into_iter().find(|policy| shown.contains(&&*policy.spec))?;
        (size.slowdown(best).mean <= GOAL).then(|| {
            let bytes = units::bytes(size.fast_bytes as f64);
            format!("5 % (dashed) is reached at {bytes} ({}), by {}.", size.fast, best.spec)
        })
    });
    reached.unwrap_or_else(|| "5 % (dashed) is not reached at any of these sizes.".to_owned())
}
