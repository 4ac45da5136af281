//! Programs that tier themselves, with odd habits. Each checks its memory, and each test that pages
//! were moved in fact.

use crate::load::{built, load_program};
use crate::support::{Running, frostline, longer_until, moved, status_of, text, wait_until};
use crate::system::{System, number, status_kib, succeeds};
use frostline_testing::{Requirement, skip};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// More of a core than is usual, so that pages move in a short time.
const TIERING: &str = "--policy hybridtier --slow zram:size=512MiB --fast 30% --cpu-limit 30% \
                       --settling-cpu-limit 60%";
/// So many bytes are not moved by chance.
const MUCH: u64 = 8 << 20;

pub fn agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| {
        let sources = ["agent", "driver", "linux", "core"];
        built("frostline-agent", "libfrostline_agent.so", &sources)
    })
}

/// The test's own programs, compiled; `None`, with the reason printed, without a compiler.
struct Built {
    folder: tempfile::TempDir,
}

impl Built {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/safety/inside");
        for (source, file, flags) in [
            ("program.c", "program", &["-pthread"][..]),
            ("hooks.c", "hooks.so", &["-shared", "-fPIC"]),
        ] {
            let mut cc = Command::new("cc");
            cc.args(["-O1", "-Wall", "-Wextra", "-Werror"]).args(flags).arg("-o");
            match cc.arg(folder.path().join(file)).arg(sources.join(source)).status() {
                Ok(status) => assert!(status.success(), "{source}"),
                Err(error) => {
                    skip(Requirement::Compiler, error);
                    return None;
                }
            }
        }
        Some(Self { folder })
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Runs the program in some mode, tiering itself.
    fn run(&self, mode: &str) -> Inside {
        self.run_with(mode, TIERING, |_| {})
    }

    fn run_with(&self, mode: &str, options: &str, prepare: impl FnOnce(&mut Command)) -> Inside {
        run(options, &self.path("program"), mode, prepare)
    }

    /// Runs the program in a mode of so many seconds, and [longer](longer_until) until so many processes have moved much.
    fn run_until_moved(
        &self,
        (mode, seconds): (&str, u32),
        processes: usize,
        prepare: impl Fn(&mut Command),
    ) -> Inside {
        let again = |seconds| {
            self.run_with(&format!("{mode} {seconds}"), TIERING, |command| prepare(command))
        };
        let run = longer_until(seconds, again, |run| {
            run.runs.iter().filter(|run| moved(run, "verified") > MUCH).count() >= processes
        });
        run.moved_in(processes);
        run
    }
}

/// A program that was run and has tiered itself.
struct Inside {
    output: Output,
    /// What its processes told, the program first.
    runs: Vec<Value>,
}

fn command(options: &str) -> Command {
    let mut command = frostline();
    command.args(["run", "--in-process", "--agent"]).arg(agent()).args(options.split(' '));
    command
}

fn run(options: &str, program: &Path, args: &str, prepare: impl FnOnce(&mut Command)) -> Inside {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("summary.json");
    let mut command = command(options);
    command.arg("--summary").arg(&file).arg("--").arg(program).args(args.split(' '));
    prepare(&mut command);
    let output = command.output().expect("it runs");
    let told = text(&output.stderr);
    let summary = std::fs::read(&file).unwrap_or_else(|_| panic!("no summary: {told}"));
    let mut summary: Value = serde_json::from_slice(&summary).expect("JSON");
    let Value::Array(runs) = summary["runs"].take() else { panic!("{summary}") };
    Inside { output, runs }
}

impl Inside {
    /// Checks that it ended so, and found its memory as it should be.
    fn whole(&self, code: i32) {
        let (out, told) = (text(&self.output.stdout), text(&self.output.stderr));
        assert_eq!(self.output.status.code(), Some(code), "{told}");
        assert!(out.ends_with("whole\n"), "{out} {told}");
        assert!(!told.contains("without tiering"), "{told}");
    }

    /// Checks that so many processes have moved much.
    fn moved_in(&self, processes: usize) {
        let told = text(&self.output.stderr);
        assert_eq!(self.runs.len(), processes, "{:#?} {told}", self.runs);
        for run in &self.runs {
            assert!(moved(run, "verified") > MUCH, "{run:#}");
            assert!(run["metrics"]["samples_total"].as_f64() > Some(0.0), "{run:#}");
        }
    }
}

