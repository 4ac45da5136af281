//! One driver at work, from its start to its end.

use super::options::{Outputs, Tiering};
use super::slow::SlowMemory;
use super::summary;
use frostline_core::types::Nanos;
use frostline_driver::instances::{Instance, check_free};
use frostline_driver::start::Stopwatch;
use frostline_driver::{Driver, DriverError, Limit, Options, Selection, Status, Written, start};
use frostline_linux::Root;
use frostline_linux::process::clock;
use frostline_report::units::bytes;
use frostline_terminal::errors::failure;
use frostline_terminal::progress::note;
use frostline_terminal::{files, output};
use std::path::PathBuf;
use std::time::Duration;

/// How often others are told; less often where that takes more than one part in so many of a core.
const PUBLISH: Nanos = Nanos(1_000_000_000);
const MOST_PUBLISH: Nanos = Nanos(60_000_000_000);
const PUBLISH_PART: u64 = 250;

/// Most memory that may be fast, and the least.
type Bounds = (Limit, Option<Limit>);

/// Sees the numbers of every second, may correct what concerns several drivers, and sets the
/// limit of fast memory, and what is fast at least.
pub type Overseer = Box<dyn FnMut(&mut Status) -> Bounds>;

/// A driver, what was set up for it, and who is told about it.
pub struct Session {
    name: String,
    driver: Driver,
    slow: Option<SlowMemory>,
    watch: Stopwatch,
    instance: Option<Instance>,
    publish_due: Nanos,
    series: Option<summary::Series>,
    summary: Option<PathBuf>,
    overseer: Option<Overseer>,
    /// What may be fast where nobody oversees it.
    asked: Bounds,
    /// What somebody wishes to be fast instead.
    wish: Option<Written<Limit>>,
    /// Memory of ours that was said to be above its limit (bytes).
    told_own: u64,
    /// Scattered memory is left alone, and that was said.
    scattered: bool,
    /// From when there was still somebody to manage.
    last: Status,
}

impl Session {
    /// Sets the slow tier up and looks at the targets for the first time.
    ///
    /// # Errors
    /// Where something is missing; nothing is left behind then.
    pub fn begin(
        root: &Root,
        tiering: &Tiering,
        who: Selection,
        name: &str,
    ) -> anyhow::Result<Self> {
        let (mut options, why) = tiering.resolve(root)?;
        // Before anything is set up, on which pages of theirs would lie.
        if let Selection::Process { pid, .. } = &who {
            check_free(root, [*pid])?;
        }
        if let Some(why) = why {
            if options.tiers().is_empty() && !options.dry_run {
                return Err(failure(why, "run as root, or choose --slow none to watch only"));
            }
            note(&why);
        }
        let slow =
            if options.dry_run { None } else { Some(SlowMemory::set_up(root, options.tiers())?) };
        options.swap_device = slow.as_ref().and_then(|slow| slow.only_device(options.tiers()));
        match Self::on(root, &tiering.outputs, options, who, name, &note) {
            Ok(session) => Ok(Self { slow, ..session }),
            Err(error) => {
                if let Some(slow) = slow {
                    slow.take_down();
                }
                Err(error)
            }
        }
    }

