//! Parts of generators of pure page-level streams: settings, initialisation, columns.

use super::coin::Coin;
use super::params::Settings;
use super::stage::{Area, Stage};
use frostline_core::rng::Rng;
use frostline_core::types::{AccessKind, PAGE_BYTES};
use frostline_trace::error::TraceError;
use frostline_trace::event::MapKind;
use frostline_trace::header::TraceHeader;

/// Instructions to initialise a page: 512 stores of 8 bytes and as many others.
const INIT_GAP: u32 = 1024;
/// Stores that retire when a page is initialised.
const INIT_STORES: u32 = 512;

/// The header that the settings give, with the least information common to all generators.
pub(super) fn header(settings: &Settings) -> Result<TraceHeader, TraceError> {
    let mut header = TraceHeader::named(settings.describe());
    header.recorder = concat!("frostline ", env!("CARGO_PKG_VERSION"), " synth").into();
    header.epoch_length = settings.epoch()?;
    header.seed = Some(settings.seed()?);
    Ok(header)
}

/// Writes the pages of some areas once: each in ascending order, all growing in proportion to
/// their sizes, as when they are filled together.
#[derive(Debug)]
pub(super) struct Loader {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    first: u32,
    pages: u32,
    done: u32,
    spacing: f64,
}

impl Loader {
    /// Writes every page of the areas; nothing where `on` is false.
    pub(super) fn new(on: bool, areas: &[Area]) -> Self {
        let parts = areas.iter().filter(|area| on && area.run.pages > 0).map(|area| Part {
            first: area.run.start.0,
            pages: area.run.pages,
            done: 0,
            spacing: 1.0,
        });
        Self { parts: parts.collect() }
    }

    /// Writes `pages` pages of one area: page `i` is number `i * spacing`, rounded down.
    pub(super) fn spaced(on: bool, area: Area, pages: u32, spacing: f64) -> Self {
        let mut loader = Self::new(on, &[area]);
        for part in &mut loader.parts {
            part.pages = pages;
            part.spacing = spacing;
        }
        loader
    }

    /// Writes what the other one writes too.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Number of records that it makes.
    pub(super) fn records(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.pages)).sum()
    }

    /// Writes some pages; false where all were written already.
    pub(super) fn step(&mut self, stage: &mut Stage) -> bool {
        let progress = |part: &Part| f64::from(part.done) / f64::from(part.pages);
        let part = self
            .parts
            .iter_mut()
            .filter(|part| part.done < part.pages)
            .min_by(|a, b| progress(a).total_cmp(&progress(b)));
        let Some(part) = part else { return false };
        let some = part.done..(part.done + 64).min(part.pages);
        part.done = some.end;
        let (first, spacing) = (part.first, part.spacing);
        write_pages(stage, some.map(|nth| first + (f64::from(nth) * spacing) as u32));
        true
    }
}

/// Writes pages as a whole, one record each.
pub(super) fn write_pages(stage: &mut Stage, pages: impl ExactSizeIterator<Item = u32>) {
    let mut pages = pages;
    while pages.len() > 0 {
        let len = stage.chunk_room(u64::from(INIT_GAP), pages.len() as u64);
        stage.chunk(len, INIT_GAP, INIT_STORES, |batch| {
            for (slot, page) in batch.pages.iter_mut().zip(&mut pages) {
                *slot = page;
            }
            batch.kinds.set_constant(AccessKind::Store as u32);
            batch.streams.set_constant(0);
            batch.lines.set_constant(0);
        });
    }
}

/// Lines of the records of a chunk.
pub(super) enum Lines {
    /// Anywhere in the page.
    Random,
    /// As the generator gives them.
    Given(Vec<u32>),
}

/// Makes whole records of pages.
#[derive(Debug)]
pub(super) struct PageStream {
    loader: Loader,
    gap: u32,
    thin: u32,
    total: u64,
    left: u64,
    writes: Coin,
    kinds: Rng,
    lines: Rng,
    threads: u32,
    turn: u32,
}

