//! Address space that programs ask for and give back, in the extents they asked for: the kernel's
//! mappings show neighbours as one.

use super::record::RawSample;
use super::tracefs::{Field, Format, Tracefs, id_of};
use super::{Collector, Cost, Lifecycle, RING_BYTES, SETTLE_NS, Spec, Start, monotonic_ns};
use crate::error::LinuxError;
use crate::root::Root;
use crate::sys::perf::Attr;
use perf_event_open_sys::bindings as sys;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::BorrowedFd;

/// Extents below this many bytes are not reported: C libraries serve smaller requests from their
/// heap (`M_MMAP_THRESHOLD`, mallopt(3)).
pub const LEAST_BYTES: u64 = 128 << 10;

/// A change of a program's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Process.
    pub pid: u32,
    /// Thread that asked for it.
    pub tid: u32,
    /// When the system call ended, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// What has changed.
    pub change: Change,
}

/// What has changed. Addresses are in bytes, lengths whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `mmap(2)`. It also ends whatever was mapped in this range.
    Map {
        /// First address.
        address: u64,
        /// Bytes.
        len_bytes: u64,
        /// Not backed by a file.
        anonymous: bool,
        /// Seen by nobody else.
        private: bool,
        /// May be written.
        writable: bool,
    },
    /// `munmap(2)`.
    Unmap {
        /// First address.
        address: u64,
        /// Bytes.
        len_bytes: u64,
    },
    /// `mremap(2)`.
    Remap {
        /// First address before.
        from: u64,
        /// Bytes before.
        from_len_bytes: u64,
        /// First address now.
        to: u64,
        /// Bytes now.
        to_len_bytes: u64,
    },
    /// `brk(2)`.
    Break {
        /// End of the heap now.
        end: u64,
    },
}

/// The tracepoints, and the conditions under which they write records. What a call returns is
/// only known at its end, its size only at its beginning.
fn conditions() -> [(&'static str, String); 7] {
    let least = LEAST_BYTES;
    [
        ("sys_enter_mmap", format!("len >= {least}")),
        ("sys_exit_mmap", "ret > 0".into()),
        ("sys_enter_munmap", format!("len >= {least}")),
        ("sys_exit_munmap", "ret == 0".into()),
        ("sys_enter_mremap", format!("old_len >= {least} || new_len >= {least}")),
        ("sys_exit_mremap", "ret > 0".into()),
        ("sys_exit_brk", "ret > 0".into()),
    ]
}

/// Reports the allocations of the processes it watches, and of all that they start.
#[derive(Debug)]
pub struct AllocationTracer {
    collector: Collector,
    calls: Calls,
    /// Records that wait for earlier ones of other processors.
    unsettled: Vec<Step>,
}

impl AllocationTracer {
    /// A tracer that watches nobody yet.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] without tracefs or performance events.
    pub fn new(root: &Root) -> Result<Self, LinuxError> {
        let tracefs = Tracefs::find(root)?;
        let format = |name: &str| tracefs.format(root, &format!("syscalls/{name}"));
        let calls = Calls::new(format)?;
        let mut specs = Vec::new();
        for (name, condition) in conditions() {
            let spec = Spec::of(Attr {
                pmu: sys::PERF_TYPE_TRACEPOINT,
                config: format(name)?.id.into(),
                period: 1,
                sample_type: (sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_RAW)
                    .into(),
                inherit: true,
                ..Attr::default()
            });
            specs.push(Spec { filter: CString::new(condition).ok(), ..spec });
        }
        let collector = Collector::new(root, specs, RING_BYTES)?;
        Ok(Self { collector, calls, unsettled: Vec::new() })
    }

    /// Watches all threads of a process and all that they will start. Returns how many there are.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] without such a process, [`LinuxError::Unsupported`] where rights or
    /// file descriptors do not suffice.
    pub fn attach(&mut self, root: &Root, pid: u32, start: Start) -> Result<usize, LinuxError> {
        self.collector.attach(root, pid, start)
    }

    /// Watches a process no longer that runs on. Threads whose events others have inherited stay watched, as long as those
    /// run.
    pub fn detach(&mut self, root: &Root, pid: u32) {
        self.collector.detach(root, pid);
    }

    /// As [`super::faults::FaultSampler::follow`].
    pub fn follow(&mut self, pid: u32) {
        self.collector.follow(pid);
    }

    /// As [`super::faults::FaultSampler::rescan`].
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub fn rescan(&mut self, root: &Root) -> Result<usize, LinuxError> {
        self.collector.rescan(root)
    }

    /// Hands allocations to `sink` in the order of time. Those of the last millisecond come with
    /// the next call. Returns up to which time all have come, as nanoseconds of `CLOCK_MONOTONIC`.
    pub fn poll(&mut self, sink: &mut impl FnMut(Allocation)) -> u64 {
        let until_ns = monotonic_ns().saturating_sub(SETTLE_NS);
        let (calls, unsettled) = (&self.calls, &mut self.unsettled);
        self.collector.poll(|sample| unsettled.extend(calls.step(sample)));
        unsettled.sort_by_key(|step| step.time_ns);
        let settled = unsettled.partition_point(|step| step.time_ns <= until_ns);
        for step in unsettled.drain(..settled) {
            if let Some(allocation) = self.calls.take(step) {
                sink(allocation);
            }
        }
        until_ns
    }

    /// What has happened to watched processes, up to the last [`Self::poll`]. A process that
    /// executes another program has none of its former mappings.
    pub fn take_lifecycle(&mut self) -> Vec<Lifecycle> {
        let lifecycle = self.collector.take_lifecycle();
        for life in &lifecycle {
            if let Lifecycle::Exited { pid, .. } | Lifecycle::Executed { pid, .. } = life {
                self.calls.begun.retain(|_, begun| begun.pid != *pid);
            }
        }
        lifecycle
    }

    /// Records that did not fit into a ring.
    pub fn lost(&self) -> u64 {
        self.collector.lost()
    }

    /// What tracing has cost us.
    pub fn cost(&self) -> Cost {
        self.collector.cost()
    }

    /// Descriptors that become readable when a quarter of a ring is unread.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.collector.fds()
    }
}

