//! Programs that fork, execute others, end at once, wait while stopped, or have many threads.

use crate::load::{Load, load_program, run_load_until};
use crate::support::{Running, attach, frostline, moved, run, text, wait_until};
use crate::system::{System, number};
use rustix::process::Signal;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

const TIERING: &str = "--slow zram:size=256MiB --fast 40% --cpu-limit 30% --settling-cpu-limit 60%";

#[test]
fn forks_and_areas_that_come_and_go_keep_their_contents() {
    let Some(system) = System::take() else { return };
    let (run, load) = run_load_until(
        TIERING,
        "--size 64MiB --hot 20% --cold-rate 3000/s --writes 20% --threads 2 --checksums \
         --fork-rate 30/s --churn 300/s",
        4,
        |run, load| {
            number(load, "forks") > 20
                && number(load, "areas_unmapped") > 100
                && moved(&run.summary, "verified") > 16 << 20
                && number(&run.summary["accounts"], "refaults") > 0
        },
    );
    assert!(number(&load, "forks") > 20 && number(&load, "areas_unmapped") > 100, "{load}");
    assert!(moved(&run.summary, "verified") > 16 << 20, "{:#}", run.summary);
    assert!(number(&run.summary["accounts"], "refaults") > 0, "{:#}", run.summary);
    system.finish();
}

#[test]
fn huge_pages_are_taken_apart_under_writers() {
    let Some(system) = System::take() else { return };
    let tiering = format!("{TIERING} --policy memtis:adaptation=100");
    let (run, _) = run_load_until(
        &tiering,
        "--size 64MiB --huge --hot 40% --scatter block --cold-rate 3000/s --writes 50% \
         --threads 2 --checksums --fork-rate 2/s --churn 50/s",
        5,
        |run, _| moved(&run.summary, "verified") > 16 << 20,
    );
    assert!(moved(&run.summary, "verified") > 16 << 20, "{:#}", run.summary);
    system.finish();
}

#[test]
fn programs_that_end_at_once_are_no_trouble() {
    let Some(system) = System::take() else { return };
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137), (": & :", 0)] {
        let output = frostline()
            .args(["run"])
            .args(TIERING.split(' '))
            .args(["--", "sh", "-c", script])
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{script}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
        assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    }
    system.finish();
}

#[test]
fn another_program_in_the_same_process_is_managed_on() {
    let Some(system) = System::take() else { return };
    // The shell has some memory of its own by then, and the load runs under its number.
    let script = "x=$(head -c 8000000 /dev/zero | tr '\\0' x); sleep 1.2; exec \"$0\" \"$@\"";
    let load = load_program().to_str().expect("a name");
    let run = run(
        TIERING,
        Path::new("sh"),
        &[
            "-c",
            script,
            load,
            "--size",
            "48MiB",
            "--cold-rate",
            "2000/s",
            "--checksums",
            "--seconds",
            "3",
            "--json",
        ],
    );
    run.whole();
    assert!(moved(&run.summary, "verified") > 16 << 20, "{:#}", run.summary);
    system.finish();
}

#[test]
fn a_stopped_program_stays_stopped_and_whole() {
    let Some(system) = System::take() else { return };
    let mut load = Load::start("--size 48MiB --hot 10% --checksums");
    load.signal(Signal::STOP);
    let mut driver = Running::start(&mut attach(load.pid(), TIERING));
    wait_until("pages of a stopped program are out", || load.swapped_kib() > 16 << 10);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", load.pid())).expect("it runs");
    assert!(stat.contains(") T "), "{stat}");
    driver.kill();
    load.check_running();
    load.signal(Signal::CONT);
    load.end();
    system.finish();
}

#[test]
fn a_program_of_many_threads_is_managed() {
    let Some(system) = System::take() else { return };
    let mut load = Load::start("--size 32MiB --threads 64 --cold-rate 2000/s");
    let mut driver = Running::start(&mut attach(load.pid(), TIERING));
    wait_until("pages are out", || load.swapped_kib() > 4096);
    load.check_running();
    assert!(!driver.has_ended());
    load.end();
    assert_eq!(driver.end().code(), Some(0), "it ends along with the program");
    system.finish();
}

#[test]
fn the_programs_streams_and_exit_code_are_its_own() {
    let Some(system) = System::take() else { return };
    let start = |program: &[&str]| {
        let mut command = frostline();
        command.args(["run"]).args(TIERING.split(' ')).arg("--").args(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut cat = start(&["cat"]).spawn().expect("it runs");
    cat.stdin.take().expect("piped").write_all(b"in\0 and out\n").expect("it reads");
    let output = cat.wait_with_output().expect("ours");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"in\0 and out\n"[..]));
    let cases = [
        (vec!["sh", "-c", "exit 9"], 9, None),
        (vec!["sh", "-c", "kill -SEGV $$"], 128 + 11, None),
        (vec!["/etc/passwd"], 126, Some("hint:")),
        (vec!["/"], 126, Some("hint:")),
        (vec!["no-such-program-here"], 127, Some("hint:")),
    ];
    for (program, code, told) in cases {
        let output = start(&program).output().expect("it runs");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{program:?}: {errors}");
        assert!(told.is_none_or(|told| errors.contains(told)), "{errors}");
    }
    system.finish();
}

#[test]
fn signals_reach_the_program_and_its_answer_counts() {
    let Some(system) = System::take() else { return };
    for (signal, name) in [(Signal::INT, "INT"), (Signal::TERM, "TERM")] {
        let folder = tempfile::tempdir().expect("a folder");
        let ready = folder.path().join("ready");
        let script = format!(
            "trap 'echo got it; exit 9' {name}; : > {}; while :; do sleep 0.05; done",
            ready.display()
        );
        let mut command = frostline();
        command.args(["run"]).args(TIERING.split(' ')).args(["--", "sh", "-c", &script]);
        let mut driver = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        wait_until("the program runs", || ready.exists());
        driver.signal(signal);
        let mut out = Vec::new();
        let mut stdout = driver.0.stdout.take().expect("piped");
        std::io::Read::read_to_end(&mut stdout, &mut out).expect("readable");
        assert_eq!((driver.end().code(), text(&out)), (Some(9), "got it\n".to_owned()));
    }
    system.finish();
}
