//! One grammar for parts with parameters: `name:key=value:key=value`.
//!
//! Used for synthetic traces (`synth:zipf:pages=4M:seed=7`), policies (`memtis:alpha=0.75`),
//! devices (`zram:size=4GiB`) and bare lists of parameters (`size=2MiB:ways=16`). Commas separate
//! items of a list and nothing else. Values:
//!
//! | kind | examples | rule |
//! | --- | --- | --- |
//! | count | `1000`, `4M`, `1.5K`, `1e8`, `4Mi` | K, M, G, T are powers of 1000; Ki, Mi, Gi, Ti of 1024 |
//! | bytes | `4096`, `2MiB`, `2M`, `2MB`, `1.5GiB` | every unit is a power of 1024, however it is spelt |
//! | duration | `500ms`, `10s`, `2min`, `1h`, `30us`, `80ns` | a unit is required, but for 0 |
//! | ratio | `0.4`, `40%`, `1/3` | within 0 and 1 |
//! | float | `0.99`, `1e-3`, `-2` | finite |
//! | switch | `on`, `off`, `true`, `false`, `yes`, `no`, `1`, `0` | |
//!
//! Amounts may be written with `_` between digits. What a fraction leaves below one unit is
//! dropped.

use crate::types::{Bytes, Nanos, PAGE_BYTES};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{borrow::ToOwned, format};
use core::fmt;

/// A name with parameters, taken apart but not yet understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    name: String,
    params: Vec<(String, String)>,
}

/// What is wrong with a description. The text ends with a `hint:` line where there is a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}{}", Hint(hint))]
pub struct SpecError {
    /// What is wrong, without the hint.
    pub what: String,
    /// The remedy, where one is known.
    pub hint: Option<String>,
}

struct Hint<'a>(&'a Option<String>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl SpecError {
    /// An error with a remedy.
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: Some(hint.into()) }
    }

    /// From its text, with or without a `hint:` line.
    pub fn of_text(text: &str) -> Self {
        match text.split_once("\nhint: ") {
            Some((what, hint)) => Self::new(what, hint),
            None => Self { what: text.to_owned(), hint: None },
        }
    }

    /// "unknown `kind` `name`", with the nearest and all the known ones as a hint.
    pub fn unknown(kind: &str, name: &str, known: &[&str]) -> Self {
        let nearest = did_you_mean(name, known.iter().copied());
        let hint = match (nearest, known) {
            (_, []) => format!("no {kind} can be given here"),
            (Some(nearest), _) => format!("did you mean `{nearest}`? known: {}", known.join(", ")),
            (None, _) => format!("known: {}", known.join(", ")),
        };
        Self::new(format!("unknown {kind} `{name}`"), hint)
    }
}

impl Spec {
    /// Takes `name:key=value:...` apart.
    ///
    /// # Errors
    /// Where the name or a key is empty or holds other than letters, digits, `-`, `_` and `.`,
    /// where a parameter has no `=` or no value, and where a key is given twice.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        if !is_word(name) {
            return Err(SpecError::new(
                format!("`{text}` does not begin with a name"),
                "write name:key=value:key=value",
            ));
        }
        Ok(Self { name: name.to_owned(), params: params(text, rest)? })
    }

    /// Takes `key=value:...` without a name apart; the name is then empty. An empty text has no
    /// parameters.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_params(text: &str) -> Result<Self, SpecError> {
        let rest = (!text.is_empty()).then_some(text);
        Ok(Self { name: String::new(), params: params(text, rest)? })
    }

    /// What stands before the first colon.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Keys and values as written, in their order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.params.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value as written.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs().find_map(|(k, value)| (k == key).then_some(value))
    }

    /// The same with one parameter set, whether or not it was there (sweeps).
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Self {
        let mut other = self.clone();
        match other.params.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => value.clone_into(old),
            None => other.params.push((key.to_owned(), value.to_owned())),
        }
        other
    }

    /// Reads the parameters one by one; see [`Params`].
    pub fn params(&self) -> Params<'_> {
        Params { spec: self, known: Vec::new() }
    }
}

