//! Consolidation of scattered hot base pages of the own process into few regions of 2 MiB, so that a
//! tiering of huge pages below, such as that of a virtual machine's host, finds few dense ones (GPAC).
//!
//! Virtual addresses stay. It works inside of the process only: see [`gather`]. Which pages are hot is
//! told by writes: those that are written in two windows in succession, and by whoever has
//! [`Consolidator::note_touch`] called. Or all of them are [given](Telemetry::Given).

pub mod choice;
pub mod gather;
mod movable;
mod numbers;
pub mod request;

pub use numbers::{Numbers, Skipped};

use crate::inside::{Block, Writes, thread_block};
use choice::{Hot, by_region, choose};
use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::span::Span;
use frostline_core::span::{difference, joined};
use frostline_core::types::{HUGE_PAGES, PAGE_BYTES, Vpn};
use frostline_linux::pages::pagemap::Pagemap;
use frostline_linux::process::clock;
use frostline_linux::process::maps::MapsReader;
use frostline_linux::{LinuxError, Root, Target, moves::advise};
use gather::{Gathering, region_of};
use movable::{ThreadBlock, movable};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A page that is written in two such times in succession is hot.
const WINDOW: Duration = Duration::from_millis(500);
/// Between two looks, at least.
const PAUSE: Duration = Duration::from_secs(2);
/// What a noted write costs the program.
const WRITE_COST: Duration = Duration::from_nanos(1200);
/// Blocks filled at one look after the first, at most.
const MOST_BLOCKS: usize = 16;
/// Looks at which a block that is full has nothing hot in it, until it is given up.
const IDLE_LOOKS: u32 = 3;

/// How hot pages are known.
#[derive(Clone, Debug)]
pub enum Telemetry {
    /// They are written, again and again. Looks after the first take a share of a core, above 0, what they cost the
    /// program included.
    Writes(f64),
    /// Somebody outside has seen them: there is one look.
    Given(Vec<Span>),
}

enum State {
    /// Hot pages are known.
    Knows(Vec<Span>),
    /// Until then.
    Rests(Instant),
    /// Writes are noted until then, for the first or second time.
    Watches { writes: Writes, until: Instant, first: Option<Vec<Span>> },
}

/// A region that was filled.
struct Dense {
    region: u64,
    pages: Vec<Vpn>,
    /// Looks since something in it was hot.
    idle: u32,
}

/// See the module.
pub struct Consolidator {
    target: Target,
    pagemap: Pagemap,
    limit: ConsolidationLimit,
    dry_run: bool,
    /// Of a core, for all that a look costs us and the program.
    share: f64,
    state: State,
    /// Pages that others have seen touched since the last look.
    touched: BTreeSet<Vpn>,
    /// The region that is being filled.
    open: Option<Block>,
    filling: Vec<Vpn>,
    dense: Vec<Dense>,
    /// Of pages that were moved, the region in which they were.
    origins: BTreeMap<Vpn, u64>,
    removed: Vec<(Span, Instant)>,
    numbers: Numbers,
}

impl Consolidator {
    /// For the process that this is called in, which must have a table of files of its own thread.
    ///
    /// # Errors
    /// Where its page table cannot be read.
    pub fn new(
        root: &Root,
        limit: ConsolidationLimit,
        dry_run: bool,
        telemetry: Telemetry,
    ) -> Result<Self, LinuxError> {
        let (share, state) = match telemetry {
            Telemetry::Writes(share) => (share, State::Rests(Instant::now())),
            Telemetry::Given(pages) => (1.0, State::Knows(pages)),
        };
        let target = Target::open(root, std::process::id())?;
        let pagemap = Pagemap::open(&target)?;
        Ok(Self {
            target,
            pagemap,
            limit,
            dry_run,
            share,
            state,
            touched: BTreeSet::new(),
            open: None,
            filling: Vec::new(),
            dense: Vec::new(),
            origins: BTreeMap::new(),
            removed: Vec::new(),
            numbers: Numbers { wanted: limit, dry_run, ..Numbers::default() },
        })
    }

    /// What was done so far.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Tells of a page that was touched.
    pub fn note_touch(&mut self, page: Vpn) {
        self.touched.insert(page);
    }

