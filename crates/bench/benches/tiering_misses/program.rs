//! A generated program's accesses, as a file and as loads.

use anyhow::{Context, Result};
use frostline_core::event::{Sample, SampleKind};
use frostline_core::types::AccessKind;
use frostline_core::{PageId, ProcessId, TierId};
use frostline_trace::Batch;
use frostline_trace::batch::Want;
use std::fmt::{Display, Formatter};
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// Pages of the program: 4 GiB.
pub const PAGES: u32 = 1 << 20;
/// By how much the program is smaller than those that policies' constants are for.
pub const SCALE: f64 = 16.0;
/// Bytes of the first-level data cache, and of the last level: 24 MiB for 267 GB there.
pub const CACHES: [u32; 2] = [32 << 10, 512 << 10];
const WAYS: usize = 16;
/// Records of the trace.
const RECORDS: u64 = 20_000_000;
/// Loads that miss the last level for each sample.
const PERIOD: u64 = 200;

/// A line's number is below this; that it is a sample stands above.
const LINES: u32 = PAGES * 64;
const SAMPLED: u32 = 1 << 31;

/// What was written.
pub struct Accesses {
    first_level_misses: u64,
    pub last_level_misses: u64,
    pub samples: u64,
}

impl Display for Accesses {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { first_level_misses, last_level_misses, samples } = self;
        write!(f, "{first_level_misses} accesses that miss the first level, ")?;
        write!(f, "{last_level_misses} the last, {samples} samples; {CACHES:?} bytes of cache")
    }
}

/// The last level as cachegrind has it: the least recently used line of a set goes.
struct LastLevel {
    /// Lines and 1, in the order of use; 0 for none.
    sets: Vec<[u32; WAYS]>,
}

impl LastLevel {
    fn new(bytes: u32) -> Self {
        Self { sets: vec![[0; WAYS]; bytes as usize / 64 / WAYS] }
    }

    fn misses(&mut self, line: u32) -> bool {
        let sets = self.sets.len();
        let set = &mut self.sets[line as usize % sets];
        let found = set.iter().position(|known| *known == line + 1);
        set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = line + 1;
        found.is_none()
    }
}

/// Writes four bytes for each load or store of a workload that misses the first-level cache.
pub fn write(workload: &str, file: &Path) -> Result<Accesses> {
    let spec = format!("synth:{workload}:size=4GiB:accesses={RECORDS}:llc=off:init=off:epoch=off");
    let mut source = frostline_workloads::from_spec(&spec)?;
    source.want(Want { clock_deltas: false, lines: true });
    let mut out = BufWriter::new(File::create(file).context("cannot write the accesses")?);
    let mut cache = LastLevel::new(CACHES[1]);
    let mut all = Accesses { first_level_misses: 0, last_level_misses: 0, samples: 0 };
    let (mut loads, mut batch) = (0, Batch::new());
    while source.next_batch(&mut batch)? {
        for (i, page) in batch.pages.iter().enumerate() {
            let kind = batch.kind(i);
            if kind == AccessKind::WriteBack {
                continue;
            }
            let line = (page % PAGES) * 64 + batch.lines.get(i);
            let missed = cache.misses(line);
            let load = missed && kind == AccessKind::Load;
            loads += u64::from(load);
            let sampled = load && loads.is_multiple_of(PERIOD);
            all.first_level_misses += 1;
            all.last_level_misses += u64::from(missed);
            all.samples += u64::from(sampled);
            out.write_all(&(if sampled { line | SAMPLED } else { line }).to_le_bytes())?;
        }
    }
    out.flush()?;
    Ok(all)
}

/// Loads what was written down, and hands out the samples. Memory that is never written is one and
/// the same page of zeros, which is why stores are loads as well: caches do not tell them apart.
pub fn run(accesses: &Path, mut take: impl FnMut(Sample)) -> Result<()> {
    let memory = vec![0u8; LINES as usize * 64];
    let mut file = File::open(accesses).context("cannot read the accesses")?;
    // Small, so that it stays in the first-level cache.
    let mut buffer = [0; 512];
    let mut sum = 0u64;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        for record in buffer[..read].as_chunks().0 {
            let record = u32::from_le_bytes(*record);
            let line = record & !SAMPLED;
            sum += u64::from(memory[line as usize * 64]);
            if record & SAMPLED != 0 {
                take(Sample::new(
                    PageId(line / 64),
                    SampleKind::LoadMiss,
                    TierId::FAST,
                    ProcessId(0),
                ));
            }
        }
    }
    black_box(sum);
    Ok(())
}
