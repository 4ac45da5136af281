//! Layout of the arrays of a training with XGBoost.
//!
//! Either one after the other on fresh pages, as where each is larger than what malloc keeps; or,
//! with `parts`, in what loading left. Then its allocations are followed in [`GlibcHeap`]: Python
//! makes each part of the rows (a third of the features counts, the others categories) in several
//! steps; XGBoost takes quantiles of every feature, and brings the bins together part by part.
//! What that leaves free takes the arrays of the training by best fit: labels, predictions and
//! positions (4 bytes for a row) what categories lay in, places (8 bytes) what a part's values lay
//! in, gradients what bins lay in before they had grown, blocks what quantiles lay in. Only bins and
//! sums are larger than malloc's threshold, and mapped.
//!
//! Source: XGBoost 3.2 (src/data/iterative_dmatrix.cc, src/common/quantile.h,
//! src/common/partition_builder.h), NumPy's rule of one array for each step.

use super::glibc_heap::{Chunk, GlibcHeap};
use super::stage::{Area, Stage};
use frostline_core::types::PAGE_BYTES;
use frostline_trace::event::MapKind;
use std::ops::Range;

/// Place of a row, and in blocks.
pub(super) const PLACE_BYTES: u64 = 8;
/// Rows that are parted at once: those of either child have room for all of them.
pub(super) const BLOCK_ROWS: u64 = 2048;
pub(super) const SIDE_BYTES: u64 = BLOCK_ROWS * PLACE_BYTES;
pub(super) const BLOCK_BYTES: u64 = 2 * SIDE_BYTES;
/// Gradient and its derivative of a row.
pub(super) const GRADIENT_BYTES: u64 = 8;
/// What a block has in front of its rows: counts of owners, of rows and where they go.
const BLOCK_HEADER: u64 = 48;
/// Bins that quantiles are taken for; and how many quantiles for each.
const MOST_BINS: u64 = 256;
const SKETCH_FACTOR: u64 = 8;

/// What is trained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) features: u64,
    /// Levels, and bytes of a node's sums.
    pub(super) depth: u32,
    pub(super) sums_bytes: u64,
    /// Blocks beyond those that all rows fill: the last one of each node is not full.
    pub(super) spare_blocks: u64,
    /// Parts in which the rows are loaded; none: loading leaves nothing.
    pub(super) parts: u64,
}

/// The arrays.
#[derive(Clone, Debug)]
pub(super) struct Arrays {
    pub(super) labels: Area,
    pub(super) predictions: Area,
    pub(super) positions: Area,
    pub(super) gradients: Area,
    pub(super) places: Area,
    pub(super) bins: Area,
    pub(super) columns: Area,
    /// Where the bins of a row begin.
    pub(super) starts: Area,
    /// Sums as they grow with the levels of the first tree; the last ones stay. Only one where they
    /// do not grow.
    pub(super) histograms: Vec<Area>,
    pub(super) blocks: Vec<Area>,
    /// What loading writes, in order, and the training thereafter.
    pub(super) loading: Vec<Vec<Area>>,
}

impl Shape {
    /// Bytes of the sums of all nodes of the first `levels` levels.
    pub(super) fn histogram_bytes(&self, levels: u32) -> u64 {
        self.sums_bytes * ((1 << levels) - 1)
    }

    fn blocks(&self, rows: u64) -> u64 {
        rows.div_ceil(BLOCK_ROWS) + self.spare_blocks
    }

    /// Bytes that so many rows and what loading left take.
    pub(super) fn bytes(&self, rows: u64) -> u64 {
        if self.parts > 0 {
            let (heap, _) = self.follow(rows);
            return heap.written().iter().map(|run| run.end - run.start).sum::<u64>() * PAGE_BYTES;
        }
        let row_bytes = 2 * self.features + 12 + GRADIENT_BYTES + 2 * PLACE_BYTES;
        self.histogram_bytes(self.depth) + rows * row_bytes + self.blocks(rows) * BLOCK_BYTES
    }

