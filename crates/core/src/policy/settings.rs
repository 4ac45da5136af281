//! Parameters of policies: declared once in a table, read from a spec, scaled, and reported.
//!
//! A numeric parameter is *tunable*: its value may be written outright (`cooling=200K`) or as a
//! multiple of the default (`cooling=0.1x`). A scaled parameter's default is divided by the
//! experiment's scale factor first; a value written outright is taken as it stands.

use super::offer::Offer;
use super::suited::Suited;
use crate::params::{Kind, Param, Value, multiple};
use crate::spec::{Params, Spec, SpecError};
use crate::types::*;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

#[derive(Clone, Debug)]
struct Setting {
    param: Param,
    value: Value,
}

/// All parameters of one policy with their effective values.
#[derive(Clone, Debug)]
pub struct Settings {
    name: String,
    settings: Vec<Setting>,
    departures: Vec<Suited>,
    insisted: Vec<Suited>,
}

impl Settings {
    /// Reads a policy's parameters from `spec`. `suited` holds defaults that replace those of `params`;
    /// multiples are of the latter.
    ///
    /// # Errors
    /// An unknown key, or a value of another kind or out of range.
    pub fn read(
        spec: &Spec,
        params: impl Iterator<Item = Param>,
        suited: &[Suited],
        offer: &Offer,
    ) -> Result<Self, SpecError> {
        let mut given = spec.params();
        let mut name = Spec::parse(spec.name())?;
        let mut settings = Vec::new();
        let (mut departures, mut insisted) = (Vec::new(), Vec::new());
        for param in params {
            let default = default(&param, offer)?;
            let written = read_one(&mut given, &param, default, offer)?;
            let fit = suited.iter().find(|fit| fit.key == param.name);
            let fitting = fit
                .map(|fit| Value::read(param.kind, &fit.value, offer.latency_gap()))
                .transpose()?;
            let value = written.or(fitting).unwrap_or(default);
            let text = spec.get(param.name).or(fit.map(|fit| &*fit.value));
            if let Some(text) = text.filter(|_| value != default) {
                name = name.with(param.name, text);
            }
            if let Some(fit) = fit {
                if written.is_none() && value != default {
                    departures.push(fit.clone());
                } else if Some(value) != fitting {
                    insisted.push(fit.clone());
                }
            }
            settings.push(Setting { param, value });
        }
        given.finish()?;
        Ok(Self { name: name.to_string(), settings, departures, insisted })
    }

    /// The policy's name with the parameters that differ from their defaults, as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Defaults that are not those of the table, since something else suits the world.
    pub fn departures(&self) -> &[Suited] {
        &self.departures
    }

    /// What would have suited the world, had the user not written another value.
    pub fn insisted(&self) -> &[Suited] {
        &self.insisted
    }

    /// Every parameter with its effective value, as a user would write it.
    pub fn config(&self) -> Vec<(&'static str, String)> {
        self.settings.iter().map(|s| (s.param.name, s.value.show(s.param.kind))).collect()
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
            .find_map(|s| (s.param.name == key).then_some(s.value))
            .unwrap_or_else(|| panic!("the table of {} has no parameter {key}", self.name))
    }
}

fn default(param: &Param, offer: &Offer) -> Result<Value, SpecError> {
    let value = Value::read(param.kind, param.default, offer.latency_gap())?;
    Ok(if param.scaled { value.times(1.0 / offer.scale) } else { value })
}

fn read_one(
    given: &mut Params<'_>,
    param: &Param,
    default: Value,
    offer: &Offer,
) -> Result<Option<Value>, SpecError> {
    given.value(param.name, |text| match multiple(param.kind, text)? {
        None => Value::read(param.kind, text, offer.latency_gap()),
        Some(factor) => match (default.times(factor), param.kind) {
            (Value::Number(x), Kind::Ratio) if x > 1.0 => Err(SpecError::new(
                format!("`{text}` makes {x}, which is not a share within 0 and 1"),
                format!("the most is {}x", 1.0 / (x / factor)),
            )),
            (value, kind) => value.within(kind, text),
        },
    })
}
