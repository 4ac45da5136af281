//! Newtypes that keep units and identities apart.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// Bytes of a page: 4096 (x86-64 and the usual AArch64 configuration).
pub const PAGE_BYTES: u64 = 4096;
/// Pages of a huge folio: 512 (2 MiB, one page-middle-directory entry).
pub const HUGE_PAGES: u32 = 512;
/// Largest number of tiers that a [`TierId`] can name.
pub const MAX_TIERS: usize = 8;

/// Dense number of a page, assigned by the world that feeds the engine.
///
/// Ids follow the address space in blocks of [`HUGE_PAGES`]: the page at offset `o` of a 2 MiB
/// aligned virtual range has id `512 * region + o`, hence a folio's pages are consecutive and
/// `id / 512` names its [`Region`]. Per-page state lives in plain arrays, never in a hash map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PageId(pub u32);

impl PageId {
    /// The 2 MiB region that holds the page.
    pub const fn region(self) -> Region {
        Region(self.0 / HUGE_PAGES)
    }
    /// Position inside the region, `0..512`.
    pub const fn offset(self) -> u32 {
        self.0 % HUGE_PAGES
    }
    /// As an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// Dense number of a 2 MiB aligned block of 512 page ids; mapped huge or as base pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Region(pub u32);

impl Region {
    /// First page of the region.
    pub const fn first(self) -> PageId {
        PageId(self.0 * HUGE_PAGES)
    }
    /// All 512 pages.
    pub const fn run(self) -> PageRun {
        PageRun { start: self.first(), pages: HUGE_PAGES }
    }
    /// As an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Consecutive page ids `[start, start + pages)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PageRun {
    /// First page.
    pub start: PageId,
    /// Number of pages; 0 is an empty run.
    pub pages: u32,
}

impl PageRun {
    /// A run of one page.
    pub const fn single(page: PageId) -> Self {
        Self { start: page, pages: 1 }
    }
    /// The pages `[start, end)`. Empty where `end <= start`.
    pub const fn between(start: u32, end: u32) -> Self {
        Self { start: PageId(start), pages: end.saturating_sub(start) }
    }
    /// One past the last page id. Saturates at `u32::MAX`.
    pub const fn end(self) -> u32 {
        self.start.0.saturating_add(self.pages)
    }
    /// Every page, ascending.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = PageId> + Clone {
        (self.start.0..self.end()).map(PageId)
    }
    /// Index range into per-page arrays.
    pub const fn range(self) -> core::ops::Range<usize> {
        self.start.0 as usize..self.end() as usize
    }
    /// Size in bytes.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.pages as u64 * PAGE_BYTES)
    }
    /// Whether the page lies inside.
    pub const fn contains(self, page: PageId) -> bool {
        page.0 >= self.start.0 && page.0 < self.end()
    }
    /// What is left of it without another run: the part before and the part after, those that are
    /// not empty.
    pub fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let before = Self::between(self.start.0, other.start.0.min(self.end()));
        let after = Self::between(other.end().max(self.start.0), self.end());
        [before, after].into_iter().filter(|rest| rest.pages > 0)
    }
    /// The common part of two runs, empty where they are disjoint.
    pub fn intersect(self, other: Self) -> Self {
        Self::between(self.start.0.max(other.start.0), self.end().min(other.end()))
    }
}

/// Virtual page number: virtual address divided by 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Vpn(pub u64);

/// Memory tier, 0 the fastest. Below [`MAX_TIERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TierId(pub u8);

impl TierId {
    /// The fastest tier.
    pub const FAST: Self = Self(0);
    /// As an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// The next slower tier.
    pub const fn slower(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Process, numbered densely by the world in the order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProcessId(pub u32);

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $name(pub u64);

        impl $name {
            /// None of it.
            pub const ZERO: Self = Self(0);
            /// More than anything that occurs; used for "never" and "without limit".
            pub const MAX: Self = Self(u64::MAX);
            /// Difference, 0 where `other` is larger.
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
            /// Sum, [`Self::MAX`] where it does not fit.
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        // Times and amounts come from files and command lines: arithmetic ends at the ends of the range.
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                self.saturating_add(other)
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                self.saturating_sub(other)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }
    };
}

quantity! {
    /// Point in time or span, in nanoseconds since the start of the run.
    Nanos
}
quantity! {
    /// Amount of memory in bytes.
    Bytes
}
quantity! {
    /// Number of 4 KiB pages.
    PageCount
}

impl Nanos {
    /// From seconds; fractions below a nanosecond are dropped.
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self((seconds * 1e9) as u64)
    }
    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Bytes {
    /// Whole pages that fit.
    pub const fn pages(self) -> PageCount {
        PageCount(self.0 / PAGE_BYTES)
    }
}

impl PageCount {
    /// Size in bytes. Saturates.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0.saturating_mul(PAGE_BYTES))
    }
}

/// Kind of an access that reached memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum AccessKind {
    /// Data load that missed the last-level cache.
    #[default]
    Load = 0,
    /// Store that missed (write-allocate: the line is read, and written back later).
    Store = 1,
    /// Instruction fetch that missed.
    Fetch = 2,
    /// Dirty line evicted from the last-level cache.
    WriteBack = 3,
}

impl AccessKind {
    /// From the two-bit code used in traces; other bits are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Load,
            1 => Self::Store,
            2 => Self::Fetch,
            _ => Self::WriteBack,
        }
    }
    /// Whether the processor waits for it: everything but write-backs.
    pub const fn is_demand(self) -> bool {
        !matches!(self, Self::WriteBack)
    }
    /// Whether the page is written.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Store | Self::WriteBack)
    }
}
