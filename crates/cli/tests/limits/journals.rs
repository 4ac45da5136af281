//! Journals that no run has written.

use crate::support::{assert_good, assert_refused, frostline};
use frostline_core::engine::EngineConfig;
use frostline_core::event::{Backing, Event, Sample, SampleKind};
use frostline_core::policy::Offer;
use frostline_core::{Nanos, PageCount, PageId, PageRun, ProcessId, Region, TierId, TierLimits};
use frostline_driver::journal::{Entry, Journal, Setup};
use std::path::Path;

fn tiers(number: usize) -> Vec<TierLimits> {
    let (capacity, keep_free) = (PageCount(1024), PageCount::ZERO);
    vec![TierLimits { capacity, keep_free, direct_access: true }; number]
}

fn setup(policy: &str) -> Setup {
    let (fast_pages, total_pages_hint) = (PageCount(1024), PageCount(2048));
    Setup {
        policy: policy.to_owned(),
        offer: Offer { fast_pages, total_pages_hint, ..Offer::default() },
        config: EngineConfig::two_tiers(fast_pages, fast_pages),
    }
}

fn write(path: &Path, setup: &Setup, entries: &[Entry]) {
    let mut journal = Journal::create(path, setup).expect("a new file");
    entries.iter().for_each(|entry| journal.write(entry).expect("room"));
    journal.flush().expect("room");
}

fn run(start: u32, pages: u32) -> PageRun {
    PageRun { start: PageId(start), pages }
}

fn sample(page: u32, tier: u8) -> Event {
    let (page, tier, kind) = (PageId(page), TierId(tier), SampleKind::LoadMiss);
    Event::Sample(Sample::new(page, kind, tier, ProcessId(1)))
}

fn mapped(run: PageRun) -> Event {
    Event::Mapped { run, backing: Backing::Anonymous, process: ProcessId(1) }
}

fn populated(run: PageRun) -> Event {
    Event::Populated { run, tier: TierId(0), huge: false }
}

#[test]
fn engines_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("j");
    type Change = fn(&mut Setup);
    let absurd: [(&str, Change); 12] = [
        ("no tier", |s| s.config.tiers = tiers(0)),
        ("one tier", |s| s.config.tiers = tiers(1)),
        ("nine tiers", |s| s.config.tiers = tiers(9)),
        ("fast pages", |s| s.offer.fast_pages = PageCount::MAX),
        ("expected pages", |s| s.offer.total_pages_hint = PageCount::MAX),
        ("scale", |s| s.offer.scale = f64::NAN),
        ("no scale", |s| s.offer.scale = 0.0),
        ("gap", |s| s.offer.tiers[1].load_ns = f64::INFINITY),
        ("costs", |s| s.offer.costs.split_ns = Some(f64::NAN)),
        ("bandwidth", |s| s.offer.tiers[0].read_bytes_per_second = Some(-1.0)),
        ("capacity", |s| s.config.tiers[0].capacity = PageCount::MAX),
        ("kept free", |s| s.config.tiers[1].keep_free = PageCount::MAX),
    ];
    for policy in ["memtis", "tpp", "hybridtier", "pet"] {
        for (what, make) in absurd {
            let mut setup = setup(policy);
            make(&mut setup);
            write(&path, &setup, &[Entry::Timeout(Nanos(1))]);
            let replayed = frostline(folder.path(), &["journal", "verify", "j"]);
            assert_refused(&replayed, &format!("{policy}, {what}"));
        }
        write(&path, &setup(policy), &[Entry::Timeout(Nanos(1))]);
        assert_good(&frostline(folder.path(), &["journal", "verify", "j"]), policy);
    }
}

#[test]
fn tables_are_not_sized_by_what_a_journal_expects() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = PageCount(u64::MAX >> 12);
    for entry in frostline_core::policy::registry::REGISTRY {
        let mut setup = setup(entry.name);
        (setup.offer.fast_pages, setup.offer.total_pages_hint) = (large, large);
        setup.config.tiers.iter_mut().for_each(|tier| tier.capacity = large);
        let events = vec![mapped(run(0, 512)), populated(run(0, 512)), sample(7, 0)];
        let later = (1..50).map(|second| Entry::Timeout(Nanos(second * 1_000_000_000)));
        let entries: Vec<Entry> =
            [Entry::Events(Nanos(1), events)].into_iter().chain(later).collect();
        write(&folder.path().join("j"), &setup, &entries);
        let output = frostline(folder.path(), &["journal", "verify", "j"]);
        // Policies that know the future are not replayed; others want things done that this journal
        // does not have.
        let code = output.status.code();
        assert!(matches!(code, Some(0..=2)), "{}: {output:?}", entry.name);
        assert!(!crate::support::told(&output).contains("panicked"), "{}: {output:?}", entry.name);
    }
}

#[test]
fn runs_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let absurd = [
        ("pages beyond ids", mapped(run(u32::MAX - 3, 100))),
        ("more pages than ids", populated(run(1, u32::MAX))),
        ("pages that nothing accounts for", populated(run(0, 1 << 31))),
        ("a page far out", sample(1 << 30, 0)),
        ("the last page", sample(u32::MAX, 0)),
        ("freed pages beyond ids", Event::Freed { run: run(u32::MAX, u32::MAX) }),
        ("moved to beyond ids", Event::Remapped { from: run(0, 600), to: PageId(u32::MAX - 3) }),
        ("a tier too many", sample(0, 2)),
        ("no region", Event::SplitDone { region: Region(u32::MAX), split: true }),
        ("a region far out", Event::CollapseDone { region: Region(1 << 20), tier: None }),
        ("samples", Event::SamplesLost { count: u64::MAX }),
        ("accesses", Event::Counters { fast: u64::MAX, slow: u64::MAX }),
        ("waits", Event::ReadLatency { tier: TierId(0), reads: 1, waited: Nanos(u64::MAX) }),
        ("capacity", Event::TierUsage { tier: TierId(0), capacity: PageCount::MAX }),
    ];
    for (what, event) in absurd {
        write(&folder.path().join("j"), &setup("memtis"), &[Entry::Events(Nanos(1), vec![event])]);
        assert_refused(&frostline(folder.path(), &["journal", "verify", "j"]), what);
        let args = ["trace", "import", "--format", "journal", "j", "out"];
        assert_refused(&frostline(folder.path(), &args), what);
        assert!(!folder.path().join("out").exists(), "{what}");
    }
    let late = [Entry::Timeout(Nanos(u64::MAX))];
    write(&folder.path().join("j"), &setup("memtis"), &late);
    assert_refused(
        &frostline(folder.path(), &["journal", "verify", "j"]),
        "a time that never comes",
    );
    let far = [Entry::Events(Nanos(1), vec![sample(3 << 20, 0)])];
    write(&folder.path().join("j"), &setup("first-touch"), &far);
    assert_refused(&frostline(folder.path(), &["journal", "verify", "j"]), "12 GiB");
    let allowed = frostline(folder.path(), &["--max-memory", "1GiB", "journal", "verify", "j"]);
    assert_good(&allowed, "12 GiB where 1 GiB of tables is allowed");
}
