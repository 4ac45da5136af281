//! Rules about the text of a file.

use super::files::{File, Tree};
use super::problem::Findings;

/// Most lines of a file of code.
const MOST_LINES: usize = 800;
/// Words with which questions begin.
const QUESTIONS: [&str; 9] =
    ["What", "How", "Where", "When", "Who", "Whose", "Which", "Whether", "Why"];
/// Words with which sentences without a subject begin, none of them a noun.
const OPENERS: [&str; 18] = [
    "Adds", "Boots", "Brings", "Builds", "Can", "Carries", "Doing", "Finds", "Gathers", "Has",
    "Installs", "Keeps", "Makes", "Prepares", "Prints", "Reads", "See", "Writes",
];
/// Most lines of a policy's header.
const MOST_HEADER_LINES: usize = 12;
/// The folder whose programs link GPL code.
const GPL_FOLDERS: [&str; 2] = ["recorder/", "lab/plugin/"];
/// Texts that are other people's, kept as they are.
const VERBATIM: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT", "recorder/COPYING"];

/// Written by a program, not by us.
fn is_generated(file: &File) -> bool {
    file.name() == "Cargo.lock" || file.extension() == "snap" || file.path.contains("/corpus/")
}

fn is_code(file: &File) -> bool {
    ["rs", "c", "h", "py", "sh", "js", "css", "html"].contains(&file.extension())
}

/// Files of code stay short enough to be read at once.
pub fn length(file: &File, _: &Tree, found: &mut Findings<'_>) {
    let lines = file.lines().count();
    if is_code(file) && lines >= MOST_LINES {
        found(0, format!("{lines} lines; split it: files of code stay below {MOST_LINES}"));
    }
}

/// No tabs (but where a format demands them), nothing at the end of a line, one newline at the end
/// of the file.
pub fn whitespace(file: &File, _: &Tree, found: &mut Findings<'_>) {
    if is_generated(file) || VERBATIM.contains(&file.path.as_str()) {
        return;
    }
    let tabs_allowed = file.name() == "Makefile" || ["tsv", "mk"].contains(&file.extension());
    for (number, line) in file.lines() {
        if line.ends_with('\r') {
            found(number, "carriage return".to_owned());
        } else if line.ends_with([' ', '\t']) {
            found(number, "white space at the end of the line".to_owned());
        } else if !tabs_allowed && line.contains('\t') {
            found(number, "tab; indent by spaces".to_owned());
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        found(file.lines().count(), "no newline at the end of the file".to_owned());
    } else if file.text.ends_with("\n\n") {
        found(file.lines().count(), "empty line at the end of the file".to_owned());
    }
}

/// Nothing is left to be done later. The words are put together here, so that this file passes.
pub fn unfinished(file: &File, _: &Tree, found: &mut Findings<'_>) {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("unimpl", "emented!"),
        concat!("to", "do!("),
        concat!("#[ign", "ore"),
        concat!("dbg", "!("),
    ];
    if is_generated(file) || VERBATIM.contains(&file.path.as_str()) {
        return;
    }
    for (number, line) in file.lines() {
        if let Some(mark) = marks.iter().find(|mark| contains_word(line, mark)) {
            found(number, format!("'{mark}': finish it"));
        }
    }
}

/// A test that cannot run says so in one way, which is counted, and refused where it must run.
pub fn skips(file: &File, _: &Tree, found: &mut Findings<'_>) {
    if file.extension() != "rs" || file.path.starts_with("crates/testing/") {
        return;
    }
    let mark = concat!("println!(\"skip", "ped");
    for (number, line) in file.lines() {
        if line.to_lowercase().contains(mark) {
            found(number, "say it by `frostline_testing::skip`".to_owned());
        }
    }
}

