//! All targets of a daemon: a thread for each, one slow tier of a kind for all.

use super::board::Board;
use super::config::{Config, Consolidate, Target};
use super::gathering::{Gatherer, Plan};
use super::inside::Agent;
use super::options::Outputs;
use super::session::Session;
use super::slow::{self, SlowMemory};
use super::summary;
use frostline_driver::instances::Instance;
use frostline_driver::{Selection, Size, SlowTier, SlowTiers, Status, Written};
use frostline_inprocess::consolidate::Numbers;
use frostline_linux::Root;
use frostline_linux::process::clock;
use frostline_linux::process::{self, Identity};
use frostline_terminal::errors;
use frostline_terminal::progress::note;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two looks for a target that does not run.
const SEARCH: Duration = Duration::from_secs(1);
/// Looking takes one part in so many of a core, at most.
const SEARCH_PART: u32 = 100;
/// Between two attempts at one that runs and cannot be managed.
const RETRY: Duration = Duration::from_secs(5);

/// What the threads share.
struct Common {
    root: Root,
    board: Board,
    /// By kind: `zram`, `swap`.
    slow: Mutex<BTreeMap<&'static str, SlowMemory>>,
}

/// See the module.
pub struct Fleet {
    common: Arc<Common>,
    workers: BTreeMap<String, Worker>,
    /// What shall be saved of all together.
    saves: Option<Written<Size>>,
}

/// What a thread shall do: values of [`Worker::order`].
const GO_ON: u8 = 0;
/// Let its target go as it is: it will be managed again.
const STOP: u8 = 1;
/// Bring back first what is in swap space of ours.
const STOP_FOR_GOOD: u8 = 2;

struct Worker {
    target: Target,
    order: Arc<AtomicU8>,
    thread: JoinHandle<()>,
    /// Where hot pages are gathered, too.
    gathering: Option<JoinHandle<()>>,
}

impl Fleet {
    /// Nobody yet.
    pub fn new(root: Root) -> Self {
        let common = Common { root, board: Board::default(), slow: Mutex::new(BTreeMap::new()) };
        Self { common: Arc::new(common), workers: BTreeMap::new(), saves: None }
    }