/// Beginnings of calls, until their ends come.
#[derive(Debug)]
struct Calls {
    points: Vec<Point>,
    begun: HashMap<u32, Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Mmap,
    Munmap,
    Mremap,
    Brk,
}

/// A tracepoint and the fields of interest.
#[derive(Debug)]
struct Point {
    id: u16,
    call: Call,
    end: bool,
    fields: Vec<Field>,
}

/// Beginning or end of a call.
#[derive(Clone, Copy, Debug)]
struct Step {
    time_ns: u64,
    pid: u32,
    tid: u32,
    call: Call,
    end: bool,
    values: [u64; 4],
}

impl Calls {
    fn new(format: impl Fn(&str) -> Result<Format, LinuxError>) -> Result<Self, LinuxError> {
        let points = [
            ("sys_enter_mmap", Call::Mmap, false, &["addr", "len", "prot", "flags"][..]),
            ("sys_exit_mmap", Call::Mmap, true, &["ret"]),
            ("sys_enter_munmap", Call::Munmap, false, &["addr", "len"]),
            ("sys_exit_munmap", Call::Munmap, true, &["ret"]),
            ("sys_enter_mremap", Call::Mremap, false, &["addr", "old_len", "new_len"]),
            ("sys_exit_mremap", Call::Mremap, true, &["ret"]),
            ("sys_exit_brk", Call::Brk, true, &["ret"]),
        ];
        let mut known = Vec::new();
        for (name, call, end, names) in points {
            let format = format(name)?;
            let fields = names.iter().map(|name| format.field(name)).collect::<Result<_, _>>()?;
            known.push(Point { id: format.id, call, end, fields });
        }
        Ok(Self { points: known, begun: HashMap::new() })
    }

    /// What a record says; none where it is not of one of our tracepoints, or too short.
    fn step(&self, sample: &RawSample<'_>) -> Option<Step> {
        let id = id_of(sample.raw)?;
        let point = self.points.iter().find(|point| point.id == id)?;
        let mut values = [0; 4];
        for (value, field) in values.iter_mut().zip(&point.fields) {
            *value = field.get(sample.raw)?;
        }
        let &RawSample { time_ns, pid, tid, .. } = sample;
        Some(Step { time_ns, pid, tid, call: point.call, end: point.end, values })
    }