/// The repository speaks of the project, not of the places and people it was made with.
pub fn foreign_words(file: &File, _: &Tree, found: &mut Findings<'_>) {
    let words = [
        concat!("crates", ".io"),
        concat!("docs", ".rs"),
        concat!("pypi", ".org"),
        concat!("pythonhosted", ".org"),
        concat!("deb", ".debian.org"),
        concat!("npmjs", ".com"),
        concat!("issue", " #"),
        concat!("this sess", "ion"),
        concat!("/work/", "shared"),
        concat!("/work/", "main"),
    ];
    if is_generated(file) || VERBATIM.contains(&file.path.as_str()) {
        return;
    }
    for (number, line) in file.lines() {
        let line = line.to_lowercase();
        if let Some(word) = words.iter().find(|word| line.contains(*word)) {
            found(number, format!("'{word}' does not belong into this repository"));
        }
    }
}

/// Every file of the programs that link GPL code names its licence (headers that other programs
/// copy are under ours), and no other file does.
pub fn licence_tag(file: &File, _: &Tree, found: &mut Findings<'_>) {
    let tag = concat!("SPDX-License-", "Identifier: ");
    let known = ["GPL-2.0-or-later", "MIT OR Apache-2.0"];
    let tagged = file.lines().take(3).any(|(_, line)| {
        line.split_once(tag).is_some_and(|(_, id)| known.iter().any(|known| id.starts_with(known)))
    });
    let source = ["c", "h", "py", "sh"].contains(&file.extension()) || file.name() == "Makefile";
    if GPL_FOLDERS.iter().any(|folder| file.path.starts_with(folder)) {
        if source && !tagged {
            found(1, format!("'{tag}{}' is missing from the first three lines", known[0]));
        }
    } else if let Some((number, _)) = file.lines().find(|(_, line)| line.contains(tag)) {
        found(number, "the licence is named in Cargo.toml, not in single files".to_owned());
    }
}

/// A header names what is in the file: it begins with a noun, not with a question or a verb.
pub fn noun_header(file: &File, _: &Tree, found: &mut Findings<'_>) {
    let Some((number, text)) = header(file) else { return };
    let word = text.split_whitespace().next().unwrap_or_default();
    if QUESTIONS.contains(&word) || OPENERS.contains(&word) {
        found(number, format!("the header begins with '{word}'; begin with a noun"));
    }
}

/// First line of a file's header and its number, without marks of comments, in the languages that we write.
fn header(file: &File) -> Option<(usize, &str)> {
    let licence = concat!("SPDX-License-", "Identifier");
    let mut lines = file.lines().take(4);
    match file.extension() {
        "rs" => lines.next().and_then(|(at, line)| Some((at, line.strip_prefix("//! ")?))),
        "py" => lines.find_map(|(at, line)| Some((at, line.strip_prefix("\"\"\"")?))),
        "c" | "h" => {
            let marks = |line: &str| line.starts_with("/* ") || line.starts_with("   ");
            let header = lines.find(|(_, line)| marks(line) && !line.contains(licence))?;
            Some((header.0, &header.1[3..]))
        }
        "sh" | "toml" | "mk" | "" => {
            let mut lines = lines.skip_while(|(_, l)| l.starts_with("#!") || l.contains(licence));
            lines.next().and_then(|(at, line)| Some((at, line.strip_prefix("# ")?)))
        }
        _ => None,
    }
}

/// Each policy's file opens with a header that says what it does and whose idea it is.
pub fn policy_header(file: &File, _: &Tree, found: &mut Findings<'_>) {
    let Some(rest) = file.path.strip_prefix("crates/core/src/policy/") else { return };
    let is_policy = file.extension() == "rs" && file.text.contains("impl Policy for");
    if !is_policy || rest.ends_with("tests.rs") {
        return;
    }
    let header: Vec<&str> =
        file.lines().map(|(_, line)| line).take_while(|line| line.starts_with("//!")).collect();
    if header.is_empty() {
        found(1, "no header: the algorithm, its citation, what it is not good for".to_owned());
        return;
    }
    if header.len() > MOST_HEADER_LINES {
        let lines = header.len();
        found(lines, format!("a header of {lines} lines; at most {MOST_HEADER_LINES}"));
    }
    if !header.iter().any(|line| has_citation(line)) {
        found(1, "the header cites nothing: a paper with its year, or 'reference'".to_owned());
    }
}

