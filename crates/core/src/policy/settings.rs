//! Parameters of policies: declared once in a table, read from a spec, scaled, and reported.
//!
//! A numeric parameter is *tunable*: its value may be written outright (`cooling=200K`) or as a
//! multiple of the default (`cooling=0.1x`). A scaled parameter's default is divided by the
//! experiment's scale factor first; a value written outright is taken as it stands.

use super::offer::Offer;
use crate::spec::{
    Params, Spec, SpecError, parse_bytes, parse_count, parse_duration, parse_float, parse_ratio,
    parse_switch, show_bytes,
};
use crate::types::*;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// What a parameter's value is, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of things, at most 10^15.
    Count,
    /// An amount of memory, at most 2^60 bytes.
    Bytes,
    /// A span of time, at most 2^62 ns: 146 years.
    Duration,
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
    /// A latency gap: `machine` for what the machine has, or a number within 0 and 10^15.
    LatencyGap,
}

/// One parameter of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Key, in `kebab-case`.
    pub key: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// Default with the constants of the policy's source, as a user would write it.
    pub default: &'static str,
    /// Whether the default is divided by the scale factor.
    pub scaled: bool,
    /// Unit of the value: `samples`, `pages`; empty where the value has its own or none.
    pub unit: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

impl Param {
    /// A parameter whose default never changes.
    pub const fn fixed(
        key: &'static str,
        kind: Kind,
        default: &'static str,
        unit: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self { key, kind, default, scaled: false, unit, meaning }
    }

    /// A parameter whose default is divided by the scale factor.
    pub const fn scaled(
        key: &'static str,
        kind: Kind,
        default: &'static str,
        unit: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self { key, kind, default, scaled: true, unit, meaning }
    }
}

/// A parameter's effective value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Integer(u64),
    Number(f64),
    Switch(bool),
    Word(&'static str),
}

/// Largest count and number.
const MOST: u64 = 1_000_000_000_000_000;

impl Value {
    fn read(kind: Kind, text: &str, context: &Offer) -> Result<Self, SpecError> {
        Self::parse(kind, text, context)?.within(kind, text)
    }

