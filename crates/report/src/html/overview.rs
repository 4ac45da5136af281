//! All traces at a glance.

use super::svg::{escape, spec};
use frostline_core::policy::registry;
use frostline_study::Study;
use std::fmt::Write;

/// Where a trace's section is.
pub fn anchor(trace: usize) -> String {
    format!("trace-{}", trace + 1)
}

/// A table of slowdowns: a line per trace and size, a column per policy.
pub fn section(study: &Study, names: &[&str]) -> String {
    let mut policies: Vec<&str> = Vec::new();
    for policy in study.traces.iter().flat_map(|t| &t.sizes).flat_map(|s| &s.policies) {
        if policy.spec != registry::ALL_FAST && !policies.contains(&policy.spec.as_str()) {
            policies.push(&policy.spec);
        }
    }
    let mut out = String::from(
        "<section><h2>Slowdown at a glance</h2><p class=\"muted\">Modelled run time against all \
         memory being fast, lower is better; the best of each line is bold.</p>\
         <div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">trace</th>\
         <th scope=\"col\">fast</th>",
    );
    for policy in &policies {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(policy));
    }
    out.push_str("</tr></thead><tbody>");
    for (i, (trace, name)) in study.traces.iter().zip(names).enumerate() {
        for size in &trace.sizes {
            let _ = write!(
                out,
                "<tr><th scope=\"row\"><a href=\"#{}\">{}</a></th><td>{}</td>",
                anchor(i),
                spec(name),
                escape(&size.fast.to_string())
            );
            let stat = |spec: &str| {
                let policy = size.policies.iter().find(|policy| policy.spec == spec)?;
                Some(size.slowdown(policy))
            };
            let means = policies.iter().filter_map(|spec| stat(spec)).map(|stat| stat.mean);
            let best = means.fold(f64::INFINITY, f64::min);
            for policy in &policies {
                let Some(stat) = stat(policy) else {
                    out.push_str("<td>-</td>");
                    continue;
                };
                let mean = format!("{:.2}", stat.mean);
                let mean = if stat.mean <= best { format!("<b>{mean}</b>") } else { mean };
                let width = stat.half_width.map(|width| format!(" <small>±{width:.2}</small>"));
                let _ = write!(out, "<td>{mean}{}</td>", width.unwrap_or_default());
            }
            out.push_str("</tr>");
        }
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}
