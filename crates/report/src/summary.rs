//! A study in the terminal.

use crate::table::{Table, wrap};
use crate::units::{bytes, count, percent, seconds};
use frostline_core::Foreign;
use frostline_sim::{Machine, RunReport};
use frostline_study::{PolicyStudy, SizeStudy, Study, TraceStudy};
use frostline_trace::TraceHeader;
use std::fmt::Write;

/// What the columns mean.
const LEGEND: &str = "
slowdown: modelled time, moves included, over the least that any of these
          takes with all memory fast
of bound: share of the memory latency saved that no placement can exceed; it
          knows of no waiting for policies, so a slow policy may score well
";

/// The whole study: a head and one table per trace and size.
pub fn show(study: &Study) -> String {
    let mut out = String::new();
    for (i, trace) in study.traces.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        head(&mut out, study, trace);
        for size in &trace.sizes {
            out.push('\n');
            let _ = writeln!(out, "fast {} = {}", size.fast, bytes(size.fast_bytes as f64));
            let _ = writeln!(out, "  {}", wrap(&bound_line(size), 2));
            out.push_str(&table(size));
            if study.machine.os.thp {
                out.push_str(&base_pages(size));
            }
        }
    }
    out.push_str(LEGEND);
    out
}

fn head(out: &mut String, study: &Study, trace: &TraceStudy) {
    let footprint = bytes(trace.footprint.bytes() as f64);
    let thinning = trace.header.thinning.max(1);
    let accesses = count(trace.footprint.records as f64 * f64::from(thinning));
    let _ = writeln!(out, "trace    {}", trace.name);
    if let Some(program) = command(&trace.header) {
        let _ = writeln!(out, "program  {program}");
    }
    let _ = writeln!(out, "         footprint {footprint}, {accesses} accesses to memory");
    if thinning > 1 {
        let _ = writeln!(out, "         thinned: one record stands for {thinning} accesses");
    }
    let _ = writeln!(out, "machine  {}", machine(&study.machine));
    let pages = if study.machine.os.thp { "2 MiB folios and 4 KiB pages" } else { "4 KiB pages" };
    let _ = writeln!(out, "         TLB {}, {pages}", if study.tlb { "modelled" } else { "off" });
    let _ = writeln!(out, "scale    {}", scale(trace.scale));
    let _ = writeln!(out, "seed     {}", seeds(&study.seeds));
    if study.seeds.len() > 1 && !trace.name.starts_with("synth:") {
        out.push_str("         the trace is the same with each: sampling and policies differ\n");
    }
}

/// The command that was recorded, if one was.
pub fn command(header: &TraceHeader) -> Option<String> {
    let words: Vec<String> = header.command.iter().map(Foreign::to_string).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Name and tiers: `dram-nvm: dram 80 ns, nvm 300 ns`.
pub fn machine(machine: &Machine) -> String {
    let tiers = machine.tiers.iter().map(|tier| {
        let swap = if tier.direct_access { "" } else { ", no direct access" };
        format!("{} {} ns{swap}", tier.name, tier.read_ns)
    });
    format!("{}: {}", machine.name, tiers.collect::<Vec<_>>().join(", "))
}

/// What the scale factor does.
pub fn scale(scale: f64) -> String {
    if scale > 1.0 {
        format!("{scale:.1}: intervals of policies divided by it (--scale paper keeps them)")
    } else {
        "1: intervals of policies as published".to_owned()
    }
}

/// `1`, `1 to 5: mean ± 95 % confidence interval`.
pub fn seeds(seeds: &[u64]) -> String {
    match seeds {
        [] => String::new(),
        [one] => one.to_string(),
        [first, .., last] => format!("{first} to {last}: mean ± 95 % confidence interval"),
    }
}

/// What the bound is, how sure, or why there is none.
pub fn bound_line(size: &SizeStudy) -> String {
    match &size.bound {
        Ok(bound) if bound.saving_upper_ns <= 0.0 => {
            "bound: nothing can be saved by this much fast memory".to_owned()
        }
        Ok(bound) => {
            let saved = seconds(bound.saving_upper_ns / 1e9);
            let all = percent(bound.saving_upper_ns / bound.all_fast_saving_ns);
            format!(
                "bound: saves at most {saved} of memory latency, {all} of what all-fast saves; \
                 gap {:.2} %",
                bound.gap * 100.0
            )
        }
        Err(why) => format!("share of bound n/a: {why}"),
    }
}

fn table(size: &SizeStudy) -> String {
    let mut headings =
        vec!["policy", "fast hits", "slowdown", "of bound", "promoted", "demoted", "splits"];
    let splits = size.policies.iter().any(|policy| whole(policy, |run| run.splits) > 0.0);
    // Beside intervals there is no room for them.
    let seeds = size.policies.iter().any(|policy| policy.runs.len() > 1);
    if !splits || seeds {
        headings.pop();
    }
    let mut table = Table::new(&headings);
    for policy in size.ranked() {
        let mut cells = row(size, policy);
        cells.truncate(headings.len());
        table.row(cells);
    }
    table.show(2)
}

/// Names the policies whose programs had base pages only, where the machine maps folios.
fn base_pages(size: &SizeStudy) -> String {
    let base = |policy: &&PolicyStudy| {
        let pages = policy.first().report.policy_config.get("pages");
        pages.is_some_and(|pages| pages.to_string() == "base")
    };
    let ranked = size.ranked().into_iter().filter(base);
    let names: Vec<&str> = ranked.map(|policy| &*policy.spec).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("  {}\n", wrap(&format!("4 KiB pages only: {}", names.join(", ")), 2))
}

fn whole(policy: &PolicyStudy, number: fn(&RunReport) -> u64) -> f64 {
    policy.stat(|run| number(run) as f64).mean
}

fn row(size: &SizeStudy, policy: &PolicyStudy) -> Vec<String> {
    vec![
        policy.spec.clone(),
        format!("{:.1} %", policy.stat(|run| run.fast_hit_ratio).times(100.0)),
        format!("{:.3} x", size.slowdown(policy)),
        match policy.stat_option(|run| run.share_of_bound) {
            Some(share) => format!("{:.1} %", share.times(100.0)),
            None => "n/a".to_owned(),
        },
        bytes(whole(policy, |run| run.promoted_bytes)),
        bytes(whole(policy, |run| run.demoted_bytes)),
        count(whole(policy, |run| run.splits)),
    ]
}