impl fmt::Display for Spec {
    /// Text that [`Spec::parse`] (or [`Spec::parse_params`]) takes back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, (key, value)) in self.params.iter().enumerate() {
            let colon = if i > 0 || !self.name.is_empty() { ":" } else { "" };
            write!(f, "{colon}{key}={value}")?;
        }
        Ok(())
    }
}

fn params(text: &str, rest: Option<&str>) -> Result<Vec<(String, String)>, SpecError> {
    let mut params: Vec<(String, String)> = Vec::new();
    for part in rest.into_iter().flat_map(|rest| rest.split(':')) {
        let Some((key, value)) = part.split_once('=').filter(|(k, v)| is_word(k) && !v.is_empty())
        else {
            return Err(SpecError::new(
                format!("`{text}`: `{part}` is not a parameter"),
                "parameters are written key=value, with a colon between them",
            ));
        };
        if params.iter().any(|(k, _)| k == key) {
            return Err(SpecError::new(
                format!("`{text}`: `{key}` is given twice"),
                "give every parameter once",
            ));
        }
        params.push((key.to_owned(), value.to_owned()));
    }
    Ok(params)
}

fn is_word(word: &str) -> bool {
    !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Reads the parameters of a [`Spec`] by key and type, and in the end refuses those that nobody
/// asked for.
///
/// ```
/// use frostline_core::spec::Spec;
/// let spec = Spec::parse("zipf:pages=4M:theta=0.99")?;
/// let mut params = spec.params();
/// assert_eq!(params.count("pages")?, Some(4_000_000));
/// assert_eq!(params.float("theta")?.unwrap_or(1.0), 0.99);
/// assert_eq!(params.count("seed")?, None);
/// params.finish()?;
/// # Ok::<(), frostline_core::spec::SpecError>(())
/// ```
///
/// Every getter gives `None` where the parameter is absent, and an error that names the parameter
/// where its value is of another kind or out of range.
#[derive(Debug)]
pub struct Params<'a> {
    spec: &'a Spec,
    known: Vec<&'static str>,
}

impl<'a> Params<'a> {
    /// As written.
    pub fn text(&mut self, key: &'static str) -> Option<&'a str> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.spec.get(key)
    }

    /// A number of things: `4M` is 4 000 000.
    ///
    /// # Errors
    /// Where the value is not a count below 2^64.
    pub fn count(&mut self, key: &'static str) -> Result<Option<u64>, SpecError> {
        self.value(key, parse_count)
    }

    /// A count below 2^32.
    ///
    /// # Errors
    /// Where the value is not a count below 2^32.
    pub fn count_u32(&mut self, key: &'static str) -> Result<Option<u32>, SpecError> {
        self.value(key, |text| {
            u32::try_from(parse_count(text)?).map_err(|_| {
                SpecError::new(format!("`{text}` is too large"), "the most is 2^32 - 1")
            })
        })
    }

    /// An amount of memory: `4G`, `4GB` and `4GiB` are all 4 · 1024³ bytes.
    ///
    /// # Errors
    /// Where the value is not an amount below 2^64.
    pub fn bytes(&mut self, key: &'static str) -> Result<Option<Bytes>, SpecError> {
        self.value(key, parse_bytes)
    }

    /// A span of time: `500ms`.
    ///
    /// # Errors
    /// Where the value is not a number with a unit of time.
    pub fn duration(&mut self, key: &'static str) -> Result<Option<Nanos>, SpecError> {
        self.value(key, parse_duration)
    }

    /// A share within 0 and 1: `0.4`, `40%`, `2/5`.
    ///
    /// # Errors
    /// Where the value is not such a share.
    pub fn ratio(&mut self, key: &'static str) -> Result<Option<f64>, SpecError> {
        self.value(key, parse_ratio)
    }

    /// A finite number.
    ///
    /// # Errors
    /// Where the value is not one.
    pub fn float(&mut self, key: &'static str) -> Result<Option<f64>, SpecError> {
        self.value(key, parse_float)
    }

