//! Records as the kernel writes them into a ring (`perf_event_open(2)`, "mmap layout").
//!
//! Nothing here trusts a length: bytes that are no records are counted, and never panic.

use perf_event_open_sys::bindings as sys;

/// A sampled event. Fields that the event was not asked for are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawSample<'a> {
    /// Instruction that was executing.
    pub ip: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Virtual address that was accessed.
    pub address: u64,
    /// Fields of a tracepoint.
    pub raw: &'a [u8],
    /// Cost of the access, in the processor's measure: cycles on Intel.
    pub weight: u64,
    /// What served the access: `union perf_mem_data_src` of `linux/perf_event.h`.
    pub data_source: u64,
    /// Physical address that was accessed; 0 without the right to know it.
    pub physical: u64,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sampled event.
    Sample(RawSample<'a>),
    /// A thread was started; a process where `pid != parent_pid`.
    Forked {
        /// Process of the new thread.
        pid: u32,
        /// New thread.
        tid: u32,
        /// Process that started it.
        parent_pid: u32,
        /// Thread that started it.
        parent_tid: u32,
        /// Nanoseconds of `CLOCK_MONOTONIC`.
        time_ns: u64,
    },
    /// A thread has ended.
    Exited {
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// Nanoseconds of `CLOCK_MONOTONIC`.
        time_ns: u64,
    },
    /// A process executes another program from now on.
    Executed {
        /// The process.
        pid: u32,
        /// Nanoseconds of `CLOCK_MONOTONIC`.
        time_ns: u64,
    },
    /// So many records did not fit into the ring.
    Lost(u64),
    /// A record of another type.
    Other,
}

/// Bytes of a record's header: type, flags, size.
const HEADER_BYTES: usize = 8;

/// Calls `sink` for every record in `bytes`, in their order. Returns how many could not be read;
/// what follows a damaged header is one unreadable record, because its end is unknown.
pub fn for_each(mut bytes: &[u8], sample_type: u64, mut sink: impl FnMut(Record<'_>)) -> u64 {
    let mut malformed = 0;
    while !bytes.is_empty() {
        let size = bytes.get(6..8).map_or(0, |b| usize::from(u16::from_ne_bytes([b[0], b[1]])));
        if size < HEADER_BYTES || size > bytes.len() {
            return malformed + 1;
        }
        let (record, rest) = bytes.split_at(size);
        bytes = rest;
        match parse(record, sample_type) {
            Some(record) => sink(record),
            None => malformed += 1,
        }
    }
    malformed
}

fn parse(record: &[u8], sample_type: u64) -> Option<Record<'_>> {
    let mut at = Cursor(record);
    let kind = at.u32()?;
    let misc = u32::from(at.u16()?);
    at.u16()?;
    Some(match kind {
        sys::PERF_RECORD_SAMPLE => Record::Sample(sample(at, sample_type)?),
        sys::PERF_RECORD_FORK => {
            let [pid, parent_pid, tid, parent_tid] = [at.u32()?, at.u32()?, at.u32()?, at.u32()?];
            Record::Forked { pid, tid, parent_pid, parent_tid, time_ns: at.u64()? }
        }
        sys::PERF_RECORD_EXIT => {
            let [pid, _, tid, _] = [at.u32()?, at.u32()?, at.u32()?, at.u32()?];
            Record::Exited { pid, tid, time_ns: at.u64()? }
        }
        sys::PERF_RECORD_COMM if misc & sys::PERF_RECORD_MISC_COMM_EXEC != 0 => {
            // The name is of any length; the time is at the record's end (`sample_id_all`).
            let time = record.last_chunk().map_or(0, |time| u64::from_ne_bytes(*time));
            Record::Executed { pid: at.u32()?, time_ns: time }
        }
        sys::PERF_RECORD_LOST => {
            at.u64()?;
            Record::Lost(at.u64()?)
        }
        sys::PERF_RECORD_LOST_SAMPLES => Record::Lost(at.u64()?),
        _ => Record::Other,
    })
}

