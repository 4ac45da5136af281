use super::*;
use crate::EngineConfig;
use crate::event::Fault;
use crate::policy::telemetry::{Faults, Offered};
use crate::policy::testing::{SLOW, World};
use proptest::prelude::*;

const PACED: &str = "sampling=10ms:scan=100ms";
/// Pages of a temporary block.
const PART: u32 = 64;

fn world(fast: u64, more: &str) -> World {
    World::new(fast, &alloc::format!("pet:{PACED}:temporary=256KiB{more}"))
}

/// Blocks are one part each.
fn whole(fast: u64, more: &str) -> World {
    World::new(fast, &alloc::format!("pet:{PACED}:temporary=16MiB{more}"))
}

fn map(w: &mut World, run: PageRun, backing: Backing) {
    w.feed(&[Event::Mapped { run, backing, process: ProcessId(0) }]);
}

/// An allocation that has been written to.
fn allocate(w: &mut World, run: PageRun) {
    map(w, run, Backing::Anonymous);
    w.populate(run, false);
}

fn run(start: u32, pages: u32) -> PageRun {
    PageRun { start: PageId(start), pages }
}

/// A scan interval in which these pages are accessed all the time.
fn interval(w: &mut World, accessed: PageRun) {
    for _ in 0..10 {
        w.touch(accessed.range().map(|page| page as u32));
        w.wake();
    }
}

const NOTHING: PageRun = PageRun { start: PageId(0), pages: 0 };

fn slow(w: &World, run: PageRun) -> usize {
    run.iter().filter(|page| w.tier(page.0) == Some(SLOW)).count()
}

fn armed(w: &World, run: PageRun) -> usize {
    run.iter().filter(|page| w.engine.view().state(*page).is_armed()).count()
}

/// A block of four parts that is on its way: first touches are accesses of the first interval.
fn in_second_phase() -> World {
    let mut w = world(4096, "");
    allocate(&mut w, run(0, 4 * PART));
    (0..3).for_each(|_| interval(&mut w, NOTHING));
    assert_eq!(w.metric("blocks_in_second_phase_total"), 1.0);
    w
}

#[test]
fn no_scale_makes_blocks_of_single_pages() {
    let context = Offer { scale: 1e12, ..Offer::default() };
    let tiers = EngineConfig::two_tiers(PageCount(1 << 20), PageCount(1 << 20));
    let mut w = World::with(tiers, "pet", &context);
    map(&mut w, run(0, 1 << 20), Backing::Anonymous);
    assert_eq!(w.metric("blocks"), f64::from(1_u32 << 17));
}

#[test]
fn large_anonymous_allocations_are_blocks_of_limited_size() {
    let mut w = world(4096, ":max-block=1MiB");
    map(&mut w, run(0, 32), Backing::Anonymous);
    map(&mut w, run(32, 31), Backing::Anonymous);
    map(&mut w, run(100, 300), Backing::Heap);
    map(&mut w, run(400, 300), Backing::Stack);
    map(&mut w, run(700, 300), Backing::File(1));
    assert_eq!(w.metric("blocks"), 1.0);
    map(&mut w, run(1000, 600), Backing::Anonymous);
    assert_eq!(w.metric("blocks"), 4.0, "256, 256 and 88 pages");
    w.feed(&[Event::Unmapped { run: run(1100, 20) }]);
    assert_eq!(w.metric("blocks"), 5.0, "two are left of the first");
    w.feed(&[Event::Unmapped { run: run(1000, 600) }]);
    assert_eq!(w.metric("blocks"), 1.0);
}

#[test]
fn one_page_of_each_block_is_checked_at_a_time() {
    let mut w = world(4096, "");
    for block in 0..3 {
        allocate(&mut w, run(block * 1000, 500));
    }
    let scans = |w: &World| w.count(|action| matches!(action, Action::Scan { .. }));
    w.wake();
    assert_eq!((scans(&w), w.metric("checked_pages_total")), (3, 0.0), "bits were cleared");
    w.wake();
    assert_eq!((scans(&w), w.metric("checked_pages_total")), (9, 3.0), "read, and three others");
    let one = |action: &Action| match action {
        Action::Scan { scan, .. } => scan.run.pages == 1,
        _ => true,
    };
    assert!(w.done.iter().all(one));
}

