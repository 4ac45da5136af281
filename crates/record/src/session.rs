//! One recording: starts the program, reads the pipe, writes the trace, waits for the end.

use crate::error::RecordError;
use crate::options::{LINE_BYTES, Options};
use crate::program;
use crate::running::{CtrlC, Running};
use crate::tool::Tool;
use crate::translate::{Failure, Translator};
use crate::trust::temporary_folder;
use frostline_core::Foreign;
use frostline_trace::header::CacheModel;
use frostline_trace::{Totals, TraceHeader, TraceWriter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PIPE_BYTES: usize = 1 << 20;
static LAUNCH: Mutex<()> = Mutex::new(());
const TICK: Duration = Duration::from_millis(200);

/// How far a recording is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Accesses recorded.
    pub records: u64,
    /// Bytes of the trace.
    pub bytes: u64,
    /// Since the program was started.
    pub elapsed: Duration,
    /// What is recorded.
    pub program: &'a Running,
}

/// Why a recording ended.
#[derive(Debug)]
pub enum Stop {
    /// The program (and what was followed) has ended.
    Ended,
    /// The trace has its maximal size.
    Full,
    /// It could not go on; the trace is readable up to there.
    Failed(RecordError),
}

/// The end of a recording.
#[derive(Debug)]
pub struct Outcome {
    /// The program's exit code, or 128 + the signal that killed it.
    pub code: u8,
    /// Why the recording ended.
    pub stop: Stop,
    /// What the trace holds; none where the recording failed.
    pub totals: Option<Totals>,
    /// Bytes of the trace, without its index.
    pub bytes: u64,
    /// Processes recorded.
    pub processes: u32,
    /// What the recorder had to say, usually nothing: instructions it does not know, for instance.
    pub log: String,
}

/// Runs `command` (program and arguments) to its end and writes its trace to `output`.
///
/// An existing file is overwritten in place, so that what was recorded before a crash of the
/// machine or a SIGKILL is readable. `observer` hears of the progress about five times a second, and
/// at once when recording ends before the program does.
///
/// # Errors
/// Where the program was not started. Once it runs, it is waited for, and what goes wrong with the
/// recording is in [`Outcome::stop`].
pub fn record(
    tool: &Tool,
    command: &[OsString],
    output: &Path,
    options: &Options,
    observer: &mut dyn FnMut(&Progress, Option<&Stop>),
) -> Result<Outcome, RecordError> {
    options.check()?;
    let program = command.first().ok_or_else(|| RecordError::NotFound { program: "".into() })?;
    let program = program::check(program)?;
    let system = |doing| move |source| RecordError::System { doing, source };
    let errno = |doing| move |errno: Errno| RecordError::System { doing, source: errno.into() };
    let logs = temporary_folder("frostline-record-")?;
    let writer = TraceWriter::create(output, &header(tool, command, options))
        .map_err(|error| RecordError::output(output, error))?;

    let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC).map_err(errno("create a pipe"))?;
    // A smaller pipe works too, with more switches between the two.
    let _ = fcntl_setpipe_size(&read_end, PIPE_BYTES);
    fcntl_setfl(&read_end, OFlags::NONBLOCK).map_err(errno("set up a pipe"))?;
    let mut recorded = tool.command(options, logs.path(), write_end.as_raw_fd(), &program, command);
    if let Some(path) = &options.output {
        let twice = File::create(path).and_then(|file| Ok((file.try_clone()?, file)));
        let (first, second) = twice.map_err(system("make a file for the program's output"))?;
        recorded.stdin(Stdio::null()).stdout(first).stderr(second);
    }
    let running = {
        // One at a time, or the programs of two recordings would inherit both pipes.
        let _launch = LAUNCH.lock().unwrap_or_else(PoisonError::into_inner);
        fcntl_setfd(&write_end, FdFlags::empty()).map_err(errno("set up a pipe"))?;
        let running = Running::start(&mut recorded, CtrlC::Insists);
        drop(write_end);
        running.map_err(system(tool.starting()))?
    };

    let mut session = Session {
        translator: Translator::new(writer),
        output,
        running,
        started: Instant::now(),
        offset: 0,
        observer,
    };
    let stop = session.read_all(read_end, options.max_bytes);
    if !matches!(stop, Stop::Ended) {
        session.report(Some(&stop));
    }
    session.end(tool, stop, logs.path())
}

/// Turns packets, as they come through the pipe, into a trace: what [`record`] does with a program's. What
/// stands before damage makes a whole trace.
///
/// # Errors
/// [`RecordError::Damaged`] where a packet makes no sense, also where the last one is cut off.
pub fn translate_packets(packets: &[u8], trace: &mut Vec<u8>) -> Result<(), RecordError> {
    let output = Path::new("trace");
    let failed = |error| RecordError::output(output, error);
    let writer = TraceWriter::new(trace, output, &TraceHeader::named("packets")).map_err(failed)?;
    let mut translator = Translator::new(writer);
    let damaged = |offset: usize, what| Err(RecordError::Damaged { offset: offset as u64, what });
    let result = match translator.packets(packets) {
        Ok(taken) if taken < packets.len() => {
            damaged(taken, "ends in the middle of a packet".into())
        }
        Ok(_) => Ok(()),
        Err((offset, Failure::Damaged(what))) => damaged(offset, what),
        Err((_, Failure::Output(error))) => return Err(failed(error)),
    };
    translator.finish(None).map_err(failed)?;
    result
}

