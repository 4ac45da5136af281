//! Ways to see what memory is used: each tried on the child where that is possible.

use super::capability::{Capability, on_child};
use super::child::{ALLOCATED_BYTES, Child, Order, TOUCHED_PAGES};
use super::rights::is_admin;
use frostline_core::PAGE_BYTES;
use frostline_core::span::Span;
use frostline_inprocess::inside::look_for_faults;
use frostline_linux::LinuxError;
use frostline_linux::Root;
use frostline_linux::accesses::balancing::{self, Availability};
use frostline_linux::accesses::damon;
use frostline_linux::accesses::idle::IdleBitmap;
use frostline_linux::accesses::page_tables::PageTables;
use frostline_linux::files::closings::Closings;
use frostline_linux::moves::advise::{cold, drain_page_lists, page_out_verified};
use frostline_linux::pages::pagemap::{PageEntry, Pagemap};
use frostline_linux::perf::Start;
use frostline_linux::perf::faults::{FaultKind, FaultSampler};
use frostline_linux::perf::pmu::{self, PmuSampler};
use frostline_linux::perf::tracefs::Tracefs;
use frostline_linux::perf::tracepoints::{AllocationTracer, Change};
use frostline_linux::swap;
use frostline_linux::topology::format_list;
use std::fs::File;
use std::num::NonZeroU32;
use std::time::Duration;

type Probed<'a> = Result<Child, LinuxError>;

/// Period of hardware samples while trying: the child makes many more accesses, also where each stands
/// for some hundred micro-operations.
const PROBE_PERIOD: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
/// Records carry the time at which they were begun; this much later they can be read.
const SETTLE: Duration = Duration::from_millis(3);

pub fn examine(root: &Root, child: &mut Probed<'_>) -> Vec<Capability> {
    vec![
        on_child("fault-sampling", child, |child| fault_sampling(root, child)),
        on_child("refault-sampling", child, |child| refault_sampling(root, child)),
        Capability::of("tracefs", tracefs(root)),
        on_child("allocation-tracing", child, |child| allocations(root, child)),
        Capability::of("closed-files", closed_files(root)),
        on_child("pmu-sampling", child, |child| pmu_sampling(root, child)),
        on_child("pagemap", child, pagemap),
        on_child("page-frames", child, page_frames),
        on_child("pagemap-scan", child, pagemap_scan),
        on_child("soft-dirty", child, |child| soft_dirty(root, child)),
        on_child("page-tables", child, |child| page_tables(root, child)),
        on_child("page-idle", child, |child| page_idle(root, child)),
        Capability::of("damon", damon(root)),
        on_child("hint-faults", child, |child| hint_faults(root, child)),
        on_child("userfaultfd", child, |_| Ok(userfaultfd())),
    ]
}

fn fault_sampling(root: &Root, child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "fault-sampling";
    let mut sampler = FaultSampler::open(root, child.target().pid(), FaultKind::All)?;
    let start = child.tell(Order::Touch)?;
    let touched = start..start + TOUCHED_PAGES as u64 * PAGE_BYTES;
    let seen = faults_in(&mut sampler, &touched);
    let kernel = if sampler.excludes_kernel() { "; not those of system calls" } else { "" };
    let why = format!("{seen} faults seen of a child that touched {TOUCHED_PAGES} pages{kernel}");
    // With huge pages, one fault brings many.
    Ok(if seen > 0 { Capability::yes(name, why) } else { Capability::no(name, why) })
}

fn faults_in(sampler: &mut FaultSampler, addresses: &std::ops::Range<u64>) -> u64 {
    let mut seen = 0;
    sampler.poll(&mut |sample| seen += u64::from(addresses.contains(&sample.address)));
    seen
}

/// Pages that went to swap come back by faults that are seen.
fn refault_sampling(root: &Root, child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "refault-sampling";
    if swap::is_full(root)? {
        return Ok(Capability::no(name, "could not be tried: there is no free swap")
            .hint("a compressed one on request: --slow zram"));
    }
    let mut pagemap = Pagemap::open(child.target())?;
    let pages = Span::new(child.memory().start, 16);
    page_out_verified(child.target(), &mut pagemap, &[pages])?;
    let mut entries = Vec::new();
    pagemap.read(pages, &mut entries)?;
    let out = entries.iter().filter(|entry| entry.swapped()).count();
    let mut sampler = FaultSampler::open(root, child.target().pid(), FaultKind::Major)?;
    child.tell(Order::Read)?;
    let seen = faults_in(&mut sampler, &(pages.address()..pages.address() + pages.bytes().0));
    let why = format!("{out} pages were paged out, {seen} major faults seen when they were used");
    Ok(if seen > 0 { Capability::yes(name, why) } else { Capability::no(name, why) })
}

fn tracefs(root: &Root) -> Result<Capability, LinuxError> {
    let found = Tracefs::find(root)?;
    Ok(Capability::yes("tracefs", format!("at {}", found.path(root).display())))
}

