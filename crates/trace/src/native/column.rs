//! One column of a block: frame of reference and bit packing.
//!
//! A column of `n` values is `base` plus `n` numbers of `width` bits. Full blocks (256 values) lie
//! in eight lanes, value `i` in lane `i % 8`, so that SIMD unpacks eight at a time (Lemire and
//! Boytsov, "Decoding billions of integers per second through vectorization", 2015); shorter
//! blocks pack their numbers one after the other, low bits first, so that they stay short.

use super::wire::{Cursor, Wrong, put_varint};
use crate::batch::BLOCK_RECORDS;
use wide::u32x8;

const LANES: usize = 8;
/// Values of a full block in one lane.
const ROWS: usize = BLOCK_RECORDS / LANES;
/// Bytes of one 32-bit word in each lane.
const STRIPE: usize = 4 * LANES;

/// Bytes that `n` packed numbers take.
fn packed_len(n: usize, width: u32) -> usize {
    (n * width as usize).div_ceil(8)
}

/// Appends `width`, `base` and the packed numbers. Overwrites `values` with the differences.
///
/// Where `from_zero`, the base is 0 unless all values are equal, so that the width alone bounds
/// the values.
pub(crate) fn encode(out: &mut Vec<u8>, values: &mut [u32], from_zero: bool) {
    let min = values.iter().copied().min().unwrap_or(0);
    let max = values.iter().copied().max().unwrap_or(0);
    let base = if from_zero && min != max { 0 } else { min };
    let width = u32::BITS - (max - base).leading_zeros();
    out.push(width as u8);
    put_varint(out, u64::from(base));
    if width == 0 {
        return;
    }
    for value in values.iter_mut() {
        *value -= base;
    }
    let start = out.len();
    out.resize(start + packed_len(values.len(), width), 0);
    let packed = &mut out[start..];
    if values.len() == BLOCK_RECORDS {
        pack_full(values, width as usize, packed);
    } else {
        pack_short(values, width, packed);
    }
}

/// A column found in a frame, not yet unpacked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    pub(crate) base: u32,
    pub(crate) width: u32,
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    /// The column of a block of `n` values at the cursor, which moves behind it. Values are below
    /// `2^max_width`, and for `from_zero` columns guaranteed to be.
    #[inline]
    pub(crate) fn find(
        cursor: &mut Cursor<'a>,
        n: usize,
        max_width: u32,
        from_zero: bool,
    ) -> Result<Self, Wrong> {
        let width = u32::from(cursor.byte()?);
        let base = cursor.varint_u32()?;
        let bounded = !from_zero || if width == 0 { base >> max_width == 0 } else { base == 0 };
        if width > max_width || !bounded {
            return Err("a column has values out of range");
        }
        Ok(Self { base, width, bytes: cursor.take(packed_len(n, width))? })
    }

    /// No value is above this one.
    #[inline]
    pub(crate) fn most(&self) -> u64 {
        // Sums wrap, so that each number can be the result where they do.
        let most = u64::from(self.base) + ((1u64 << self.width) - 1);
        if most > u64::from(u32::MAX) { u64::from(u32::MAX) } else { most }
    }

    /// Unpacks into `out`, which has the block's length. Sums wrap at 2^32.
    #[inline]
    pub(crate) fn unpack(&self, out: &mut [u32]) {
        if self.width == 0 {
            out.fill(self.base);
            return;
        }
        if out.len() == BLOCK_RECORDS {
            unpack_full(self.bytes, self.width, self.base, out);
        } else {
            unpack_short(self.bytes, self.width, self.base, out);
        }
    }
}

fn pack_full(values: &[u32], width: usize, packed: &mut [u8]) {
    for lane in 0..LANES {
        let (mut held, mut bits, mut at) = (0u64, 0, 4 * lane);
        for row in 0..ROWS {
            held |= u64::from(values[LANES * row + lane]) << bits;
            bits += width;
            if bits >= 32 {
                packed[at..at + 4].copy_from_slice(&(held as u32).to_le_bytes());
                (held, bits, at) = (held >> 32, bits - 32, at + STRIPE);
            }
        }
    }
}

/// Calls the unpacker made for `width`, which is not 0.
#[inline]
fn unpack_full(packed: &[u8], width: u32, base: u32, out: &mut [u32]) {
    macro_rules! dispatch {
        ($($width:literal)*) => {
            match width {
                $($width => unpack_rows::<$width>(packed, base, out),)*
                _ => {}
            }
        };
    }
    dispatch!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
}