    /// Makes it what `config` says: targets that it no longer has or has otherwise are let go,
    /// new ones begin, all others go on as they are.
    ///
    /// # Errors
    /// Where no thread can be started for one of them; the others go on.
    pub fn apply(&mut self, config: &Config) -> anyhow::Result<()> {
        // Who saves has no goal but that, or one by name.
        let another_end = self.saves.is_some() != config.daemon.save.is_some();
        self.saves = config.daemon.save.clone();
        let stays = |worker: &Worker| {
            let mut targets = config.targets.iter();
            !another_end && targets.any(|new| worker.target.differs_in_limits_only(new))
        };
        let leaving: Vec<String> =
            self.workers.iter().filter(|(_, w)| !stays(w)).map(|(name, _)| name.clone()).collect();
        let order = |name: &String| {
            let differs = config.targets.iter().any(|target| target.name == *name);
            if differs { STOP } else { STOP_FOR_GOOD }
        };
        let leaving: Vec<(u8, Worker)> = leaving
            .iter()
            .filter_map(|name| Some((order(name), self.workers.remove(name)?)))
            .collect();
        // What they say last must not enter them again.
        end(leaving);
        self.common.board.configure(config);
        let mut failed = None;
        for target in &config.targets {
            match self.workers.get_mut(&target.name) {
                Some(worker) => worker.target = target.clone(),
                None => match Worker::start(&self.common, target, self.saves.as_ref()) {
                    Ok(worker) => drop(self.workers.insert(target.name.clone(), worker)),
                    Err(error) => failed = Some(error),
                },
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The latest numbers of all targets.
    pub fn statuses(&self) -> Vec<Status> {
        self.common.board.statuses()
    }

    /// A way to ask for the latest numbers from another thread.
    pub fn viewer(&self) -> impl Fn() -> Vec<Status> + Send + 'static {
        let common = Arc::clone(&self.common);
        move || common.board.statuses()
    }

    /// Lets all targets go and takes down what was set up for them, as far as no program depends
    /// on it.
    pub fn end(self) {
        end(self.workers.into_values().map(|worker| (STOP_FOR_GOOD, worker)).collect());
        let mut slow = self.common.slow.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for memory in std::mem::take(&mut *slow).into_values() {
            memory.take_down();
        }
    }
}

/// Asks all of them first, then waits for each.
fn end(workers: Vec<(u8, Worker)>) {
    for (order, worker) in &workers {
        worker.order.store(*order, Ordering::Relaxed);
        for thread in worker.gathering.iter().chain([&worker.thread]) {
            thread.thread().unpark();
        }
    }
    for (_, worker) in workers {
        for thread in worker.gathering.into_iter().chain([worker.thread]) {
            if thread.join().is_err() {
                let name = &worker.target.name;
                note(&format!("{name}: its thread has failed; the program goes on"));
            }
        }
    }
}

impl Worker {
    fn start(
        common: &Arc<Common>,
        target: &Target,
        saves: Option<&Written<Size>>,
    ) -> anyhow::Result<Self> {
        let order = Arc::new(AtomicU8::new(GO_ON));
        let process = target.pid.and_then(|pid| {
            let stat = process::stat(&common.root, pid).ok()?;
            Some(Identity { pid, start_ticks: stat.start_ticks })
        });
        let gathered = Arc::default();
        let mut target_thread = TargetThread {
            gathered: Arc::clone(&gathered),
            process,
            common: Arc::clone(common),
            target: target.clone(),
            saves: saves.cloned(),
            order: Arc::clone(&order),
            remarks: Remarks::of(target),
            place: None,
        };
        // The kernel keeps 15 bytes of it, and a zero byte would end it.
        let shown = target.name.replace('\0', " ");
        let thread = thread::Builder::new();
        let thread = thread.name(shown.clone()).spawn(move || target_thread.tend())?;
        let gathering = match &target.consolidate {
            Some(wanted) => {
                let (root, order) = (common.root.clone(), Arc::clone(&order));
                let (wanted, target) = (wanted.clone(), target.clone());
                let gather = move || gather(root, &target, &wanted, &order, &gathered);
                Some(thread::Builder::new().name(shown).spawn(gather)?)
            }
            None => None,
        };
        Ok(Self { target: target.clone(), order, thread, gathering })
    }
}

/// What is said of a target; nothing twice in a row.
struct Remarks {
    name: String,
    last: String,
}

impl Remarks {
    fn of(target: &Target) -> Self {
        Self { name: target.name.clone(), last: String::new() }
    }

    fn say(&mut self, text: &str) {
        if self.last != text {
            text.clone_into(&mut self.last);
            note(&format!("{}: {text}", self.name));
        }
    }
}

/// The thread that has a target's programs gather their hot pages, again and again.
fn gather(
    root: Root,
    target: &Target,
    wanted: &Consolidate,
    order: &AtomicU8,
    gathered: &Mutex<Option<Numbers>>,
) {
    let mut remarks = Remarks::of(target);
    let (limit, dry_run) = (wanted.hot_pages, target.options.dry_run);
    // Who only watches brings nothing into a program.
    let brings = wanted.inject && !dry_run;
    let library = match brings.then(|| Agent::find(None)).transpose() {
        Ok(library) => library,
        Err(error) => return remarks.say(&errors::text(&error)),
    };
    let plan = Plan { limit, dry_run, share: target.options.cpu_limit.get(), library };
    let mut gatherer = Gatherer::new(root.clone(), plan);
    remarks.say(&gatherer.telemetry());
    let stop = || order.load(Ordering::Relaxed) != GO_ON;
    while !stop() {
        let pids: Vec<u32> = target
            .selection()
            .pids(&root)
            .map(|pids| pids.into_iter().collect())
            .unwrap_or_default();
        match gatherer.round(&pids, &stop) {
            Ok(results) => {
                for (pid, result) in results {
                    match result {
                        Ok(numbers) => {
                            let mut all = gathered.lock().unwrap_or_else(PoisonError::into_inner);
                            all.get_or_insert_default().add(numbers);
                        }
                        Err(error) => remarks.say(&format!("{pid}: {}", errors::text(&error))),
                    }
                }
            }
            Err(error) => remarks.say(&errors::text(&error)),
        }
        let due = Instant::now() + wanted.every.get();
        while !stop() && Instant::now() < due {
            thread::park_timeout(due.saturating_duration_since(Instant::now()));
        }
    }
}

/// The thread of one target.
struct TargetThread {
    /// What came of gathering hot pages.
    gathered: Arc<Mutex<Option<Numbers>>>,
    common: Arc<Common>,
    target: Target,
    /// What shall be saved of all together.
    saves: Option<Written<Size>>,
    /// The one process that the target is, where it is given by number: whoever gets the number
    /// later is another.
    process: Option<Identity>,
    order: Arc<AtomicU8>,
    remarks: Remarks,
    /// Where `frostline status` sees that it is waited for.
    place: Option<Instance>,
}

/// What looking for a target has found.
enum Found {
    Here(Selection),
    NotYet,
    /// Its number may become another's.
    Over,
}

impl TargetThread {
    fn tend(&mut self) {
        self.wait_openly();
        while !self.stopped() {
            let began = clock::thread_cpu();
            let pause = match self.find() {
                Found::Here(who) => match self.manage(who) {
                    Ok(()) => SEARCH,
                    Err(error) => {
                        self.remarks.say(&errors::text(&error));
                        RETRY
                    }
                },
                Found::NotYet => {
                    let others = self.target.namesakes(&self.common.root);
                    let others = others.map_or(String::new(), |others| format!("; {others}"));
                    self.remarks.say(&format!("waiting for it to run{others}"));
                    // Looking takes longer where there are more processes.
                    let took = clock::thread_cpu().saturating_sub(began);
                    SEARCH.max(Duration::from_nanos(took.0) * SEARCH_PART)
                }
                Found::Over => {
                    self.remarks.say("does not run, and a process number is not waited for");
                    RETRY
                }
            };
            self.pause(pause);
        }
    }

    fn find(&mut self) -> Found {
        let who = self.target.selection();
        if self.target.pid.is_some() {
            let runs = self.process.is_some_and(|process| process.is_alive(&self.common.root));
            return if runs { Found::Here(who) } else { Found::Over };
        }
        match who.pids(&self.common.root) {
            Ok(pids) if !pids.is_empty() => Found::Here(who),
            Ok(_) => Found::NotYet,
            Err(error) => {
                if !error.is_not_found() {
                    self.remarks.say(&error.to_string());
                }
                Found::NotYet
            }
        }
    }

    /// Manages it until it ends or shall be let go.
    fn manage(&mut self, who: Selection) -> anyhow::Result<()> {
        let common = Arc::clone(&self.common);
        let mut options = self.target.options.clone();
        if let Some(saves) = &self.saves {
            options.save(saves);
        }
        let why = slow::settle(&common.root, &mut options)?;
        if !options.dry_run {
            options.swap_device = common.prepare(options.tiers())?;
        }
        let own_swap = options.tiers().zram().is_some();
        common.board.begins(&self.target, options.tiers());
        let name = self.target.name.clone();
        let say = |text: &str| note(&format!("{name}: {text}"));
        let begun = Session::on(&common.root, &Outputs::default(), options, who, &name, &say);
        let mut session = match begun {
            Ok(session) => session,
            Err(error) => {
                self.wait_openly();
                return Err(error);
            }
        };
        let (overseer, gathered) = (Arc::clone(&common), Arc::clone(&self.gathered));
        session.oversee(Box::new(move |status| {
            // The other threads have processor time of their own.
            status.cpu_seconds = clock::thread_cpu().as_secs_f64();
            status.consolidation = gathered.lock().unwrap_or_else(PoisonError::into_inner).clone();
            overseer.board.tell(status)
        }));
        self.place = None;
        self.remarks.say(&why.map_or("managed".into(), |why| format!("managed; {why}")));
        let outcome = loop {
            match session.step() {
                Err(error) => break Err(error),
                Ok(_) if session.is_idle() => {
                    self.remarks.say("has ended");
                    break Ok(());
                }
                Ok(_) if self.stopped() => break Ok(()),
                Ok(pause) => self.pause(pause.max(Duration::from_millis(1))),
            }
        };
        note(&format!("{name}: {}", summary::text(session.last())));
        if own_swap && self.order.load(Ordering::Relaxed) == STOP_FOR_GOOD {
            session.bring_back().unwrap_or_else(|error| self.remarks.say(&errors::text(&error)));
        }
        session.give_up();
        self.wait_openly();
        outcome
    }

    /// Shows others that it is waited for.
    fn wait_openly(&mut self) {
        let identity = Identity::own(&self.common.root).ok();
        let status = Status {
            pid: std::process::id(),
            start_ticks: identity.map_or(0, |identity| identity.start_ticks),
            name: self.target.name.clone().into(),
            policy: self.target.options.policy.to_string(),
            dry_run: self.target.options.dry_run,
            ..Status::default()
        };
        // Without the right to write there, a frostline runs unseen.
        self.place = Instance::claim(&self.common.root, &status).ok();
        self.common.board.waits(&self.target, status);
    }

    fn stopped(&self) -> bool {
        self.order.load(Ordering::Relaxed) != GO_ON
    }

    /// Ends early where it shall stop.
    fn pause(&self, time: Duration) {
        if !self.stopped() {
            thread::park_timeout(time);
        }
    }
}

impl Common {
    /// Sets up what slow tiers need, where nobody has done so; the only swap device that pages
    /// shall go to.
    fn prepare(&self, tiers: &SlowTiers) -> anyhow::Result<Option<PathBuf>> {
        let kind = match tiers.swap() {
            Some(SlowTier::Zram { .. }) => "zram",
            Some(_) => "swap",
            None => return Ok(None),
        };
        let mut slow = self.slow.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let memory = match slow.entry(kind) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(SlowMemory::set_up(&self.root, tiers)?),
        };
        Ok(memory.only_device(tiers))
    }
}
