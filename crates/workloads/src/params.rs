//! Parameters of generators: their table for help and documents, and typed access to the values.

pub use frostline_core::params::Param;
use frostline_core::rng::Rng;
use frostline_core::spec::{Params, Spec, SpecError};
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;

pub(super) const PAGES: Param =
    Param::text("pages", "", "footprint in pages of 4 KiB, instead of size");
pub(super) const SEED: Param =
    Param::text("seed", "1", "seed of all random choices; same description, same records");
pub(super) const INIT: Param = Param::text(
    "init",
    "on",
    "on: first every page is written once, in the order of allocation; off: the measured phase \
     touches pages first",
);
pub(super) const EPOCH: Param =
    Param::text("epoch", "50M", "instructions between touched-page sets, 1K to 2G; off: none");
pub(super) const FILE: Param = Param::text(
    "file",
    "off",
    "on: the data is read from a file before, which stays in memory when it has been closed",
);
pub(super) const THREADS: Param =
    Param::text("threads", "1", "threads that take turns, 256 records each, 1 to 1024");
pub(super) const THIN: Param = Param::text(
    "thin",
    "1",
    "one record stands for this many accesses, 1 to 65536; for policies that see samples only",
);
pub(super) const LLC: Param = Param::text(
    "llc",
    "auto",
    "size of the 16-way last-level cache; auto: footprint / 512 as a power of two in \
     256KiB..32MiB; off: every miss of the first-level cache is a record",
);
pub(super) const MARK: Param =
    Param::text("mark", "64", "every that many operations, one has begin and end marks; off: none");

pub(super) const THINK: Param = Param::text(
    "think",
    "0",
    "instructions of an operation besides those to its data, as for sockets and parsing, 0 to 100M; 6000 take \
     1 us at 3 GHz",
);

pub(super) const fn size(default: &'static str) -> Param {
    Param::text("size", default, "footprint; a part of a page counts as one")
}

pub(super) const fn accesses(default: &'static str) -> Param {
    Param::text("accesses", default, "accesses to memory after the initialisation")
}

pub(super) const fn writes(default: &'static str) -> Param {
    Param::text("writes", default, "share of the accesses that are stores")
}

pub(super) const fn gap(default: &'static str) -> Param {
    Param::text("gap", default, "instructions from one access to the next, 1 to 1M")
}

pub(super) const fn skew(default: &'static str) -> Param {
    Param::text("s", default, "exponent of the Zipf law, 0 (uniform) to 10")
}

/// The most pages that a generator takes: 1 TiB.
const MAX_PAGES: u64 = 1 << 28;

/// The values of all parameters of one run: given, or the defaults.
#[derive(Debug)]
pub(super) struct Settings {
    given: Spec,
    full: Spec,
}

type Get<'a, T> = fn(&mut Params<'a>, &'static str) -> Result<Option<T>, SpecError>;

impl Settings {
    /// Checks the names of the given parameters and adds the defaults of the others.
    pub(super) fn new(given: Spec, params: &[Param]) -> Result<Self, TraceError> {
        let mut check = given.params();
        for param in params {
            check.text(param.name);
        }
        check.finish().map_err(spec_error)?;
        let mut full = given.clone();
        for param in params {
            if full.get(param.name).is_none() && !param.default.is_empty() {
                full = full.with(param.name, param.default);
            }
        }
        Ok(Self { given, full })
    }

    /// The description as given, for people.
    pub(super) fn describe(&self) -> String {
        format!("synth:{}", self.given)
    }

