//! Slowdown by size of fast memory: how much of it is enough.

use super::palette::Palette;
use super::plot::{Entry, Plot, legend};
use super::svg::{Unit, data, frame, number, round_up};
use frostline_core::policy::registry;
use frostline_study::{PolicyStudy, TraceStudy};

const PERCENT: Unit = Unit { divisor: 0.01, name: "%" };
const TIMES: Unit = Unit { divisor: 1.0, name: "×" };

/// The chart; empty where there is one size only.
pub fn chart(trace: &TraceStudy, palette: &Palette) -> String {
    let footprint = trace.footprint.bytes() as f64;
    let mut sizes: Vec<_> = trace.sizes.iter().collect();
    sizes.sort_by_key(|size| size.fast_bytes);
    sizes.dedup_by_key(|size| size.fast_bytes);
    let [_, .., largest] = sizes[..] else { return String::new() };
    let share = |bytes: u64| bytes as f64 / footprint.max(1.0);
    let stat = |policy: &PolicyStudy| policy.stat(|run| run.slowdown_vs_all_fast);
    let upper = |p: &PolicyStudy| stat(p).mean + stat(p).half_width.unwrap_or(0.0);
    let worst = sizes.iter().flat_map(|s| s.policies.iter().map(upper)).fold(1.0, f64::max);
    let step = round_up((worst - 1.0) / 5.0);
    let top = 1.0 + ((worst - 1.0) / step).ceil().max(1.0) * step;

    let mut plot = Plot::new(260.0, [0.0, share(largest.fast_bytes) * 1.02], [1.0, top]);
    plot.x_axis(PERCENT, "fast memory (% of the footprint)", number);
    plot.y_axis(TIMES, "slowdown (×)", number);
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
            Some((share(size.fast_bytes), stat(policy)))
        });
        let points: Vec<_> = of_spec.collect();
        let line: Vec<(f64, f64)> = points.iter().map(|(x, stat)| (*x, stat.mean)).collect();
        plot.curve(&look.stroke, &line, spec, Some(i + 1));
        for (x, stat) in points {
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
            let cell = |spec| named(spec).map_or_else(String::new, |p| stat(p).show(3));
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
            "Modelled run time against all memory being fast (1, the bottom). Lower is better.{whiskers}"
        ),
        &(plot.show(label, &description) + &legend(&entries) + &data(&headings, &rows)),
    )
}
