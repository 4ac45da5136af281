//! Names of commands that were others; they work for one release, and say the new one.

use frostline_core::policy::registry;
use frostline_terminal::errors::usage;
use std::ffi::{OsStr, OsString};

/// Old names, and the words that stand for them.
const RENAMED: [(&str, &[&str]); 7] = [
    ("policies", &["list", "policies"]),
    ("machines", &["list", "machines"]),
    ("workloads", &["list", "workloads"]),
    ("config", &["daemon", "config"]),
    ("top", &["status", "--watch"]),
    ("clean", &["doctor", "--undo"]),
    ("replay", &["journal", "verify"]),
];

/// A command line in words of today.
#[derive(Debug)]
pub struct Translated {
    pub args: Vec<OsString>,
    /// What to say of an old name.
    pub note: Option<String>,
}

/// Translates a command line, the program's name in front.
///
/// # Errors
/// A command that another program has.
pub fn translate(args: Vec<OsString>) -> anyhow::Result<Translated> {
    let Some(at) = command_place(&args) else { return Ok(Translated { args, note: None }) };
    let (front, rest) = (&args[..at], &args[at + 1..]);
    let old = args[at].to_string_lossy().into_owned();
    let words = match &*old {
        "experiment" => return Err(elsewhere("frostline experiment", "", rest)),
        "workloads" if rest.first().is_some_and(|word| word == "--validate") => {
            return Err(elsewhere("frostline workloads --validate", "validate", &rest[1..]));
        }
        "sim" => sim(rest),
        "synth" => synth(rest),
        "record" => match journal_of(rest) {
            Some(words) => words,
            None => return Ok(Translated { args, note: None }),
        },
        name => match RENAMED.iter().find(|(old, _)| *old == name) {
            Some((_, new)) => new.iter().map(OsString::from).chain(rest.iter().cloned()).collect(),
            None => return Ok(Translated { args, note: None }),
        },
    };
    let old = if old == "record" { "record --from live=JOURNAL".into() } else { old };
    let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let note = format!(
        "`frostline {old}` is now `frostline {}`; the old name goes with the next release",
        shown.join(" ")
    );
    let args = front.iter().cloned().chain(words).collect();
    Ok(Translated { args, note: Some(note) })
}

