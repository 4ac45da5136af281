//! Work of the agent's thread.

use crate::consolidation::Consolidation;
use crate::report::Report;
use crate::{life, remarks, variables};
use frostline_core::span::Span;
use frostline_core::spec::SpecError;
use frostline_core::types::{Bytes, Nanos, PAGE_BYTES, Vpn};
use frostline_driver::environment::{AGENT_THREAD, Settings, VARIABLE};
use frostline_driver::start::Stopwatch;
use frostline_driver::{Driver, DriverError, Options, SlowTier, start_inside};
use frostline_inprocess::inside::{Ending, Thread};
use frostline_linux::process::{self, Identity, Target};
use frostline_linux::topology::{self, Topology};
use frostline_linux::{LinuxError, Root, swap};
use std::fmt::Display;
use std::fs::File;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Room for the thread's stack.
const STACK_BYTES: usize = 1 << 20;
/// What of the stack may lie above the place where it is looked for.
const STACK_ABOVE_BYTES: u64 = 64 << 10;
/// The thread.
pub static THREAD: Thread = Thread { name: AGENT_THREAD, stack_bytes: STACK_BYTES, rest, work };

/// Programs that end before that, or become others, cost a thread that sleeps, and no more.
const LEAST_AGE: Duration = Duration::from_millis(200);
/// Programs with less memory of their own are not worth the effort.
const LEAST_BYTES: Bytes = Bytes(4 << 20);
/// Between two looks at a program that is too small.
const LOOK: Duration = Duration::from_millis(500);
/// Between two looks whether the program's first thread is there.
const WATCH: Duration = Duration::from_millis(100);
/// How often others are told.
const PUBLISH: Nanos = Nanos(1_000_000_000);

/// Why the work ends.
enum End {
    /// The program ends, or is gone.
    OfProgram,
    /// Its first thread has ended by itself.
    OfFirstThread,
}

fn rest() -> bool {
    life::thread_begins();
    let until = Instant::now() + LEAST_AGE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if life::is_asked() {
            life::thread_ends(false);
            return false;
        }
        if left.is_zero() {
            return true;
        }
        life::pause(left);
    }
}

fn work(files: Result<(), i32>) -> Ending {
    std::panic::set_hook(Box::new(|info| refuse(&format!("a defect in frostline: {info}"))));
    let done = catch_unwind(|| manage(files));
    let (ending, for_good) = match done {
        Ok(Ok(End::OfProgram)) => (Ending::Quiet, false),
        Ok(Ok(End::OfFirstThread)) => (Ending::ProgramLeft, false),
        Ok(Err(error)) => {
            refuse(&error);
            (Ending::Quiet, true)
        }
        Err(_) => (Ending::Quiet, true),
    };
    life::thread_ends(for_good);
    ending
}

fn refuse(why: &dyn Display) {
    remarks::complain(&format!("the program goes on without tiering: {why}"));
}

fn manage(files: Result<(), i32>) -> Result<End, Box<dyn Display>> {
    let root = Root::system();
    let pid = std::process::id();
    if variables::VARIABLES.get().is_none_or(variables::Variables::is_cut) {
        return Err(Box::new("the variables FROSTLINE... are too long"));
    }
    // What is asked for makes sense or not, however small the program is.
    let settings = match (variables::asked(), variables::superseded()) {
        (None, Some(remark)) => return Err(Box::new(remark)),
        (None, None) => Settings::default(),
        (Some(asked), remark) => {
            remark.iter().for_each(|remark| remarks::complain(remark));
            settled(asked, &root).map_err(boxed)?
        }
    };
    let Settings { options, consolidate, consolidate_cpu_limit, .. } = settings;
    let share = consolidate_cpu_limit.get();
    let consolidation = Consolidation::begin(&root, consolidate, share).map_err(boxed)?;
    files.map_err(|errno| boxed(LinuxError::call("close_range", 0, errno)))?;
    let zram =
        |options: &Options| options.tiers().zram().is_some() && options.swap_device.is_none();
    if options.as_ref().is_some_and(zram) {
        return Err(Box::new(
            "nobody has set up zram; hint: `frostline run --in-process` does, or take \
             \"slow\": \"swap\"",
        ));
    }
    let mut watch = Watch::new(&root, pid);
    let target = Target::open(&root, pid).map_err(boxed)?;
    let large = |target: &Target| {
        let usage = target.usage()?;
        Ok(usage.anonymous.saturating_add(usage.swapped) >= LEAST_BYTES)
    };
    while !large(&target).map_err(|error: LinuxError| boxed(error))? {
        if let Some(end) = watch.pause(LOOK) {
            return Ok(end);
        }
    }
    let name = target.comm().map_err(boxed)?.raw().to_owned();
    let own = target.identity();
    let mut work = Work { driver: None, consolidation, clock: Stopwatch::start(), own };
    if let Some(mut options) = options {
        options.journal = options.journal.map(own_journal);
        let (driver, notes) = start_inside(root.clone(), options, own_memory).map_err(boxed)?;
        for text in notes {
            remarks::note(&text);
        }
        work.driver = Some(driver);
    }
    drive(work, &root, name, &mut watch).map_err(boxed)
}

