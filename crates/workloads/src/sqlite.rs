//! A table of SQLite and its index, in memory: where their pages lie and what a look-up touches.
//!
//! Source: SQLite 3.40: pcache1.c and pcache.h (pages are found by number in a table of pointers;
//! behind the 4096 bytes of each stands what cache, pager and trees note of it), btree.c (cells from
//! the page's end on, their places in front), and what its table `dbstat` says of 500 K rows that
//! were inserted in the order of keys. Pages of databases in memory count as clean: one that is let
//! go changes nothing but the number of its users.
//! Not: keys that separate leaves of the index are in both levels here, and roots come last.

use super::memory::Memory;
use super::stage::Area;
use super::tree::{Tree, search};

/// From one page to the next in glibc's heap, with what is noted of it.
const SPACING: u64 = 4384;
/// In front of it are malloc's header and the size that SQLite puts before all it allocates.
const CONTENT_AT: u64 = 24;
/// Number and link in the cache's table.
const NUMBER_AT: u64 = 4096 + 16;
/// How the pager knows the page, and how many use it.
const HANDLE_AT: u64 = 4096 + 56;
const USERS_AT: u64 = HANDLE_AT + 54;
/// Its kind, how many cells there are, and where.
const KIND_AT: u64 = HANDLE_AT + 72;
const CELLS_AT: u64 = KIND_AT + 24;
const PLACES_AT: u64 = KIND_AT + 96;

/// How full the nodes of a tree are, and how large cells, in bytes.
#[derive(Clone, Copy, Debug)]
struct Filling {
    keys_per_leaf: u64,
    fanout: u64,
    leaf_cell: u64,
    inner_cell: u64,
}

/// A row is 100 characters, a key and four bytes that say so, behind two lengths.
const TABLE: Filling = Filling { keys_per_leaf: 36, fanout: 398, leaf_cell: 111, inner_cell: 7 };
const INDEX: Filling = Filling { keys_per_leaf: 299, fanout: 225, leaf_cell: 10, inner_cell: 14 };

/// The trees of so many rows.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    table: Tree,
    index: Tree,
}

/// A database whose trees lie in the heap.
#[derive(Debug)]
pub(super) struct Database {
    shape: Shape,
    heap: Area,
    /// Pointers to pages, by number.
    by_number: Area,
}

impl Shape {
    pub(super) fn new(rows: u64) -> Self {
        let [table, index] = [TABLE, INDEX]
            .map(|filling| Tree::new(rows, filling.keys_per_leaf, filling.fanout, None));
        Self { table, index }
    }

    /// The most rows of which pages and their table keep within so many bytes; at least one.
    pub(super) fn rows_within(bytes: u64) -> u64 {
        let (mut fit, mut too_many) = (1, bytes / TABLE.leaf_cell + 2);
        while too_many - fit > 1 {
            let middle = fit.midpoint(too_many);
            if Self::new(middle).bytes().iter().sum::<u64>() <= bytes {
                fit = middle;
            } else {
                too_many = middle;
            }
        }
        fit
    }

    /// Bytes of all pages, and of the table by number.
    pub(super) fn bytes(&self) -> [u64; 2] {
        let pages = self.table.slots() + self.index.slots();
        [pages * SPACING, pages.next_power_of_two() * 8]
    }

    /// The number of a page of the table: pages of both trees appear as rows do.
    fn table_page(&self, slot: u64) -> u64 {
        slot + (slot * self.index.slots()).div_ceil(self.table.slots())
    }

    fn index_page(&self, slot: u64) -> u64 {
        slot + slot * self.table.slots() / self.index.slots() + 1
    }
}

impl Database {
    pub(super) fn new(shape: Shape, [heap, by_number]: [Area; 2]) -> Self {
        Self { shape, heap, by_number }
    }

    /// Finds a row by its key: its place in the index, then the row.
    pub(super) fn select(&self, memory: &mut impl Memory, key: u64) {
        let Shape { table, index } = &self.shape;
        index.descend(key, |slot, position, leaf| {
            let page = self.shape.index_page(slot);
            self.find(memory, page, position, leaf, INDEX);
        });
        table.descend(key, |slot, position, leaf| {
            let page = self.shape.table_page(slot);
            let cell = self.find(memory, page, position, leaf, TABLE);
            if leaf {
                memory.load_all(self.heap, cell, TABLE.leaf_cell);
            }
        });
    }