/// The fields come in this order, each where its bit is set. Masks with a field that is not named
/// here make no sample: nothing after it could be found.
fn sample(mut at: Cursor<'_>, sample_type: u64) -> Option<RawSample<'_>> {
    let mut sample = RawSample::default();
    let has = |bit: sys::perf_event_sample_format| sample_type & u64::from(bit) != 0;
    if sample_type & !KNOWN_FIELDS != 0 {
        return None;
    }
    if has(sys::PERF_SAMPLE_IP) {
        sample.ip = at.u64()?;
    }
    if has(sys::PERF_SAMPLE_TID) {
        (sample.pid, sample.tid) = (at.u32()?, at.u32()?);
    }
    if has(sys::PERF_SAMPLE_TIME) {
        sample.time_ns = at.u64()?;
    }
    if has(sys::PERF_SAMPLE_ADDR) {
        sample.address = at.u64()?;
    }
    if has(sys::PERF_SAMPLE_RAW) {
        let len = at.u32()? as usize;
        sample.raw = at.bytes(len)?;
    }
    if has(sys::PERF_SAMPLE_WEIGHT) {
        sample.weight = at.u64()?;
    }
    if has(sys::PERF_SAMPLE_DATA_SRC) {
        sample.data_source = at.u64()?;
    }
    if has(sys::PERF_SAMPLE_PHYS_ADDR) {
        sample.physical = at.u64()?;
    }
    Some(sample)
}

const KNOWN_FIELDS: u64 = (sys::PERF_SAMPLE_IP
    | sys::PERF_SAMPLE_TID
    | sys::PERF_SAMPLE_TIME
    | sys::PERF_SAMPLE_ADDR
    | sys::PERF_SAMPLE_RAW
    | sys::PERF_SAMPLE_WEIGHT
    | sys::PERF_SAMPLE_DATA_SRC
    | sys::PERF_SAMPLE_PHYS_ADDR) as u64;

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }
}

/// Records as the kernel would write them.
#[cfg(test)]
pub mod write {
    use super::*;

