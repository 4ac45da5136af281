//! Events as bytes: a kind, then its fields as varints.

use super::wire::{Cursor, Wrong, put_varint, unzigzag, zigzag};
use crate::event::{FileId, MapKind, StreamId, TraceEvent};
use frostline_core::types::{HUGE_PAGES, PageId, PageRun, ProcessId, Region};

/// Codes of the kinds. Never given to another kind.
mod code {
    pub(super) const PROCESS: u8 = 1;
    pub(super) const PROCESS_EXIT: u8 = 2;
    pub(super) const THREAD: u8 = 3;
    pub(super) const THREAD_EXIT: u8 = 4;
    pub(super) const REGION_NAMED: u8 = 5;
    pub(super) const MAP: u8 = 6;
    pub(super) const UNMAP: u8 = 7;
    pub(super) const DISCARD: u8 = 8;
    pub(super) const REMAP: u8 = 9;
    pub(super) const FILE_OPEN: u8 = 10;
    pub(super) const FILE_CLOSE: u8 = 11;
    pub(super) const FILE_READ: u8 = 12;
    pub(super) const FILE_WRITE: u8 = 13;
    pub(super) const OP_BEGIN: u8 = 14;
    pub(super) const OP_END: u8 = 15;
    pub(super) const STORE_SAMPLES: u8 = 16;
    pub(super) const TOUCHED: u8 = 17;
}

/// Touched sets with at most this many pages list them; others store 512 bits.
const MAX_LISTED: u32 = 40;

struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    fn num(&mut self, value: impl Into<u64>) -> &mut Self {
        put_varint(self.0, value.into());
        self
    }
    fn signed(&mut self, value: impl Into<i64>) -> &mut Self {
        self.num(zigzag(value.into()))
    }
    fn text(&mut self, text: &str) -> &mut Self {
        self.num(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
        self
    }
    fn run(&mut self, run: PageRun) -> &mut Self {
        self.num(run.start.0).num(run.pages)
    }
    fn runs(&mut self, runs: &[PageRun]) -> &mut Self {
        self.num(runs.len() as u64);
        runs.iter().fold(self, |out, run| out.run(*run))
    }
    fn map_kind(&mut self, kind: MapKind) -> &mut Self {
        match kind {
            MapKind::Anonymous => self.num(0u8),
            MapKind::SharedAnonymous => self.num(1u8),
            MapKind::Heap => self.num(2u8),
            MapKind::Stack => self.num(3u8),
            MapKind::FilePrivate { file, offset_bytes } => {
                self.num(4u8).num(file.0).num(offset_bytes)
            }
            MapKind::FileShared { file, offset_bytes } => {
                self.num(5u8).num(file.0).num(offset_bytes)
            }
        }
    }
    /// Region numbers ascend mostly: signed differences. Then the pages touched: their number,
    /// and unless it is 0 or 512 their offsets (ascending differences) or 64 bytes of bits.
    fn touched(&mut self, regions: &[(Region, [u64; 8])]) -> &mut Self {
        self.num(regions.len() as u64);
        let mut previous = -1i64;
        for (region, bits) in regions {
            self.signed(i64::from(region.0) - previous - 1);
            previous = i64::from(region.0);
            let pages: u32 = bits.iter().map(|word| word.count_ones()).sum();
            self.num(pages);
            if pages <= MAX_LISTED {
                let mut last = -1i64;
                for i in (0..HUGE_PAGES).filter(|i| bits[*i as usize / 64] >> (i % 64) & 1 == 1) {
                    self.num((i64::from(i) - last - 1) as u64);
                    last = i64::from(i);
                }
            } else if pages < HUGE_PAGES {
                self.0.extend(bits.iter().flat_map(|word| word.to_le_bytes()));
            }
        }
        self
    }
}

