//! DAMON, the kernel's monitor of accesses, watching single pages of one process.
//!
//! The pages to watch are given to it as regions of their own (operations `fvaddr`), in turns to
//! two monitoring targets that are the same process: DAMON joins neighbouring regions of a target,
//! and so no two are neighbours. What it finds is read from its tracepoint.
//!
//! It clears access bits without telling the processors. A page whose translation a processor
//! keeps all the time may therefore seem unused.
//!
//! Source: `Documentation/admin-guide/mm/damon/usage.rst` in the kernel.

use crate::changes::{self, Changes};
use crate::error::LinuxError;
use crate::perf::record::RawSample;
use crate::perf::tracefs::{Field, Tracefs};
use crate::perf::{Collector, Cost, RING_BYTES, Spec, Start};
use crate::root::Root;
use crate::sys::perf::Attr;
use frostline_core::span::Span;
use perf_event_open_sys::bindings as sys;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use std::cell::Cell;
use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds";
pub(crate) const OURS: &str = "/sys/kernel/mm/damon/admin/kdamonds/0";
pub(crate) const CONTEXT: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0";
/// Targets that the regions are given to in turns.
const TARGETS: usize = 2;
/// DAMON refuses fewer.
const LEAST_REGIONS: usize = 10;
/// How often mappings are looked at: never, because the regions are ours.
const UPDATE_US: u64 = 3_600_000_000;
/// Longer than any program leaves DAMON as it is between taking it and saying what for.
const SETTLES: Duration = Duration::from_secs(1);
/// Between two looks meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// Whether DAMON can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Nobody uses it; the kinds of memory it can watch, where that could be found out.
    Free {
        /// Names such as `vaddr`, `fvaddr`, `paddr`.
        operations: Vec<String>,
    },
    /// Somebody else uses it: there can be only one user.
    Taken {
        /// Kernel threads that run for it.
        kdamonds: u32,
    },
    /// The kernel has no DAMON, or no files to control it.
    Missing,
}

/// Finds out whether DAMON can be used. Creates a context to see what it can watch, and removes
/// it, where nobody uses DAMON and we have the right to. What a frostline that was killed has left is
/// given back first.
///
/// # Errors
/// Where its files have other contents than expected, or may not be read.
pub fn availability(root: &Root) -> Result<Availability, LinuxError> {
    match kdamonds(root)? {
        None => return Ok(Availability::Missing),
        Some(0) => {}
        Some(kdamonds) => {
            // Whoever may not do that finds it taken.
            let _ = changes::restore_damon(root);
            if self::kdamonds(root)? != Some(0) {
                return Ok(Availability::Taken { kdamonds });
            }
        }
    }
    match Claim::new(&Changes::of_this_process(root)?) {
        Ok(claim) => Ok(Availability::Free { operations: claim.operations()? }),
        Err(error) if error.errno() == Some(libc::EBUSY) => Ok(Availability::Taken { kdamonds: 1 }),
        Err(error) => Err(error),
    }
}

/// Kernel threads that there are for users of DAMON; `None` where it is missing.
fn kdamonds(root: &Root) -> Result<Option<u32>, LinuxError> {
    let path = format!("{KDAMONDS}/nr_kdamonds");
    let Some(text) = root.read_optional(&path)? else { return Ok(None) };
    let number = text.parse().map_err(|_| LinuxError::Malformed {
        path: root.path(&path),
        what: format!("'{text}' is not a number"),
    });
    number.map(Some)
}

/// `EBUSY` unless nobody uses DAMON. The kernel would take it away from whoever has not started yet.
pub(crate) fn check_unused(root: &Root) -> Result<(), LinuxError> {
    match kdamonds(root)? {
        Some(1..) => Err(LinuxError::File {
            what: "write",
            path: root.path(format!("{KDAMONDS}/nr_kdamonds")),
            errno: libc::EBUSY,
        }),
        _ => Ok(()),
    }
}

