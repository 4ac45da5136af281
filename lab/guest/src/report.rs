//! Report of a job.

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What a job printed and left behind.
#[derive(Debug)]
pub struct Report {
    /// Exit code of the job.
    pub code: i32,
    /// All that it wrote to standard output.
    pub stdout: String,
    /// All that it wrote to standard error.
    pub stderr: String,
    /// Messages of the kernel.
    pub console: String,
    sections: Vec<Section>,
    kept: PathBuf,
    _work: TempDir,
}

/// A framed part of a job's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Exit code of its command; `None` where the output ends before the command did.
    pub code: Option<i32>,
    /// What the command printed, on either stream.
    pub text: String,
}

impl Report {
    pub(crate) fn new(work: TempDir, kept: PathBuf, code: i32) -> Self {
        let text = |name: &str| {
            let bytes = fs::read(kept.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let stdout = text("stdout");
        Self {
            code,
            sections: sections(&stdout),
            stdout,
            stderr: text("stderr"),
            console: text("console"),
            kept,
            _work: work,
        }
    }

    /// The part that `section NAME COMMAND...` framed; `None` where the job did not get there.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Whether a section of this name exists and its command ended with 0; otherwise its text, or
    /// all that the job printed, for a test to show.
    ///
    /// # Errors
    /// What to show.
    pub fn passed(&self, name: &str) -> Result<&str, String> {
        match self.section(name) {
            Some(section) if section.code == Some(0) => Ok(&section.text),
            Some(section) => {
                Err(format!("section {name} ended with {:?}:\n{}", section.code, section.text))
            }
            None => Err(format!(
                "no section {name}; exit code {}\n{}\n{}",
                self.code, self.stdout, self.stderr
            )),
        }
    }

    /// What the lab's machine has counted, a JSON object a line; empty without the lab.
    pub fn truth(&self) -> String {
        fs::read_to_string(self.kept.join("truth.jsonl")).unwrap_or_default()
    }

    /// A file that the job left in `/out`.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.kept.join("out").join(name)
    }
}

/// Reads the frames that `job.sh` prints.
fn sections(stdout: &str) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    let mut open = false;
    for line in stdout.lines() {
        if let Some(name) = line.strip_prefix(">>> ") {
            found.push(Section { name: name.to_owned(), code: None, text: String::new() });
            open = true;
            continue;
        }
        let Some(section) = found.last_mut().filter(|_| open) else { continue };
        let end = line.strip_prefix("<<< ").and_then(|end| end.rsplit_once(' '));
        match end {
            Some((name, code)) if name == section.name => {
                section.code = code.parse().ok();
                // One line end belongs to the frame.
                section.text.truncate(section.text.trim_end().len());
                open = false;
            }
            _ => {
                section.text.push_str(line);
                section.text.push('\n');
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_and_what_stands_between_them_is_not() {
        let found = sections(
            "noise\n>>> one\na\nb\n\n<<< one 0\nnoise\n>>> two words\n\n<<< two words 7\n>>> cut\nx\n",
        );
        let section = |name: &str, code, text: &str| Section {
            name: name.to_owned(),
            code,
            text: text.to_owned(),
        };
        assert_eq!(
            found,
            [
                section("one", Some(0), "a\nb"),
                section("two words", Some(7), ""),
                section("cut", None, "x\n"),
            ]
        );
    }

    #[test]
    fn text_that_looks_like_another_frame_s_end_stays_text() {
        let found = sections(">>> a\n<<< b 0\n<<< a 1\n");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].code, found[0].text.as_str()), (Some(1), "<<< b 0"));
    }
}