/// Appends the event's bytes.
pub fn encode_event(bytes: &mut Vec<u8>, event: &TraceEvent) {
    let mut out = Out(bytes);
    let out = &mut out;
    match event {
        TraceEvent::Process { process, parent, pid, command } => {
            let parent = parent.map_or(0, |p| u64::from(p.0) + 1);
            out.num(code::PROCESS).num(process.0).num(parent).num(*pid).text(command)
        }
        TraceEvent::ProcessExit { process, status } => {
            out.num(code::PROCESS_EXIT).num(process.0).signed(*status)
        }
        TraceEvent::Thread { stream, process, tid } => {
            out.num(code::THREAD).num(stream.0).num(process.0).num(*tid)
        }
        TraceEvent::ThreadExit { stream } => out.num(code::THREAD_EXIT).num(stream.0),
        TraceEvent::RegionNamed { region, process, huge_vpn } => {
            out.num(code::REGION_NAMED).num(region.0).num(process.0).num(*huge_vpn)
        }
        TraceEvent::Map { process, start, len_bytes, kind, accessible, runs } => {
            out.num(code::MAP).num(process.0).num(*start).num(*len_bytes);
            out.map_kind(*kind).num(u8::from(*accessible)).runs(runs)
        }
        TraceEvent::Unmap { process, start, len_bytes, runs } => {
            out.num(code::UNMAP).num(process.0).num(*start).num(*len_bytes).runs(runs)
        }
        TraceEvent::Discard { process, start, len_bytes, runs } => {
            out.num(code::DISCARD).num(process.0).num(*start).num(*len_bytes).runs(runs)
        }
        TraceEvent::Remap {
            process,
            old_start,
            old_len_bytes,
            new_start,
            new_len_bytes,
            moves,
            gained,
            lost,
        } => {
            out.num(code::REMAP).num(process.0).num(*old_start).num(*old_len_bytes);
            out.num(*new_start).num(*new_len_bytes).num(moves.len() as u64);
            for (run, to) in moves {
                out.run(*run).num(to.0);
            }
            out.runs(gained).runs(lost)
        }
        TraceEvent::FileOpen { file, process, fd, path } => {
            out.num(code::FILE_OPEN).num(file.0).num(process.0).signed(*fd).text(path)
        }
        TraceEvent::FileClose { file, process, fd } => {
            out.num(code::FILE_CLOSE).num(file.0).num(process.0).signed(*fd)
        }
        TraceEvent::FileRead { file, process, offset_bytes, len_bytes } => {
            out.num(code::FILE_READ).num(file.0).num(process.0).num(*offset_bytes).num(*len_bytes)
        }
        TraceEvent::FileWrite { file, process, offset_bytes, len_bytes } => {
            out.num(code::FILE_WRITE).num(file.0).num(process.0).num(*offset_bytes).num(*len_bytes)
        }
        TraceEvent::OpBegin { stream, op } => out.num(code::OP_BEGIN).num(stream.0).num(*op),
        TraceEvent::OpEnd { stream, op } => out.num(code::OP_END).num(stream.0).num(*op),
        TraceEvent::StoreSamples { samples } => {
            out.num(code::STORE_SAMPLES).num(samples.len() as u64);
            for (stream, page) in samples {
                out.num(stream.0).num(page.0);
            }
            out
        }
        TraceEvent::Touched { epoch, regions } => {
            out.num(code::TOUCHED).num(*epoch).touched(regions)
        }
    };
}

/// Reads an event that fills `bytes` exactly.
///
/// # Errors
/// Says what is wrong with bytes that [`encode_event`] cannot have written.
pub fn decode_event(bytes: &[u8]) -> Result<TraceEvent, &'static str> {
    let mut cursor = Cursor::new(bytes, 0);
    let event = In(&mut cursor).event()?;
    if cursor.remaining() > 0 { Err("an event with bytes left over") } else { Ok(event) }
}

struct In<'c, 'a>(&'c mut Cursor<'a>);

/// Memory is reserved for at most this many items before they have been seen.
const LIST_RESERVED: usize = 8192;

impl In<'_, '_> {
    #[inline]
    fn u32(&mut self) -> Result<u32, Wrong> {
        self.0.varint_u32()
    }
    #[inline]
    fn u64(&mut self) -> Result<u64, Wrong> {
        self.0.varint()
    }
    fn i32(&mut self) -> Result<i32, Wrong> {
        i32::try_from(unzigzag(self.u64()?)).map_err(|_| "a number has more than 32 bits")
    }
    fn process(&mut self) -> Result<ProcessId, Wrong> {
        self.u32().map(ProcessId)
    }
    fn stream(&mut self) -> Result<StreamId, Wrong> {
        self.u32().map(StreamId)
    }
    fn file(&mut self) -> Result<FileId, Wrong> {
        self.u32().map(FileId)
    }
    fn page(&mut self) -> Result<PageId, Wrong> {
        self.u32().map(PageId)
    }
    fn run(&mut self) -> Result<PageRun, Wrong> {
        let (start, pages) = (self.page()?, self.u32()?);
        match start.0.checked_add(pages) {
            Some(_) => Ok(PageRun { start, pages }),
            None => Err("a run of pages beyond 2^32"),
        }
    }
    fn list<T>(
        &mut self,
        least_bytes: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, Wrong>,
    ) -> Result<Vec<T>, Wrong> {
        let count = self.0.count(least_bytes)?;
        let mut items = Vec::with_capacity(count.min(LIST_RESERVED));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }
    fn runs(&mut self) -> Result<Vec<PageRun>, Wrong> {
        self.list(2, Self::run)
    }

    fn map_kind(&mut self) -> Result<MapKind, Wrong> {
        Ok(match self.0.byte()? {
            0 => MapKind::Anonymous,
            1 => MapKind::SharedAnonymous,
            2 => MapKind::Heap,
            3 => MapKind::Stack,
            4 => MapKind::FilePrivate { file: self.file()?, offset_bytes: self.u64()? },
            5 => MapKind::FileShared { file: self.file()?, offset_bytes: self.u64()? },
            _ => return Err("a mapping of unknown kind"),
        })
    }