    /// The most rows that fit; none where not even one does.
    pub(super) fn most_rows(&self, bytes: u64) -> u64 {
        let (mut fit, mut not) = (0, (bytes / self.features).min(1 << 32));
        while not - fit > 1 {
            let middle = fit + (not - fit) / 2;
            if self.bytes(middle) <= bytes {
                fit = middle;
            } else {
                not = middle;
            }
        }
        fit
    }

    /// Maps everything.
    pub(super) fn map(&self, stage: &mut Stage, rows: u64) -> Arrays {
        if self.parts == 0 { self.adjacent(stage, rows) } else { self.in_pieces(stage, rows) }
    }

    fn adjacent(&self, stage: &mut Stage, rows: u64) -> Arrays {
        let matrix = rows * self.features;
        let lens = [
            rows * PLACE_BYTES,
            rows * GRADIENT_BYTES,
            rows * 4,
            rows * 4,
            rows * 4,
            matrix,
            matrix,
            rows * PLACE_BYTES,
            self.histogram_bytes(self.depth),
            self.blocks(rows) * BLOCK_BYTES,
        ];
        let areas = stage.map_adjacent(lens);
        let [places, gradients, predictions, labels, positions, ..] = areas;
        let [.., bins, columns, starts, histograms, all] = areas;
        let blocks = (0..self.blocks(rows)).map(|nth| all.part(nth * BLOCK_BYTES, BLOCK_BYTES));
        let training = vec![places, gradients, predictions, positions, histograms, all];
        let blocks = blocks.collect();
        let loading = vec![vec![bins, columns, starts, labels], training];
        Arrays {
            labels,
            predictions,
            positions,
            gradients,
            places,
            bins,
            columns,
            starts,
            histograms: vec![histograms],
            blocks,
            loading,
        }
    }

    fn in_pieces(&self, stage: &mut Stage, rows: u64) -> Arrays {
        let (heap, chunks) = self.follow(rows);
        let all = stage.map(heap.end(), MapKind::Anonymous);
        let area = |chunk: &Chunk, bytes| all.part(chunk.at(), bytes);
        let pages = |run: &Range<u64>| {
            vec![all.part(run.start * PAGE_BYTES, (run.end - run.start) * PAGE_BYTES)]
        };
        let [labels, predictions, positions] =
            [&chunks.labels, &chunks.predictions, &chunks.positions].map(|c| area(c, rows * 4));
        let matrix = rows * self.features;
        let block = |chunk: &Chunk| all.part(chunk.at() + BLOCK_HEADER, BLOCK_BYTES);
        Arrays {
            labels,
            predictions,
            positions,
            gradients: area(&chunks.gradients, rows * GRADIENT_BYTES),
            places: area(&chunks.places, rows * PLACE_BYTES),
            bins: area(&chunks.bins, matrix),
            columns: area(&chunks.columns, matrix),
            starts: area(&chunks.starts, rows * PLACE_BYTES),
            histograms: (1..)
                .zip(&chunks.histograms)
                .map(|(levels, chunk)| area(chunk, self.histogram_bytes(levels)))
                .collect(),
            blocks: chunks.blocks.iter().map(block).collect(),
            loading: heap.written().iter().map(pages).collect(),
        }
    }

    /// The program's large allocations, in order.
    fn follow(&self, rows: u64) -> (GlibcHeap, Chunks) {
        let mut heap = GlibcHeap::new();
        let part_rows = rows.div_ceil(self.parts);
        let parts = self.make_parts(&mut heap, part_rows);
        let mut labels = heap.allocate(part_rows * 4);
        let mut room = part_rows;
        while room < rows {
            room *= 2;
            labels = heap.grow(labels, room * 4);
        }
        take_quantiles(&mut heap, rows, self.features);
        let starts = heap.allocate((rows + 1) * PLACE_BYTES);
        let part_bins = part_rows * self.features;
        let mut bins = heap.allocate(part_bins);
        for part in 2..=self.parts {
            bins = heap.grow(bins, (part * part_bins).min(rows * self.features));
        }
        let columns = heap.allocate(rows * self.features);
        parts.into_iter().for_each(|chunk| heap.free(chunk));
        let predictions = heap.allocate(rows * 4);
        let gradients = heap.allocate(rows * GRADIENT_BYTES);
        let places = heap.allocate(rows * PLACE_BYTES);
        let mut histograms = vec![heap.allocate(self.histogram_bytes(1))];
        let blocks = (0..self.blocks(rows)).map(|_| heap.allocate(BLOCK_HEADER + BLOCK_BYTES));
        let blocks = blocks.collect();
        for levels in 2..=self.depth {
            let before = histograms.last().cloned();
            histograms.push(heap.allocate(self.histogram_bytes(levels)));
            before.into_iter().for_each(|chunk| heap.free(chunk));
        }
        let positions = heap.allocate(rows * 4);
        let chunks = Chunks {
            labels,
            predictions,
            positions,
            gradients,
            places,
            bins,
            columns,
            starts,
            histograms,
            blocks,
        };
        (heap, chunks)
    }

