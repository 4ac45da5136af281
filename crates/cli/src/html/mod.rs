//! The report: one file with everything in it. It asks nothing of the network and runs no script.

mod bars;
mod heatmap;
mod numbers;
mod over_time;
mod palette;
mod paper;
mod png;
mod svg;

use crate::experiment::Outcome;
use crate::experiment::file::Experiment;
use crate::study::{SizeStudy, Study, TraceStudy, is_online};
use crate::units::{bytes, count};
use crate::{files, progress, summary};
use palette::Palette;
use std::fmt::Write;
use std::path::Path;
use svg::escape;

const STYLE: &str = include_str!("style.css");
/// Shared by all charts.
const DEFINITIONS: &str = "<svg width=\"0\" height=\"0\" style=\"position:absolute\" \
    aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" height=\"6\" \
    patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><line class=\"hatch\" x1=\"0\" \
    y1=\"0\" x2=\"0\" y2=\"6\"/></pattern></defs></svg>";

/// Writes the report.
///
/// # Errors
/// Where the file cannot be written.
pub fn write(path: &Path, study: &Study) -> anyhow::Result<()> {
    let page = page(study, "", "How much fast memory does it need?");
    files::write_whole(path, page.as_bytes())?;
    progress::note(&format!("report written to {}", path.display()));
    Ok(())
}

/// Writes the report of an experiment: the paper's numbers beside ours, then the study.
///
/// # Errors
/// Where the file cannot be written.
pub fn write_experiment(
    path: &Path,
    experiment: &Experiment,
    outcome: &Outcome,
) -> anyhow::Result<()> {
    let page = page(&outcome.study, &paper::section(experiment, outcome), &experiment.title);
    files::write_whole(path, page.as_bytes())?;
    progress::note(&format!("report written to {}", path.display()));
    Ok(())
}

/// The page as text: the same for the same study. `before` comes before the traces.
fn page(study: &Study, before: &str, heading: &str) -> String {
    let names: Vec<&str> = study.traces.iter().map(|t| t.name.as_str()).collect();
    let specs = study.traces.iter().flat_map(|t| &t.sizes).flat_map(|s| &s.policies);
    let palette = Palette::new(specs.map(|p| p.spec.as_str()));
    let title = escape(&names.join(", "));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title} – Frostline</title>\n<style>\n{STYLE}</style></head>\n<body>{DEFINITIONS}<main>\n\
         <h1>{}</h1>\n\
         <p class=\"lead muted\">Placement policies replayed on {}: <code>{}</code></p>\n",
        escape(heading),
        match names.len() {
            1 => "a trace".to_owned(),
            n => format!("{n} traces"),
        },
        escape(&summary::machine(&study.machine)),
    );
    out.push_str(before);
    for trace in &study.traces {
        trace_section(&mut out, study, trace, &palette);
    }
    honesty(&mut out, study);
    let _ = write!(out, "<footer>frostline {}</footer>\n</main></body></html>\n", version());
    out
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn trace_section(out: &mut String, study: &Study, trace: &TraceStudy, palette: &Palette) {
    let _ = writeln!(out, "<section><h2><code>{}</code></h2>", escape(&trace.name));
    verdict(out, trace);
    facts(out, study, trace);
    for size in &trace.sizes {
        let _ = writeln!(
            out,
            "<h3>Fast memory {} <small>{}</small></h3><p class=\"muted\">{}</p>",
            escape(&size.fast.to_string()),
            bytes(size.fast_bytes as f64),
            escape(&sentence(&summary::bound_line(size)))
        );
        let (slowdown, share) =
            (bars::slowdown(size, palette), bars::share_of_bound(size, palette));
        let _ = writeln!(out, "<div class=\"grid\">{slowdown}{share}</div>");
    }
    let middle = trace.sizes.len() / 2;
    for (i, size) in trace.sizes.iter().enumerate() {
        over_time(out, size, i == middle, palette);
    }
    if let Some((map, policy)) = heatmap_of(trace) {
        out.push_str(&heatmap::chart(map, policy));
    }
    out.push_str("<h3>All numbers</h3>\n");
    if study.seeds.len() > 1 {
        let seeds = summary::seeds(&study.seeds);
        let _ = writeln!(
            out,
            "<p class=\"muted\">Seeds {}; charts over time show the first.</p>",
            escape(&seeds)
        );
    }
    out.push_str(&numbers::table(trace));
    out.push_str("</section>\n");
}