/// A year (`2023` or `'23`), a kernel file, or the statement that it stands for comparison only.
fn has_citation(line: &str) -> bool {
    let year = line.split(|c: char| !c.is_ascii_digit() && c != '\'').any(|run| {
        let four = run.len() == 4 && (run.starts_with("19") || run.starts_with("20"));
        four || (run.len() == 3 && run.starts_with('\''))
    });
    let words = ["Linux", "kernel", "aseline", "eference", "know the future"];
    year || words.iter().any(|word| line.contains(word))
}

/// The folders that hold all unsafe code: system calls, and what works inside of other programs.
const UNSAFE_FOLDERS: [&str; 2] = ["crates/linux/src/sys/", "crates/inprocess/src/sys/"];
/// Roots of crates with a module that may be unsafe, and the line that declares it: those folders, and
/// what the dynamic linker has to find in a preloaded library.
const UNSAFE_MODULES: [(&str, &str); 3] = [
    ("crates/linux/src/lib.rs", "mod sys;"),
    ("crates/inprocess/src/lib.rs", "mod sys;"),
    ("crates/agent/src/lib.rs", "mod entry;"),
];

/// Unsafe code is allowed in two folders and one file.
pub fn unsafe_stays_put(file: &File, _: &Tree, found: &mut Findings<'_>) {
    let is_there = UNSAFE_FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    if is_there || file.path.starts_with("xtask/") {
        return;
    }
    let module = UNSAFE_MODULES.iter().find(|(root, _)| *root == file.path);
    let mut lines = file.lines().peekable();
    while let Some((number, line)) = lines.next() {
        let next = lines.peek().map(|(_, line)| *line);
        let allowed = module.is_some_and(|(_, declared)| next == Some(*declared));
        if line.contains("allow(unsafe_code)") && !allowed {
            found(number, format!("unsafe code belongs into {}", UNSAFE_FOLDERS.join(" or ")));
        }
    }
}

/// Crates that live in other programs' processes, too, whose forked children do not have their memory.
const INSIDE: [&str; 6] = [
    "crates/core/src/",
    "crates/daemon/src/",
    "crates/linux/src/",
    "crates/inprocess/src/",
    "crates/driver/src/",
    "crates/agent/src/",
];
/// Static variables that own memory, and are not touched there.
const NOT_TOUCHED: [&str; 1] = ["static HELD: "];

/// Static variables own no memory where a forked child would not have it.
pub fn statics_own_nothing(file: &File, _: &Tree, found: &mut Findings<'_>) {
    if !INSIDE.iter().any(|folder| file.path.starts_with(folder)) {
        return;
    }
    let owners = ["Vec<", "String", "Map<", "Set<", "Box<", "Arc<", "PathBuf", "LazyLock"];
    for (number, line) in file.lines() {
        let line = line.trim_start().trim_start_matches("pub ");
        let known = NOT_TOUCHED.iter().any(|known| line.starts_with(known));
        if line.starts_with("static ") && !known && owners.iter().any(|owner| line.contains(owner))
        {
            found(number, "owns memory that a forked child does not have".to_owned());
        }
    }
}

/// Crates contain no unsafe code outside of [`UNSAFE_MODULES`], and the core no standard library.
pub fn crate_root(file: &File, _: &Tree, found: &mut Findings<'_>) {
    let in_crates = ["crates/", "demo/", "disasters/", "lab/", "repro/", "xtask/"]
        .iter()
        .any(|f| file.path.starts_with(f));
    if !in_crates || !["src/lib.rs", "src/main.rs"].iter().any(|root| file.path.ends_with(root)) {
        return;
    }
    let may = UNSAFE_MODULES.iter().any(|(root, _)| *root == file.path);
    let wanted = if may { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
    if !file.text.contains(wanted) {
        found(1, format!("'{wanted}' is missing"));
    }
    if file.path != "crates/core/src/lib.rs" {
        return;
    }
    if !file.text.contains("#![no_std]") {
        found(1, "'#![no_std]' is missing: the core has no clock, files or randomness".to_owned());
    }
    let mut before = "";
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("extern crate std") && before.trim() != "#[cfg(test)]" {
            found(number, "the core may use the standard library in tests only".to_owned());
        }
        before = line;
    }
}

