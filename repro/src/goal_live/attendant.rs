//! Attendants: what takes memory from a program while it runs.

use super::attached::Attached;
use super::senpai::Senpai;

/// A second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    pub footprint: f64,
    pub saved: f64,
    /// Slowdown that it reports, of the last half minute.
    pub loss: f64,
    pub cpu_share: f64,
}

/// Attendants by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// `frostline attach --max-slowdown`
    Frostline,
    /// Senpai's rule, on the kernel's own reclaim
    Senpai,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Frostline => "frostline",
            Self::Senpai => "senpai",
        }
    }
}

/// One at work; it ends when it goes out of scope.
pub enum Attendant {
    Frostline(Attached),
    Senpai(Senpai),
}

impl Attendant {
    /// Fails where it has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Frostline(attached) => attached.check(),
            Self::Senpai(senpai) => senpai.check(),
        }
    }

    /// What it has told so far.
    pub fn lines(&self) -> anyhow::Result<Vec<Line>> {
        match self {
            Self::Frostline(attached) => attached.lines(),
            Self::Senpai(senpai) => Ok(senpai.lines()),
        }
    }

    /// Ends it; all that it has told.
    pub fn stop(self) -> anyhow::Result<Vec<Line>> {
        match self {
            Self::Frostline(attached) => attached.stop(),
            Self::Senpai(senpai) => senpai.stop(),
        }
    }
}