    /// The change that a step completes. An end without its beginning is that of a small call.
    fn take(&mut self, step: Step) -> Option<Allocation> {
        if !step.end {
            self.begun.insert(step.tid, step);
            return None;
        }
        let Step { time_ns, pid, tid, call, values: [result, ..], .. } = step;
        let begun = self.begun.remove(&tid).filter(|begun| begun.call == call);
        let change = match (call, begun.map(|begun| begun.values)) {
            (Call::Mmap, Some([_, len, prot, flags])) => Change::Map {
                address: result,
                len_bytes: whole_pages(len),
                anonymous: flags & libc::MAP_ANONYMOUS as u64 != 0,
                private: flags & libc::MAP_PRIVATE as u64 != 0,
                writable: prot & libc::PROT_WRITE as u64 != 0,
            },
            (Call::Munmap, Some([address, len, ..])) => {
                Change::Unmap { address, len_bytes: whole_pages(len) }
            }
            (Call::Mremap, Some([from, from_len, to_len, _])) => Change::Remap {
                from,
                from_len_bytes: whole_pages(from_len),
                to: result,
                to_len_bytes: whole_pages(to_len),
            },
            (Call::Brk, _) => Change::Break { end: result },
            _ => return None,
        };
        Some(Allocation { pid, tid, time_ns, change })
    }
}