    /// A record of type `kind` around `body`, which is a multiple of 8 bytes.
    pub fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let size = (HEADER_BYTES + body.len()) as u16;
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&misc.to_ne_bytes());
        bytes.extend_from_slice(&size.to_ne_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    /// The bytes of several numbers.
    pub fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Two 32-bit numbers in one word.
    pub fn pair(first: u32, second: u32) -> u64 {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&first.to_ne_bytes());
        bytes[4..].copy_from_slice(&second.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::write::{pair, record, words};
    use super::*;
    use crate::sys::perf::{Overrun, synthetic};
    use proptest::prelude::*;

    const TYPE: u64 = (sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_ADDR) as u64;

    #[test]
    fn every_kind_of_record_is_read() {
        let everything = KNOWN_FIELDS;
        let mut body = words(&[0x11, pair(7, 8), 99, 0xabcd]);
        body.extend_from_slice(&12u32.to_ne_bytes());
        body.extend_from_slice(b"twelve bytes");
        body.extend_from_slice(&words(&[5, 6, 7]));
        let mut bytes = record(sys::PERF_RECORD_SAMPLE, 0, &body);
        bytes.extend(record(sys::PERF_RECORD_FORK, 0, &words(&[pair(2, 1), pair(3, 4), 50])));
        bytes.extend(record(sys::PERF_RECORD_EXIT, 0, &words(&[pair(2, 1), pair(3, 4), 60])));
        let exec = sys::PERF_RECORD_MISC_COMM_EXEC as u16;
        bytes.extend(record(sys::PERF_RECORD_COMM, exec, &words(&[pair(2, 2), 0, pair(2, 2), 70])));
        bytes.extend(record(sys::PERF_RECORD_COMM, 0, &words(&[pair(2, 2), 0])));
        bytes.extend(record(sys::PERF_RECORD_LOST, 0, &words(&[1, 17])));
        bytes.extend(record(sys::PERF_RECORD_LOST_SAMPLES, 0, &words(&[3])));
        let mut seen = 0;
        let expected = [
            Record::Sample(RawSample {
                ip: 0x11,
                pid: 7,
                tid: 8,
                time_ns: 99,
                address: 0xabcd,
                raw: b"twelve bytes",
                weight: 5,
                data_source: 6,
                physical: 7,
            }),
            Record::Forked { pid: 2, tid: 3, parent_pid: 1, parent_tid: 4, time_ns: 50 },
            Record::Exited { pid: 2, tid: 3, time_ns: 60 },
            Record::Executed { pid: 2, time_ns: 70 },
            Record::Other,
            Record::Lost(17),
            Record::Lost(3),
        ];
        let malformed = for_each(&bytes, everything, |record| {
            assert_eq!(record, expected[seen]);
            seen += 1;
        });
        assert_eq!((malformed, seen), (0, expected.len()));
    }

    #[test]
    fn damaged_records_are_counted() {
        let good = record(sys::PERF_RECORD_SAMPLE, 0, &words(&[pair(1, 1), 2, 3]));
        let short = record(sys::PERF_RECORD_SAMPLE, 0, &words(&[pair(1, 1), 2]));
        let mut bytes = [good.clone(), short, good.clone()].concat();
        let mut seen = 0;
        assert_eq!(for_each(&bytes, TYPE, |_| seen += 1), 1);
        assert_eq!(seen, 2, "a short record takes no others with it");
        assert_eq!(for_each(&bytes, TYPE | 1 << 40, |_| ()), 3, "an unknown field");
        let size_of_second = good.len() + 6;
        bytes[size_of_second..size_of_second + 2].copy_from_slice(&3u16.to_ne_bytes());
        seen = 0;
        assert_eq!(for_each(&bytes, TYPE, |_| seen += 1), 1);
        assert_eq!(seen, 1, "behind a damaged length nothing can be found");
    }

    #[test]
    fn an_impossible_position_is_an_overrun_and_reading_goes_on_behind_it() {
        let mut ring = synthetic::ring(4096, 0);
        let mut out = Vec::new();
        ring.jump(5000);
        assert_eq!(ring.take(&mut out), Err(Overrun));
        assert!(out.is_empty());
        assert!(ring.produce(b"12345678"));
        assert_eq!(ring.take(&mut out), Ok(()));
        assert_eq!(out, b"12345678");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>, mask in 0u64..1 << 20) {
            for_each(&bytes, mask, |_| ());
            for_each(&bytes, KNOWN_FIELDS, |_| ());
        }

        /// Whatever the writer and the reader take turns at, each record that was not lost is
        /// read once and in order, across the ring's end and the counter's.
        #[test]
        fn a_ring_delivers_what_was_written(
            turns in proptest::collection::vec((0usize..70, any::<bool>()), 1..200),
            start in prop_oneof![Just(0u64), Just(u64::MAX - 3000), any::<u64>()],
        ) {
            let mut ring = synthetic::ring(4096, start & !7);
            let (mut next, mut written, mut read) = (0u64, Vec::new(), Vec::new());
            let mut lost = 0;
            for (count, take) in turns {
                for _ in 0..count {
                    let body = words(&[pair(1, 2), next, next << 12]);
                    if ring.produce(&record(sys::PERF_RECORD_SAMPLE, 0, &body)) {
                        written.push(next);
                    } else {
                        lost += 1;
                    }
                    next += 1;
                }
                if take {
                    collect(&mut ring, &mut read);
                }
            }
            collect(&mut ring, &mut read);
            prop_assert_eq!(&read, &written);
            prop_assert_eq!(written.len() + lost, next as usize);
        }
    }

    fn collect(ring: &mut crate::sys::perf::Ring, read: &mut Vec<u64>) {
        let mut bytes = Vec::new();
        ring.take(&mut bytes).expect("positions are sound");
        let malformed = for_each(&bytes, TYPE, |record| match record {
            Record::Sample(sample) => {
                assert_eq!(sample.address, sample.time_ns << 12);
                read.push(sample.time_ns);
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(malformed, 0);
    }
}