fn over_time(out: &mut String, size: &SizeStudy, open: bool, palette: &Palette) {
    let _ = writeln!(
        out,
        "<details{}><summary>Over time, fast memory {}</summary>{}<div class=\"grid\">{}{}</div></details>",
        if open { " open" } else { "" },
        escape(&size.fast.to_string()),
        over_time::hit_ratio(size, palette),
        over_time::classes(size),
        over_time::migration(size)
    );
}

/// The first policy that tiers stands for the trace; where there is none, any.
fn heatmap_of(trace: &TraceStudy) -> Option<(&frostline_sim::Heatmap, &str)> {
    let size = trace.sizes.get(trace.sizes.len() / 2)?;
    let policy = size.policies.iter().find(|p| is_online(&p.spec)).or(size.policies.first())?;
    Some((policy.first().heatmap.as_ref()?, &policy.spec))
}

/// What it comes down to, one line per size.
fn verdict(out: &mut String, trace: &TraceStudy) {
    out.push_str("<div class=\"verdict\"><ul>");
    for size in &trace.sizes {
        let ranked = size.ranked();
        let Some(best) = ranked.iter().find(|p| is_online(&p.spec)).or(ranked.first()) else {
            continue;
        };
        let slowdown = best.stat(|r| r.slowdown_vs_all_fast).mean;
        let _ = write!(
            out,
            "<li>With {} of fast memory ({}), <b>{}</b> runs <b>{slowdown:.2} ×</b> as long as with \
             fast memory only",
            bytes(size.fast_bytes as f64),
            escape(&size.fast.to_string()),
            escape(&best.spec)
        );
        let first_touch = ranked.iter().find(|p| p.spec == "first-touch" && p.spec != best.spec);
        if let Some(reference) = first_touch {
            let slowdown = reference.stat(|r| r.slowdown_vs_all_fast).mean;
            let _ = write!(out, "; without tiering (first-touch) {slowdown:.2} ×");
        }
        if let Some(share) = best.stat_option(|r| r.share_of_bound).filter(|share| share.mean > 0.0)
        {
            let _ =
                write!(out, ". It saves {:.0} % of what any placement could", share.mean * 100.0);
        }
        out.push_str(".</li>");
    }
    out.push_str("</ul></div>\n");
}

fn facts(out: &mut String, study: &Study, trace: &TraceStudy) {
    let header = &trace.header;
    let thinning = f64::from(header.thinning.max(1));
    let accesses = count(trace.footprint.records as f64 * thinning);
    let mut facts = vec![("Footprint", bytes(trace.footprint.bytes() as f64))];
    facts.push((
        "Accesses to memory",
        match header.thinning {
            0 | 1 => accesses,
            n => format!("{accesses}, thinned: one record stands for {n}"),
        },
    ));
    if let Some(program) = summary::program(trace) {
        facts.push(("Program", program));
    }
    if let Some(llc) = &header.llc {
        facts.push((
            "Last-level cache",
            format!("{}, {} ways", bytes(llc.size_bytes as f64), llc.ways),
        ));
    }
    for tier in &study.machine.tiers {
        facts.push((
            "Tier",
            format!(
                "{}: {} ns, {} GB/s read, {} GB/s written{}",
                tier.name,
                tier.read_ns,
                svg::number(tier.read_bytes_per_second / 1e9),
                svg::number(tier.write_bytes_per_second / 1e9),
                if tier.direct_access { "" } else { ", no direct access" }
            ),
        ));
    }
    let huge = if study.machine.os.thp { "2 MiB folios and 4 KiB pages" } else { "4 KiB pages" };
    let tlb = if study.tlb { "TLB modelled" } else { "TLB not modelled" };
    facts.push(("Pages", format!("{huge}, {tlb}")));
    facts.push(("Scale", summary::scale(trace.scale)));
    facts.push(("Seeds", summary::seeds(&study.seeds)));
    out.push_str("<dl class=\"facts\">");
    for (name, value) in facts {
        let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(&value));
    }
    out.push_str("</dl>\n");
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
