//! `frostline record`: runs a program and writes the trace of its memory accesses.

use anyhow::Context;
use frostline_core::spec::{Spec, parse_bytes, parse_count};
use frostline_record::{Options, Outcome, Progress, RecordError, Recorder, Stop, Tool, record};
use frostline_terminal::errors::with_code;
use frostline_terminal::{files, progress};
use indicatif::ProgressBar;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What `--help` says first.
pub const LONG: &str = "\
Runs PROGRAM under a modelled cache hierarchy and writes what misses it to a trace, with \
allocations, file operations, threads and the pages touched. The program is not modified; it runs \
4 to 30 times slower.

Two recorders can run it. Valgrind (--from valgrind, the default) is the more exact one; it runs threads \
in turns. QEMU (--from qemu) runs what Valgrind cannot, and threads side by side; to the program it is \
always the same processor. What programs execute is followed under Valgrind only.

The exit code is the program's own, or 128 + the number of the signal that killed it; 125 where \
recording failed, 126 where the program cannot be run or recorded, 127 where it is not there.

Ctrl-C is the program's; three within two seconds kill it where it does not heed them. The trace is \
complete then, too. The recorder is run only from places that nobody but you and root can write.";

const EXAMPLES: &str = "\
Examples:
  frostline record -o s.flt -- sqlite3 :memory: \"select count(*) from generate_series(1, 1000000)\"
  frostline record -o r.flt --llc size=8MiB:ways=16 --max-size 4GiB -- redis-server --save ''
  frostline record -o b.flt --follow -- make
  frostline record -o m.flt --from qemu -- memcached -u nobody -m 1024";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Trace to write; an existing file is overwritten
    #[arg(short, long, value_name = "TRACE")]
    output: PathBuf,
    /// Last-level cache to model: size=BYTES:ways=N
    #[arg(long, value_name = "CACHE", default_value = "size=2MiB:ways=16")]
    llc: String,
    /// First-level caches to model, in bytes (direct-mapped; one for data, one for code)
    #[arg(long, value_name = "BYTES", default_value = "32KiB")]
    l1: String,
    /// Stop recording when the trace has this size; the program goes on
    #[arg(long, value_name = "BYTES")]
    max_size: Option<String>,
    /// Record the processes that PROGRAM starts, too (under QEMU: those that it forks)
    #[arg(short, long)]
    follow: bool,
    /// Instructions between two sets of touched pages
    #[arg(long, value_name = "COUNT", default_value = "20M")]
    epoch: String,
    /// Leave instruction fetches out
    #[arg(long)]
    no_fetch: bool,
    /// Print a line of progress every few seconds even where standard error is no terminal
    #[arg(long)]
    progress: bool,
    /// What records PROGRAM: valgrind or qemu
    #[arg(long, value_name = "RECORDER", default_value = "valgrind", value_parser = recorder)]
    from: Recorder,
    /// The program to run, and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        let default = Options::default();
        let llc = Spec::parse_params(&self.llc).context("--llc")?;
        let mut params = llc.params();
        let size = params.bytes("size").context("--llc")?;
        let ways = params.count_u32("ways").context("--llc")?;
        params.finish().context("--llc")?;
        let max_bytes = match &self.max_size {
            Some(text) => Some(parse_bytes(text).context("--max-size")?.0),
            None => None,
        };
        Ok(Options {
            llc_bytes: size.map_or(default.llc_bytes, |bytes| bytes.0),
            llc_ways: ways.unwrap_or(default.llc_ways),
            l1_bytes: parse_bytes(&self.l1).context("--l1")?.0,
            epoch: parse_count(&self.epoch).context("--epoch")?,
            fetch: !self.no_fetch,
            follow: self.follow,
            max_bytes,
            output: None,
        })
    }
}

/// Runs the command.
///
/// # Errors
/// Where the program cannot be run or its trace not be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = args.options().map_err(|error| coded(error, 125))?;
    files::check(&args.output).map_err(|error| coded(error, 125))?;
    let how = How { from: args.from, lines: args.progress, most: None };
    Ok(ExitCode::from(to_file(&args.command, &args.output, &options, &how)?.code))
}