    /// Fetches a page from the cache and searches it; where the cell that it finds lies.
    fn find(
        &self,
        memory: &mut impl Memory,
        page: u64,
        position: u64,
        leaf: bool,
        filling: Filling,
    ) -> u64 {
        let content = page * SPACING + CONTENT_AT;
        memory.load(self.by_number, page * 8);
        for at in [NUMBER_AT, HANDLE_AT] {
            memory.load(self.heap, content + at);
        }
        memory.store(self.heap, content + USERS_AT);
        for at in [KIND_AT, CELLS_AT, PLACES_AT] {
            memory.load(self.heap, content + at);
        }
        let (places, cells, bytes) = if leaf {
            (8, filling.keys_per_leaf, filling.leaf_cell)
        } else {
            (12, filling.fanout, filling.inner_cell)
        };
        let cell = |position| content + 4096 - (position + 1) * bytes;
        search(cells, position, |probe| {
            memory.load(self.heap, content + places + 2 * probe);
            memory.load(self.heap, cell(probe));
        });
        memory.store(self.heap, content + USERS_AT);
        cell(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Stage;
    use frostline_trace::event::MapKind;
    use frostline_trace::header::TraceHeader;
    use std::collections::HashSet;

    /// Where stores go, and what is loaded as a whole.
    #[derive(Default)]
    struct Seen {
        stores: Vec<u64>,
        row: Option<(u64, u64)>,
    }

    impl Memory for Seen {
        fn clock(&self) -> u64 {
            0
        }

        fn load(&mut self, area: Area, offset: u64) {
            assert!(offset < area.len_bytes());
        }

        fn load_all(&mut self, area: Area, offset: u64, len: u64) {
            assert!(offset + len <= area.len_bytes());
            assert_eq!(self.row.replace((offset, len)), None, "one row");
        }

        fn store(&mut self, _: Area, offset: u64) {
            self.stores.push(offset);
        }

        fn store_all(&mut self, _: Area, _: u64, _: u64) {}
    }

    #[test]
    fn pages_of_both_trees_have_numbers_of_their_own() {
        for rows in [1, 36, 37, 5000, 123_456] {
            let shape = Shape::new(rows);
            let mut pages: HashSet<u64> =
                (0..shape.table.slots()).map(|slot| shape.table_page(slot)).collect();
            pages.extend((0..shape.index.slots()).map(|slot| shape.index_page(slot)));
            let slots = shape.table.slots() + shape.index.slots();
            assert_eq!(pages.len() as u64, slots, "{rows} rows");
            assert!(pages.iter().all(|&page| page < slots), "{rows} rows");
        }
    }

    #[test]
    fn as_many_rows_as_fit_are_there() {
        for bytes in [1 << 18, 1 << 24, 70_000_000] {
            let rows = Shape::rows_within(bytes);
            let total = |rows| Shape::new(rows).bytes().iter().sum::<u64>();
            assert!(total(rows) <= bytes && total(rows + 1) > bytes, "{rows} rows");
        }
        // What `dbstat` says of 500 K rows: 13,889 leaves of the table, 1654 of the index.
        let [pages, _] = Shape::new(500_000).bytes();
        assert!((15_500..15_700).contains(&(pages / SPACING)), "{} pages", pages / SPACING);
    }

    #[test]
    fn a_select_ends_at_its_row_on_a_page_that_it_lets_go() {
        let shape = Shape::new(5000);
        let bytes = shape.bytes();
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let areas = bytes.map(|bytes| stage.map(bytes, MapKind::Anonymous));
        let database = Database::new(shape, areas);
        let mut rows = HashSet::new();
        for key in 0..5000 {
            let mut seen = Seen::default();
            database.select(&mut seen, key);
            // Two levels of each tree; every page has one user more, then one less.
            assert_eq!(seen.stores.len(), 2 * 4);
            assert!(seen.stores.chunks(2).all(|pair| pair[0] == pair[1]));
            let (at, len) = seen.row.expect("the row is read");
            assert_eq!(len, TABLE.leaf_cell);
            let page = at / SPACING;
            assert_eq!(seen.stores.last(), Some(&(page * SPACING + CONTENT_AT + USERS_AT)));
            assert!(rows.insert(at), "row {key} lies where another one does");
        }
    }
}
