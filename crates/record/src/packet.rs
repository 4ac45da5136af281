//! The recorder's packets, see `docs/reference/formats/recorder-pipe.md`. Nothing here reads or keeps state.

use frostline_core::types::AccessKind;

/// Bytes of the largest packet: writes of up to `PIPE_BUF` bytes are atomic, pipe(7).
pub const MAX_PACKET_BYTES: usize = 4096;
const HEADER_WORDS: usize = 5;
const MAGIC: u32 = 0x5052_4c46;
const VERSION: u8 = 1;
const FLAG_FINAL: u8 = 1;

const VALUE_BITS: u32 = 44;
const DELTA_MASK: u64 = (1 << 20) - 1;

/// What a packet says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whole length in bytes.
    pub bytes: usize,
    /// Process it is from.
    pub pid: u32,
    /// Thread of its first record.
    pub tid: u32,
    /// Number of the packet in its process image, from 0.
    pub sequence: u64,
    /// Instructions retired in the process before the first record.
    pub clock_start: u64,
    /// The same behind the last record.
    pub clock_end: u64,
    /// Last packet of the process image.
    pub is_final: bool,
}

/// Needed before the length of a packet is known.
pub const HEADER_BYTES: usize = HEADER_WORDS * 8;

impl Header {
    /// Decodes the first [`HEADER_BYTES`] of `bytes`.
    ///
    /// # Errors
    /// What is wrong, where this is no packet of a version that is known here.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        let word = |i: usize| word(bytes, i);
        let first = word(0);
        if first as u32 != MAGIC {
            return Err(format!("a packet begins with {:#010x}", first as u32));
        }
        let version = (first >> 32) as u8;
        if version != VERSION {
            return Err(format!("packets have version {version}, not {VERSION}"));
        }
        let length = (first >> 48) as usize;
        if !(HEADER_BYTES..=MAX_PACKET_BYTES).contains(&length) || !length.is_multiple_of(8) {
            return Err(format!("a packet claims {length} bytes"));
        }
        let header = Self {
            bytes: length,
            pid: word(1) as u32,
            tid: (word(1) >> 32) as u32,
            sequence: word(2),
            clock_start: word(3),
            clock_end: word(4),
            is_final: (first >> 40) as u8 & FLAG_FINAL != 0,
        };
        if header.clock_end < header.clock_start {
            return Err("a packet's clock runs backwards".into());
        }
        Ok(header)
    }
}

/// The `i`th little-endian word; the caller has checked that it is there.
#[inline]
fn word(bytes: &[u8], i: usize) -> u64 {
    let mut buffer = [0; 8];
    buffer.copy_from_slice(&bytes[8 * i..8 * i + 8]);
    u64::from_le_bytes(buffer)
}