#[test]
fn what_is_accessed_stays_and_what_is_not_goes_by_phases() {
    let mut w = world(4096, "");
    let (hot, cold) = (run(0, 4 * PART), run(1000, 4 * PART));
    allocate(&mut w, hot);
    allocate(&mut w, cold);
    let phases = |w: &World| {
        ["blocks_in_first_phase_total", "blocks_in_second_phase_total", "demoted_blocks_total"]
            .map(|name| w.metric(name))
    };
    interval(&mut w, hot);
    assert_eq!(phases(&w), [0.0; 3], "it was touched for the first time");
    interval(&mut w, hot);
    assert_eq!(phases(&w), [1.0, 0.0, 0.0]);
    interval(&mut w, hot);
    assert_eq!(phases(&w), [1.0, 1.0, 0.0]);
    // A tenth of each part, rounded up.
    assert_eq!((slow(&w, cold), armed(&w, cold)), (4 * 7, 4 * 7));
    interval(&mut w, hot);
    assert_eq!(phases(&w), [1.0, 1.0, 1.0]);
    assert_eq!((slow(&w, cold), armed(&w, cold)), (256, 28));
    assert_eq!((slow(&w, hot), w.metric("demoted_blocks")), (0, 1.0));
}

#[test]
fn a_block_of_which_more_was_accessed_than_not_is_spared() {
    let mut w = world(4096, "");
    allocate(&mut w, run(0, 4 * PART));
    interval(&mut w, NOTHING);
    interval(&mut w, NOTHING);
    assert_eq!(w.metric("blocks_in_first_phase_total"), 1.0);
    interval(&mut w, run(0, 2 * PART));
    assert_eq!(w.metric("blocks_spared_total"), 1.0, "half of it is not more");
    assert_eq!(w.metric("blocks_in_second_phase_total"), 0.0);
}

#[test]
fn canaries_that_are_touched_keep_their_neighbours_in_fast_memory() {
    let mut w = in_second_phase();
    // The second part; nothing tells this but the faults of its canaries.
    let part = run(PART, PART);
    let canaries: Vec<u32> = part.iter().map(|page| page.0).collect();
    w.touch(canaries);
    let faults = w.metric("canary_faults_total");
    assert_eq!(faults, 7.0);
    interval(&mut w, NOTHING);
    assert_eq!(w.metric("blocks_cut_total"), 2.0, "cold, accessed, cold");
    assert_eq!((slow(&w, part), armed(&w, part)), (0, 0), "canaries came back");
    assert_eq!(slow(&w, run(0, 4 * PART)), 3 * 64);
    assert_eq!((w.metric("blocks"), w.metric("demoted_blocks")), (3.0, 2.0));
}

#[test]
fn canaries_that_are_touched_all_over_save_the_block() {
    let mut w = in_second_phase();
    w.touch(0..3 * PART);
    interval(&mut w, NOTHING);
    let all = run(0, 4 * PART);
    assert_eq!((slow(&w, all), armed(&w, all)), (0, 0));
    assert_eq!((w.metric("blocks_spared_total"), w.metric("demoted_blocks_total")), (1.0, 0.0));
}

/// Blocks of these sizes, all demoted. The faults that are tolerable in a sampling interval follow
/// from the penalty: at 10 ms and 3 %, 0.03 x 0.1 x 10 ms / penalty.
fn demoted(sizes: &[u32], penalty: &str) -> (World, Vec<PageRun>) {
    let mut w = whole(1 << 16, &alloc::format!(":penalty={penalty}"));
    let mut at = 0;
    let blocks: Vec<PageRun> = sizes
        .iter()
        .map(|pages| {
            at += pages + 10;
            run(at - pages - 10, *pages)
        })
        .collect();
    blocks.iter().for_each(|block| allocate(&mut w, *block));
    (0..4).for_each(|_| interval(&mut w, NOTHING));
    assert_eq!(w.metric("demoted_blocks"), sizes.len() as f64);
    // The next sampling takes their size in.
    w.wake();
    (w, blocks)
}

fn canaries(w: &World, block: PageRun) -> Vec<u32> {
    let is_armed = |page: &PageId| w.engine.view().state(*page).is_armed();
    block.iter().filter(is_armed).map(|page| page.0).collect()
}

#[test]
fn a_block_comes_back_by_its_share_of_the_faults_and_not_in_the_fault() {
    // 10 faults in an interval, of which a quarter of the memory has 2.5.
    let (mut w, blocks) = demoted(&[200, 600], "3us");
    let few = canaries(&w, blocks[0]);
    w.touch(few[..2].iter().copied());
    assert_eq!(w.metric("promoted_blocks_total"), 0.0);
    let (page, process, thread) = (PageId(few[3]), ProcessId(0), 0);
    let fault = Fault { page, tier: SLOW, write: false, process, thread };
    assert_eq!(w.engine.on_fault(w.now, &fault), super::super::FaultDecision::Stay);
    w.touch([few[2]]);
    assert_eq!(w.metric("promoted_blocks_total"), 1.0);
    assert_eq!(w.metric("promoted_by_all_faults_blocks_total"), 0.0);
    assert_eq!((slow(&w, blocks[0]), armed(&w, blocks[0])), (0, 0), "at once, by a worker");
    assert_eq!(slow(&w, blocks[1]), 600);
}

