//! Runs as rows of CSV, for spreadsheets and data frames: one row for each, the same columns for all.

use frostline_sim::RunReport;
use serde_json::Value;
use std::collections::BTreeMap;

/// Columns that say which run it is; numbers follow by name.
const FIRST: [&str; 7] =
    ["trace", "trace_sha256", "policy", "machine", "fast", "seed", "slowdown_vs_all_fast"];

/// A header and a row for each run: plain values of the report by their names in JSON, those of an
/// object as `object.name`. What depends on the policy, its settings and counters, is in JSON alone.
/// `sha256_of` gives the digest of a trace, where it has one. What is missing is empty.
///
/// # Errors
/// Where a report cannot be written as data.
pub fn runs(
    reports: &[&RunReport],
    sha256_of: impl Fn(&str) -> Option<String>,
) -> Result<String, serde_json::Error> {
    let mut rows = Vec::with_capacity(reports.len());
    for report in reports {
        let mut row = BTreeMap::new();
        if let Value::Object(fields) = serde_json::to_value(report)? {
            for (name, value) in fields {
                flatten(name, value, &mut row);
            }
        }
        row.insert("trace_sha256".to_owned(), sha256_of(&report.trace).unwrap_or_default());
        rows.push(row);
    }
    let mut columns: Vec<String> = FIRST.map(str::to_owned).to_vec();
    let mut rest: Vec<String> = rows.iter().flat_map(BTreeMap::keys).cloned().collect();
    rest.sort_unstable();
    rest.dedup();
    rest.retain(|name| !FIRST.contains(&name.as_str()));
    columns.extend(rest);
    let mut text = line(columns.iter().map(String::as_str));
    for row in &rows {
        text += &line(columns.iter().map(|name| row.get(name).map_or("", String::as_str)));
    }
    Ok(text)
}

fn flatten(name: String, value: Value, row: &mut BTreeMap<String, String>) {
    let text = match value {
        Value::Object(_) if matches!(&*name, "policy_config" | "counters") => return,
        Value::Object(fields) => {
            for (inner, value) in fields {
                flatten(format!("{name}.{inner}"), value, row);
            }
            return;
        }
        Value::Array(_) => return,
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    };
    row.insert(name, text);
}

/// RFC 4180, but for the line's end.
fn line<'a>(fields: impl Iterator<Item = &'a str>) -> String {
    let quoted = fields.map(|field| match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_one_field() {
        assert_eq!(line(["a,b", "c\"d", "", "e"].into_iter()), "\"a,b\",\"c\"\"d\",,e\n");
    }

    #[test]
    fn objects_are_flat_and_what_depends_on_the_policy_is_left_out() {
        let mut row = BTreeMap::new();
        let value = serde_json::json!({"a": {"b": 1.5, "c": null}, "counters": {"x": 1}, "t": [1]});
        let Value::Object(fields) = value else { unreachable!() };
        fields.into_iter().for_each(|(name, value)| flatten(name, value, &mut row));
        let row: Vec<_> = row.iter().map(|(name, text)| (&**name, &**text)).collect();
        assert_eq!(row, [("a.b", "1.5"), ("a.c", "")]);
    }
}
