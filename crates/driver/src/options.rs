//! Options of tiering: the one set that the command line, the daemon's file and an agent's variable fill.

use crate::source::choice::Samples;
use crate::tier::{SlowLimits, SlowTier, SlowTiers};
use crate::written::{CpuShare, Policy, Size, Slowdown, Written};
use frostline_core::spec::SpecError;
use frostline_core::types::Bytes;
use frostline_daemon::{Goal, Limit};
use serde::de::value::Error as TextError;
use serde::de::{Deserializer, Error, IntoDeserializer};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

/// What holds where nothing else is asked for.
pub mod default {
    /// Policy.
    pub const POLICY: &str = frostline_core::policy::registry::DEFAULT;
    /// Slowdown that is kept to where fast memory is not limited.
    pub const MAX_SLOWDOWN: &str = "1%";
    /// Fast memory where nobody measures how much is lost.
    pub const FAST: &str = "50%";
    /// Share of one core.
    pub const CPU_LIMIT: &str = "1%";
    /// Share of one core until the limit of fast memory holds.
    pub const SETTLING_CPU_LIMIT: &str = "6%";
    /// Source of samples.
    pub const SAMPLES: &str = "auto";
    /// Seed of random choices.
    pub const SEED: u64 = 1;
}

/// A default.
pub(crate) fn read<T: FromStr<Err: Display>>(text: &str) -> T {
    text.parse().unwrap_or_else(|error| panic!("the default {text}: {error}"))
}

/// Loss that is no goal: whatever it comes to.
pub const ANY_LOSS: f64 = 1000.0;

/// What to do. [`Self::set`] reads it key by key, so that an error has the key's place in its file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Options {
    /// Policy, with all its parameters.
    pub policy: Written<Policy>,
    /// How much may be fast; `None` for what [`Self::goal`] takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast: Option<Written<Limit>>,
    /// How much is fast at least, where there is a goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_fast: Option<Written<Limit>>,
    /// How much slower the program may become.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_slowdown: Option<Written<Slowdown>>,
    /// Below fast memory; `None` for what suits the system best.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "show_list")]
    pub slow: Option<Written<SlowTiers>>,
    /// Limits of slow tiers.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "show_list")]
    pub limit: Option<Written<SlowLimits>>,
    /// Our share of a core once the limit holds.
    pub cpu_limit: Written<CpuShare>,
    /// Our share of a core until then, for a minute at most.
    pub settling_cpu_limit: Written<CpuShare>,
    /// Where samples of accesses shall come from.
    pub samples: Written<Samples>,
    /// Most bytes per second that the policy may have moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration_limit: Option<Written<Size>>,
    /// Seed of all random choices.
    #[serde(skip_serializing_if = "is_default_seed")]
    pub seed: u64,
    /// The only swap device that pages shall go to; `None` for whichever the kernel takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_device: Option<PathBuf>,
    /// Where to write the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<PathBuf>,
    /// Follow allocations in the extents that were asked for, also where the policy does without.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub extents: bool,
    /// Only watch: nothing is moved.
    pub dry_run: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: read(default::POLICY),
            fast: None,
            min_fast: None,
            max_slowdown: None,
            slow: None,
            limit: None,
            cpu_limit: read(default::CPU_LIMIT),
            settling_cpu_limit: read(default::SETTLING_CPU_LIMIT),
            samples: read(default::SAMPLES),
            migration_limit: None,
            seed: default::SEED,
            swap_device: None,
            journal: None,
            extents: false,
            dry_run: false,
        }
    }
}