/// What a packet holds, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An access that reached memory.
    Access {
        /// Virtual page number.
        vpn: u64,
        /// Line in the page, `0..64`.
        line: u8,
        /// What it was.
        kind: AccessKind,
        /// Instructions since the record before.
        delta: u32,
    },
    /// Instructions have passed.
    Clock(u64),
    /// What follows happens on this thread.
    Thread(u32),
    /// The store that the sampler picked was to this virtual page.
    StoreSample {
        /// Virtual page number.
        vpn: u64,
    },
    /// Pages of a 2 MiB region touched in the epoch that is about to end.
    Touched {
        /// Virtual address divided by 2 MiB.
        huge_vpn: u64,
        /// A bit per page.
        pages: [u64; 8],
    },
    /// An epoch ends.
    EpochEnd {
        /// Its number in the process image.
        epoch: u64,
        /// How many [`Item::Touched`] belong to it.
        regions: u64,
    },
    /// A mapping appears.
    Map {
        /// First byte.
        start: u64,
        /// Bytes.
        len: u64,
        /// `PROT_*`.
        prot: u32,
        /// `MAP_*`.
        flags: u32,
        /// File behind it: device and inode, both 0 for none.
        file: (u64, u64),
        /// Offset in the file.
        offset: u64,
        /// Path of the file, where known.
        path: String,
    },
    /// A mapping goes.
    Unmap {
        /// First byte.
        start: u64,
        /// Bytes.
        len: u64,
    },
    /// `mremap` succeeded.
    Remap {
        /// Old first byte.
        old_start: u64,
        /// Old bytes.
        old_len: u64,
        /// New first byte.
        new_start: u64,
        /// New bytes.
        new_len: u64,
    },
    /// The program break moved.
    Brk {
        /// From here.
        old: u64,
        /// To here.
        new: u64,
    },
    /// `mprotect` succeeded.
    Protect {
        /// First byte.
        start: u64,
        /// Bytes.
        len: u64,
        /// `PROT_*`.
        prot: u32,
    },
    /// `madvise` succeeded.
    Advise {
        /// First byte.
        start: u64,
        /// Bytes.
        len: u64,
        /// `MADV_*`.
        advice: u32,
    },
    /// A regular file is open.
    Open {
        /// Descriptor.
        fd: i32,
        /// Device and inode.
        file: (u64, u64),
        /// Path, where known.
        path: String,
    },
    /// A descriptor of a regular file was closed.
    Close {
        /// Descriptor.
        fd: i32,
        /// Device and inode.
        file: (u64, u64),
    },
    /// Bytes went from a file to the program, or the other way.
    Transfer {
        /// To the file.
        is_write: bool,
        /// Device and inode.
        file: (u64, u64),
        /// Offset of the first byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// A thread begins.
    ThreadStart(u32),
    /// A thread ends.
    ThreadExit(u32),
    /// First item of a process image.
    ProcessStart {
        /// By fork: the image goes on in a new process.
        is_fork: bool,
        /// Who started it.
        parent_pid: u32,
        /// Program and arguments, separated by spaces.
        command: String,
    },
    /// Last item of a process image that ends in an orderly way.
    ProcessExit {
        /// Exit code; 0 where a signal ended it.
        code: i32,
        /// Accesses sent, by kind.
        by_kind: [u64; 4],
        /// Stores sampled.
        store_samples: u64,
    },
    /// The image is about to be replaced by `exec`, if that succeeds.
    Exec,
    /// An operation begins or ends.
    Operation {
        /// It ends.
        is_end: bool,
        /// Which, as the program chose.
        id: u64,
    },
}

/// Walks over the payload of a packet.
#[derive(Debug)]
pub struct Items<'a> {
    payload: &'a [u8],
    /// Words read so far.
    at: usize,
}

impl<'a> Items<'a> {
    /// `payload` is a packet without its header.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { payload, at: 0 }
    }

    /// The next item; none at the end.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Item>, String> {
        if 8 * self.at >= self.payload.len() {
            return Ok(None);
        }
        let first = word(self.payload, self.at);
        self.at += 1;
        if first >> 63 == 0 {
            return Ok(Some(Item::Access {
                vpn: first >> 28,
                line: (first >> 22) as u8 & 63,
                kind: AccessKind::from_bits((first >> 20) as u8),
                delta: (first & DELTA_MASK) as u32,
            }));
        }
        self.control(first).map(Some)
    }

    fn control(&mut self, first: u64) -> Result<Item, String> {
        let code = (first >> 56) as u8 & 127;
        let words = (first >> VALUE_BITS) as usize & 0xfff;
        let value = first & ((1 << VALUE_BITS) - 1);
        let begin = 8 * self.at;
        let Some(body) = self.payload.get(begin..begin + 8 * words) else {
            return Err(format!("event {code} of {words} words exceeds its packet"));
        };
        self.at += words;
        let body = Body(body);
        Ok(match code {
            1 => Item::Clock(value),
            2 => Item::Thread(value as u32),
            3 => Item::StoreSample { vpn: value >> 6 },
            4 => Item::Touched { huge_vpn: value, pages: body.words::<8>(code)? },
            5 => {
                let [_start, _end, regions] = body.words(code)?;
                Item::EpochEnd { epoch: value, regions }
            }
            6 => {
                let [start, len, how, dev, ino, offset] = body.words(code)?;
                let (prot, flags) = (how as u32, (how >> 32) as u32);
                Item::Map { start, len, prot, flags, file: (dev, ino), offset, path: body.text(6)? }
            }
            7 => {
                let [start, len] = body.words(code)?;
                Item::Unmap { start, len }
            }
            8 => {
                let [old_start, old_len, new_start, new_len] = body.words(code)?;
                Item::Remap { old_start, old_len, new_start, new_len }
            }
            9 => {
                let [old, new] = body.words(code)?;
                Item::Brk { old, new }
            }
            10 => {
                let [start, len] = body.words(code)?;
                Item::Protect { start, len, prot: value as u32 }
            }
            11 => {
                let [start, len] = body.words(code)?;
                Item::Advise { start, len, advice: value as u32 }
            }
            12 => {
                let [dev, ino, _size, _flags] = body.words(code)?;
                Item::Open { fd: value as i32, file: (dev, ino), path: body.text(4)? }
            }
            13 => {
                let [dev, ino] = body.words(code)?;
                Item::Close { fd: value as i32, file: (dev, ino) }
            }
            14 | 15 => {
                let [dev, ino, offset, len] = body.words(code)?;
                Item::Transfer { is_write: code == 15, file: (dev, ino), offset, len }
            }
            16 => Item::ThreadStart(value as u32),
            17 => Item::ThreadExit(value as u32),
            18 => Item::ProcessStart {
                is_fork: value == 1,
                parent_pid: body.words::<8>(code)?[0] as u32,
                command: body.text(8)?,
            },
            19 => {
                let [_clock, loads, stores, fetches, write_backs, store_samples] =
                    body.words(code)?;
                Item::ProcessExit {
                    code: value as i32,
                    by_kind: [loads, stores, fetches, write_backs],
                    store_samples,
                }
            }
            20 => Item::Exec,
            21 | 22 => Item::Operation { is_end: code == 22, id: body.words::<1>(code)?[0] },
            _ => return Err(format!("unknown event {code}")),
        })
    }
}

