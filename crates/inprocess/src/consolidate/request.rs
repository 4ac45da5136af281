//! Requests to a process with an agent to consolidate, and its answers: by files that root
//! alone can write.

use super::{ConsolidationLimit, Numbers};
use frostline_linux::process::Identity;
use frostline_linux::{LinuxError, Root, own_files};
use rustix::fs::Access;
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

const FOLDER: &str = "/run/frostline/consolidate";

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Whom: a process.
    pub pid: u32,
    /// When that has started, in clock ticks since the system's start.
    pub start_ticks: u64,
    /// From how many hot pages on a region is dense.
    pub limit: ConsolidationLimit,
    /// Move nothing.
    pub dry_run: bool,
    /// Tells this question from others to the same process.
    pub number: u64,
    /// Hot pages, as they were seen from outside, by first page and number; without them, those that are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<Vec<(u64, u64)>>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// To which question.
    pub number: u64,
    /// What was done.
    pub numbers: Numbers,
}

fn path(root: &Root, pid: u32, kind: &str) -> PathBuf {
    root.path(format!("{FOLDER}/{pid}.{kind}"))
}

fn put<T: Serialize>(root: &Root, pid: u32, kind: &str, what: &T) -> Result<(), LinuxError> {
    let file = path(root, pid, kind);
    own_files::folder(root, FOLDER)?;
    let write = || own_files::replace(&file, &serde_json::to_vec(what)?);
    write().map_err(|error: std::io::Error| LinuxError::io("write", &file, &error))
}

fn get<T: for<'de> Deserialize<'de>>(root: &Root, pid: u32, kind: &str) -> Option<T> {
    serde_json::from_slice(&fs::read(path(root, pid, kind)).ok()?).ok()
}

/// Asks.
///
/// # Errors
/// Where the file cannot be written.
pub fn ask(root: &Root, request: &Request) -> Result<(), LinuxError> {
    sweep(root);
    put(root, request.pid, "ask", request)
}

/// Removes questions to processes that have ended, and their answers: who asked was killed.
pub fn sweep(root: &Root) {
    for name in root.list(FOLDER).unwrap_or_default() {
        let pid = name.split('.').next().and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !root.path(format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_file(root.path(format!("{FOLDER}/{name}")));
        }
    }
}

/// Whether there is a question to a process of this number, told without allocating anything: how a
/// library knows, that is brought into a program which runs, what it is there for.
pub fn is_asked(pid: u32) -> bool {
    let mut path = [0; FOLDER.len() + 16];
    let mut rest = &mut path[..];
    let written = write!(rest, "{FOLDER}/{pid}.ask\0");
    let path = CStr::from_bytes_until_nul(&path).ok().filter(|_| written.is_ok());
    path.is_some_and(|path| rustix::fs::access(path, Access::EXISTS).is_ok())
}

/// Takes the question that this process was asked, if there is one.
pub fn asked(root: &Root, own: Identity) -> Option<Request> {
    let file = path(root, own.pid, "ask");
    if !file.exists() {
        return None;
    }
    let request: Option<Request> = get(root, own.pid, "ask");
    let _ = fs::remove_file(file);
    request.filter(|request| request.start_ticks == own.start_ticks)
}

/// Answers.
///
/// # Errors
/// Where the file cannot be written.
pub fn answer(root: &Root, pid: u32, answer: &Answer) -> Result<(), LinuxError> {
    put(root, pid, "answer", answer)
}

/// Takes the answer to a question, if there is one.
pub fn answered(root: &Root, request: &Request) -> Option<Numbers> {
    let answer: Answer = get(root, request.pid, "answer")?;
    if answer.number != request.number {
        return None;
    }
    forget(root, request.pid);
    Some(answer.numbers)
}

/// Removes what another process with this number answered. A question may have come already.
pub fn forget_answer(root: &Root, pid: u32) {
    let _ = fs::remove_file(path(root, pid, "answer"));
}

/// Removes what is left of questions and answers.
pub fn forget(root: &Root, pid: u32) {
    for kind in ["ask", "answer", "next"] {
        let _ = fs::remove_file(path(root, pid, kind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_ones_have_asked_goes_with_the_process_that_they_asked() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let asked = |pid| Request {
            pid,
            start_ticks: 1,
            limit: ConsolidationLimit::Auto,
            dry_run: false,
            number: 1,
            hot: None,
        };
        fs::create_dir_all(root.path("/proc/8")).unwrap();
        for pid in [7, 8, 9] {
            ask(&root, &asked(pid)).unwrap();
        }
        assert_eq!(root.list(FOLDER).unwrap(), ["8.ask", "9.ask"], "9 was asked just now");
        sweep(&root);
        assert_eq!(root.list(FOLDER).unwrap(), ["8.ask"]);
    }

    #[test]
    fn questions_reach_the_process_that_they_are_for_and_no_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let request = Request {
            pid: 7,
            start_ticks: 100,
            limit: ConsolidationLimit::Pages(50),
            dry_run: true,
            number: 3,
            hot: Some(vec![(7, 2)]),
        };
        let own = |start_ticks| Identity { pid: 7, start_ticks };
        assert_eq!(asked(&root, own(100)), None);
        ask(&root, &request).unwrap();
        assert_eq!(asked(&root, own(100)).as_ref(), Some(&request));
        assert_eq!(asked(&root, own(100)), None, "taken");
        ask(&root, &request).unwrap();
        assert_eq!(asked(&root, own(101)), None, "another process with the same number");
        let numbers = Numbers { hot_pages: 9, ..Numbers::default() };
        answer(&root, 7, &Answer { number: 2, numbers: numbers.clone() }).unwrap();
        assert_eq!(answered(&root, &request), None, "to another question");
        answer(&root, 7, &Answer { number: 3, numbers: numbers.clone() }).unwrap();
        assert_eq!(answered(&root, &request), Some(numbers));
        assert_eq!(answered(&root, &request), None);
        assert!(!is_asked(u32::MAX), "the number fits");
    }
}