fn header(tool: &Tool, command: &[OsString], options: &Options) -> TraceHeader {
    let command: Vec<Foreign> =
        command.iter().map(|arg| arg.to_string_lossy().into_owned().into()).collect();
    let cache = |size_bytes, ways| Some(CacheModel { size_bytes, ways, line_bytes: LINE_BYTES });
    let mut header = TraceHeader::named(command.first().cloned().unwrap_or_default());
    header.command = command;
    header.recorder = tool.signature().into();
    header.cpu_model = tool.cpu_model().into();
    header.l1 = cache(options.l1_bytes, 1);
    header.llc = cache(options.llc_bytes, options.llc_ways);
    header.epoch_length = options.epoch;
    header
}

fn shell_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The beginning of everything in the log files.
fn read_logs(dir: &Path) -> String {
    let mut text = String::new();
    let mut paths: Vec<_> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        text += &String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default());
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(12).collect();
    lines.join("\n")
}

struct Session<'a> {
    translator: Translator<File>,
    output: &'a Path,
    running: Running,
    started: Instant,
    /// Bytes of whole packets taken from the pipe.
    offset: u64,
    observer: &'a mut dyn FnMut(&Progress, Option<&Stop>),
}

impl Session<'_> {
    fn report(&mut self, stop: Option<&Stop>) {
        let writer = self.translator.writer();
        let (records, bytes) = (writer.records(), writer.bytes_written());
        let (elapsed, program) = (self.started.elapsed(), &self.running);
        (self.observer)(&Progress { records, bytes, elapsed, program }, stop);
    }

    /// Reads until the last writer is gone or something stops it. The pipe is closed then, upon
    /// which the tool lets the program run unrecorded.
    fn read_all(&mut self, pipe: OwnedFd, max_bytes: Option<u64>) -> Stop {
        let mut buffer = vec![0; PIPE_BYTES];
        let mut filled = 0;
        let mut ticked = Instant::now();
        let mut unflushed = false;
        loop {
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.report(None);
            }
            match rustix::io::read(&pipe, &mut buffer[filled..]) {
                Ok(0) if filled == 0 => return Stop::Ended,
                Ok(0) => {
                    return Stop::Failed(self.damaged("ends in the middle of a packet".into()));
                }
                Ok(n) => {
                    filled += n;
                    match self.take(&buffer[..filled]) {
                        Ok(taken) => {
                            buffer.copy_within(taken..filled, 0);
                            filled -= taken;
                        }
                        Err(error) => return Stop::Failed(error),
                    }
                    unflushed = true;
                    let bytes = self.translator.writer().bytes_written();
                    if max_bytes.is_some_and(|max| bytes >= max) {
                        return Stop::Full;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => match self.await_data(&pipe) {
                    Ok(true) => {}
                    // A program that waits for something: what it did is made readable meanwhile.
                    Ok(false) if unflushed => {
                        unflushed = false;
                        if let Err(error) = self.translator.writer().flush() {
                            return Stop::Failed(RecordError::output(self.output, error));
                        }
                    }
                    Ok(false) => {}
                    Err(error) => return Stop::Failed(error),
                },
                Err(errno) => return Stop::Failed(pipe_failed(errno)),
            }
        }
    }

    /// Whether there is something to read (or the end) within a tick.
    fn await_data(&self, pipe: &OwnedFd) -> Result<bool, RecordError> {
        let mut fds = [PollFd::new(pipe, PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(true),
            Err(errno) => Err(pipe_failed(errno)),
        }
    }

    /// Translates the whole packets that `bytes` begins with. Gives their length.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, RecordError> {
        let taken = self.translator.packets(bytes);
        self.offset += *taken.as_ref().unwrap_or_else(|(before, _)| before) as u64;
        taken.map_err(|(_, failure)| match failure {
            Failure::Damaged(what) => self.damaged(what),
            Failure::Output(error) => RecordError::output(self.output, error),
        })
    }

    fn damaged(&self, what: String) -> RecordError {
        RecordError::Damaged { offset: self.offset, what }
    }

    fn end(self, tool: &Tool, stop: Stop, logs: &Path) -> Result<Outcome, RecordError> {
        let Self { mut translator, output, running, .. } = self;
        let failed = |source| RecordError::System { doing: "wait for the program", source };
        let status = running.wait().map_err(failed)?;
        let mut log = read_logs(logs);
        if matches!(stop, Stop::Ended) && !translator.has_begun() {
            let why = if log.is_empty() { format!("it ended with {status}") } else { log };
            return Err(tool.silent(why));
        }
        let code = shell_code(status);
        // A signal ends a program without last words.
        let killed = status.signal().is_some();
        if matches!(stop, Stop::Ended) && !killed && translator.is_cut_short() {
            log += "the recording ended before the program did: it closed all descriptors at once";
        }
        let bytes = translator.writer().bytes_written();
        let processes = translator.processes();
        let (stop, totals) = match stop {
            // Nothing can be added to what is there.
            Stop::Failed(error) => (Stop::Failed(error), None),
            stop => {
                let known = matches!(stop, Stop::Ended).then_some(i32::from(code));
                match translator.finish(known) {
                    Ok(totals) => (stop, Some(totals)),
                    Err(error) => (Stop::Failed(RecordError::output(output, error)), None),
                }
            }
        };
        Ok(Outcome { code, stop, totals, bytes, processes, log })
    }
}

fn pipe_failed(errno: Errno) -> RecordError {
    RecordError::System { doing: "read from the recorder", source: errno.into() }
}
