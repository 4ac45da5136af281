//! Parameters of what a description can name: kinds of values, their ranges, and how they are read.
//!
//! Policies, workloads and machines declare theirs in tables of [`Param`]. Listings, help and errors follow
//! from the table.

use crate::spec::{
    SpecError, parse_bytes, parse_count, parse_duration, parse_float, parse_ratio, parse_switch,
    show_bytes,
};
use alloc::format;
use alloc::string::{String, ToString};

/// What a parameter's value is, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of things, at most 10^15.
    Count,
    /// An amount of memory, at most 2^60 bytes.
    Bytes,
    /// A span of time, at most 2^62 ns: 146 years.
    Duration,
    /// A latency or cost: nanoseconds with fractions, or a span of time; at most 10^12 ns.
    Nanoseconds,
    /// Bytes per second, at most 10^18: a number, or an amount of memory.
    Rate,
    /// A share within 0 and 1.
    Ratio,
    /// A number within 0 and 10^15.
    Float,
    /// A number within 0 and this one.
    Most(u32),
    /// On or off.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// What its reader takes.
    Text,
    /// A latency gap: `machine` for what the machine has, or a number within 0 and 10^15.
    LatencyGap,
}

/// One parameter of what a description can name: a policy, a workload, a machine.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Key, in `kebab-case`; of machines the path in the description.
    pub name: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// Default, with the constants of its source, as a user would write it; empty where there is none.
    pub default: &'static str,
    /// Whether the default is divided by the scale factor of a run.
    pub scaled: bool,
    /// Unit of the value: `samples`, `pages`; empty where the value has its own or none.
    pub unit: &'static str,
    /// What it does.
    pub about: &'static str,
}

impl Param {
    /// A parameter whose reader says what it takes, in `about`.
    pub const fn text(name: &'static str, default: &'static str, about: &'static str) -> Self {
        Self::fixed(name, Kind::Text, default, "", about)
    }

    /// A parameter whose default never changes.
    pub const fn fixed(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        unit: &'static str,
        about: &'static str,
    ) -> Self {
        Self { name, kind, default, scaled: false, unit, about }
    }

    /// A parameter whose default is divided by the scale factor.
    pub const fn scaled(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        unit: &'static str,
        about: &'static str,
    ) -> Self {
        Self { name, kind, default, scaled: true, unit, about }
    }
}

/// A parameter's effective value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Of a count, an amount of memory or a span of time.
    Integer(u64),
    /// Of a share or a number.
    Number(f64),
    /// Of a switch.
    Switch(bool),
    /// Of a choice.
    Word(&'static str),
}

/// Largest count and number.
const MOST: u64 = 1_000_000_000_000_000;

impl Value {
    /// Reads a value; `gap` is the machine's latency gap.
    ///
    /// # Errors
    /// A value of another kind or out of range. No text can be read here.
    pub fn read(kind: Kind, text: &str, gap: f64) -> Result<Self, SpecError> {
        Self::parse(kind, text, gap)?.within(kind, text)
    }

    /// Refuses what no computation with it can be meant to take; -0 becomes 0.
    ///
    /// # Errors
    /// A value out of range.
    pub fn within(self, kind: Kind, text: &str) -> Result<Self, SpecError> {
        let most = match kind {
            Kind::Count | Kind::Float | Kind::LatencyGap => MOST,
            Kind::Bytes => 1 << 60,
            Kind::Duration => 1 << 62,
            Kind::Nanoseconds => 1_000_000_000_000,
            Kind::Rate => 1_000_000_000_000_000_000,
            Kind::Ratio => 1,
            Kind::Most(most) => most.into(),
            Kind::Switch | Kind::Choice(_) | Kind::Text => return Ok(self),
        };
        let good = match self {
            Self::Integer(n) => n <= most,
            Self::Number(x) => (0.0..=most as f64).contains(&x),
            Self::Switch(_) | Self::Word(_) => true,
        };
        match (good, self) {
            (true, Self::Number(x)) => Ok(Self::Number(x + 0.0)),
            (true, value) => Ok(value),
            (false, _) => Err(SpecError::new(
                format!("`{text}` is out of range"),
                format!("the least is 0, and the most {}", Self::Integer(most).show(kind)),
            )),
        }
    }

    fn parse(kind: Kind, text: &str, gap: f64) -> Result<Self, SpecError> {
        Ok(match kind {
            Kind::Count => Self::Integer(parse_count(text)?),
            Kind::Bytes => Self::Integer(parse_bytes(text)?.0),
            Kind::Duration => Self::Integer(parse_duration(text)?.0),
            Kind::Nanoseconds => match text.parse() {
                Ok(ns) => Self::Number(ns),
                Err(_) => Self::Number(parse_duration(text)?.0 as f64),
            },
            Kind::Rate => match text.parse() {
                Ok(rate) => Self::Number(rate),
                Err(_) => Self::Number(parse_bytes(text)?.0 as f64),
            },
            Kind::Ratio => Self::Number(parse_ratio(text)?),
            Kind::Float | Kind::Most(_) => Self::Number(parse_float(text)?),
            Kind::Switch => Self::Switch(parse_switch(text)?),
            Kind::Choice(words) => Self::Word(
                words
                    .iter()
                    .find(|word| **word == text)
                    .ok_or_else(|| SpecError::unknown("choice", text, words))?,
            ),
            Kind::Text => return Err(SpecError::new(format!("`{text}` is a text"), "")),
            Kind::LatencyGap if text == "machine" => Self::Number(gap),
            Kind::LatencyGap => match parse_float(text)? {
                gap if gap >= 0.0 => Self::Number(gap),
                _ => {
                    return Err(SpecError::new(
                        format!("`{text}` is below 0"),
                        "write `machine`, or how much slower the slow tier is (2.75: 80 to 300 ns)",
                    ));
                }
            },
        })
    }

    /// Times a factor; a positive integer stays at least 1.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Integer(n) => {
                Self::Integer(((n as f64 * factor + 0.5) as u64).max(u64::from(n > 0)))
            }
            Self::Number(x) => Self::Number(x * factor),
            other => other,
        }
    }

    /// As a user would write it.
    pub fn show(self, kind: Kind) -> String {
        match (self, kind) {
            (Self::Integer(ns), Kind::Duration) => show_duration(ns),
            (Self::Integer(n), Kind::Bytes) => show_bytes(n),
            (Self::Integer(n), _) => n.to_string(),
            (Self::Number(x), _) => x.to_string(),
            (Self::Switch(on), _) => if on { "on" } else { "off" }.to_string(),
            (Self::Word(word), _) => word.to_string(),
        }
    }
}

fn show_duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    match units.iter().find(|(unit, _)| ns >= *unit && ns.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", ns / unit),
        None => format!("{ns}ns"),
    }
}

/// The factor of `0.1x`, for kinds that can be multiplied.
///
/// # Errors
/// What ends with `x` and is no multiple.
pub fn multiple(kind: Kind, text: &str) -> Result<Option<f64>, SpecError> {
    let factor = match kind {
        Kind::Switch | Kind::Choice(_) | Kind::Text => None,
        _ => text.strip_suffix('x'),
    };
    let Some(factor) = factor else { return Ok(None) };
    match parse_float(factor) {
        Ok(factor) if factor >= 0.0 => Ok(Some(factor)),
        _ => Err(SpecError::new(
            format!("`{text}` is not a multiple of the default"),
            "write 0.1x or 10x",
        )),
    }
}
