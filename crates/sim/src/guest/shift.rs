//! Events of one program among several: numbers that are dense in its trace become its own in the
//! run.

use frostline_core::types::*;
use frostline_trace::TraceEvent;
use frostline_trace::event::{FileId, MapKind, StreamId};

/// Which program of how many, and where its page ids begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    pub(crate) index: u32,
    pub(crate) programs: u32,
    /// First page id, of a region's beginning.
    pub(crate) base: u32,
}

impl Shift {
    pub(crate) fn stream(self, stream: u32) -> u32 {
        self.number(stream)
    }

    fn number(self, number: u32) -> u32 {
        number * self.programs + self.index
    }

    fn page(self, page: PageId) -> PageId {
        PageId(page.0 + self.base)
    }

    fn region(self, region: Region) -> Region {
        Region(region.0 + self.base / HUGE_PAGES)
    }

    fn process(self, process: ProcessId) -> ProcessId {
        ProcessId(self.number(process.0))
    }

    fn kind(self, kind: MapKind) -> MapKind {
        let other = |file: FileId| FileId(self.number(file.0));
        match kind {
            MapKind::FilePrivate { file, offset_bytes } => {
                MapKind::FilePrivate { file: other(file), offset_bytes }
            }
            MapKind::FileShared { file, offset_bytes } => {
                MapKind::FileShared { file: other(file), offset_bytes }
            }
            other => other,
        }
    }

    fn runs(self, runs: &mut [PageRun]) {
        runs.iter_mut().for_each(|run| run.start = self.page(run.start));
    }

    /// The event as the run knows it.
    pub(crate) fn event(self, event: &mut TraceEvent) {
        use TraceEvent as E;
        match event {
            E::Process { process, parent, .. } => {
                *process = self.process(*process);
                *parent = parent.map(|parent| self.process(parent));
            }
            E::ProcessExit { process, .. } => *process = self.process(*process),
            E::Thread { stream, process, .. } => {
                *stream = StreamId(self.stream(stream.0));
                *process = self.process(*process);
            }
            E::ThreadExit { stream } | E::OpBegin { stream, .. } | E::OpEnd { stream, .. } => {
                *stream = StreamId(self.stream(stream.0));
            }
            E::RegionNamed { region, process, .. } => {
                *region = self.region(*region);
                *process = self.process(*process);
            }
            E::Map { process, kind, runs, .. } => {
                *process = self.process(*process);
                *kind = self.kind(*kind);
                self.runs(runs);
            }
            E::Unmap { process, runs, .. } | E::Discard { process, runs, .. } => {
                *process = self.process(*process);
                self.runs(runs);
            }
            E::Remap { process, moves, gained, lost, .. } => {
                *process = self.process(*process);
                for (from, to) in moves {
                    (from.start, *to) = (self.page(from.start), self.page(*to));
                }
                self.runs(gained);
                self.runs(lost);
            }
            E::FileOpen { file, process, .. }
            | E::FileClose { file, process, .. }
            | E::FileRead { file, process, .. }
            | E::FileWrite { file, process, .. } => {
                *file = FileId(self.number(file.0));
                *process = self.process(*process);
            }
            E::StoreSamples { samples } => {
                for (stream, page) in samples {
                    (*stream, *page) = (StreamId(self.stream(stream.0)), self.page(*page));
                }
            }
            E::Touched { regions, .. } => {
                regions.iter_mut().for_each(|(region, _)| *region = self.region(*region));
            }
        }
    }
}