/// Makes the only kernel thread, which does not run yet. Gives the number of its folder's inode: the
/// kernel gives every folder that it makes another one (`__kernfs_new_node` in `fs/kernfs/dir.c`), so that
/// nobody else's thread ever has it.
///
/// # Errors
/// `EBUSY` where DAMON is in use; without the right to.
pub(crate) fn make_kdamond(root: &Root) -> Result<u64, LinuxError> {
    let all = format!("{KDAMONDS}/nr_kdamonds");
    root.write(&all, "1")?;
    inode(root).inspect_err(|_| {
        // That error says more than another one would.
        let _ = root.write(&all, "0");
    })
}

fn inode(root: &Root) -> Result<u64, LinuxError> {
    let folder = root.path(OURS);
    fs::metadata(&folder)
        .map(|folder| folder.ino())
        .map_err(|error| LinuxError::io("look at", folder, &error))
}

/// Gives back what a run of ours has taken, at whatever point it ended: DAMON with the kernel thread
/// that it made, or, where it ended before that was known, one that nobody has made anything of. Any other
/// is somebody else's, and left alone.
///
/// # Errors
/// Where the kernel refuses it.
pub(crate) fn give_back(root: &Root, kdamond: Option<u64>) -> Result<(), LinuxError> {
    let ours = match kdamond {
        Some(made) => inode(root).is_ok_and(|inode| inode == made),
        None => stays_unused(root),
    };
    if !ours {
        return Ok(());
    }
    // It may not be running, or may have ended with the process; the second write tells the kernel to
    // forget it either way, and fails where it runs.
    let _ = root.write(format!("{OURS}/state"), "off");
    root.write(format!("{KDAMONDS}/nr_kdamonds"), "0")
}

/// Whether there is one kernel thread without a context, and nobody goes on with it.
fn stays_unused(root: &Root) -> bool {
    let is = |file: &str, text: &str| root.read(file).is_ok_and(|found| found == text);
    let unused = || {
        is(&format!("{KDAMONDS}/nr_kdamonds"), "1")
            && is(&format!("{OURS}/state"), "off")
            && is(&format!("{OURS}/contexts/nr_contexts"), "0")
    };
    let first = inode(root).ok();
    let until = Instant::now() + SETTLES;
    while unused() && inode(root).ok() == first {
        if Instant::now() >= until {
            return true;
        }
        std::thread::sleep(LOOK);
    }
    false
}

/// How DAMON looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamonOptions {
    /// Time between two looks at a page's access bit. The kernel's default is 5 ms.
    pub sampling: Duration,
    /// Time between two reports, each of which starts counting anew. The kernel's default is
    /// 100 ms.
    pub aggregation: Duration,
}

impl Default for DamonOptions {
    fn default() -> Self {
        Self { sampling: Duration::from_millis(5), aggregation: Duration::from_millis(100) }
    }
}

impl DamonOptions {
    /// Looks for each report: the most that a region can have been found accessed.
    pub fn most_accesses(&self) -> u32 {
        (self.aggregation.as_micros() / self.sampling.as_micros().max(1)) as u32
    }
}

/// What a report says of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accesses {
    /// The pages.
    pub span: Span,
    /// How many looks found it accessed, up to [`DamonOptions::most_accesses`].
    pub count: u32,
    /// For how many reports this number has changed little.
    pub age: u32,
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
}

/// DAMON watching regions of a process for us. It stops when this is dropped.
#[derive(Debug)]
pub struct Damon {
    collector: Collector,
    fields: [Field; 4],
    claim: Claim,
    pid: u32,
    options: DamonOptions,
}

