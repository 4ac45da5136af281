//! Another user of the machine, who tries all that he can against root's daemon: it goes on, and does
//! what it is asked.

mod attacker;

use crate::load::Load;
use crate::soak::{address, scrape};
use crate::support::{EAGER, Running, attach, frostline, status_of, text, wait_until};
use crate::system::{System, status_kib};
use attacker::{CONNECTIONS, MARK, ORDER, RESERVED};
use frostline_core::foreign::leads;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Output, Stdio};

const NOBODY: u32 = 65534;
/// Most memory of a daemon whose target has reserved [`RESERVED`].
const MOST_KIB: u64 = 64 << 10;

#[test]
fn serve_hostile() {
    attacker::serve();
}

/// What everybody may execute, and folders.
struct Stage {
    public: tempfile::TempDir,
    /// Nobody's own.
    theirs: tempfile::TempDir,
    /// Root's alone.
    own: tempfile::TempDir,
}

impl Stage {
    fn set() -> Self {
        let stage = Self {
            public: tempfile::tempdir().expect("a folder"),
            theirs: tempfile::tempdir().expect("a folder"),
            own: tempfile::tempdir().expect("a folder"),
        };
        let everybody = |path: &Path| {
            fs::set_permissions(path, Permissions::from_mode(0o755)).expect("ours");
        };
        everybody(stage.public.path());
        everybody(stage.theirs.path());
        chown(stage.theirs.path(), Some(NOBODY), Some(NOBODY)).expect("we are root");
        let tests = std::env::current_exe().expect("a path");
        for (from, name) in
            [(tests.as_path(), "tests"), (env!("CARGO_BIN_EXE_frostline").as_ref(), "frostline")]
        {
            fs::copy(from, stage.public.path().join(name)).expect("room");
            everybody(&stage.public.path().join(name));
        }
        fs::write(stage.precious(), "precious").expect("room");
        stage
    }

    fn precious(&self) -> PathBuf {
        self.own.path().join("precious")
    }

    /// A program that a target names, which everybody may run.
    fn namesake(&self) -> String {
        let name = format!("named{}", std::process::id());
        let program = self.public.path().join(&name);
        if !program.exists() {
            fs::copy("/bin/sleep", &program).expect("there");
        }
        name
    }

    fn as_nobody(&self, program: &str) -> Command {
        let mut command = Command::new(self.public.path().join(program));
        command.uid(NOBODY).gid(NOBODY).current_dir("/").env("HOME", self.theirs.path());
        command
    }

    /// Starts an attempt, which goes on until it is told to end.
    fn attempt(&self, order: &str) -> Attempt {
        let mut command = self.as_nobody("tests");
        command.args(["hostile::serve_hostile", "--exact", "--nocapture"]).env(ORDER, order);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Running::start(&mut command);
        let from = BufReader::new(process.0.stdout.take().expect("piped"));
        Attempt { process, from }
    }
}

struct Attempt {
    process: Running,
    from: BufReader<ChildStdout>,
}

impl Attempt {
    /// What has happened.
    fn told(&mut self) -> String {
        let mut line = String::new();
        while self.from.read_line(&mut line).expect("readable") > 0 {
            if let Some(told) = line.strip_prefix(MARK) {
                return told.trim().to_owned();
            }
            line.clear();
        }
        panic!("it has ended");
    }

    fn end(mut self) -> String {
        drop(self.process.0.stdin.take());
        let mut rest = String::new();
        self.from.read_to_string(&mut rest).expect("readable");
        self.process.end();
        rest
    }
}

/// Root's daemon with a program of root's, zram, and metrics in both ways.
struct Daemon {
    process: Running,
    notes: PathBuf,
    address: String,
    load: Load,
    reloads: usize,
}

impl Daemon {
    fn start(stage: &Stage) -> Self {
        let load =
            Load::start("--size 48MiB --hot 20% --cold-rate 1000/s --writes 20% --checksums");
        let config = stage.own.path().join("f.toml");
        let text = format!(
            "[metrics]\nlisten = \"127.0.0.1:0\"\ntextfile = \"{}/f.prom\"\n[[target]]\nname = \"t\"\n\
             pid = {}\nfast = \"40%\"\nslow = \"zram:size=128MiB\"\ncpu_limit = \"20%\"\n\
             [[target]]\nname = \"named\"\ncommand = \"{}\"\nslow = \"none\"\n",
            stage.theirs.path().display(),
            load.pid(),
            stage.namesake(),
        );
        fs::write(&config, text).expect("room");
        let notes = stage.own.path().join("notes");
        let mut command = frostline();
        command.args(["daemon", "-c"]).arg(config).stderr(File::create(&notes).expect("room"));
        let process = Running::start(&mut command);
        wait_until("metrics are served", || address(&notes).is_some());
        let address = address(&notes).expect("served");
        wait_until("pages are out", || load.swapped_kib() > 1024);
        Self { process, notes, address, load, reloads: 0 }
    }