/// Whether `word` occurs in `line` without a letter, digit or underscore on either side.
fn contains_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let open_end = word.chars().next_back().is_some_and(part_of_word);
        let goes_on = open_end && after.is_some_and(part_of_word);
        !(goes_on || before.is_some_and(part_of_word))
    })
}

#[cfg(test)]
mod tests {
    use super::super::problem::lines;
    use super::*;

    fn one(rule: super::super::problem::Rule, path: &str, text: &str) -> Vec<usize> {
        lines(rule, &Tree::of(&[(path, text)]), path)
    }

    #[test]
    fn headers_begin_with_nouns() {
        let tag = concat!("SPDX-License-", "Identifier: GPL-2.0-or-later");
        for (path, text, wrong) in [
            ("a.rs", "//! What leaves when memory is full.\n", &[1][..]),
            ("a.rs", "//! Whether it pays.\n", &[1]),
            ("a.rs", "//! Reads the format.\n", &[1]),
            ("a.rs", "//! Reclaim by second chance.\n", &[]),
            ("a.rs", "//! Whatever.\n", &[]),
            ("a.rs", "//! Records of a ring.\n", &[]),
            ("a.rs", "use x;\n// What\n", &[]),
            ("scripts/a", "#!/bin/sh\n# Builds it.\n", &[2]),
            ("scripts/a", "#!/bin/sh\n# Build of it.\n", &[]),
            ("a.toml", "# How it is.\n", &[1]),
            ("a.toml", "[x]\n# How it is.\n", &[]),
            ("a.py", "#!/usr/bin/env python3\n\"\"\"Prints it.\"\"\"\n", &[2]),
            ("a.c", &format!("/* {tag}\n\n   What is used. */\n"), &[3]),
            ("a.c", &format!("/* {tag}\n\n   Uses. */\n"), &[]),
            ("a.md", "What is this?\n", &[]),
        ] {
            assert_eq!(one(noun_header, path, text), wrong, "{text}");
        }
    }

    #[test]
    fn long_files_of_code_are_found_and_long_documents_are_not() {
        let text = "x\n".repeat(MOST_LINES);
        assert_eq!(one(length, "a.rs", &text), [0]);
        assert_eq!(one(length, "a.rs", &text[2..]), []);
        assert_eq!(one(length, "a.md", &text), []);
    }

    #[test]
    fn white_space() {
        assert_eq!(one(whitespace, "a.rs", "ok\nbad \n\tbad\nbad\r\nlast"), [2, 3, 4, 5]);
        assert_eq!(one(whitespace, "a/Makefile", "all:\n\tcc\n"), []);
        assert_eq!(one(whitespace, "a.md", "text\n\n"), [2]);
        assert_eq!(one(whitespace, "a.md", ""), []);
        assert_eq!(one(whitespace, "Cargo.lock", "made \n"), []);
    }

    #[test]
    fn unfinished_work() {
        let text =
            concat!("// TO", "DO later\nlet todos = 1;\nunimpl", "emented!()\n#[ign", "ore]\n");
        assert_eq!(one(unfinished, "a.rs", text), [1, 3, 4]);
        assert_eq!(one(unfinished, "LICENSE-APACHE", text), []);
    }

    #[test]
    fn skips_that_nobody_counts() {
        let text = concat!("eprintln!(\"SKIP", "PED: x\")\nskip(Requirement::Zram, x)\n");
        assert_eq!(one(skips, "a.rs", text), [1]);
        assert_eq!(one(skips, "crates/testing/src/lib.rs", text), []);
    }

    #[test]
    fn words_of_other_places() {
        let text = concat!("see Crates", ".io\nfine\nfixes issue", " #7\n");
        assert_eq!(one(foreign_words, "a.md", text), [1, 3]);
        assert_eq!(one(foreign_words, "Cargo.lock", text), []);
    }

