//! The file that says which pages are hot.

use anyhow::{Context, bail};
use frostline_core::PAGE_BYTES;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// What the file looks like, for users.
pub const FORMAT: &str = "\
The truth file has one fact per line, a word and numbers in decimal (the address in hexadecimal):
  frostline-load-truth 1     what it is, and the version of the format
  pid 4711                   of the load
  start 0x7f1200000000       address of page 0
  pages 262144               of 4096 bytes each, side by side
  generation 0               raised whenever the hot set changes
  hot 17 20                  pages 17, 18 and 19 are hot; any number of such lines, ascending
  end                        the file is complete
It is written when the memory is filled, and replaced as a whole when the hot set changes.";

const MAGIC: &str = "frostline-load-truth 1";

/// Where the pages are and which of them are hot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truth {
    /// Process.
    pub pid: u32,
    /// Address of page 0.
    pub start: u64,
    /// Number of pages.
    pub pages: u32,
    /// How often the hot set has changed.
    pub generation: u32,
    /// Hot pages, ascending, disjoint.
    pub hot: Vec<Range<u32>>,
}

impl Truth {
    /// Number of hot pages.
    pub fn hot_pages(&self) -> u64 {
        self.hot.iter().map(|range| range.len() as u64).sum()
    }

    /// Writes the file; readers see the old one or the new one.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = format!(
            "{MAGIC}\npid {}\nstart {:#x}\npages {}\ngeneration {}\n",
            self.pid, self.start, self.pages, self.generation
        );
        for range in &self.hot {
            let _ = writeln!(text, "hot {} {}", range.start, range.end);
        }
        text.push_str("end\n");
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".part");
        fs::write(&unfinished, text)
            .and_then(|()| fs::rename(&unfinished, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// Where it cannot be read, is another file or an incomplete one.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no truth file", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line != MAGIC) {
            bail!("it does not begin with `{MAGIC}`");
        }
        let mut truth = Self { pid: 0, start: 0, pages: 0, generation: 0, hot: Vec::new() };
        for (number, line) in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let wrong = || format!("line {}: `{line}`", number + 1);
            match words[..] {
                ["pid", pid] => truth.pid = pid.parse().with_context(wrong)?,
                ["start", start] => {
                    let digits = start.strip_prefix("0x").unwrap_or(start);
                    truth.start = u64::from_str_radix(digits, 16).with_context(wrong)?;
                    if !truth.start.is_multiple_of(PAGE_BYTES) {
                        bail!("{}: not the address of a page", wrong());
                    }
                }
                ["pages", pages] => truth.pages = pages.parse().with_context(wrong)?,
                ["generation", n] => truth.generation = n.parse().with_context(wrong)?,
                ["hot", start, end] => {
                    let range: Range<u32> =
                        start.parse().with_context(wrong)?..end.parse().with_context(wrong)?;
                    let before = truth.hot.last().map_or(0, |last| last.end);
                    if range.is_empty() || range.start < before || range.end > truth.pages {
                        bail!("{}: empty, out of order or beyond the last page", wrong());
                    }
                    truth.hot.push(range);
                }
                ["end"] => return Ok(truth),
                _ => bail!("{}: not understood", wrong()),
            }
        }
        bail!("it is incomplete: the line `end` is missing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("truth");
        let mut truth = Truth {
            pid: 12,
            start: 0x7f12_0000_0000,
            pages: 100,
            generation: 0,
            hot: vec![0..1, 17..20, 99..100],
        };
        truth.write(&path).expect("written");
        assert_eq!(Truth::read(&path).expect("read"), truth);
        assert_eq!(truth.hot_pages(), 5);
        (truth.generation, truth.hot) = (1, vec![3..4, 8..9]);
        truth.write(&path).expect("replaced");
        assert_eq!(Truth::read(&path).expect("read"), truth);
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn the_documented_example_is_read() {
        let lines = FORMAT.lines().filter_map(|line| line.strip_prefix("  "));
        let example: Vec<&str> =
            lines.map(|line| line.split("  ").next().unwrap_or(line)).collect();
        let truth = Truth::parse(&example.join("\n")).expect("the example");
        assert_eq!((truth.pid, truth.pages, &truth.hot[0]), (4711, 262_144, &(17..20)));
    }

    #[test]
    fn other_files_are_refused() {
        let head = format!("{MAGIC}\npages 9\n");
        for tail in ["", "hot 3 3\nend\n", "hot 1 10\nend\n", "hot 4 5\nhot 3 4\nend\n", "x\nend\n"]
        {
            assert!(Truth::parse(&format!("{head}{tail}")).is_err(), "{tail}");
        }
        assert!(Truth::parse("").is_err() && Truth::parse("end\n").is_err());
        assert!(Truth::parse(&format!("{MAGIC}\nstart 0x1234\nend\n")).is_err());
        assert!(Truth::parse(&format!("{head}end\n")).is_ok());
    }
}