    /// As [`Self::begin`], with settled `options`, on a slow tier that
    /// somebody else sets up and takes down; remarks go to `say`.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn on(
        root: &Root,
        outputs: &Outputs,
        options: Options,
        who: Selection,
        name: &str,
        say: &dyn Fn(&str),
    ) -> anyhow::Result<Self> {
        let series = outputs.series.as_deref().map(summary::Series::create).transpose()?;
        let asked = (options.most_fast(), options.goal().and_then(|goal| goal.floor));
        let (driver, notes) = start(root.clone(), options, who)?;
        notes.iter().for_each(|text| say(text));
        let mut session = Self {
            name: name.to_owned(),
            driver,
            slow: None,
            watch: Stopwatch::start(),
            instance: None,
            publish_due: Nanos::ZERO,
            series,
            summary: outputs.summary.clone(),
            overseer: None,
            asked,
            wish: None,
            told_own: 0,
            scattered: false,
            last: Status::default(),
        };
        session.driver.step(Nanos::ZERO)?;
        session.enlist(root)?;
        Ok(session)
    }

    /// Somebody shall see the numbers of every second.
    pub fn oversee(&mut self, overseer: Overseer) {
        self.overseer = Some(overseer);
    }

    fn enlist(&mut self, root: &Root) -> anyhow::Result<()> {
        match Instance::claim(root, &self.driver.status(&self.name)) {
            Ok(instance) => self.instance = Some(instance),
            Err(error @ DriverError::Managed { .. }) => return Err(error.into()),
            Err(error) => note(&format!("`frostline status` will not show this run: {error}")),
        }
        Ok(())
    }

    /// Does what is due, and says for how long there is nothing to do.
    ///
    /// # Errors
    /// Where going on makes no sense. The targets run on.
    pub fn step(&mut self) -> anyhow::Result<Duration> {
        let now = self.watch.elapsed();
        let next = self.driver.step(now)?;
        if now >= self.publish_due {
            let began = clock::thread_cpu();
            let mut status = self.driver.status(&self.name);
            let overseen = self.overseer.as_mut().map(|overseer| overseer(&mut status));
            self.keep_bounds(overseen);
            self.watch_own_memory(&status);
            for remark in self.driver.take_remarks() {
                note(&format!("{}: {remark}", self.name));
            }
            self.tell_of_scattered(&status);
            if !self.driver.is_idle() {
                self.last = status.clone();
            }
            if let Some(series) = &mut self.series {
                series.add(&status)?;
            }
            if let Some(instance) = &self.instance {
                // Where there is no room for it, others see an older state.
                let _ = instance.publish(&status);
            }
            // What is told is longer where there are more processes.
            let took = clock::thread_cpu().saturating_sub(began);
            let rest = Nanos(took.0.saturating_mul(PUBLISH_PART)).clamp(PUBLISH, MOST_PUBLISH);
            self.publish_due = now.saturating_add(rest);
        }
        Ok(Duration::from_nanos(next.saturating_sub(self.watch.elapsed()).0))
    }

    /// Has as much memory be fast as somebody wishes, or within what is `overseen`, or as was asked for at the start.
    fn keep_bounds(&mut self, overseen: Option<Bounds>) {
        let wish = self.instance.as_ref().and_then(Instance::wish);
        let changes = wish != self.wish;
        if changes {
            let what = match &wish {
                Some(size) => format!("fast memory is {size} from now on, as somebody wishes"),
                None => "fast memory is as at the start again".to_owned(),
            };
            note(&format!("{}: {what}", self.name));
        }
        let wished = wish.as_deref().map(|&limit| (limit, Some(limit)));
        self.wish = wish;
        if let Some((most, least)) = wished.or(overseen).or(changes.then_some(self.asked)) {
            self.driver.set_fast(most, least);
        }
    }

    /// Says once that there is memory that is left alone.
    fn tell_of_scattered(&mut self, status: &Status) {
        let scattered = status.scattered_bytes;
        if scattered > 0 && !self.scattered {
            let scattered = bytes(scattered as f64);
            note(&format!(
                "{}: {scattered} lie so scattered that they are left in fast memory: less than \
                 256 KiB of each 2 MiB of address space",
                self.name,
            ));
        }
        self.scattered |= scattered > 0;
    }

    /// Makes do with less where we take more memory than we may, and says so, again once it is a quarter more.
    fn watch_own_memory(&mut self, status: &Status) {
        let (own, limit) = (status.own_rss_bytes, status.own_limit_bytes);
        if own <= limit {
            return;
        }
        self.driver.save_memory();
        if own > self.told_own + self.told_own / 4 {
            self.told_own = own;
            note(&format!(
                "{}: frostline itself takes {} of memory, more than its limit of {}; it watches \
                 fewer pages at a time",
                self.name,
                bytes(own as f64),
                bytes(limit as f64)
            ));
        }
    }

    /// Whether nobody is left.
    pub fn is_idle(&self) -> bool {
        self.driver.is_idle()
    }

    /// From when there was still somebody to manage.
    pub fn last(&self) -> &Status {
        &self.last
    }

    /// Brings back what is in swap, as far as it fits: swap space can only be taken down when
    /// nothing is on it. Another Ctrl-C leaves it.
    ///
    /// # Errors
    /// Where rights are missing.
    pub fn bring_back(&mut self) -> anyhow::Result<()> {
        Ok(self.driver.bring_back(|_| true)?)
    }

    /// Takes down what was set up, and says what came of it.
    ///
    /// # Errors
    /// Where the summary cannot be written.
    pub fn end(mut self) -> anyhow::Result<()> {
        // What was moved after it was published for the last time counts, too.
        let status = Status { accounts: self.driver.accounts(), ..self.last.clone() };
        note(&summary::text(&status));
        if self.slow.as_ref().is_some_and(SlowMemory::is_own_swap) {
            self.bring_back()?;
        }
        let path = self.summary.clone();
        self.give_up();
        if let Some(path) = path {
            files::write_whole(&path, output::envelope(&[status])?.as_bytes())?;
        }
        Ok(())
    }

    /// Takes down what was set up.
    pub fn give_up(self) {
        // First of all nobody may page out any more.
        drop(self.driver);
        drop(self.instance);
        if let Some(slow) = self.slow {
            slow.take_down();
        }
    }
}
