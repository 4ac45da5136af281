//! The memory that the lab's emulated machine shares with programs in it: samples like those of a
//! processor's sampling unit, and what the machine must know of its guest. `docs/reference/formats/lab-memory.md`
//! is its layout.

use crate::error::LinuxError;
use crate::root::Root;
use crate::sys::words::SharedWords;
use frostline_core::event::SampleKind;
use std::fs::OpenOptions;
use std::sync::atomic::{AtomicU64, Ordering};

const DEVICES: &str = "/sys/bus/pci/devices";
/// Inter-VM shared memory (QEMU, `docs/specs/ivshmem-spec.rst`).
const VENDOR: &str = "0x1af4";
const DEVICE: &str = "0x1110";

const MAGIC: u64 = 0x0042_414c_5453_4f46;
const VERSION: u64 = 1;
const RECORD_WORDS: usize = 4;
/// Where records begin, in words.
const RECORDS: usize = 4096 / 8;

/// Nodes' ranges that fit.
pub const MAX_RANGES: usize = 16;

/// Words of the header.
mod at {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    pub const CAPACITY: usize = 2;
    pub const PUBLISHED: usize = 8;
    pub const OWN: usize = 9;
    pub const CURRENT_TASK: usize = 11;
    pub const OFFSETS: usize = 12;
    pub const RANGES: usize = 13;
    pub const RANGE: usize = 16;
    pub const LOAD_PERIOD: usize = 64;
    pub const STORE_PERIOD: usize = 65;
    pub const MARK: usize = 66;
    pub const HEAD: usize = 72;
    pub const LOST: usize = 73;
    pub const TAIL: usize = 80;
}

/// Physical memory of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRange {
    /// First byte.
    pub start: u64,
    /// Byte after the last one.
    pub end: u64,
    /// Node.
    pub node: u32,
}

/// What the machine must know to count accesses by process and node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Where nodes are; at most [`MAX_RANGES`].
    pub ranges: Vec<NodeRange>,
    /// Offset of the pointer to the running task in a processor's own area.
    pub current_task: u64,
    /// Offset of the process's number in a task.
    pub tgid_offset: u32,
    /// Offset of its name.
    pub comm_offset: u32,
}

/// A sampled access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabSample {
    /// Time of the machine when its processor last looked at its timers, in ns since it started.
    pub time_ns: u64,
    /// Address in the process.
    pub address: u64,
    /// Physical address in the guest.
    pub physical: u64,
    /// Process; 0 for the kernel's own memory.
    pub pid: u32,
    /// Node that served it.
    pub node: u16,
    /// A load that missed the last-level cache, or a retired store.
    pub kind: SampleKind,
}

/// The shared memory.
#[derive(Debug)]
pub struct LabMemory {
    words: SharedWords,
    /// Where the guest's processors see it.
    own: (u64, u64),
    records: usize,
}