#[test]
fn faults_count_for_one_sampling_interval() {
    let (mut w, blocks) = demoted(&[200, 600], "3us");
    let few = canaries(&w, blocks[0]);
    for pair in few.chunks(2).take(5) {
        w.touch(pair.iter().copied());
        w.wake();
    }
    assert_eq!(w.metric("canary_faults_total"), 10.0);
    assert_eq!(w.metric("promoted_blocks_total"), 0.0, "never more than two at a time");
}

#[test]
fn once_there_are_too_many_faults_every_block_touched_comes_back() {
    // 10 faults in an interval, of which each of the four has 2.5.
    let (mut w, blocks) = demoted(&[400, 400, 400, 400], "3us");
    for block in &blocks[..3] {
        let canaries = canaries(&w, *block);
        w.touch(canaries[..2].iter().copied());
    }
    assert_eq!(w.metric("promoted_blocks_total"), 0.0);
    let last = canaries(&w, blocks[3]);
    w.touch(last[..2].iter().copied());
    let first = canaries(&w, blocks[0]);
    w.touch(first[..1].iter().copied());
    assert_eq!(w.metric("promoted_blocks_total"), 1.0, "the third fault of one of 2.5");
    let second = canaries(&w, blocks[1]);
    w.touch(second[..1].iter().copied());
    assert_eq!(w.metric("promoted_by_all_faults_blocks_total"), 1.0, "the tenth of all");
}

#[test]
fn where_every_page_faults_a_tenth_of_the_faults_count() {
    // 10 in an interval, of one block; from swap space 100.
    let (mut w, blocks) = demoted(&[400], "3us");
    let cause = MoveCause::Refault;
    let refault = |page| Event::Moved { run: run(page, 1), to: TierId::FAST, cause };
    let first = blocks[0].start.0;
    (first..first + 95).for_each(|page| w.feed(&[refault(page)]));
    assert_eq!(w.metric("promoted_blocks_total"), 0.0);
    (first + 95..first + 101).for_each(|page| w.feed(&[refault(page)]));
    assert_eq!(w.metric("promoted_blocks_total"), 1.0);
}

/// A world whose telemetry is this, with blocks of one part each.
fn telling(telemetry: Offered) -> World {
    let tiers = EngineConfig::two_tiers(PageCount(1 << 16), PageCount(1 << 20));
    let spec = alloc::format!("pet:{PACED}:temporary=16MiB");
    let fast_pages = tiers.tiers[0].capacity;
    World::with(tiers, &spec, &Offer { fast_pages, telemetry, ..Offer::default() })
}

#[test]
fn faults_of_places_that_are_too_few_count_for_more() {
    // 361 faults in a second are tolerable, of a tenth of the pages: 3.6 in a sampling interval.
    for (most_armed, faults) in [(None, 4_usize), (Some(PageCount(20)), 2)] {
        let mut w = telling(Offered { most_armed, ..Offered::default() });
        let blocks = [run(0, 400), run(1000, 400)];
        blocks.iter().for_each(|block| allocate(&mut w, *block));
        (0..5).for_each(|_| interval(&mut w, NOTHING));
        assert_eq!(w.metric("demoted_blocks"), 2.0);
        let out: Vec<usize> = blocks.iter().map(|block| armed(&w, *block)).collect();
        assert_eq!(out, if most_armed.is_some() { [10, 10] } else { [40, 40] });
        w.wake();
        let few = canaries(&w, blocks[0]);
        let needed = (1..=few.len()).find(|n| {
            w.touch([few[n - 1]]);
            w.metric("promoted_blocks_total") > 0.0
        });
        // Half of the demoted memory has half of the faults.
        assert_eq!(needed, Some(faults.div_ceil(2)), "{most_armed:?}");
    }
}