fn whole_pages(len: u64) -> u64 {
    len.checked_next_multiple_of(frostline_core::PAGE_BYTES).unwrap_or(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_testing::{Requirement, skip};
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Descriptions as of a 64-bit kernel: a common part of 8 bytes, the number of the call, then
    /// its arguments, 8 bytes each.
    fn described() -> (Calls, HashMap<String, u16>) {
        let arguments = |name: &str| -> &[&str] {
            match name {
                "sys_enter_mmap" => &["addr", "len", "prot", "flags", "fd", "off"],
                "sys_enter_munmap" => &["addr", "len"],
                "sys_enter_mremap" => &["addr", "old_len", "new_len", "flags", "new_addr"],
                _ => &["ret"],
            }
        };
        let tree = crate::testing::Tree::new();
        tree.file("/proc/self/mounts", "t /t tracefs rw 0 0");
        let mut ids = HashMap::new();
        for (id, (name, _)) in (170u16..).zip(conditions()) {
            let mut text = format!("ID: {id}\nformat:\n");
            for (i, argument) in arguments(name).iter().enumerate() {
                let offset = 16 + 8 * i;
                text += &format!(
                    " field:unsigned long {argument}; offset:{offset}; size:8; signed:0;\n"
                );
            }
            tree.file(format!("/t/events/syscalls/{name}/format"), text);
            ids.insert(name.to_owned(), id);
        }
        let tracefs = Tracefs::find(tree.root()).expect("it is there");
        let format = |name: &str| tracefs.format(tree.root(), &format!("syscalls/{name}"));
        (Calls::new(format).expect("all fields are there"), ids)
    }

    #[test]
    fn beginnings_and_ends_of_calls_are_paired_by_thread() {
        let (mut calls, ids) = described();
        let mut feed = |name: &str, tid: u32, values: &[u64]| {
            let mut raw = vec![0; 16 + 8 * values.len()];
            raw[..2].copy_from_slice(&ids[name].to_ne_bytes());
            for (i, value) in values.iter().enumerate() {
                raw[16 + 8 * i..][..8].copy_from_slice(&value.to_ne_bytes());
            }
            let sample = RawSample { pid: 1, tid, time_ns: 5, raw: &raw, ..RawSample::default() };
            let step = calls.step(&sample).expect("it is one of ours");
            calls.take(step).map(|allocation| {
                assert_eq!((allocation.pid, allocation.tid, allocation.time_ns), (1, tid, 5));
                allocation.change
            })
        };
        let (prot, flags) = (libc::PROT_READ as u64, libc::MAP_PRIVATE as u64);
        assert_eq!(feed("sys_enter_mmap", 10, &[0, 200_000, prot, flags, 3, 0]), None);
        let anonymous = flags | libc::MAP_ANONYMOUS as u64;
        let writable = prot | libc::PROT_WRITE as u64;
        assert_eq!(feed("sys_enter_mmap", 11, &[0, 1 << 20, writable, anonymous, 0, 0]), None);
        assert_eq!(
            feed("sys_exit_mmap", 11, &[0x7000_0000]),
            Some(Change::Map {
                address: 0x7000_0000,
                len_bytes: 1 << 20,
                anonymous: true,
                private: true,
                writable: true,
            })
        );
        assert_eq!(
            feed("sys_exit_mmap", 10, &[0x9000_0000]),
            Some(Change::Map {
                address: 0x9000_0000,
                len_bytes: 49 * 4096,
                anonymous: false,
                private: true,
                writable: false,
            })
        );
        assert_eq!(feed("sys_exit_mmap", 10, &[0x1000]), None, "a small one");
        assert_eq!(feed("sys_enter_mremap", 10, &[0x9000_0000, 200_704, 1 << 20, 1, 0]), None);
        assert_eq!(
            feed("sys_exit_mremap", 10, &[0xa000_0000]),
            Some(Change::Remap {
                from: 0x9000_0000,
                from_len_bytes: 200_704,
                to: 0xa000_0000,
                to_len_bytes: 1 << 20,
            })
        );
        assert_eq!(feed("sys_enter_munmap", 10, &[0xa000_0000, 1 << 20]), None);
        assert_eq!(
            feed("sys_exit_munmap", 10, &[0]),
            Some(Change::Unmap { address: 0xa000_0000, len_bytes: 1 << 20 })
        );
        assert_eq!(feed("sys_exit_brk", 10, &[0x5000]), Some(Change::Break { end: 0x5000 }));
        // A call that failed has no end; the next one of another kind does not take its place.
        assert_eq!(feed("sys_enter_munmap", 10, &[0xa000_0000, 1 << 20]), None);
        assert_eq!(feed("sys_exit_mmap", 10, &[0x1000]), None);
    }

    const INSIDE: &str = "FROSTLINE_TEST_OWN_MOUNTS";

    /// Where no tracefs is mounted, the test starts itself again among mounts of its own.
    fn again_with_tracefs() {
        if std::env::var_os(INSIDE).is_some() {
            return skip(Requirement::Tracefs, "tracefs cannot be mounted");
        }
        let this = std::env::current_exe().expect("a test is a program");
        let name = "perf::tracepoints::tests::extents_come_as_they_were_asked_for";
        let script = "mount -t tracefs tracefs /sys/kernel/tracing; exec \"$@\"";
        let status = Command::new("unshare")
            .args(["-m", "--propagation", "private", "sh", "-c", script, "sh"])
            .arg(this)
            .args(["--exact", name, "--nocapture"])
            .env(INSIDE, "1")
            .status();
        match status {
            Ok(status) if status.code() == Some(1) => {
                skip(Requirement::Mounts, "no mounts of our own")
            }
            Ok(status) => assert!(status.success(), "{status}"),
            Err(error) => skip(Requirement::Mounts, format!("no unshare: {error}")),
        }
    }

    #[test]
    fn extents_come_as_they_were_asked_for() {
        let root = Root::system();
        if Tracefs::find(&root).is_err() {
            return again_with_tracefs();
        }
        let mut tracer = match AllocationTracer::new(&root) {
            Ok(tracer) => tracer,
            Err(error) => return skip(Requirement::Tracefs, error),
        };
        tracer.attach(&root, std::process::id(), Start::Now).expect("we may watch ourselves");
        let begin = monotonic_ns();
        let mut expected = Vec::new();
        for i in 0..300 {
            // Above what the allocator ever keeps for later (32 MiB), so that it asks the kernel.
            let bytes = (40 << 20) + i * 4096;
            let memory = Vec::<u8>::with_capacity(bytes);
            expected.push((std::hint::black_box(memory.as_ptr()) as u64, bytes as u64));
        }
        let end = monotonic_ns();
        let tid = rustix::thread::gettid().as_raw_pid() as u32;
        let (mut maps, mut unmaps, mut others) = (Vec::new(), Vec::new(), 0);
        let deadline = Instant::now() + Duration::from_secs(20);
        while unmaps.len() < expected.len() {
            let got = (maps.len(), unmaps.len(), others, tracer.lost());
            assert!(Instant::now() < deadline, "maps, unmaps, others, lost: {got:?}");
            std::thread::sleep(Duration::from_millis(2));
            tracer.poll(&mut |allocation| {
                if allocation.tid != tid || !(begin..=end).contains(&allocation.time_ns) {
                    others += 1;
                    return;
                }
                match allocation.change {
                    Change::Map { address, len_bytes, anonymous: true, private: true, .. } => {
                        maps.push((address, len_bytes));
                    }
                    Change::Unmap { address, len_bytes } => unmaps.push((address, len_bytes)),
                    _ => {}
                }
            });
        }
        // The allocator puts a header of its own before what it hands out.
        let page = |(address, bytes): &(u64, u64)| (address & !4095, bytes + 4096);
        let expected: Vec<_> = expected.iter().map(page).collect();
        assert_eq!(maps, expected);
        assert_eq!(unmaps, expected);
        assert_eq!(tracer.lost(), 0);
        assert_eq!(tracer.cost().malformed, 0);
        eprintln!("{} extents mapped and unmapped, none lost", maps.len());
    }
}
