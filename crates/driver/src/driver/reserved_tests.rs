//! Address space of which little is used, as a tree of made-up files tells of it: what has ids, and what the
//! engine knows, against a plain set of pages.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

const REGION: u64 = HUGE_PAGES as u64;
const GIB: u64 = 1 << 18;

/// Our own process with other memory: page numbers are real ones.
struct Program {
    folder: TempDir,
    pagemap: fs::File,
    spans: Vec<Span>,
    resident: BTreeSet<u64>,
    driver: Driver,
    now: Nanos,
}

fn file(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) {
    fs::write(folder.path().join(format!("proc/{}/{name}", std::process::id())), text).unwrap();
}

impl Program {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pid = std::process::id();
        fs::create_dir_all(folder.path().join(format!("proc/{pid}"))).unwrap();
        file(&folder, "stat", format!("{pid} (x) S 1 {}", "0 ".repeat(40)));
        file(&folder, "comm", "x\n");
        for name in ["pagemap", "maps", "statm", "status"] {
            file(&folder, name, "");
        }
        let path = folder.path().join(format!("proc/{pid}/pagemap"));
        let pagemap = fs::File::options().write(true).open(path).unwrap();
        let root = Root::at(folder.path());
        let driver = testing::driver(root, 1 << 10, Some(Bytes(1 << 30)), None, Choice::default());
        let now = Nanos::ZERO;
        Self { folder, pagemap, spans: Vec::new(), resident: BTreeSet::new(), driver, now }
    }

    fn map(&mut self, span: Span) {
        let new = frostline_core::span::difference(&[span], &self.spans);
        self.spans.extend(new);
        self.spans.sort_unstable();
        self.spans = frostline_core::span::joined(self.spans.drain(..));
    }

    fn unmap(&mut self, span: Span) {
        self.free(span);
        self.spans = frostline_core::span::difference(&self.spans, &[span]);
    }

    fn touch(&mut self, page: u64) {
        if self.spans.iter().any(|span| span.contains(Vpn(page))) && self.resident.insert(page) {
            self.pagemap.write_all_at(&(1_u64 << 63).to_ne_bytes(), page * 8).unwrap();
        }
    }

    fn free(&mut self, span: Span) {
        let gone: Vec<u64> = self.resident.range(span.start.0..span.end().0).copied().collect();
        for page in gone {
            self.pagemap.write_all_at(&[0; 8], page * 8).unwrap();
            self.resident.remove(&page);
        }
    }

    /// Lets the driver see it, in two rounds over all page tables at least.
    fn settle(&mut self) {
        let line = |span: &Span| {
            format!("{:x}-{:x} rw-p 00000000 00:00 0\n", span.start.0 << 12, span.end().0 << 12)
        };
        file(&self.folder, "maps", self.spans.iter().map(line).collect::<String>());
        let pages = self.resident.len();
        file(&self.folder, "statm", format!("0 {pages} 0 0 0 0 0\n"));
        file(&self.folder, "status", format!("VmRSS: {0} kB\nRssAnon: {0} kB\n", pages * 4));
        let end = self.spans.last().map_or(0, |span| span.end().0);
        let len = self.pagemap.metadata().unwrap().len();
        self.pagemap.set_len(len.max(end * 8)).unwrap();
        let rounds = self.driver.daemon.audits().rounds;
        for _ in 0..10_000 {
            self.now = self.now.saturating_add(Nanos(10_000_000_000));
            self.driver.step(self.now).unwrap();
            if self.driver.daemon.audits().rounds >= rounds + 3 {
                return;
            }
        }
        panic!("no end of rounds");
    }

    /// Pages of which the engine knows where they are.
    fn known(&self) -> BTreeSet<u64> {
        let view = self.driver.daemon.engine().view();
        let place = |page: u32| Some(self.driver.daemon.map().place(PageId(page))?.1.0);
        let resident = (0..view.pages()).filter(|page| view.state(PageId(*page)).is_resident());
        resident.map(|page| place(page).expect("what is resident has a place")).collect()
    }

    /// Blocks in which something is.
    fn blocks(&self) -> u64 {
        let blocks: BTreeSet<u64> = self.resident.iter().map(|page| page / REGION).collect();
        blocks.len() as u64
    }
}

#[test]
fn ids_are_given_to_what_is_there_and_not_to_what_is_reserved() {
    let mut program = Program::start();
    program.map(Span::new(Vpn(0x10_000), 64 * GIB));
    for block in 0..100 {
        program.touch(0x10_000 + block * REGION * 300 + block);
    }
    program.settle();
    assert_eq!(program.known(), program.resident);
    assert_eq!(
        (program.driver.daemon.map().blocks(), program.driver.daemon.map().pages()),
        (100, 100 * HUGE_PAGES)
    );
}

