//! Families of programs, and the two sets that they fall into.

use frostline_terminal::errors::usage;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a family is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Set {
    /// Policies may be tuned on it.
    Development,
    /// It is looked at to judge.
    HeldOut,
}

/// Sets that play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sets {
    /// What policies may be tuned on
    Development,
    /// What is looked at to judge; each run is logged
    HeldOut,
    /// Both; each run is logged
    All,
}

impl Sets {
    /// Whether families of this set play.
    pub fn has(self, set: Set) -> bool {
        match self {
            Self::Development => set == Set::Development,
            Self::HeldOut => set == Set::HeldOut,
            Self::All => true,
        }
    }

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::HeldOut => "held-out",
            Self::All => "all",
        }
    }
}

/// Programs that are alike: to know one is to know something of the others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// What it is for.
    pub set: Set,
    /// Descriptions of generated programs, without `synth:`.
    programs: Vec<String>,
    /// Names of recorded ones.
    #[serde(default)]
    recorded: Vec<String>,
    /// Parameters by the name of a length, in place of the matrix's.
    #[serde(default)]
    lengths: BTreeMap<String, String>,
}

impl Family {
    /// Generators by name, and recordings by file name.
    pub fn names(&self) -> BTreeSet<String> {
        let generator = |program: &String| generator(program).to_owned();
        let recorded = self.recorded.iter().map(|name| format!("{name}.flt"));
        self.programs.iter().map(generator).chain(recorded).collect()
    }

    /// Descriptions of the generated programs, of a length.
    pub fn generated(&self, length: &str, lengths: &BTreeMap<String, String>) -> Vec<String> {
        let parameters = self.lengths.get(length).or_else(|| lengths.get(length));
        let parameters = parameters.filter(|text| !text.is_empty());
        let with = parameters.map_or_else(String::new, |text| format!(":{text}"));
        self.programs.iter().map(|program| format!("synth:{program}{with}")).collect()
    }

    /// Recordings in the folder, and the names of those that are missing there.
    pub fn recorded(&self, folder: Option<&Path>) -> (Vec<PathBuf>, Vec<&str>) {
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for name in &self.recorded {
            match folder.map(|folder| folder.join(format!("{name}.flt"))) {
                Some(path) if path.is_file() => there.push(path),
                _ => missing.push(name.as_str()),
            }
        }
        (there, missing)
    }

    /// Generators are known.
    pub fn check(&self) -> anyhow::Result<()> {
        for program in &self.programs {
            if frostline_workloads::generator(generator(program)).is_none() {
                let hint = "`frostline list generators` lists those that there are";
                return Err(usage(format!("there is no generator for '{program}'"), hint));
            }
        }
        Ok(())
    }
}

/// Name of the generator of a description.
fn generator(program: &str) -> &str {
    program.split_once(':').map_or(program, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_a_family_stand_in_for_those_of_the_matrix() {
        let family = Family {
            set: Set::HeldOut,
            programs: vec!["bfs".into(), "cc:order=drawn".into()],
            recorded: vec!["liblinear".into()],
            lengths: [("quick".to_owned(), "scale=12".to_owned())].into(),
        };
        let lengths =
            ["quick", "long"].map(|name| (name.to_owned(), "size=1MiB".to_owned())).into();
        let quick = family.generated("quick", &lengths);
        assert_eq!(quick, ["synth:bfs:scale=12", "synth:cc:order=drawn:scale=12"]);
        assert_eq!(family.generated("long", &lengths)[0], "synth:bfs:size=1MiB");
        assert_eq!(family.generated("none", &lengths)[0], "synth:bfs");
        let names: Vec<String> = family.names().into_iter().collect();
        assert_eq!(names, ["bfs", "cc", "liblinear.flt"]);
    }

    #[test]
    fn recordings_join_where_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let family = Family {
            set: Set::Development,
            programs: Vec::new(),
            recorded: vec!["redis".into(), "sqlite".into()],
            lengths: BTreeMap::new(),
        };
        assert_eq!(family.recorded(None).1, ["redis", "sqlite"]);
        std::fs::write(folder.path().join("sqlite.flt"), "").expect("written");
        let (there, missing) = family.recorded(Some(folder.path()));
        assert_eq!((there.len(), missing), (1, vec!["redis"]));
    }
}
