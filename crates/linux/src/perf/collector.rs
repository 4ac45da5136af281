//! Rings, one for each processor, and the events of watched threads that write to them.
//!
//! A ring belongs to an idle event on our own main thread, so it outlives every watched thread.
//! What watched threads start is watched from its first instruction on, because events are
//! inherited; which threads those are is learnt from records in the same rings, so no thread is
//! ever watched twice.

use super::record::{self, RawSample, Record};
use super::{Cost, Lifecycle, SETTLE_NS, Start, cpu_ns, monotonic_ns};
use crate::error::LinuxError;
use crate::root::Root;
use crate::sys::perf::{self, Attr, Ring};
use crate::topology::parse_list;
use perf_event_open_sys::bindings as sys;
use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The smallest ring that is tried when the kernel refuses a larger one.
const LEAST_RING_BYTES: usize = 16 << 10;

/// An event to open on every watched thread and processor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    pub attr: Attr,
    /// An event that must lead the group; it counts and writes no records.
    pub leader: Option<Attr>,
    /// Condition on the fields of a tracepoint.
    pub filter: Option<CString>,
    /// Processors that have the PMU; none means all.
    pub cpus: Option<Vec<u32>>,
}

impl Spec {
    pub fn of(attr: Attr) -> Self {
        Self { attr, ..Self::default() }
    }
}

#[derive(Debug)]
struct CpuRing {
    cpu: u32,
    anchor: OwnedFd,
    ring: Ring,
    /// Records that have been taken out of it.
    taken: Vec<u8>,
    /// Records that were taken out while those were looked at.
    later: Vec<u8>,
}

/// An open event of a thread, or of all, on a processor.
#[derive(Debug)]
struct Event {
    fd: OwnedFd,
    /// Whether it writes samples, and not only what happens to threads.
    samples: bool,
}

/// Events of a thread that we attached to. Closing them also ends those that were inherited, so
/// they are kept while any descendant lives.
#[derive(Debug)]
struct Attached {
    events: Vec<Event>,
    living: u32,
    /// When they were opened, or their period was last changed. A thread that was started before
    /// has not inherited them as they are.
    since_ns: u64,
    /// There is such a thread.
    mixed: bool,
}

/// Collects the records of events on any number of threads.
#[derive(Debug)]
pub(crate) struct Collector {
    specs: Vec<Spec>,
    rings: Vec<CpuRing>,
    /// Events of all threads of the system; none as long as single threads are watched.
    system_wide: Vec<Event>,
    attached: HashMap<u32, Attached>,
    /// Every watched thread, and the thread whose events it has.
    origin: HashMap<u32, u32>,
    /// Threads that seem unwatched, and the poll after which they first did.
    suspects: HashMap<u32, u64>,
    processes: BTreeSet<u32>,
    /// Processes that watched ones start are none of ours.
    only_threads: bool,
    /// No samples are wanted.
    paused: bool,
    /// Starts and ends of threads, and new programs, that have not been put in order yet.
    unsettled: Vec<Change>,
    lifecycle: Vec<Lifecycle>,
    /// As records in the rings have said. Such a record comes with the next one that fits, which
    /// may be long after.
    lost_by_records: u64,
    /// As the events themselves have said when they were last asked.
    lost_by_events: u64,
    /// Of events that have been closed.
    lost_before: u64,
    cost: Cost,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    time_ns: u64,
    pid: u32,
    tid: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// By this process and thread.
    Started(u32, u32),
    Executed,
    Ended,
}

/// Origin of threads whose parent we do not know because records were lost.
const UNKNOWN: u32 = 0;