    /// A switch: `on` or `off`.
    ///
    /// # Errors
    /// Where the value is neither, nor another word for one of them.
    pub fn switch(&mut self, key: &'static str) -> Result<Option<bool>, SpecError> {
        self.value(key, parse_switch)
    }

    /// One of several words; gives its place in `choices`.
    ///
    /// # Errors
    /// Where the value is another word.
    pub fn choice(
        &mut self,
        key: &'static str,
        choices: &[&str],
    ) -> Result<Option<usize>, SpecError> {
        self.value(key, |text| {
            choices
                .iter()
                .position(|choice| *choice == text)
                .ok_or_else(|| SpecError::unknown("choice", text, choices))
        })
    }

    /// A value read by a function of the caller's.
    ///
    /// # Errors
    /// What `read` gives, with the parameter named.
    pub fn value<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, SpecError>,
    ) -> Result<Option<T>, SpecError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match read(text) {
            Ok(value) => Ok(Some(value)),
            Err(SpecError { what, hint }) => {
                Err(SpecError { what: format!("{}{what}", self.place(Some(key))), hint })
            }
        }
    }

    /// Refuses parameters that no getter was called for.
    ///
    /// # Errors
    /// Names the first unknown parameter, the nearest known one and all known ones.
    pub fn finish(self) -> Result<(), SpecError> {
        match self.spec.pairs().find(|(key, _)| !self.known.contains(key)) {
            None => Ok(()),
            Some((key, _)) => {
                let SpecError { what, hint } = SpecError::unknown("parameter", key, &self.known);
                Err(SpecError { what: format!("{}{what}", self.place(None)), hint })
            }
        }
    }

    fn place(&self, key: Option<&str>) -> String {
        match (self.spec.name(), key) {
            ("", None) => String::new(),
            ("", Some(key)) => format!("{key}: "),
            (name, None) => format!("{name}: "),
            (name, Some(key)) => format!("{name}: {key}: "),
        }
    }
}

/// Items of a list: `lru,memtis:alpha=0.5` has two. Empty items are left out.
pub fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// The candidate that a misspelt word most likely stands for: at most a third of its letters
/// (and at least one) inserted, left out, exchanged or swapped with a neighbour, or the one
/// candidate that it begins.
pub fn did_you_mean<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let limit = (word.chars().count() / 3).max(1);
    let rank = |candidate: &str| {
        let distance = edit_distance(word, candidate);
        let begins = word.len() > 1 && candidate.starts_with(word);
        (distance <= limit || begins).then_some(distance)
    };
    candidates.into_iter().filter_map(|c| Some((rank(c)?, c))).min().map(|(_, c)| c)
}

/// Optimal string alignment distance, in characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i);
        for j in 1..=b.len() {
            let exchange = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = exchange.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = core::mem::replace(&mut above, row);
    }
    above[b.len()]
}

/// Reads a count; see the table at the top of the module.
///
/// # Errors
/// Where the text is not a number, has an unknown unit, or is 2^64 or more.
pub fn parse_count(text: &str) -> Result<u64, SpecError> {
    const UNITS: &[(&str, u64)] = &[
        ("", 1),
        ("k", 1000),
        ("m", 1_000_000),
        ("g", 1_000_000_000),
        ("t", 1_000_000_000_000),
        ("ki", 1 << 10),
        ("mi", 1 << 20),
        ("gi", 1 << 30),
        ("ti", 1 << 40),
    ];
    amount(text, "a count", UNITS, "write a count as 250000, 250K, 4M, 1e9 or 4Mi")
}

