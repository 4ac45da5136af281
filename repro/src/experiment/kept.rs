//! Pieces of an experiment that were run before it was stopped: a file for each, in `runs/NAME` beside the
//! results.
//!
//! A file goes by the SHA-256 of all that determines what is in it. They go when the experiment's result is
//! written, those of older programs and files among them.

use super::huge_pages::HugePage;
use super::piece::Played;
use anyhow::Context;
use frostline_sim::{Footprint, RunOutcome, RunReport, SeriesPoint};
use frostline_study::{NoBound, PolicyStudy, SizeStudy, TraceStudy};
use frostline_terminal::files::replace;
use frostline_terminal::progress::note;
use frostline_trace::TraceHeader;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Folder of all experiments' pieces, within that of the results.
const FOLDER: &str = "runs";

/// The pieces of one experiment.
pub struct Kept {
    all: PathBuf,
    folder: PathBuf,
}

/// As it is in the file: what results are made of, without bounds and pictures.
#[derive(Serialize, Deserialize)]
struct Form {
    name: String,
    header: TraceHeader,
    footprint: Footprint,
    scale: f64,
    sizes: Vec<SizeForm>,
    pages: Vec<HugePage>,
}

#[derive(Serialize, Deserialize)]
struct SizeForm {
    fast: String,
    fast_bytes: u64,
    policies: Vec<PolicyForm>,
}

#[derive(Serialize, Deserialize)]
struct PolicyForm {
    spec: String,
    runs: Vec<(RunReport, Vec<SeriesPoint>)>,
}

impl Kept {
    /// Of the experiment called `name`, with results in `folder`.
    pub fn new(folder: &Path, name: &str) -> Self {
        let all = folder.join(FOLDER);
        Self { folder: all.join(name), all }
    }

    /// Whether the piece of that key is there.
    pub fn has(&self, key: &str) -> bool {
        self.path(key).is_file()
    }

    /// The piece of that key; none where it is not there, or damaged, which is said.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn read(&self, key: &str) -> anyhow::Result<Option<Played>> {
        let path = self.path(key);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let form = serde_json::from_slice(&text).map_err(anyhow::Error::from);
        match form.and_then(Form::played) {
            Ok(played) => Ok(Some(played)),
            Err(error) => {
                note(&format!("{}: damaged, and made again: {error}", path.display()));
                Ok(None)
            }
        }
    }

    /// Keeps a piece, all at once. The series of its runs are kept with `series`.
    ///
    /// # Errors
    /// A folder that cannot be made or written to.
    pub fn write(&self, key: &str, played: &Played, series: bool) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
        replace(&self.path(key), &serde_json::to_vec(&Form::of(played, series))?)
    }

    /// Removes all pieces of the experiment.
    ///
    /// # Errors
    /// Where they cannot be removed.
    pub fn clear(&self) -> anyhow::Result<()> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).context(format!("cannot remove {}", self.folder.display()));
            }
            _ => {}
        }
        // It stays where other experiments have pieces in it.
        let _ = std::fs::remove_dir(&self.all);
        Ok(())
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }
}

/// A piece as text.
///
/// # Errors
/// Numbers that JSON has no form for.
pub fn text(played: &Played, series: bool) -> anyhow::Result<String> {
    Ok(serde_json::to_string(&Form::of(played, series))?)
}

/// A piece from its text.
///
/// # Errors
/// What is no such text.
pub fn played(text: &str) -> anyhow::Result<Played> {
    serde_json::from_str::<Form>(text)?.played()
}

impl Form {
    fn of(played: &Played, series: bool) -> Self {
        let Played { study, pages } = played;
        let run = |run: &RunOutcome| {
            let series = if series { run.series.clone() } else { Vec::new() };
            (run.report.clone(), series)
        };
        let policy = |of: &PolicyStudy| PolicyForm {
            spec: of.spec.clone(),
            runs: of.runs.iter().map(run).collect(),
        };
        let size = |of: &SizeStudy| SizeForm {
            fast: of.fast.to_string(),
            fast_bytes: of.fast_bytes,
            policies: of.policies.iter().map(policy).collect(),
        };
        Self {
            name: study.name.clone(),
            header: study.header.clone(),
            footprint: study.footprint.clone(),
            scale: study.scale,
            sizes: study.sizes.iter().map(size).collect(),
            pages: pages.clone(),
        }
    }

    fn played(self) -> anyhow::Result<Played> {
        let Self { name, header, footprint, scale, sizes, pages } = self;
        let run =
            |(report, series)| RunOutcome { report, series, heatmaps: None, moments: Vec::new() };
        let policy = |of: PolicyForm| PolicyStudy {
            spec: of.spec,
            runs: of.runs.into_iter().map(run).collect(),
        };
        let size = |of: SizeForm| {
            anyhow::Ok(SizeStudy {
                fast: of.fast.parse()?,
                fast_bytes: of.fast_bytes,
                bound: Err(NoBound::NotAsked),
                policies: of.policies.into_iter().map(policy).collect(),
            })
        };
        let sizes = sizes.into_iter().map(size).collect::<anyhow::Result<_>>()?;
        Ok(Played { study: TraceStudy { name, header, footprint, scale, sizes }, pages })
    }
}