impl Damon {
    /// Starts it on `regions` of a process: ascending, without overlap. A region of several pages
    /// is looked at one random page at a time. Written down in `changes` before anything is done.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where DAMON is missing, cannot watch given regions, or is used
    /// by somebody else, which is never disturbed; where tracepoints cannot be read.
    pub fn start(
        changes: &Changes,
        pid: u32,
        regions: &[Span],
        options: DamonOptions,
    ) -> Result<Self, LinuxError> {
        let root = changes.root();
        let format = Tracefs::find(root)?.format(root, "damon/damon_aggregated")?;
        let field = |name: &str| format.field(name);
        let fields = [field("start")?, field("end")?, field("nr_accesses")?, field("age")?];
        let fields_of_records = sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_RAW;
        let spec = Spec::of(Attr {
            pmu: sys::PERF_TYPE_TRACEPOINT,
            config: format.id.into(),
            period: 1,
            sample_type: fields_of_records.into(),
            ..Attr::default()
        });
        let mut collector = Collector::new(root, vec![spec], RING_BYTES)?;
        check_free(root)?;
        let claim = Claim::new(changes)?;
        claim.configure(pid, regions, &options)?;
        root.write(format!("{OURS}/state"), "on")?;
        let kdamond = claim.kdamond()?;
        collector.attach_thread(kdamond, kdamond, Start::Now)?;
        Ok(Self { collector, fields, claim, pid, options })
    }

    /// Watches other regions of the same process from now on.
    ///
    /// # Errors
    /// Where the kernel refuses, for example because it has stopped: the process has ended.
    pub fn set_regions(&mut self, regions: &[Span]) -> Result<(), LinuxError> {
        self.claim.configure(self.pid, regions, &self.options)?;
        self.claim.root().write(format!("{OURS}/state"), "commit")
    }

    /// Hands all reports that have come in to `sink`.
    pub fn poll(&mut self, sink: &mut impl FnMut(Accesses)) {
        let fields = &self.fields;
        self.collector.poll(|sample| {
            if let Some(accesses) = accesses(fields, sample) {
                sink(accesses);
            }
        });
    }

    /// Whether it still runs. It ends with the process.
    ///
    /// # Errors
    /// Where its state cannot be read.
    pub fn is_running(&self) -> Result<bool, LinuxError> {
        Ok(self.claim.root().read(format!("{OURS}/state"))? == "on")
    }

    /// The kernel thread that does the watching: its processor time is a cost of ours.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn kdamond(&self) -> Result<u32, LinuxError> {
        self.claim.kdamond()
    }

    /// Reports that did not fit into a ring.
    pub fn lost(&self) -> u64 {
        self.collector.lost()
    }

    /// What reading reports has cost us.
    pub fn cost(&self) -> Cost {
        self.collector.cost()
    }

    /// Descriptors that become readable when a quarter of a ring is unread.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.collector.fds()
    }
}

fn accesses(fields: &[Field; 4], sample: &RawSample<'_>) -> Option<Accesses> {
    let [start, end, count, age] = fields.each_ref().map(|field| field.get(sample.raw));
    Some(Accesses {
        span: Span::of_addresses(start?, end?),
        count: count? as u32,
        age: age? as u32,
        time_ns: sample.time_ns,
    })
}

/// Fails, with words why, where DAMON cannot be used for given regions.
///
/// # Errors
/// [`LinuxError::Unsupported`] there; where its files cannot be read.
pub fn check_free(root: &Root) -> Result<(), LinuxError> {
    check_operations(root, "fvaddr", "given regions", "CONFIG_DAMON_VADDR")
}

/// Fails, with words why, where DAMON cannot be used for a kind of memory: `operations` by its name, `memory` in
/// words, `needs` what the kernel has to be built with.
///
/// # Errors
/// As [`check_free`].
pub(crate) fn check_operations(
    root: &Root,
    operations: &str,
    memory: &str,
    needs: &str,
) -> Result<(), LinuxError> {
    let (what, hint) = match availability(root)? {
        Availability::Free { operations: offered }
            if offered.iter().any(|name| name == operations) =>
        {
            return Ok(());
        }
        Availability::Free { .. } => {
            (format!("this kernel's DAMON cannot watch {memory}"), format!("needs {needs}"))
        }
        Availability::Taken { .. } => (
            "DAMON is used by somebody else".to_owned(),
            "stop the other user, such as damo or damon_reclaim, or use another source".to_owned(),
        ),
        Availability::Missing => {
            ("this kernel has no DAMON".to_owned(), format!("needs CONFIG_DAMON_SYSFS and {needs}"))
        }
    };
    Err(LinuxError::Unsupported { what, hint })
}

