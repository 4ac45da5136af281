//! Accesses sampled by the processor itself, where it can: Intel's load latency, load miss and
//! store events, AMD's instruction based sampling.
//!
//! What a processor has and how its events are encoded is read from
//! `/sys/bus/event_source/devices` (`Documentation/ABI/testing/sysfs-bus-event_source-devices-*`).

use super::record::RawSample;
use super::{Collector, Cost, Lifecycle, RING_BYTES, Spec, Start};
use crate::error::LinuxError;
use crate::root::Root;
use crate::sys::perf::Attr;
use crate::topology::parse_list;
use frostline_core::event::SampleKind;
use perf_event_open_sys::bindings as sys;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::os::fd::BorrowedFd;

const DEVICES: &str = "/sys/bus/event_source/devices";
/// Loads that took fewer cycles than this were served by a cache: the latency of the last level
/// is 40 to 80 cycles, that of memory 200 and more.
const LEAST_LATENCY_CYCLES: u64 = 100;
/// Micro-operations that IBS counts for one miss that a period is meant for: it counts all of them,
/// also where it reports misses only. Programs that memory slows down miss the last level two to
/// five times in a thousand. A multiple of 16: in such steps IBS takes its periods.
const MICRO_OPS_PER_MISS: u64 = 256;
/// The longest period that IBS takes: 27 bits, the lowest four always 0
/// (`arch/x86/include/asm/perf_event.h`).
const IBS_MOST: u64 = (1 << 27) - 16;
const FIELDS: u64 = (sys::PERF_SAMPLE_TID
    | sys::PERF_SAMPLE_TIME
    | sys::PERF_SAMPLE_ADDR
    | sys::PERF_SAMPLE_WEIGHT
    | sys::PERF_SAMPLE_DATA_SRC
    | sys::PERF_SAMPLE_PHYS_ADDR) as u64;

/// What a source samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PmuKind {
    /// Intel: loads that took long (`mem-loads`), one in a period of loads.
    IntelLoadLatency,
    /// Intel: loads that missed the last-level cache, one in a period of such misses.
    IntelLoadMiss,
    /// Intel: stores (`mem-stores`), one in a period of stores.
    IntelStore,
    /// AMD: one in so many micro-operations, loads and stores among them.
    AmdIbs,
    /// AMD from Zen 4: likewise, of which only loads that missed the last-level cache are reported.
    AmdIbsMiss,
}

/// A way to sample that this processor offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuSource {
    /// What it samples.
    pub kind: PmuKind,
    /// Name of the device, such as `cpu`, `cpu_core` or `ibs_op`.
    pub device: String,
    /// The event, without its period.
    attr: Attr,
    leader: Option<Attr>,
    cpus: Option<Vec<u32>>,
}

/// All sources that this processor offers, the best for each maker first. Empty in most virtual
/// machines.
///
/// # Errors
/// Where a file of a device has contents of another form.
pub fn sources(root: &Root) -> Result<Vec<PmuSource>, LinuxError> {
    let mut found = Vec::new();
    for name in root.list(DEVICES)? {
        let device = Device { root, name: &name };
        if matches!(name.as_str(), "cpu" | "cpu_core" | "cpu_atom") {
            found.extend(intel(&device)?);
        } else if name == "ibs_op" {
            found.extend(amd(&device)?);
        }
    }
    Ok(found)
}

/// Devices for sampling by AUX records (Arm's Statistical Profiling Extension), which are not read
/// here.
///
/// # Errors
/// Where devices cannot be listed.
pub fn unread_devices(root: &Root) -> Result<Vec<String>, LinuxError> {
    let mut names = root.list(DEVICES)?;
    names.retain(|name| name.starts_with("arm_spe"));
    Ok(names)
}

/// Below `mem-loads` there is no sampling of addresses at all on Intel's processors.
fn intel(device: &Device<'_>) -> Result<Vec<PmuSource>, LinuxError> {
    let Some(loads) = device.event("mem-loads")? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let precise = device.read("caps/max_precise")?.and_then(|text| text.parse().ok()).unwrap_or(2);
    let source = |kind, terms: &str, leader| -> Result<PmuSource, LinuxError> {
        let attr = Attr { precise: precise.min(2), ..device.encode(terms)? };
        let cpus = device.cpus()?;
        Ok(PmuSource { kind, device: device.name.to_owned(), attr, leader, cpus })
    };
    // Only these have the event by this number; the small cores of hybrids count differently.
    if device.name != "cpu_atom" && precise >= 2 {
        found.push(source(PmuKind::IntelLoadMiss, "event=0xd1,umask=0x20", None)?);
    }
    let leader = match device.event("mem-loads-aux")? {
        Some(terms) => Some(device.encode(&terms)?),
        None => None,
    };
    let slow = format!("{loads},ldlat={LEAST_LATENCY_CYCLES}");
    found.push(source(PmuKind::IntelLoadLatency, &slow, leader)?);
    if let Some(stores) = device.event("mem-stores")? {
        found.push(source(PmuKind::IntelStore, &stores, None)?);
    }
    Ok(found)
}

