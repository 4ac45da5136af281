//! The load generator, which checks its memory.

use crate::support::{Run, Running, longer_until, run, text};
use crate::system::status_kib;
use frostline_testing::MemoryGroup;
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The program. `cargo test --workspace` has built it; for tests of this package alone that is
/// done here.
pub fn load_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("frostline-load", "frostline-load", &["load"]))
}

/// What a package of this workspace builds, after its sources, and those of others in `crates`,
/// have changed for the last time.
pub fn built(package: &str, file: &str, sources: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_frostline")).parent().expect("a folder");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let file = folder.join(file);
    let sources = sources.iter().map(|name| newest(&crates.join(name).join("src")));
    if changed(&file) < sources.max().expect("sources") {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", package, "--target-dir"]);
        cargo.arg(folder.parent().expect("a folder"));
        // As tests are built, whose libraries are there already.
        cargo.args(["--profile", if folder.ends_with("release") { "release" } else { "test" }]);
        assert!(cargo.status().expect("it runs").success(), "{package} is not built");
    }
    file
}

fn changed(path: &Path) -> SystemTime {
    path.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn newest(folder: &Path) -> SystemTime {
    let files = std::fs::read_dir(folder).expect("sources").flatten().map(|file| file.path());
    let times = files.map(|path| if path.is_dir() { newest(&path) } else { changed(&path) });
    times.max().expect("sources")
}

/// Runs the load under frostline, with options as for [`run`], and [longer](longer_until) until that has happened which the
/// test wants to see. It is whole each time. Gives the last run, and what the load told.
pub fn run_load_until(
    options: &str,
    args: &str,
    seconds: u32,
    happened: impl Fn(&Run, &Value) -> bool,
) -> (Run, Value) {
    let again = |seconds: u32| {
        let args = format!("--json {args} --seconds {seconds}");
        let run = run(options, load_program(), &args.split(' ').collect::<Vec<_>>());
        let load = run.whole();
        (run, load)
    };
    longer_until(seconds, again, |(run, load)| happened(run, load))
}

/// A running load.
pub struct Load {
    process: Running,
    errors: BufReader<ChildStderr>,
}

impl Load {
    /// Starts it, with words with spaces between them, and waits until its memory is filled.
    pub fn start(args: &str) -> Self {
        Self::begin(Command::new(load_program()), args)
    }

    /// Starts it in a control group: all of its memory counts there.
    pub fn start_in(group: &MemoryGroup, args: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\""]);
        shell.arg(group.folder()).arg(load_program());
        Self::begin(shell, args)
    }

    fn begin(mut command: Command, args: &str) -> Self {
        command.args(["--json", "--seconds", "36000"]).args(args.split(' '));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Running::start(&mut command);
        let mut errors = BufReader::new(process.0.stderr.take().expect("piped"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("readable");
        assert_eq!(line, "ready\n");
        Self { process, errors }
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// How much of its memory is in swap.
    pub fn swapped_kib(&self) -> u64 {
        status_kib(self.pid(), "VmSwap")
    }

    pub fn check_running(&mut self) {
        if self.process.has_ended() {
            let mut told = String::new();
            let _ = self.errors.read_to_string(&mut told);
            panic!("the load has ended: {told}");
        }
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Has it look at every page, and ends it; its numbers.
    pub fn end(mut self) -> Value {
        self.signal(Signal::INT);
        let mut out = Vec::new();
        self.process.0.stdout.take().expect("piped").read_to_end(&mut out).expect("readable");
        let status = self.process.end();
        let mut told = String::new();
        self.errors.read_to_string(&mut told).expect("readable");
        assert_eq!(status.code(), Some(0), "{told}{}", text(&out));
        let load: Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(load["mismatches"], 0, "{load}");
        load
    }
}