#[test]
fn a_load_tiers_itself_and_stays_whole() {
    let Some(system) = System::take() else { return };
    let args = "--json --size 64MiB --hot 20% --cold-rate 3000/s --writes 20% --threads 8 \
                --checksums --fork-rate 30/s --churn 100/s --seconds";
    let again = |seconds| run(TIERING, load_program(), &format!("{args} {seconds}"), |_| {});
    let run = longer_until(5, again, |run| {
        let refaults = |run: &Value| number(&run["accounts"], "refaults");
        run.runs.iter().all(|run| moved(run, "verified") > MUCH && refaults(run) > 0)
    });
    let told = text(&run.output.stderr);
    assert_eq!(run.output.status.code(), Some(0), "{told}");
    let load: Value = serde_json::from_slice(&run.output.stdout).expect("JSON");
    assert_eq!(load["mismatches"], 0, "{load}");
    assert!(number(&load, "forks") > 20 && number(&load, "areas_unmapped") > 100, "{load}");
    run.moved_in(1);
    assert!(number(&run.runs[0]["accounts"], "refaults") > 0, "{:#}", run.runs[0]);
    system.finish();
}

#[test]
fn children_tier_themselves_however_they_end() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    // One ends by exit, one by _exit, one aborts, and one is killed.
    let run = built.run_until_moved(("family", 4), 5, |_| {});
    run.whole(0);
    system.finish();
}

#[test]
fn what_is_decided_is_written_down_inside_as_well() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, series) = (folder.path().join("journal"), folder.path().join("series.csv"));
    std::fs::write(&journal, "an old one").expect("room");
    let options =
        format!("{TIERING} --journal {} --series {}", journal.display(), series.display());
    let run = built.run_with("family 8", &options, |_| {});
    run.whole(0);
    run.moved_in(5);
    let lines = std::fs::read_to_string(series).expect("a series");
    assert!(lines.starts_with("seconds,") && lines.lines().count() > 3, "{lines}");
    let journals: Vec<PathBuf> =
        folder.path().read_dir().expect("ours").map(|file| file.expect("ours").path()).collect();
    let journals = journals.iter().filter(|path| path.extension() != Some("csv".as_ref()));
    let mut processes = 0;
    for journal in journals {
        let output =
            frostline().args(["journal", "verify"]).arg(journal).output().expect("it runs");
        let told = text(&output.stdout);
        assert!(told.starts_with("identical: "), "{told} {}", text(&output.stderr));
        processes += 1;
    }
    assert_eq!(processes, 5);
    system.finish();
}

#[test]
fn a_program_that_forks_all_the_time_is_whole() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    let run = built.run("forks 2.5");
    run.whole(0);
    run.moved_in(1);
    system.finish();
}

#[test]
fn children_are_left_alone_where_that_is_wanted() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    let options = format!("{TIERING} --no-children");
    let run = built.run_with("family 4", &options, |_| {});
    run.whole(0);
    run.moved_in(1);
    // Nor is what is executed, in the same process or in another one.
    let program = built.path("program");
    let script = format!("'{0}' plain 1.5 && '{0}' plain 1.5", program.display());
    let output = command(&options).args(["--", "sh", "-c", &script]).output().expect("it runs");
    let told = text(&output.stderr);
    assert_eq!(text(&output.stdout), "whole\nwhole\n", "{told}");
    assert!(told.contains("told nothing of tiering"), "{told}");
    system.finish();
}

#[test]
fn another_program_in_the_same_process_tiers_itself() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    let script = format!("sleep 0.5; exec '{}' plain 2.5", built.path("program").display());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("summary.json");
    let mut command = command(TIERING);
    command.arg("--summary").arg(&file).args(["--", "sh", "-c", &script]);
    let output = command.output().expect("it runs");
    assert_eq!(text(&output.stdout), "whole\n", "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&std::fs::read(file).expect("read")).expect("JSON");
    assert!(moved(&summary["runs"][0], "verified") > MUCH, "{summary:#}");
    assert_eq!(summary["runs"][0]["name"], "program", "{summary:#}");
    system.finish();
}

#[test]
fn a_program_that_closes_all_files_keeps_its_own() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    let run = built.run("closes 2.5");
    run.whole(0);
    run.moved_in(1);
    system.finish();
}

