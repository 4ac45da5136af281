//! Without rights.

use crate::load::Load;
use crate::support::{frostline, text};
use crate::system::System;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

const NOBODY: u32 = 65534;

/// The program where everybody may execute it.
struct Public {
    _folder: tempfile::TempDir,
    program: PathBuf,
}

impl Public {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let program = folder.path().join("frostline");
        fs::copy(env!("CARGO_BIN_EXE_frostline"), &program).expect("room");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
        Self { _folder: folder, program }
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
    let cleaned = public.run_as_nobody(&["clean"]);
    assert_eq!(cleaned.status.code(), Some(0), "{}", text(&cleaned.stderr));
    load.end();
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
