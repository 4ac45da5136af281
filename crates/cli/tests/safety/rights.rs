//! Frostline without rights.

use crate::load::Load;
use crate::support::{Running, frostline, only_run, text};
use crate::system::{System, succeeds};
use frostline_testing::{Requirement, skip};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const NOBODY: u32 = 65534;

/// The program where everybody may execute it.
struct Public {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Public {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let program = folder.path().join("frostline");
        fs::copy(env!("CARGO_BIN_EXE_frostline"), &program).expect("room");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
        Self { folder, program }
    }

    fn run_as_nobody(&self, args: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(args).uid(NOBODY).gid(NOBODY).current_dir("/").output().expect("it runs")
    }
}

#[test]
fn without_rights_the_program_runs_and_the_reason_is_said() {
    let Some(system) = System::take() else { return };
    let public = Public::new();
    let script = ["--", "sh", "-c", "echo out; sleep 1; exit 7"];
    for slow in [&["--slow", "zram"][..], &["--slow", "swap"], &["--slow", "none"], &[]] {
        let output = public.run_as_nobody(&[&["run"], slow, &script].concat());
        let told = text(&output.stderr);
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(7), "out\n".into()),
            "{told}"
        );
        if slow.contains(&"zram") {
            assert!(told.contains("without tiering") && told.contains("root"), "{told}");
        }
    }
    system.finish();
}

#[test]
fn without_rights_other_peoples_programs_are_left_alone() {
    let Some(system) = System::take() else { return };
    let public = Public::new();
    let load = Load::start("--size 4MiB");
    for slow in ["zram", "none"] {
        let output = public.run_as_nobody(&["attach", &load.pid().to_string(), "--slow", slow]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("error: ") && told.contains("hint: "), "{told}");
        assert!(!told.contains("panicked"), "{told}");
    }
    let cleaned = public.run_as_nobody(&["doctor", "--undo"]);
    let told = text(&cleaned.stderr);
    // Where another frostline has changed something, that is root's.
    let others = told.contains("error: cannot ") && told.contains("/run/frostline/lock");
    assert!(cleaned.status.success() || others && system.is_shared(), "{told}");
    load.end();
    system.finish();
}

#[test]
fn a_child_of_somebody_else_is_left_alone_and_the_rest_managed() {
    let Some(system) = System::take() else { return };
    if !succeeds("setpriv", &["--version"]) {
        return skip(Requirement::Setpriv, "no setpriv here");
    }
    let public = Public::new();
    let folder = public.folder.path().join("open");
    fs::create_dir(&folder).expect("ours");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("ours");
    let summary = folder.join("summary");
    // The child stays root's when its parent has become somebody else.
    let script = "sleep 60 & exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -c \
                  'echo ready; read end'";
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut parent = Running::start(&mut command);
    let mut line = String::new();
    let stdout = parent.0.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("readable");
    assert_eq!(line, "ready\n");
    let children = format!("/proc/{0}/task/{0}/children", parent.pid());
    let child = fs::read_to_string(children).unwrap_or_default().trim().to_owned();
    let pid = parent.pid().to_string();
    let to = summary.to_str().expect("a name");
    let output = public.run_as_nobody(&[
        "attach",
        &pid,
        "--slow",
        "none",
        "--seconds",
        "1.5",
        "--summary",
        to,
    ]);
    let started = child.parse().ok().and_then(Pid::from_raw).expect("one child");
    kill_process(started, Signal::TERM).expect("it runs");
    let told = text(&output.stderr);
    if told.contains("perf_event_paranoid") {
        return skip(Requirement::Faults, told);
    }
    assert_eq!(output.status.code(), Some(0), "{told}");
    let status = only_run(&fs::read(&summary).expect("written"));
    assert_eq!(status["targets"][0]["pid"].to_string(), pid, "{status}");
    assert!(status["refused"][&child].is_string(), "{child}: {status}");
    system.finish();
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let Some(system) = System::take() else { return };
    let mut ended = Command::new("true").spawn().expect("it runs");
    ended.wait().expect("ours");
    for pid in [ended.id(), u32::MAX - 1] {
        let output = frostline().args(["attach", &pid.to_string()]).output().expect("it runs");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("error: ") && told.contains(&pid.to_string()), "{told}");
    }
    system.finish();
}