    /// Does what is due, and gives when to call again. `own` is memory that the calling thread needs.
    ///
    /// # Errors
    /// Where going on makes no sense. Pages are where they belong.
    pub fn step(&mut self, own: &dyn Fn() -> Vec<Span>) -> Result<Instant, LinuxError> {
        let (now, before) = (Instant::now(), clock::thread_cpu());
        match &mut self.state {
            State::Rests(until) | State::Watches { until, .. } if now < *until => {
                return Ok(*until);
            }
            State::Knows(pages) => {
                let given = std::mem::take(pages);
                let movable = self.movable(own)?;
                let pages = difference(&given, &difference(&given, &movable));
                // Without the right to have faults handed over, nothing can be moved either.
                Writes::open().map_err(|errno| self.refused(errno))?;
                self.look(&pages, own)?;
            }
            State::Rests(_) => {
                let mut writes = Writes::open().map_err(|errno| self.refused(errno))?;
                for span in self.movable(own)? {
                    // What is gone, or somebody else's, is not watched.
                    let _ = writes.watch(span);
                }
                writes.take(&mut self.pagemap, &mut Vec::new())?;
                self.state = State::Watches { writes, until: now + WINDOW, first: None };
            }
            State::Watches { writes, until, first: first @ None } => {
                let written = first.insert(Vec::new());
                writes.take(&mut self.pagemap, written)?;
                *until = now + WINDOW;
            }
            State::Watches { writes, first: Some(first), .. } => {
                let (first, mut second) = (std::mem::take(first), Vec::new());
                writes.take(&mut self.pagemap, &mut second)?;
                // The descriptor is closed here: only then can another one have the same memory.
                self.state = State::Rests(now + PAUSE);
                let (first, second) = (joined(first.into_iter()), joined(second.into_iter()));
                let noted: u64 = first.iter().chain(&second).map(|span| span.pages).sum();
                let both = difference(&first, &difference(&first, &second));
                self.look(&both, own)?;
                let own_cost = Duration::from_nanos(clock::thread_cpu().saturating_sub(before).0);
                let cost = WRITE_COST * noted as u32 + own_cost;
                self.state = State::Rests(Instant::now() + PAUSE.max(cost.div_f64(self.share)));
            }
        }
        Ok(match &self.state {
            State::Rests(until) | State::Watches { until, .. } => *until,
            State::Knows(_) => now + PAUSE,
        })
    }

    /// Goes on counting where another one has ended.
    pub fn resume(&mut self, numbers: Numbers) {
        self.numbers = numbers;
    }

    fn refused(&self, errno: i32) -> LinuxError {
        match errno {
            libc_errno::EPERM => LinuxError::Unsupported {
                what: "this process may not take pages out of their places".into(),
                hint: "run it as root, let it read /dev/userfaultfd, or set \
                       vm.unprivileged_userfaultfd to 1"
                    .into(),
            },
            libc_errno::EINVAL | libc_errno::ENOSYS => LinuxError::Unsupported {
                what: "this kernel cannot move pages within a process".into(),
                hint: "use Linux 6.8 or later, with userfaultfd".into(),
            },
            errno => LinuxError::call("userfaultfd", self.target.pid(), errno),
        }
    }

    fn movable(&self, own: &dyn Fn() -> Vec<Span>) -> Result<Vec<Span>, LinuxError> {
        let mut mappings = Vec::new();
        MapsReader::new().read(&self.target, &mut mappings)?;
        let first = self.target.pid();
        let threads = self.target.threads()?.into_iter().filter_map(|tid| {
            let page = Vpn(thread_block(tid)? / PAGE_BYTES);
            Some(ThreadBlock { page, first: tid == first })
        });
        let threads: Vec<ThreadBlock> = threads.collect();
        let mut own = own();
        own.extend(self.open.iter().map(Block::span));
        own.sort_unstable();
        Ok(movable(&mappings, &joined(own.into_iter()), &threads))
    }

    /// Regions in which these pages lie; those that are not in memory are left out.
    fn regions(&mut self, pages: impl Iterator<Item = Vpn>) -> Result<Vec<Hot>, LinuxError> {
        let mut hot = Vec::new();
        for page in pages {
            let entry = self.pagemap.page(page)?;
            if entry.present() {
                let frame = entry.pfn();
                self.numbers.of_memory = frame.is_some();
                let region = frame.unwrap_or(page.0) / u64::from(HUGE_PAGES);
                hot.push(Hot { page, region });
            }
        }
        Ok(hot)
    }

    fn look(&mut self, written: &[Span], own: &dyn Fn() -> Vec<Span>) -> Result<(), LinuxError> {
        let movable_now = self.movable(own)?;
        let touched = std::mem::take(&mut self.touched).into_iter().filter(|page| {
            let at = movable_now.partition_point(|span| span.end() <= *page);
            movable_now.get(at).is_some_and(|span| span.contains(*page))
        });
        let mut pages: BTreeSet<Vpn> = touched.collect();
        pages.extend(written.iter().flat_map(|span| span.iter()));
        let hot = self.regions(pages.iter().copied())?;
        self.numbers.rounds += 1;
        self.numbers.hot_pages = hot.len() as u64;
        let origin = |hot: &Hot| *self.origins.get(&hot.page).unwrap_or(&hot.region);
        let regions: BTreeSet<u64> = hot.iter().map(origin).collect();
        self.numbers.hot_regions_before = regions.len() as u64;
        self.give_up_cold(&hot)?;
        let open = self.open.as_ref().and_then(|block| region_of(block, &mut self.pagemap));
        if open.is_none() {
            self.close();
        }
        let room = self.open.as_ref().map_or(0, |block| HUGE_PAGES as usize - block.filled());
        let (chosen, limit) = choose(&hot, self.limit, open, room);
        self.numbers.limit = limit;
        self.numbers.chosen += chosen.len() as u64;
        if !self.dry_run {
            self.gather(&chosen, &hot, own)?;
        }
        let after = self.regions(pages.into_iter())?;
        self.numbers.hot_regions_after = by_region(&after).len() as u64;
        Ok(())
    }