/// The words behind an event's first one.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    /// The first `N` words.
    fn words<const N: usize>(&self, code: u8) -> Result<[u64; N], String> {
        if self.0.len() < 8 * N {
            return Err(format!("event {code} has {} words, not {N}", self.0.len() / 8));
        }
        Ok(std::array::from_fn(|i| word(self.0, i)))
    }

    /// The text behind `skip` words: its length, then its bytes.
    fn text(&self, skip: usize) -> Result<String, String> {
        let rest = self.0.get(8 * skip..).filter(|rest| rest.len() >= 8);
        let text = rest.and_then(|rest| rest[8..].get(..usize::try_from(word(rest, 0)).ok()?));
        text.map(|text| String::from_utf8_lossy(text).into_owned())
            .ok_or_else(|| "a text exceeds its event".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn control(code: u64, value: u64, body: &[u64]) -> Vec<u8> {
        let first = 1 << 63 | code << 56 | (body.len() as u64) << VALUE_BITS | value;
        std::iter::once(&first).chain(body).flat_map(|word| word.to_le_bytes()).collect()
    }

    fn all(payload: &[u8]) -> Result<Vec<Item>, String> {
        let mut items = Items::new(payload);
        let mut out = Vec::new();
        while let Some(item) = items.next()? {
            out.push(item);
        }
        assert_eq!(8 * items.at, payload.len());
        Ok(out)
    }

    #[test]
    fn accesses_have_four_fields() {
        let word: u64 = 0x7_ffff_ffff << 28 | 63 << 22 | 3 << 20 | 0xf_fffe;
        let expected = Item::Access {
            vpn: 0x7_ffff_ffff,
            line: 63,
            kind: AccessKind::WriteBack,
            delta: 0xf_fffe,
        };
        assert_eq!(all(&word.to_le_bytes()), Ok(vec![expected]));
    }

    #[test]
    fn texts_are_cut_out_of_their_padding() {
        let path = u64::from_le_bytes(*b"/tmp/a\0\0");
        let payload = control(12, 3, &[1, 2, 100, 0, 6, path]);
        let expected = Item::Open { fd: 3, file: (1, 2), path: "/tmp/a".into() };
        assert_eq!(all(&payload), Ok(vec![expected]));
    }

    #[test]
    fn short_events_and_unknown_ones_are_refused() {
        assert!(all(&control(7, 0, &[1])).unwrap_err().contains("1 words, not 2"));
        assert!(all(&control(99, 0, &[])).unwrap_err().contains("unknown event 99"));
        assert!(all(&control(12, 3, &[1, 2, 3, 4, 9, 0])).unwrap_err().contains("text"));
        let mut cut = control(7, 0, &[1, 2]);
        cut.truncate(16);
        assert!(all(&cut).unwrap_err().contains("exceeds its packet"));
    }

    proptest! {
        #[test]
        fn nothing_panics(words in prop::collection::vec(any::<u64>(), 0..64)) {
            let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let _ = all(&payload);
            let mut header = [0; HEADER_BYTES];
            let n = header.len().min(payload.len());
            header[..n].copy_from_slice(&payload[..n]);
            let _ = Header::decode(&header);
        }
    }
}
