//! Journals of live runs: read, replayed, and imported as traces. Checksums are also made right.

use crate::content::check_import;
use crate::target::Target;
use frostline_cli::readers;
use frostline_core::Action;
use frostline_core::engine::EngineConfig;
use frostline_core::event::{Backing, Event, Fault, MoveCause, Sample, SampleKind};
use frostline_core::policy::Offer;
use frostline_core::types::*;
use frostline_driver::journal::{Entries, Entry, MAGIC, Setup, replay};
use frostline_sim::Machine;
use std::path::Path;

pub const TARGET: Target = Target {
    name: "journal",
    check,
    seeds,
    words: &["frost", "memtis", "hybridtier", "pet", "hemem"],
};

const MOST: usize = 1 << 17;

fn check(bytes: &[u8]) {
    check_as_is(bytes);
    check_as_is(&repaired(bytes));
}

fn open(bytes: &[u8]) -> Result<Entries<&[u8]>, frostline_driver::DriverError> {
    Entries::new(Path::new("input"), bytes)
}

fn check_as_is(bytes: &[u8]) {
    let Ok(mut entries) = open(bytes) else { return };
    while let Ok(Some(entry)) = entries.next_entry() {
        let encoded = postcard::to_stdvec(&entry).expect("it was encoded before");
        let again: Entry = postcard::from_bytes(&encoded).expect("we wrote it");
        // Not compared as such: not every number equals itself.
        assert_eq!(postcard::to_stdvec(&again).expect("it was encoded before"), encoded);
    }
    let mut replays = [open(bytes), open(bytes)].map(|entries| replay(&mut entries?));
    if let [Ok(first), Ok(second)] = &mut replays {
        assert_eq!(first, second, "a replay is always the same");
    }
    check_import(|| readers::journal(Path::new("input"), open(bytes)?), MOST);
}

fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut repaired = bytes.to_vec();
    let mut at = MAGIC.len();
    while let Some(head) = repaired.get(at..at + 8) {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(body) = repaired.get(at + 8..(at + 8).saturating_add(length)) else { break };
        let check = crc32fast::hash(body).to_le_bytes();
        repaired[at + 4..at + 8].copy_from_slice(&check);
        at += 8 + length;
    }
    repaired
}

fn journal(policy: &str, entries: &[Entry]) -> Vec<u8> {
    let (fast_pages, slow_pages) = (PageCount(64), PageCount(1024));
    // All is known there that an offer can tell.
    let machine = Machine::parse("dram-nvm").expect("it is built in");
    let setup = Setup {
        policy: policy.into(),
        offer: Offer { fast_pages, total_pages_hint: slow_pages, ..machine.offer(true) },
        config: EngineConfig::two_tiers(fast_pages, slow_pages),
    };
    let setup = Entry::Setup(Box::new(setup));
    let mut bytes = MAGIC.to_vec();
    for entry in std::iter::once(&setup).chain(entries) {
        let body = postcard::to_stdvec(entry).expect("memory is there");
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(crc32fast::hash(&body).to_le_bytes());
        bytes.extend(body);
    }
    bytes
}

fn seeds() -> Vec<Vec<u8>> {
    let process = ProcessId(7);
    let run = |start, pages| PageRun { start: PageId(start), pages };
    let sample = |page, kind| Event::Sample(Sample::new(PageId(page), kind, TierId::FAST, process));
    let fault = Fault { page: PageId(7), tier: TierId(1), write: false, process, thread: 0 };
    let entries = [
        Entry::Events(
            Nanos(10),
            vec![
                Event::Mapped { run: run(0, 512), backing: Backing::Anonymous, process },
                Event::Populated { run: run(0, 64), tier: TierId::FAST, huge: false },
                Event::Populated { run: run(64, 100), tier: TierId(1), huge: false },
                sample(3, SampleKind::LoadMiss),
            ],
        ),
        Entry::Timeout(Nanos(1_000_000_000)),
        Entry::Actions(Vec::<Action>::new()),
        Entry::Fault(Nanos(1_500_000_000), fault),
        Entry::Events(
            Nanos(5_000_000_000),
            vec![
                Event::Fault(fault),
                Event::Moved { run: run(7, 1), to: TierId::FAST, cause: MoveCause::Refault },
                sample(3, SampleKind::Store),
                Event::SamplesLost { count: 2 },
                Event::Freed { run: run(3, 1) },
                Event::Remapped { from: run(8, 4), to: PageId(200) },
                Event::Forked { parent: process, child: ProcessId(13) },
                Event::Unmapped { run: run(0, 512) },
                Event::Exited { process },
            ],
        ),
        Entry::Timeout(Nanos(6_000_000_000)),
    ];
    ["frost", "memtis", "hybridtier", "hemem", "pet"].map(|policy| journal(policy, &entries)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read_whole_and_damaged_ones_repaired() {
        for mut seed in seeds() {
            let count = |bytes: &[u8]| {
                let mut entries = open(bytes).expect("it begins as a journal does");
                let mut read = || entries.next_entry();
                std::iter::from_fn(|| read().ok().flatten()).count()
            };
            assert_eq!(count(&seed), 7);
            let at = MAGIC.len() + 4;
            seed[at] ^= 1;
            assert_eq!(count(&seed), 0);
            assert_eq!(count(&repaired(&seed)), 7);
        }
    }
}