#[test]
fn who_reads_a_programs_output_does_not_wait_for_the_agent() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    let result = built.path("result");
    let mut command = command(TIERING);
    command.arg("--").arg(built.path("program")).args(["detaches", "4"]).env("RESULT", &result);
    let output = command.output().expect("it runs");
    let pid: u32 = text(&output.stdout).trim().parse().expect("a number");
    let done = || std::fs::read_to_string(&result).is_ok_and(|text| text == "whole\n");
    assert!(!done(), "the output has ended before the program in the background has");
    let mut out_kib = 0;
    wait_until("the program in the background ends", || {
        out_kib = out_kib.max(status_kib(pid, "VmSwap"));
        done()
    });
    assert!(out_kib > MUCH >> 10, "{out_kib} KiB");
    wait_until("its memory is freed", || !Path::new(&format!("/proc/{pid}")).exists());
    system.finish();
}

#[test]
fn a_program_that_tiers_itself_is_seen_and_not_tiered_twice() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    let mut command = command(TIERING);
    command.arg("--").arg(built.path("program")).args(["plain", "5"]);
    let mut outside = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let mut pid = None;
    wait_until("the program is seen", || {
        let path = format!("/proc/{0}/task/{0}/children", outside.pid());
        let child = std::fs::read_to_string(path).unwrap_or_default();
        pid = child.split_whitespace().next().and_then(|pid| pid.parse::<u32>().ok());
        pid.is_some_and(|pid| status_of(pid).is_some())
    });
    let pid = pid.expect("seen");
    let mut attach = frostline();
    let output = attach.args(["attach", &pid.to_string(), "--slow", "none"]).output();
    let told = text(&output.expect("it runs").stderr);
    assert!(told.contains(&format!("already managed by frostline, process {pid}")), "{told}");
    // Whoever has set the slow tier up may be gone.
    outside.kill();
    wait_until("pages are out", || status_kib(pid, "VmSwap") > MUCH >> 10);
    system.clean_keeps();
    wait_until("the program ends", || !Path::new(&format!("/proc/{pid}")).exists());
    system.finish();
}

#[test]
fn abrupt_ends_stay_what_they_are() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    for (mode, code) in [("aborts 2", 128 + 6), ("quick 2", 7)] {
        let run = built.run(mode);
        run.whole(code);
        run.moved_in(1);
    }
    system.finish();
}

#[test]
fn the_last_words_of_the_last_thread_are_heard() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    let run = built.run("leaves 4");
    run.whole(0);
    run.moved_in(1);
    system.finish();
}

#[test]
fn a_program_may_become_another_user() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    // All threads have to follow, which waits for each of them.
    let run = built.run("nobody 4");
    run.whole(0);
    run.moved_in(1);
    system.finish();
}

#[test]
fn without_rights_a_program_tiers_itself_all_the_same() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    if !succeeds("setpriv", &["--version"]) {
        return skip(Requirement::Setpriv, "no setpriv here");
    }
    let public = tempfile::tempdir().expect("a folder");
    use std::os::unix::fs::PermissionsExt;
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(public.path(), everybody).expect("ours");
    let (program, library) = (public.path().join("program"), public.path().join("agent.so"));
    std::fs::copy(built.path("program"), &program).expect("room");
    std::fs::copy(agent(), &library).expect("room");
    let mut command = frostline();
    command.args(["run", "--in-process", "--agent"]).arg(&library).args(TIERING.split(' '));
    command.args("-- setpriv --reuid 65534 --regid 65534 --clear-groups".split(' '));
    command.arg(&program).args(["plain", "4"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().expect("it runs");
    let mut out_kib = 0;
    wait_until("pages of a program without rights are out", || {
        let children = format!("/proc/{0}/task/{0}/children", running.id());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let child = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        out_kib = out_kib.max(child.map_or(0, |pid| status_kib(pid, "VmSwap")));
        out_kib > MUCH >> 10 || running.try_wait().expect("ours").is_some()
    });
    let output = running.wait_with_output().expect("ours");
    let told = text(&output.stderr);
    if told.contains("perf_event_paranoid") {
        return skip(Requirement::Faults, told);
    }
    assert!(out_kib > MUCH >> 10, "{out_kib} KiB: {told}");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "whole\n".into()), "{told}");
    system.finish();
}

