//! Results of experiments, kept in files.

use super::file::{BUILT_IN, Experiment};
use super::{Effort, Finding, Outcome, ResultOf};
use anyhow::Context;
use frostline_terminal::digest::sha256_of;
use frostline_terminal::errors::usage;
use frostline_terminal::files::replace;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Folder of those that come with the program, within the experiments'.
const FOLDER: &str = "results";
/// Keys of an experiment's file that change no run.
const WORDS: [&str; 3] = ["title", "about", "differs"];

/// The results of one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// Version of the program.
    pub version: String,
    /// SHA-256 of what the file says to run and what was published, without its texts and what cannot be
    /// shown.
    pub sha256: String,
    /// Whether workloads were smaller than in a full run.
    pub quick: bool,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Machine models.
    pub machines: Vec<String>,
    /// Published numbers beside ours, without the reasons, which are the file's.
    pub findings: Vec<Finding>,
}

impl Stored {
    /// What a run brought.
    pub fn of(sha256: String, experiment: &Experiment, outcome: Outcome) -> Self {
        let mut findings = outcome.findings;
        findings.retain(|finding| finding.paper.is_some());
        for finding in &mut findings {
            finding.differs = None;
        }
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            sha256,
            quick: outcome.quick,
            seeds: outcome.study.seeds,
            machines: experiment.machines().to_vec(),
            findings,
        }
    }

    /// Those of an experiment called `name`: from a folder, or those that come with the program. None
    /// where there are none.
    ///
    /// # Errors
    /// A file that cannot be read, or holds something else.
    pub fn read(folder: Option<&Path>, name: &str) -> anyhow::Result<Option<Self>> {
        let path = path(folder, name);
        let text = match folder {
            Some(_) => match std::fs::read_to_string(&path) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => {
                    return Err(error).context(format!("cannot read {}", path.display()));
                }
            },
            None => BUILT_IN.get_file(&path).and_then(|file| file.contents_utf8()).map(Into::into),
        };
        let parse = |text: String| {
            serde_json::from_str(&text).map_err(|error| {
                let file = path.display();
                usage(format!("{file}: {error}"), "remove it, and `score --run` makes it anew")
            })
        };
        text.map(parse).transpose()
    }

    /// Writes them into a folder, all at once.
    ///
    /// # Errors
    /// A folder that cannot be made or written to.
    pub fn write(&self, folder: &Path, name: &str) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let text = serde_json::to_string_pretty(self)?;
        replace(&path(Some(folder), name), (text + "\n").as_bytes())
    }

    /// Whether a run of that effort would bring nothing new.
    pub fn is_of(&self, sha256: &str, experiment: &Experiment, effort: Effort) -> bool {
        let seeds = effort.seeds_of(experiment);
        self.sha256 == sha256 && self.quick == effort.quick && self.seeds.len() as u64 == seeds
    }

    /// Reads the reasons from the experiment's file.
    pub fn with_reasons(mut self, experiment: &Experiment) -> Self {
        for finding in &mut self.findings {
            let is_about = |result: &&ResultOf| {
                result.what == finding.what
                    && result.is_for(&finding.workload)
                    && result.is_at(&finding.fast)
                    && finding.machine.as_deref().is_none_or(|machine| result.is_on(machine))
            };
            let result = experiment.results().find(is_about);
            finding.differs = result.and_then(|result| result.differs.clone());
        }
        self
    }
}

fn path(folder: Option<&Path>, name: &str) -> PathBuf {
    folder.unwrap_or(Path::new(FOLDER)).join(format!("{name}.json"))
}

/// SHA-256 of what an experiment's file says to run and what was published, without what cannot be shown.
///
/// # Errors
/// A text that is no TOML.
pub fn digest(text: &str) -> anyhow::Result<String> {
    let mut table: toml::Table = toml::from_str(text)?;
    table.retain(|key, _| !WORDS.contains(&key));
    if let Some(toml::Value::Array(results)) = table.get_mut("result") {
        results.retain(|result| result.get("cannot").is_none());
        for result in results.iter_mut().filter_map(toml::Value::as_table_mut) {
            result.retain(|key, _| !WORDS.contains(&key));
        }
    }
    Ok(sha256_of(&toml::to_string(&table)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_do_not_make_results_old_and_numbers_do() {
        let file = "title = \"t\"\nfast = [\"1:8\"]\n\
                    [[result]]\nwhat = \"w\"\npaper = 3\ndiffers = \"why\"\n";
        let of = |from: &str, to: &str| digest(&file.replace(from, to)).unwrap();
        let as_it_is = digest(file).unwrap();
        assert_eq!(of("why", "for another reason"), as_it_is);
        assert_eq!(of("\"t\"", "\"u\""), as_it_is);
        assert_ne!(of("1:8", "1:4"), as_it_is);
        assert_ne!(of("paper = 3", "paper = 4"), as_it_is);
        let other = "[[result]]\nwhat = \"v\"\npaper = 5\n";
        let and = |more: &str| digest(&format!("{file}{other}{more}")).unwrap();
        assert_eq!(and("cannot = \"no such program\"\n"), as_it_is, "it changes no run");
        assert_ne!(and(""), as_it_is);
    }

    #[test]
    fn those_that_come_with_the_program_belong_to_its_experiments() {
        let folder = BUILT_IN.get_dir(FOLDER).expect("results");
        let mut read = 0;
        for file in folder.files() {
            let name = file.path().file_stem().expect("a name").to_string_lossy();
            let stored = Stored::read(None, &name).unwrap().expect("it is listed");
            let text = Experiment::text(Path::new(&*name)).unwrap();
            assert_eq!(stored.sha256, digest(&text).unwrap(), "{name} was changed since");
            read += 1;
        }
        assert_eq!(read, Experiment::names().len(), "an experiment without results");
    }
}
