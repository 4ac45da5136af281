//! Mappings, page tables, nodes and folios of another program that checks its own memory.

mod support;

use frostline_core::event::MoveOutcome;
use frostline_core::span::Span;
use frostline_core::types::Vpn;
use frostline_linux::moves::advise::{self, cold};
use frostline_linux::moves::migrate::{NodeStatus, move_to_node, nodes_of};
use frostline_linux::pages::folio::{CollapseOutcome, Folio, Folios, SplitOutcome};
use frostline_linux::pages::pagemap::{Categories, Kpageflags, Pagemap};
use frostline_linux::process::maps::MapsReader;
use frostline_linux::{LinuxError, Root};
use frostline_testing::{Requirement, skip};
use support::Memory;

const REGIONS: u64 = 8;

#[test]
fn serve_memory() {
    support::serve();
}

/// The regions of its memory, by their first pages.
fn regions(memory: &Memory) -> Vec<Vpn> {
    memory.span.whole_regions().map(|region| region.start).collect()
}

/// Whether the region's memory came as a huge folio: the system may not have one to give.
fn huge_memory() -> Option<(Memory, Pagemap)> {
    let memory = Memory::start(REGIONS * 512, support::Folios::Huge);
    let mut pagemap = Pagemap::open(&memory.target).expect("ours");
    let mut huge = 0;
    for page in regions(&memory) {
        huge += u64::from(pagemap.is_huge(page).ok()?);
    }
    if huge < REGIONS {
        skip(Requirement::HugePages, format!("{huge} of {REGIONS} regions are huge"));
        return None;
    }
    Some((memory, pagemap))
}