impl Collector {
    /// Maps a ring of `ring_bytes` (rounded up to a power of two) for each processor. The first
    /// of `specs` also reports starts and ends of threads and must not be limited to processors.
    ///
    /// # Errors
    /// Where the kernel allows no events at all.
    pub fn new(root: &Root, mut specs: Vec<Spec>, ring_bytes: usize) -> Result<Self, LinuxError> {
        for (i, spec) in specs.iter_mut().enumerate() {
            spec.attr.lifecycle = i == 0;
            spec.attr.count_lost = true;
        }
        let mut rings = Vec::new();
        for cpu in online_cpus(root)? {
            rings.push(CpuRing::open(cpu, ring_bytes)?);
        }
        Ok(Self {
            specs,
            rings,
            system_wide: Vec::new(),
            attached: HashMap::new(),
            origin: HashMap::new(),
            suspects: HashMap::new(),
            processes: BTreeSet::new(),
            only_threads: false,
            paused: false,
            unsettled: Vec::new(),
            lifecycle: Vec::new(),
            lost_by_records: 0,
            lost_by_events: 0,
            lost_before: 0,
            cost: Cost::default(),
        })
    }

    /// Watches every thread of a process. Returns how many there were. Watches the whole system
    /// where descriptors do not suffice and rights do.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] without such a process, [`LinuxError::Unsupported`] where rights or
    /// file descriptors do not suffice.
    pub fn attach(&mut self, root: &Root, pid: u32, start: Start) -> Result<usize, LinuxError> {
        // The list is complete before the first event exists: nobody in it has inherited one.
        let threads = threads(root, pid)?;
        let mut attached = 0;
        for tid in &threads {
            if self.is_system_wide() {
                self.processes.insert(pid);
                return Ok(threads.len());
            }
            if self.origin.contains_key(tid) {
                continue;
            }
            match self.try_attach(*tid, start) {
                Ok(here) => attached += usize::from(here),
                Err(libc::EMFILE | libc::ENFILE) if self.watch_system().is_ok() => {}
                Err(errno) => return Err(refused(pid, errno, self.rings.len())),
            }
        }
        if attached == 0 && !self.processes.contains(&pid) {
            return Err(LinuxError::Gone { pid });
        }
        self.processes.insert(pid);
        Ok(attached)
    }

    /// Watches a process no longer that runs on. Threads whose events others have inherited stay watched, as long as those
    /// run.
    pub fn detach(&mut self, root: &Root, pid: u32) {
        self.processes.remove(&pid);
        for tid in threads(root, pid).unwrap_or_default() {
            if self.attached.get(&tid).is_some_and(|attached| attached.living == 1)
                && let Some(attached) = self.attached.remove(&tid)
            {
                self.lost_before += self.lost_of(&attached.events);
                self.origin.remove(&tid);
            }
        }
    }

    /// Watches no processes that watched ones start, from the next attaching on: somebody else
    /// does.
    pub fn keep_to_threads(&mut self) {
        self.only_threads = true;
        self.inherit_threads(true);
    }

    fn inherit_threads(&mut self, only: bool) {
        for spec in &mut self.specs {
            let attrs = std::iter::once(&mut spec.attr).chain(&mut spec.leader);
            attrs.for_each(|attr| attr.inherit_threads = only);
        }
    }

    /// Includes a process in [`Self::rescan`] that may be watched already by inheritance.
    pub fn follow(&mut self, pid: u32) {
        self.processes.insert(pid);
    }

    /// Watches one thread; false where it has ended.
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub fn attach_thread(&mut self, pid: u32, tid: u32, start: Start) -> Result<bool, LinuxError> {
        self.try_attach(tid, start).map_err(|errno| refused(pid, errno, self.rings.len()))
    }

    fn try_attach(&mut self, tid: u32, start: Start) -> Result<bool, i32> {
        let since_ns = monotonic_ns();
        let events = match self.open_events(tid as i32, start) {
            Err(libc::ESRCH) => return Ok(false),
            events => events?,
        };
        self.attached.insert(tid, Attached { events, living: 1, since_ns, mixed: false });
        self.origin.insert(tid, tid);
        Ok(true)
    }

    /// Watches all threads of the system instead of single ones. Samples of processes that were
    /// not attached to, or started by one that was, are dropped.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] without the right to.
    pub fn watch_system(&mut self) -> Result<(), LinuxError> {
        self.count_lost();
        self.lost_before = self.lost_by_events;
        self.attached.clear();
        self.origin.clear();
        self.system_wide = self
            .open_events(-1, Start::Now)
            .map_err(|errno| refused(0, errno, self.rings.len()))?;
        Ok(())
    }

