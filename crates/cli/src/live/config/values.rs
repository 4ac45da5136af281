//! Values of single keys, and what is refused.

use frostline_core::foreign::leads;
use frostline_core::spec::{self, SpecError};
use frostline_driver::owner::Owner;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// Default from the end of a round of gathering to the next.
pub const INTERVAL: &str = "30s";

/// Time between rounds of gathering, at least a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval(Duration);

impl Interval {
    pub fn get(self) -> Duration {
        self.0
    }
}

impl FromStr for Interval {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match Duration::from_nanos(spec::parse_duration(text)?.0) {
            time if time >= Duration::from_secs(1) => Ok(Self(time)),
            _ => Err(SpecError::new(format!("'{text}' is less than a second"), "write 30s")),
        }
    }
}

/// Hot pages of a dense region, as a number or `auto`.
pub mod limit {
    use super::NameOrNumber;
    use frostline_core::consolidation::ConsolidationLimit;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(limit: &ConsolidationLimit, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(limit)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ConsolidationLimit, D::Error> {
        let text = NameOrNumber::deserialize(from)?.text();
        ConsolidationLimit::parse(&text).map_err(D::Error::custom)
    }
}

fn text<'de, D: Deserializer<'de>, T, E: Display>(
    from: D,
    check: impl FnOnce(&str) -> Result<T, E>,
) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    check(&text).map_err(D::Error::custom)?;
    Ok(text)
}

/// The longest name of a target, in bytes: it stands in every line of the metrics.
const LONGEST_NAME: usize = 128;

pub fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let hint = "write a short name, such as redis";
    text(from, |name| match plain(name, "name", hint) {
        Ok(()) if name.len() > LONGEST_NAME => {
            let what = format!("the name of a target has {} bytes", name.len());
            Err(SpecError::new(what, format!("{hint}, of {LONGEST_NAME} bytes at most")))
        }
        result => result,
    })
}

pub fn pid<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let pid = u32::deserialize(from)?;
    let hint = "write the number of the program whose memory is to be tiered, as `pgrep` prints it";
    match pid {
        0 => Err(D::Error::custom(SpecError::new("no process has the number 0", hint))),
        1 => {
            let what = "process 1 is left alone: the system, or the container, ends with it";
            Err(D::Error::custom(SpecError::new(what, hint)))
        }
        _ => Ok(Some(pid)),
    }
}

pub fn command<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let hint = "write the program's name as `ps -o comm` prints it, such as redis-server";
    text(from, |command| plain(command, "command", hint)).map(Some)
}

/// A name, or a number with or without quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum NameOrNumber {
    Name(String),
    Number(u32),
}

impl NameOrNumber {
    fn text(self) -> String {
        match self {
            Self::Name(name) => name,
            Self::Number(number) => number.to_string(),
        }
    }
}

pub fn user<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = NameOrNumber::deserialize(from).map_err(|_| {
        let what = "expected the name or the number of a user";
        D::Error::custom(SpecError::new(what, "user = \"redis\", or user = 101"))
    })?;
    let text = text.text();
    Owner::parse(&text).map_err(D::Error::custom)?;
    Ok(Some(text))
}

/// Names are shown, and those of threads end at a zero byte.
fn plain(text: &str, key: &str, hint: &str) -> Result<(), SpecError> {
    match text.chars().any(leads) {
        true => {
            let what = format!("the {key} {text:?} has characters that a terminal obeys");
            Err(SpecError::new(what, hint))
        }
        false => Ok(()),
    }
}

pub fn priority<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    let priority = i64::deserialize(from)?;
    let range = 1..=100;
    if range.contains(&priority) {
        Ok(priority as u8)
    } else {
        let hint = "from 1, which gives way first, to 100";
        Err(D::Error::custom(SpecError::new(format!("{priority} is no priority"), hint)))
    }
}

/// Number above 0, whole or not, at most 1000.
pub fn weight<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let weight = f64::deserialize(from)?;
    if weight > 0.0 && weight <= 1000.0 {
        return Ok(weight);
    }
    let hint = "write a number above 0, at most 1000: 2 for a loss that counts twice";
    Err(D::Error::custom(SpecError::new(format!("{weight} is no weight"), hint)))
}

/// Address and port of this machine alone, for numbers.
pub fn loopback<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let hint = "write 127.0.0.1:9177; to be read from elsewhere, put a proxy with access control \
                in front, or use textfile";
    of_this_machine(from, hint)
}

/// Address and port of this machine alone, for browsers.
pub fn page<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let hint = "write 127.0.0.1:7199; have ssh, or a proxy with TLS, lead there";
    of_this_machine(from, hint)
}

fn of_this_machine<'de, D: Deserializer<'de>>(
    from: D,
    hint: &'static str,
) -> Result<Option<String>, D::Error> {
    let check = |text: &str| match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(()),
        Ok(address) => Err(SpecError::new(
            format!("{} is not an address of this machine alone", address.ip()),
            hint,
        )),
        Err(_) => Err(SpecError::new(format!("'{text}' is not an address and a port"), hint)),
    };
    text(from, check).map(Some)
}