    fn gather(
        &mut self,
        chosen: &[Vpn],
        hot: &[Hot],
        own: &dyn Fn() -> Vec<Span>,
    ) -> Result<(), LinuxError> {
        let mut rest = chosen;
        let most = if self.numbers.rounds == 1 { usize::MAX } else { MOST_BLOCKS };
        // Ascending, as they were looked up.
        let region =
            |page: &Vpn| Some(hot[hot.binary_search_by_key(page, |hot| hot.page).ok()?].region);
        for _ in 0..most {
            let room = self.open.as_ref().map_or(0, |block| HUGE_PAGES as usize - block.filled());
            let (now, later) =
                rest.split_at(rest.len().min(if room == 0 { HUGE_PAGES as usize } else { room }));
            if now.is_empty() {
                return Ok(());
            }
            rest = later;
            if room == 0 {
                self.close();
            }
            // Threads come and go: who is there is asked as late as can be.
            let movable = self.movable(own)?;
            let missed = self.numbers.no_memory;
            let mut gathering = Gathering {
                target: &self.target,
                pagemap: &mut self.pagemap,
                movable: &movable,
                blocks: &mut Block::new,
                removed: &mut self.removed,
                numbers: &mut self.numbers,
            };
            let moved = gathering.gather(now, &mut self.open)?;
            self.verify(&moved)?;
            for page in &moved {
                if let Some(region) = region(page) {
                    self.origins.entry(*page).or_insert(region);
                }
            }
            self.filling.extend(moved);
            if self.numbers.no_memory > missed {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Counts pages that lie where they should.
    fn verify(&mut self, moved: &[Vpn]) -> Result<(), LinuxError> {
        let filled = self.open.as_ref().map_or(0, Block::filled);
        let first_place = filled.saturating_sub(moved.len()) as u64;
        let mut region = None;
        for (place, page) in (first_place..).zip(moved) {
            let Some(frame) = self.pagemap.page(*page)?.pfn() else { continue };
            let block = frame / u64::from(HUGE_PAGES);
            let in_place = frame % u64::from(HUGE_PAGES) == place;
            let same = *region.get_or_insert(block) == block;
            self.numbers.pages_verified += u64::from(in_place && same);
        }
        Ok(())
    }

    /// The region that was being filled is as full as it gets.
    fn close(&mut self) {
        self.open = None;
        let pages = std::mem::take(&mut self.filling);
        let frame = pages.first().and_then(|page| self.pagemap.page(*page).ok()?.pfn());
        if let Some(frame) = frame {
            self.dense.push(Dense { region: frame / u64::from(HUGE_PAGES), pages, idle: 0 });
        }
    }

    /// Regions in which nothing is hot any more are none of ours from now on, and what is in them is
    /// first to be reclaimed. Where something is hot, but not much, that is gathered elsewhere.
    fn give_up_cold(&mut self, hot: &[Hot]) -> Result<(), LinuxError> {
        let counts = by_region(hot);
        let mut cold = Vec::new();
        self.dense.retain_mut(|dense| {
            dense.idle = if counts.contains_key(&dense.region) { 0 } else { dense.idle + 1 };
            let keep = dense.idle < IDLE_LOOKS;
            if !keep {
                cold.push((dense.region, std::mem::take(&mut dense.pages)));
            }
            keep
        });
        for (region, mut pages) in cold {
            pages.sort_unstable();
            let there = self.regions(pages.into_iter())?;
            let still = there.into_iter().filter(|hot| hot.region == region);
            let spans = joined(still.map(|hot| Span::single(hot.page)));
            if !self.dry_run {
                advise::cold(&self.target, &spans)?;
            }
            spans.iter().flat_map(|span| span.iter()).for_each(|page| {
                self.origins.remove(&page);
            });
            self.numbers.blocks_undone += 1;
        }
        Ok(())
    }
}

/// Error numbers that have a meaning here.
mod libc_errno {
    use rustix::io::Errno;
    pub const EPERM: i32 = Errno::PERM.raw_os_error();
    pub const EINVAL: i32 = Errno::INVAL.raw_os_error();
    pub const ENOSYS: i32 = Errno::NOSYS.raw_os_error();
}