    fn get<'a, T>(&'a self, key: &'static str, get: Get<'a, T>) -> Result<T, TraceError> {
        let mut params = self.full.params();
        get(&mut params, key)
            .map_err(spec_error)?
            .ok_or_else(|| self.refuse(key, "has no value", "give it one"))
    }

    /// "`name: key what`, hint: ...".
    pub(super) fn refuse(&self, key: &str, what: &str, hint: &str) -> TraceError {
        spec_error(SpecError::new(format!("{}: {key} {what}", self.full.name()), hint))
    }

    /// Whether the parameter was given.
    pub(super) fn is_given(&self, key: &str) -> bool {
        self.given.get(key).is_some()
    }

    /// Whether the parameter has the value `word`.
    pub(super) fn is(&self, key: &str, word: &str) -> bool {
        self.full.get(key) == Some(word)
    }

    /// A count within `least..=most`.
    pub(super) fn count(
        &self,
        key: &'static str,
        least: u64,
        most: u64,
    ) -> Result<u64, TraceError> {
        let value = self.get(key, Params::count)?;
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        let which = if value < least { "too small" } else { "too large" };
        Err(self.refuse(key, &format!("of {value} is {which}"), &format!("give {least} to {most}")))
    }

    /// An amount of memory in bytes.
    pub(super) fn bytes(&self, key: &'static str) -> Result<u64, TraceError> {
        Ok(self.get(key, Params::bytes)?.0)
    }

    /// A share within 0 and 1.
    pub(super) fn share(&self, key: &'static str) -> Result<f64, TraceError> {
        self.get(key, Params::ratio)
    }

    /// A switch.
    pub(super) fn switch(&self, key: &'static str) -> Result<bool, TraceError> {
        self.get(key, Params::switch)
    }

    /// One of the words; its place in `choices`.
    pub(super) fn choice(&self, key: &'static str, choices: &[&str]) -> Result<usize, TraceError> {
        let chosen = self.full.params().choice(key, choices).map_err(spec_error)?;
        chosen.ok_or_else(|| self.refuse(key, "has no value", "give it one"))
    }

    /// The exponent of a Zipf law.
    pub(super) fn skew(&self) -> Result<f64, TraceError> {
        let s = self.get("s", Params::float)?;
        if (0.0..=10.0).contains(&s) {
            return Ok(s);
        }
        Err(self.refuse("s", &format!("of {s} is out of range"), "give 0 (uniform) to 10"))
    }

    /// The footprint in pages, from `pages` or `size`; at least `least`.
    pub(super) fn pages(&self, least: u64) -> Result<u32, TraceError> {
        let key = if self.is_given("pages") { "pages" } else { "size" };
        if key == "pages" && self.is_given("size") {
            return Err(self.refuse("pages", "and size are both given", "give one of them"));
        }
        let pages = if key == "pages" {
            self.get(key, Params::count)?
        } else {
            self.bytes(key)?.div_ceil(PAGE_BYTES)
        };
        if (least..=MAX_PAGES).contains(&pages) {
            return Ok(pages as u32);
        }
        Err(self.refuse(
            key,
            &format!("stands for {pages} pages of 4 KiB"),
            &format!("this generator takes {least} to {MAX_PAGES} pages (1TiB)"),
        ))
    }

    /// Number of accesses of the measured phase.
    pub(super) fn accesses(&self) -> Result<u64, TraceError> {
        self.count("accesses", 1, 1 << 50)
    }

    /// Instructions from one access to the next.
    pub(super) fn gap(&self) -> Result<u32, TraceError> {
        Ok(self.count("gap", 1, 1_000_000)? as u32)
    }

    /// Accesses per record.
    pub(super) fn thin(&self) -> Result<u32, TraceError> {
        Ok(self.count("thin", 1, 65_536)? as u32)
    }

    /// Instructions between touched-page sets; 0 for none.
    pub(super) fn epoch(&self) -> Result<u64, TraceError> {
        if self.is("epoch", "off") { Ok(0) } else { self.count("epoch", 1000, 2_000_000_000) }
    }

    /// The seed.
    pub(super) fn seed(&self) -> Result<u64, TraceError> {
        self.count("seed", 0, u64::MAX)
    }

    /// A generator of random numbers from the seed.
    pub(super) fn rng(&self) -> Result<Rng, TraceError> {
        Ok(Rng::new(self.seed()?))
    }
}

pub(super) fn spec_error(error: SpecError) -> TraceError {
    TraceError::Spec { what: error.to_string() }
}
