//! Parts of events for tables: numbers and texts that several kinds have in common.

use crate::event::{MapKind, TraceEvent};

/// The parts of an event that have columns of their own in tables; `None` where it has no such part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// Number of the process.
    pub process: Option<u32>,
    /// Number of the thread.
    pub stream: Option<u32>,
    /// Number of the file.
    pub file: Option<u32>,
    /// First byte: an address, or an offset in the file.
    pub start: Option<u64>,
    /// Number of bytes.
    pub len_bytes: Option<u64>,
    /// Command line or path.
    pub text: Option<&'a str>,
}

impl<'a> Fields<'a> {
    /// Those of an event.
    pub fn of(event: &'a TraceEvent) -> Self {
        let none = Self::default();
        match event {
            TraceEvent::Process { process, command, .. } => {
                Self { process: Some(process.0), text: Some(command), ..none }
            }
            TraceEvent::ProcessExit { process, .. } => Self { process: Some(process.0), ..none },
            TraceEvent::Thread { stream, process, .. } => {
                Self { process: Some(process.0), stream: Some(stream.0), ..none }
            }
            TraceEvent::ThreadExit { stream }
            | TraceEvent::OpBegin { stream, .. }
            | TraceEvent::OpEnd { stream, .. } => Self { stream: Some(stream.0), ..none },
            TraceEvent::RegionNamed { process, huge_vpn, .. } => Self {
                process: Some(process.0),
                start: huge_vpn.checked_mul(2 << 20),
                len_bytes: Some(2 << 20),
                ..none
            },
            TraceEvent::Map { process, start, len_bytes, kind, .. } => {
                let file = match kind {
                    MapKind::FilePrivate { file, .. } | MapKind::FileShared { file, .. } => {
                        Some(file.0)
                    }
                    _ => None,
                };
                let (process, start, len_bytes) = (Some(process.0), Some(*start), Some(*len_bytes));
                Self { process, file, start, len_bytes, ..none }
            }
            TraceEvent::Unmap { process, start, len_bytes, .. }
            | TraceEvent::Discard { process, start, len_bytes, .. } => Self {
                process: Some(process.0),
                start: Some(*start),
                len_bytes: Some(*len_bytes),
                ..none
            },
            TraceEvent::Remap { process, new_start, new_len_bytes, .. } => Self {
                process: Some(process.0),
                start: Some(*new_start),
                len_bytes: Some(*new_len_bytes),
                ..none
            },
            TraceEvent::FileOpen { file, process, path, .. } => {
                Self { process: Some(process.0), file: Some(file.0), text: Some(path), ..none }
            }
            TraceEvent::FileClose { file, process, .. } => {
                Self { process: Some(process.0), file: Some(file.0), ..none }
            }
            TraceEvent::FileRead { file, process, offset_bytes, len_bytes }
            | TraceEvent::FileWrite { file, process, offset_bytes, len_bytes } => Self {
                process: Some(process.0),
                file: Some(file.0),
                start: Some(*offset_bytes),
                len_bytes: Some(*len_bytes),
                ..none
            },
            TraceEvent::StoreSamples { .. } | TraceEvent::Touched { .. } => none,
        }
    }
}
