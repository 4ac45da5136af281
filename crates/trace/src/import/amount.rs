//! Numbers as damo writes them: `7`, `"1,234"`, `"1 m 3.200 s"`.

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// A number, alone or in text, with separators of thousands
/// and maybe a percent sign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Amount(pub Number);

/// A time in nanoseconds; text may have units from `ns` to `d`, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Time(pub u64);

/// Addresses need all of their 64 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// A whole number.
    Whole(u64),
    /// Any other, finite.
    Real(f64),
}

const NANOS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

impl Number {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches([' ', '%']).replace(',', "");
        if text == "max" {
            return Some(Self::Whole(u64::MAX));
        }
        // Words such as `inf` are numbers to the standard library.
        if !text.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
            return None;
        }
        match text.parse() {
            Ok(whole) => Some(Self::Whole(whole)),
            Err(_) => text.parse().ok().filter(|real: &f64| real.is_finite()).map(Self::Real),
        }
    }

    fn times(self, unit: u64) -> Option<u64> {
        match self {
            Self::Whole(number) => Some(number.saturating_mul(unit)),
            Self::Real(number) if number >= 0.0 => Some((number * unit as f64) as u64),
            Self::Real(_) => None,
        }
    }

    /// Rounded down; `None` below 0.
    pub fn whole(self) -> Option<u64> {
        self.times(1)
    }

    /// As a floating-point number.
    pub fn real(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }
}

fn nanos(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some(number) = Number::parse(text) {
        return number.whole();
    }
    let (mut total, mut rest) = (0_u64, text);
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, behind) = rest.split_at(unit_at);
        let end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let unit = NANOS.iter().find(|(name, _)| *name == &behind[..end])?.1;
        total = total.saturating_add(Number::parse(number)?.times(unit)?);
        rest = behind[end..].trim_start();
    }
    (!text.is_empty()).then_some(total)
}

struct Seen<T>(fn(&str) -> Option<T>, fn(Number) -> Option<T>, &'static str);

impl<T> Visitor<'_> for Seen<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.2)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.1(Number::Whole(number)).ok_or_else(|| E::custom("out of range"))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.1(Number::Real(number)).ok_or_else(|| E::custom(format!("{number} is below 0")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.0(text).ok_or_else(|| E::custom(format!("`{text}` is not {}", self.2)))
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let what = "a number, such as 7 or \"1,234\"";
        input.deserialize_any(Seen(
            |text| Number::parse(text).map(Amount),
            |n| Some(Amount(n)),
            what,
        ))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let what = "a time, such as 7 (ns) or \"1.2 s\"";
        input.deserialize_any(Seen(|text| nanos(text).map(Time), |n| n.whole().map(Time), what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_separators_and_times_with_units() {
        assert_eq!(Number::parse("18,446,744,073,709,551,615"), Some(Number::Whole(u64::MAX)));
        assert_eq!(Number::parse("139,735,024,640"), Some(Number::Whole(139_735_024_640)));
        assert_eq!(Number::parse("20 %"), Some(Number::Whole(20)));
        assert_eq!(Number::parse("-1"), Some(Number::Real(-1.0)));
        assert_eq!(Number::parse("2.5").and_then(Number::whole), Some(2));
        for wrong in ["", "inf", "nan", "x", "1 2", "0x10", "+1", "-"] {
            assert_eq!(Number::parse(wrong), None, "{wrong}");
        }
        for (text, expected) in [
            ("7", 7),
            ("1,234", 1_234),
            ("1.2 s", 1_200_000_000),
            ("1.2s", 1_200_000_000),
            ("1 m 3.200 s", 63_200_000_000),
            ("22 h 53 m 20 s 3 ms 1 us 5 ns", 82_400_003_001_005),
            ("1,000 ms", 1_000_000_000),
            ("max", u64::MAX),
        ] {
            assert_eq!(nanos(text), Some(expected), "{text}");
        }
        for wrong in ["", "s", "1 x", "-1 s", "1 s 2", "s 1", "1 1 s"] {
            assert_eq!(nanos(wrong), None, "{wrong}");
        }
    }
}