impl LabMemory {
    /// Finds the lab's device; `None` where this is no guest of the lab.
    ///
    /// # Errors
    /// Where there is one that cannot be mapped or speaks another version.
    pub fn find(root: &Root) -> Result<Option<Self>, LinuxError> {
        for device in root.list(DEVICES)? {
            let file = |name: &str| format!("{DEVICES}/{device}/{name}");
            let is = |name: &str, wanted: &str| -> Result<bool, LinuxError> {
                Ok(root.read_optional(file(name))?.is_some_and(|text| text == wanted))
            };
            if is("vendor", VENDOR)?
                && is("device", DEVICE)?
                && let Some(found) = Self::open(root, &file("resource"), &file("resource2"))?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn open(root: &Root, resources: &str, memory: &str) -> Result<Option<Self>, LinuxError> {
        let malformed = |path: &str, what: &str| LinuxError::Malformed {
            path: root.path(path),
            what: what.to_owned(),
        };
        let text = root.read(resources)?;
        let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let own = text.lines().nth(2).and_then(|line| {
            let mut words = line.split_whitespace().map(number);
            Some((words.next()??, words.next()??.checked_add(1)?))
        });
        let (start, end) = own
            .filter(|(start, end)| end > start)
            .ok_or_else(|| malformed(resources, "no third range"))?;
        let path = root.path(memory);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|error| LinuxError::io("open", &path, &error))?;
        let bytes = usize::try_from(end - start).unwrap_or(0);
        let words = SharedWords::map(&file, bytes).map_err(|errno| {
            LinuxError::io("map", &path, &std::io::Error::from_raw_os_error(errno))
        })?;
        let Some(header) = words.get(0..RECORDS) else { return Ok(None) };
        let word = |at: usize| header[at].load(Ordering::Acquire);
        if word(at::MAGIC) != MAGIC {
            return Ok(None);
        }
        if word(at::VERSION) != VERSION | (8 * RECORD_WORDS as u64) << 32 {
            return Err(malformed(memory, "another version of the lab's memory"));
        }
        let records = usize::try_from(word(at::CAPACITY)).unwrap_or(0);
        let fits = records.checked_mul(RECORD_WORDS).and_then(|n| n.checked_add(RECORDS));
        if !records.is_power_of_two() || fits.is_none_or(|end| end > words.all().len()) {
            return Err(malformed(memory, "a ring that is larger than the memory"));
        }
        Ok(Some(Self { words, own: (start, end), records }))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words.all()[at]
    }

    /// Tells the machine what it waits for; it counts and delays accesses from now on. Ranges that
    /// do not fit are left out.
    pub fn publish(&self, guest: &Guest) {
        let put = |at: usize, value: u64| self.word(at).store(value, Ordering::Relaxed);
        put(at::OWN, self.own.0);
        put(at::OWN + 1, self.own.1);
        put(at::CURRENT_TASK, guest.current_task);
        put(at::OFFSETS, u64::from(guest.tgid_offset) | u64::from(guest.comm_offset) << 32);
        let ranges = &guest.ranges[..guest.ranges.len().min(MAX_RANGES)];
        for (i, range) in ranges.iter().enumerate() {
            put(at::RANGE + 3 * i, range.start);
            put(at::RANGE + 3 * i + 1, range.end);
            put(at::RANGE + 3 * i + 2, range.node.into());
        }
        put(at::RANGES, ranges.len() as u64);
        self.word(at::PUBLISHED).store(1, Ordering::Release);
    }

    /// Has the machine write down its counts, and count and delay no more.
    pub fn end(&self) {
        self.word(at::PUBLISHED).store(2, Ordering::Release);
    }

    /// Samples wanted, one per so many loads that miss the last-level cache, or per so many
    /// retired stores; 0 for none.
    pub fn set_period(&self, kind: SampleKind, period: u32) {
        let word = match kind {
            SampleKind::LoadMiss => at::LOAD_PERIOD,
            SampleKind::Store => at::STORE_PERIOD,
        };
        self.word(word).store(period.into(), Ordering::Release);
    }

    /// Has the machine write down its counts under a number, soon.
    pub fn mark(&self, number: u64) {
        self.word(at::MARK).store(number, Ordering::Release);
    }

    /// Leaves out what is in the ring.
    pub fn skip(&self) {
        self.word(at::TAIL).store(self.word(at::HEAD).load(Ordering::Acquire), Ordering::Release);
    }

    /// Samples that found no room.
    pub fn lost(&self) -> u64 {
        self.word(at::LOST).load(Ordering::Relaxed)
    }

    /// Takes all samples out of the ring. It has one reader at a time.
    pub fn drain(&self, mut sink: impl FnMut(LabSample)) {
        let head = self.word(at::HEAD).load(Ordering::Acquire);
        let tail = self.word(at::TAIL).load(Ordering::Relaxed);
        // More than fit are none: somebody else has written here.
        if head.wrapping_sub(tail) <= self.records as u64 {
            for position in tail..head {
                let slot = (position % self.records as u64) as usize;
                let start = RECORDS + slot * RECORD_WORDS;
                let word = |i: usize| self.word(start + i).load(Ordering::Relaxed);
                let last = word(3);
                let flags = last >> 48;
                sink(LabSample {
                    time_ns: word(0),
                    address: word(1),
                    physical: word(2),
                    pid: last as u32,
                    node: (last >> 32) as u16,
                    kind: if flags & 1 == 0 { SampleKind::LoadMiss } else { SampleKind::Store },
                });
            }
        }
        self.word(at::TAIL).store(head, Ordering::Release);
    }
}