/// DAMON's one kernel thread, ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    changes: Changes,
    /// Regions by target, as the kernel has made folders for them.
    counts: Cell<[usize; TARGETS]>,
}

impl Claim {
    /// Makes the only kernel thread, not running yet, with one context.
    ///
    /// # Errors
    /// `EBUSY` where DAMON is in use; without the right to.
    pub(crate) fn new(changes: &Changes) -> Result<Self, LinuxError> {
        changes.take_damon()?;
        let claim = Self { changes: changes.clone(), counts: Cell::default() };
        claim.root().write(format!("{OURS}/contexts/nr_contexts"), "1")?;
        Ok(claim)
    }

    pub(crate) fn root(&self) -> &Root {
        self.changes.root()
    }

    fn operations(&self) -> Result<Vec<String>, LinuxError> {
        let text = self.root().read_optional(format!("{CONTEXT}/avail_operations"))?;
        Ok(text.unwrap_or_default().split_whitespace().map(str::to_owned).collect())
    }

    /// The kernel thread, where it runs.
    ///
    /// # Errors
    /// Where it does not.
    pub(crate) fn kdamond(&self) -> Result<u32, LinuxError> {
        let path = format!("{OURS}/pid");
        let text = self.root().read(&path)?;
        text.parse().map_err(|_| LinuxError::Malformed {
            path: self.root().path(&path),
            what: format!("'{text}' is not the number of a running thread"),
        })
    }

    fn configure(
        &self,
        pid: u32,
        regions: &[Span],
        options: &DamonOptions,
    ) -> Result<(), LinuxError> {
        if regions.is_empty() {
            return Err(LinuxError::Unsupported {
                what: format!("no memory of process {pid} to watch"),
                hint: "DAMON needs at least one page".into(),
            });
        }
        let set = |file: &str, value: u64| {
            self.root().write(format!("{CONTEXT}/{file}"), &value.to_string())
        };
        self.root().write(format!("{CONTEXT}/operations"), "fvaddr")?;
        let attributes = "monitoring_attrs";
        set(&format!("{attributes}/intervals/sample_us"), options.sampling.as_micros() as u64)?;
        set(&format!("{attributes}/intervals/aggr_us"), options.aggregation.as_micros() as u64)?;
        set(&format!("{attributes}/intervals/update_us"), UPDATE_US)?;
        // Above what there is, so that nothing is joined to come below it.
        let most = regions.len().max(LEAST_REGIONS) as u64 + 1;
        set(&format!("{attributes}/nr_regions/max"), most)?;
        set(&format!("{attributes}/nr_regions/min"), LEAST_REGIONS as u64)?;
        set("targets/nr_targets", TARGETS as u64)?;
        for target in 0..TARGETS {
            let folder = format!("targets/{target}");
            // A target without regions would keep those that it has.
            let first = target.min(regions.len().saturating_sub(1));
            let ours = || regions.iter().skip(first).step_by(TARGETS);
            set(&format!("{folder}/pid_target"), pid.into())?;
            let mut counts = self.counts.get();
            let count = ours().count();
            // The kernel makes all folders anew whenever it is told a number, the same one, too.
            if std::mem::replace(&mut counts[target], count) != count {
                set(&format!("{folder}/regions/nr_regions"), count as u64)?;
                self.counts.set(counts);
            }
            let regions = self.root().path(format!("{CONTEXT}/{folder}/regions"));
            write_bounds(&regions, ours())?;
        }
        Ok(())
    }
}