    /// Whether the whole system is watched.
    pub fn is_system_wide(&self) -> bool {
        !self.system_wide.is_empty()
    }

    fn open_events(&mut self, tid: i32, start: Start) -> Result<Vec<Event>, i32> {
        loop {
            match self.try_open_events(tid, start) {
                Ok(events) => {
                    self.cost.opened += events.len() as u64;
                    return Ok(events);
                }
                // Without rights, what the kernel touches on behalf of programs stays unseen.
                Err(libc::EACCES | libc::EPERM) if self.can_exclude_kernel() => {
                    for spec in &mut self.specs {
                        spec.attr.exclude_kernel = true;
                    }
                }
                // A kernel that does not know it; else it will say the same again.
                Err(libc::EINVAL) if self.specs.iter().any(|spec| spec.attr.count_lost) => {
                    for spec in &mut self.specs {
                        spec.attr.count_lost = false;
                    }
                }
                Err(libc::EINVAL) if self.specs.iter().any(|spec| spec.attr.inherit_threads) => {
                    self.inherit_threads(false);
                }
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Tracepoints are inside the kernel: without it, nothing would be left of them.
    fn can_exclude_kernel(&self) -> bool {
        let inside = |spec: &Spec| spec.attr.pmu == sys::PERF_TYPE_TRACEPOINT;
        !self.excludes_kernel() && !self.specs.iter().any(inside)
    }

    fn try_open_events(&self, tid: i32, start: Start) -> Result<Vec<Event>, i32> {
        let mut events = Vec::new();
        for CpuRing { cpu, anchor, .. } in &self.rings {
            for spec in &self.specs {
                if spec.cpus.as_ref().is_some_and(|cpus| !cpus.contains(cpu)) {
                    continue;
                }
                let mut attr = spec.attr.clone();
                let samples = attr.period > 0;
                let counts = !(samples && self.paused);
                attr.enable_on_exec = counts && start == Start::OnExec;
                attr.disabled = true;
                if tid < 0 {
                    attr.inherit = false;
                }
                let cpu = *cpu as i32;
                let leader = match &spec.leader {
                    Some(leader) => Some(perf::open(leader, tid, cpu, None)?),
                    None => None,
                };
                let event = perf::open(&attr, tid, cpu, leader.as_ref().map(AsFd::as_fd))?;
                if let Some(filter) = &spec.filter {
                    perf::set_filter(event.as_fd(), filter)?;
                }
                perf::redirect(event.as_fd(), anchor.as_fd())?;
                // Only now: a record before this would have had no ring to go to.
                if counts && start == Start::Now {
                    perf::enable(event.as_fd())?;
                }
                events.extend(leader.map(|fd| Event { fd, samples: false }));
                events.push(Event { fd: event, samples });
            }
        }
        Ok(events)
    }

    /// Samples one in `period` events from now on; none for `None`, while starts and ends of threads
    /// are still learnt. Events stay open, but where threads have inherited theirs: the kernel changes
    /// the period of those no more, so they get events of their own.
    ///
    /// # Errors
    /// As [`Self::attach`]; threads that have ended are forgotten instead.
    pub fn set_period(&mut self, period: Option<NonZeroU64>) -> Result<(), LinuxError> {
        self.paused = period.is_none();
        let Some(period) = period else {
            return self.of_samples(|event| perf::disable(event.fd.as_fd()));
        };
        for spec in self.specs.iter_mut().filter(|spec| spec.attr.period > 0) {
            spec.attr.period = period.get();
        }
        self.reopen(|attached| attached.living > 1 || attached.mixed)?;
        self.of_samples(|event| {
            perf::set_period(event.fd.as_fd(), period.get())?;
            perf::enable(event.fd.as_fd())
        })?;
        let since_ns = monotonic_ns();
        self.attached.values_mut().for_each(|attached| attached.since_ns = since_ns);
        Ok(())
    }

    fn of_samples(&self, change: impl Fn(&Event) -> Result<(), i32>) -> Result<(), LinuxError> {
        let attached = self.attached.values().flat_map(|attached| &attached.events);
        let mut events = attached.chain(&self.system_wide).filter(|event| event.samples);
        events.try_for_each(change).map_err(|errno| LinuxError::call("ioctl of an event", 0, errno))
    }

    /// Gives each thread that has inherited events of such a one events of its own.
    fn reopen(&mut self, which: impl Fn(&Attached) -> bool) -> Result<(), LinuxError> {
        let origins: BTreeSet<u32> = self
            .attached
            .iter()
            .filter_map(|(tid, attached)| which(attached).then_some(*tid))
            .collect();
        if origins.is_empty() {
            return Ok(());
        }
        for origin in &origins {
            if let Some(attached) = self.attached.remove(origin) {
                self.lost_before += self.lost_of(&attached.events);
            }
        }
        let mut threads = Vec::new();
        self.origin.retain(|tid, origin| {
            let theirs = origins.contains(origin);
            if theirs {
                threads.push(*tid);
            }
            !theirs
        });
        for tid in threads {
            // The end of a thread that is gone will be told of one that is not known any more.
            match self.try_attach(tid, Start::Now) {
                Err(libc::EMFILE | libc::ENFILE) if self.watch_system().is_ok() => break,
                Err(errno) => return Err(refused(tid, errno, self.rings.len())),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Whether what the kernel does for a program, such as `read(2)` into a page, stays unseen.
    pub fn excludes_kernel(&self) -> bool {
        self.specs.iter().all(|spec| spec.attr.exclude_kernel)
    }

    /// Attaches to threads that were started between the listing of threads and our attaching to
    /// their parents. A thread counts as missed when two rescans with a poll between them have
    /// seen it without a record of its start. Returns how many there were.
    ///
    /// # Errors
    /// As [`Self::attach`]; processes that have ended are forgotten instead.
    pub fn rescan(&mut self, root: &Root) -> Result<usize, LinuxError> {
        self.count_lost();
        self.reopen(|attached| attached.mixed)?;
        let mut missed = 0;
        let before = std::mem::take(&mut self.suspects);
        for pid in self.processes.clone() {
            let Ok(threads) = threads(root, pid) else {
                self.processes.remove(&pid);
                continue;
            };
            for tid in threads {
                if self.is_system_wide() || self.origin.contains_key(&tid) {
                    continue;
                }
                let since = before.get(&tid).copied().unwrap_or(self.cost.polls);
                if since < self.cost.polls {
                    missed += usize::from(self.attach_thread(pid, tid, Start::Now)?);
                } else {
                    self.suspects.insert(tid, since);
                }
            }
        }
        Ok(missed)
    }

    /// Hands all samples that have come in to `sink`. They are in order within a processor, not
    /// across.
    pub fn poll(&mut self, mut sink: impl FnMut(&RawSample<'_>)) {
        let begin_ns = cpu_ns();
        let settled_ns = monotonic_ns().saturating_sub(SETTLE_NS);
        let sample_type = self.specs.first().map_or(0, |spec| spec.attr.sample_type);
        for ring in &mut self.rings {
            self.cost.malformed += u64::from(ring.ring.take(&mut ring.taken).is_err());
        }
        if self.is_system_wide() {
            self.note_births(sample_type);
        }
        for at in 0..self.rings.len() {
            let mut taken = std::mem::take(&mut self.rings[at].taken);
            self.cost.bytes += taken.len() as u64;
            let malformed = record::for_each(&taken, sample_type, |record| match record {
                Record::Sample(sample) if self.concerns_us(sample.pid) => {
                    self.cost.samples += 1;
                    sink(&sample);
                }
                other => self.note(other),
            });
            self.cost.malformed += malformed;
            taken.clear();
            let ring = &mut self.rings[at];
            ring.taken = std::mem::replace(&mut ring.later, taken);
        }
        self.settle(settled_ns);
        self.cost.polls += 1;
        self.cost.busy_ns += cpu_ns().saturating_sub(begin_ns);
    }

    /// Where single threads are watched, nothing else comes in.
    fn concerns_us(&self, pid: u32) -> bool {
        !self.is_system_wide() || self.processes.contains(&pid)
    }

    /// Adds children of our processes to them. Looks at every ring once more for that: when a
    /// child's first sample has been taken out of one ring, the record of its start may have come
    /// into another one after that was read.
    fn note_births(&mut self, sample_type: u64) {
        let mut births = Vec::new();
        for ring in &mut self.rings {
            self.cost.malformed += u64::from(ring.ring.take(&mut ring.later).is_err());
            for records in [&ring.taken, &ring.later] {
                record::for_each(records, sample_type, |record| {
                    if let Record::Forked { pid, parent_pid, .. } = record
                        && pid != parent_pid
                    {
                        births.push((parent_pid, pid));
                    }
                });
            }
        }
        // The record of a grandchild may stand before that of its parent.
        let mut before = usize::MAX;
        while births.len() < before {
            before = births.len();
            births.retain(|(parent, child)| {
                let ours = self.processes.contains(parent);
                if ours {
                    self.processes.insert(*child);
                }
                !ours
            });
        }
    }

    fn note(&mut self, record: Record<'_>) {
        match record {
            Record::Forked { pid, tid, parent_pid, parent_tid, time_ns } => {
                let what = What::Started(parent_pid, parent_tid);
                self.unsettled.push(Change { time_ns, pid, tid, what });
            }
            Record::Exited { pid, tid, time_ns } => {
                self.unsettled.push(Change { time_ns, pid, tid, what: What::Ended });
            }
            Record::Executed { pid, time_ns } if self.concerns_us(pid) => {
                self.unsettled.push(Change { time_ns, pid, tid: pid, what: What::Executed });
            }
            Record::Lost(records) => {
                self.lost_by_records = self.lost_by_records.saturating_add(records);
            }
            Record::Executed { .. } | Record::Sample(_) | Record::Other => {}
        }
    }

    /// Takes account of what happened up to `until_ns`. Later ones wait: another ring may hold
    /// an earlier one that had not been written yet when that ring was read.
    fn settle(&mut self, until_ns: u64) {
        self.unsettled.sort_by_key(|change| change.time_ns);
        let settled = self.unsettled.partition_point(|change| change.time_ns <= until_ns);
        let changes: Vec<_> = self.unsettled.drain(..settled).collect();
        for change in changes {
            let Change { time_ns, pid, .. } = change;
            match change.what {
                What::Started(parent, parent_tid) => self.started(change, (parent, parent_tid)),
                What::Executed => self.lifecycle.push(Lifecycle::Executed { pid, time_ns }),
                What::Ended => self.ended(change),
            }
        }
    }

    fn started(&mut self, change: Change, (parent, parent_tid): (u32, u32)) {
        let Change { time_ns, pid, tid, .. } = change;
        if !self.concerns_us(parent) || (self.only_threads && pid != parent) {
            return;
        }
        let origin = self.origin.get(&parent_tid).copied().unwrap_or(UNKNOWN);
        let attached = self.attached.get_mut(&origin);
        let inherits = attached.is_none_or(|attached| {
            let inherits = time_ns >= attached.since_ns;
            attached.living += u32::from(inherits);
            attached.mixed |= !inherits;
            inherits
        });
        // One that does not will be found as those are that slipped through.
        if inherits && !self.is_system_wide() {
            self.origin.insert(tid, origin);
        }
        if pid != parent {
            self.processes.insert(pid);
            self.lifecycle.push(Lifecycle::Forked { parent, child: pid, time_ns });
        }
    }

    fn ended(&mut self, change: Change) {
        let Change { time_ns, pid, tid, .. } = change;
        if let Some(origin) = self.origin.remove(&tid)
            && let Some(attached) = self.attached.get_mut(&origin)
        {
            attached.living -= 1;
            if attached.living == 0
                && let Some(attached) = self.attached.remove(&origin)
            {
                self.lost_before += self.lost_of(&attached.events);
            }
        }
        if pid == tid && self.concerns_us(pid) {
            self.lifecycle.push(Lifecycle::Exited { pid, time_ns });
        }
    }

    /// What has happened to watched processes since the last call.
    pub fn take_lifecycle(&mut self) -> Vec<Lifecycle> {
        std::mem::take(&mut self.lifecycle)
    }

    /// Asks all events how many records were lost. Takes about a microsecond for each thread and
    /// processor.
    fn count_lost(&mut self) {
        let attached = self.attached.values().map(|attached| &attached.events);
        let open: u64 = attached.chain([&self.system_wide]).map(|fds| self.lost_of(fds)).sum();
        self.lost_by_events = self.lost_before + open;
    }

    /// Inherited events count for those that they were inherited from.
    fn lost_of(&self, events: &[Event]) -> u64 {
        if !self.specs.iter().all(|spec| spec.attr.count_lost) {
            return 0;
        }
        let lost = |event: &Event| {
            let mut count_and_lost = [0; 16];
            let read = rustix::io::read(&event.fd, &mut count_and_lost);
            let lost = <[u8; 8]>::try_from(&count_and_lost[8..]).unwrap_or_default();
            if read == Ok(16) { u64::from_ne_bytes(lost) } else { 0 }
        };
        events.iter().map(lost).sum()
    }

    /// Records that did not fit into a ring, as far as is known: exact after each
    /// [`Self::rescan`], else the kernel says so with the next record that fits into the ring.
    pub fn lost(&self) -> u64 {
        self.lost_by_records.max(self.lost_by_events)
    }

    /// What collecting has cost us.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Bytes of all rings.
    pub fn ring_bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.ring.data_bytes()).sum()
    }

    /// Threads that are watched one by one.
    pub fn threads(&self) -> usize {
        self.origin.len()
    }

    #[cfg(test)]
    pub fn attached(&self) -> usize {
        self.attached.len()
    }

    /// Descriptors that become readable when a quarter of their ring is unread.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.rings.iter().map(|ring| ring.anchor.as_fd()).collect()
    }
}

impl CpuRing {
    /// An event that never happens, on our own main thread, and the ring of its processor.
    fn open(cpu: u32, ring_bytes: usize) -> Result<Self, LinuxError> {
        let attr = Attr {
            pmu: sys::PERF_TYPE_SOFTWARE,
            config: sys::PERF_COUNT_SW_DUMMY.into(),
            exclude_kernel: true,
            wake_bytes: (ring_bytes / 4) as u32,
            ..Attr::default()
        };
        let own = std::process::id();
        let anchor = perf::open(&attr, own as i32, cpu as i32, None)
            .map_err(|errno| refused(own, errno, 1))?;
        let mut bytes = ring_bytes;
        let ring = loop {
            match Ring::map(anchor.as_fd(), bytes) {
                Ok(ring) => break ring,
                Err(libc::EPERM | libc::ENOMEM) if bytes > LEAST_RING_BYTES => bytes /= 2,
                Err(errno) => return Err(refused(own, errno, 1)),
            }
        };
        Ok(Self { cpu, anchor, ring, taken: Vec::new(), later: Vec::new() })
    }
}

fn refused(pid: u32, errno: i32, cpus: usize) -> LinuxError {
    let who = if pid == 0 { "the system".into() } else { format!("process {pid}") };
    match errno {
        libc::EACCES | libc::EPERM => LinuxError::Unsupported {
            what: format!("no right to watch {who} by performance events"),
            hint: "run as root or with CAP_PERFMON and CAP_SYS_PTRACE; for processes of the same \
                   user, `sysctl kernel.perf_event_paranoid=2` suffices"
                .into(),
        },
        libc::EMFILE | libc::ENFILE => LinuxError::Unsupported {
            what: format!(
                "too few file descriptors to watch {who}: each thread takes one for each of \
                 {cpus} processors and each event"
            ),
            hint: "raise the limit, for example with `ulimit -n 1048576`".into(),
        },
        errno => LinuxError::call("perf_event_open", pid, errno),
    }
}

fn threads(root: &Root, pid: u32) -> Result<Vec<u32>, LinuxError> {
    let names = root.list(format!("/proc/{pid}/task"))?;
    let threads: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    if threads.is_empty() { Err(LinuxError::Gone { pid }) } else { Ok(threads) }
}

fn online_cpus(root: &Root) -> Result<Vec<u32>, LinuxError> {
    let path = "/sys/devices/system/cpu/online";
    parse_list(&root.read(path)?).ok_or_else(|| LinuxError::Malformed {
        path: root.path(path),
        what: "no list of processors".into(),
    })
}