    fn touched(&mut self) -> Result<Vec<(Region, [u64; 8])>, Wrong> {
        let mut previous = -1i64;
        self.list(2, |input| {
            let region = unzigzag(input.u64()?)
                .checked_add(previous + 1)
                .and_then(|r| u32::try_from(r).ok())
                .filter(|r| *r <= u32::MAX / HUGE_PAGES)
                .ok_or("a region number out of range")?;
            previous = i64::from(region);
            Ok((Region(region), input.touched_pages()?))
        })
    }

    fn touched_pages(&mut self) -> Result<[u64; 8], Wrong> {
        let pages = self.u32()?;
        if pages == HUGE_PAGES {
            return Ok([u64::MAX; 8]);
        }
        let mut bits = [0u64; 8];
        if pages <= MAX_LISTED {
            let mut next = 0;
            for _ in 0..pages {
                let i = self.u64()?.saturating_add(next);
                if i >= u64::from(HUGE_PAGES) {
                    return Err("a touched page outside of its region");
                }
                bits[i as usize / 64] |= 1 << (i % 64);
                next = i + 1;
            }
        } else {
            for (word, le) in bits.iter_mut().zip(self.0.take(64)?.chunks_exact(8)) {
                *word = super::wire::u64_at(le, 0);
            }
            if bits.iter().map(|word| word.count_ones()).sum::<u32>() != pages {
                return Err("a touched set with a wrong number of pages");
            }
        }
        Ok(bits)
    }

    fn event(&mut self) -> Result<TraceEvent, Wrong> {
        Ok(match self.0.byte()? {
            code::PROCESS => TraceEvent::Process {
                process: self.process()?,
                parent: match self.u64()? {
                    0 => None,
                    n => Some(ProcessId(
                        u32::try_from(n - 1).map_err(|_| "a number has more than 32 bits")?,
                    )),
                },
                pid: self.u32()?,
                command: self.0.text()?,
            },
            code::PROCESS_EXIT => {
                TraceEvent::ProcessExit { process: self.process()?, status: self.i32()? }
            }
            code::THREAD => TraceEvent::Thread {
                stream: self.stream()?,
                process: self.process()?,
                tid: self.u32()?,
            },
            code::THREAD_EXIT => TraceEvent::ThreadExit { stream: self.stream()? },
            code::REGION_NAMED => TraceEvent::RegionNamed {
                region: Some(self.u32()?)
                    .filter(|r| *r <= u32::MAX / HUGE_PAGES)
                    .map(Region)
                    .ok_or("a region number out of range")?,
                process: self.process()?,
                huge_vpn: self.u64()?,
            },
            code::MAP => TraceEvent::Map {
                process: self.process()?,
                start: self.u64()?,
                len_bytes: self.u64()?,
                kind: self.map_kind()?,
                accessible: match self.0.byte()? {
                    0 => false,
                    1 => true,
                    _ => return Err("a flag that is neither 0 nor 1"),
                },
                runs: self.runs()?,
            },
            code::UNMAP => TraceEvent::Unmap {
                process: self.process()?,
                start: self.u64()?,
                len_bytes: self.u64()?,
                runs: self.runs()?,
            },
            code::DISCARD => TraceEvent::Discard {
                process: self.process()?,
                start: self.u64()?,
                len_bytes: self.u64()?,
                runs: self.runs()?,
            },
            code::REMAP => TraceEvent::Remap {
                process: self.process()?,
                old_start: self.u64()?,
                old_len_bytes: self.u64()?,
                new_start: self.u64()?,
                new_len_bytes: self.u64()?,
                moves: self.list(3, |input| {
                    let (run, to) = (input.run()?, input.page()?);
                    match to.0.checked_add(run.pages) {
                        Some(_) => Ok((run, to)),
                        None => Err("a run of pages beyond 2^32"),
                    }
                })?,
                gained: self.runs()?,
                lost: self.runs()?,
            },
            code::FILE_OPEN => TraceEvent::FileOpen {
                file: self.file()?,
                process: self.process()?,
                fd: self.i32()?,
                path: self.0.text()?,
            },
            code::FILE_CLOSE => TraceEvent::FileClose {
                file: self.file()?,
                process: self.process()?,
                fd: self.i32()?,
            },
            code::FILE_READ => TraceEvent::FileRead {
                file: self.file()?,
                process: self.process()?,
                offset_bytes: self.u64()?,
                len_bytes: self.u64()?,
            },
            code::FILE_WRITE => TraceEvent::FileWrite {
                file: self.file()?,
                process: self.process()?,
                offset_bytes: self.u64()?,
                len_bytes: self.u64()?,
            },
            code::OP_BEGIN => TraceEvent::OpBegin { stream: self.stream()?, op: self.u64()? },
            code::OP_END => TraceEvent::OpEnd { stream: self.stream()?, op: self.u64()? },
            code::STORE_SAMPLES => TraceEvent::StoreSamples {
                samples: self.list(2, |input| Ok((input.stream()?, input.page()?)))?,
            },
            code::TOUCHED => TraceEvent::Touched { epoch: self.u64()?, regions: self.touched()? },
            _ => return Err("an event of unknown kind"),
        })
    }
}
