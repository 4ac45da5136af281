//! Parameters as JSON: the same form for policies, machines and generators.

use frostline_core::params::{Kind, Param};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct ListedParam {
    pub name: &'static str,
    kind: String,
    /// None where it is not set unless given.
    pub default: Option<&'static str>,
    pub unit: &'static str,
    pub scaled: bool,
    pub about: &'static str,
}

impl ListedParam {
    pub(super) fn of(param: &Param) -> Self {
        Self {
            name: param.name,
            kind: kind(param.kind),
            default: (!param.default.is_empty()).then_some(param.default),
            unit: param.unit,
            scaled: param.scaled,
            about: param.about,
        }
    }
}

fn kind(kind: Kind) -> String {
    match kind {
        Kind::Count => "count".into(),
        Kind::Bytes => "bytes".into(),
        Kind::Duration => "duration".into(),
        Kind::Nanoseconds => "nanoseconds".into(),
        Kind::Rate => "bytes per second".into(),
        Kind::Ratio => "ratio".into(),
        Kind::Float | Kind::Most(_) => "float".into(),
        Kind::Switch => "switch".into(),
        Kind::Choice(words) => words.join("|"),
        Kind::LatencyGap => "machine|float".into(),
        Kind::Text => "text".into(),
    }
}
