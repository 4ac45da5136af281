//! The report: one file with everything in it. It asks nothing of the network and runs no script.

mod advice;
mod bars;
mod by_size;
mod facts;
pub mod heatmap;
mod numbers;
pub mod over_time;
mod overview;
pub mod palette;
mod picture;
pub mod plot;
mod profile;
pub mod rows;
pub mod svg;

use crate::summary;
use crate::units::bytes;
pub use advice::{Advised, advice};
use frostline_core::policy::registry;
use frostline_sim::Heatmaps;
use frostline_study::{NoBound, SizeStudy, Study, TraceStudy, is_online};
use palette::Palette;
pub use profile::{Curve, curves, profile};
use std::fmt::Write;
use svg::{escape, spec};

const STYLE: &str = include_str!("style.css");
/// Shared by all charts.
const DEFINITIONS: &str = "<svg width=\"0\" height=\"0\" style=\"position:absolute\" \
    aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" height=\"6\" \
    patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><line class=\"hatch\" x1=\"0\" \
    y1=\"0\" x2=\"0\" y2=\"6\"/></pattern></defs></svg>";

/// The report of a study.
pub fn study(study: &Study) -> String {
    let names: Vec<&str> = study.traces.iter().map(|trace| trace.name.as_str()).collect();
    let lead = format!("Placement policies replayed on {}", traces(names.len()));
    page(study, &names, ["How much fast memory does it need?", &lead], "")
}

/// `a trace`, `3 traces`.
pub fn traces(n: usize) -> String {
    match n {
        1 => "a trace".to_owned(),
        n => format!("{n} traces"),
    }
}

/// A study under a heading: the same page for the same study. `names` are those of its traces, `before`
/// is HTML that comes before them.
pub fn page(study: &Study, names: &[&str], [heading, lead]: [&str; 2], before: &str) -> String {
    let specs = study.traces.iter().flat_map(|t| &t.sizes).flat_map(|s| &s.policies);
    let palette = Palette::new(specs.map(|p| p.spec.as_str()));
    let title = if before.is_empty() { names.join(", ") } else { heading.to_owned() };
    let lead =
        format!("{}: <code>{}</code>", escape(lead), escape(&summary::machine(&study.machine)));
    let mut out = String::new();
    out.push_str(before);
    let sizes = study.traces.iter().any(|trace| !trace.sizes.is_empty());
    if study.traces.len() > 1 && sizes {
        out.push_str(&overview::section(study, names));
    }
    for (i, trace) in study.traces.iter().enumerate().filter(|_| sizes) {
        trace_section(&mut out, study, (i, names[i]), trace, &palette);
    }
    out.push_str(&facts::of_run(study));
    honesty(&mut out, study);
    document(&title, heading, &lead, &out)
}

