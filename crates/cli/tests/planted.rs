//! Files that another user has planted where root's frostline looks: neither run nor believed.

mod common;

use assert_cmd::Command;
use common::can_record;
use frostline_testing::{Requirement, skip};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const NOBODY: u32 = 65534;

/// A folder of another user.
struct Theirs(TempDir);

impl Theirs {
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(Requirement::Root, "only root can give files to others");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let theirs = Self(folder);
        theirs.give(theirs.0.path());
        Some(theirs)
    }

    fn give(&self, path: &Path) {
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("ours");
        chown(path, Some(NOBODY), Some(NOBODY)).expect("we are root");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A program that leaves a mark.
    fn plant(&self, name: &str) -> PathBuf {
        let planted = self.path(name);
        let text = format!("#!/bin/sh\ntouch {}\n", self.path("mark").display());
        fs::write(&planted, text).expect("we are root");
        self.give(&planted);
        planted
    }
}

/// An environment without a word on where files are.
fn frostline(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frostline"));
    for name in ["HOME", "XDG_CACHE_HOME", "FROSTLINE_RECORDER_DIR", "FROSTLINE_AGENT"] {
        command.env_remove(name);
    }
    command.args(args);
    command
}

/// It ends with 125 before anything is run, and says why and what helps.
fn refuses(command: &mut Command, why: &str) {
    let output = command.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{told}");
    assert!(told.contains(why) && told.contains("\nhint: "), "{told}");
}

#[test]
fn a_planted_recorder_is_not_run() {
    let Some(theirs) = Theirs::new().filter(|_| can_record()) else { return };
    theirs.plant("frostline-amd64-linux");
    let trace = tempfile::tempdir().expect("a folder");
    let trace = trace.path().join("t.flt");
    let record = ["record", "-o", trace.to_str().expect("a name"), "--", "true"];
    let mut command = frostline(&record);
    refuses(command.env("FROSTLINE_RECORDER_DIR", theirs.0.path()), "belongs to another user");
    assert!(!theirs.path("mark").exists(), "it was run");
}

#[test]
fn nothing_is_built_in_or_run_from_the_home_of_another_user() {
    let Some(theirs) = Theirs::new().filter(|_| can_record()) else { return };
    let record = ["record", "-o", "/dev/null", "--", "true"];
    for name in ["HOME", "XDG_CACHE_HOME"] {
        refuses(frostline(&record).env(name, theirs.0.path()), "belongs to another user");
    }
    assert_eq!(theirs.0.path().read_dir().expect("ours").count(), 0);
}

#[test]
fn without_a_home_there_is_no_cache_in_the_temporary_folder() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).expect("ours");
    let record = ["record", "-o", "/dev/null", "--", "true"];
    refuses(frostline(&record).env("TMPDIR", folder.path()), "XDG_CACHE_HOME");
    refuses(frostline(&record).env("TMPDIR", folder.path()).env("HOME", "."), "XDG_CACHE_HOME");
    assert_eq!(folder.path().read_dir().expect("ours").count(), 0);
}

#[test]
fn files_for_a_while_are_not_put_where_another_user_can_exchange_them() {
    let Some(theirs) = Theirs::new().filter(|_| can_record()) else { return };
    let own = tempfile::tempdir().expect("a folder");
    let trace = own.path().join("t.flt");
    let record = ["record", "-o", trace.to_str().expect("a name"), "--", "true"];
    let mut command = frostline(&record);
    command
        .env("TMPDIR", theirs.0.path())
        .env("HOME", std::env::var_os("HOME").unwrap_or_default());
    refuses(&mut command, "belongs to another user");
}

#[test]
fn a_planted_agent_is_not_loaded() {
    let Some(theirs) = Theirs::new() else { return };
    let agent = theirs.plant("libfrostline_agent.so");
    let run = ["run", "--in-process", "--slow", "none", "--", "true"];
    let mut command = frostline(&run);
    refuses(command.env("FROSTLINE_AGENT", &agent), "belongs to another user");
}
