//! Recordings that are kept: by recipe, version of the program and recorder.

use anyhow::Context;
use frostline_record::trust::{TrustError, cache_home, own_folder, temporary_folder};
use frostline_terminal::files::write_whole;
use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Changes with what drivers do, where no number of a recipe shows it.
const REVISION: u32 = 1;

/// Where recordings are kept unless the user says otherwise: a folder that is the user's alone.
///
/// # Errors
/// Where there is no such place.
pub fn folder() -> Result<PathBuf, TrustError> {
    own_folder(&cache_home()?.join("recordings"))
}

/// What decides on a recording.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub name: &'static str,
    /// All numbers and texts of it.
    pub recipe: String,
    pub version: String,
    pub recorder: String,
}

impl Key {
    fn stem(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (REVISION, &self.recipe, &self.version, &self.recorder).hash(&mut hasher);
        format!("{}-{:016x}", self.name, hasher.finish())
    }
}

/// Beside each trace; written last, so that a trace with one is whole.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    from_record: u64,
    version: String,
    recorder: String,
}

/// The trace of this key, and where it begins in earnest. `make` is given an empty folder, gone
/// afterwards, and the name of the trace to make.
pub(super) fn get_or_make(
    dir: &Path,
    key: &Key,
    make: impl FnOnce(&Path, &Path) -> anyhow::Result<u64>,
) -> anyhow::Result<(PathBuf, u64)> {
    let trace = dir.join(key.stem() + ".flt");
    let note = trace.with_extension("json");
    let kept = std::fs::read(&note).ok().filter(|_| trace.is_file());
    if let Some(kept) = kept.and_then(|text| serde_json::from_slice::<Note>(&text).ok()) {
        return Ok((trace, kept.from_record));
    }
    let making = || format!("cannot keep recordings in {}", dir.display());
    std::fs::create_dir_all(dir).with_context(making)?;
    let aside = tempfile::Builder::new().prefix("new-").tempdir_in(dir).with_context(making)?;
    // Elsewhere: sockets lie in there, whose paths may have 107 bytes.
    let inputs = temporary_folder("frostline-")?;
    let made = aside.path().join("trace.flt");
    let from_record = make(inputs.path(), &made)?;
    std::fs::rename(&made, &trace).with_context(making)?;
    let (version, recorder) = (key.version.clone(), key.recorder.clone());
    let text = serde_json::to_vec_pretty(&Note { from_record, version, recorder })?;
    write_whole(&note, &text)?;
    Ok((trace, from_record))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        let text = |text: &str| text.to_owned();
        Key { name: "n", recipe: text("r"), version: text("1"), recorder: text("q") }
    }

    fn make(dir: &Path, key: &Key, from: u64) -> (PathBuf, u64) {
        get_or_make(dir, key, |inputs, trace| {
            assert_eq!(inputs.read_dir()?.count(), 0);
            std::fs::write(inputs.join("input"), "x")?;
            std::fs::write(trace, from.to_string())?;
            Ok(from)
        })
        .expect("made")
    }

    #[test]
    fn what_is_kept_is_not_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, from) = make(dir.path(), &key(), 7);
        assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), from), ("7", 7));
        let again = get_or_make(dir.path(), &key(), |_, _| anyhow::bail!("made again"));
        assert_eq!(again.unwrap(), (path, 7));
    }

    #[test]
    fn another_recipe_version_or_recorder_is_another_recording() {
        let dir = tempfile::tempdir().unwrap();
        let other = || "other".to_owned();
        let keys = [
            key(),
            Key { recipe: other(), ..key() },
            Key { version: other(), ..key() },
            Key { recorder: other(), ..key() },
            Key { name: "m", ..key() },
        ];
        let mut paths: Vec<_> =
            (0..).zip(&keys).map(|(nth, key)| make(dir.path(), key, nth)).collect();
        assert!(paths.iter().map(|(_, from)| *from).eq(0..keys.len() as u64));
        paths.sort();
        paths.dedup_by(|a, b| a.0 == b.0);
        assert_eq!(paths.len(), keys.len());
    }

    #[test]
    fn what_was_interrupted_is_not_taken_for_a_recording() {
        let dir = tempfile::tempdir().unwrap();
        let failed = get_or_make(dir.path(), &key(), |_, trace| {
            std::fs::write(trace, "half")?;
            anyhow::bail!("interrupted")
        });
        assert!(failed.is_err());
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "nothing is left");
        // Killed between the two renames.
        std::fs::write(dir.path().join(key().stem() + ".flt"), "half").unwrap();
        assert_eq!(make(dir.path(), &key(), 3).1, 3);
        // Killed while the note was written by somebody less careful.
        std::fs::write(dir.path().join(key().stem() + ".json"), "{").unwrap();
        assert_eq!(make(dir.path(), &key(), 4).1, 4);
    }
}