impl Options {
    /// What [`Self::set`] knows.
    pub const KEYS: &'static [&'static str] = &[
        "policy",
        "fast",
        "min_fast",
        "max_slowdown",
        "slow",
        "limit",
        "cpu_limit",
        "settling_cpu_limit",
        "samples",
        "migration_limit",
        "seed",
        "swap_device",
        "journal",
        "extents",
        "dry_run",
    ];

    /// Sets one of them.
    ///
    /// # Errors
    /// A key that is not known, and a value that cannot be.
    pub fn set<'de, D: Deserializer<'de>>(&mut self, key: &str, from: D) -> Result<(), D::Error> {
        match key {
            "policy" => self.policy = Deserialize::deserialize(from)?,
            "fast" => self.fast = Some(Deserialize::deserialize(from)?),
            "min_fast" => self.min_fast = Some(Deserialize::deserialize(from)?),
            "max_slowdown" => self.max_slowdown = Some(Deserialize::deserialize(from)?),
            "slow" => self.slow = list(from, "slow tiers")?,
            "limit" => self.limit = list(from, "limits")?,
            "cpu_limit" => self.cpu_limit = Deserialize::deserialize(from)?,
            "settling_cpu_limit" => self.settling_cpu_limit = Deserialize::deserialize(from)?,
            "samples" => self.samples = Deserialize::deserialize(from)?,
            "migration_limit" => self.migration_limit = Some(Deserialize::deserialize(from)?),
            "seed" => self.seed = Deserialize::deserialize(from)?,
            "swap_device" => self.swap_device = Some(Deserialize::deserialize(from)?),
            "journal" => self.journal = Some(Deserialize::deserialize(from)?),
            "extents" => self.extents = Deserialize::deserialize(from)?,
            "dry_run" => self.dry_run = Deserialize::deserialize(from)?,
            _ => return Err(D::Error::unknown_field(key, Self::KEYS)),
        }
        Ok(())
    }

    /// Sets one of them from the words of a command line; none leave it as it is.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn set_words(&mut self, key: &str, words: &[String]) -> Result<(), SpecError> {
        let result = match words {
            [] => Ok(()),
            [word] => self.set(key, IntoDeserializer::<TextError>::into_deserializer(&**word)),
            words => {
                self.set(key, IntoDeserializer::<TextError>::into_deserializer(words.to_vec()))
            }
        };
        result.map_err(|error| SpecError::of_text(&error.to_string()))
    }

    /// Puts limits to slow tiers; `choose` gives the tier where none is named.
    ///
    /// # Errors
    /// A limit of a tier that is not there.
    pub fn settle(&mut self, choose: impl FnOnce() -> SlowTier) -> Result<(), SpecError> {
        let mut slow: Written<SlowTiers> = match &self.slow {
            Some(slow) => slow.clone(),
            None => choose().to_string().parse()?,
        };
        slow.replace(slow.limited(self.limit.as_deref())?);
        self.slow = Some(slow);
        Ok(())
    }

    /// Slowdown to keep to in place of a size: what is asked for, or the default where no size is. A size is the most
    /// that may be fast then; what shall be saved, no more than that is, step by step and at [`ANY_LOSS`].
    pub fn goal(&self) -> Option<Goal> {
        let default = || default::MAX_SLOWDOWN.parse::<Slowdown>().expect("the default is one");
        let most_loss = match (&self.max_slowdown, self.fast.as_deref()) {
            (Some(slowdown), _) => slowdown.get(),
            (None, None) => default().get(),
            (None, Some(Limit::AllBut(_))) => ANY_LOSS,
            (None, Some(_)) => return None,
        };
        let (floor, fast) = (self.min_fast.as_deref().copied(), self.fast.as_deref().copied());
        let (floor, ceiling) = match fast {
            Some(saves @ Limit::AllBut(_)) => (floor.or(Some(saves)), None),
            most => (floor, most),
        };
        Some(Goal { most_loss, floor, ceiling })
    }

    /// Most memory that may be fast.
    pub fn most_fast(&self) -> Limit {
        match self.fast.as_deref().copied() {
            None | Some(Limit::AllBut(_)) => Limit::Share(1.0),
            Some(fast) => fast,
        }
    }

    /// Has so much saved, where neither a size nor a slowdown is asked for.
    pub fn save(&mut self, size: &Size) {
        if self.fast.is_none() && self.max_slowdown.is_none() {
            self.fast = format!("all-{}B", size.bytes().0).parse().ok();
        }
    }

    /// What is wrong with what shall be saved, on a machine with so much memory.
    pub fn excess(&self, memory: Bytes) -> Option<SpecError> {
        let Some(Limit::AllBut(saved)) = self.fast.as_deref() else { return None };
        too_much(*saved, memory)
    }

    /// Gives up a goal that nobody asked for by name: a size takes its place, which is everything where nothing moves.
    ///
    /// # Errors
    /// Where a slowdown is asked for.
    pub fn without_goal(&mut self) -> Result<(), SpecError> {
        if let Some(slowdown) = &self.max_slowdown {
            let what = format!("a slowdown of at most {slowdown} cannot be kept to");
            return Err(SpecError::new(what, "give --fast in its place"));
        }
        if self.fast.is_none() {
            let fast = if self.tiers().is_empty() { "100%" } else { default::FAST };
            self.fast = Some(fast.parse()?);
        }
        Ok(())
    }

    /// Whether pages are moved at all.
    pub fn moves(&self) -> bool {
        !self.dry_run && !self.tiers().is_empty()
    }

    /// The tiers below the fast one; none where they are not known yet.
    pub fn tiers(&self) -> &SlowTiers {
        self.slow.as_deref().unwrap_or(&NOWHERE)
    }
}

/// What is wrong with so many bytes that shall be taken out of fast memory, on a machine with so much memory.
pub fn too_much(saved: Bytes, memory: Bytes) -> Option<SpecError> {
    let mib = |bytes: Bytes| bytes.0 >> 20;
    (saved >= memory).then(|| {
        SpecError::new(
            format!("{} MiB cannot be saved of the {} MiB of this machine", mib(saved), mib(memory)),
            "give less than the programs use; --max-slowdown saves what can be saved for a slowdown",
        )
    })
}

/// Nothing is moved.
static NOWHERE: SlowTiers = SlowTiers::NONE;

fn is_default_seed(seed: &u64) -> bool {
    *seed == default::SEED
}

/// One text or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