#[test]
fn nothing_is_demoted_whose_canaries_are_not_out() {
    let mut w = in_second_phase();
    let all = run(0, 4 * PART);
    // The world can have none in the second part, and in the third all but one.
    w.feed(&[Event::Disarmed { run: run(PART, PART) }]);
    let third = canaries(&w, run(2 * PART, PART));
    let others = third[1..].iter().map(|page| Event::Disarmed { run: run(*page, 1) });
    w.feed(&others.collect::<Vec<_>>());
    interval(&mut w, NOTHING);
    assert_eq!(slow(&w, run(PART, PART)), 0);
    assert_eq!(slow(&w, all), 3 * 64);
    assert_eq!(w.metric("blocks_unseen_total"), 1.0);
}

#[test]
fn a_demoted_block_that_nothing_tells_of_any_more_comes_back() {
    let (mut w, blocks) = demoted(&[200, 600], "3us");
    let lose = |w: &mut World| w.feed(&[Event::Disarmed { run: blocks[0] }]);
    lose(&mut w);
    interval(&mut w, NOTHING);
    assert_eq!(armed(&w, blocks[0]), 20, "others are tried");
    lose(&mut w);
    interval(&mut w, NOTHING);
    assert_eq!((slow(&w, blocks[0]), slow(&w, blocks[1])), (0, 600));
    assert_eq!((w.metric("promoted_blocks_total"), w.metric("blocks_unseen_total")), (0.0, 1.0));
}

#[test]
fn canaries_that_were_touched_are_replaced_after_a_scan() {
    let (mut w, blocks) = demoted(&[200, 600], "3us");
    for _ in 0..5 {
        let few = canaries(&w, blocks[0]);
        assert_eq!(few.len(), 20);
        w.touch(few[..2].iter().copied());
        assert_eq!(armed(&w, blocks[0]), 18);
        interval(&mut w, NOTHING);
    }
    assert_eq!(w.metric("canary_faults_total"), 10.0);
    assert_eq!((w.metric("promoted_blocks_total"), w.metric("blocks_unseen_total")), (0.0, 0.0));
}

#[test]
fn folios_are_split_before_they_have_canaries_where_only_pages_can_be() {
    for faults in [Faults::Slower, Faults::Hints] {
        let mut w = telling(Offered { faults, ..Offered::default() });
        let block = run(0, 8 * 512);
        map(&mut w, block, Backing::Anonymous);
        w.populate(block, true);
        (0..3).for_each(|_| interval(&mut w, NOTHING));
        let is_split = |action: &Action| matches!(action, Action::Split { .. });
        assert_eq!((w.count(is_split), slow(&w, block)), (8, 0), "no canary yet");
        interval(&mut w, NOTHING);
        assert_eq!((slow(&w, block), armed(&w, block)), (410, 410), "a tenth of the pages");
        interval(&mut w, NOTHING);
        assert_eq!((slow(&w, block), w.metric("demoted_blocks")), (8 * 512, 1.0));
    }
}

#[test]
fn where_slow_pages_fault_by_themselves_all_of_them_count_a_tenth() {
    let mut w = telling(Offered { faults: Faults::Hints, ..Offered::default() });
    let block = run(0, 400);
    allocate(&mut w, block);
    (0..5).for_each(|_| interval(&mut w, NOTHING));
    assert_eq!((w.metric("demoted_blocks"), slow(&w, block)), (1.0, 400));
    let hinted = |page| {
        Event::Fault(Fault {
            page: PageId(page),
            tier: SLOW,
            write: false,
            process: ProcessId(0),
            thread: 0,
        })
    };
    let needed = (1..400).find(|page| {
        w.feed(&[hinted(*page)]);
        w.metric("promoted_blocks_total") > 0.0
    });
    assert_eq!(needed, Some(37), "3.6 canaries' worth");
}

#[test]
fn no_answer_is_no_evidence_that_a_block_is_cold() {
    let mut w = whole(4096, "");
    allocate(&mut w, run(0, 400));
    w.silent = true;
    (0..9).for_each(|_| interval(&mut w, NOTHING));
    assert_eq!(w.metric("blocks_in_first_phase_total"), 0.0);
    // One that comes late is heard: nothing else was asked about meanwhile.
    interval(&mut w, NOTHING);
    w.answer_late();
    assert!(w.metric("checked_pages_total") > 0.0);
    interval(&mut w, NOTHING);
    assert_eq!(w.metric("blocks_in_first_phase_total"), 1.0);
}

#[test]
fn a_demoted_block_that_is_unmapped_is_forgotten() {
    let (mut w, blocks) = demoted(&[200], "3us");
    w.feed(&[Event::Unmapped { run: blocks[0] }]);
    assert_eq!((w.metric("blocks"), w.metric("demoted_blocks")), (0.0, 0.0));
    w.wake();
}

