//! Content of pages: their number, their version, a checksum, and in between words that follow from
//! both and compress by a chosen ratio.
//!
//! Word 0 is the number, word 1 the version, the last four bytes are the checksum of all the
//! others. The random words come first; the rest of the page repeats one random word.

use std::fmt;

/// Bytes of a page.
pub const PAGE_BYTES: usize = frostline_core::PAGE_BYTES as usize;

/// A page's memory.
pub type PageBytes = [u8; PAGE_BYTES];

const WORDS: usize = PAGE_BYTES / 8;
/// Words 2 to here, not included, depend on number and version; the checksum follows.
const CONTENT_END: usize = WORDS - 1;
const CHECKSUM_AT: usize = PAGE_BYTES - 4;
/// What a page takes beside its random words when it is compressed: the checksum and the codes of
/// the compressor.
const OVERHEAD_BYTES: f64 = 40.0;

/// How pages are filled and checked.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    seed: u64,
    /// Words from this one to the checksum are all the same.
    random_end: usize,
}

/// What is wrong with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The number is another page's.
    Number { found: u64 },
    /// The version is not the one written last.
    Version { found: u64, expected: u64 },
    /// A word does not follow from number and version.
    Word { at: usize, found: u64, expected: u64 },
    /// The checksum does not fit the bytes.
    Checksum { found: u32, expected: u32 },
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { found } => write!(f, "holds the number {found}"),
            Self::Version { found, expected } => {
                write!(f, "holds version {found} instead of {expected}")
            }
            Self::Word { at, found, expected } => {
                write!(f, "word {at} is {found:#018x} instead of {expected:#018x}")
            }
            Self::Checksum { found, expected } => {
                write!(f, "the checksum is {found:#010x} instead of {expected:#010x}")
            }
        }
    }
}

impl Recipe {
    /// Pages that compress about `ratio` to 1; 1 is incompressible, 64 the most.
    pub fn new(seed: u64, ratio: f64) -> Self {
        let random_bytes = (PAGE_BYTES as f64 / ratio - OVERHEAD_BYTES).max(0.0);
        Self {
            seed,
            random_end: (random_bytes / 8.0).round().clamp(2.0, CONTENT_END as f64) as usize,
        }
    }

    /// Writes the whole page.
    pub fn write(&self, page: &mut PageBytes, number: u64, version: u64) {
        let key = self.key(number, version);
        let (words, _) = page.as_chunks_mut::<8>();
        words[0] = number.to_le_bytes();
        words[1] = version.to_le_bytes();
        for (at, word) in words[..self.random_end].iter_mut().enumerate().skip(2) {
            *word = random_word(key, at).to_le_bytes();
        }
        words[self.random_end..].fill(random_word(key, self.random_end).to_le_bytes());
        let checksum = crc32fast::hash(&page[..CHECKSUM_AT]);
        page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Checks number, version and one word, chosen by the random `probe`: two cache lines.
    ///
    /// # Errors
    /// What is wrong.
    #[inline]
    pub fn check_quickly(
        &self,
        page: &PageBytes,
        number: u64,
        version: u64,
        probe: u32,
    ) -> Result<(), Flaw> {
        check_header(page, number, version)?;
        let span = (CONTENT_END - 2) as u64;
        let at = 2 + ((u64::from(probe) * span) >> 32) as usize;
        let expected = random_word(self.key(number, version), at.min(self.random_end));
        match word(page, at) {
            found if found == expected => Ok(()),
            found => Err(Flaw::Word { at, found, expected }),
        }
    }

    #[inline]
    fn key(&self, number: u64, version: u64) -> u64 {
        mix(mix(self.seed ^ number) ^ version)
    }
}

/// Checks number, version and every byte.
///
/// # Errors
/// What is wrong.
pub fn check_fully(page: &PageBytes, number: u64, version: u64) -> Result<(), Flaw> {
    check_header(page, number, version)?;
    let expected = crc32fast::hash(&page[..CHECKSUM_AT]);
    match u32::from_le_bytes(*page.last_chunk().expect("a page has four bytes")) {
        found if found == expected => Ok(()),
        found => Err(Flaw::Checksum { found, expected }),
    }
}

#[inline]
fn check_header(page: &PageBytes, number: u64, expected: u64) -> Result<(), Flaw> {
    match (word(page, 0), word(page, 1)) {
        (n, v) if (n, v) == (number, expected) => Ok(()),
        (n, found) if n == number => Err(Flaw::Version { found, expected }),
        (found, _) => Err(Flaw::Number { found }),
    }
}

#[inline]
fn word(page: &PageBytes, at: usize) -> u64 {
    u64::from_le_bytes(page.as_chunks::<8>().0[at])
}

#[inline]
fn random_word(key: u64, at: usize) -> u64 {
    mix(key.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): every bit depends on every bit.
#[inline]
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(recipe: &Recipe, number: u64, version: u64) -> Box<PageBytes> {
        let mut page = Box::new([0; PAGE_BYTES]);
        recipe.write(&mut page, number, version);
        page
    }

    #[test]
    fn what_was_written_passes_every_check() {
        for ratio in [1.0, 1.5, 3.0, 64.0] {
            let recipe = Recipe::new(7, ratio);
            let page = page(&recipe, 11, 3);
            assert_eq!(check_fully(&page, 11, 3), Ok(()));
            for probe in (0..=u32::MAX).step_by(1 << 20) {
                assert_eq!(recipe.check_quickly(&page, 11, 3, probe), Ok(()), "{ratio} {probe}");
            }
        }
    }

    #[test]
    fn other_pages_and_other_versions_are_told_apart() {
        let recipe = Recipe::new(7, 3.0);
        let page = page(&recipe, 11, 3);
        assert_eq!(check_fully(&page, 12, 3), Err(Flaw::Number { found: 11 }));
        let stale = Flaw::Version { found: 3, expected: 4 };
        assert_eq!(check_fully(&page, 11, 4), Err(stale));
        assert_eq!(recipe.check_quickly(&page, 11, 4, 0), Err(stale));
        assert!(check_fully(&[0; PAGE_BYTES], 0, 1).is_err(), "versions begin at 1");
    }

    #[test]
    fn a_flipped_bit_is_detected_wherever_it_is() {
        let recipe = Recipe::new(7, 3.0);
        let mut page = page(&recipe, 11, 3);
        for bit in 0..PAGE_BYTES * 8 {
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(check_fully(&page, 11, 3).is_err(), "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(check_fully(&page, 11, 3), Ok(()));
    }

    #[test]
    fn quick_checks_together_see_every_word_but_the_checksum() {
        let recipe = Recipe::new(7, 3.0);
        for at in 0..CONTENT_END {
            let mut page = page(&recipe, 11, 3);
            page[at * 8] ^= 1;
            let caught = (0..=u32::MAX)
                .step_by(1 << 22)
                .any(|probe| recipe.check_quickly(&page, 11, 3, probe).is_err());
            assert!(caught, "word {at}");
        }
    }

    #[test]
    fn pages_compress_as_asked() {
        for ratio in [1.0, 2.0, 3.0, 5.0, 10.0] {
            let recipe = Recipe::new(7, ratio);
            let compressed: usize = (0..32)
                .map(|number| {
                    zstd::bulk::compress(&*page(&recipe, number, 1), 1).expect("memory").len()
                })
                .sum();
            let found = (32 * PAGE_BYTES) as f64 / compressed as f64;
            assert!((found / ratio - 1.0).abs() < 0.1, "{ratio} asked, {found} found");
        }
    }
}