    /// Values and labels of every part: what is left of making them is the last ones' garbage.
    fn make_parts(&self, heap: &mut GlibcHeap, rows: u64) -> Vec<Chunk> {
        let counts = rows * (self.features / 3).max(1) * 4;
        let categories = rows * (self.features - self.features / 3) * 4;
        let values = rows * self.features * 4;
        let mut kept = Vec::new();
        // A name holds its array until the next part has another one for it.
        let mut named: [Option<Chunk>; 4] = [const { None }; 4];
        for _ in 0..self.parts {
            for (name, (bytes, count)) in
                named.iter_mut().zip([(counts, 3), (categories, 2), (categories, 2)])
            {
                let made = steps(heap, bytes, count);
                name.replace(made).into_iter().for_each(|old| heap.free(old));
            }
            kept.push(steps(heap, values, 2));
            let told = heap.allocate(counts);
            let sum = heap.allocate(rows * 4);
            heap.free(told);
            let noise = steps(heap, rows * 8, 2);
            let score = heap.allocate(rows * 8);
            [sum, noise].into_iter().for_each(|chunk| heap.free(chunk));
            named[3].replace(score).into_iter().for_each(|old| heap.free(old));
            kept.push(heap.allocate(rows * 4));
        }
        named.into_iter().flatten().for_each(|chunk| heap.free(chunk));
        kept
    }
}

/// An array from which another is made, and so on; the last one stays.
fn steps(heap: &mut GlibcHeap, bytes: u64, steps: u32) -> Chunk {
    let mut last = heap.allocate(bytes);
    for _ in 1..steps {
        let next = heap.allocate(bytes);
        heap.free(std::mem::replace(&mut last, next));
    }
    last
}

/// Quantiles of every feature: a queue of values with weights, two levels of summaries, and room to
/// merge them.
fn take_quantiles(heap: &mut GlibcHeap, rows: u64, features: u64) {
    let limit = sketch_limit(rows);
    let mut held: Vec<Chunk> = (0..features).map(|_| heap.allocate(limit * 2 * 8)).collect();
    // Summaries come when the first queue is full.
    held.extend((0..2 * features).map(|_| heap.allocate(limit * 2 * 16)));
    held.into_iter().for_each(|chunk| heap.free(chunk));
}

/// Values of a summary: enough levels of them hold so many rows.
fn sketch_limit(rows: u64) -> u64 {
    let limit = |level: u64| (level * MOST_BINS * SKETCH_FACTOR + 1).min(rows);
    (1..).map(limit).zip(1..).find(|&(limit, level)| limit << level >= rows).map_or(rows, |l| l.0)
}

/// What malloc handed out for the arrays.
#[derive(Debug)]
struct Chunks {
    labels: Chunk,
    predictions: Chunk,
    positions: Chunk,
    gradients: Chunk,
    places: Chunk,
    bins: Chunk,
    columns: Chunk,
    starts: Chunk,
    histograms: Vec<Chunk>,
    blocks: Vec<Chunk>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRITEO: Shape =
        Shape { features: 39, depth: 6, sums_bytes: 39 * 139 * 16, spare_blocks: 32, parts: 15 };