/// An amount of memory as [`parse_bytes`] takes it back: in the largest unit that divides it.
pub fn show_bytes(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// Reads an amount of memory; see the table at the top of the module.
///
/// # Errors
/// Where the text is not a number, has an unknown unit, or is 2^64 or more.
pub fn parse_bytes(text: &str) -> Result<Bytes, SpecError> {
    const UNITS: &[(&str, u64)] = &[
        ("", 1),
        ("b", 1),
        ("k", 1 << 10),
        ("kb", 1 << 10),
        ("kib", 1 << 10),
        ("m", 1 << 20),
        ("mb", 1 << 20),
        ("mib", 1 << 20),
        ("g", 1 << 30),
        ("gb", 1 << 30),
        ("gib", 1 << 30),
        ("t", 1 << 40),
        ("tb", 1 << 40),
        ("tib", 1 << 40),
    ];
    amount(text, "a size", UNITS, "write a size as 4096, 64KiB, 512MiB or 4GiB").map(Bytes)
}

/// Reads a size of memory, at least a page: a number without a unit is nearly always a share whose `%`
/// was forgotten.
///
/// # Errors
/// As [`parse_bytes`], and below a page.
pub fn parse_memory(text: &str) -> Result<Bytes, SpecError> {
    let size = parse_bytes(text)?;
    if size.0 >= PAGE_BYTES {
        return Ok(size);
    }
    let hint = match text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        true => format!("write {text}% for a share, {text}MiB or {text}GiB for a size"),
        false => "the least is a page, 4KiB".to_owned(),
    };
    Err(SpecError::new(format!("`{text}` is less than a page of memory"), hint))
}

/// Reads a span of time; see the table at the top of the module.
///
/// # Errors
/// Where the text is not a number with a unit of time, or does not fit 64 bits of nanoseconds.
pub fn parse_duration(text: &str) -> Result<Nanos, SpecError> {
    const SECOND: u64 = 1_000_000_000;
    const UNITS: &[(&str, u64)] = &[
        ("ns", 1),
        ("us", 1000),
        ("µs", 1000),
        ("ms", 1_000_000),
        ("s", SECOND),
        ("min", 60 * SECOND),
        ("h", 3600 * SECOND),
    ];
    if text == "0" {
        return Ok(Nanos::ZERO);
    }
    amount(text, "a duration", UNITS, "write a duration as 80ns, 500ms, 10s, 2min or 1h").map(Nanos)
}

/// Reads a share within 0 and 1; see the table at the top of the module.
///
/// # Errors
/// Where the text is none.
pub fn parse_ratio(text: &str) -> Result<f64, SpecError> {
    let value = if let Some(percent) = text.strip_suffix('%') {
        number(percent).map(|p| p / 100.0)
    } else if let Some((part, whole)) = text.split_once('/') {
        number(part).zip(number(whole)).map(|(part, whole)| part / whole)
    } else {
        number(text)
    };
    value.filter(|v| (0.0..=1.0).contains(v)).ok_or_else(|| {
        SpecError::new(
            format!("`{text}` is not a share within 0 and 1"),
            "write a share as 0.4, 40% or 2/5",
        )
    })
}

/// Reads a finite number.
///
/// # Errors
/// Where the text is none.
pub fn parse_float(text: &str) -> Result<f64, SpecError> {
    number(text).ok_or_else(|| {
        SpecError::new(format!("`{text}` is not a number"), "write a number as 0.99, 12 or 1e-3")
    })
}

/// Reads a switch; see the table at the top of the module.
///
/// # Errors
/// Where the text is none of its words.
pub fn parse_switch(text: &str) -> Result<bool, SpecError> {
    match text {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(SpecError::new(format!("`{text}` is neither on nor off"), "write on or off")),
    }
}

fn number(text: &str) -> Option<f64> {
    // Rust also reads `inf`, `nan` and `infinity`.
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    text.parse().ok().filter(|v: &f64| plain && v.is_finite())
}