    #[test]
    fn licence_tags() {
        let tag = concat!("/* SPDX-License-", "Identifier: GPL-2.0-or-later */\n");
        assert_eq!(one(licence_tag, "recorder/valgrind/src/a.c", tag), []);
        assert_eq!(one(licence_tag, "recorder/valgrind/src/a.c", "int x;\n"), [1]);
        let ours = tag.replace("GPL-2.0-or-later", "MIT OR Apache-2.0");
        assert_eq!(one(licence_tag, "recorder/valgrind/marks.h", &ours), []);
        assert_eq!(one(licence_tag, "crates/core/src/a.rs", &format!("\n{tag}")), [2]);
    }

    #[test]
    fn policy_headers() {
        let path = "crates/core/src/policy/x.rs";
        let body = "impl Policy for X {}\n";
        let check = |header: &str| one(policy_header, path, &format!("{header}{body}"));
        assert_eq!(check("//! X. Lee et al., SOSP 2023.\n"), []);
        assert_eq!(check("//! X (Lee et al., SOSP '23).\n"), []);
        assert_eq!(check("//! Baseline: nothing moves.\n"), []);
        assert_eq!(check(""), [1]);
        assert_eq!(check("//! X.\n"), [1]);
        assert_eq!(check(&"//! Of 2023.\n".repeat(MOST_HEADER_LINES + 1)), [13]);
        assert_eq!(one(policy_header, path, "no policy in here\n"), []);
        assert_eq!(one(policy_header, "crates/core/src/x.rs", body), []);
    }

    #[test]
    fn roots_of_crates() {
        assert_eq!(one(crate_root, "crates/a/src/lib.rs", "mod x;\n"), [1]);
        assert_eq!(one(crate_root, "crates/a/src/lib.rs", "#![forbid(unsafe_code)]\n"), []);
        assert_eq!(one(crate_root, "crates/a/src/x.rs", "mod x;\n"), []);
        let core = "crates/core/src/lib.rs";
        let head = "#![no_std]\n#![forbid(unsafe_code)]\n";
        assert_eq!(one(crate_root, core, "#![forbid(unsafe_code)]\n"), [1]);
        assert_eq!(one(crate_root, core, &format!("{head}#[cfg(test)]\nextern crate std;\n")), []);
        assert_eq!(one(crate_root, core, &format!("{head}extern crate std;\n")), [3]);
    }

    #[test]
    fn unsafe_code_is_where_it_belongs() {
        let allows = |module: &str| format!("#[allow(unsafe_code)]\nmod {module};\n");
        for (path, module, lines) in [
            ("crates/linux/src/lib.rs", "sys", &[][..]),
            ("crates/linux/src/lib.rs", "perf", &[1]),
            ("crates/linux/src/sys/mod.rs", "x", &[]),
            ("crates/inprocess/src/lib.rs", "sys", &[]),
            ("crates/inprocess/src/sys/mod.rs", "x", &[]),
            ("crates/inprocess/src/inject.rs", "x", &[1]),
            ("crates/agent/src/lib.rs", "entry", &[]),
            ("crates/agent/src/lib.rs", "work", &[1]),
            ("crates/agent/src/work.rs", "entry", &[1]),
            ("crates/driver/src/lib.rs", "sys", &[1]),
        ] {
            assert_eq!(one(unsafe_stays_put, path, &allows(module)), lines, "{path} {module}");
        }
    }

    #[test]
    fn static_variables_that_own_memory() {
        let text = "static A: AtomicU32 = x;\nstatic B: Mutex<Vec<u8>> = x;\n  \
                    pub static C: LazyLock<T> = x;\nstatic HELD: Mutex<BTreeMap<A, B>> = x;\n\
                    fn f(a: &'static str) -> Vec<u8> {\n";
        assert_eq!(one(statics_own_nothing, "crates/driver/src/a.rs", text), [2, 3]);
        assert_eq!(one(statics_own_nothing, "crates/cli/src/a.rs", text), []);
    }

    #[test]
    fn words_are_whole_words() {
        assert!(contains_word("a FOO: b", "FOO"));
        assert!(!contains_word("aFOO", "FOO") && !contains_word("FOOD", "FOO"));
        assert!(contains_word("foo!(x)", "foo!("));
    }
}
