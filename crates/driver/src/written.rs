//! Values that keep the text that they were read from, and are that text wherever they are stored.

use frostline_core::policy::{PolicyError, registry};
use frostline_core::spec::{SpecError, parse_bytes, parse_ratio};
use frostline_core::types::Bytes;
use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// A value, and its text as the user wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Written<T> {
    text: String,
    value: T,
}

impl<T> Written<T> {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Another value for the same text.
    pub(crate) fn replace(&mut self, value: T) {
        self.value = value;
    }
}

impl<T: FromStr> FromStr for Written<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        Ok(Self { text: text.to_owned(), value: text.parse()? })
    }
}

impl<T> fmt::Display for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T> Deref for Written<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(to)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A policy that there is, with parameters that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy(());

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        registry::check(text).map(|_| Self(()))
    }
}

/// A share of one core, in `(0, 1]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuShare(f64);

impl CpuShare {
    /// 1 for a whole core.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for CpuShare {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match parse_ratio(text)? {
            share if share > 0.0 => Ok(Self(share)),
            _ => Err(SpecError::new(format!("'{text}' leaves no time at all"), "write 1%")),
        }
    }
}

/// A slowdown above 0, in units of the time without it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown(f64);

impl Slowdown {
    /// 0.02 for 2 %.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Slowdown {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let hint = "write a share such as 2%, above 0 and at most 100%";
        let share = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        match share.map(|percent| percent / 100.0) {
            Some(share) if share > 0.0 && share <= 1.0 => Ok(Self(share)),
            Some(_) => Err(SpecError::new(format!("'{text}' cannot be kept to"), hint)),
            None => Err(SpecError::new(format!("'{text}' is no slowdown"), hint)),
        }
    }
}

/// An amount of memory above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(Bytes);

impl Size {
    /// In bytes.
    pub fn bytes(self) -> Bytes {
        self.0
    }
}

impl FromStr for Size {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match parse_bytes(text)? {
            Bytes(0) => Err(SpecError::new("0 bytes are too few", "leave it out for no limit")),
            bytes => Ok(Self(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdowns_are_shares_above_nothing() {
        let read = |text: &str| Slowdown::from_str(text).map(Slowdown::get);
        assert_eq!(read("2%"), Ok(0.02));
        assert_eq!(read("0.5 %"), Ok(0.005));
        for bad in ["0%", "-1%", "101%", "2", "0.02", "", "%", "inf%", "nan%"] {
            assert!(
                read(bad).is_err_and(|error| error.hint.is_some_and(|hint| hint.contains("2%"))),
                "{bad}"
            );
        }
    }
}