    /// Refuses what no computation with it can be meant to take; -0 becomes 0.
    fn within(self, kind: Kind, text: &str) -> Result<Self, SpecError> {
        let most = match kind {
            Kind::Count | Kind::Float | Kind::LatencyGap => MOST,
            Kind::Bytes => 1 << 60,
            Kind::Duration => 1 << 62,
            Kind::Ratio => 1,
            Kind::Most(most) => most.into(),
            Kind::Switch | Kind::Choice(_) => return Ok(self),
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

    fn parse(kind: Kind, text: &str, context: &Offer) -> Result<Self, SpecError> {
        Ok(match kind {
            Kind::Count => Self::Integer(parse_count(text)?),
            Kind::Bytes => Self::Integer(parse_bytes(text)?.0),
            Kind::Duration => Self::Integer(parse_duration(text)?.0),
            Kind::Ratio => Self::Number(parse_ratio(text)?),
            Kind::Float | Kind::Most(_) => Self::Number(parse_float(text)?),
            Kind::Switch => Self::Switch(parse_switch(text)?),
            Kind::Choice(words) => Self::Word(
                words
                    .iter()
                    .find(|word| **word == text)
                    .ok_or_else(|| SpecError::unknown("choice", text, words))?,
            ),
            Kind::LatencyGap if text == "machine" => Self::Number(context.latency_gap),
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
    fn times(self, factor: f64) -> Self {
        match self {
            Self::Integer(n) => {
                Self::Integer(((n as f64 * factor + 0.5) as u64).max(u64::from(n > 0)))
            }
            Self::Number(x) => Self::Number(x * factor),
            other => other,
        }
    }

    fn show(self, kind: Kind) -> String {
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

#[derive(Clone, Debug)]
struct Setting {
    param: &'static Param,
    value: Value,
}

/// All parameters of one policy with their effective values.
#[derive(Clone, Debug)]
pub struct Settings {
    name: String,
    settings: Vec<Setting>,
}

impl Settings {
    /// Reads a policy's parameters from `spec`; `preset` holds defaults that replace those of the
    /// table.
    ///
    /// # Errors
    /// An unknown key, or a value of another kind or out of range.
    pub fn read(
        spec: &Spec,
        params: &'static [Param],
        preset: &[(&str, &str)],
        context: &Offer,
    ) -> Result<Self, SpecError> {
        let mut given = spec.params();
        let mut name = Spec::parse(spec.name())?;
        let mut settings = Vec::with_capacity(params.len());
        for param in params {
            let default = default(param, preset, context)?;
            let value = match read_one(&mut given, param, default, context)? {
                Some(value) => value,
                None => default,
            };
            if value != default
                && let Some(text) = spec.get(param.key)
            {
                name = name.with(param.key, text);
            }
            settings.push(Setting { param, value });
        }
        given.finish()?;
        Ok(Self { name: name.to_string(), settings })
    }

    /// The policy's name with the parameters that differ from their defaults, as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Every parameter with its effective value, as a user would write it.
    pub fn config(&self) -> Vec<(&'static str, String)> {
        self.settings.iter().map(|s| (s.param.key, s.value.show(s.param.kind))).collect()
    }

    /// A number of things.
    ///
    /// # Panics
    /// Like all getters, where the policy's table has no parameter of that key and kind.
    pub fn count(&self, key: &str) -> u64 {
        match self.value(key) {
            Value::Integer(n) => n,
            other => panic!("parameter {key} is not an integer but {other:?}"),
        }
    }

    /// A number of things, the most that 32 bits hold where it is more.
    ///
    /// # Panics
    /// As [`Self::count`].
    pub fn count_u32(&self, key: &str) -> u32 {
        u32::try_from(self.count(key)).unwrap_or(u32::MAX)
    }

    /// The period of a sampler that is never off: at least 1.
    ///
    /// # Panics
    /// As [`Self::count`].
    pub fn period(&self, key: &str) -> u32 {
        self.count_u32(key).max(1)
    }

    /// A span of time.
    ///
    /// # Panics
    /// As [`Self::count`].
    pub fn duration(&self, key: &str) -> Nanos {
        Nanos(self.count(key))
    }

    /// A share or a number.
    ///
    /// # Panics
    /// As [`Self::count`].
    pub fn number(&self, key: &str) -> f64 {
        match self.value(key) {
            Value::Number(x) => x,
            other => panic!("parameter {key} is not a number but {other:?}"),
        }
    }

    /// A switch.
    ///
    /// # Panics
    /// As [`Self::count`].
    pub fn switch(&self, key: &str) -> bool {
        match self.value(key) {
            Value::Switch(on) => on,
            other => panic!("parameter {key} is not a switch but {other:?}"),
        }
    }

    /// One of a list of words.
    ///
    /// # Panics
    /// As [`Self::count`].
    pub fn word(&self, key: &str) -> &'static str {
        match self.value(key) {
            Value::Word(word) => word,
            other => panic!("parameter {key} is not a word but {other:?}"),
        }
    }

    fn value(&self, key: &str) -> Value {
        self.settings
            .iter()
            .find_map(|s| (s.param.key == key).then_some(s.value))
            .unwrap_or_else(|| panic!("the table of {} has no parameter {key}", self.name))
    }
}

fn default(param: &Param, preset: &[(&str, &str)], context: &Offer) -> Result<Value, SpecError> {
    let text = preset.iter().find_map(|(key, text)| (*key == param.key).then_some(*text));
    let value = Value::read(param.kind, text.unwrap_or(param.default), context)?;
    Ok(if param.scaled { value.times(1.0 / context.scale) } else { value })
}

fn read_one(
    given: &mut Params<'_>,
    param: &'static Param,
    default: Value,
    context: &Offer,
) -> Result<Option<Value>, SpecError> {
    given.value(param.key, |text| match multiple(param.kind, text)? {
        None => Value::read(param.kind, text, context),
        Some(factor) => match (default.times(factor), param.kind) {
            (Value::Number(x), Kind::Ratio) if x > 1.0 => Err(SpecError::new(
                format!("`{text}` makes {x}, which is not a share within 0 and 1"),
                format!("the most is {}x", 1.0 / (x / factor)),
            )),
            (value, kind) => value.within(kind, text),
        },
    })
}

/// The factor of `0.1x`, for kinds that can be multiplied.
fn multiple(kind: Kind, text: &str) -> Result<Option<f64>, SpecError> {
    let factor = match kind {
        Kind::Switch | Kind::Choice(_) => None,
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
