//! A processor core as far as memory sees it: caches, and a clock that counts instructions.

use super::cache::{Cache, Lookup};
use super::page_stream::header;
use super::params::Settings;
use super::stage::{Area, Stage};
use frostline_core::types::{AccessKind, PAGE_BYTES};
use frostline_trace::error::TraceError;
use frostline_trace::event::{StreamId, TraceEvent};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Runs the loads and stores of one thread. The first-level cache has 32 KiB and 8 ways; what
/// misses it touches its page, and what misses the last-level cache too is a record.
#[derive(Debug)]
pub(super) struct Cpu {
    l1: Cache<8>,
    llc: Option<Cache<16>>,
    gap: u64,
    pub(super) limit: u64,
    accesses: u64,
    line_touched: u64,
}

impl Cpu {
    /// Reads `llc`, `gap` and `accesses`; makes the stage with the caches in its header.
    pub(super) fn open(settings: &Settings, footprint: u64) -> Result<(Self, Stage), TraceError> {
        let size = match (settings.is("llc", "off"), settings.is("llc", "auto")) {
            (true, _) => None,
            (_, true) => Some((footprint / 512).next_power_of_two().clamp(256 * KIB, 32 * MIB)),
            _ => Some(llc_size(settings)?),
        };
        let cpu = Self {
            l1: Cache::new(32 * KIB),
            llc: size.map(Cache::new),
            gap: u64::from(settings.gap()?),
            limit: settings.accesses()?,
            accesses: 0,
            line_touched: u64::MAX,
        };
        let mut header = header(settings)?;
        header.l1 = Some(cpu.l1.model());
        header.llc = cpu.llc.as_ref().map(Cache::model);
        header.expected_records = Some(cpu.limit);
        Ok((cpu, Stage::new(header, 1)))
    }

    /// Loads what lies at `offset` of the area; at most a line of it counts.
    #[inline]
    pub(super) fn load(&mut self, stage: &mut Stage, area: Area, offset: u64) {
        self.access(stage, area.at(offset) / 64, false);
    }

    /// A load that cannot but hit the first-level cache.
    #[inline]
    pub(super) fn hit(&mut self, stage: &mut Stage) {
        self.accesses += 1;
        stage.advance(self.gap);
    }

    /// Stores at `offset` of the area.
    #[inline]
    pub(super) fn store(&mut self, stage: &mut Stage, area: Area, offset: u64) {
        let line = area.at(offset) / 64;
        stage.retire_stores(0, page(line), 1);
        self.access(stage, line, true);
    }

    /// An area is given back: what caches hold of it is lost.
    pub(super) fn discard(&mut self, area: Area) {
        let lines = area.at(0) / 64..area.at(area.len_bytes() - 1) / 64 + 1;
        self.l1.discard(lines.clone());
        if let Some(llc) = &mut self.llc {
            llc.discard(lines);
        }
        self.line_touched = u64::MAX;
    }

    /// Stores to every line of the area, in order.
    pub(super) fn clear(&mut self, stage: &mut Stage, area: Area) {
        for offset in (0..area.len_bytes()).step_by(64) {
            self.store(stage, area, offset);
        }
    }

    /// Loads every line of `[offset, offset + len)`.
    #[inline]
    pub(super) fn load_all(&mut self, stage: &mut Stage, area: Area, offset: u64, len: u64) {
        let first = area.at(offset) / 64;
        let last = area.at(offset + len - 1) / 64;
        for line in first..=last {
            self.access(stage, line, false);
        }
    }

    /// Stores to every line of `[offset, offset + len)`.
    #[inline]
    pub(super) fn store_all(&mut self, stage: &mut Stage, area: Area, offset: u64, len: u64) {
        let first = area.at(offset) / 64;
        let last = area.at(offset + len - 1) / 64;
        for line in first..=last {
            stage.retire_stores(0, page(line), 8);
            self.access(stage, line, true);
        }
    }

    #[inline]
    fn access(&mut self, stage: &mut Stage, line: u64, write: bool) {
        self.accesses += 1;
        stage.advance(self.gap);
        // The line of the access before is the most recently used one of its set.
        if line == self.line_touched && !write {
            return;
        }
        self.line_touched = line;
        if let Lookup::Miss { dirty } = self.l1.access(line, write) {
            self.miss(stage, line, write, dirty);
        }
    }

    fn miss(&mut self, stage: &mut Stage, line: u64, write: bool, dirty: Option<u64>) {
        stage.touch(page(line));
        if let Some(victim) = dirty {
            let kept = self.llc.as_mut().is_some_and(|llc| llc.write_back(victim));
            if !kept {
                record(stage, victim, AccessKind::WriteBack);
            }
        }
        let victim = match &mut self.llc {
            None => None,
            Some(llc) => match llc.access(line, false) {
                Lookup::Hit => return,
                Lookup::Miss { dirty } => dirty,
            },
        };
        record(stage, line, if write { AccessKind::Store } else { AccessKind::Load });
        if let Some(victim) = victim {
            record(stage, victim, AccessKind::WriteBack);
        }
    }

    /// Whether as many records were made as asked for; `before` of the stage's records belong to
    /// the initialisation. A program that lives in the caches ends after 1000 accesses for each
    /// record asked for.
    pub(super) fn done(&self, stage: &Stage, before: u64) -> bool {
        stage.records() - before >= self.limit || self.accesses / 1000 >= self.limit
    }
}

fn record(stage: &mut Stage, line: u64, kind: AccessKind) {
    stage.record(page(line), kind, (line % 64) as u32);
}

const fn page(line: u64) -> u32 {
    (line / (PAGE_BYTES / 64)) as u32
}

fn llc_size(settings: &Settings) -> Result<u64, TraceError> {
    let size = settings.bytes("llc")?;
    if size.is_power_of_two() && (128 * KIB..=1024 * MIB).contains(&size) {
        return Ok(size);
    }
    Err(settings.refuse(
        "llc",
        &format!("of {size} bytes is not possible"),
        "give a power of two within 128KiB..1GiB, auto or off",
    ))
}

/// Marks every so-manieth operation, for percentiles of latency.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    period: u64,
    operations: u64,
    think: u64,
}

impl Marks {
    /// Reads `mark` and `think`.
    pub(super) fn new(settings: &Settings) -> Result<Self, TraceError> {
        let period =
            if settings.is("mark", "off") { 0 } else { settings.count("mark", 1, 1 << 40)? };
        Ok(Self { period, operations: 0, think: settings.count("think", 0, 100_000_000)? })
    }

    /// Runs one operation of kind `op`.
    #[inline]
    pub(super) fn operation(&mut self, stage: &mut Stage, op: u64, run: impl FnOnce(&mut Stage)) {
        let marked = self.period > 0 && self.operations.is_multiple_of(self.period);
        self.operations += 1;
        let stream = StreamId(0);
        if marked {
            stage.event(TraceEvent::OpBegin { stream, op });
        }
        run(stage);
        stage.advance(self.think);
        if marked {
            stage.event(TraceEvent::OpEnd { stream, op });
        }
    }
}
