//! The report of programs beside the generators that stand for them.

use super::pairs::{Nothing, Pair, Verdict};
use super::show;
use frostline_report::html::svg::{escape, table};
use frostline_report::html::{self, Curve, document};
use frostline_terminal::errors;
use std::fmt::Write;

/// The whole page.
pub fn page(pairs: &[Pair]) -> String {
    let [close, fair] = Verdict::LIMITS;
    let lead = format!(
        "Recorded programs beside the generators that stand for them. Distances are from 0 (alike) to 1; \
         the worst of three is close up to {close}, fair up to {fair}, off above"
    );
    let mut body = String::from("<section><h2>Distances</h2>");
    body.push_str(&table(&show::HEADINGS.map(str::to_owned), &show::rows(pairs)));
    body.push_str("</section>\n");
    pairs.iter().for_each(|pair| body.push_str(&section(pair)));
    let heading = "How near are generators to real programs?";
    document(heading, heading, &lead, &body)
}

fn section(pair: &Pair) -> String {
    let program = pair.program;
    let mut out = format!("<section><h2>{}</h2>", escape(program.name));
    match &pair.outcome {
        Err(Nothing::Missing(missing)) => {
            let _ = write!(out, "<p>Not compared: {}</p>", escape(missing));
        }
        Err(Nothing::Failed(error)) => {
            let _ = write!(out, "<p>Not recorded: {}</p>", escape(&errors::text(error)));
        }
        Ok(found) => {
            let name = format!("{} {}", program.program, found.version);
            let mut curves: Vec<Curve<'_>> = vec![(&name, "s0", &found.real)];
            if let Some(made) = &found.made {
                let _ = write!(
                    out,
                    "<p>{} beside <code>{}</code>: <b>{}</b>, miss ratios {:.3} apart on average and {:.3} \
                     at most, popularity {:.3}, use of huge pages {:.3}.</p>",
                    escape(&name),
                    escape(&made.generator),
                    made.verdict.word(),
                    made.distance.miss_curve,
                    made.distance.miss_curve_max,
                    made.distance.popularity,
                    made.distance.utilisation
                );
                curves.push(("generator", "s1 d1", &made.profile));
            }
            out.push_str(&html::curves(&curves));
        }
    }
    out.push_str("</section>\n");
    out
}