#[test]
fn what_found_no_room_comes_when_there_is_some() {
    let mut w = world(200, "");
    allocate(&mut w, run(0, 100));
    allocate(&mut w, run(1000, 150));
    assert_eq!(slow(&w, run(1000, 150)), 50);
    interval(&mut w, run(1000, 150));
    assert_eq!(slow(&w, run(1000, 150)), 50, "the other was just touched, too");
    (0..4).for_each(|_| interval(&mut w, run(1000, 150)));
    assert_eq!((slow(&w, run(0, 100)), slow(&w, run(1000, 150))), (100, 0));
}

#[test]
fn memory_that_was_slow_from_the_beginning_has_canaries_too() {
    let mut w = world(100, "");
    allocate(&mut w, run(0, 100));
    allocate(&mut w, run(1000, 50));
    (0..4).for_each(|_| interval(&mut w, run(0, 100)));
    assert_eq!((w.metric("demoted_blocks"), armed(&w, run(1000, 50))), (1.0, 5));
    w.feed(&[Event::Unmapped { run: run(0, 100) }]);
    w.wake();
    let canaries = canaries(&w, run(1000, 50));
    w.touch(canaries);
    assert_eq!(slow(&w, run(1000, 50)), 0);
}

#[test]
fn closed_files_are_demoted_at_the_next_scan_unless_told_not_to() {
    for (name, demotes) in [("pet", true), ("pet-nofile", false)] {
        let mut w = World::new(4096, &alloc::format!("{name}:{PACED}"));
        map(&mut w, run(0, 50), Backing::File(7));
        map(&mut w, run(100, 50), Backing::File(8));
        w.populate(run(0, 50), false);
        w.populate(run(100, 50), false);
        w.feed(&[Event::FileClosed { file: 7 }]);
        interval(&mut w, NOTHING);
        w.wake();
        let asked = w.count(|action| matches!(action, Action::DemoteFile { file: 7, .. }));
        assert_eq!((asked, slow(&w, run(0, 50))), if demotes { (1, 50) } else { (0, 0) });
        assert_eq!(slow(&w, run(100, 50)), 0);
    }
}

#[test]
fn folios_are_watched_and_moved_whole() {
    let mut w = whole(1 << 16, "");
    map(&mut w, run(0, 20 * 512), Backing::Anonymous);
    w.populate(run(0, 20 * 512), true);
    (0..3).for_each(|_| interval(&mut w, NOTHING));
    // Parts of 8, 8 and 4 folios.
    assert_eq!(slow(&w, run(0, 20 * 512)), 3 * 512, "a folio of each part");
    interval(&mut w, NOTHING);
    assert_eq!(slow(&w, run(0, 20 * 512)), 20 * 512);
    assert_eq!(w.engine.stats().anomalies, 0);
}

#[test]
fn a_block_costs_little() {
    let mut w = world(1 << 16, "");
    for block in 0..100 {
        allocate(&mut w, run(block * 100, 90));
    }
    assert!(w.metric("block_metadata_bytes") <= 128.0, "{}", w.metric("block_metadata_bytes"));
}

proptest! {
    #[test]
    fn blocks_cover_what_is_mapped_and_never_overlap(
        steps in proptest::collection::vec((0u32..4, 0u32..500, 1u32..200, 0u32..500), 1..60),
        most in 10u32..100,
    ) {
        let mut blocks = Blocks::default();
        let mut mapped = BTreeSet::new();
        for (kind, start, pages, to) in steps {
            let run = run(start, pages);
            match kind {
                0 | 1 => {
                    blocks.allocate(run, most);
                    mapped.extend(run.range());
                }
                2 => {
                    blocks.take(run);
                    run.range().for_each(|page| { mapped.remove(&page); });
                }
                _ if run.intersect(PageRun { start: PageId(to), pages }).pages == 0 => {
                    blocks.remap(run, PageId(to));
                    let moved: Vec<usize> = run.range().filter(|p| mapped.remove(p)).collect();
                    (to as usize..(to + pages) as usize).for_each(|p| { mapped.remove(&p); });
                    mapped.extend(moved.iter().map(|p| p - start as usize + to as usize));
                }
                _ => {}
            }
            let mut covered = Vec::new();
            for block in blocks.iter() {
                prop_assert!(block.run.pages > 0 && block.run.pages <= most);
                covered.extend(block.run.range());
            }
            prop_assert!(covered.is_sorted_by(|a, b| a < b), "none twice");
            prop_assert_eq!(covered, mapped.iter().copied().collect::<Vec<_>>());
        }
    }
}
