//! Signals that reach `frostline run` and `record`, by kill(2) and from a terminal.

mod common;

use common::can_record;
use frostline_testing::{Requirement, skip};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// Set where this test itself is the program that is run.
const COUNTS: &str = "FROSTLINE_TEST_COUNTS_INTERRUPTS";
/// What a second signal, where there is one, needs to arrive.
const STRAGGLERS: Duration = Duration::from_millis(300);
const PRESSES: u32 = 10;

/// A program that heeds SIGINT: it counts, and ends with 7 when it is told to.
fn count_interrupts() -> ! {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mut signals = Signals::new([SIGINT]).expect("signals can be caught");
    std::thread::spawn(|| {
        let _ = std::io::stdin().lines().map_while(Result::ok).find(|line| line.ends_with("end"));
        println!("total {}", COUNT.load(Ordering::SeqCst));
        std::process::exit(7);
    });
    println!("ready");
    for _ in &mut signals {
        println!("interrupt {}", COUNT.fetch_add(1, Ordering::SeqCst) + 1);
    }
    unreachable!("signals do not end");
}

fn counts() -> bool {
    std::env::var_os(COUNTS).is_some()
}

/// `frostline COMMAND... -- ` this test, which counts then.
fn counting(program: &str, before: &[&str], command: &[&str], test: &str) -> Command {
    let mut all = Command::new(program);
    all.args(before).args(command).arg("--").arg(std::env::current_exe().expect("a program"));
    all.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(COUNTS, "1");
    all
}

const FROSTLINE: &str = env!("CARGO_BIN_EXE_frostline");
const RUN: [&str; 3] = ["run", "--slow", "none"];

/// A process that does not outlive its test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("it starts"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it is not waited for yet");
    }

    fn end(&mut self) -> ExitStatus {
        self.0.wait().expect("ours")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads up to a line that ends so.
fn wait_for(lines: &mut impl BufRead, end: &str) {
    let mut all = String::new();
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if line.trim_end().ends_with(end) {
            return;
        }
        all += &line;
        line.clear();
    }
    panic!("no '{end}': {all}");
}

#[test]
fn every_sigint_by_kill_reaches_the_program_once_and_none_kills_it() {
    if counts() {
        count_interrupts();
    }
    let test = "every_sigint_by_kill_reaches_the_program_once_and_none_kills_it";
    let mut command = counting(FROSTLINE, &[], &RUN, test);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running::start(&mut command);
    let mut told = BufReader::new(running.0.stdout.take().expect("piped"));
    wait_for(&mut told, "ready");
    for nth in 1..=PRESSES {
        running.signal(Signal::INT);
        wait_for(&mut told, &format!("interrupt {nth}"));
    }
    sleep(STRAGGLERS);
    running.0.stdin.take().expect("piped").write_all(b"end\n").expect("it reads");
    wait_for(&mut told, &format!("total {PRESSES}"));
    assert_eq!(running.end().code(), Some(7), "the program's own");
}

/// A terminal, as its user has it, and the other side.
fn terminal() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC);
    let master = master.expect("a terminal");
    grantpt(&master).expect("ours");
    unlockpt(&master).expect("ours");
    let name = ptsname(&master, Vec::new()).expect("a name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(name, flags, Mode::empty()).expect("the other side");
    (master.into(), slave.into())
}

/// Starts a command in a session of its own, in the foreground of a terminal.
fn on_a_terminal(mut command: Command) -> (Running, File) {
    let (user, program) = terminal();
    let output = program.try_clone().expect("a descriptor");
    command.stdin(program).stdout(output).stderr(Stdio::null());
    (Running::start(&mut command), user)
}

fn no_setsid() -> bool {
    let output = Command::new("setsid").arg("--help").output();
    let none = !output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("--ctty"));
    if none {
        skip(Requirement::Terminal, "no setsid that gives a terminal (util-linux)");
    }
    none
}

#[test]
fn every_ctrl_c_at_a_terminal_reaches_the_program_once_and_none_kills_it() {
    if counts() {
        count_interrupts();
    }
    if no_setsid() {
        return;
    }
    let test = "every_ctrl_c_at_a_terminal_reaches_the_program_once_and_none_kills_it";
    let (mut running, mut user) =
        on_a_terminal(counting("setsid", &["--ctty", FROSTLINE], &RUN, test));
    let mut told = BufReader::new(user.try_clone().expect("a descriptor"));
    wait_for(&mut told, "ready");
    for nth in 1..=PRESSES {
        user.write_all(b"\x03").expect("a terminal takes it");
        wait_for(&mut told, &format!("interrupt {nth}"));
    }
    sleep(STRAGGLERS);
    user.write_all(b"end\n").expect("a terminal takes it");
    wait_for(&mut told, &format!("total {PRESSES}"));
    assert_eq!(running.end().code(), Some(7), "the program's own");
}

