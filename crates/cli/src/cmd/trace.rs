//! `frostline trace`: looks into traces, checks and converts them.

use super::{heatmap, profile, synth};
use crate::live::journal_trace;
use frostline_driver::journal::MARK;
use frostline_parquet::{ParquetSource, events_path, export};
use frostline_report::table::Table;
use frostline_report::{summary, units};
use frostline_terminal::errors::{failure, usage};
use frostline_terminal::files::{Partial, refuse_overwriting, write_trace};
use frostline_terminal::{cancel, errors, files, output, progress};
use frostline_trace::header::ClockUnit;
use frostline_trace::import::{DamoSource, PerfSource, TextSource, is_perf_script};
use frostline_trace::{TraceError, TraceInfo, TraceReader, TraceSource, verify};
use frostline_workloads::{SYNTH_PREFIX, open};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline trace info s.flt
  frostline trace profile s.flt              # how much memory serves 90, 95, 99 % of the accesses
  frostline trace heatmap s.flt              # where it accesses memory, and when
  frostline trace verify s.flt
  frostline trace synth zipf:pages=64K -o z.flt
  frostline trace export s.flt s.parquet     # and s.events.parquet; read them with DuckDB
  frostline trace import accesses.txt a.flt  # lines of `time vaddr r|w [tid]`
  perf script -F comm,pid,tid,time,event,addr | frostline trace import --format perf-script /dev/stdin p.flt
  frostline trace import damon.json d.flt    # of damo")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Say what a trace holds
    Info(Info),
    /// Say what a trace uses of its memory
    Profile(profile::Args),
    /// Draw its accesses by address over time
    Heatmap(heatmap::Args),
    /// Write a synthetic trace
    Synth(synth::Args),
    /// Check every byte of traces
    Verify(Verify),
    /// Convert a trace to Parquet
    Export(Export),
    /// Convert Parquet, text, samples of perf, records of damo or a journal to a trace
    Import(Import),
}

#[derive(clap::Args)]
struct Info {
    /// File, or synth:NAME:key=value...
    trace: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// At damage, count what stands in front of it instead of failing
    #[arg(long)]
    prefix: bool,
}

