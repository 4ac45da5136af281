//! A program of the lab's as `frostline record` sees it.

use crate::programs::Program;
use anyhow::{Context, bail, ensure};
use frostline_core::types::AccessKind;
use frostline_guest::program;
use frostline_record::{Options, Recorder, Stop, Tool, record};
use frostline_trace::{Batch, TraceEvent, TraceReader, TraceSource};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What the program says when its memory is filled, and when its work is done.
const LINES: [&str; 2] = ["ready\n", "done\n"];

/// A trace, and when the work begins, is half done and ends, by the trace's clock.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The trace.
    pub path: PathBuf,
    /// The moments.
    pub moments: Vec<u64>,
    /// Loads and stores in between.
    pub accesses: u64,
}

/// Words of the program's command, the program itself by its path.
///
/// # Errors
/// Where it cannot be built.
pub fn command(work: Program, seed: u64) -> anyhow::Result<Vec<OsString>> {
    let seed = seed.to_string();
    let mut words = work.command.split_whitespace();
    let name = words.next().context("no program")?;
    let path = program(name).map_err(anyhow::Error::msg)?;
    let rest = words.map(|word| OsString::from(word.replace("$seed", &seed)));
    Ok(std::iter::once(path.into_os_string()).chain(rest).collect())
}

/// The program beside its server, which is recorded in its place.
struct Client {
    child: Child,
    /// Holds the socket.
    _folder: tempfile::TempDir,
}

impl Client {
    /// Starts it with these words; gives those of its server, too.
    fn start(work: Program, words: &[OsString]) -> anyhow::Result<(Self, Vec<OsString>)> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("socket");
        let server = work.server.iter().map(|word| match *word {
            "$socket" => socket.clone().into_os_string(),
            word => OsString::from(word),
        });
        let (program, rest) = words.split_first().context("no program")?;
        let child = Command::new(program)
            .args(rest)
            .arg("--server")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| program.to_string_lossy().into_owned())?;
        let server = server.collect();
        Ok((Self { child, _folder: folder }, server))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Both fail only where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Records the program, or the server that it starts, into `folder`, with the caches that the lab models. What is there already
/// is taken as it is.
///
/// # Errors
/// Where it cannot be recorded, or does not say that it works.
pub fn make(work: Program, seed: u64, folder: &Path) -> anyhow::Result<Recording> {
    let path = folder.join(format!("{}-{seed}.flt", work.name));
    let output = path.with_extension("out");
    if !path.is_file() || !output.is_file() {
        let mut words = command(work, seed)?;
        let client = if work.server.is_empty() {
            None
        } else {
            let (client, server) = Client::start(work, &words)?;
            words = server;
            Some(client)
        };
        let part = path.with_extension("part");
        let tool = Tool::find(Recorder::Qemu, |_| ())?;
        // A plain file: what is written to it is in the trace. Processors fetch instructions for
        // nothing in the lab.
        let options = Options { fetch: false, output: Some(output.clone()), ..Options::default() };
        let done = record(&tool, &words, &part, &options, &mut |_, _| ())?;
        match done.stop {
            Stop::Ended => {}
            Stop::Full => bail!("{}: the trace is full", work.name),
            Stop::Failed(error) => return Err(error.into()),
        }
        ensure!(done.code == 0, "{} ended with {} when recorded", work.name, done.code);
        if let Some(mut client) = client {
            let status = client.child.wait()?;
            ensure!(status.success(), "the client of {} ended with {status}", work.name);
        }
        fs::rename(&part, &path)?;
    }
    let written = fs::read_to_string(&output).with_context(|| output.display().to_string())?;
    find_moments(&path, &written).with_context(|| path.display().to_string())
}

/// Finds where the lines were written that bound the work.
fn find_moments(path: &Path, written: &str) -> anyhow::Result<Recording> {
    let at = LINES.map(|line| written.find(line).map(|at| at as u64));
    let [Some(ready), Some(done)] = at else { bail!("the program said not what it should") };
    let mut source = TraceReader::open(path)?;
    let (mut batch, mut clocks) = (Batch::new(), [None; 2]);
    let (mut counts, mut sum) = (Vec::new(), 0u64);
    while source.next_batch(&mut batch)? {
        for event in &batch.events {
            let TraceEvent::FileWrite { offset_bytes, len_bytes, .. } = event.event else {
                continue;
            };
            for (clock, at) in clocks.iter_mut().zip([ready, done]) {
                if (offset_bytes..offset_bytes + len_bytes).contains(&at) {
                    clock.get_or_insert(event.clock);
                }
            }
        }
        if let [Some(_), None] = clocks {
            let plain = (0..batch.len())
                .filter(|i| matches!(batch.kind(*i), AccessKind::Load | AccessKind::Store));
            sum += plain.count() as u64;
            counts.push((batch.clock_end, sum));
        }
    }
    let [Some(begin), Some(end)] = clocks else { bail!("it was not recorded when the work is") };
    let middle = counts.iter().find(|(_, so_far)| *so_far >= sum / 2);
    let middle = middle.context("no work was recorded")?.0;
    Ok(Recording { path: path.to_owned(), moments: vec![begin, middle, end], accesses: sum })
}
