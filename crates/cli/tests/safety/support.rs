//! Running frostline, and reading what it says.

pub use frostline_testing::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

/// More of a core than is usual, so that pages move in a short time.
pub const EAGER: &str = "--cpu-limit 30% --settling-cpu-limit 60%";

pub fn frostline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_frostline"))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs something for so many seconds, and three and nine times as long where that has not `happened` which the test wants to
/// see: what is done in a second is up to the machine. Gives the last run.
pub fn longer_until<T>(seconds: u32, run: impl Fn(u32) -> T, happened: impl Fn(&T) -> bool) -> T {
    let mut last = run(seconds);
    for times in [3, 9] {
        if happened(&last) {
            break;
        }
        last = run(times * seconds);
    }
    last
}

/// A process that does not outlive the test, however that ends.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("it starts"))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it is not waited for yet");
    }

    pub fn kill(&mut self) -> ExitStatus {
        self.signal(Signal::KILL);
        self.0.wait().expect("ours")
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("ours").is_some()
    }

    /// Waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        wait_until("the end of a process", || self.has_ended());
        self.0.wait().expect("ours")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The only object of a file or an output in the envelope.
pub fn only_run(json: &[u8]) -> Value {
    let mut value: Value =
        serde_json::from_slice(json).unwrap_or_else(|_| panic!("{}", text(json)));
    let runs = value["runs"].as_array_mut().expect("an envelope");
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.remove(0)
}

/// A program that was run under frostline, and what frostline told in the end.
pub struct Run {
    pub output: Output,
    pub summary: Value,
}

/// `frostline run` with these options, words with spaces between them; fails where the program ran
/// without tiering.
pub fn run(options: &str, program: &Path, args: &[&str]) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = folder.path().join("summary.json");
    let output = frostline()
        .arg("run")
        .args(options.split(' '))
        .arg("--summary")
        .arg(&summary)
        .arg("--")
        .arg(program)
        .args(args)
        .output()
        .expect("it runs");
    let told = text(&output.stderr);
    let summary = std::fs::read(&summary).unwrap_or_else(|_| panic!("no tiering: {told}"));
    Run { output, summary: only_run(&summary) }
}

impl Run {
    /// Checks that the load found all of its memory as it had written it; its numbers.
    pub fn whole(&self) -> Value {
        let told = text(&self.output.stderr);
        assert_eq!(self.output.status.code(), Some(0), "{told}");
        assert!(!told.contains("tiering has stopped"), "{told}");
        let load: Value = serde_json::from_slice(&self.output.stdout).expect("JSON");
        assert_eq!(load["mismatches"], 0, "{load}");
        load
    }
}

/// Sum of one number over all accounts of moves: `verified`, `attempted`, `no_space`, ...
pub fn moved(status: &Value, what: &str) -> u64 {
    ["promotions", "demotions", "reclaimed", "probes"]
        .iter()
        .map(|account| status["accounts"][account][format!("{what}_bytes")].as_u64().expect(what))
        .sum()
}

/// What `frostline status` tells of one frostline.
pub fn status_of(pid: u32) -> Option<Value> {
    let output = frostline().args(["status", "--json"]).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    all["runs"].as_array().expect("an envelope").iter().find(|run| run["pid"] == pid).cloned()
}

/// `frostline attach` to a process, quietly; options as for [`run`].
pub fn attach(pid: u32, options: &str) -> Command {
    let mut command = frostline();
    command.arg("attach").arg(pid.to_string()).args(options.split(' '));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}