#[derive(clap::Args)]
struct Verify {
    /// Files
    #[arg(required = true)]
    traces: Vec<PathBuf>,
}

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("destination").required(true))]
struct Export {
    /// File, or synth:NAME:key=value...
    trace: String,
    /// File to write, NAME.parquet; its events go to NAME.events.parquet beside it
    #[arg(value_name = "PARQUET", group = "destination")]
    to: Option<PathBuf>,
    /// The same, as an option
    #[arg(short, long, value_name = "PARQUET", group = "destination")]
    output: Option<PathBuf>,
    /// At damage, export what stands in front of it instead of failing
    #[arg(long)]
    prefix: bool,
}

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("destination").required(true))]
struct Import {
    /// What to read: see --format
    file: PathBuf,
    /// Trace to write; an existing file is overwritten
    #[arg(value_name = "TRACE", group = "destination")]
    to: Option<PathBuf>,
    /// The same, as an option
    #[arg(short, long, value_name = "TRACE", group = "destination")]
    output: Option<PathBuf>,
    /// What FILE is; told by its content unless given
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// What the times of a text count
    #[arg(long, value_enum, default_value_t = Clock::Nanoseconds)]
    clock: Clock,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Clock {
    /// Nanoseconds of real time
    Nanoseconds,
    /// Instructions retired
    Instructions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Lines of `time vaddr r|w [tid]`
    Text,
    /// Memory samples as `perf script` prints them
    PerfScript,
    /// JSON of damo, DAMON's tool
    Damo,
    /// Journal of `frostline run --journal`
    Journal,
    /// Parquet, as `frostline trace export` writes it
    Parquet,
}

/// Runs the command.
///
/// # Errors
/// Traces that cannot be read or written, or are damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    cancel::install()?;
    match args.command {
        Command::Info(args) => info(&args)?,
        Command::Profile(args) => profile::run(&args)?,
        Command::Heatmap(args) => heatmap::run(&args)?,
        Command::Synth(args) => synth::run(&args)?,
        Command::Verify(args) => return verify_all(&args),
        Command::Export(args) => to_parquet(&args)?,
        Command::Import(args) => from_elsewhere(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn open_trace(trace: &str, prefix: bool) -> anyhow::Result<Box<dyn TraceSource + Send>> {
    Ok(if prefix && !trace.starts_with(SYNTH_PREFIX) {
        Box::new(TraceReader::open(trace)?.prefix(true))
    } else {
        open(trace)?
    })
}

fn info(args: &Info) -> anyhow::Result<()> {
    let mut source = open_trace(&args.trace, args.prefix)?;
    let file_bytes = std::fs::metadata(&args.trace).ok().map(|meta| meta.len());
    let bar = progress::bar(&args.trace, "accesses", source.header().expected_records);
    let info = TraceInfo::collect(&mut *source, file_bytes, |records| {
        bar.set_position(records);
        !cancel::requested()
    })?;
    bar.finish_and_clear();
    cancel::check()?;
    if let Some(warning) = &info.warning {
        progress::note(&format!("warning: {warning}"));
    }
    if args.json { output::json(&[info]) } else { output::text(&table(&info)) }
}

fn table(info: &TraceInfo) -> String {
    let header = &info.header;
    let mut table = Table::new(&["", ""]).left(2);
    let mut row = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
    row("name", header.name.to_string());
    for (name, text) in [
        ("command", summary::command(header).unwrap_or_default()),
        ("recorder", header.recorder.to_string()),
        ("CPU model", header.cpu_model.to_string()),
    ] {
        if !text.is_empty() {
            row(name, text);
        }
    }
    for (name, cache) in [("first-level cache", header.l1), ("last-level cache", header.llc)] {
        if let Some(cache) = cache {
            let size = units::bytes(cache.size_bytes as f64);
            row(name, format!("{size}, {} ways, {} B lines", cache.ways, cache.line_bytes));
        }
    }
    if let Some(seed) = header.seed {
        row("seed", seed.to_string());
    }
    if header.thinning > 1 {
        row("thinned", format!("one record stands for {} accesses", header.thinning));
    }
    if let (Some(bytes), Some(each)) = (info.file_bytes, info.bytes_per_record) {
        row("size", format!("{}, {each:.2} B a record", units::bytes(bytes as f64)));
    }
    let kinds = info.records_by_kind;
    row("records", info.records.to_string());
    for (name, count) in [
        ("  loads", kinds.load),
        ("  stores", kinds.store),
        ("  fetches", kinds.fetch),
        ("  write-backs", kinds.write_back),
    ] {
        row(name, count.to_string());
    }
    let footprint = units::bytes(info.footprint_bytes as f64);
    row("pages touched", format!("{} ({footprint})", info.pages_touched));
    row("2 MiB regions touched", info.regions_touched.to_string());
    row("processes, threads", format!("{}, {}", info.processes, info.threads));
    let unit = match header.clock {
        ClockUnit::Instructions => "instructions",
        ClockUnit::Nanoseconds => "ns",
    };
    row("clock", format!("{} to {} {unit}", info.clock_first, info.clock_last));
    row("epochs", info.epochs.to_string());
    row("store samples", info.store_samples.to_string());
    row("events", info.events.to_string());
    for (name, count) in &info.events_by_kind {
        row(&format!("  {name}"), count.to_string());
    }
    // Without the line of headings, which are empty.
    let shown = table.show(0);
    shown
        .lines()
        .skip_while(|line| line.trim().is_empty())
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn verify_all(args: &Verify) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for path in &args.traces {
        match verify_one(path) {
            Ok(info) => output::text(&format!(
                "{}: good: {} records, {} events\n",
                path.display(),
                info.records,
                info.events
            ))?,
            Err(error) => {
                cancel::check()?;
                code = errors::report(&error, 1);
            }
        }
    }
    Ok(code)
}

fn verify_one(path: &Path) -> anyhow::Result<TraceInfo> {
    let mut reader = TraceReader::open(path)?;
    let expected = reader.header().expected_records;
    let bar = progress::bar(&path.display().to_string(), "accesses", expected);
    let info = verify(&mut reader, |records| {
        bar.set_position(records);
        !cancel::requested()
    });
    bar.finish_and_clear();
    cancel::check()?;
    info.map_err(|error| match error {
        TraceError::Damaged { .. } | TraceError::Truncated { .. } => failure(
            error.to_string(),
            "what stands in front of it can be read: `frostline trace info --prefix` counts it",
        ),
        error => error.into(),
    })
}

fn to_parquet(args: &Export) -> anyhow::Result<()> {
    let Some(path) = args.to.as_ref().or(args.output.as_ref()) else {
        anyhow::bail!("no file to write");
    };
    if path.extension().is_none_or(|extension| extension != "parquet") {
        return Err(usage(
            format!(
                "{}: the name does not end in .parquet, which is what is written",
                path.display()
            ),
            "DuckDB turns Parquet into CSV: duckdb -c \"copy 'x.parquet' to 'x.csv'\"",
        ));
    }
    refuse_overwriting(Path::new(&args.trace), path)?;
    let mut source = open_trace(&args.trace, args.prefix)?;
    let events = events_path(path);
    files::check(path)?;
    files::check(&events)?;
    let guards = [Partial::guard(path), Partial::guard(&events)];
    let bar = progress::bar(&args.trace, "accesses", source.header().expected_records);
    let exported = export(&mut *source, path, |records| {
        bar.set_position(records);
        !cancel::requested()
    });
    bar.finish_and_clear();
    let exported = match exported {
        Ok(exported) => exported,
        Err(error) => {
            if matches!(error, TraceError::Io { doing: "create", .. }) {
                // What is there was not made by us.
                guards.into_iter().for_each(Partial::keep);
            }
            return Err(error.into());
        }
    };
    if cancel::requested() {
        drop(guards);
        return Err(cancel::interrupted("nothing was exported"));
    }
    guards.into_iter().for_each(Partial::keep);
    warn(&*source);
    progress::note(&format!("{}: {} records", path.display(), exported.records));
    progress::note(&format!("{}: {} events", exported.events_path.display(), exported.events));
    Ok(())
}

fn from_elsewhere(args: &Import) -> anyhow::Result<()> {
    let Some(path) = args.to.as_ref().or(args.output.as_ref()) else {
        anyhow::bail!("no file to write");
    };
    refuse_overwriting(&args.file, path)?;
    let mut source = open_foreign(args)?;
    let totals = write_trace(&mut *source, path, &args.file.display().to_string())?;
    warn(&*source);
    let (records, events) = (totals.records, totals.events);
    progress::note(&format!("{}: {records} records, {events} events", path.display()));
    Ok(())
}

fn open_foreign(args: &Import) -> anyhow::Result<Box<dyn TraceSource>> {
    let path = &args.file;
    let format = match args.format {
        Some(format) => format,
        None => format_of(path)?,
    };
    Ok(match format {
        Format::Parquet => Box::new(ParquetSource::open(path)?),
        Format::Journal => Box::new(journal_trace::open(path)?),
        Format::Damo => Box::new(DamoSource::open(path)?),
        Format::PerfScript => Box::new(PerfSource::open(path)?),
        Format::Text => {
            let clock = match args.clock {
                Clock::Nanoseconds => ClockUnit::Nanoseconds,
                Clock::Instructions => ClockUnit::Instructions,
            };
            Box::new(TextSource::open(path, clock)?)
        }
    })
}

/// What the beginning of a file says; simple text where it says nothing.
fn format_of(path: &Path) -> anyhow::Result<Format> {
    const LOOK_BYTES: u64 = 64 << 10;
    let io = |doing| move |source| TraceError::Io { path: path.to_owned(), doing, source };
    let file = File::open(path).map_err(io("open"))?;
    if !file.metadata().map_err(io("read"))?.is_file() {
        return Err(usage(
            format!("{}: is no regular file, so it cannot be looked at beforehand", path.display()),
            "say what it is with --format",
        ));
    }
    let mut start = Vec::new();
    BufReader::new(file).take(LOOK_BYTES).read_to_end(&mut start).map_err(io("read"))?;
    if start.starts_with(b"\x89FLT") {
        return Err(failure(
            format!("{}: is a Frostline trace already", path.display()),
            "use it as it is",
        ));
    }
    // Two bytes of zlib, at any level of compression.
    if matches!(start[..], [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..]) {
        return Err(failure(
            format!("{}: is compressed, as damo does unless told otherwise", path.display()),
            "write JSON with `damo record --output_type json`, or `damo report raw --json`",
        ));
    }
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
    Ok(match first {
        _ if start.starts_with(b"PAR1") => Format::Parquet,
        _ if start.starts_with(MARK) => Format::Journal,
        Some(b'[' | b'{') => Format::Damo,
        _ if start
            .lines()
            .map_while(Result::ok)
            .find(|line| tells(line))
            .is_some_and(|line| is_perf_script(&line)) =>
        {
            Format::PerfScript
        }
        _ => Format::Text,
    })
}

fn tells(line: &str) -> bool {
    !line.trim_start().is_empty() && !line.trim_start().starts_with('#')
}

fn warn(source: &dyn TraceSource) {
    if let Some(warning) = source.warning() {
        progress::note(&format!("warning: {warning}"));
    }
}
