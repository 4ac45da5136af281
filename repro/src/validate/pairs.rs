//! One program beside the generator that stands for it: recorded, profiled, compared.

use super::programs::{Program, Recording};
use frostline_core::spec::Spec;
use frostline_profile::{Distance, Profile, Span};
use frostline_study::{Input, Watched};
use frostline_terminal::progress::{self, Screen};
use frostline_terminal::{cancel, limit};
use frostline_workloads::initialisation_records;
use serde::Serialize;
use std::path::Path;

/// How near a generator is, by the worst of its three distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// At most 0.05: a memory of any size serves, on average, within five of a hundred accesses as
    /// many as it does for the program.
    Close,
    /// At most 0.15: what is hot and how it lies is alike, how much of it there is differs.
    Fair,
    /// More: the generator does not stand for this program in what was measured.
    Off,
}

impl Verdict {
    /// Largest distances of `close` and `fair`.
    pub const LIMITS: [f64; 2] = [0.05, 0.15];

    fn of(worst: f64) -> Self {
        match worst {
            worst if worst <= Self::LIMITS[0] => Self::Close,
            worst if worst <= Self::LIMITS[1] => Self::Fair,
            _ => Self::Off,
        }
    }

    /// As it is printed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::Fair => "fair",
            Self::Off => "off",
        }
    }
}

/// What came of a program.
pub struct Pair {
    /// The program and what stands for it.
    pub program: &'static Program,
    /// What was found, or why nothing was.
    pub outcome: Result<Found, Nothing>,
}

/// Why there is nothing to compare.
pub enum Nothing {
    /// It is not installed: what is missing, and how to get it.
    Missing(String),
    /// It could not be recorded or read.
    Failed(anyhow::Error),
}

/// The profiles of both.
pub struct Found {
    /// Version of the program.
    pub version: String,
    /// Of the recording, without what was made while loading.
    pub real: Profile,
    /// Of the generator; none where nothing stands for the program.
    pub made: Option<Made>,
}

/// The generator's side.
pub struct Made {
    /// Its full description, as long as the recording.
    pub generator: String,
    /// Of its measured phase.
    pub profile: Profile,
    /// From the recording.
    pub distance: Distance,
    /// What that comes to.
    pub verdict: Verdict,
}

impl Pair {
    /// Records the program, or takes the recording from `dir`, and profiles both.
    ///
    /// # Errors
    /// Where the user stops it; what else goes wrong is in the pair.
    pub fn of(program: &'static Program, dir: &Path) -> anyhow::Result<Self> {
        let outcome = match program.missing() {
            Some(missing) => Err(Nothing::Missing(missing)),
            None => found(program, dir).map_err(Nothing::Failed),
        };
        cancel::check()?;
        Ok(Self { program, outcome })
    }
}

fn found(program: &Program, dir: &Path) -> anyhow::Result<Found> {
    let bar = progress::bar(&format!("recording {}", program.program), "accesses", None);
    let recording = program.record(dir, &mut |at| bar.set_position(at.records));
    bar.finish_and_clear();
    let Recording { path, from_record, version } = recording?;
    let span = Span { skip: from_record, records: None };
    let path = path.display().to_string();
    let real = profile(&path, &format!("reading {}", program.name), span)?;
    if real.records() == 0 {
        anyhow::bail!("{path}: there is nothing behind its loading");
    }
    let made = match program.generator {
        "" => None,
        generator => Some(made(generator, &real)?),
    };
    Ok(Found { version, real, made })
}

fn made(generator: &str, real: &Profile) -> anyhow::Result<Made> {
    let generator = as_long_as(generator, real.records())?;
    let span = Span { skip: initialisation_records(&generator)?, records: None };
    let profile = profile(&generator, "generating", span)?;
    let distance = Distance::between(real, &profile);
    Ok(Made { generator, profile, distance, verdict: Verdict::of(distance.worst()) })
}

/// The generator with as many accesses as there are records.
fn as_long_as(generator: &str, records: u64) -> anyhow::Result<String> {
    let plain = generator.strip_prefix("synth:").unwrap_or(generator);
    let spec = Spec::parse(plain)?;
    let spec = match spec.get("accesses") {
        Some(_) => spec,
        None => spec.with("accesses", &records.to_string()),
    };
    Ok(format!("synth:{spec}"))
}

fn profile(name: &str, what: &str, span: Span) -> anyhow::Result<Profile> {
    let input = Input::open(name, 1, limit::current(), &Screen)?;
    let mut source = Watched::new(input.source()?, what, None, &Screen);
    let profile = Profile::of(&mut source, span, |_| true)?;
    cancel::check()?;
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_have_limits() {
        for (worst, verdict) in [(0.0, "close"), (0.05, "close"), (0.051, "fair"), (0.16, "off")] {
            assert_eq!(Verdict::of(worst).word(), verdict);
        }
    }

    #[test]
    fn generators_become_as_long_as_the_recording() {
        let spec = as_long_as("synth:zipf:pages=4K", 123).unwrap();
        assert_eq!(spec, "synth:zipf:pages=4K:accesses=123");
        let spec = as_long_as("zipf:accesses=7", 123).unwrap();
        assert_eq!(spec, "synth:zipf:accesses=7", "what it says itself is kept");
    }

    #[test]
    fn a_generator_stands_for_itself() {
        let name = "synth:zipf:pages=4K:accesses=200K";
        let span = Span { skip: initialisation_records(name).unwrap(), records: None };
        let real = profile(name, "reading", span).unwrap();
        let same = made("synth:zipf:pages=4K", &real).unwrap();
        assert_eq!((same.verdict, same.profile.records()), (Verdict::Close, 200_000));
        assert_eq!(same.distance, Distance::default());
        let other = made("synth:uniform:pages=4K", &real).unwrap();
        assert_eq!(other.verdict, Verdict::Off);
    }
}