#[test]
fn scattered_pages_have_ids_as_far_as_their_share_goes_and_the_rest_is_told() {
    let mut program = Program::start();
    program.map(Span::new(Vpn(0x10_000), 16 * GIB));
    let page = |block: u64, number: u64| 0x10_000 + block * REGION + number;
    (0..3000).for_each(|block| program.touch(page(block, 7)));
    program.settle();
    let most = 3000 / 64 + 1024;
    assert_eq!(program.driver.daemon.map().blocks(), most);
    let scattered = program.driver.status("x").scattered_bytes;
    assert_eq!(scattered, PageCount(3000 - most).bytes().0);
    for (block, number) in (2000..2100).flat_map(|block| (0..64).map(move |n| (block, n))) {
        program.touch(page(block, number));
    }
    program.settle();
    let known = program.known();
    let dense = program.resident.range(page(2000, 0)..page(2100, 0));
    assert!(dense.clone().count() == 6400 && dense.clone().all(|page| known.contains(page)));
    program.free(Span::new(Vpn(page(0, 0)), 2990 * REGION));
    program.settle();
    assert_eq!(program.known(), program.resident);
    assert_eq!(program.driver.status("x").scattered_bytes, 0);
}

#[test]
fn who_walks_through_a_reservation_stays_within_the_same_ids() {
    let mut program = Program::start();
    program.map(Span::new(Vpn(0x10_000), 64 * GIB));
    let mut most = 0;
    for round in 0..40 {
        let at = 0x10_000 + round * GIB;
        (0..700).for_each(|block| program.touch(at + block % 512 * REGION + block));
        program.settle();
        assert_eq!(program.known(), program.resident);
        most = most.max(program.driver.daemon.map().pages());
        program.free(Span::new(Vpn(at), GIB));
    }
    // Those of the GiB before, of this one, and some more for numbers in a row.
    assert!(most <= 1100 * HUGE_PAGES, "{most}");
}

#[test]
fn what_is_mapped_and_unmapped_all_the_time_costs_no_more_than_at_once() {
    let mut program = Program::start();
    let mut most = 0;
    for round in 0..30 {
        let span = Span::new(Vpn(0x10_000 + round * 5 * GIB), 4 * GIB);
        program.map(span);
        (0..200).for_each(|block| program.touch(span.start.0 + block * REGION * 9));
        program.settle();
        assert_eq!(program.known(), program.resident);
        program.unmap(span);
        most = most.max(program.driver.daemon.map().pages());
    }
    assert_eq!(most, 200 * HUGE_PAGES);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Map(Span),
    Unmap(Span),
    Free(Span),
    /// From a page on, so many, so far apart.
    Touch(u64, u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let span = || {
        (16u64..40_000, prop_oneof![3 => 1u64..2000, 1 => GIB / 2..3 * GIB])
            .prop_map(|(start, pages)| Span::new(Vpn(start * 97), pages))
    };
    let touch = (0u64..8 * GIB, 1u64..300, prop_oneof![Just(1u64), Just(7), Just(5000)]);
    prop_oneof![
        4 => span().prop_map(Step::Map),
        1 => span().prop_map(Step::Unmap),
        1 => span().prop_map(Step::Free),
        4 => touch.prop_map(|(at, pages, apart)| Step::Touch(at, pages, apart)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn the_engine_knows_what_is_there_whatever_is_mapped_freed_and_unmapped(
        steps in proptest::collection::vec(proptest::collection::vec(step(), 1..6), 1..6),
    ) {
        let mut program = Program::start();
        for steps in steps {
            for step in steps {
                match step {
                    Step::Map(span) => program.map(span),
                    Step::Unmap(span) => program.unmap(span),
                    Step::Free(span) => program.free(span),
                    Step::Touch(at, pages, apart) => {
                        // Where something is mapped, mostly.
                        let base = program.spans.first().map_or(0, |span| span.start.0);
                        (0..pages).for_each(|n| program.touch(base + at % (4 * GIB) + n * apart));
                    }
                }
            }
            program.settle();
            prop_assert_eq!(program.known(), program.resident.clone());
            let ahead = program.resident.len() as u64 / REGION + 512;
            let blocks = program.driver.daemon.map().blocks();
            prop_assert!(blocks <= ahead.max(program.blocks()), "{} {}", blocks, program.blocks());
            prop_assert_eq!(program.driver.daemon.engine().stats().anomalies, 0);
        }
    }
}
