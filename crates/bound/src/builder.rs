//! Builder of the matrix: one pass over a trace, sorted by page.

use crate::matrix::{EpochChoice, EpochMatrix, FREED, entry};
use frostline_core::types::{AccessKind, PageRun};
use frostline_trace::{Batch, TraceError, TraceEvent, TraceSource};

/// Records per buffer: large enough to keep allocations rare, small enough that the memory of the
/// buffers is given back while the sorted copy grows.
const CHUNK_RECORDS: usize = 1 << 20;

/// Everything seen so far, in trace order.
#[derive(Default)]
pub(crate) struct Builder {
    chunks: Vec<Chunk>,
    /// By page: entries, shifted left, and in bit 0 whether the page is alive.
    pages: Vec<u64>,
    records: u64,
    resident_pages: u64,
    peak_resident_pages: u64,
}

#[derive(Default)]
struct Chunk {
    pages: Vec<u32>,
    codes: Vec<u8>,
}

impl Builder {
    pub(crate) fn read(
        source: &mut dyn TraceSource,
        epochs: EpochChoice,
        max_ticks: u32,
    ) -> Result<EpochMatrix, TraceError> {
        let thinning = source.header().thinning.max(1);
        let mut builder = Self::default();
        if let Some(pages) = source.header().expected_pages {
            builder.pages.reserve(pages as usize);
        }
        let mut batch = Batch::new();
        while source.next_batch(&mut batch)? {
            for event in &batch.events {
                builder.event(&event.event);
            }
            match batch.kinds.constant() {
                Some(kind) => {
                    let code = code(AccessKind::from_bits(kind as u8));
                    for &page in &batch.pages {
                        builder.access(page, code);
                    }
                }
                None => {
                    for (i, &page) in batch.pages.iter().enumerate() {
                        builder.access(page, code(batch.kind(i)));
                    }
                }
            }
        }
        Ok(builder.sort(epochs, thinning, max_ticks))
    }

    fn access(&mut self, page: u32, code: u8) {
        let index = page as usize;
        if index >= self.pages.len() {
            self.pages.resize(index + 1, 0);
        }
        let state = &mut self.pages[index];
        if *state & 1 == 0 {
            *state |= 1;
            self.resident_pages += 1;
            self.peak_resident_pages = self.peak_resident_pages.max(self.resident_pages);
        }
        *state += 2;
        self.records += 1;
        self.push(page, code);
    }

    /// A remapped page is taken as freed and born again under its new number, and what was there
    /// as freed too: that can only add freedom, because it lets the page change tiers for nothing.
    fn event(&mut self, event: &TraceEvent) {
        match event {
            TraceEvent::Unmap { runs, .. } | TraceEvent::Discard { runs, .. } => {
                runs.iter().for_each(|&run| self.free(run));
            }
            TraceEvent::Remap { moves, lost, .. } => {
                for &(run, to) in moves {
                    self.free(run);
                    self.free(PageRun { start: to, pages: run.pages });
                }
                lost.iter().for_each(|&run| self.free(run));
            }
            _ => {}
        }
    }

    fn free(&mut self, run: PageRun) {
        let end = (run.end() as usize).min(self.pages.len());
        for index in run.start.index()..end {
            if self.pages[index] & 1 == 1 {
                // One entry more and no longer alive.
                self.pages[index] = (self.pages[index] & !1) + 2;
                self.resident_pages -= 1;
                self.push(index as u32, FREED);
            }
        }
    }

    fn push(&mut self, page: u32, code: u8) {
        let chunk = match self.chunks.last_mut() {
            Some(chunk) if chunk.pages.len() < CHUNK_RECORDS => chunk,
            _ => {
                self.chunks.push(Chunk {
                    pages: Vec::with_capacity(CHUNK_RECORDS),
                    codes: Vec::with_capacity(CHUNK_RECORDS),
                });
                self.chunks.last_mut().expect("just pushed")
            }
        };
        chunk.pages.push(page);
        chunk.codes.push(code);
    }

    /// Counting sort: offsets from the counts, then every entry to its place.
    fn sort(self, epochs: EpochChoice, thinning: u32, max_ticks: u32) -> EpochMatrix {
        let records_per_tick = self.records.div_ceil(u64::from(max_ticks)).max(1);
        let mut offsets = self.pages;
        let mut entries_before = 0;
        for slot in &mut offsets {
            let entries = *slot >> 1;
            *slot = entries_before;
            entries_before += entries;
        }
        offsets.push(entries_before);

        let mut entries = vec![0u32; entries_before as usize];
        let mut next = offsets.clone();
        let mut records = 0u64;
        for chunk in self.chunks {
            for (&page, &code) in chunk.pages.iter().zip(&chunk.codes) {
                let tick = if records_per_tick == 1 { records } else { records / records_per_tick };
                let at = &mut next[page as usize];
                entries[*at as usize] = entry(tick as u32, code);
                *at += 1;
                records += u64::from(code != FREED);
            }
        }
        EpochMatrix::new(
            offsets,
            entries,
            records,
            records_per_tick,
            epochs,
            thinning,
            self.peak_resident_pages,
        )
    }
}

fn code(kind: AccessKind) -> u8 {
    match kind {
        AccessKind::Load | AccessKind::Fetch => 0,
        AccessKind::Store => 1,
        AccessKind::WriteBack => 2,
    }
}