fn amd(device: &Device<'_>) -> Result<Vec<PmuSource>, LinuxError> {
    let source = |kind, terms: &str| -> Result<PmuSource, LinuxError> {
        let attr = device.encode(terms)?;
        let device = device.name.to_owned();
        Ok(PmuSource { kind, device, attr, leader: None, cpus: None })
    };
    let mut found = Vec::new();
    let zen4 = device.read("caps/zen4_ibs_extensions")?.is_some_and(|text| text != "0");
    if zen4 && device.read("format/l3missonly")?.is_some() {
        found.push(source(PmuKind::AmdIbsMiss, "cnt_ctl=1,l3missonly=1")?);
    }
    found.push(source(PmuKind::AmdIbs, "cnt_ctl=1")?);
    Ok(found)
}

/// A device's folder.
struct Device<'a> {
    root: &'a Root,
    name: &'a str,
}

impl Device<'_> {
    fn path(&self, file: &str) -> String {
        format!("{DEVICES}/{}/{file}", self.name)
    }

    fn read(&self, file: &str) -> Result<Option<String>, LinuxError> {
        self.root.read_optional(self.path(file))
    }

    fn event(&self, name: &str) -> Result<Option<String>, LinuxError> {
        self.read(&format!("events/{name}"))
    }

    fn malformed(&self, file: &str, what: String) -> LinuxError {
        LinuxError::Malformed { path: self.root.path(self.path(file)), what }
    }

    /// Processors that have the device; none means all.
    fn cpus(&self) -> Result<Option<Vec<u32>>, LinuxError> {
        let Some(text) = self.read("cpus")? else { return Ok(None) };
        let cpus = parse_list(&text);
        cpus.map(Some).ok_or_else(|| self.malformed("cpus", format!("'{text}' is no list")))
    }

    /// The event that terms such as `event=0xcd,umask=0x1` describe; later terms replace earlier
    /// ones. Each goes into the bits that the device's `format` folder names for it.
    fn encode(&self, terms: &str) -> Result<Attr, LinuxError> {
        let kind = self.read("type")?.and_then(|text| text.parse().ok());
        let pmu = kind.ok_or_else(|| self.malformed("type", "no number".into()))?;
        let mut attr = Attr { pmu, ..Attr::default() };
        for term in terms.split(',') {
            let (name, value) = term.split_once('=').unwrap_or((term, "1"));
            let value = number(value)
                .ok_or_else(|| self.malformed("events", format!("'{term}' has no number")))?;
            let file = format!("format/{name}");
            let format =
                self.read(&file)?.ok_or_else(|| self.malformed(&file, "is missing".into()))?;
            let odd = || self.malformed(&file, format!("'{format}' names no bits"));
            let (word, bits) = format.split_once(':').ok_or_else(odd)?;
            let word = match word {
                "config" => &mut attr.config,
                "config1" => &mut attr.config1,
                "config2" => &mut attr.config2,
                _ => return Err(odd()),
            };
            *word = spread(*word, value, bits).ok_or_else(odd)?;
        }
        Ok(attr)
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `word` with the low bits of `value` in the bits that are listed, such as `0-7,32`, and with
/// what was there before cleared.
fn spread(mut word: u64, value: u64, bits: &str) -> Option<u64> {
    for (i, bit) in parse_list(bits)?.into_iter().enumerate() {
        let mask = 1u64.checked_shl(bit)?;
        let set = value.checked_shr(i as u32).unwrap_or(0) & 1 != 0;
        word = if set { word | mask } else { word & !mask };
    }
    Some(word)
}

/// A sampled access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmuSample {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Virtual address.
    pub address: u64,
    /// Physical address, for who may know it.
    pub physical: Option<u64>,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Whether it was a load or a store.
    pub kind: SampleKind,
    /// What served it, where the processor says so.
    pub served_by: ServedBy,
    /// Whether no TLB had its translation, where the processor says so.
    pub walked: Option<bool>,
    /// Cycles that a load took, where the processor says so; else 0.
    pub cycles: u64,
}

