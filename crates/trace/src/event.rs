//! Everything in a trace that is not an access.

use frostline_core::types::{PageId, PageRun, ProcessId, Region};

/// Dense number of a thread over the whole trace: one (process, thread) pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId(pub u32);

/// Dense number of a file over the whole trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileId(pub u32);

/// What a mapping is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapKind {
    /// Private anonymous memory.
    Anonymous,
    /// Shared anonymous memory or shared memory without a file.
    SharedAnonymous,
    /// The `brk` heap: its initial extent, or growth.
    Heap,
    /// A thread's stack.
    Stack,
    /// A private file mapping.
    FilePrivate {
        /// The file.
        file: FileId,
        /// Offset of the mapping's first byte.
        offset_bytes: u64,
    },
    /// A shared file mapping.
    FileShared {
        /// The file.
        file: FileId,
        /// Offset of the mapping's first byte.
        offset_bytes: u64,
    },
}

/// An event, in the order in which it happened among the records.
///
/// Addresses are virtual, in bytes. Events that concern address space also carry the page ids that
/// the [`crate::PageMapper`] gave it (`runs`), so that a replay needs no address look-ups.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceEvent {
    /// A process appears: at the start, by fork (then with a parent), or again at an exec.
    Process {
        /// Its number in the trace.
        process: ProcessId,
        /// Who forked it.
        parent: Option<ProcessId>,
        /// Its pid when recorded.
        pid: u32,
        /// Command line.
        command: String,
    },
    /// A process has ended.
    ProcessExit {
        /// The process.
        process: ProcessId,
        /// Exit code, or 128 + signal.
        status: i32,
    },
    /// A thread appears.
    Thread {
        /// Its number in the trace.
        stream: StreamId,
        /// The process it belongs to.
        process: ProcessId,
        /// Its tid when recorded.
        tid: u32,
    },
    /// A thread has ended.
    ThreadExit {
        /// The thread.
        stream: StreamId,
    },
    /// Page ids `512 * region ..` stand for the 2 MiB at virtual page `512 * huge_vpn`.
    RegionNamed {
        /// The region.
        region: Region,
        /// Whose address space.
        process: ProcessId,
        /// Virtual page number divided by 512.
        huge_vpn: u64,
    },
    /// `mmap`, `brk` growth or an initial mapping, with its original extent.
    Map {
        /// Whose.
        process: ProcessId,
        /// First byte.
        start: u64,
        /// Length in bytes.
        len_bytes: u64,
        /// Backing.
        kind: MapKind,
        /// Readable or writable; false for reservations (`PROT_NONE`).
        accessible: bool,
        /// Page ids, where assigned by now (large reservations get theirs at first touch).
        runs: Vec<PageRun>,
    },
    /// `munmap`, `brk` shrinkage or the unmapping at an exit.
    Unmap {
        /// Whose.
        process: ProcessId,
        /// First byte.
        start: u64,
        /// Length in bytes.
        len_bytes: u64,
        /// Page ids that had been assigned.
        runs: Vec<PageRun>,
    },
    /// `madvise(MADV_DONTNEED)` or alike: pages freed, addresses kept.
    Discard {
        /// Whose.
        process: ProcessId,
        /// First byte.
        start: u64,
        /// Length in bytes.
        len_bytes: u64,
        /// Page ids that had been assigned.
        runs: Vec<PageRun>,
    },
    /// `mremap`.
    Remap {
        /// Whose.
        process: ProcessId,
        /// Old first byte.
        old_start: u64,
        /// Old length in bytes.
        old_len_bytes: u64,
        /// New first byte.
        new_start: u64,
        /// New length in bytes.
        new_len_bytes: u64,
        /// Pages that moved: old run, new first page; and nothing where it only grew or shrank.
        moves: Vec<(PageRun, PageId)>,
        /// Page ids of address space gained.
        gained: Vec<PageRun>,
        /// Page ids of address space given back.
        lost: Vec<PageRun>,
    },
    /// A file was opened.
    FileOpen {
        /// The file.
        file: FileId,
        /// By whom.
        process: ProcessId,
        /// File descriptor.
        fd: i32,
        /// Path as given by the kernel.
        path: String,
    },
    /// A file descriptor was closed.
    FileClose {
        /// The file.
        file: FileId,
        /// By whom.
        process: ProcessId,
        /// File descriptor.
        fd: i32,
    },
    /// Bytes were read from a file.
    FileRead {
        /// The file.
        file: FileId,
        /// By whom.
        process: ProcessId,
        /// Offset of the first byte.
        offset_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
    },
    /// Bytes were written to a file.
    FileWrite {
        /// The file.
        file: FileId,
        /// By whom.
        process: ProcessId,
        /// Offset of the first byte.
        offset_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
    },
    /// An operation (request, query) begins on a thread.
    OpBegin {
        /// The thread.
        stream: StreamId,
        /// Kind of operation, chosen by the program.
        op: u64,
    },
    /// The thread's current operation of this kind ends.
    OpEnd {
        /// The thread.
        stream: StreamId,
        /// Kind of operation.
        op: u64,
    },
    /// Every 997th retired store, whether or not it missed a cache: what a store sampler sees.
    /// Collected over a short stretch of records, all of it before this event.
    StoreSamples {
        /// Thread and page of each.
        samples: Vec<(StreamId, PageId)>,
    },
    /// The pages touched in the epoch that ends here, seen before the last-level cache.
    Touched {
        /// Number of the epoch, from 0.
        epoch: u64,
        /// Per region touched: bit `i` of the 512 stands for its page `i`.
        regions: Vec<(Region, [u64; 8])>,
    },
}

impl TraceEvent {
    /// The kind's name, for tables and exports: `map`, `file_read`, `op_begin`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Process { .. } => "process",
            Self::ProcessExit { .. } => "process_exit",
            Self::Thread { .. } => "thread",
            Self::ThreadExit { .. } => "thread_exit",
            Self::RegionNamed { .. } => "region_named",
            Self::Map { .. } => "map",
            Self::Unmap { .. } => "unmap",
            Self::Discard { .. } => "discard",
            Self::Remap { .. } => "remap",
            Self::FileOpen { .. } => "file_open",
            Self::FileClose { .. } => "file_close",
            Self::FileRead { .. } => "file_read",
            Self::FileWrite { .. } => "file_write",
            Self::OpBegin { .. } => "op_begin",
            Self::OpEnd { .. } => "op_end",
            Self::StoreSamples { .. } => "store_samples",
            Self::Touched { .. } => "touched",
        }
    }
}

/// An event with the clock at which it happened.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedEvent {
    /// In the header's [`crate::header::ClockUnit`].
    pub clock: u64,
    /// What happened.
    pub event: TraceEvent,
}
