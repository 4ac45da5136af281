//! Runs of the program with little memory.

use std::path::Path;
use std::process::{Command, Output};

/// Memory that a process may write to, beside what it shares: that of an ordinary small run, and 64 MiB.
const MOST_KIB: u64 = (64 + 64) << 10;
/// Processor time after which a run counts as one without an end.
const ENDLESS_SECONDS: u64 = 300;

/// The program with these arguments in a folder, with little memory: what asks for more is aborted.
pub fn frostline<S: AsRef<std::ffi::OsStr>>(folder: &Path, args: &[S]) -> Output {
    let limited = format!("ulimit -d {MOST_KIB} && ulimit -t {ENDLESS_SECONDS} && exec \"$@\"");
    Command::new("sh")
        .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_frostline")])
        .args(args)
        .current_dir(folder)
        .env("RAYON_NUM_THREADS", "2")
        .output()
        .expect("there is a shell")
}

/// What a run said on standard error.
pub fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The run ended with 2 and a hint.
#[track_caller]
pub fn assert_refused(output: &Output, what: &str) {
    let told = told(output);
    assert_eq!(output.status.code(), Some(2), "{what}: {:?}: {told}", output.status);
    assert!(told.contains("error: ") && told.contains("\nhint: "), "{what}: {told}");
}

/// The run ended well.
#[track_caller]
pub fn assert_good(output: &Output, what: &str) {
    assert!(output.status.success(), "{what}: {:?}: {}", output.status, told(output));
}