fn list<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
    what: &str,
) -> Result<Option<T>, D::Error> {
    let text = match OneOrMore::deserialize(from) {
        Ok(OneOrMore::One(text)) => text,
        Ok(OneOrMore::More(texts)) if texts.is_empty() => return Ok(None),
        Ok(OneOrMore::More(texts)) => texts.join(","),
        Err(_) => {
            return Err(D::Error::custom(SpecError::new(
                format!("expected a string, or several in brackets, for {what}"),
                "slow = \"zram\", or slow = [\"node:1\", \"zram\"]",
            )));
        }
    };
    text.parse().map(Some).map_err(D::Error::custom)
}

/// One text as it is, several as a list.
fn show_list<T, S: Serializer>(list: &Option<Written<T>>, to: S) -> Result<S::Ok, S::Error> {
    let texts: Vec<&str> = list.iter().flat_map(|list| list.text().split(',')).collect();
    match &*texts {
        [one] => one.serialize(to),
        texts => texts.serialize(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_as_it_is_written() {
        let mut all = Options::default();
        for (key, text) in [
            ("policy", "hybridtier:momentum=2"),
            ("fast", "1:8"),
            ("min_fast", "64MiB"),
            ("max_slowdown", "2%"),
            ("slow", "node:1,zram:size=1GiB:algorithm=lz4"),
            ("limit", "node:1=30%"),
            ("cpu_limit", "1/3"),
            ("settling_cpu_limit", "0.4"),
            ("samples", "damon"),
            ("migration_limit", "5MiB"),
            ("swap_device", "/dev/zram3"),
            ("journal", "/tmp/a journal"),
        ] {
            all.set_words(key, &[text.into()]).expect(key);
        }
        (all.seed, all.extents, all.dry_run) = (7, true, true);
        let serde_json::Value::Object(written) = serde_json::to_value(&all).unwrap() else {
            panic!("an object");
        };
        assert_eq!(written.len(), Options::KEYS.len());
        let mut again = Options::default();
        for (key, value) in written {
            assert!(Options::KEYS.contains(&&*key), "{key}");
            again.set(&key, value).expect(&key);
        }
        assert_eq!(again, all);
        assert_eq!(again.slow.as_ref().unwrap().text(), "node:1,zram:size=1GiB:algorithm=lz4");
    }

    #[test]
    fn limits_are_put_to_tiers_that_are_there() {
        let mut options = Options::default();
        assert!(options.tiers().is_empty());
        options.set_words("limit", &["node:1=30%".into()]).unwrap();
        assert!(options.clone().settle(|| SlowTier::Swap).is_err());
        options.settle(|| SlowTier::Node(1)).unwrap();
        options.settle(|| SlowTier::Swap).expect("settled already");
        assert_eq!(
            options.tiers().limit(frostline_core::types::TierId(1)),
            Some(Limit::Share(0.3))
        );
        assert!(options.set_words("limit", &["node:1".into()]).is_err());
    }

    #[test]
    fn a_goal_is_kept_to_where_no_size_is_named() {
        let goal = |pairs: &[(&str, &str)]| {
            let mut options = Options::default();
            for (key, text) in pairs {
                options.set_words(key, &[(*text).into()]).expect(key);
            }
            (options.goal(), options.without_goal().is_ok(), options.most_fast())
        };
        let (by_default, gives_way, size) = goal(&[("slow", "zram")]);
        assert_eq!(by_default.map(|goal| (goal.most_loss, goal.ceiling)), Some((0.01, None)));
        assert_eq!((gives_way, size), (true, Limit::Share(0.5)));
        assert_eq!(goal(&[]).2, Limit::Share(1.0), "nothing is moved");
        assert_eq!(goal(&[("fast", "40%")]), (None, true, Limit::Share(0.4)));
        let saved = Limit::AllBut(Bytes(1 << 30));
        let any = Goal { most_loss: ANY_LOSS, floor: Some(saved), ceiling: None };
        assert_eq!(goal(&[("fast", "all-1GiB")]), (Some(any), true, Limit::Share(1.0)));
        let (bounded, _, most) = goal(&[("fast", "all-1GiB"), ("max_slowdown", "2%")]);
        let bounded = bounded.map(|goal| (goal.floor, goal.ceiling));
        assert_eq!((bounded, most), (Some((Some(saved), None)), Limit::Share(1.0)));
        let (both, gives_way, _) =
            goal(&[("fast", "60%"), ("min_fast", "20%"), ("max_slowdown", "2%")]);
        let (floor, ceiling) = (Some(Limit::Share(0.2)), Some(Limit::Share(0.6)));
        assert_eq!((both, gives_way), (Some(Goal { most_loss: 0.02, floor, ceiling }), false));
    }

    #[test]
    fn no_more_can_be_saved_than_there_is() {
        let mut options = Options::default();
        let memory = Bytes(1 << 30);
        assert_eq!(options.excess(memory), None);
        options.set_words("fast", &["all-1023MiB".into()]).unwrap();
        assert_eq!(options.excess(memory), None);
        options.set_words("fast", &["all-1GiB".into()]).unwrap();
        let error = options.excess(memory).expect("an error").to_string();
        assert!(error.contains("1024 MiB") && error.contains("hint: "), "{error}");
    }
}
