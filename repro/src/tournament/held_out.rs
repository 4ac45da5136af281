//! Log of the runs in which the held-out set was looked at.

use super::results::Settings;
use super::standings::Standing;
use anyhow::Context;
use frostline_terminal::errors::ResultExt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The log, open before anything is played: a look that cannot be logged does not happen.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
}

/// A look.
#[derive(Debug)]
pub struct Look<'a> {
    /// What was played how.
    pub settings: &'a Settings,
    /// Sets that played.
    pub sets: &'a str,
    /// Cases of all units, of which some may be missing.
    pub cases: usize,
    /// The policy over the cases of the held-out set; none where none was played.
    pub standing: Option<&'a Standing>,
}

impl Log {
    /// Opens the file, which is there already.
    ///
    /// # Errors
    /// Where it is not, or cannot be written.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().append(true).open(path);
        let what = format!("cannot log a look at the held-out set in {}", path.display());
        let file =
            file.or_hint(what, "run it in the repository's root, or name the log by --log")?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Adds a line: date, commit, form, policy, result.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn add(&mut self, look: &Look<'_>) -> anyhow::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let commit = commit(folder.unwrap_or_else(|| Path::new(".")));
        let line = line(&date(SystemTime::now()), &commit, look);
        self.file.write_all(line.as_bytes()).with_context(|| self.path.display().to_string())
    }
}

fn line(date: &str, commit: &str, look: &Look<'_>) -> String {
    let Settings { form, policy, .. } = look.settings;
    let result = match look.standing {
        None => "no case was played".to_owned(),
        Some(one) => format!(
            "{} of {} cases, regret {:+.2} %, worst {:+.2} %, within 1 % {:.1} %, harmful {}",
            one.cases,
            look.cases,
            one.regret_mean * 100.0,
            one.regret_worst * 100.0,
            one.near_best_share * 100.0,
            one.harmful
        ),
    };
    format!("{date} {commit} form={form} set={} policy={policy}: {result}\n", look.sets)
}

/// The commit of the folder's repository, with a mark where files differ from it.
fn commit(folder: &Path) -> String {
    let arguments = ["describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"];
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let text = text.map(|text| String::from_utf8_lossy(&text).trim().to_owned());
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// Day of a moment, UTC, as 2026-01-31.
fn date(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // Days since 0000-03-01, by eras of 400 years: the leap day is a year's last (Hinnant, chrono-compatible
    // date algorithms).
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::super::results::testing::{case, settings};
    use super::super::standings::standings;
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_are_those_of_the_calendar() {
        let of = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(of(0), "1970-01-01");
        assert_eq!(of(951_782_400), "2000-02-29");
        assert_eq!(of(1_709_164_800 + 86_399), "2024-02-29");
        assert_eq!(of(4_107_542_400), "2100-03-01");
    }

    #[test]
    fn each_look_adds_a_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("held-out.log");
        let error = Log::open(&path).expect_err("it is not there");
        assert!(frostline_terminal::errors::text(&error).contains("hint:"));
        std::fs::write(&path, "first\n").expect("written");
        let (settings, case) = (settings(), case("dram-nvm", "1:2", 2.2));
        let all = standings(&[&case]);
        let look = |standing| Look { settings: &settings, sets: "held-out", cases: 4, standing };
        let mut log = Log::open(&path).expect("there");
        log.add(&look(Some(&all[0]))).expect("written");
        log.add(&look(None)).expect("written");
        let text = std::fs::read_to_string(&path).expect("there");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, "first"));
        let expected = "form=quick set=held-out policy=frost: 1 of 4 cases, regret +10.00 %, \
                        worst +10.00 %, within 1 % 0.0 %, harmful 0";
        assert!(lines[1].ends_with(expected), "{}", lines[1]);
        assert!(lines[2].ends_with("no case was played"), "{}", lines[2]);
    }
}