/// What served an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServedBy {
    /// A cache, also another processor's.
    Cache,
    /// Memory of the nearest node.
    LocalMemory,
    /// Memory of another node.
    RemoteMemory,
    /// Memory behind CXL.
    Cxl,
    /// Persistent memory.
    Persistent,
    /// The processor does not say.
    Unknown,
}

impl ServedBy {
    /// Whether the access missed all caches; none where the processor does not say.
    pub fn missed(self) -> Option<bool> {
        match self {
            Self::Cache => Some(false),
            Self::Unknown => None,
            Self::LocalMemory | Self::RemoteMemory | Self::Cxl | Self::Persistent => Some(true),
        }
    }
}

/// Bit fields of `union perf_mem_data_src` (`linux/perf_event.h`).
#[derive(Clone, Copy)]
struct DataSource(u64);

impl DataSource {
    fn bits(self, first: u32, count: u32) -> u64 {
        self.0 >> first & ((1 << count) - 1)
    }

    fn is_store(self) -> bool {
        self.bits(0, 5) & u64::from(sys::PERF_MEM_OP_STORE) != 0
    }

    fn is_load(self) -> bool {
        self.bits(0, 5) & u64::from(sys::PERF_MEM_OP_LOAD) != 0
    }

    /// Both bits, or none of them, say nothing.
    fn walked(self) -> Option<bool> {
        let tlb = self.bits(26, 7) as u32;
        let is = |bit: u32| tlb & bit != 0;
        match (is(sys::PERF_MEM_TLB_MISS), is(sys::PERF_MEM_TLB_HIT)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }

    fn served_by(self) -> ServedBy {
        let level = self.bits(5, 14) as u32;
        let remote = self.bits(37, 1) != 0;
        match self.bits(33, 4) as u32 {
            sys::PERF_MEM_LVLNUM_CXL => return ServedBy::Cxl,
            sys::PERF_MEM_LVLNUM_PMEM => return ServedBy::Persistent,
            sys::PERF_MEM_LVLNUM_RAM if remote => return ServedBy::RemoteMemory,
            sys::PERF_MEM_LVLNUM_RAM => return ServedBy::LocalMemory,
            sys::PERF_MEM_LVLNUM_L1
            | sys::PERF_MEM_LVLNUM_L2
            | sys::PERF_MEM_LVLNUM_L3
            | sys::PERF_MEM_LVLNUM_L4
            | sys::PERF_MEM_LVLNUM_LFB
            | sys::PERF_MEM_LVLNUM_ANY_CACHE => return ServedBy::Cache,
            _ => {}
        }
        let any = |bits: u32| level & bits != 0;
        if any(sys::PERF_MEM_LVL_LOC_RAM) {
            ServedBy::LocalMemory
        } else if any(sys::PERF_MEM_LVL_REM_RAM1 | sys::PERF_MEM_LVL_REM_RAM2) {
            ServedBy::RemoteMemory
        } else if any(sys::PERF_MEM_LVL_HIT) {
            ServedBy::Cache
        } else {
            ServedBy::Unknown
        }
    }
}

impl PmuSample {
    /// None for what is no access to user memory: sampled micro-operations of other kinds, and
    /// the kernel's own memory.
    fn of(kind: PmuKind, raw: &RawSample<'_>) -> Option<Self> {
        let source = DataSource(raw.data_source);
        let is_store = source.is_store() || kind == PmuKind::IntelStore;
        let says_load = match kind {
            PmuKind::AmdIbs | PmuKind::AmdIbsMiss => source.is_load(),
            _ => true,
        };
        let in_user_half = raw.address != 0 && raw.address >> 63 == 0;
        if !in_user_half || !(is_store || says_load) {
            return None;
        }
        Some(Self {
            pid: raw.pid,
            tid: raw.tid,
            address: raw.address,
            physical: (raw.physical != 0).then_some(raw.physical),
            time_ns: raw.time_ns,
            kind: if is_store { SampleKind::Store } else { SampleKind::LoadMiss },
            served_by: source.served_by(),
            walked: source.walked(),
            cycles: raw.weight,
        })
    }
}

impl fmt::Display for PmuSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device)?;
        if self.counts_micro_ops() {
            write!(
                f,
                ", which counts micro-operations, taken as {MICRO_OPS_PER_MISS} for one miss"
            )?;
        }
        Ok(())
    }
}

impl PmuSource {
    fn counts_micro_ops(&self) -> bool {
        matches!(self.kind, PmuKind::AmdIbs | PmuKind::AmdIbsMiss)
    }

