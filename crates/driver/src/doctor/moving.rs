//! Moving, splitting and paging out: each done to the child and verified.

use super::capability::{Capability, on_child};
use super::child::Child;
use super::rights::debugfs_file;
use frostline_core::Vpn;
use frostline_core::event::MoveOutcome;
use frostline_core::span::Span;
use frostline_linux::LinuxError;
use frostline_linux::Root;
use frostline_linux::moves::advise::{cold, page_out_verified};
use frostline_linux::moves::migrate::{NodeStatus, move_to_node, nodes_of};
use frostline_linux::pages::folio::{CollapseOutcome, Folio, Folios, SplitOutcome};
use frostline_linux::pages::pagemap::Pagemap;
use frostline_linux::swap;
use frostline_linux::topology::Topology;

/// Pages that probes move or page out.
const PROBED_PAGES: u64 = 16;

type Probed<'a> = Result<Child, LinuxError>;

pub fn examine(root: &Root, child: &mut Probed<'_>) -> Vec<Capability> {
    vec![
        on_child("advise", child, advise),
        on_child("move-pages", child, |child| move_pages(root, child)),
        on_child("collapse", child, collapse),
        on_child("split", child, split),
        on_child("split-shared", child, |_| split_by_debugfs(root)),
        on_child("page-out", child, |child| page_out(root, child)),
    ]
}

fn few(child: &Child) -> Span {
    Span::new(child.memory().start, PROBED_PAGES)
}

fn advise(child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "advise";
    let done = cold(child.target(), &[few(child)])?;
    Ok(match done.failed.first() {
        None => Capability::yes(name, "process_madvise works on another process"),
        Some((_, errno)) => {
            let error = LinuxError::call("process_madvise", 0, *errno);
            Capability::no(name, error.to_string())
        }
    })
}

fn move_pages(root: &Root, child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "move-pages";
    let pages: Vec<Vpn> = few(child).iter().collect();
    let nodes = nodes_of(child.target(), &pages)?;
    let Some(NodeStatus::Node(home)) = nodes.first() else {
        return Ok(Capability::no(name, format!("the kernel says of a page: {:?}", nodes.first())));
    };
    let topology = Topology::read(root)?;
    let other = topology.nodes.iter().find(|node| node.id != *home && node.free_bytes > 16 << 20);
    let Some(other) = other.map(|node| node.id) else {
        return Ok(Capability::no(name, "pages are found, but there is no other node with room")
            .hint("a slow tier can be compressed memory instead: --slow zram"));
    };
    let outcomes = move_to_node(child.target(), &pages, other)?;
    let moved = outcomes.iter().filter(|outcome| **outcome == MoveOutcome::Moved).count();
    let nodes = nodes_of(child.target(), &pages)?;
    let there = nodes.iter().filter(|node| **node == NodeStatus::Node(other)).count();
    let why = format!(
        "{moved} of {} pages moved from node {home} to {other}, {there} found there",
        pages.len()
    );
    let all = moved == pages.len() && there == moved;
    Ok(if all { Capability::yes(name, why) } else { Capability::no(name, why) })
}

fn collapse(child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "collapse";
    let region = child.memory().start;
    let mut pagemap = Pagemap::open(child.target())?;
    let mut folios = Folios::new(child.target(), &mut pagemap, None)?;
    Ok(match folios.collapse(&[region])?.first() {
        Some(CollapseOutcome::Collapsed) => {
            Capability::yes(name, "512 pages were made one huge folio")
        }
        // Huge already: taken apart, it can be tried.
        Some(CollapseOutcome::AlreadyHuge) => match folios.split(&[region])?.first() {
            Some(SplitOutcome::Split) => match folios.collapse(&[region])?.first() {
                Some(CollapseOutcome::Collapsed) => {
                    Capability::yes(name, "a split folio was made whole again")
                }
                other => Capability::no(name, format!("not made whole again: {other:?}")),
            },
            other => Capability::no(name, format!("could not be tried: split gave {other:?}")),
        },
        Some(CollapseOutcome::Refused(errno)) => {
            let error = LinuxError::call("MADV_COLLAPSE", 0, *errno);
            Capability::no(name, error.to_string())
                .hint("needs Linux 6.1 with CONFIG_TRANSPARENT_HUGEPAGE, and free huge pages")
        }
        None => Capability::no(name, "could not be tried"),
    })
}

fn split(child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "split";
    let region = child.memory().start;
    let mut pagemap = Pagemap::open(child.target())?;
    let mut folios = Folios::new(child.target(), &mut pagemap, None)?;
    if folios.of(region)? != Folio::Huge {
        return Ok(Capability::no(name, "could not be tried: there is no huge folio"));
    }
    Ok(match folios.split(&[region])?.first() {
        Some(SplitOutcome::Split) => {
            Capability::yes(name, "a huge folio was split by advice on one page")
        }
        other => Capability::no(name, format!("a huge folio stayed whole: {other:?}")),
    })
}

/// Folios that are shared after a fork can only be split through debugfs. Its file is not written
/// here: it splits whatever the numbers in it name.
fn split_by_debugfs(root: &Root) -> Result<Capability, LinuxError> {
    let name = "split-shared";
    let Some(path) = debugfs_file(root, "split_huge_pages") else {
        return Ok(Capability::no(name, "debugfs is not mounted").hint(
            "mount -t debugfs debugfs /sys/kernel/debug; without it, huge folios that a fork \
             shares stay whole",
        ));
    };
    Ok(match std::fs::OpenOptions::new().write(true).open(&path) {
        Ok(_) => Capability::yes(name, format!("{} can be opened for writing", path.display())),
        Err(error) => Capability::no(name, LinuxError::io("open", path, &error).to_string())
            .hint("kernel lockdown forbids it, or it takes root"),
    })
}

fn page_out(root: &Root, child: &mut Child) -> Result<Capability, LinuxError> {
    let name = "page-out";
    if swap::is_full(root)? {
        return Ok(Capability::no(name, "could not be tried: there is no free swap")
            .hint("a compressed one on request: --slow zram"));
    }
    let mut pagemap = Pagemap::open(child.target())?;
    let outcomes = page_out_verified(child.target(), &mut pagemap, &[few(child)])?;
    let moved: u64 = outcomes
        .iter()
        .filter(|(_, outcome)| *outcome == MoveOutcome::Moved)
        .map(|(span, _)| span.pages)
        .sum();
    let why = format!("{moved} of {PROBED_PAGES} pages went to swap");
    Ok(if moved > 0 { Capability::yes(name, why) } else { Capability::no(name, why) })
}