/// A recording apart from its caches.
pub struct How {
    /// What records.
    pub from: Recorder,
    /// Lines of progress where there is no terminal.
    pub lines: bool,
    /// The program is ended after so long, or as soon as its trace is full; `None`: it runs to its end.
    pub most: Option<Duration>,
}

/// Time that a program has to end by itself once it is asked to.
const TO_END: Duration = Duration::from_secs(10);

/// Records a program into a file, with progress, and says what came of it.
///
/// # Errors
/// Where the program cannot be run or its trace not be written.
pub fn to_file(
    command: &[OsString],
    output: &Path,
    options: &Options,
    how: &How,
) -> anyhow::Result<Outcome> {
    let tool = Tool::find(how.from, progress::note).map_err(ours)?;
    let mut display = Display::new(how.lines, how.most.is_some());
    let mut asked = None;
    let mut outcome = record(&tool, command, output, options, &mut |at, stop| {
        display.show(at, stop);
        let Some(most) = how.most else { return };
        let full = stop.is_some_and(|stop| !matches!(stop, Stop::Ended));
        match asked {
            None if full || at.elapsed >= most => {
                asked = Some(at.elapsed);
                if full { at.program.kill() } else { at.program.end() }
            }
            Some(then) if at.elapsed >= then + TO_END => at.program.kill(),
            _ => {}
        }
    })
    .map_err(ours)?;
    drop(display);
    if !outcome.log.is_empty() {
        progress::note(&outcome.log);
    }
    if let Stop::Failed(error) = std::mem::replace(&mut outcome.stop, Stop::Ended) {
        return Err(ours(error));
    }
    if let Some(totals) = outcome.totals {
        let processes = match outcome.processes {
            0 | 1 => String::new(),
            n => format!(", {n} processes"),
        };
        progress::note(&format!(
            "{}: {} accesses, {} instructions, {}{processes}",
            output.display(),
            totals.records,
            totals.clock_end,
            megabytes(outcome.bytes),
        ));
    }
    Ok(outcome)
}

fn recorder(text: &str) -> Result<Recorder, String> {
    let known = Recorder::ALL.into_iter().find(|recorder| recorder.name() == text);
    known.ok_or_else(|| "write valgrind or qemu".to_owned())
}

/// The library's error with the exit code that `env(1)` would give it.
fn ours(error: RecordError) -> anyhow::Error {
    let code = error.exit_code();
    coded(error.into(), code)
}

/// Usage errors of `record` do not end with 2, which the program may use itself.
fn coded(error: anyhow::Error, code: u8) -> anyhow::Error {
    let text = format!("{error:#}");
    let (what, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
    with_code(code, what, if hint.is_empty() { "see frostline record --help" } else { hint })
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Live progress: a bar on a terminal, lines where they were asked for.
struct Display {
    bar: ProgressBar,
    lines: bool,
    /// The program does not outlive its recording.
    ends: bool,
    last_line: Instant,
}

const LINE_EVERY: Duration = Duration::from_secs(3);

impl Display {
    fn new(progress: bool, ends: bool) -> Self {
        Self {
            bar: progress::bar("recording", "accesses", None),
            lines: progress && !std::io::stderr().is_terminal(),
            ends,
            last_line: Instant::now(),
        }
    }

    fn show(&mut self, at: &Progress, stop: Option<&Stop>) {
        self.bar.set_message(format!("recording {:>10}", megabytes(at.bytes)));
        self.bar.set_position(at.records);
        if self.lines && self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            let seconds = at.elapsed.as_secs_f64();
            progress::stderr_line(&format!(
                "recording: {} accesses, {}, {:.2} M/s, {seconds:.0} s",
                at.records,
                megabytes(at.bytes),
                at.records as f64 / seconds / 1e6,
            ));
        }
        match stop {
            Some(Stop::Full) if self.ends => {
                progress::note("the trace is as large as it may be; the program is ended");
            }
            Some(Stop::Full) => {
                progress::note("the trace has reached --max-size; the program goes on unrecorded");
            }
            Some(Stop::Failed(_)) => {
                progress::note("recording has failed; the program goes on unrecorded");
            }
            Some(Stop::Ended) | None => {}
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
