//! Numbers on the wire: LEB128 varints and fixed little-endian fields.

/// Appends `value`, seven bits to a byte, low bits first; the last byte has its top bit clear.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Signed to unsigned so that small magnitudes stay small: 0, -1, 1, -2 become 0, 1, 2, 3.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Inverse of [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// What a [`Cursor`] found wrong; the place is the cursor's.
pub(crate) type Wrong = &'static str;

/// Reads forward through bytes that may be hostile: every step is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], pos: usize) -> Self {
        Self { bytes, pos }
    }

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.pos
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Wrong> {
        let rest = &self.bytes[self.pos..];
        let taken = rest.get(..len).ok_or("a field reaches beyond its frame")?;
        self.pos += len;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Wrong> {
        let byte = *self.bytes.get(self.pos).ok_or("a field reaches beyond its frame")?;
        self.pos += 1;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Wrong> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits")
    }

    #[inline]
    pub(crate) fn varint_u32(&mut self) -> Result<u32, Wrong> {
        u32::try_from(self.varint()?).map_err(|_| "a number has more than 32 bits")
    }

    /// A number of things that follow, each of at least `least_bytes`: never more than the bytes
    /// left can hold, hence safe to allocate for.
    pub(crate) fn count(&mut self, least_bytes: usize) -> Result<usize, Wrong> {
        usize::try_from(self.varint()?)
            .ok()
            .filter(|n| n.checked_mul(least_bytes).is_some_and(|len| len <= self.remaining()))
            .ok_or("a list is longer than its frame")
    }

    pub(crate) fn text(&mut self) -> Result<String, Wrong> {
        let len = self.count(1)?;
        let bytes = self.take(len)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| "a text is not UTF-8")
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut le = [0; 4];
    le.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(le)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut le = [0; 8];
    le.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(le)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_and_zigzag_come_back(value: u64, signed: i64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            put_varint(&mut out, zigzag(signed));
            let mut cursor = Cursor::new(&out, 0);
            prop_assert_eq!(cursor.varint(), Ok(value));
            prop_assert_eq!(cursor.varint().map(unzigzag), Ok(signed));
            prop_assert_eq!(cursor.remaining(), 0);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut cursor = Cursor::new(&bytes, 0);
            let _ = cursor.varint();
            let _ = cursor.count(3);
            let _ = cursor.text();
        }
    }

    #[test]
    fn overlong_numbers_are_refused() {
        assert!(Cursor::new(&[0xff; 11], 0).varint().is_err());
        assert!(
            Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], 0)
                .varint()
                .is_err()
        );
        let mut max = [0xff; 10];
        max[9] = 1;
        assert_eq!(Cursor::new(&max, 0).varint(), Ok(u64::MAX));
        assert!(Cursor::new(&[0x80], 0).varint().is_err());
        assert!(Cursor::new(&[200, 1, 0, 0], 0).count(1).is_err(), "200 items in 2 bytes");
    }
}
