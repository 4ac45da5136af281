//! Value of a policy's parameter, for people and for programs.

use frostline_core::params::Kind;
use frostline_core::spec::{parse_bytes, parse_duration};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A parameter in effect. It is written as JSON by its kind: counts and bytes as integers, spans of time
/// in seconds, shares and other numbers as such, switches as truth values, the rest as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Value", from = "Value")]
pub struct Setting {
    text: String,
    value: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Value {
    Switch(bool),
    Integer(u64),
    Number(f64),
    Text(String),
}

impl Setting {
    /// Of a parameter of this kind, as a user would write it.
    pub fn new(kind: Kind, text: &str) -> Self {
        let integer = |n: Option<u64>| n.map(Value::Integer);
        let number = || text.parse().ok().filter(|n: &f64| n.is_finite()).map(Value::Number);
        let value = match kind {
            Kind::Count => integer(text.parse().ok()),
            Kind::Bytes => integer(parse_bytes(text).ok().map(|bytes| bytes.0)),
            Kind::Duration => parse_duration(text).ok().map(|t| Value::Number(t.0 as f64 / 1e9)),
            Kind::Ratio
            | Kind::Float
            | Kind::Most(_)
            | Kind::LatencyGap
            | Kind::Nanoseconds
            | Kind::Rate => number(),
            Kind::Switch => Some(Value::Switch(text == "on")),
            Kind::Choice(_) | Kind::Text => None,
        };
        Self { text: text.to_owned(), value: value.unwrap_or_else(|| Value::Text(text.to_owned())) }
    }
}

/// As a user would write it.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Setting> for Value {
    fn from(setting: Setting) -> Self {
        setting.value
    }
}

impl From<Value> for Setting {
    fn from(value: Value) -> Self {
        let text = match &value {
            Value::Switch(on) => if *on { "on" } else { "off" }.to_owned(),
            Value::Integer(n) => n.to_string(),
            Value::Number(n) => n.to_string(),
            Value::Text(text) => text.clone(),
        };
        Self { text, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_by_their_kind_and_shown_as_users_write_them() {
        for (kind, text, json) in [
            (Kind::Count, "2000", "2000"),
            (Kind::Bytes, "10GiB", "10737418240"),
            (Kind::Duration, "687003ns", "0.000687003"),
            (Kind::Ratio, "0.9", "0.9"),
            (Kind::LatencyGap, "2.75", "2.75"),
            (Kind::Switch, "on", "true"),
            (Kind::Choice(&["paper"]), "paper", "\"paper\""),
            (Kind::Count, "max", "\"max\""),
        ] {
            let setting = Setting::new(kind, text);
            assert_eq!(setting.to_string(), text);
            assert_eq!(serde_json::to_string(&setting).unwrap(), json);
            let back: Setting = serde_json::from_str(json).unwrap();
            assert_eq!(back.value, setting.value);
        }
    }
}
