//! Access bits on demand, of our own memory, by a source that is made up.

use super::*;
use crate::journal::Entry;
use crate::source::{Assignment, Source, SourceStats, Touch, TouchKind};
use frostline_core::action::{Action, Lane, Scan};
use frostline_core::event::{AccessBits, Event, Level, SampleKind};
use frostline_daemon::STEP;
use frostline_linux::LinuxError;
use std::cell::RefCell;
use std::rc::Rc;

/// Looks at 100 pages at a time, and finds every one with an even number used. Says so when it is
/// given others to look at.
#[derive(Default)]
struct Even {
    turns: Rc<RefCell<Vec<usize>>>,
    watched: Vec<(u32, Vpn)>,
    found: Vec<Touch>,
}

impl Source for Even {
    fn name(&self) -> &'static str {
        "even"
    }

    fn attach(&mut self, _: &Root, _: u32, _: bool) -> Result<(), LinuxError> {
        Ok(())
    }

    fn wants_pages(&self, _: Nanos) -> usize {
        100
    }

    fn watch(&mut self, _: Nanos, assigned: Assignment<'_>) -> Result<(), LinuxError> {
        self.turns.borrow_mut().push(assigned.pages.len());
        let used = self.watched.iter().filter(|(_, page)| page.0.is_multiple_of(2));
        let kind = TouchKind::Sample(SampleKind::LoadMiss.into());
        self.found.extend(used.map(|(pid, page)| Touch { pid: *pid, page: *page, kind }));
        self.watched = assigned.pages.to_vec();
        Ok(())
    }

    fn poll(&mut self, _: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        self.found.drain(..).for_each(sink);
        Ok(())
    }

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
}

#[test]
fn access_bits_are_read_when_they_are_asked_for() {
    const PAGES: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    // Large enough that it is a mapping of its own, and all of it in memory.
    let memory = std::hint::black_box(vec![1_u8; PAGES * PAGE_BYTES as usize]);
    let even = Even::default();
    let turns = Rc::clone(&even.turns);
    let choice = Choice { sources: vec![Box::new(even)], ..Choice::default() };
    let mut driver = testing::driver(Root::system(), 1 << 20, None, Some(journal.clone()), choice);
    driver.step(Nanos(0)).unwrap();
    assert_eq!(turns.borrow().len(), 0, "nobody has asked for anything");
    let process = ProcessId(std::process::id());
    let first = Vpn((memory.as_ptr() as u64).div_ceil(PAGE_BYTES));
    let page = driver.daemon.map().page(process, first).expect("it is mapped");
    let run = PageRun { start: page, pages: HUGE_PAGES - page.offset() };
    assert!(run.iter().all(|page| driver.daemon.engine().view().state(page).is_resident()));
    let scan = Scan { run, clear: true, level: Level::Base, skip_untouched: false };
    driver.daemon.want(Action::Scan { scan, lane: Lane::SCAN });
    for step in 1..20 {
        driver.step(Nanos(step * STEP.0)).unwrap();
    }
    drop(driver);
    assert!(turns.borrow().iter().all(|pages| *pages <= 100));
    let mut told: Vec<AccessBits> = Vec::new();
    let mut entries = crate::journal::Entries::open(&journal).unwrap();
    while let Some(entry) = entries.next_entry().unwrap() {
        let Entry::Events(_, events) = entry else { continue };
        told.extend(events.into_iter().filter_map(|event| match event {
            Event::AccessBits(bits) => Some(bits),
            _ => None,
        }));
    }
    assert_eq!(told.iter().map(|bits| bits.run.pages).sum::<u32>(), run.pages);
    let huge = told.iter().all(|bits| bits.accessed == 0 || bits.accessed.count_ones() > 32);
    for bits in told.iter().filter(|_| !huge) {
        for (i, page) in bits.run.iter().enumerate() {
            let even = (first.0 + u64::from(page.0 - run.start.0)).is_multiple_of(2);
            assert_eq!(bits.accessed >> i & 1 == 1, even, "{bits:?}");
        }
    }
    drop(memory);
}