/// What the variable asks for, with the slow tier chosen where it names none.
fn settled(asked: &str, root: &Root) -> Result<Settings, SpecError> {
    let mut settings = Settings::read(asked)?;
    if let Some(options) = &mut settings.options {
        options.settle(|| choose(root)).map_err(|SpecError { what, hint }| SpecError {
            what: format!("{VARIABLE}: limit: {what}"),
            hint,
        })?;
    } else if settings.consolidate.is_none() {
        let hint = format!("write {VARIABLE}='{{\"policy\": \"hybridtier\", \"fast\": \"40%\"}}'");
        return Err(SpecError::new(format!("{VARIABLE} has neither policy nor consolidate"), hint));
    }
    Ok(settings)
}

/// What the thread does.
pub struct Work {
    /// Tiering, where that is wanted.
    pub driver: Option<Driver>,
    /// Gathering of hot pages.
    pub consolidation: Consolidation,
    /// Since its beginning.
    pub clock: Stopwatch,
    /// This process.
    pub own: Identity,
}

/// Other processes that this program has started write journals, too: the first one has the name
/// that was given.
fn own_journal(path: PathBuf) -> PathBuf {
    if File::options().write(true).create_new(true).open(&path).is_ok() {
        return path;
    }
    let mut name = path.into_os_string();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

fn boxed(error: impl Display + 'static) -> Box<dyn Display> {
    Box::new(error)
}

fn drive(
    mut work: Work,
    root: &Root,
    name: String,
    watch: &mut Watch<'_>,
) -> Result<End, DriverError> {
    if let Some(driver) = &mut work.driver {
        driver.step(Nanos::ZERO)?;
    }
    let mut report = Report::begin(root, name, &work)?;
    let mut publish_due = PUBLISH;
    loop {
        let now = work.clock.elapsed();
        let mut pause = LOOK;
        if let Some(driver) = &mut work.driver {
            driver.set_touch_log(work.consolidation.at_work().is_some());
            let next = driver.step(now)?;
            if let Some(consolidator) = work.consolidation.at_work() {
                driver.take_touch_log().into_iter().for_each(|page| consolidator.note_touch(page));
            }
            for remark in driver.take_remarks() {
                remarks::note(&remark);
            }
            pause = Duration::from_nanos(next.saturating_sub(work.clock.elapsed()).0);
        }
        pause = pause.min(work.consolidation.step());
        if now >= publish_due {
            publish_due = now.saturating_add(PUBLISH);
            report.publish(&work);
        }
        if work.driver.as_ref().is_some_and(Driver::is_idle) {
            return Ok(End::OfProgram);
        }
        if let Some(end) = watch.pause(pause.max(Duration::from_millis(1))) {
            report.end(&work);
            return Ok(end);
        }
    }
}

/// Memory that this thread uses itself.
pub fn own_memory() -> Vec<Span> {
    let here = 0_u8;
    let here = std::ptr::from_ref(&here).addr() as u64;
    let stack =
        Span::of_addresses(here.saturating_sub(STACK_BYTES as u64), here + STACK_ABOVE_BYTES);
    let local = LOCAL.with(|local| std::ptr::from_ref(local).addr() as u64);
    let mut spans = crate::ARENA.spans();
    spans.push(stack);
    spans.push(Span::between(
        Vpn(local.saturating_sub(LOCAL_BYTES) / PAGE_BYTES),
        Vpn((local + LOCAL_BYTES).div_ceil(PAGE_BYTES)),
    ));
    spans
}

thread_local! {
    /// Where the library came into a running program, its thread-local memory is in the program's heap.
    static LOCAL: u8 = const { 0 };
}

/// More than all of it.
const LOCAL_BYTES: u64 = 4096;

/// The slow tier where the environment names none.
fn choose(root: &Root) -> SlowTier {
    let candidates = Topology::read(root).map(|topology| topology.slow_tier_candidates());
    match candidates.unwrap_or_default().first() {
        Some(topology::SlowTier::Node(node)) => SlowTier::Node(*node),
        _ if swap::devices(root).is_ok_and(|devices| devices.is_empty()) => SlowTier::Observe,
        _ => SlowTier::Swap,
    }
}

/// Waits, and notices how the program ends.
struct Watch<'a> {
    root: &'a Root,
    pid: u32,
    looked: Instant,
}

impl<'a> Watch<'a> {
    fn new(root: &'a Root, pid: u32) -> Self {
        Self { root, pid, looked: Instant::now() }
    }

    /// Waits for so long; `Some` where there is nothing left to do.
    fn pause(&mut self, time: Duration) -> Option<End> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if life::is_asked() {
                return Some(End::OfProgram);
            }
            if self.looked.elapsed() >= WATCH {
                self.looked = Instant::now();
                // A thread that has ended while others go on stays as a zombie.
                let stat = process::stat(self.root, self.pid);
                if stat.is_ok_and(|stat| stat.state == 'Z') {
                    return Some(End::OfFirstThread);
                }
            }
            if left.is_zero() {
                return None;
            }
            life::pause(left.min(WATCH));
        }
    }
}