#[test]
fn cat_that_ignores_sigint_survives_ten() {
    let script = format!("trap '' INT; exec {FROSTLINE} run --slow none -- cat");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running::start(command.stderr(Stdio::null()));
    let mut input = running.0.stdin.take().expect("piped");
    let mut output = running.0.stdout.take().expect("piped");
    for nth in 0..=PRESSES {
        input.write_all(b"x").expect("it reads");
        let mut copied = [0];
        output.read_exact(&mut copied).expect("cat copies what it reads");
        assert_eq!(copied, *b"x");
        if nth < PRESSES {
            running.signal(Signal::INT);
            sleep(STRAGGLERS / 10);
        }
    }
    drop(input);
    assert_eq!(running.end().code(), Some(0));
}

#[test]
fn cat_that_does_not_is_ended_by_the_first_as_without_us() {
    let mut command = Command::new(FROSTLINE);
    command.args(RUN).args(["--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running::start(command.stderr(Stdio::null()));
    // Open until the end, which is not that of its input.
    let mut input = running.0.stdin.take().expect("piped");
    input.write_all(b"x").expect("it reads");
    let mut copied = [0];
    running.0.stdout.as_mut().expect("piped").read_exact(&mut copied).expect("cat runs");
    running.signal(Signal::INT);
    assert_eq!(running.end().code(), Some(128 + 2));
}

#[test]
fn what_a_program_sends_us_does_not_come_back_to_it() {
    let script = "n=0; trap 'n=$((n+1))' USR1; kill -USR1 $PPID; sleep 0.5; exit $((7 + n))";
    let status = Command::new(FROSTLINE).args(RUN).args(["--", "sh", "-c", script]).status();
    assert_eq!(status.expect("it runs").code(), Some(7));
}

#[test]
fn a_parent_that_ignores_the_end_of_children_leaves_us_the_exit_code() {
    let ignoring = |command: &[&str]| {
        Command::new("env").arg("--ignore-signal=CHLD").args(command).status().expect("it runs")
    };
    if !ignoring(&["true"]).success() {
        skip(Requirement::Env, "no env that ignores signals (coreutils 8.31)");
        return;
    }
    let command = [&[FROSTLINE], &RUN[..], &["--", "sh", "-c", "exit 7"]].concat();
    assert_eq!(ignoring(&command).code(), Some(7));
}

#[test]
fn what_nohup_ignores_is_ignored_by_the_program_too() {
    let script =
        format!("trap '' HUP; exec {FROSTLINE} run --slow none -- sh -c 'kill -HUP $$; exit 7'");
    let status = Command::new("sh").args(["-c", &script]).status();
    assert_eq!(status.expect("it runs").code(), Some(7));
}

#[test]
fn only_ctrl_c_in_a_row_kills_a_recorded_program() {
    if counts() {
        count_interrupts();
    }
    if no_setsid() || !can_record() {
        return;
    }
    let test = "only_ctrl_c_in_a_row_kills_a_recorded_program";
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("t.flt");
    let record = ["record", "--no-fetch", "-o", trace.to_str().expect("a name")];
    let (mut running, mut user) =
        on_a_terminal(counting("setsid", &["--ctty", FROSTLINE], &record, test));
    let mut told = BufReader::new(user.try_clone().expect("a descriptor"));
    wait_for(&mut told, "ready");
    for nth in 1..=4 {
        user.write_all(b"\x03").expect("a terminal takes it");
        wait_for(&mut told, &format!("interrupt {nth}"));
        // Two of them are never within two seconds of a third.
        sleep(Duration::from_millis(1100));
    }
    for nth in 5..=8 {
        running.signal(Signal::INT);
        wait_for(&mut told, &format!("interrupt {nth}"));
    }
    for _ in 0..3 {
        user.write_all(b"\x03").expect("a terminal takes it");
        // Two that wait for delivery at once are one.
        sleep(STRAGGLERS / 3);
    }
    assert_eq!(running.end().code(), Some(128 + 9));
}
