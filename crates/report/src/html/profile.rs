//! Memory that traces use: one profile alone, or several over one another.

use super::document;
use super::plot::{Entry, Plot, legend};
use super::svg::{Unit, data, escape, frame, number};
use crate::units::{bytes, count, percent};
use frostline_profile::{Profile, RegionUse};

const PERCENT: Unit = Unit { divisor: 0.01, name: "%" };
/// Leftmost of the logarithmic axes, in halvings of all pages.
const HALVINGS: f64 = 8.0;
/// Points of a curve along a logarithmic axis.
const POINTS: u32 = 128;

/// A curve's name, class and profile.
pub type Curve<'a> = (&'a str, &'static str, &'a Profile);

/// The report of one trace.
pub fn profile(trace: &str, profile: &Profile) -> String {
    let lead = format!(
        "{} accesses to {} by <code>{}</code>",
        count(profile.records() as f64),
        bytes(profile.summary().bytes as f64),
        escape(trace)
    );
    let served = profile.summary().memory.into_iter().filter_map(|row| {
        Some(format!(
            "<li><b>{}</b> serve {} of them</li>",
            bytes(row.bytes? as f64),
            percent(row.served)
        ))
    });
    let served: String = served.collect();
    let body = format!(
        "<section><div class=\"verdict\"><ul>{served}</ul></div>{}</section>",
        curves(&[(trace, "s0", profile)])
    );
    let heading = "How much memory serves how many accesses?";
    document(heading, heading, &lead, &body)
}

/// Misses, popularity of pages and use of huge pages of all of them, over one another.
pub fn curves(curves: &[Curve<'_>]) -> String {
    let touched = regions(
        curves,
        "Touched pages in 2 MiB",
        "Share of the accesses that go to regions of which at most so many pages are touched.",
        |region| region.touched_pages,
    );
    let busy = regions(
        curves,
        "Busy pages in 2 MiB",
        "The same for the fewest pages that take 90 % of a region's accesses: at the left, few pages of a \
         huge page are worth fast memory.",
        |region| region.busy_pages,
    );
    format!("<div class=\"grid\">{}{}{touched}{busy}</div>", misses(curves), popularity(curves))
}

fn misses(curves: &[Curve<'_>]) -> String {
    logarithmic(
        curves,
        "Misses by size of memory",
        "Accesses that miss in a memory that keeps the pages used last (LRU).",
        "memory, of the pages touched",
        "misses (%)",
        Profile::miss_ratio_at,
    )
}

fn popularity(curves: &[Curve<'_>]) -> String {
    logarithmic(
        curves,
        "Popularity of pages",
        "Accesses that the hottest pages take.",
        "hottest pages, of those touched",
        "accesses (%)",
        Profile::popularity,
    )
}

/// Shares over shares of pages, from 1/256 to 1.
fn logarithmic(
    curves: &[Curve<'_>],
    title: &str,
    explained: &str,
    x_title: &str,
    y_title: &str,
    value: fn(&Profile, f64) -> f64,
) -> String {
    let mut plot = Plot::new(220.0, [-HALVINGS, 0.0], [0.0, 1.0]);
    plot.x_axis(Unit { divisor: 1.0, name: "" }, x_title, |halvings| match -halvings {
        h if h < 0.5 => "1".to_owned(),
        h => format!("1/{}", number(h.exp2())),
    });
    plot.y_axis(PERCENT, y_title, number);
    for (name, class, profile) in curves {
        let at = |i| HALVINGS * (f64::from(i) / f64::from(POINTS) - 1.0);
        let points = (0..=POINTS).map(|i| (at(i), value(profile, at(i).exp2())));
        plot.curve(class, &points.collect::<Vec<_>>(), name, None);
    }
    let rows = (0..=8).rev().map(|halvings| {
        let share = f64::from(-halvings).exp2();
        let shown = curves.iter().map(|(_, _, profile)| percent(value(profile, share)));
        std::iter::once(format!("1/{}", 1 << halvings)).chain(shown).collect()
    });
    finish(plot, curves, title, explained, "pages", rows.collect())
}

/// Distribution of accesses over what `of` says of their regions.
fn regions(
    curves: &[Curve<'_>],
    title: &str,
    explained: &str,
    of: fn(&RegionUse) -> u16,
) -> String {
    let mut plot = Plot::new(220.0, [0.0, 512.0], [0.0, 1.0]);
    plot.x_axis(Unit { divisor: 1.0, name: "" }, "pages of 512", number);
    plot.y_axis(PERCENT, "accesses (%)", number);
    let at_most = |profile: &Profile, pages: u16| {
        let below = profile.regions().iter().filter(|region| of(region) <= pages);
        below.map(|region| region.accesses).sum::<u64>() as f64 / profile.records().max(1) as f64
    };
    for (name, class, profile) in curves {
        let points = (0..=512).map(|pages| (f64::from(pages), at_most(profile, pages)));
        plot.curve(class, &points.collect::<Vec<_>>(), name, None);
    }
    let rows = (0..=8).map(|eighth| {
        let pages = eighth * 64;
        let shown = curves.iter().map(|(_, _, profile)| percent(at_most(profile, pages)));
        std::iter::once(pages.to_string()).chain(shown).collect()
    });
    finish(plot, curves, title, explained, "pages of 512", rows.collect())
}

fn finish(
    plot: Plot,
    curves: &[Curve<'_>],
    title: &str,
    explained: &str,
    first: &str,
    rows: Vec<Vec<String>>,
) -> String {
    let names: Vec<&str> = curves.iter().map(|(name, ..)| *name).collect();
    let entries: Vec<Entry<'_>> =
        curves.iter().map(|(name, class, _)| Entry::Line(class, None, name)).collect();
    let headings: Vec<String> =
        std::iter::once(first).chain(names.iter().copied()).map(str::to_owned).collect();
    let label = format!("{title}: {}", names.join(" and "));
    frame(
        title,
        explained,
        &(plot.show(&label, explained) + &legend(&entries) + &data(&headings, &rows)),
    )
}