/// A decimal number times a unit, exact down to the unit's last whole part.
fn amount(text: &str, what: &str, units: &[(&str, u64)], hint: &str) -> Result<u64, SpecError> {
    let wrong = || SpecError::new(format!("`{text}` is not {what}"), hint);
    let (mantissa, unit) = text.split_at(mantissa_len(text));
    let unit = unit.trim_start().to_lowercase();
    let (_, unit) = units.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let (digits, scale) = decimal(mantissa).ok_or_else(wrong)?;
    let large =
        || SpecError::new(format!("`{text}` is too large"), "the most is 2^64 - 1".to_string());
    let product = digits.checked_mul(u128::from(*unit)).ok_or_else(large)?;
    let value = match u32::try_from(scale) {
        Ok(up) => 10u128.checked_pow(up).and_then(|p| product.checked_mul(p)).ok_or_else(large)?,
        Err(_) => 10u128.checked_pow(scale.unsigned_abs()).map_or(0, |p| product / p),
    };
    u64::try_from(value).map_err(|_| large())
}

/// Bytes of the number in front of a unit: digits, `_`, a point, and an exponent if digits follow.
fn mantissa_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize, more: &[u8]| {
        bytes[from..].iter().take_while(|b| b.is_ascii_digit() || more.contains(b)).count()
    };
    let end = digits(0, b"_.");
    if end == 0 || !matches!(bytes.get(end), Some(b'e' | b'E')) {
        return end;
    }
    let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
    match digits(end + 1 + sign, b"") {
        0 => end,
        n => end + 1 + sign + n,
    }
}