    /// It answers in every way, and others of root's can do their work.
    fn works(&mut self) {
        let notes = || fs::read_to_string(&self.notes).expect("readable");
        assert!(!self.process.has_ended(), "{}", notes());
        self.reloads += 1;
        self.process.signal(Signal::HUP);
        let notes = || fs::read_to_string(&self.notes).expect("readable");
        wait_until("it reads its configuration", || {
            notes().matches("reloaded: ").count() >= self.reloads
        });
        wait_until("it serves metrics", || scrape(&self.address).contains("frostline_processes"));
        wait_until("it is on record", || status_of(self.process.pid()).is_some());
        let sleep = Running::start(Command::new("sleep").arg("600"));
        let options = format!("--slow zram:size=16MiB --seconds 0.2 {EAGER}");
        let mut command = attach(sleep.pid(), &options);
        assert!(command.status().expect("it runs").success(), "another frostline");
        self.load.check_running();
    }
}

/// Attempts and what came of them.
#[derive(Default)]
struct Table(Vec<(String, String)>);

impl Table {
    fn add(&mut self, what: &str, told: impl Into<String>) {
        self.0.push((what.to_owned(), told.into()));
    }

    fn print(&self) {
        for (what, told) in &self.0 {
            println!("{what:48} {told}");
        }
    }
}

fn is_refused(output: &Output) -> bool {
    output.status.code().is_some_and(|code| code == 1 || code == 125)
}

#[test]
fn another_user_changes_nothing_of_roots_daemon() {
    let Some(system) = System::take() else { return };
    let stage = Stage::set();
    let mut daemon = Daemon::start(&stage);
    let pid = daemon.process.pid();
    let mut table = Table::default();
    daemon.works();

    for (what, order, is_right) in [
        ("locks all files of frostline's that he can open", "locks".to_owned(), None),
        ("writes, removes, exchanges them", "writes".into(), Some("0 of ")),
        ("sends signals", format!("signals {pid}"), Some("0 of ")),
        ("looks into the process, limits it", format!("peeks {pid}"), Some("0 of ")),
    ] {
        let mut attempt = stage.attempt(&order);
        let told = attempt.told();
        daemon.works();
        attempt.end();
        assert!(is_right.is_none_or(|right| told.starts_with(right)), "{what}: {told}");
        table.add(what, told);
    }

    let pids = [pid.to_string(), daemon.load.pid().to_string()];
    for pid in &pids {
        for args in [
            &["attach", pid, "--slow", "none"][..],
            &["consolidate", pid],
            &["consolidate", pid, "--inject"],
        ] {
            let output = stage.as_nobody("frostline").args(args).output().expect("it runs");
            assert!(is_refused(&output), "{args:?}: {}", text(&output.stderr));
        }
    }
    daemon.works();
    table.add("attaches to it, asks and injects its program", "6 of 6 refused");

    table.add("connects, and says nothing or no end of it", connections(&stage, &mut daemon));
    table.add("exchanges the file of metrics in his folder", exchanges(&stage, &mut daemon));
    table.add("has a name that leads terminals", names(&stage));
    table.add("reserves address space", reserves(&stage));
    table.add("runs a program that a target names", namesakes(&stage, &mut daemon));
    table.add("plants an agent", plants(&stage));
    table.add("puts links in the place of outputs", links(&stage));

    daemon.works();
    assert_eq!(fs::read_to_string(stage.precious()).expect("ours"), "precious");
    daemon.process.signal(Signal::TERM);
    let notes = fs::read_to_string(&daemon.notes).expect("readable");
    assert_eq!(daemon.process.end().code(), Some(0), "{notes}");
    daemon.load.end();
    table.print();
    system.finish();
}

/// In the meantime others are answered.
fn connections(stage: &Stage, daemon: &mut Daemon) -> String {
    let mut attempt = stage.attempt(&format!("connections {}", daemon.address));
    let told = attempt.told();
    assert_eq!(told, format!("{CONNECTIONS} connections say nothing"));
    daemon.works();
    let mut other = TcpStream::connect(&daemon.address).expect("it listens");
    other.write_all(b"POST / HTTP/1.0\r\n\r\n").expect("open");
    attempt.end();
    format!("{told}; root is answered")
}

/// Nothing that is put there is opened or followed, and the daemon waits for none of it.
fn exchanges(stage: &Stage, daemon: &mut Daemon) -> String {
    let textfile = stage.theirs.path().join("f.prom");
    wait_until("the file is written", || textfile.is_file());
    let order = format!("textfile {} {}", textfile.display(), stage.precious().display());
    let attempt = stage.attempt(&order);
    wait_until("it says what is there", || {
        let notes = fs::read_to_string(&daemon.notes).expect("readable");
        notes.contains("something else than a file") || notes.contains("cannot write")
    });
    daemon.works();
    let rest = attempt.end();
    let told = rest.lines().find_map(|line| line.strip_prefix(MARK)).expect("told").to_owned();
    assert_eq!(fs::read_to_string(stage.precious()).expect("ours"), "precious");
    let _ = fs::remove_dir(&textfile);
    let _ = fs::remove_file(&textfile);
    wait_until("the file is written again", || {
        fs::read_to_string(&textfile).is_ok_and(|text| text.contains("frostline_"))
    });
    format!("{told}; nothing followed, and written again")
}