/// Place of the first word that is neither an option of all commands nor its value.
fn command_place(args: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = args.get(at) {
        match word.to_string_lossy() {
            word if word == "--max-memory" => at += 2,
            word if word.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
    None
}

/// Whether one of the options is there, with a value behind it or in it.
fn has(rest: &[OsString], names: &[&str]) -> bool {
    rest.iter().any(|word| {
        let word = word.to_string_lossy();
        names.iter().any(|name| match name.strip_prefix("--") {
            Some(_) => word == *name || word.starts_with(&format!("{name}=")),
            None => word.starts_with(name) && !word.starts_with("--"),
        })
    })
}

/// `sim` ran one policy, 1:8 fast unless told otherwise, with the bound where it was asked for.
fn sim(rest: &[OsString]) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["compare".into()];
    words.extend(rest.iter().filter(|word| *word != "--bound").cloned());
    if has(rest, &["--help", "-h"]) {
        return words;
    }
    if !has(rest, &["--policy", "--policies", "-p"]) {
        words.extend(["--policies".into(), registry::DEFAULT.into()]);
    }
    if !has(rest, &["--fast", "-f"]) {
        words.extend(["--fast", "1:8"].map(OsString::from));
    }
    if !has(rest, &["--bound"]) {
        words.push("--no-bound".into());
    }
    words
}

/// `synth` listed generators, showed one, or wrote a trace.
fn synth(rest: &[OsString]) -> Vec<OsString> {
    let new: &[&str] = match has(rest, &["-o", "--output"]) {
        true => &["trace", "synth"],
        false => &["list", "generators"],
    };
    let rest = rest.iter().filter(|word| *word != "--list").cloned();
    new.iter().map(OsString::from).chain(rest).collect()
}

/// `record --from live=JOURNAL` made a trace of a journal.
fn journal_of(rest: &[OsString]) -> Option<Vec<OsString>> {
    let journal = |word: &OsStr| {
        word.to_str()?.strip_prefix("live=").filter(|path| !path.is_empty()).map(str::to_owned)
    };
    let mut words: Vec<OsString> =
        ["trace", "import", "--format", "journal"].map(Into::into).into();
    let (mut path, mut at) = (None, 0);
    while let Some(word) = rest.get(at) {
        if word == "--" {
            return None;
        }
        let value = match word.to_str().and_then(|word| word.strip_prefix("--from=")) {
            Some(value) => Some(OsStr::new(value)),
            None if word == "--from" => {
                at += 1;
                rest.get(at).map(OsString::as_os_str)
            }
            None => None,
        };
        match value.and_then(journal) {
            Some(found) => path = Some(found),
            None if value.is_some() => return None,
            None => words.push(word.clone()),
        }
        at += 1;
    }
    words.push(path?.into());
    Some(words)
}

/// The error for `here`, which is `there` of `frostline-repro`, with the same `rest`.
fn elsewhere(here: &str, there: &str, rest: &[OsString]) -> anyhow::Error {
    let rest = rest.iter().map(|word| word.to_string_lossy());
    let words = ["frostline-repro", there].into_iter().map(Into::into).chain(rest);
    let command: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    usage(
        format!("{here}: another program does this"),
        format!("{} (cargo install --path repro)", command.join(" ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn old_names_become_those_of_today_and_say_so() {
        for (old, new) in [
            ("frostline policies", "frostline list policies"),
            ("frostline policies hotbox --json", "frostline list policies hotbox --json"),
            ("frostline -q machines dram-cxl", "frostline -q list machines dram-cxl"),
            ("frostline workloads --paper pet", "frostline list workloads --paper pet"),
            (
                "frostline --max-memory 1GiB top --once",
                "frostline --max-memory 1GiB status --watch --once",
            ),
            ("frostline clean --swap-off", "frostline doctor --undo --swap-off"),
            ("frostline replay j", "frostline journal verify j"),
            ("frostline config check -c f", "frostline daemon config check -c f"),
            ("frostline synth", "frostline list generators"),
            ("frostline synth --list", "frostline list generators"),
            ("frostline synth zipf", "frostline list generators zipf"),
            ("frostline synth zipf -o z", "frostline trace synth zipf -o z"),
            ("frostline synth zipf --output=z", "frostline trace synth zipf --output=z"),
            (
                "frostline record --from live=j -o t",
                "frostline trace import --format journal -o t j",
            ),
            (
                "frostline record -o t --from=live=j",
                "frostline trace import --format journal -o t j",
            ),
            ("frostline sim t", "frostline compare t --policies frost --fast 1:8 --no-bound"),
            ("frostline sim t -p pet --bound", "frostline compare t -p pet --fast 1:8"),
            (
                "frostline sim t --policy=pet -f1:2 --json",
                "frostline compare t --policy=pet -f1:2 --json --no-bound",
            ),
            ("frostline sim --help", "frostline compare --help"),
        ] {
            let translated = translate(words(old)).unwrap();
            assert_eq!(translated.args, words(new), "{old}");
            let note = translated.note.unwrap();
            assert!(note.contains("is now `frostline ") && note.contains("next release"), "{note}");
            let parsed = Cli::try_parse_from(&translated.args);
            let help =
                parsed.as_ref().is_err_and(|e| e.kind() == clap::error::ErrorKind::DisplayHelp);
            assert!(parsed.is_ok() || help, "{new}: {}", parsed.err().unwrap());
        }
    }

    #[test]
    fn all_else_stays_as_it_is() {
        for line in [
            "frostline",
            "frostline --version",
            "frostline run -- top",
            "frostline record -o t -- sim",
            "frostline record --from qemu -o t -- x --from live=j",
            "frostline compare t --policies pet",
        ] {
            let translated = translate(words(line)).unwrap();
            assert_eq!((translated.args, translated.note), (words(line), None), "{line}");
        }
    }

    #[test]
    fn commands_of_the_other_program_name_it() {
        for (line, command) in [
            ("frostline experiment run f.toml", "frostline-repro run f.toml"),
            ("frostline workloads --validate redis", "frostline-repro validate redis"),
        ] {
            let error = format!("{:#}", translate(words(line)).unwrap_err());
            assert!(error.contains(command), "{error}");
        }
    }
}
