//! Address space of which little is used, as programs have it that reserve in advance all that they may ever need.

use crate::shared::Shared;
use anyhow::Context;
use frostline_core::{Bytes, PAGE_BYTES};
use memmap2::{Advice, MmapMut, MmapOptions};

/// Mappings of equal size, and pages far apart that hold their numbers.
#[derive(Debug)]
pub struct Reserved {
    mappings: Vec<MmapMut>,
    /// Mapping and first byte of each page that is used.
    used: Vec<(usize, usize)>,
}

impl Reserved {
    /// Reserves `size` in so many mappings, and uses so many pages of it.
    ///
    /// # Errors
    /// Where the system has no such address space.
    pub fn map(size: Bytes, mappings: u32, pages: u32) -> anyhow::Result<Self> {
        let each = Bytes(size.0 / u64::from(mappings)).pages().0 * PAGE_BYTES;
        let map = |number: u32| -> std::io::Result<MmapMut> {
            let map = MmapOptions::new().len(each as usize).no_reserve_swap().map_anon()?;
            // A kernel without huge pages does not know this advice, and need not.
            let _ = map.advise(Advice::NoHugePage);
            // Neighbours that are alike would be one mapping.
            if number % 2 == 1 {
                map.advise(Advice::DontDump)?;
            }
            Ok(map)
        };
        let maps: std::io::Result<Vec<MmapMut>> = (0..mappings).map(map).collect();
        let maps = maps.with_context(|| format!("cannot reserve {} bytes", size.0))?;
        let mut reserved = Self { mappings: maps, used: Vec::new() };
        let all = each / PAGE_BYTES * u64::from(mappings);
        for number in 0..u64::from(pages).min(all) {
            let page = (u128::from(number) * u128::from(all) / u128::from(pages)) as u64;
            let (mapping, page) = (page / (each / PAGE_BYTES), page % (each / PAGE_BYTES));
            let place = (mapping as usize, (page * PAGE_BYTES) as usize);
            reserved.used.push(place);
            reserved.word(place).copy_from_slice(&number.to_ne_bytes());
        }
        Ok(reserved)
    }

    fn word(&mut self, (mapping, byte): (usize, usize)) -> &mut [u8] {
        &mut self.mappings[mapping][byte..byte + 8]
    }

    /// Reports pages that do not hold what was written.
    pub fn check(&mut self, shared: &Shared) {
        for (number, place) in self.used.clone().into_iter().enumerate() {
            if *self.word(place) != (number as u64).to_ne_bytes() {
                shared.found(format!("reserved page {number} is not as it was written"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_far_apart_and_keep_their_numbers() {
        let mut reserved = Reserved::map(Bytes(64 << 30), 4, 10).expect("address space");
        assert_eq!(reserved.mappings.len(), 4);
        let mapping: Vec<usize> = reserved.used.iter().map(|(mapping, _)| *mapping).collect();
        assert_eq!(mapping, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]);
        let shared = Shared::new(1);
        reserved.check(&shared);
        assert_eq!(shared.findings().count, 0);
        let place = reserved.used[3];
        reserved.word(place)[0] ^= 1;
        reserved.check(&shared);
        assert_eq!(shared.findings().count, 1);
    }
}
