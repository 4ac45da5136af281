//! Mistakes that people make most: each is answered by what is wrong and what to do, and nothing is begun.

use assert_cmd::Command;

/// What was typed, what it ends with, and what the answer holds.
type Mistake = (&'static [&'static str], i32, &'static [&'static str]);

/// What `clap` says where a word is missing or too much.
const HELP: &str = "try '--help'";

const MISTAKES: &[Mistake] = &[
    (&["runn", "--", "ls"], 2, &["unrecognized subcommand 'runn'", "'run'"]),
    (&["run"], 125, &["<PROGRAM>", HELP]),
    (&["run", "--", "no-such-program"], 127, &["cannot run no-such-program", "in PATH?"]),
    (&["run", "--", "/etc/passwd"], 126, &["cannot run /etc/passwd", "executable?"]),
    (&["run", "--fast", "--", "ls"], 125, &["--fast <SIZE>", HELP]),
    (&["run", "--fast", "50", "--", "ls"], 125, &["less than a page", "write 50% for a share"]),
    (&["run", "--fast", "0%", "--", "ls"], 125, &["not above 0", "a share such as 40%"]),
    (&["run", "--max-slowdown", "2", "--", "ls"], 125, &["'2' is no slowdown", "such as 2%"]),
    (
        &["run", "--policy", "memtsi", "--", "ls"],
        125,
        &["unknown policy", "did you mean `memtis`?"],
    ),
    (&["run", "--policy", "memtis:alpa=1", "--", "ls"], 125, &["unknown parameter", "`alpha`?"]),
    (&["run", "--slow", "nvme", "--", "ls"], 125, &["unknown slow tier", "node:N, zram"]),
    (&["run", "--slow", "node:x", "--", "ls"], 125, &["no number of a node", "node:1"]),
    (&["run", "--slow", "zram:sise=8GiB", "--", "ls"], 125, &["unknown parameter", "`size`?"]),
    (&["run", "--slow", "zram:size=8", "--", "ls"], 125, &["less than a page", "zram:size=8GiB"]),
    (&["run", "--save", "900TiB", "--", "ls"], 125, &["cannot be saved", "--max-slowdown"]),
    (&["run", "--samples", "pmuu", "--", "ls"], 125, &["pmuu", "pmu"]),
    (&["run", "--cpu-limit", "0", "--", "ls"], 125, &["--cpu-limit", "hint: "]),
    (&["attach"], 2, &["<PID>", HELP]),
    (&["attach", "redis-server"], 2, &["no number of a process", "pidof redis-server"]),
    (&["attach", "1"], 2, &["left alone", "name the program"]),
    (&["daemon", "-c", "/no/such.toml"], 1, &["cannot read /no/such.toml", "config show"]),
    (&["compare"], 2, &["<TRACE>", HELP]),
    (&["compare", "none.flt"], 1, &["cannot read none.flt", "frostline record -o FILE"]),
    (&["compare", "/etc/passwd"], 1, &["not a Frostline trace", "frostline trace import"]),
    (&["compare", "synth:zipff"], 2, &["unknown workload", "did you mean `zipf`?"]),
    (&["compare", "synth:zipf:sise=1GiB"], 2, &["unknown parameter", "did you mean `size`?"]),
    (&["compare", "synth:zipf", "--fast", "1/8"], 2, &["not a size of fast memory", "1:8"]),
    (&["compare", "synth:zipf", "-m", "dram-clx"], 2, &["unknown machine", "`dram-cxl`?"]),
    (&["advise"], 2, &["<TRACE|PID>", HELP]),
    (&["advise", "none.flt"], 1, &["cannot read none.flt", "frostline record"]),
    (&["advise", "synth:zipf", "--max-slowdown", "2"], 2, &["'2' is no slowdown", "such as 2%"]),
    (&["advise", "synth:zipf", "--price", "4"], 2, &["'4' is no price", "dram=4,cxl=1.5"]),
    (&["advise", "4194304"], 1, &["has ended", "pidof PROGRAM"]),
    (&["record", "--", "ls"], 125, &["--output <TRACE>", HELP]),
    (&["record", "-o", "/no/such/x.flt", "--", "ls"], 125, &["/no/such/x.flt", "another place"]),
    (&["trace", "info", "/etc/passwd"], 1, &["not a Frostline trace", "trace import"]),
    (&["list", "policy"], 2, &["unrecognized subcommand", "'policies'"]),
    (&["list", "policies", "memtsi"], 2, &["unknown policy", "did you mean `memtis`?"]),
    (&["status", "no-such-name"], 1, &["no-such-name", "frostline status shows"]),
    (&["sweep", "grid.toml"], 1, &["frostline-sweep", "Python package"]),
    (&["serve", "--listen", "0.0.0.0:80"], 2, &["others than this machine", "ssh"]),
    (&["serve", "--listen", "7199"], 2, &["7199", "write 127.0.0.1:7199"]),
    (&["journal", "verify", "none"], 1, &["cannot read the journal none", "--journal FILE"]),
    (&["completions", "basch"], 2, &["invalid value 'basch'", "'bash'"]),
];

#[test]
fn the_answer_says_what_is_wrong_and_what_to_do() {
    for (words, code, said) in MISTAKES {
        let output = Command::new(env!("CARGO_BIN_EXE_frostline")).args(*words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{words:?}: {text}");
        assert!(output.stdout.is_empty(), "{words:?}");
        for part in *said {
            assert!(text.contains(part), "{words:?} does not say '{part}': {text}");
        }
        let is_helped = ["hint: ", HELP].iter().any(|help| text.contains(help));
        assert!(is_helped && text.contains("error: "), "{words:?}: {text}");
        assert!(!text.contains("panicked"), "{words:?}: {text}");
    }
    assert!(MISTAKES.len() >= 30);
}
