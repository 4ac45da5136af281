//! Where slow memory is, as users write it.

use frostline_core::spec::{Spec, SpecError};
use frostline_core::types::Bytes;
use std::fmt;

/// A tier below the fast one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlowTier {
    /// A NUMA node.
    Node(u32),
    /// Compressed memory that we set up: `zram:size=4GiB:algorithm=lzo-rle`.
    Zram {
        /// Uncompressed capacity; `None` for as much as the machine has memory.
        size: Option<Bytes>,
        /// Compression; `None` for the kernel's choice.
        algorithm: Option<String>,
    },
    /// The swap space that the system has.
    Swap,
    /// None: nothing is moved, everything else works.
    Observe,
}

impl SlowTier {
    /// Reads `node:1`, `zram:size=4GiB`, `swap` or `none`.
    ///
    /// # Errors
    /// Another name, or parameters that it does not have.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        if let Some(number) = text.strip_prefix("node:") {
            return number.parse().map(Self::Node).map_err(|_| {
                SpecError::new(
                    format!("'{number}' is no number of a node"),
                    "write node:1, for instance; `frostline doctor` lists the nodes",
                )
            });
        }
        let spec = Spec::parse(text)?;
        let mut params = spec.params();
        let tier = match spec.name() {
            "zram" => Self::Zram {
                size: params.bytes("size")?,
                algorithm: params.text("algorithm").map(str::to_owned),
            },
            "swap" => Self::Swap,
            "none" => Self::Observe,
            other => {
                return Err(SpecError::unknown(
                    "slow tier",
                    other,
                    &["node:N", "zram", "swap", "none"],
                ));
            }
        };
        params.finish()?;
        Ok(tier)
    }

    /// Whether programs cannot load and store in it directly.
    pub fn is_swap(&self) -> bool {
        matches!(self, Self::Zram { .. } | Self::Swap)
    }
}

impl fmt::Display for SlowTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node:{node}"),
            Self::Zram { size: Some(size), .. } => write!(f, "zram:size={}", size.0),
            Self::Zram { .. } => f.write_str("zram"),
            Self::Swap => f.write_str("swap"),
            Self::Observe => f.write_str("none"),
        }
    }
}

/// How much of a target's memory may be fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FastLimit {
    /// So many bytes.
    Size(Bytes),
    /// A share of what the target has in all tiers, in `(0, 1]`; looked at again every second.
    Share(f64),
}

impl FastLimit {
    /// Reads `2GiB`, `40%`, or `1:4` (fast to slow, a fifth).
    ///
    /// # Errors
    /// Anything else, and a share outside `(0, 1]`.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let hint = "write a size such as 2GiB, a share such as 40%, or a ratio such as 1:4";
        let share = if let Some((fast, slow)) = text.split_once(':') {
            let part = |text: &str| text.parse::<f64>().ok().filter(|n| *n > 0.0 && n.is_finite());
            let (Some(fast), Some(slow)) = (part(fast), part(slow)) else {
                return Err(SpecError::new(format!("'{text}' is no ratio"), hint));
            };
            fast / (fast + slow)
        } else if text.ends_with('%') {
            frostline_core::spec::parse_ratio(text)?
        } else {
            return frostline_core::spec::parse_bytes(text).map(Self::Size);
        };
        if share > 0.0 && share <= 1.0 {
            Ok(Self::Share(share))
        } else {
            Err(SpecError::new(format!("'{text}' is not above 0 and at most 100 %"), hint))
        }
    }

    /// Bytes where the target has `footprint` in all tiers.
    pub fn bytes(self, footprint: Bytes) -> Bytes {
        match self {
            Self::Size(bytes) => bytes,
            Self::Share(share) => Bytes((footprint.0 as f64 * share) as u64),
        }
    }
}

impl fmt::Display for FastLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(bytes) => write!(f, "{}", bytes.0),
            Self::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_read_and_written() {
        for text in ["node:1", "zram", "swap", "none", "zram:size=4294967296"] {
            assert_eq!(SlowTier::parse(text).unwrap().to_string(), text);
        }
        let zram = SlowTier::parse("zram:size=4GiB:algorithm=lz4").unwrap();
        assert!(zram.is_swap());
        for bad in ["node:x", "zarm", "zram:sise=1", "swap:size=1", ""] {
            assert!(SlowTier::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn limits_are_sizes_shares_or_ratios() {
        let footprint = Bytes(1000);
        let bytes = |text: &str| FastLimit::parse(text).unwrap().bytes(footprint).0;
        assert_eq!([bytes("40%"), bytes("1:4"), bytes("2KiB")], [400, 200, 2048]);
        for bad in ["0%", "101%", "1:0", "x", "-1:2", "1:inf"] {
            assert!(FastLimit::parse(bad).is_err(), "{bad}");
        }
    }
}
