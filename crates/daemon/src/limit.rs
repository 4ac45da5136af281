//! Limits of tiers, as users write them.

use alloc::format;
use core::fmt;
use core::str::FromStr;
use frostline_core::spec::SpecError;
use frostline_core::types::Bytes;

/// How much of a target's memory may be in a tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// So many bytes.
    Size(Bytes),
    /// A share of what the target has in all tiers, above 0; looked at again every second. From 1 on
    /// it limits nothing.
    Share(f64),
    /// All that the target has but so many bytes, and a 64th of it at least; looked at again every second.
    AllBut(Bytes),
}

/// What begins a limit that says how much shall not be in the tier.
const ALL_BUT: &str = "all-";
/// Part of the memory that is in the tier all the same.
const LEAST: u64 = 64;

/// Largest share that is taken, as by the simulator; more is a slip.
const MOST_SHARE: f64 = 1e4;

impl Limit {
    /// Reads `2GiB`, `40%`, or `1:4` (fast to slow, a fifth), as the simulator does, or `all-2GiB`; but nothing
    /// may have no fast memory at all.
    ///
    /// # Errors
    /// Anything else, and a share of nothing.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let hint = "write a size such as 2GiB, a share such as 40%, or a ratio such as 1:4";
        if let Some(rest) = text.strip_prefix(ALL_BUT) {
            return match Self::parse(rest)? {
                Self::Size(bytes) => Ok(Self::AllBut(bytes)),
                _ => {
                    Err(SpecError::new(format!("'{rest}' is no size"), "write a size such as 2GiB"))
                }
            };
        }
        let share = if let Some((fast, slow)) = text.split_once(':') {
            let part = |text: &str| text.parse::<f64>().ok().filter(|n| *n >= 0.0 && n.is_finite());
            let (Some(fast), Some(slow)) = (part(fast), part(slow)) else {
                return Err(SpecError::new(format!("'{text}' is no ratio"), hint));
            };
            fast / (fast + slow)
        } else if let Some(percent) = text.strip_suffix('%') {
            frostline_core::spec::parse_float(percent.trim())? / 100.0
        } else {
            return match frostline_core::spec::parse_bytes(text) {
                Ok(_) => frostline_core::spec::parse_memory(text).map(Self::Size),
                Err(error) => Err(SpecError::new(error.what, hint)),
            };
        };
        if share > 0.0 && share <= MOST_SHARE {
            Ok(Self::Share(share))
        } else {
            Err(SpecError::new(
                format!("'{text}' is not above 0 and at most {}%", MOST_SHARE * 100.0),
                hint,
            ))
        }
    }

    /// Bytes where the target has `footprint` in all tiers.
    pub fn bytes(self, footprint: Bytes) -> Bytes {
        match self {
            Self::Size(bytes) => bytes,
            Self::Share(share) => Bytes((footprint.0 as f64 * share) as u64),
            Self::AllBut(bytes) => footprint.saturating_sub(bytes).max(Bytes(footprint.0 / LEAST)),
        }
    }
}

impl FromStr for Limit {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(bytes) => write!(f, "{}", bytes.0),
            Self::Share(share) => write!(f, "{}%", share * 100.0),
            Self::AllBut(bytes) => write!(f, "{ALL_BUT}{}", bytes.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_sizes_shares_or_ratios() {
        let footprint = Bytes(1000);
        let bytes = |text: &str| Limit::parse(text).unwrap().bytes(footprint).0;
        assert_eq!([bytes("40%"), bytes("1:4"), bytes("8KiB")], [400, 200, 8192]);
        assert_eq!([bytes("100%"), bytes("200%"), bytes("1:0")], [1000, 2000, 1000]);
        let all_but = |text: &str| Limit::parse(text).unwrap().bytes(Bytes(1 << 20)).0 >> 10;
        let left = [all_but("all-24KiB"), all_but("all-1020KiB"), all_but("all-1GiB")];
        assert_eq!(left, [1000, 16, 16]);
        for bad in [
            "all-0",
            "all-10%",
            "all-1:2",
            "all-",
            "all-all-1KiB",
            "0%",
            "0:1",
            "0:0",
            "x",
            "-1:2",
            "1:inf",
            "inf%",
            "1000001%",
            "40",
            "0",
        ] {
            assert!(Limit::parse(bad).is_err(), "{bad}");
        }
        let hint = |text: &str| Limit::parse(text).unwrap_err().hint.unwrap_or_default();
        assert!(hint("40").contains("40%") && hint("40").contains("40GiB"), "{}", hint("40"));
        assert!(hint("40 percent").contains("such as 40%"), "{}", hint("40 percent"));
    }
}