#[test]
fn the_programs_allocator_is_left_alone() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    for (mode, seconds, processes) in [("family heap", 5, 5), ("forks heap", 3, 1)] {
        let counts = built.path("counts");
        let _ = std::fs::remove_file(&counts);
        let run = built.run_until_moved((mode, seconds), processes, |command| {
            command.env("LD_PRELOAD", built.path("hooks.so")).env("HOOKS", &counts);
        });
        run.whole(0);
        let counts = std::fs::read(counts).expect("the hooks were there");
        let counts: Vec<u64> = counts[..24]
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")))
            .collect();
        println!("{mode}: calls, by the agent, in fork: {counts:?}");
        assert!(counts[0] > 10, "the program itself allocates: {counts:?}");
        assert_eq!(counts[1..], [0, 0], "{mode}");
    }
    system.finish();
}

#[test]
fn another_allocator_is_none_of_our_business() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    let jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    if !Path::new(jemalloc).exists() {
        return skip(Requirement::Jemalloc, "no jemalloc here");
    }
    let run = built.run_until_moved(("family heap", 5), 5, |command| {
        command.env("LD_PRELOAD", jemalloc);
    });
    run.whole(0);
    system.finish();
}

#[test]
fn what_is_refused_leaves_the_program_alone() {
    let (Some(system), Some(built)) = (System::take(), Built::new()) else { return };
    for (policy, why) in [
        ("autonuma", "faults on armed pages"),
        ("oracle-static", "needs knowledge of the future"),
        ("hotbox:throttle=on", "counters of accesses by tier"),
    ] {
        let options = TIERING.replace("hybridtier", policy);
        let run = built.run_with("plain 1", &options, |_| {});
        let told = text(&run.output.stderr);
        assert_eq!(
            (run.output.status.code(), text(&run.output.stdout)),
            (Some(0), "whole\n".into())
        );
        let lines: Vec<&str> = told.lines().filter(|line| line.contains(why)).collect();
        assert!(matches!(&*lines, [line] if line.contains("; hint: ")), "{policy}: {told}");
        assert!(run.runs.is_empty(), "{:?}", run.runs);
    }
    system.finish();
}

#[test]
fn by_hand_what_cannot_be_read_is_said_in_one_line() {
    let Some(built) = Built::new() else { return };
    for (settings, why) in [
        (r#""policy": "hybridtear""#, "unknown policy"),
        (r#""policy": "hybridtier", "fast": "0%""#, "FROSTLINE: fast: "),
        (r#""policy": "hybridtier", "slow": "zram""#, "nobody has set up zram"),
        (r#""fast": "40%""#, "neither policy nor consolidate"),
    ] {
        let log = built.path("log");
        for to_file in [false, true] {
            let mut command = Command::new(built.path("program"));
            command.args(["plain", "0.5"]).env("LD_PRELOAD", agent());
            let key =
                if to_file { format!(", \"log\": \"{}\"", log.display()) } else { String::new() };
            command.env("FROSTLINE", format!("{{{settings}{key}}}"));
            let output = command.output().expect("it runs");
            assert_eq!(text(&output.stdout), "whole\n");
            let told = match to_file {
                true => std::fs::read_to_string(&log).expect("written"),
                false => text(&output.stderr),
            };
            assert!(told.contains(why) && told.contains("hint: "), "{told}");
            assert_eq!((told.lines().count(), output.stderr.is_empty()), (1, to_file), "{told}");
        }
        std::fs::remove_file(log).expect("ours");
    }
    // Without the variable, the library does nothing.
    let mut command = Command::new(built.path("program"));
    let output = command.args(["plain", "0.5"]).env("LD_PRELOAD", agent()).output().expect("runs");
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("whole\n".into(), String::new()));
}

#[test]
fn a_dry_run_prints_what_it_would_set() {
    let options = "--policy hybridtier:momentum=2 --fast 1:8 --slow swap --dry-run --no-children";
    let mut command = command(options);
    let output = command.args(["--", "./no such program", "it's"]).output().expect("it runs");
    let line = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(line.starts_with(&format!("env LD_PRELOAD={} ", agent().display())), "{line}");
    for part in [
        r#" FROSTLINE='{"policy":"hybridtier:momentum=2","#,
        r#""slow":"swap","#,
        r#""children":false}' "#,
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(line.ends_with(" './no such program' 'it'\\''s'\n"), "{line}");
    let missing = frostline().args("run --in-process --agent /no.so -- true".split(' ')).output();
    let missing = missing.expect("it runs");
    let told = text(&missing.stderr);
    assert_eq!(missing.status.code(), Some(125), "{told}");
    assert!(told.contains("/no.so") && told.contains("hint: "), "{told}");
}