/// The width being a constant, every shift is one too. The lanes are vectors by type: from plain
/// loops the compiler makes scalar code for half of the widths.
fn unpack_rows<const WIDTH: usize>(packed: &[u8], base: u32, out: &mut [u32]) {
    let stripes = packed.as_chunks::<STRIPE>().0.first_chunk::<WIDTH>();
    let rows = out.as_chunks_mut::<LANES>().0.first_chunk_mut::<ROWS>();
    let (Some(stripes), Some(rows)) = (stripes, rows) else { return };
    let (mask, base) = (u32x8::splat(u32::MAX >> (32 - WIDTH)), u32x8::splat(base));
    let words = |stripe: usize| {
        let mut words = [0; LANES];
        for (word, le) in words.iter_mut().zip(stripes[stripe].as_chunks().0) {
            *word = u32::from_le_bytes(*le);
        }
        u32x8::new(words)
    };
    macro_rules! unroll {
        ($($row:literal)*) => {$({
            let (stripe, shift) = ($row * WIDTH / 32, $row * WIDTH % 32);
            let mut values = words(stripe) >> shift as u32;
            if shift + WIDTH > 32 {
                values |= words(stripe + 1) << (32 - shift) as u32;
            }
            rows[$row] = ((values & mask) + base).to_array();
        })*};
    }
    unroll!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
}

fn pack_short(values: &[u32], width: u32, packed: &mut [u8]) {
    let (mut held, mut bits) = (0u64, 0);
    let mut bytes = packed.iter_mut();
    let mut put = |held: u64| {
        if let Some(byte) = bytes.next() {
            *byte = held as u8;
        }
    };
    for value in values {
        held |= u64::from(*value) << bits;
        bits += width;
        while bits >= 8 {
            put(held);
            held >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        put(held);
    }
}

fn unpack_short(packed: &[u8], width: u32, base: u32, out: &mut [u32]) {
    let mask = (1u64 << width) - 1;
    for (i, value) in out.iter_mut().enumerate() {
        let bit = i * width as usize;
        let rest = &packed[bit / 8..];
        let word = match rest.first_chunk::<8>() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        *value = ((word >> (bit % 8) & mask) as u32).wrapping_add(base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(values: &[u32], from_zero: bool, max_width: u32) -> usize {
        let mut out = Vec::new();
        encode(&mut out, &mut values.to_vec(), from_zero);
        let mut cursor = Cursor::new(&out, 0);
        let packed = Packed::find(&mut cursor, values.len(), max_width, from_zero).unwrap();
        assert_eq!(cursor.remaining(), 0);
        let mut back = vec![7; values.len()];
        packed.unpack(&mut back);
        assert_eq!(back, values);
        out.len()
    }

    proptest! {
        #[test]
        fn columns_come_back(
            low: u32,
            width in 0u32..=32,
            seeds in proptest::collection::vec(any::<u32>(), 1..=256),
            full: bool,
        ) {
            let mask = ((1u64 << width) - 1) as u32;
            let mut values: Vec<u32> = seeds.iter().map(|s| (s & mask).saturating_add(low)).collect();
            if full {
                values.resize(256, low);
            }
            round_trip(&values, false, 32);
            let bounded: Vec<u32> = values.iter().map(|v| v & 63).collect();
            round_trip(&bounded, true, 6);
        }
    }

    #[test]
    fn equal_values_cost_nothing() {
        assert_eq!(round_trip(&[5; 256], false, 32), 2);
        assert_eq!(round_trip(&[3; 17], true, 6), 2);
        assert_eq!(round_trip(&[0, u32::MAX], false, 32), 2 + 8);
    }

    /// The layout that the format's description promises, from first principles.
    #[test]
    fn vertical_layout_is_as_documented() {
        let values: Vec<u32> = (0..256u32).map(|i| i * 0x9e37 % 8191).collect();
        let width = 13;
        let mut packed = vec![0; packed_len(256, width as u32)];
        pack_full(&values, width, &mut packed);
        for (i, value) in values.iter().enumerate() {
            let (lane, bit) = (i % 8, i / 8 * width);
            let word = |k: usize| {
                let at = 4 * (8 * k + lane);
                packed.get(at..at + 4).map_or(0, |b| u64::from(super::super::wire::u32_at(b, 0)))
            };
            let pair = word(bit / 32) | word(bit / 32 + 1) << 32;
            assert_eq!((pair >> (bit % 32)) as u32 & 8191, *value, "value {i}");
        }
    }

    #[test]
    fn bounds_of_small_columns_hold() {
        let find = |bytes: &[u8]| Packed::find(&mut Cursor::new(bytes, 0), 4, 2, true).is_ok();
        assert!(find(&[0, 3]));
        assert!(!find(&[0, 4]), "constant out of range");
        assert!(!find(&[3, 0, 0, 0]), "too wide");
        assert!(!find(&[2, 1, 0]), "base would lift values out of range");
        assert!(find(&[2, 0, 0]));
        assert!(!find(&[2, 0]), "short");
    }
}
