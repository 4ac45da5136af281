//! Descriptions of virtual machines: `none`, `gpac:cl=50`.

use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::spec::{self, Spec, SpecError};
use frostline_core::types::*;
use std::fmt;

/// Window over which the guest looks for accessed pages, before it is divided by the scale. GPAC does
/// not say. What is left behind has to be idle to the host, which takes memtierd 15 s.
const WINDOW: Nanos = Nanos(20_000_000_000);
/// Of the guest's resident size; GPAC's guests have 20 GB for 12.5 GB of Redis (section 5.1).
const MEMORY: f64 = 1.6;
const MEMORIES: std::ops::RangeInclusive<f64> = 1.0..=100.0;
/// Assumed.
const AGED: f64 = 0.25;

/// A virtual machine: what its memory looks like, and whether it gathers its hot pages.
#[derive(Clone, Debug, PartialEq)]
pub struct GuestSetup {
    /// Gathers hot pages that lie scattered: GPAC. `None`: it does not.
    pub consolidate: Option<ConsolidationLimit>,
    /// Windows in a row in which a page has to be accessed to be hot, 1 to 255.
    pub windows: u8,
    /// Gathers in the first window only that has something to gather.
    pub once: bool,
    /// Time between two looks at all access bits; divided by the scale.
    pub window: Nanos,
    /// Its memory, as a multiple of what its program has resident; at least 1.
    pub memory: f64,
    /// Share of its 2 MiB regions in which others hold half of the pages, for ever; `[0, 1)`.
    pub aged: f64,
    /// Whether the guest maps memory by 2 MiB.
    pub huge: bool,
    text: String,
    names_limit: bool,
    names_memory: bool,
}

impl GuestSetup {
    /// Takes `none`, `gpac` or either with parameters.
    ///
    /// # Errors
    /// Another name, an unknown parameter, or a value out of range.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let given = Spec::parse(text)?;
        let gpac = match given.name() {
            "gpac" => true,
            "none" => false,
            other => return Err(SpecError::unknown("guest", other, &["none", "gpac"])),
        };
        let mut params = given.params();
        let limit = if gpac { params.value("cl", ConsolidationLimit::parse)? } else { None };
        let names_limit = limit.is_some();
        let (windows, once) = match gpac {
            true => (params.value("windows", windows)?, params.switch("once")?),
            false => (None, None),
        };
        let (windows, once) = (windows.unwrap_or(1), once.unwrap_or(false));
        let window = params.duration("window")?.unwrap_or(WINDOW);
        let memory = params.value("memory", multiple)?;
        let names_memory = memory.is_some();
        let memory = memory.unwrap_or(MEMORY);
        let aged = params.ratio("aged")?.unwrap_or(AGED);
        let huge = params.choice("pages", &["base", "huge"])? == Some(1);
        params.finish()?;
        let refuse = |what: &str, hint: &str| Err(SpecError::new(format!("{text}: {what}"), hint));
        if window == Nanos::ZERO {
            return refuse("a window of no time", "the default is 20s");
        }
        if !MEMORIES.contains(&memory) {
            return refuse("memory is out of range", "give 100% to 10000% of the resident size");
        }
        if aged >= 1.0 {
            return refuse("aged is out of range", "some memory has to be free: below 100%");
        }
        if gpac && huge {
            let hint = "gpac gathers base pages: leave pages=huge out, or take none:pages=huge";
            return refuse("nothing to gather", hint);
        }
        let consolidate = gpac.then(|| limit.unwrap_or_default());
        let text = text.to_owned();
        Ok(Self {
            consolidate,
            windows,
            once,
            window,
            memory,
            aged,
            huge,
            text,
            names_limit,
            names_memory,
        })
    }

    /// The same with this limit, where it gathers, and so much memory, as far as its text names none.
    #[must_use]
    pub fn with(&self, limit: Option<ConsolidationLimit>, memory: Option<f64>) -> Self {
        let mut other = self.clone();
        if let (Some(own), Some(limit), false) = (&mut other.consolidate, limit, self.names_limit) {
            *own = limit;
        }
        if let (Some(memory), false) = (memory, self.names_memory) {
            other.memory = memory.clamp(*MEMORIES.start(), *MEMORIES.end());
        }
        other
    }
}

impl fmt::Display for GuestSetup {
    /// As it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn windows(text: &str) -> Result<u8, SpecError> {
    let fail = || SpecError::new(format!("windows={text}: out of range"), "give 1 to 255");
    text.parse().ok().filter(|n| *n > 0).ok_or_else(fail)
}

fn multiple(text: &str) -> Result<f64, SpecError> {
    match text.strip_suffix('%') {
        Some(percent) => Ok(spec::parse_float(percent)? / 100.0),
        None => spec::parse_float(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_and_refused() {
        let parse = |text: &str| GuestSetup::parse(text).unwrap();
        assert_eq!(parse("none").consolidate, None);
        assert_eq!(parse("gpac").consolidate, Some(ConsolidationLimit::Auto));
        assert_eq!(parse("gpac:cl=50").consolidate, Some(ConsolidationLimit::Pages(50)));
        let all = parse("none:memory=200%:aged=0:pages=huge:window=1s");
        assert_eq!((all.memory, all.aged, all.huge, all.window.0), (2.0, 0.0, true, 1_000_000_000));
        assert_eq!(parse("gpac:cl=auto:memory=1.5").memory, 1.5);
        let rare = parse("gpac:windows=2:once=on");
        assert_eq!((rare.windows, rare.once), (2, true));
        assert_eq!((parse("gpac").windows, parse("gpac").once), (1, false));
        let (own, given) =
            (parse("gpac:cl=7:memory=3"), (Some(ConsolidationLimit::Pages(9)), Some(2.0)));
        assert_eq!(own.with(given.0, given.1), own);
        let taken = parse("gpac").with(given.0, given.1);
        assert_eq!((taken.consolidate, taken.memory), given.0.map(|cl| (Some(cl), 2.0)).unwrap());
        assert_eq!(parse("none").with(given.0, None), parse("none"));
        for text in [
            "",
            "gpack",
            "gpac:cl=0",
            "gpac:cl=513",
            "gpac:cl=many",
            "none:cl=5",
            "gpac:windows=0",
            "gpac:windows=256",
            "gpac:once=perhaps",
            "none:once=on",
            "gpac:pages=huge",
            "none:memory=50%",
            "none:aged=1",
            "none:window=0s",
            "none:colour=1",
        ] {
            let error = GuestSetup::parse(text).unwrap_err().to_string();
            assert!(error.contains("hint:"), "{text}: {error}");
        }
    }
}