/// `digits * 10^scale`; `None` where it is no number or has more than 30 digits.
fn decimal(text: &str) -> Option<(u128, i32)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i16>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = 0u128;
    let mut count = 0;
    for b in whole.bytes().chain(fraction.bytes()).filter(|b| *b != b'_') {
        count += 1;
        if !b.is_ascii_digit() || count > 30 {
            return None;
        }
        digits = digits * 10 + u128::from(b - b'0');
    }
    let fraction_digits = fraction.bytes().filter(u8::is_ascii_digit).count() as i32;
    (count > 0).then_some((digits, i32::from(exponent) - fraction_digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn takes_apart_and_puts_together() {
        let spec = Spec::parse("zipf:pages=4M:file=/tmp/a=b").unwrap();
        assert_eq!(spec.name(), "zipf");
        assert_eq!(spec.pairs().collect::<Vec<_>>(), [("pages", "4M"), ("file", "/tmp/a=b")]);
        assert_eq!(spec.to_string(), "zipf:pages=4M:file=/tmp/a=b");
        assert_eq!(
            spec.with("pages", "1").with("x", "2").to_string(),
            "zipf:pages=1:file=/tmp/a=b:x=2"
        );
        assert_eq!(Spec::parse("lru").unwrap().to_string(), "lru");
        let bare = Spec::parse_params("size=2MiB:ways=16").unwrap();
        assert_eq!((bare.name(), bare.to_string().as_str()), ("", "size=2MiB:ways=16"));
        assert_eq!(Spec::parse_params("").unwrap().pairs().count(), 0);
    }

    #[test]
    fn refuses_what_is_not_the_grammar() {
        for text in
            ["", ":a=1", "a b", "zipf:", "zipf:pages", "zipf:=1", "zipf:a=", "z:a=1:a=2", "z:a=1:"]
        {
            assert!(Spec::parse(text).is_err(), "{text}");
        }
        assert!(Spec::parse_params("2MiB").is_err());
    }

    #[test]
    fn unknown_parameters_get_a_hint() {
        let spec = Spec::parse("zipf:pagse=1").unwrap();
        let mut params = spec.params();
        params.count("pages").unwrap();
        params.float("theta").unwrap();
        let error = params.finish().unwrap_err();
        assert_eq!(
            error.to_string(),
            "zipf: unknown parameter `pagse`\nhint: did you mean `pages`? known: pages, theta"
        );
        let error = Spec::parse("lru:x=1").unwrap().params().finish().unwrap_err();
        assert!(error.to_string().ends_with("hint: no parameter can be given here"), "{error}");
    }

    #[test]
    fn wrong_values_name_the_parameter() {
        let spec = Spec::parse("z:n=1x:w=5000000000:c=lifo").unwrap();
        let mut params = spec.params();
        assert!(params.count("n").unwrap_err().what.starts_with("z: n: `1x` is not a count"));
        assert!(params.count_u32("w").unwrap_err().what.contains("too large"));
        let error = params.choice("c", &["fifo", "lru"]).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("did you mean `fifo`? known: fifo, lru"));
        params.finish().unwrap();
    }

    #[test]
    fn counts() {
        let good: &[(&str, u64)] = &[
            ("0", 0),
            ("12", 12),
            ("1_000_000", 1_000_000),
            ("4M", 4_000_000),
            ("4Mi", 4 << 20),
            ("1.5K", 1500),
            ("1G", 1_000_000_000),
            ("1e8", 100_000_000),
            ("2.5e3", 2500),
            ("1e-1K", 100),
            ("18446744073709551615", u64::MAX),
            ("2 M", 2_000_000),
        ];
        for (text, value) in good {
            assert_eq!(parse_count(text), Ok(*value), "{text}");
        }
        for text in [
            "",
            "M",
            "-1",
            "1.2.3",
            "1x",
            "4MiB",
            "18446744073709551616",
            "1e40",
            "_",
            "1e99999",
            "5%",
        ] {
            assert!(parse_count(text).is_err(), "{text}");
        }
        assert_eq!(parse_count("1e-40"), Ok(0));
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        for text in ["4G", "4GB", "4GiB", "4gib", "4 GiB", "4096MiB"] {
            assert_eq!(parse_bytes(text), Ok(Bytes(4 << 30)), "{text}");
        }
        assert_eq!(parse_bytes("1.5GiB"), Ok(Bytes(3 << 29)));
        assert_eq!(parse_bytes("4096"), Ok(Bytes(4096)));
        assert!(parse_bytes("4Gi").is_err());
        assert!(parse_bytes("16777216TiB").is_err());
    }

    #[test]
    fn times_ratios_and_switches() {
        assert_eq!(parse_duration("500ms"), Ok(Nanos(500_000_000)));
        assert_eq!(parse_duration("1.5us"), Ok(Nanos(1500)));
        assert_eq!(parse_duration("2min"), Ok(Nanos(120_000_000_000)));
        assert_eq!(parse_duration("0"), Ok(Nanos(0)));
        assert!(parse_duration("5").is_err());
        assert_eq!(parse_ratio("40%"), Ok(0.4));
        assert_eq!(parse_ratio("2/5"), Ok(0.4));
        assert_eq!(parse_ratio("1"), Ok(1.0));
        for text in ["1.1", "-1%", "1/0", "0/0", "nan", "101%", ""] {
            assert!(parse_ratio(text).is_err(), "{text}");
        }
        assert_eq!(parse_float("-1e-3"), Ok(-0.001));
        for text in ["inf", "nan", "1e999", ""] {
            assert!(parse_float(text).is_err(), "{text}");
        }
        assert_eq!((parse_switch("on"), parse_switch("no")), (Ok(true), Ok(false)));
        assert!(parse_switch("maybe").is_err());
    }

    #[test]
    fn lists_and_nearest_words() {
        assert_eq!(list("a:b=1, c,,d").collect::<Vec<_>>(), vec!["a:b=1", "c", "d"]);
        assert_eq!(did_you_mean("memtsi", ["lru", "memtis"]), Some("memtis"));
        assert_eq!(did_you_mean("acc", ["accesses", "pages"]), Some("accesses"));
        assert_eq!(did_you_mean("xyz", ["lru", "memtis"]), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            if let Ok(spec) = Spec::parse(&text) {
                prop_assert_eq!(spec.to_string(), text.clone());
            }
            let _ = (parse_count(&text), parse_bytes(&text), parse_duration(&text));
            let _ = (parse_ratio(&text), parse_float(&text), list(&text).count());
        }

        #[test]
        fn every_number_is_read_back(value: u64) {
            prop_assert_eq!(parse_count(&value.to_string()), Ok(value));
            prop_assert_eq!(parse_bytes(&value.to_string()), Ok(Bytes(value)));
        }
    }
}
