//! Results by line: settings first, then one result a line, so that what is interrupted goes on.

use anyhow::Context;
use frostline_terminal::errors::failure;
use frostline_terminal::progress::note;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// First line of a file.
#[derive(Serialize, Deserialize)]
struct Head<S> {
    settings: S,
}

/// Results, and the file that they are noted in.
#[derive(Debug)]
pub struct Lines<T> {
    rows: Vec<T>,
    file: File,
}

impl<T: Serialize + DeserializeOwned> Lines<T> {
    /// Goes on with the file, or begins it. A line that is not whole, as the last one after a kill, is
    /// cut off.
    ///
    /// # Errors
    /// A file that cannot be read or written, that has something else in it, or that was made with other
    /// settings.
    pub fn open(path: &Path, settings: &impl Serialize) -> anyhow::Result<Self> {
        let named = || path.display().to_string();
        let text = text(path)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let wanted = serde_json::to_value(settings)?;
        let parsed: Option<(Value, Vec<T>)> = parse(&text[..whole], path)?;
        if let Some((made, _)) = &parsed {
            same(path, made, &wanted)?;
        }
        let mut file =
            OpenOptions::new().create(true).append(true).open(path).with_context(named)?;
        if whole < text.len() {
            file.set_len(whole as u64).with_context(named)?;
            note(&format!("{}: the last line is not whole, and made again", path.display()));
        }
        let rows = match parsed {
            Some((_, rows)) => rows,
            None => {
                let head = serde_json::to_string(&Head { settings: wanted })? + "\n";
                file.write_all(head.as_bytes()).with_context(named)?;
                Vec::new()
            }
        };
        Ok(Self { rows, file })
    }

    /// Notes a result, on the disk as well.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn add(&mut self, row: T) -> anyhow::Result<()> {
        let line = serde_json::to_string(&row)? + "\n";
        self.file.write_all(line.as_bytes()).context("cannot note a result")?;
        self.rows.push(row);
        Ok(())
    }

    /// All results, in the order in which they came.
    pub fn rows(&self) -> &[T] {
        &self.rows
    }
}

/// Settings and results of a file that is only read.
///
/// # Errors
/// A file that cannot be read, is empty or has something else in it.
pub fn read<S: DeserializeOwned, T: DeserializeOwned>(path: &Path) -> anyhow::Result<(S, Vec<T>)> {
    let text = text(path)?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    parse(&text[..whole], path)?.ok_or_else(|| {
        failure(format!("{} has no results", path.display()), "name a file that `-o` has written")
    })
}

fn text(path: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        other => other.with_context(|| path.display().to_string()),
    }
}

/// Settings and results; none where the text is empty.
fn parse<S: DeserializeOwned, T: DeserializeOwned>(
    text: &str,
    path: &Path,
) -> anyhow::Result<Option<(S, Vec<T>)>> {
    let mut lines = text.lines().enumerate();
    let Some((_, first)) = lines.next() else { return Ok(None) };
    let head: Head<S> = serde_json::from_str(first).map_err(|error| {
        let what = format!("{}:1: these are no results with settings: {error}", path.display());
        failure(what, "name another file")
    })?;
    let read = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), number + 1))
    };
    Ok(Some((head.settings, lines.map(read).collect::<anyhow::Result<_>>()?)))
}

/// Names what differs.
fn same(path: &Path, made: &Value, wanted: &Value) -> anyhow::Result<()> {
    if made == wanted {
        return Ok(());
    }
    let (Value::Object(made), Value::Object(wanted)) = (made, wanted) else {
        anyhow::bail!("{}: settings are no object", path.display());
    };
    let keys = wanted.keys().chain(made.keys().filter(|key| !wanted.contains_key(*key)));
    let other: Vec<&str> =
        keys.filter(|key| made.get(*key) != wanted.get(*key)).map(String::as_str).collect();
    let what = format!("{} was made with another {}", path.display(), other.join(", another "));
    Err(failure(what, "name another file, or give what it was made with; its first line says it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Settings {
        policy: String,
        seeds: u64,
    }

    fn settings(policy: &str) -> Settings {
        Settings { policy: policy.to_owned(), seeds: 2 }
    }

    #[test]
    fn what_was_interrupted_goes_on_where_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results");
        let mut lines: Lines<u32> = Lines::open(&path, &settings("a")).expect("new");
        lines.add(1).expect("written");
        lines.add(2).expect("written");
        drop(lines);
        // Killed while it wrote.
        let whole = std::fs::read_to_string(&path).expect("readable");
        std::fs::write(&path, whole.clone() + "3").expect("written");
        let lines: Lines<u32> = Lines::open(&path, &settings("a")).expect("there");
        assert_eq!(lines.rows(), [1, 2]);
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), whole, "cut off");
        let (made, rows): (Settings, Vec<u32>) = read(&path).expect("readable");
        assert_eq!((made, rows), (settings("a"), vec![1, 2]));
    }

    #[test]
    fn a_file_with_other_settings_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results");
        drop(Lines::<u32>::open(&path, &settings("a")).expect("new"));
        let before = std::fs::read_to_string(&path).expect("readable");
        let error = Lines::<u32>::open(&path, &settings("b")).expect_err("another policy");
        let text = frostline_terminal::errors::text(&error);
        assert!(text.contains("another policy") && text.contains("hint:"), "{text}");
        assert!(!text.contains("seeds"), "{text}");
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), before);
        std::fs::write(&path, "no result\n").expect("written");
        assert!(Lines::<u32>::open(&path, &settings("a")).is_err());
        assert!(read::<Settings, u32>(&folder.path().join("none")).is_err());
    }
}