/// Writes the bounds of regions. Thousands of files are written here: they are opened from their
/// folder, which saves the kernel the way to it.
fn write_bounds<'a>(
    folder: &Path,
    regions: impl Iterator<Item = &'a Span>,
) -> Result<(), LinuxError> {
    let failed = |errno: Errno| LinuxError::io("write", folder, &errno.into());
    let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(folder, open, Mode::empty()).map_err(failed)?;
    for (i, region) in regions.enumerate() {
        let end = region.address() + region.bytes().0;
        for (name, value) in [("start", region.address()), ("end", end)] {
            let path = format!("{i}/{name}");
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
            #[cfg(test)]
            frostline_testing::death::come_closer();
            let file = openat(&directory, path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
            let text = value.to_string();
            let written = rustix::io::write(&file, text.as_bytes()).map_err(failed)?;
            if written != text.len() {
                return Err(failed(Errno::IO));
            }
        }
    }
    Ok(())
}

impl Drop for Claim {
    fn drop(&mut self) {
        // What stays on the list is undone by whoever cleans up next.
        let _ = self.changes.release_damon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::SwapOff;
    use crate::sys::fork::in_forked_child;
    use crate::testing::Tree;
    use frostline_core::Vpn;
    use frostline_testing::death;
    use frostline_testing::{Requirement, skip};
    use rustix::process::{
        Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid,
    };
    use std::sync::atomic::Ordering;

    /// Files as the kernel makes them for one kernel thread with two targets.
    fn tree(kdamonds: &str) -> Tree {
        let tree = Tree::new();
        tree.file(format!("{KDAMONDS}/nr_kdamonds"), kdamonds);
        for (file, text) in [("state", "off\n"), ("pid", ""), ("contexts/nr_contexts", "0\n")] {
            tree.file(format!("{OURS}/{file}"), text);
        }
        runs(&tree, std::process::id());
        tree.file(format!("{CONTEXT}/avail_operations"), "vaddr\nfvaddr\npaddr\n");
        let attributes = "monitoring_attrs";
        for file in ["intervals/sample_us", "intervals/aggr_us", "intervals/update_us"] {
            tree.file(format!("{CONTEXT}/{attributes}/{file}"), "");
        }
        tree.file(format!("{CONTEXT}/{attributes}/nr_regions/min"), "10");
        for target in 0..TARGETS {
            for region in 0..4 {
                let folder = format!("{CONTEXT}/targets/{target}/regions/{region}");
                tree.file(format!("{folder}/start"), "");
            }
        }
        tree
    }

    #[test]
    fn neighbouring_pages_go_to_different_targets() {
        let tree = tree("0\n");
        check_free(tree.root()).expect("nobody has it");
        let changes = Changes::of_this_process(tree.root()).expect("we run");
        let claim = Claim::new(&changes).expect("files can be written");
        assert_eq!(tree.text(format!("{KDAMONDS}/nr_kdamonds")), "1");
        assert!(claim.configure(42, &[], &DamonOptions::default()).is_err());
        let pages: Vec<Span> = (100..107).map(|page| Span::single(Vpn(page))).collect();
        claim.configure(42, &pages, &DamonOptions::default()).expect("all files are there");
        let read = |file: &str| tree.text(format!("{CONTEXT}/{file}"));
        assert_eq!(read("operations"), "fvaddr");
        assert_eq!(read("monitoring_attrs/intervals/sample_us"), "5000");
        assert_eq!(read("monitoring_attrs/intervals/aggr_us"), "100000");
        assert_eq!(read("monitoring_attrs/nr_regions/max"), "11");
        for (target, first, count) in [(0, 100, 4), (1, 101, 3)] {
            assert_eq!(read(&format!("targets/{target}/pid_target")), "42");
            let folder = format!("targets/{target}/regions");
            assert_eq!(read(&format!("{folder}/nr_regions")), count.to_string());
            for i in 0..count {
                let start = (first + 2 * i) * 4096;
                assert_eq!(read(&format!("{folder}/{i}/start")), start.to_string());
                assert_eq!(read(&format!("{folder}/{i}/end")), (start + 4096).to_string());
            }
        }
        drop(claim);
        assert_eq!(tree.text(format!("{OURS}/state")), "off");
        assert_eq!(tree.text(format!("{KDAMONDS}/nr_kdamonds")), "0");
    }

    #[test]
    fn somebody_elses_is_left_alone() {
        let tree = tree("1\n");
        tree.file(format!("{OURS}/state"), "on");
        let taken = availability(tree.root()).expect("it can be read");
        assert_eq!(taken, Availability::Taken { kdamonds: 1 });
        let error = check_free(tree.root()).expect_err("it is taken").to_string();
        assert!(error.contains("used by somebody else\nhint: "), "{error}");
        assert_eq!(tree.text(format!("{OURS}/state")), "on");
        assert_eq!(tree.text(format!("{KDAMONDS}/nr_kdamonds")), "1");
    }

    /// Says in the tree that process `pid` runs.
    fn runs(tree: &Tree, pid: u32) {
        let zeros = "0 ".repeat(18);
        tree.file(format!("proc/{pid}/stat"), format!("{pid} (x) S {zeros}1 0 0"));
    }

    /// Takes DAMON in another process and gives it back, which is killed before its step of this number.
    /// Whether it was.
    fn use_and_die(tree: &Tree, step: u32) -> bool {
        let pages: Vec<Span> = (100..103).map(|page| Span::single(Vpn(page))).collect();
        let pid = in_forked_child(|| {
            runs(tree, std::process::id());
            death::STEPS.store(step, Ordering::Relaxed);
            let work = || {
                let claim = Claim::new(&Changes::of_this_process(tree.root())?)?;
                claim.configure(42, &pages, &DamonOptions::default())?;
                tree.root().write(format!("{OURS}/state"), "on")
            };
            u8::from(work().is_err())
        });
        let pid = pid.expect("another process is possible");
        let ended = waitpid(Pid::from_raw(pid as i32), WaitOptions::empty());
        let (_, status) = ended.expect("it is ours").expect("it has ended");
        std::fs::remove_dir_all(tree.root().path(format!("proc/{pid}"))).expect("it ran");
        assert!(matches!(status.exit_status(), None | Some(0)), "{status:?}");
        status.exit_status().is_none()
    }

    #[test]
    fn wherever_a_run_is_killed_damon_is_free_again() {
        let _forks = frostline_testing::forks();
        let clean = |tree: &Tree| {
            let restored = changes::restore(tree.root(), SwapOff::WhenUnused).expect("readable");
            assert_eq!((restored.kept, restored.in_use), (Vec::new(), 0));
        };
        let start = |tree: &Tree| check_free(tree.root()).expect("the next start finds it free");
        let next: [&dyn Fn(&Tree); 2] = [&clean, &start];
        for next in next {
            let [mut unknown, mut known, mut watching] = [0; 3];
            for step in 1.. {
                let tree = tree("0\n");
                let killed = use_and_die(&tree, step);
                let list = tree.root().read("/run/frostline/changes.json").unwrap_or_default();
                if tree.text(format!("{KDAMONDS}/nr_kdamonds")) == "1" {
                    assert!(list.contains("damon"), "on the list as long as it is taken: {list}");
                    let target = tree.root().read(format!("{CONTEXT}/targets/0/pid_target"));
                    unknown += u32::from(list.contains("\"kdamond\": null"));
                    known += u32::from(!list.contains("null") && target.is_err());
                    watching += u32::from(target.is_ok());
                }
                next(&tree);
                let left = tree.text(format!("{KDAMONDS}/nr_kdamonds"));
                assert_eq!(left, "0", "killed before step {step}");
                assert_eq!(tree.text(format!("{OURS}/state")), "off");
                assert!(!tree.root().path("/run/frostline/changes.json").exists());
                if !killed {
                    break;
                }
            }
            assert!(unknown > 0 && known > 5 && watching > 10, "{unknown} {known} {watching}");
        }
    }

    #[test]
    fn what_somebody_else_has_taken_since_stays_his() {
        let tree = tree("1\n");
        let taken = |kdamond| {
            give_back(tree.root(), kdamond).expect("nothing to do");
            tree.text(format!("{KDAMONDS}/nr_kdamonds")) == "1"
        };
        let own = inode(tree.root()).expect("a folder");
        assert!(taken(Some(own + 1)), "another kernel thread");
        tree.file(format!("{OURS}/contexts/nr_contexts"), "1\n");
        assert!(taken(None), "he has a context");
        tree.file(format!("{OURS}/contexts/nr_contexts"), "0\n");
        tree.file(format!("{OURS}/state"), "on\n");
        assert!(taken(None), "it runs");
        tree.file(format!("{OURS}/state"), "off\n");
        tree.file(format!("{KDAMONDS}/nr_kdamonds"), "2\n");
        give_back(tree.root(), None).expect("nothing to do");
        assert_eq!(tree.text(format!("{KDAMONDS}/nr_kdamonds")), "2");
        tree.file(format!("{KDAMONDS}/nr_kdamonds"), "1\n");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(SETTLES / 4);
                tree.file(format!("{OURS}/contexts/nr_contexts"), "1\n");
            });
            assert!(taken(None), "he was about to make a context");
        });
        assert!(!taken(Some(own)), "ours");
    }

    #[test]
    fn what_it_can_watch_is_found_out_and_nothing_left_behind() {
        let tree = tree("0\n");
        let free = availability(tree.root()).expect("it can be read");
        let operations = ["vaddr", "fvaddr", "paddr"].map(str::to_owned).to_vec();
        assert_eq!(free, Availability::Free { operations });
        assert_eq!(tree.text(format!("{KDAMONDS}/nr_kdamonds")), "0");
        tree.file(format!("{CONTEXT}/avail_operations"), "paddr\n");
        let error = check_free(tree.root()).expect_err("of no use").to_string();
        assert!(error.contains("CONFIG_DAMON_VADDR"), "{error}");
        assert_eq!(availability(Tree::new().root()).expect("no files"), Availability::Missing);
    }

    /// A process that uses every third of its pages all the time, and the address of the first.
    fn busy_process(pages: usize) -> (u32, u64) {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe can be made");
        let pid = in_forked_child(|| {
            let bound = set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
                && rustix::thread::disable_transparent_huge_pages(true).is_ok();
            let mut memory = vec![1u8; (pages + 1) * 4096];
            let skipped = memory.as_ptr().align_offset(4096);
            let memory = &mut memory[skipped..];
            let address = memory.as_ptr() as u64;
            if !bound || rustix::io::write(&writer, &address.to_ne_bytes()) != Ok(8) {
                return 1;
            }
            loop {
                for page in memory.chunks_mut(4096).take(pages).step_by(3) {
                    page[9] = page[9].wrapping_add(1);
                }
                std::hint::black_box(&memory);
                std::thread::sleep(Duration::from_millis(1));
            }
        })
        .expect("another process is possible");
        let mut bytes = [0; 8];
        assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(8));
        (pid, u64::from_ne_bytes(bytes))
    }

    #[test]
    fn used_pages_are_told_from_unused_neighbours() {
        let _forks = frostline_testing::forks();
        const PAGES: usize = 600;
        let root = Root::system();
        let changes = Changes::of_this_process(&root).expect("we are a process");
        let options = DamonOptions {
            sampling: Duration::from_millis(4),
            aggregation: Duration::from_millis(40),
        };
        let (pid, address) = busy_process(PAGES);
        let first = address / 4096;
        let pages: Vec<Span> =
            (0..PAGES as u64).map(|page| Span::single(Vpn(first + page))).collect();
        let end = |damon: Option<Damon>| {
            drop(damon);
            let pid = Pid::from_raw(pid as i32).expect("a number");
            kill_process(pid, Signal::KILL).expect("it is ours");
            waitpid(Some(pid), WaitOptions::empty()).expect("it is ours");
        };
        let mut damon = match Damon::start(&changes, pid, &pages, options) {
            Ok(damon) => damon,
            Err(error) => {
                end(None);
                return skip(Requirement::Damon, error);
            }
        };
        let (mut reports, mut used) = (vec![0u32; PAGES], vec![0u32; PAGES]);
        let deadline = Instant::now() + Duration::from_secs(30);
        while reports.iter().any(|reports| *reports < 8) {
            assert!(Instant::now() < deadline, "reports are missing: {reports:?}");
            std::thread::sleep(Duration::from_millis(20));
            damon.poll(&mut |found| {
                assert_eq!(found.span.pages, 1, "neighbours are not joined");
                let page = (found.span.start.0 - first) as usize;
                assert!(found.count <= options.most_accesses());
                reports[page] += 1;
                // The first reports still have what happened before.
                used[page] += if reports[page] > 2 { found.count } else { 0 };
            });
        }
        assert!(damon.is_running().expect("it has a state"));
        damon.set_regions(&pages[..1]).expect("regions can be replaced while it runs");
        damon.poll(&mut |_| ());
        let mut alone = 0;
        while alone < 3 {
            assert!(Instant::now() < deadline, "no reports after regions were replaced");
            std::thread::sleep(Duration::from_millis(50));
            let mut found = Vec::new();
            damon.poll(&mut |accesses| found.push(accesses.span));
            alone += u32::from(found.iter().all(|span| *span == pages[0]) && !found.is_empty());
        }
        let stat = crate::process::stat(&root, damon.kdamond().expect("it runs"));
        assert!(stat.expect("a thread").comm.raw().starts_with("kdamond"));
        assert_eq!((damon.lost(), damon.cost().malformed), (0, 0));
        end(Some(damon));
        let hot = |page: &usize| page.is_multiple_of(3);
        let (seen, unseen): (Vec<usize>, Vec<usize>) = (0..PAGES).partition(|page| used[*page] > 0);
        let wrong: Vec<_> = seen.iter().filter(|page| !hot(page)).collect();
        let missed: Vec<_> = unseen.iter().filter(|page| hot(page)).collect();
        assert!(wrong.is_empty(), "not used: {wrong:?}");
        assert!(missed.len() <= PAGES / 3 / 10, "of {} missed: {missed:?}", PAGES / 3);
        let left = root.read(format!("{KDAMONDS}/nr_kdamonds")).expect("DAMON is there");
        assert_eq!(left, "0");
        let reports: u32 = reports.iter().sum();
        eprintln!("{reports} reports, none lost; {} used pages missed", missed.len());
    }

    #[test]
    fn reports_are_read() {
        let tree = Tree::new();
        tree.file("/proc/self/mounts", "t /t tracefs rw 0 0");
        tree.file(
            "/t/events/damon/damon_aggregated/format",
            "ID: 767\n field:unsigned long start; offset:24; size:8; signed:0;\n \
             field:unsigned long end; offset:32; size:8; signed:0;\n \
             field:unsigned int nr_accesses; offset:40; size:4; signed:0;\n \
             field:unsigned int age; offset:44; size:4; signed:0;\n",
        );
        let format = Tracefs::find(tree.root())
            .and_then(|tracefs| tracefs.format(tree.root(), "damon/damon_aggregated"))
            .expect("it is there");
        let fields = ["start", "end", "nr_accesses", "age"]
            .map(|name| format.field(name).expect("it is there"));
        let mut raw = vec![0; 48];
        raw[24..32].copy_from_slice(&0x7000u64.to_ne_bytes());
        raw[32..40].copy_from_slice(&0x9000u64.to_ne_bytes());
        raw[40..44].copy_from_slice(&20u32.to_ne_bytes());
        raw[44..48].copy_from_slice(&3u32.to_ne_bytes());
        let sample = RawSample { time_ns: 9, raw: &raw, ..RawSample::default() };
        let found = accesses(&fields, &sample);
        let span = Span::new(Vpn(7), 2);
        assert_eq!(found, Some(Accesses { span, count: 20, age: 3, time_ns: 9 }));
        let short = RawSample { raw: &raw[..47], ..sample };
        assert_eq!(accesses(&fields, &short), None);
        assert_eq!(DamonOptions::default().most_accesses(), 20);
    }
}