impl PageStream {
    /// Reads the parameters that all page-level generators have, and maps `sizes` in pages.
    /// One record shall stand for `thin` accesses.
    pub(super) fn open<const N: usize>(
        settings: &Settings,
        rng: &mut Rng,
        sizes: [u32; N],
        thin: u32,
    ) -> Result<(Self, Stage, [Area; N]), TraceError> {
        let (stream, stage, areas) = Self::open_many(settings, rng, &sizes, thin)?;
        Ok((stream, stage, std::array::from_fn(|i| areas[i])))
    }

    /// As [`Self::open`], for a number of mappings that is not known before.
    pub(super) fn open_many(
        settings: &Settings,
        rng: &mut Rng,
        sizes: &[u32],
        thin: u32,
    ) -> Result<(Self, Stage, Vec<Area>), TraceError> {
        let threads = settings.count("threads", 1, 1024)? as u32;
        let gap = settings.gap()?;
        if gap.checked_mul(thin).is_none() {
            return Err(settings.refuse("gap", "times thin exceeds 2^32", "thin less"));
        }
        let accesses = settings.accesses()?;
        let writes = Coin::new(settings.share("writes")?);
        let init = settings.switch("init")?;
        let mut header = header(settings)?;
        header.thinning = thin;
        let mut stage = Stage::new(header, threads);
        let bytes = sizes.iter().map(|pages| u64::from(*pages) * PAGE_BYTES);
        let areas: Vec<Area> = bytes.map(|len| stage.map(len, MapKind::Anonymous)).collect();
        let loader = Loader::new(init, &areas);
        let left = accesses.div_ceil(u64::from(thin));
        stage.header.expected_records = Some(left);
        stage.expect(loader.records());
        let stream = Self {
            loader,
            gap,
            thin,
            total: left,
            left,
            writes,
            kinds: rng.fork(),
            lines: rng.fork(),
            threads,
            turn: 0,
        };
        Ok((stream, stage, areas))
    }

    /// Leaves an area out of the initialisation.
    pub(super) fn without_loading(mut self, area: Area) -> Self {
        self.loader.parts.retain(|part| part.first != area.run.start.0);
        self
    }

    /// Records of the measured phase made by now.
    pub(super) fn done(&self) -> u64 {
        self.total - self.left
    }

    /// Makes the next records: initialisation first, then at most `limit` pages by `fill`, which
    /// gets the ids to be overwritten. False where all is done.
    pub(super) fn step(
        &mut self,
        stage: &mut Stage,
        limit: u64,
        fill: impl FnOnce(&mut [u32]) -> Lines,
    ) -> bool {
        if self.left == 0 {
            return false;
        }
        if self.loader.step(stage) {
            return true;
        }
        let gap = self.gap * self.thin;
        let len = stage.chunk_room(u64::from(gap), self.left.min(limit));
        self.left -= len as u64;
        let stream = self.turn;
        self.turn = (self.turn + 1) % self.threads;
        let want_lines = stage.want.lines;
        stage.chunk(len, gap, self.thin, |batch| {
            let lines = fill(&mut batch.pages);
            self.writes.fill(&mut self.kinds, len, &mut batch.kinds);
            batch.streams.set_constant(stream);
            match lines {
                _ if !want_lines => batch.lines.set_constant(0),
                Lines::Given(lines) => *batch.lines.values_mut() = lines,
                Lines::Random => random_lines(&mut self.lines, len, batch.lines.values_mut()),
            }
        });
        true
    }
}

fn random_lines(rng: &mut Rng, len: usize, lines: &mut Vec<u32>) {
    lines.reserve(len + 10);
    while lines.len() < len {
        let random = rng.next_u64();
        lines.extend((0..10).map(|i| (random >> (6 * i)) as u32 % 64));
    }
    lines.truncate(len);
}
