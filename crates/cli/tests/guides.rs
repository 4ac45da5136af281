//! Commands of the guides: those that change nothing are carried out, the others are understood.

use assert_cmd::Command;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const FROSTLINE: &str = env!("CARGO_BIN_EXE_frostline");
/// A trace that each of these commands is done with soon.
const TRACE: &str = "zipf:size=8MiB:accesses=200K";

/// A command of a guide.
#[derive(Debug)]
struct Written {
    guide: String,
    words: Vec<String>,
}

impl Written {
    fn begins_with(&self, words: &[&str]) -> bool {
        self.words.len() >= words.len() && self.words.iter().zip(words).all(|(a, b)| a == b)
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|one| one == word)
    }

    /// Whether it looks at files alone, at those that this test has made.
    fn can_be_done(&self) -> bool {
        let reads = [
            &["compare"][..],
            &["bound"],
            &["list"],
            &["trace", "info"],
            &["trace", "verify"],
            &["trace", "profile"],
            &["trace", "heatmap"],
            &["trace", "export"],
            &["trace", "synth"],
            &["status"],
        ];
        let advises = self.begins_with(&["advise", "s.flt"]);
        let imports = self.begins_with(&["trace", "import"])
            && ["accesses.txt", "s.parquet"].iter().any(|file| self.has(file));
        let examines = self.begins_with(&["doctor"]) && !self.has("--undo");
        let reads = reads.iter().any(|words| self.begins_with(words)) && !self.has("--watch");
        reads || advises || imports || examines
    }
}

fn guides() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::fs::read_dir(root.join("docs/guide")).expect("guides");
    let mut all: Vec<PathBuf> = folder.map(|entry| entry.expect("a guide").path()).collect();
    all.push(root.join("README.md"));
    all.sort();
    all
}

/// Commands between marks of code for a shell.
fn commands() -> Vec<Written> {
    let mut found = Vec::new();
    for path in guides() {
        let text = std::fs::read_to_string(&path).expect("text");
        let guide = path.file_name().expect("a name").to_string_lossy().into_owned();
        let mut inside = false;
        for line in text.replace("\\\n", " ").lines() {
            if line.starts_with("```") {
                inside = line == "```sh";
                continue;
            }
            if inside {
                let parts = words_of(line);
                let ours = parts.into_iter().filter(|words| words[0] == "frostline");
                found.extend(
                    ours.map(|words| Written { guide: guide.clone(), words: words[1..].to_vec() }),
                );
            }
        }
    }
    found
}

/// Words of each command of a line, as a shell divides it: quotes, comments, pipes and files that output goes to.
fn words_of(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut begun) = (String::new(), None, false);
    let end = |word: &mut String, begun: &mut bool, commands: &mut Vec<Vec<String>>| {
        if std::mem::take(begun)
            && let Some(last) = commands.last_mut()
        {
            last.push(std::mem::take(word));
        }
    };
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, begun) = (Some(c), true),
            (None, '#') if !begun => break,
            (None, ' ') => end(&mut word, &mut begun, &mut commands),
            (None, '|' | '&' | ';' | '>') => {
                end(&mut word, &mut begun, &mut commands);
                commands.push(Vec::new());
            }
            (None, c) => {
                word.push(c);
                begun = true;
            }
        }
    }
    end(&mut word, &mut begun, &mut commands);
    let without_sudo = commands
        .into_iter()
        .map(|words| words.into_iter().skip_while(|word| word == "sudo").collect::<Vec<String>>());
    without_sudo.filter(|words| !words.is_empty()).collect()
}

/// Numbers of accesses and bytes that a test waits for.
fn small(word: &str) -> String {
    let parts = word.split(':').map(|part| match part.split_once('=') {
        Some(("accesses", _)) => "accesses=200K",
        Some(("pages" | "size", _)) if word.starts_with("synth:") => "size=8MiB",
        _ => part,
    });
    parts.collect::<Vec<_>>().join(":")
}

fn frostline(words: &[String], folder: &Path) -> (Option<i32>, String) {
    let done = Command::new(FROSTLINE).args(words).current_dir(folder).output().expect("it runs");
    let said = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn what_can_be_done_is_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for made in ["s.flt", "t.flt"] {
        let (code, said) = frostline(&words(&format!("trace synth {TRACE} -o {made}")), here);
        assert_eq!(code, Some(0), "{said}");
    }
    assert_eq!(frostline(&words("trace export s.flt s.parquet"), here).0, Some(0));
    std::fs::write(here.join("accesses.txt"), "1 4096 r\n2 8192 w\n").expect("a file");
    let mut done = BTreeSet::new();
    for command in commands().iter().filter(|command| command.can_be_done()) {
        // What lies there may be written over.
        for file in ["s.parquet", "s.events.parquet"] {
            if command.begins_with(&["trace", "export"]) {
                std::fs::remove_file(here.join(file)).expect("it is there");
            }
        }
        let words: Vec<String> = command.words.iter().map(|word| small(word)).collect();
        let (code, said) = frostline(&words, here);
        assert_eq!(code, Some(0), "{}: frostline {}: {said}", command.guide, words.join(" "));
        done.insert(words.join(" "));
    }
    assert!(done.len() >= 30, "{done:#?}");
}

#[test]
fn what_is_not_done_is_understood() {
    let here = std::env::temp_dir();
    let mut understood = BTreeSet::new();
    for command in commands().iter().filter(|command| !command.can_be_done()) {
        let ours = command.words.iter().take_while(|word| *word != "--");
        let mut words: Vec<String> = ours.cloned().collect();
        words.push("--help".to_owned());
        let (code, said) = frostline(&words, &here);
        assert_eq!(code, Some(0), "{}: frostline {}: {said}", command.guide, words.join(" "));
        understood.insert(words.join(" "));
    }
    assert!(understood.len() >= 30, "{understood:#?}");
}

#[test]
fn lines_are_divided_as_a_shell_does() {
    let divided = words_of("perf x | sudo frostline run --save '' -- a \"b c\" > d  # e | f");
    let wanted: [&[&str]; 3] =
        [&["perf", "x"], &["frostline", "run", "--save", "", "--", "a", "b c"], &["d"]];
    assert_eq!(divided, wanted);
    assert_eq!(small("synth:zipf:pages=256K:accesses=20M"), "synth:zipf:size=8MiB:accesses=200K");
}
