//! Tests of the list, and recordings of what is installed, much smaller.

use super::recipe::{Loading, Plan, missing_program, version_in};
use super::run::Meter;
use super::*;
use frostline_testing::{Requirement, skip};
use frostline_trace::batch::Want;
use frostline_trace::{Batch, TraceEvent};
use frostline_workloads::open;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn generators_that_are_named_exist() {
    for program in ALL.iter().filter(|program| !program.generator.is_empty()) {
        let made = open(program.generator);
        assert!(made.is_ok(), "{}: {:?}", program.name, made.err());
        assert!(program.generator.starts_with(&format!("synth:{}:", program.name)));
    }
}

#[test]
fn versions_are_found_in_what_programs_say() {
    for (text, version) in [
        ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0", "7.0.15"),
        ("memcached 1.6.18\n", "1.6.18"),
        ("liblinear-tools\t2.3.0+dfsg-5\n", "2.3.0+dfsg-5"),
        ("3.40.1 2022-12-28 14:03:47", "3.40.1"),
    ] {
        assert_eq!(version_in(text), Some(version));
    }
    assert_eq!(version_in("no such option"), None);
}

#[test]
fn a_missing_program_is_said_with_what_brings_it() {
    let missing = missing_program("no-such-program", "some-package").expect("missing");
    assert_eq!(missing, "no-such-program is not installed: apt-get install some-package");
    assert_eq!(missing_program("sh", "dash"), None);
}

/// All that a driver says to a server that gives each request the answer that is right for it.
fn said_by(recipe: &dyn Recipe, answer: fn(&str) -> Option<&'static str>) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("folder");
    let listener = UnixListener::bind(dir.path().join("s")).expect("socket");
    let plan = recipe.prepare(dir.path()).expect("plan");
    let (meter, done) = (Meter::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a client");
            let (mut all, mut seen, mut part) = (Vec::new(), 0, [0; 4096]);
            loop {
                // A client that leaves an answer unread resets the connection.
                let Ok(count @ 1..) = stream.read(&mut part) else { return all };
                all.extend_from_slice(&part[..count]);
                while let Some(end) = all[seen..].iter().position(|&byte| byte == b'\n') {
                    let line = String::from_utf8_lossy(&all[seen..seen + end]).into_owned();
                    let text = answer(line.trim_end()).unwrap_or("");
                    // The last request is not waited for.
                    let _ = stream.write_all(text.as_bytes());
                    seen += end + 1;
                }
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                meter.report(1);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let driven = plan.driver.expect("a driver")(&meter);
        done.store(true, Ordering::Relaxed);
        driven.expect("driven");
        server.join().expect("no panic")
    })
}

#[test]
fn drivers_ask_for_the_same_every_time() {
    for recipe in [redis::GAUSS, redis::YCSB_A].map(redis::Redis::small) {
        let [one, other] =
            [(); 2].map(|()| said_by(&recipe, |line| line.starts_with('*').then_some("+OK\r\n")));
        assert_eq!(one, other);
        let text = String::from_utf8(one).expect("text");
        let count = |word: &str| text.matches(word).count();
        assert!(count("\r\nSHUTDOWN\r\n") == 1 && count("GET") + count("HGETALL") > 500);
    }
    let etc = memcached::ETC.small();
    let answer = |line: &str| match line.split(' ').next() {
        Some("get") => Some("END\r\n"),
        Some("set") => Some("STORED\r\n"),
        _ => None,
    };
    let [one, other] = [(); 2].map(|()| said_by(&etc, answer));
    assert_eq!(one, other);
    let text = String::from_utf8(one).expect("text");
    let (gets, sets) = (text.matches("get ").count(), text.matches("set ").count() - 1000);
    assert!((10..60).contains(&(gets / sets)), "{gets} and {sets}");
}

fn requirement(recorder: Recorder) -> Requirement {
    match recorder {
        Recorder::Valgrind => Requirement::Valgrind,
        Recorder::Qemu => Requirement::QemuUser,
    }
}

/// Records a small run where program and recorder are installed, and looks at the trace.
fn record(recipe: &'static dyn Recipe, recorder: Recorder) -> Option<(u64, u64)> {
    let (name, program, package, generator) = ("small", "program", "", "");
    let program = Program { name, program, recording: name, package, generator, recorder, recipe };
    if let Some(missing) = program.missing() {
        skip(Requirement::Programs, missing);
        return None;
    }
    if let Err(error) = Tool::find(recorder, |_| {}) {
        skip(requirement(recorder), error);
        return None;
    }
    let dir = tempfile::tempdir().expect("folder");
    let made = program.record(dir.path(), &mut |_| {}).expect("recorded");
    assert!(made.version.starts_with(|c: char| c.is_ascii_digit()), "{}", made.version);
    let again = program.record(dir.path(), &mut |_| panic!("recorded again")).expect("kept");
    assert_eq!(again, made);
    let mut source = open(&made.path.display().to_string()).expect("a trace");
    source.want(Want::default());
    let (mut batch, mut records, mut status) = (Batch::new(), 0, None);
    while source.next_batch(&mut batch).expect("readable") {
        records += batch.len() as u64;
        for timed in &batch.events {
            if let TraceEvent::ProcessExit { status: code, .. } = timed.event {
                status = Some(code);
            }
        }
    }
    assert_eq!(status, Some(0));
    assert!(made.from_record > 1000 && made.from_record < records, "{made:?} of {records}");
    Some((made.from_record, records))
}

#[test]
fn servers_are_recorded_under_load() {
    const GAUSS: redis::Redis = redis::GAUSS.small();
    const YCSB: redis::Redis = redis::YCSB_A.small();
    const ETC: memcached::Memcached = memcached::ETC.small();
    record(&GAUSS, Recorder::Valgrind);
    record(&YCSB, Recorder::Valgrind);
    record(&ETC, Recorder::Qemu);
}

#[test]
fn loading_ends_where_training_and_requests_begin() {
    const SMALL: liblinear::Liblinear = liblinear::KDD.small();
    record(&SMALL, Recorder::Valgrind);
    const TABLE: sqlite::Sqlite = sqlite::YCSB_C.small();
    record(&TABLE, Recorder::Valgrind);
}

#[test]
fn a_program_that_fails_is_said_with_its_last_words_and_leaves_nothing() {
    #[derive(Debug)]
    struct Failing;
    impl Recipe for Failing {
        fn missing(&self) -> Option<String> {
            None
        }
        fn version(&self) -> anyhow::Result<String> {
            Ok("1".into())
        }
        fn prepare(&self, dir: &Path) -> anyhow::Result<Plan> {
            let command = ["cat", "/no/such/file"].map(Into::into).into();
            let loading = Loading::File(dir.join("never"));
            Ok(Plan { command, driver: None, loading })
        }
    }
    if let Err(error) = Tool::find(Recorder::Valgrind, |_| {}) {
        return skip(Requirement::Valgrind, error);
    }
    let (name, program, package, generator) = ("failing", "cat", "", "");
    let recorder = Recorder::Valgrind;
    let failing =
        Program { name, program, recording: name, package, generator, recorder, recipe: &Failing };
    let dir = tempfile::tempdir().expect("folder");
    let error = failing.record(dir.path(), &mut |_| {}).expect_err("failed").to_string();
    assert!(error.contains("ended with 1") && error.contains("/no/such/file"), "{error}");
    assert_eq!(dir.path().read_dir().expect("folder").count(), 0);
}
