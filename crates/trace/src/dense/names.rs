//! Numbers of processes, threads and files.

use crate::event::{FileId, MapKind, StreamId, TraceEvent};
use frostline_core::types::ProcessId;
use hashbrown::HashMap;

/// Numbers below this stay as they are. Tables of so many entries cost little.
pub(crate) const FREE_NAMES: u32 = 1 << 16;

/// Gives every number above [`FREE_NAMES`] the next one from there on, in order of appearance: numbers that
/// were given in order stay as they are.
#[derive(Debug, Default)]
pub(crate) struct Names {
    processes: HashMap<u32, u32>,
    streams: HashMap<u32, u32>,
    files: HashMap<u32, u32>,
}

fn dense(known: &mut HashMap<u32, u32>, number: u32) -> u32 {
    if number < FREE_NAMES {
        return number;
    }
    let next = FREE_NAMES + known.len() as u32;
    *known.entry(number).or_insert(next)
}

impl Names {
    #[inline]
    pub(crate) fn stream(&mut self, stream: u32) -> u32 {
        dense(&mut self.streams, stream)
    }

    pub(crate) fn event(&mut self, event: &mut TraceEvent) {
        match event {
            TraceEvent::Process { process, parent, .. } => {
                self.process(process);
                parent.iter_mut().for_each(|parent| self.process(parent));
            }
            TraceEvent::ProcessExit { process, .. }
            | TraceEvent::RegionNamed { process, .. }
            | TraceEvent::Unmap { process, .. }
            | TraceEvent::Discard { process, .. }
            | TraceEvent::Remap { process, .. } => self.process(process),
            TraceEvent::Thread { stream, process, .. } => {
                self.process(process);
                self.thread(stream);
            }
            TraceEvent::Map { process, kind, .. } => {
                self.process(process);
                if let MapKind::FilePrivate { file, .. } | MapKind::FileShared { file, .. } = kind {
                    self.file(file);
                }
            }
            TraceEvent::FileOpen { file, process, .. }
            | TraceEvent::FileClose { file, process, .. }
            | TraceEvent::FileRead { file, process, .. }
            | TraceEvent::FileWrite { file, process, .. } => {
                self.process(process);
                self.file(file);
            }
            TraceEvent::ThreadExit { stream }
            | TraceEvent::OpBegin { stream, .. }
            | TraceEvent::OpEnd { stream, .. } => self.thread(stream),
            // There are many of them, and most traces have few threads.
            TraceEvent::StoreSamples { samples }
                if samples.iter().all(|(stream, _)| stream.0 < FREE_NAMES) => {}
            TraceEvent::StoreSamples { samples } => {
                samples.iter_mut().for_each(|(stream, _)| self.thread(stream));
            }
            TraceEvent::Touched { .. } => {}
        }
    }

    fn process(&mut self, process: &mut ProcessId) {
        process.0 = dense(&mut self.processes, process.0);
    }

    fn thread(&mut self, stream: &mut StreamId) {
        stream.0 = self.stream(stream.0);
    }

    fn file(&mut self, file: &mut FileId) {
        file.0 = dense(&mut self.files, file.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_given_in_order_stay_and_sparse_ones_become_dense() {
        let mut names = Names::default();
        let in_order: Vec<u32> = (0..FREE_NAMES + 3).map(|n| names.stream(n)).collect();
        assert_eq!(in_order, (0..FREE_NAMES + 3).collect::<Vec<_>>());
        assert_eq!(names.stream(u32::MAX), FREE_NAMES + 3);
        assert_eq!(names.stream(u32::MAX - 7), FREE_NAMES + 4);
        assert_eq!(names.stream(u32::MAX), FREE_NAMES + 3);
    }
}