    /// What `valgrind --trace-syscalls` shows of 300 K rows, XGBoost 3.2.0 and NumPy 2.
    #[test]
    fn loading_leaves_the_pieces_that_the_program_has() {
        let (heap, _) = CRITEO.follow(300_000);
        let pieces = heap.pieces().iter().map(|bytes| bytes >> 10);
        let mut counts: Vec<(u64, u64)> = Vec::new();
        for kib in pieces {
            match counts.last_mut() {
                Some((last, count)) if *last == kib => *count += 1,
                _ => counts.push((kib, 1)),
            }
        }
        let (sketches, rest): (Vec<_>, Vec<_>) = counts.into_iter().partition(|(k, _)| *k == 452);
        assert_eq!(
            rest,
            [(1144, 1), (2160, 2), (1144, 1), (2160, 3), (3176, 15), (2416, 1), (3176, 1)]
        );
        // 54 there, as other things of Python's were free for some.
        assert!(matches!(sketches[..], [(452, 50..=58)]), "{sketches:?}");
    }

    #[test]
    fn arrays_lie_in_what_loading_left() {
        let mut stage = Stage::new(frostline_trace::header::TraceHeader::named("t"), 1);
        let arrays = CRITEO.map(&mut stage, 300_000);
        let (heap, chunks) = CRITEO.follow(300_000);
        let idle = |area: Area, piece_kib: u64| piece_kib / 4 - u64::from(area.run.pages);
        assert!(idle(arrays.positions, 2160) > 240 && idle(arrays.places, 3176) > 200);
        assert!(idle(arrays.gradients, 2416) < 20);
        let mapped = [&chunks.bins, &chunks.columns, &chunks.histograms[5]];
        let first = mapped.map(Chunk::at).into_iter().min().unwrap();
        let in_pieces = [&chunks.labels, &chunks.predictions, &chunks.positions, &chunks.places];
        assert!(in_pieces.iter().all(|chunk| chunk.at() < first), "in front of what is mapped");
        // Thirteen blocks of 32 KiB fit where two quantiles' 320 KiB and 128 KiB of room were.
        let pages = |n: usize| arrays.blocks[n].run.start.0;
        let near = (1..170).filter(|&n| pages(n).abs_diff(pages(n - 1)) <= 9).count();
        assert!(near > 140 && near < 169, "{near}");
        // What is written is more than twice what the training uses.
        let written: u64 = heap.written().iter().map(|run| run.end - run.start).sum();
        let used = [arrays.labels, arrays.predictions, arrays.positions, arrays.gradients]
            .into_iter()
            .chain([arrays.places, arrays.bins, arrays.columns, arrays.starts])
            .chain(arrays.histograms.last().copied())
            .chain(arrays.blocks.iter().copied());
        let used: u64 = used.map(|area| u64::from(area.run.pages)).sum();
        assert!(written > 2 * used && used > 10_000, "{written} {used}");
    }

    #[test]
    fn arrays_do_not_overlap() {
        let mut stage = Stage::new(frostline_trace::header::TraceHeader::named("t"), 1);
        for shape in [CRITEO, Shape { parts: 0, ..CRITEO }] {
            let arrays = shape.map(&mut stage, 300_000);
            let mut all: Vec<Area> = arrays.blocks.clone();
            all.extend([arrays.labels, arrays.predictions, arrays.positions, arrays.gradients]);
            all.extend([arrays.places, arrays.bins, arrays.columns, arrays.starts]);
            all.extend(arrays.histograms.last());
            all.sort_by_key(|area| area.at(0));
            for two in all.windows(2) {
                assert!(two[0].at(0) + two[0].len_bytes() <= two[1].at(0), "{two:?}");
            }
        }
    }

    #[test]
    fn large_arrays_leave_nothing() {
        // Values of a part take 43 MiB: above malloc's last threshold, and given back.
        let rows = 4_300_000;
        let adjacent = Shape { parts: 0, ..CRITEO };
        assert!(CRITEO.bytes(rows) < adjacent.bytes(rows) * 3 / 2);
        assert!(CRITEO.bytes(300_000) > adjacent.bytes(300_000) * 5 / 2);
    }
}