    /// What the processor has to count for one sample in `period` accesses of this kind, in the unit
    /// of the event: those accesses on Intel's, micro-operations on AMD's.
    fn events(&self, period: NonZeroU32) -> NonZeroU64 {
        if !self.counts_micro_ops() {
            return period.into();
        }
        let micro_ops = u64::from(period.get()).saturating_mul(MICRO_OPS_PER_MISS).min(IBS_MOST);
        NonZeroU64::new(micro_ops).unwrap_or(period.into())
    }

    /// The events to open on each thread and processor. First an event that never happens, which
    /// tells of starts and ends of threads on all processors.
    fn specs(&self, period: NonZeroU32) -> Vec<Spec> {
        let watch = Attr {
            pmu: sys::PERF_TYPE_SOFTWARE,
            config: sys::PERF_COUNT_SW_DUMMY.into(),
            sample_type: FIELDS,
            inherit: true,
            ..Attr::default()
        };
        let period = self.events(period).get();
        let attr = Attr { period, sample_type: FIELDS, inherit: true, ..self.attr.clone() };
        let leader = self.leader.clone().map(|leader| Attr { inherit: true, ..leader });
        let sampling = Spec { attr, leader, filter: None, cpus: self.cpus.clone() };
        vec![Spec::of(watch), sampling]
    }
}

/// Samples accesses of the processes it watches.
#[derive(Debug)]
pub struct PmuSampler {
    collector: Collector,
    source: PmuSource,
}

impl PmuSampler {
    /// A sampler that watches nobody yet; one sample in `period` accesses of its kind, which is an
    /// estimate where the processor counts something else (IBS: 256 micro-operations for one).
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where the kernel allows no performance events.
    pub fn new(root: &Root, source: &PmuSource, period: NonZeroU32) -> Result<Self, LinuxError> {
        let collector = Collector::new(root, source.specs(period), RING_BYTES)?;
        Ok(Self { collector, source: source.clone() })
    }

    /// What it samples by.
    pub fn source(&self) -> &PmuSource {
        &self.source
    }

    /// Takes one sample in `period` accesses from now on; `None` takes none until the next call.
    /// Nobody goes unwatched meanwhile.
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub fn set_period(&mut self, period: Option<NonZeroU32>) -> Result<(), LinuxError> {
        self.collector.set_period(period.map(|period| self.source.events(period)))
    }

    /// Watches all threads of a process and all that they will start. Where the device can only
    /// watch the whole system (AMD before Linux 6.6), that is done, and others' samples are
    /// dropped.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] without such a process, [`LinuxError::Unsupported`] where rights or
    /// file descriptors do not suffice.
    pub fn attach(&mut self, root: &Root, pid: u32, start: Start) -> Result<usize, LinuxError> {
        match self.collector.attach(root, pid, start) {
            Err(error) if error.errno() == Some(libc::EINVAL) => {
                self.collector.watch_system()?;
                self.collector.attach(root, pid, start)
            }
            other => other,
        }
    }

    /// Watches a process no longer that runs on. Threads whose events others have inherited stay watched, as long as those
    /// run.
    pub fn detach(&mut self, root: &Root, pid: u32) {
        self.collector.detach(root, pid);
    }

    /// Hands all samples that have come in to `sink`: in order within a processor, not across.
    pub fn poll(&mut self, sink: &mut impl FnMut(PmuSample)) {
        let kind = self.source.kind;
        self.collector.poll(|raw| {
            if let Some(sample) = PmuSample::of(kind, raw) {
                sink(sample);
            }
        });
    }

    /// As [`super::faults::FaultSampler::keep_to_threads`].
    pub fn keep_to_threads(&mut self) {
        self.collector.keep_to_threads();
    }

    /// As [`super::faults::FaultSampler::follow`].
    pub fn follow(&mut self, pid: u32) {
        self.collector.follow(pid);
    }

    /// As [`super::faults::FaultSampler::rescan`].
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub fn rescan(&mut self, root: &Root) -> Result<usize, LinuxError> {
        self.collector.rescan(root)
    }

    /// What has happened to watched processes, up to the last [`Self::poll`].
    pub fn take_lifecycle(&mut self) -> Vec<Lifecycle> {
        self.collector.take_lifecycle()
    }

    /// Records that did not fit into a ring.
    pub fn lost(&self) -> u64 {
        self.collector.lost()
    }

    /// What sampling has cost us.
    pub fn cost(&self) -> Cost {
        self.collector.cost()
    }

    /// Descriptors that become readable when a quarter of a ring is unread.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.collector.fds()
    }
}

#[cfg(test)]
#[path = "pmu_tests.rs"]
mod tests;