/// A whole page with its foot: `lead` and `body` are HTML, the others text.
pub fn document(title: &str, heading: &str, lead: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{} – Frostline</title>\n<style>\n{STYLE}</style></head>\n<body>{DEFINITIONS}<main>\n\
         <h1>{}</h1>\n<p class=\"lead muted\">{lead}</p>\n{body}<footer>frostline {}</footer>\n\
         </main></body></html>\n",
        escape(title),
        escape(heading),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Maps of a trace's accesses over time, with all memory fast.
pub fn heatmaps(trace: &str, maps: &Heatmaps) -> String {
    let by_address = heatmap::chart(&maps.by_address, registry::ALL_FAST);
    let heading = "Accesses by place in memory over time";
    let order = "the order of the places that it was given";
    let by_frame = heatmap::titled(&maps.by_frame, registry::ALL_FAST, heading, order);
    let lead = format!("<code>{}</code>", spec(trace));
    let body = format!("<section>{by_address}{by_frame}</section>");
    document(trace, "Where is memory accessed, and when?", &lead, &body)
}

fn trace_section(
    out: &mut String,
    study: &Study,
    (index, name): (usize, &str),
    trace: &TraceStudy,
    palette: &Palette,
) {
    let _ = write!(out, "<section id=\"{}\"><h2>", overview::anchor(index));
    match name == trace.name {
        true => out.push_str(&format!("<code>{}</code></h2>\n", spec(name))),
        false => {
            let _ = writeln!(
                out,
                "{} <small><code>{}</code></small></h2>",
                escape(name),
                spec(&trace.name)
            );
        }
    }
    verdict(out, trace);
    out.push_str(&by_size::chart(trace, palette));
    let middle = trace.sizes.len() / 2;
    for (i, size) in trace.sizes.iter().enumerate() {
        size_section(out, study, size, index == 0 && i == middle, palette);
    }
    if let Some((map, policy)) = heatmap_of(trace) {
        out.push_str(&heatmap::chart(map, policy));
    }
    out.push_str(&facts::of_trace(trace));
    out.push_str("</section>\n");
}

fn size_section(out: &mut String, study: &Study, size: &SizeStudy, open: bool, palette: &Palette) {
    let fast = escape(&size.fast.to_string());
    let _ = writeln!(
        out,
        "<h3>Fast memory {fast} <small>{}</small></h3>",
        bytes(size.fast_bytes as f64)
    );
    if !matches!(size.bound, Err(NoBound::NotAsked)) {
        let line = escape(&sentence(&summary::bound_line(size)));
        let _ = writeln!(out, "<p class=\"muted\">{line}</p>");
    }
    let (slowdown, share) = (bars::slowdown(size, palette), bars::share_of_bound(size, palette));
    let _ = writeln!(out, "<div class=\"grid\">{slowdown}{share}</div>");
    let first = match study.seeds.len() {
        1 => "",
        _ => "<p class=\"muted\">Charts over time show the first seed.</p>",
    };
    let _ = writeln!(
        out,
        "<details{}><summary>Over time, fast memory {fast}</summary>{first}{}\
         <div class=\"grid\">{}{}</div></details>",
        if open { " open" } else { "" },
        over_time::hit_ratio(size, palette),
        over_time::classes(size),
        over_time::migration(size)
    );
    let _ = writeln!(
        out,
        "<details><summary>All numbers, fast memory {fast}</summary>{}</details>",
        numbers::of_size(size)
    );
}

/// The first policy that tiers stands for the trace; where there is none, any.
fn heatmap_of(trace: &TraceStudy) -> Option<(&frostline_sim::Heatmap, &str)> {
    let size = trace.sizes.get(trace.sizes.len() / 2)?;
    let policy = size.policies.iter().find(|p| is_online(&p.spec)).or(size.policies.first())?;
    Some((&policy.first().heatmaps.as_ref()?.by_address, &policy.spec))
}

/// What it comes down to, one line per size.
fn verdict(out: &mut String, trace: &TraceStudy) {
    out.push_str("<div class=\"verdict\"><ul>");
    for size in &trace.sizes {
        let ranked = size.ranked();
        let Some(best) = ranked.iter().find(|p| is_online(&p.spec)).or(ranked.first()) else {
            continue;
        };
        let slowdown = size.slowdown(best).mean;
        let _ = write!(
            out,
            "<li>With {} of fast memory ({}), <b>{}</b> runs <b>{slowdown:.2} ×</b> as long as with \
             fast memory only",
            bytes(size.fast_bytes as f64),
            escape(&size.fast.to_string()),
            escape(&best.spec)
        );
        let share = best.stat_option(|r| r.share_of_bound).filter(|share| share.mean > 0.0);
        if let Some(share) = share {
            let percent = share.mean * 100.0;
            let _ = write!(out, " and saves {percent:.0} % of what any placement could");
        }
        let first_touch =
            ranked.iter().find(|p| p.spec == registry::FIRST_TOUCH && p.spec != best.spec);
        if let Some(reference) = first_touch {
            let slowdown = size.slowdown(reference).mean;
            let _ = write!(out, "; without tiering (first-touch) {slowdown:.2} ×");
        }
        out.push_str(".</li>");
    }
    out.push_str("</ul></div>\n");
}

/// With a capital in front and a full stop behind.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

fn honesty(out: &mut String, study: &Study) {
    let tlb = match study.tlb {
        true => "misses of the translation lookaside buffer, ",
        false => "",
    };
    let no_tlb = match study.tlb {
        true => "",
        false => "<li>The translation lookaside buffer: <code>--tlb on</code> models it.</li>",
    };
    let _ = writeln!(
        out,
        "<section><h2>What these numbers are</h2>\
         <p>Times are <b>modelled</b>, not measured: the accesses of the trace are replayed against a \
         model of the machine on a virtual clock. The policies are the real code.</p>\
         <p><b>Modelled:</b> latency and bandwidth of each tier with queueing, a constant memory-level \
         parallelism, page faults, 2 MiB folios with their bloat, {tlb}sampling and its cost, migration, \
         splits, collapses and shootdowns with theirs, and background work.</p>\
         <p><b>Not modelled:</b></p><ul class=\"notes\">\
         <li>How another placement would change the order of accesses, or what the caches hold: the \
         trace is fixed.</li>{no_tlb}\
         <li>Other programs, the kernel's own memory, devices, and input and output.</li>\
         <li>Hardware prefetching into caches, and the difference between dependent and independent \
         misses.</li></ul>\
         <p>An access is a record that reached memory, after the caches of the recording. The share of \
         the bound counts unqueued latency, and migration at the cheapest rate, on both sides; faults, \
         TLB and processor time are left out of it.</p></section>"
    );
}
