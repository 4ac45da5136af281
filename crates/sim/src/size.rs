//! Size of a run's fast memory.

use crate::footprint::Footprint;
use frostline_core::spec::{self, SpecError};
use frostline_core::types::{Bytes, PAGE_BYTES, PageCount};
use std::fmt;
use std::str::FromStr;

/// Size of tier 0: relative to the program's footprint, or absolute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FastSize {
    /// `f:s`, fast to slow memory: footprint x f / (f + s).
    Ratio(u32, u32),
    /// Per cent of the footprint, 0 to any.
    Percent(f64),
    /// Exactly so much.
    Bytes(Bytes),
}

impl FastSize {
    /// Whole pages of tier 0 for a program of this footprint.
    pub fn pages(self, footprint: &Footprint) -> PageCount {
        let pages = footprint.peak_resident_pages;
        match self {
            Self::Ratio(fast, slow) => {
                let parts = u128::from(fast) + u128::from(slow);
                PageCount((u128::from(pages) * u128::from(fast) / parts) as u64)
            }
            Self::Percent(percent) => PageCount((pages as f64 * percent / 100.0).round() as u64),
            Self::Bytes(bytes) => PageCount(bytes.0 / PAGE_BYTES),
        }
    }
}

impl FromStr for FastSize {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let hint =
            "write the fast tier as a ratio 1:8, a share of the footprint 40%, or a size 2GiB";
        let fail = || SpecError::new(format!("`{text}` is not a size of fast memory"), hint);
        if let Some((fast, slow)) = text.split_once(':') {
            let part = |t: &str| t.trim().parse::<u32>().ok();
            return match (part(fast), part(slow)) {
                (Some(fast), Some(slow)) if fast > 0 || slow > 0 => Ok(Self::Ratio(fast, slow)),
                _ => Err(fail()),
            };
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| fail())?;
            return if (0.0..=1e6).contains(&percent) {
                Ok(Self::Percent(percent))
            } else {
                Err(fail())
            };
        }
        match spec::parse_bytes(text).map_err(|_| fail())? {
            Bytes(0) => Ok(Self::Bytes(Bytes(0))),
            _ => spec::parse_memory(text).map(Self::Bytes),
        }
    }
}

impl fmt::Display for FastSize {
    /// Text that `from_str` takes back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio(fast, slow) => write!(f, "{fast}:{slow}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Bytes(bytes) => f.write_str(&spec::show_bytes(bytes.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprint(pages: u64) -> Footprint {
        Footprint { peak_resident_pages: pages, ..Footprint::default() }
    }

    #[test]
    fn sizes_are_parts_of_the_footprint() {
        let pages = |text: &str| text.parse::<FastSize>().unwrap().pages(&footprint(900)).0;
        assert_eq!(pages("1:8"), 100);
        assert_eq!(pages("2:1"), 600);
        assert_eq!(pages("0:1"), 0);
        assert_eq!(pages("40%"), 360);
        assert_eq!(pages("0%"), 0);
        assert_eq!(pages("2MiB"), 512);
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        for text in ["", "1:", ":8", "0:0", "-4%", "x%", "1:2:3", "12parsec"] {
            let error = text.parse::<FastSize>().unwrap_err();
            assert!(error.to_string().contains("hint:"), "{text}: {error}");
        }
    }

    #[test]
    fn text_form_is_taken_back() {
        for size in [FastSize::Ratio(1, 16), FastSize::Percent(12.5), FastSize::Bytes(Bytes(4096))]
        {
            assert_eq!(size.to_string().parse::<FastSize>().unwrap(), size);
        }
    }
}
