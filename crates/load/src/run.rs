//! One run: fill the memory, use it, check it.

use crate::area::Area;
use crate::args::LoadArgs;
use crate::content::{PageBytes, Recipe};
use crate::hot_set::HotSet;
use crate::input::Input;
use crate::reserve::Reserved;
use crate::shared::Shared;
use crate::summary::{Parts, Summary};
use crate::truth::Truth;
use crate::worker::{Cold, Done, Page, Work, Worker};
use anyhow::{Context, ensure};
use frostline_core::rng::Rng;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often signals and times are looked at.
const TICK: Duration = Duration::from_millis(10);

/// Runs the load. Memory that was not as written makes the exit code 1.
///
/// # Errors
/// Where there is not so much memory, or a file cannot be written.
pub fn run(args: &LoadArgs) -> anyhow::Result<ExitCode> {
    let signalled = catch_signals()?;
    let pages = args.size.pages().0;
    ensure!(
        (1..=1 << 31).contains(&pages) && pages >= u64::from(args.threads),
        "{} bytes are too few or too many\nhint: give every thread a page, and 8 TiB in all",
        args.size.0
    );
    let pages = pages as u32;
    let mut rng = Rng::new(args.seed);
    let threads = f64::from(args.threads);
    let work = Work {
        recipe: Recipe::new(args.seed, args.compressible),
        hot_set: HotSet::new(pages, args.hot, args.scatter, &mut rng),
        write_share: args.writes,
        cold: match args.hot_accesses {
            Some(hot) => Cold::Share(1.0 - hot),
            None => Cold::PerSecond(args.cold_rate / threads),
        },
        operations: args.operations.map(|all| all.div_ceil(args.threads.into())),
        forks_per_second: args.fork_rate / threads,
        churn_per_second: args.churn / threads,
        check_all: args.checksums,
        huge: args.huge,
    };
    let mut area = Area::map(pages as usize, args.huge)
        .with_context(|| format!("cannot map {} bytes", args.size.0))?;
    let start = area.start();
    let shares = deal(area.pages_mut(), &work.recipe, usize::from(args.threads));
    let truth = Truth { pid: std::process::id(), start, pages, generation: 0, hot: Vec::new() };
    let hot_pages = announce(&truth, &work.hot_set, 0, args.truth.as_deref())?;
    let mut log = args.throughput_log.as_deref().map(Log::create).transpose()?;
    let shared = Shared::new(shares.len());
    let reserve = |size| Reserved::map(size, args.reserve_mappings, args.reserve_pages);
    let mut reserved = args.reserve.map(reserve).transpose()?;
    let input = args.input.as_deref().map(Input::read).transpose()?;
    let read_again =
        || input.as_ref().map_or(Ok(()), |input| input.check(|wrong| shared.found(wrong)));
    eprintln!("ready");

    let started = Instant::now();
    let mut per_second = Vec::new();
    let done = thread::scope(|scope| {
        let workers: Vec<_> = shares
            .into_iter()
            .enumerate()
            .map(|(number, pages)| {
                let (work, shared, rng) = (&work, &shared, rng.fork());
                scope.spawn(move || Worker::new(number, work, shared, rng, pages).run(started))
            })
            .collect();
        let watched = watch(args, &shared, &signalled, started, |event| match event {
            Due::Second(operations) => {
                per_second.push(operations);
                log.as_mut().map_or(Ok(()), |log| log.row(per_second.len(), operations))
            }
            Due::Shift(generation) => {
                announce(&truth, &work.hot_set, generation, args.truth.as_deref())?;
                read_again()
            }
        });
        shared.stop();
        let done = workers.into_iter().fold(Done::default(), |sum, worker| {
            sum.plus(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        watched.map(|()| done)
    })?;

    read_again()?;
    reserved.iter_mut().for_each(|reserved| reserved.check(&shared));
    let findings = shared.findings();
    for what in &findings.first {
        eprintln!("error: {what}");
    }
    let signalled = signalled.load(Ordering::Relaxed);
    let shifts = shared.generation();
    let seconds = shared.worked().as_secs_f64();
    let parts =
        Parts { pages, hot_pages, seconds, done, shifts, shift: args.shift, signalled, per_second };
    Summary::new(parts, &findings).print(args.json)?;
    Ok(if findings.count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The first signal asks for the end, the second one ends the program at once.
fn catch_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = 128 + signal;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&asked))?;
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// Fills the pages and deals them out in turn, so that threads use the same huge pages.
fn deal<'m>(pages: &'m mut [PageBytes], recipe: &Recipe, shares: usize) -> Vec<Vec<Page<'m>>> {
    let mut dealt: Vec<Vec<_>> =
        (0..shares).map(|_| Vec::with_capacity(pages.len().div_ceil(shares))).collect();
    for (number, bytes) in (0..).zip(pages) {
        let mut page = Page { bytes, number, version: 0 };
        page.rewrite(recipe);
        dealt[number as usize % shares].push(page);
    }
    dealt
}

/// Writes which pages are hot, where a file is asked for; gives their number.
fn announce(
    truth: &Truth,
    hot_set: &HotSet,
    generation: u32,
    path: Option<&Path>,
) -> anyhow::Result<u64> {
    let truth = Truth { generation, hot: hot_set.ranges(generation), ..truth.clone() };
    path.map_or(Ok(()), |path| truth.write(path))?;
    Ok(truth.hot_pages())
}

enum Due {
    /// A second is over, in which there were so many operations.
    Second(u64),
    /// The hot set of this generation has come into use.
    Shift(u32),
}

/// Watches the clock until the end, and calls `on` for what is due.
fn watch(
    args: &LoadArgs,
    shared: &Shared,
    signalled: &AtomicBool,
    started: Instant,
    mut on: impl FnMut(Due) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut seconds_over, mut operations_before) = (0u64, 0);
    loop {
        let elapsed = started.elapsed().as_secs_f64();
        if elapsed >= (seconds_over + 1) as f64 {
            seconds_over += 1;
            let operations = shared.operations();
            on(Due::Second(operations - operations_before))?;
            operations_before = operations;
        }
        if elapsed >= args.seconds || shared.ended() || signalled.load(Ordering::Relaxed) {
            return Ok(());
        }
        let next = shared.generation() + 1;
        let in_time = args.shift.is_some_and(|every| elapsed / every >= f64::from(next));
        let in_work = args
            .shift_operations
            .is_some_and(|every| shared.operations() / every >= u64::from(next));
        if in_time || in_work {
            on(Due::Shift(shared.next_generation()))?;
        }
        thread::sleep(TICK.min(Duration::from_secs_f64(args.seconds - elapsed)));
    }
}

/// The log of accesses per second.
struct Log<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Log<'a> {
    fn create(path: &'a Path) -> anyhow::Result<Self> {
        let mut log = Self { path, file: File::create(path).with_context(|| cannot_write(path))? };
        log.line("second,operations")?;
        Ok(log)
    }

    fn row(&mut self, second: usize, operations: u64) -> anyhow::Result<()> {
        self.line(&format!("{second},{operations}"))
    }

    fn line(&mut self, text: &str) -> anyhow::Result<()> {
        writeln!(self.file, "{text}").with_context(|| cannot_write(self.path))
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