/// A file that we have opened is closed, and that is heard.
fn closed_files(root: &Root) -> Result<Capability, LinuxError> {
    let (name, own) = ("closed-files", std::process::id());
    let mut closings = Closings::new()?;
    closings.watch(root, own);
    let path = root.path("/proc/self/exe");
    drop(File::open(&path).map_err(|error| LinuxError::io("open", path, &error))?);
    let mut heard = false;
    closings.poll(|closing| {
        heard |= closing.pid() == own;
        true
    })?;
    let file_systems = closings.file_systems();
    let why = format!("{file_systems} file systems can be watched, a closing was heard: {heard}");
    Ok(if heard { Capability::yes(name, why) } else { Capability::no(name, why) })
}

fn allocations(root: &Root, child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "allocation-tracing";
    let mut tracer = AllocationTracer::new(root)?;
    tracer.attach(root, child.target().pid(), Start::Now)?;
    child.tell(Order::Allocate)?;
    std::thread::sleep(SETTLE);
    let (mut mapped, mut unmapped) = (false, false);
    let large = ALLOCATED_BYTES as u64;
    tracer.poll(&mut |allocation| match allocation.change {
        Change::Map { len_bytes, .. } => mapped |= len_bytes >= large,
        Change::Unmap { len_bytes, .. } => unmapped |= len_bytes >= large,
        _ => {}
    });
    let why = format!("a child mapped and unmapped memory: seen {mapped} and {unmapped}");
    Ok(if mapped && unmapped {
        Capability::yes(name, "a child's mmap and munmap were seen with their sizes")
    } else {
        Capability::no(name, why)
    })
}

fn pmu_sampling(root: &Root, child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "pmu-sampling";
    let sources = pmu::sources(root)?;
    if sources.is_empty() {
        let unread = pmu::unread_devices(root)?;
        return Ok(if unread.is_empty() {
            Capability::no(
                name,
                "the processor, or the virtual machine, offers no sampling of \
                                  addresses",
            )
            .hint("on hardware it does; in virtual machines pass the PMU through")
        } else {
            Capability::no(name, format!("{}: its records are not read here", unread.join(", ")))
        });
    }
    let mut refused = None;
    for source in &sources {
        let tried = PmuSampler::new(root, source, PROBE_PERIOD).and_then(|mut sampler| {
            sampler.attach(root, child.target().pid(), Start::Now)?;
            child.tell(Order::Read)?;
            let mut samples = 0u64;
            sampler.poll(&mut |_| samples += 1);
            Ok(samples)
        });
        match tried {
            Ok(samples) if samples > 0 => {
                let why = format!("{:?} of {}: {samples} samples", source.kind, source.device);
                return Ok(Capability::yes(name, why));
            }
            Ok(_) => {}
            Err(error) => refused = Some(error),
        }
    }
    refused
        .map_or_else(|| Ok(Capability::no(name, "events can be opened, but no sample came")), Err)
}

fn entries(child: &Child) -> Result<Vec<PageEntry>, LinuxError> {
    let mut entries = Vec::new();
    Pagemap::open(child.target())?.read(Span::new(child.memory().start, 16), &mut entries)?;
    Ok(entries)
}

fn pagemap(child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "pagemap";
    let entries = entries(child)?;
    let known = entries.iter().filter(|entry| entry.present() || entry.swapped()).count();
    let why = format!("{known} of {} pages of a child found", entries.len());
    Ok(if known == entries.len() { Capability::yes(name, why) } else { Capability::no(name, why) })
}

fn page_frames(child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "page-frames";
    child.tell(Order::Read)?;
    let frames = entries(child)?.iter().filter(|entry| entry.pfn().is_some()).count();
    Ok(if frames > 0 {
        Capability::yes(name, "physical addresses of pages are shown")
    } else {
        Capability::no(name, "physical addresses of pages are hidden; needs CAP_SYS_ADMIN")
            .hint("run as root, outside of a container")
    })
}

fn pagemap_scan(child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "pagemap-scan";
    Ok(if Pagemap::open(child.target())?.can_scan() {
        Capability::yes(name, "ranges of a child's pages can be read by kind")
    } else {
        Capability::no(name, "the kernel does not know it; splitting cannot be verified")
            .hint("needs Linux 6.7")
    })
}

/// New memory counts as written; after the bits are cleared it must not.
fn soft_dirty(root: &Root, child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "soft-dirty";
    let dirty = |child: &Child| -> Result<usize, LinuxError> {
        Ok(entries(child)?.iter().filter(|entry| entry.soft_dirty()).count())
    };
    let before = dirty(child)?;
    root.write(format!("/proc/{}/clear_refs", child.target().pid()), "4")?;
    let after = dirty(child)?;
    Ok(if before > 0 && after == 0 {
        Capability::yes(name, "written pages are marked, and the marks can be cleared")
    } else {
        Capability::no(name, format!("{before} written pages are marked, {after} after clearing"))
            .hint("needs CONFIG_MEM_SOFT_DIRTY")
    })
}

