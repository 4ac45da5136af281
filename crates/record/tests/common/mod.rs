//! Runs of real programs under the real recorder, and their traces.
#![allow(missing_docs, reason = "shared by test files, each of which uses a part")]
#![allow(dead_code, reason = "shared by test files, each of which uses a part")]

use frostline_core::types::{AccessKind, PageId, PageRun};
use frostline_record::{Options, Outcome, RecordError, Recorder, Tool, record};
use frostline_testing::{Requirement, skip};
use frostline_trace::batch::Want;
use frostline_trace::event::StreamId;
use frostline_trace::{Batch, Ending, TraceEvent, TraceReader, TraceSource};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// The recorder, built once; none where Valgrind or QEMU is not installed, which is printed.
pub fn tool(recorder: Recorder) -> Option<&'static Tool> {
    static TOOLS: [OnceLock<Option<Tool>>; 2] = [OnceLock::new(), OnceLock::new()];
    let find = || match Tool::find(recorder, |note| eprintln!("{note}")) {
        Ok(tool) => Some(tool),
        Err(error @ RecordError::NoTool { .. }) => {
            skip(requirement(recorder), error);
            None
        }
        Err(error) => panic!("{error}"),
    };
    TOOLS[recorder as usize].get_or_init(find).as_ref()
}

fn requirement(recorder: Recorder) -> Requirement {
    match recorder {
        Recorder::Valgrind => Requirement::Valgrind,
        Recorder::Qemu => Requirement::QemuUser,
    }
}

/// Runs a test with each of the recorders.
pub fn each(test: impl Fn(Recorder)) {
    for recorder in Recorder::ALL {
        eprintln!("recorder: {recorder}");
        test(recorder);
    }
}

/// One access of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub clock: u64,
    pub page: PageId,
    pub line: u32,
    pub kind: AccessKind,
    pub stream: StreamId,
}

/// A whole trace in memory.
#[derive(Debug)]
pub struct Recorded {
    pub outcome: Outcome,
    pub events: Vec<TraceEvent>,
    pub accesses: Vec<Access>,
    pub ending: Ending,
}

impl Recorded {
    /// Page ids of the only accessible anonymous mapping of this many bytes.
    pub fn mapping(&self, len: u64) -> Vec<PageRun> {
        let mut found = self.events.iter().filter_map(|event| match event {
            TraceEvent::Map { len_bytes, runs, accessible: true, .. } if *len_bytes == len => {
                Some(runs.clone())
            }
            _ => None,
        });
        let runs = found.next().expect("the program's mapping is in the trace");
        assert!(found.next().is_none(), "two mappings of {len} bytes");
        assert_eq!(runs.iter().map(|run| u64::from(run.pages)).sum::<u64>(), len.div_ceil(4096));
        runs
    }

    /// Accesses to these pages, with the page's number inside the mapping.
    pub fn accesses_to<'a>(
        &'a self,
        runs: &'a [PageRun],
    ) -> impl Iterator<Item = (u32, Access)> + 'a {
        self.accesses
            .iter()
            .filter_map(|access| index_in(runs, access.page).map(|index| (index, *access)))
    }

    pub fn count(&self, matches: impl Fn(&TraceEvent) -> bool) -> usize {
        self.events.iter().filter(|event| matches(event)).count()
    }
}

/// Number of the page inside the mapping that these runs make up.
pub fn index_in(runs: &[PageRun], page: PageId) -> Option<u32> {
    let mut before = 0;
    for run in runs {
        if (run.start.0..run.end()).contains(&page.0) {
            return Some(before + page.0 - run.start.0);
        }
        before += run.pages;
    }
    None
}

pub fn words(command: &[&str]) -> Vec<OsString> {
    command.iter().map(OsString::from).collect()
}

pub fn run(recorder: Recorder, command: &[&str], options: &Options) -> Option<Recorded> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("t.flt");
    let outcome = record(tool(recorder)?, &words(command), &path, options, &mut |_, _| {}).unwrap();
    Some(read(&path, outcome))
}

pub fn read(path: &Path, outcome: Outcome) -> Recorded {
    let mut reader = TraceReader::open(path).unwrap();
    reader.want(Want { clock_deltas: true, lines: true });
    let (mut events, mut accesses) = (Vec::new(), Vec::new());
    let mut batch = Batch::new();
    while reader.next_batch(&mut batch).unwrap() {
        events.extend(batch.events.drain(..).map(|timed| timed.event));
        let mut clock = batch.clock_start;
        for i in 0..batch.len() {
            clock += u64::from(batch.clock_deltas.get(i));
            accesses.push(Access {
                clock,
                page: PageId(batch.pages[i]),
                line: batch.lines.get(i),
                kind: batch.kind(i),
                stream: StreamId(batch.streams.get(i)),
            });
        }
    }
    let ending = reader.ending().unwrap().clone();
    Recorded { outcome, events, accesses, ending }
}

/// A C program compiled for a test.
pub struct Program {
    _dir: TempDir,
    path: PathBuf,
}

impl Program {
    /// None, with a message, where there is no C compiler.
    pub fn compile(source: &str, flags: &[&str]) -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let (c, path) = (dir.path().join("p.c"), dir.path().join("p"));
        std::fs::write(&c, source).unwrap();
        let marks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recorder");
        let status = Command::new("cc")
            .arg("-O1")
            .arg("-I")
            .arg(marks)
            .arg("-o")
            .arg(&path)
            .arg(&c)
            .args(flags)
            .status();
        match status {
            Ok(status) => assert!(status.success(), "the test's C program does not compile"),
            Err(error) => {
                skip(Requirement::Compiler, format!("no C compiler: {error}"));
                return None;
            }
        }
        Some(Self { _dir: dir, path })
    }

    pub fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}