/// None where advice to other processes is not allowed.
fn allowed<T>(result: Result<T, LinuxError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error @ LinuxError::Unsupported { .. }) => {
            skip(Requirement::OtherMemory, error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn mappings_and_page_tables_agree() {
    let memory = Memory::start(1000, support::Folios::Base);
    let mut mappings = Vec::new();
    MapsReader::new().read(&memory.target, &mut mappings).expect("ours");
    let tierable: u64 = mappings
        .iter()
        .filter(|mapping| mapping.is_tierable())
        .map(|mapping| mapping.span.intersect(memory.span).pages)
        .sum();
    assert_eq!(tierable, 1000);
    let mut pagemap = Pagemap::open(&memory.target).expect("ours");
    let mut entries = Vec::new();
    pagemap.read(memory.span, &mut entries).expect("it runs");
    assert!(entries.iter().all(|entry| entry.present() && entry.exclusive()));
    let mut runs = Vec::new();
    pagemap.places(memory.span, &mut runs).expect("it runs");
    assert_eq!(runs, [(memory.span, Categories::PRESENT)]);
    assert!(memory.target.usage().expect("it runs").resident.pages().0 >= 1000);
}

#[test]
fn pages_are_on_a_node_and_can_be_sent_there() {
    let memory = Memory::start(1000, support::Folios::Base);
    let mut pages: Vec<Vpn> = memory.span.iter().collect();
    pages.push(Vpn(3));
    let Some(nodes) = allowed(nodes_of(&memory.target, &pages)) else { return };
    let NodeStatus::Node(node) = nodes[0] else { panic!("{:?}", nodes[0]) };
    let Some(outcomes) = allowed(move_to_node(&memory.target, &pages, node)) else { return };
    assert!(outcomes[..1000].iter().all(|&outcome| outcome == MoveOutcome::Moved));
    assert_eq!(outcomes[1000], MoveOutcome::Gone);
    let after = nodes_of(&memory.target, &pages).expect("it runs");
    assert!(after[..1000].iter().all(|&status| status == NodeStatus::Node(node)));
    assert!(!matches!(after[1000], NodeStatus::Node(_)));
    memory.verify();
}

#[test]
fn huge_folios_are_split_and_made_again() {
    let Some((memory, mut pagemap)) = huge_memory() else { return };
    let regions = regions(&memory);
    let flags = Kpageflags::open(&Root::system()).ok();
    let mut folios = Folios::new(&memory.target, &mut pagemap, flags.as_ref()).expect("scans");
    let Some(split) = allowed(folios.split(&regions)) else { return };
    assert_eq!(split, [SplitOutcome::Split; REGIONS as usize]);
    assert_eq!(folios.split(&regions).expect("it runs")[0], SplitOutcome::NotHuge);
    assert_eq!(folios.of(regions[0]).expect("it runs"), Folio::Base);
    assert!(folios.huge_regions(memory.span).expect("it runs").iter().all(|&(_, huge)| !huge));
    memory.verify();

    let refused = |outcome: &CollapseOutcome| matches!(outcome, CollapseOutcome::Refused(_));
    let mut collapsed = folios.collapse(&regions).expect("it runs");
    for _ in 0..20 {
        // Pages may be held for a moment by who looks through all memory.
        let again: Vec<usize> = (0..regions.len()).filter(|&at| refused(&collapsed[at])).collect();
        let pages: Vec<Vpn> = again.iter().map(|&at| regions[at]).collect();
        for (at, outcome) in again.into_iter().zip(folios.collapse(&pages).expect("it runs")) {
            collapsed[at] = outcome;
        }
    }
    assert_eq!(collapsed, [CollapseOutcome::Collapsed; REGIONS as usize]);
    assert_eq!(folios.collapse(&regions).expect("it runs")[0], CollapseOutcome::AlreadyHuge);
    assert_eq!(folios.of(regions[0]).expect("it runs"), Folio::Huge);
    assert!(folios.huge_regions(memory.span).expect("it runs").iter().all(|&(_, huge)| huge));
    memory.verify();
}

#[test]
fn splits_and_collapses_lose_no_write() {
    let Some((memory, mut pagemap)) = huge_memory() else { return };
    let regions = regions(&memory);
    assert_eq!(memory.ask("write"), "writing");
    let mut folios = Folios::new(&memory.target, &mut pagemap, None).expect("scans");
    let (mut splits, mut collapses) = (0, 0);
    for _ in 0..5 {
        let Some(split) = allowed(folios.split(&regions)) else { return };
        splits += split.iter().filter(|&&outcome| outcome == SplitOutcome::Split).count();
        let collapsed = folios.collapse(&regions).expect("it runs");
        collapses += collapsed.iter().filter(|&&o| o == CollapseOutcome::Collapsed).count();
    }
    assert!(splits > 0 && collapses > 0, "{splits} splits, {collapses} collapses");
    assert_eq!(memory.ask("stop"), "0 wrong, written: true");
    memory.verify();
}

#[test]
fn folios_shared_by_a_fork_stay_whole() {
    let Some((memory, mut pagemap)) = huge_memory() else { return };
    assert_eq!(memory.ask("fork"), "forked");
    let page = regions(&memory)[1];
    assert!(!pagemap.page(page).expect("it runs").exclusive());
    let mut folios = Folios::new(&memory.target, &mut pagemap, None).expect("scans");
    let Some(split) = allowed(folios.split(&[page])) else { return };
    assert_eq!(split, [SplitOutcome::StillWhole]);
    assert_eq!(memory.ask("end copy"), "ended");
    let mut folios = Folios::new(&memory.target, &mut pagemap, None).expect("scans");
    assert_eq!(folios.split(&[page]).expect("it runs"), [SplitOutcome::Split]);
    memory.verify();
}

#[test]
fn a_hole_does_not_keep_the_rest_from_being_advised() {
    let memory = Memory::start(1000, support::Folios::Base);
    let hole = Span::new(Vpn(16), 2);
    let pieces: Vec<Span> = memory.span.pieces(100).collect();
    let mut spans = pieces.clone();
    spans.insert(0, hole);
    spans.insert(5, hole);
    spans.push(hole);
    let Some(advised) = allowed(cold(&memory.target, &spans)) else { return };
    assert_eq!(advised.bytes, memory.span.bytes());
    assert_eq!(advised.failed, [(hole, libc_enomem()); 3]);
    let none = advise::cold(&memory.target, &[]).expect("nothing to do");
    assert_eq!(none, advise::Advised::default());
}

fn libc_enomem() -> i32 {
    rustix::io::Errno::NOMEM.raw_os_error()
}

#[test]
fn advice_to_an_ended_process_says_so() {
    let memory = Memory::start(10, support::Folios::Base);
    let pid = memory.target.pid();
    let target = frostline_linux::Target::open(&Root::system(), pid).expect("it runs");
    let span = memory.span;
    drop(memory);
    assert!(cold(&target, &[span]).expect_err("ended").is_gone());
    assert!(nodes_of(&target, &[span.start]).expect_err("ended").is_gone());
}
