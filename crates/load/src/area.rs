//! Private anonymous memory.

use crate::content::{PAGE_BYTES, PageBytes};
use frostline_core::HUGE_PAGES;
use memmap2::{Advice, MmapMut};
use std::io;

/// Pages at an address that is a multiple of 2 MiB. Nothing of the mapping beside them is touched.
#[derive(Debug)]
pub struct Area {
    map: MmapMut,
    skipped_bytes: usize,
    pages: usize,
}

impl Area {
    /// Maps so many pages (at least 1), huge ones where `huge` and possible, otherwise small ones.
    ///
    /// # Errors
    /// Where the system has no such memory, or has no huge pages though they are asked for.
    pub fn map(pages: usize, huge: bool) -> io::Result<Self> {
        let align = HUGE_PAGES as usize * PAGE_BYTES;
        let map = MmapMut::map_anon(pages * PAGE_BYTES + align - PAGE_BYTES)?;
        match huge {
            true => map.advise(Advice::HugePage)?,
            // A kernel without huge pages does not know this advice, and need not.
            false => drop(map.advise(Advice::NoHugePage)),
        }
        let skipped_bytes = map.as_ptr().addr().next_multiple_of(align) - map.as_ptr().addr();
        Ok(Self { map, skipped_bytes, pages })
    }

    /// Address of the first page.
    pub fn start(&self) -> u64 {
        (self.map.as_ptr().addr() + self.skipped_bytes) as u64
    }

    /// The pages, zeroed unless written.
    pub fn pages_mut(&mut self) -> &mut [PageBytes] {
        let pages = self.skipped_bytes..self.skipped_bytes + self.pages * PAGE_BYTES;
        self.map[pages].as_chunks_mut().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_and_can_be_written() {
        for pages in [1, 511, 512, 1025] {
            let mut area = Area::map(pages, false).expect("little memory");
            assert_eq!(area.start() % (2 << 20), 0);
            let start = area.start();
            assert_eq!(area.pages_mut().as_ptr().addr() as u64, start);
            assert_eq!(area.pages_mut().len(), pages);
            area.pages_mut().iter_mut().for_each(|page| page[4095] = 1);
        }
    }
}