/// Access bits that are cleared are set where pages are read.
fn page_tables(root: &Root, child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "page-tables";
    let mut reader = PageTables::open(root)?;
    let memory = child.memory();
    let mut tables = reader.of(child.target())?;
    reader.check(&mut tables, memory)?;
    cold(child.target(), &[memory])?;
    let mut runs = Vec::new();
    let cleared = reader.accessed(&tables, memory, &mut runs)?;
    child.tell(Order::Read)?;
    let read = reader.accessed(&tables, memory, &mut runs)?;
    let why = format!(
        "access bits of {} pages of a child cleared, {} set after they were read",
        cleared.present - cleared.accessed,
        read.accessed
    );
    Ok(if read.accessed > cleared.accessed {
        Capability::yes(name, why)
    } else {
        Capability::no(name, why)
    })
}

fn page_idle(root: &Root, child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "page-idle";
    let bitmap = IdleBitmap::open(root)?;
    child.tell(Order::Read)?;
    drain_page_lists();
    let frames: Vec<u64> = entries(child)?.iter().filter_map(|entry| entry.pfn()).collect();
    let idle = |frames: &[u64]| -> Result<usize, LinuxError> {
        Ok(bitmap.are_idle(frames)?.into_iter().filter(|idle| *idle).count())
    };
    bitmap.mark(&frames)?;
    let marked = idle(&frames)?;
    child.tell(Order::Read)?;
    let left = idle(&frames)?;
    let why = format!("{marked} pages of a child marked idle, {left} left after they were read");
    Ok(if marked > 0 && left < marked {
        Capability::yes(name, why)
    } else {
        Capability::no(name, why)
    })
}

fn damon(root: &Root) -> Result<Capability, LinuxError> {
    let name = "damon";
    if !is_admin(root) {
        return Ok(Capability::no(name, "needs CAP_SYS_ADMIN").hint("run as root"));
    }
    Ok(match damon::availability(root)? {
        damon::Availability::Missing => Capability::no(name, "not built into the kernel")
            .hint("needs CONFIG_DAMON_SYSFS and CONFIG_DAMON_VADDR"),
        damon::Availability::Taken { kdamonds } => {
            Capability::no(name, format!("used by somebody else ({kdamonds} kernel threads)"))
                .hint("stop the other user, such as damo; it is never taken over")
        }
        damon::Availability::Free { operations }
            if operations.iter().any(|name| name == "fvaddr") =>
        {
            match Tracefs::find(root)?.format(root, "damon/damon_aggregated") {
                Ok(_) => Capability::yes(name, "free, and can watch given pages of a process"),
                Err(error) => Capability::failed(name, &error),
            }
        }
        damon::Availability::Free { operations } => {
            Capability::no(name, format!("free, but watches only: {}", operations.join(", ")))
                .hint("needs CONFIG_DAMON_VADDR")
        }
    })
}

/// Not tried: it takes a setting that all programs feel. What the kernel says leaves no doubt.
fn hint_faults(root: &Root, child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "hint-faults";
    let nodes = match balancing::availability(root)? {
        Availability::Free { nodes } => nodes,
        Availability::Promoting { mode, .. } => {
            let why = format!("by kernel.numa_balancing={mode}, the kernel promotes pages itself");
            return Ok(Capability::no(name, why).hint(
                "sysctl kernel.numa_balancing=0; or --samples hint-faults, which stops promotion \
                 for the time being",
            ));
        }
        Availability::NoLowerTier => {
            return Ok(Capability::no(name, "no node is in a lower tier than all processors")
                .hint("firmware must report speeds of slow memory (HMAT)"));
        }
        Availability::Missing => {
            return Ok(Capability::no(
                name,
                "the kernel has none, or cannot be kept from promoting",
            )
            .hint("needs Linux 6.1 with CONFIG_NUMA_BALANCING"));
        }
    };
    for path in [balancing::MODE, balancing::RATE] {
        let path = root.path(path);
        if let Err(error) = std::fs::OpenOptions::new().write(true).open(&path) {
            return Err(LinuxError::io("open", path, &error));
        }
    }
    FaultSampler::open(root, child.target().pid(), FaultKind::All)?;
    let share = balancing::plenty(root)?;
    if share >= 1.0 {
        let why = "with so much free fast memory, the kernel promotes whatever is touched";
        return Ok(Capability::no(name, why)
            .hint("it is used as soon as less is free; other sources are, until then"));
    }
    let nodes = format_list(&nodes);
    Ok(Capability::yes(name, format!("touches of pages of nodes {nodes} can be made faults")))
}

fn userfaultfd() -> Capability {
    let name = "userfaultfd";
    if look_for_faults(false).is_ok() {
        return Capability::yes(name, "for all faults; used only by an agent inside of a program");
    }
    match look_for_faults(true) {
        Ok(_) => Capability::no(name, "not for faults in system calls")
            .hint("sysctl vm.unprivileged_userfaultfd=1, or run as root"),
        Err(errno) => Capability::no(name, LinuxError::call("userfaultfd", 0, errno).to_string()),
    }
}
