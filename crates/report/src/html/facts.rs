//! Facts of a run: its trace, and the machine.

use super::svg::{escape, number};
use crate::summary;
use crate::units::{bytes, count};
use frostline_study::{Study, TraceStudy};
use std::fmt::Write;

/// About one trace.
pub fn of_trace(trace: &TraceStudy) -> String {
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
    if let Some(program) = summary::command(header) {
        facts.push(("Program", program));
    }
    if let Some(llc) = &header.llc {
        facts.push((
            "Last-level cache",
            format!("{}, {} ways", bytes(llc.size_bytes as f64), llc.ways),
        ));
    }
    facts.push(("Scale", summary::scale(trace.scale)));
    list(&facts)
}

/// About all runs.
pub fn of_run(study: &Study) -> String {
    let mut facts = Vec::new();
    for tier in &study.machine.tiers {
        facts.push((
            "Tier",
            format!(
                "{}: {} ns, {} GB/s read, {} GB/s written{}",
                tier.name,
                tier.read_ns,
                number(tier.read_bytes_per_second / 1e9),
                number(tier.write_bytes_per_second / 1e9),
                if tier.direct_access { "" } else { ", no direct access" }
            ),
        ));
    }
    let huge = if study.machine.os.thp { "2 MiB folios and 4 KiB pages" } else { "4 KiB pages" };
    let tlb = if study.tlb { "TLB modelled" } else { "TLB not modelled" };
    facts.push(("Pages", format!("{huge}, {tlb}")));
    facts.push(("Seeds", summary::seeds(&study.seeds)));
    format!("<section><h2>The machine</h2>{}</section>\n", list(&facts))
}

fn list(facts: &[(&str, String)]) -> String {
    let mut out = String::from("<dl class=\"facts\">");
    for (name, value) in facts {
        let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
    }
    out.push_str("</dl>\n");
    out
}