fn names(stage: &Stage) -> String {
    let mut attempt = stage.attempt("name");
    assert_eq!(attempt.told(), "named");
    let pid = attempt.process.pid();
    let mut watching = frostline();
    watching.args(["attach", &pid.to_string(), "--slow", "none"]);
    let mut watching = Running::start(watching.stdout(Stdio::null()).stderr(Stdio::piped()));
    wait_until("it is on record", || status_of(watching.pid()).is_some());
    let mut said = String::new();
    for args in [&["status"][..], &["status", "--watch", "--once"]] {
        let output = frostline().args(args).output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        said += &text(&output.stdout);
    }
    watching.signal(Signal::INT);
    let mut errors = watching.0.stderr.take().expect("piped");
    errors.read_to_string(&mut said).expect("readable");
    watching.end();
    attempt.end();
    assert!(!said.chars().any(|c| leads(c) && c != '\n'), "{said:?}");
    assert!(said.contains("\\u{1b}"), "{said}");
    "shown as text".into()
}

fn reserves(stage: &Stage) -> String {
    let mut attempt = stage.attempt("reserves");
    let told = attempt.told();
    assert_eq!(told, format!("{} GiB reserved", RESERVED >> 30));
    let pid = attempt.process.pid();
    let mut managing = Running::start(&mut attach(pid, "--slow none"));
    wait_until("its memory is known", || {
        let status = status_of(managing.pid()).unwrap_or_default();
        status["footprint_bytes"].as_u64() > Some(0) || managing.has_ended()
    });
    let most = status_kib(managing.pid(), "VmHWM");
    let ended = managing.has_ended();
    if !ended {
        managing.signal(Signal::INT);
        assert_eq!(managing.end().code(), Some(0));
    }
    attempt.end();
    assert!(!ended && most < MOST_KIB, "{most} KiB of memory");
    format!("{told}; root's frostline takes {} MiB", most >> 10)
}

/// The same program of root's is managed, and his is not.
fn namesakes(stage: &Stage, daemon: &mut Daemon) -> String {
    let name = stage.namesake();
    let theirs = Running::start(stage.as_nobody(&name).arg("600"));
    daemon.works();
    let ours = Running::start(Command::new(stage.public.path().join(&name)).arg("600"));
    let mut targets = Vec::new();
    wait_until("root's is managed", || {
        let output = frostline().args(["status", "--json"]).output().expect("it runs");
        let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let runs = all["runs"].as_array().expect("an envelope").iter();
        let mut runs =
            runs.filter(|run| run["pid"] == daemon.process.pid() && run["name"] == "named");
        let found = runs.next().and_then(|run| run["targets"].as_array()).cloned();
        targets = found.unwrap_or_default();
        !targets.is_empty()
    });
    let pids: Vec<u64> = targets.iter().filter_map(|target| target["pid"].as_u64()).collect();
    assert_eq!(pids, [u64::from(ours.pid())], "not process {}", theirs.pid());
    "1 of root's managed, 1 of his not".into()
}

/// In a home that root has been given, and where the environment points to.
fn plants(stage: &Stage) -> String {
    let mark = stage.theirs.path().join("mark");
    let agent = stage.theirs.path().join("libfrostline_agent.so");
    fs::write(&agent, format!("#!/bin/sh\ntouch {}\n", mark.display())).expect("we are root");
    fs::set_permissions(&agent, Permissions::from_mode(0o755)).expect("ours");
    chown(&agent, Some(NOBODY), Some(NOBODY)).expect("we are root");
    let mut command = frostline();
    command.args(["run", "--in-process", "--slow", "none", "--", "true"]);
    command.env("FROSTLINE_AGENT", &agent).env("HOME", stage.theirs.path());
    let output = command.output().expect("it runs");
    assert!(is_refused(&output) && !mark.exists(), "{}", text(&output.stderr));
    let load = Load::start("--size 8MiB");
    let mut command = frostline();
    command.args(["consolidate", &load.pid().to_string(), "--inject", "--agent"]).arg(&agent);
    let output = command.output().expect("it runs");
    assert!(is_refused(&output) && !mark.exists(), "{}", text(&output.stderr));
    load.end();
    "2 of 2 refused".into()
}

/// Root's frostline is to write to his folder.
fn links(stage: &Stage) -> String {
    let link = stage.theirs.path().join("link");
    let mut replaced = 0;
    for option in ["--journal", "--summary", "--series"] {
        let _ = fs::remove_file(&link);
        symlink(stage.precious(), &link).expect("we are root");
        lchown(&link, Some(NOBODY), Some(NOBODY)).expect("we are root");
        let mut command = frostline();
        command.args(["run", "--slow", "none", option]).arg(&link).args(["--", "sleep", "0.3"]);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "the program runs: {}", text(&output.stderr));
        assert_eq!(fs::read_to_string(stage.precious()).expect("ours"), "precious", "{option}");
        replaced += usize::from(!link.is_symlink());
    }
    format!("none of 3 followed, {replaced} replaced")
}
