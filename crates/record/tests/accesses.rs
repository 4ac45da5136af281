//! Programs with a known access pattern: the trace must hold exactly that.

mod common;

use common::{Program, Recorded, each, index_in, run};
use frostline_core::types::AccessKind;
use frostline_record::{Options, Stop};
use frostline_trace::{Ending, TraceEvent};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: u64 = 4096;

fn finished(recorded: &Recorded) {
    assert!(matches!(recorded.outcome.stop, Stop::Ended), "{:?}", recorded.outcome.stop);
    assert_eq!(recorded.ending, Ending::Finished);
    assert_eq!(recorded.outcome.log, "");
}

#[test]
fn exactly_the_touched_pages_are_in_the_trace() {
    each(|recorder| {
        let source = r#"
        #include <sys/mman.h>
        int main(void) {
            char* p = mmap(0, 777 * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (int i = 0; i < 777; i += 7) *(volatile char*)(p + i * 4096 + (i % 64) * 64) = 1;
            for (int i = 3; i < 777; i += 7) (void)*(volatile char*)(p + i * 4096);
            return 0;
        }"#;
        let Some(program) = Program::compile(source, &[]) else { return };
        let Some(recorded) = run(recorder, &[program.path()], &Options::default()) else { return };
        finished(&recorded);
        let runs = recorded.mapping(777 * PAGE);
        let mut seen = BTreeMap::new();
        for (page, access) in recorded.accesses_to(&runs) {
            assert!(seen.insert(page, (access.kind, access.line)).is_none(), "page {page} twice");
        }
        let stores = (0..777).step_by(7).map(|i| (i, (AccessKind::Store, i % 64)));
        let loads = (3..777).step_by(7).map(|i| (i, (AccessKind::Load, 0)));
        assert_eq!(seen, stores.chain(loads).collect());
        // The touched-page sets say the same.
        let mut touched = BTreeSet::new();
        for event in &recorded.events {
            let TraceEvent::Touched { regions, .. } = event else { continue };
            for (region, bits) in regions {
                for i in (0..512).filter(|i| bits[i / 64] >> (i % 64) & 1 != 0) {
                    let page = frostline_core::types::PageId(region.first().0 + i as u32);
                    touched.extend(index_in(&runs, page));
                }
            }
        }
        assert_eq!(touched, seen.keys().copied().collect());
    });
}

#[test]
fn a_buffer_beyond_the_cache_is_written_back() {
    each(|recorder| {
        // 4 MiB, written twice, through a 1 MiB cache: every line misses twice, and all lines but
        // those of the last mebibyte are written back.
        let source = r#"
        #include <sys/mman.h>
        int main(void) {
            volatile long* p = mmap(0, 4 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (int round = 0; round < 2; round++)
                for (int i = 0; i < (4 << 20) / 8; i++) p[i] = i;
            return 0;
        }"#;
        let Some(program) = Program::compile(source, &[]) else { return };
        let options = Options { llc_bytes: 1 << 20, ..Options::default() };
        let Some(recorded) = run(recorder, &[program.path()], &options) else { return };
        finished(&recorded);
        let runs = recorded.mapping(4 << 20);
        let mut by_kind = [0_u64; 4];
        for (_, access) in recorded.accesses_to(&runs) {
            by_kind[access.kind as usize] += 1;
        }
        let lines = (4 << 20) / 64;
        assert_eq!(by_kind[AccessKind::Load as usize], 0);
        assert_eq!(by_kind[AccessKind::Store as usize], 2 * lines);
        let kept = 2 * lines - by_kind[AccessKind::WriteBack as usize];
        let cache = (1 << 20) / 64;
        assert!((cache - 640..=cache).contains(&kept), "{kept} of {cache} lines stayed dirty");
        // 2^20 stores, one in 997 of them sampled; what happens around them changes the phase.
        let mut samples = 0;
        for event in &recorded.events {
            if let TraceEvent::StoreSamples { samples: pages } = event {
                samples +=
                    pages.iter().filter(|(_, page)| index_in(&runs, *page).is_some()).count();
            }
        }
        assert!(samples.abs_diff((1 << 20) / 997) <= 1, "{samples} samples");
    });
}

#[test]
fn lines_a_power_of_two_apart_stay_in_the_cache() {
    each(|recorder| {
        // By virtual addresses, all 63 lines would be in one set of 16.
        let source = r#"
        #include <sys/mman.h>
        int main(void) {
            char* p = mmap(0, 63 << 17, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (int round = 0; round < 8; round++)
                for (int i = 0; i < 63; i++) (void)*(volatile char*)(p + (i << 17));
            return 0;
        }"#;
        let Some(program) = Program::compile(source, &[]) else { return };
        let Some(recorded) = run(recorder, &[program.path()], &Options::default()) else { return };
        finished(&recorded);
        let runs = recorded.mapping(63 << 17);
        assert_eq!(recorded.accesses_to(&runs).count(), 63, "each line misses once");
    });
}

#[test]
fn accesses_across_lines_count_for_both() {
    each(|recorder| {
        let source = r#"
        #include <sys/mman.h>
        #include <string.h>
        int main(void) {
            char* p = mmap(0, 555 * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (int i = 0; i + 1 < 555; i += 2) *(volatile long*)(p + (i + 1) * 4096 - 4) = 1;
            return 0;
        }"#;
        let Some(program) = Program::compile(source, &[]) else { return };
        let Some(recorded) = run(recorder, &[program.path()], &Options::default()) else { return };
        let runs = recorded.mapping(555 * PAGE);
        let seen: Vec<(u32, u32)> = recorded
            .accesses_to(&runs)
            .filter(|(_, access)| access.kind.is_demand())
            .map(|(page, access)| (page, access.line))
            .collect();
        let expected: Vec<(u32, u32)> =
            (0..554).step_by(2).flat_map(|i| [(i, 63), (i + 1, 0)]).collect();
        assert_eq!(seen, expected);
    });
}

#[test]
fn the_clock_counts_instructions() {
    each(|recorder| {
        // Two touches with a loop of two instructions a round between them.
        let source = r#"
        #include <sys/mman.h>
        int main(void) {
            volatile char* p = mmap(0, 333 * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            p[0] = 1;
            __asm__ volatile("mov $10000000, %%rcx\n1: dec %%rcx\njnz 1b" ::: "rcx", "cc");
            p[4096] = 1;
            return 0;
        }"#;
        let Some(program) = Program::compile(source, &[]) else { return };
        let Some(recorded) = run(recorder, &[program.path()], &Options::default()) else { return };
        let runs = recorded.mapping(333 * PAGE);
        let clocks: Vec<u64> =
            recorded.accesses_to(&runs).map(|(_, access)| access.clock).collect();
        let [first, second] = clocks[..] else { panic!("{clocks:?}") };
        let elapsed = second - first;
        assert!((20_000_000..20_000_010).contains(&elapsed), "{elapsed}");
    });
}

#[test]
fn pages_that_stay_in_the_first_level_are_touched_in_every_epoch() {
    each(|recorder| {
        let source = r#"
        #include <sys/mman.h>
        int main(void) {
            volatile long* p = mmap(0, 444 * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (int i = 0; i < 1000000; i++) p[i % 8]++;
            return 0;
        }"#;
        let Some(program) = Program::compile(source, &[]) else { return };
        let options = Options { epoch: 100_000, ..Options::default() };
        let Some(recorded) = run(recorder, &[program.path()], &options) else { return };
        finished(&recorded);
        let runs = recorded.mapping(444 * PAGE);
        assert_eq!(recorded.accesses_to(&runs).count(), 1, "one miss");
        let page = runs[0].start;
        let mut numbers = Vec::new();
        let mut touching = 0;
        for event in &recorded.events {
            let TraceEvent::Touched { epoch, regions } = event else { continue };
            numbers.push(*epoch);
            let bit =
                |bits: &[u64; 8]| bits[(page.0 % 512 / 64) as usize] >> (page.0 % 64) & 1 != 0;
            let touched =
                regions.iter().any(|(region, bits)| region.first().0 == page.0 & !511 && bit(bits));
            touching += usize::from(touched);
        }
        assert!(numbers.is_sorted());
        // At least 3 instructions a round.
        assert!(touching >= 30, "{touching} of {} epochs", numbers.len());
        assert!(numbers.len() <= touching + 10, "{touching} of {} epochs", numbers.len());
    });
}

#[test]
fn what_the_kernel_copies_is_accessed() {
    each(|recorder| {
        let source = r#"
        #include <fcntl.h>
        #include <sys/mman.h>
        #include <unistd.h>
        int main(void) {
            char* p = mmap(0, 222 * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            int zero = open("/dev/zero", O_RDONLY);
            return read(zero, p + 4096, 100 * 4096) == 100 * 4096 ? 0 : 1;
        }"#;
        let Some(program) = Program::compile(source, &[]) else { return };
        let Some(recorded) = run(recorder, &[program.path()], &Options::default()) else { return };
        assert_eq!(recorded.outcome.code, 0);
        let runs = recorded.mapping(222 * PAGE);
        let stores: Vec<u32> = recorded
            .accesses_to(&runs)
            .inspect(|(_, access)| assert_eq!(access.kind, AccessKind::Store))
            .map(|(page, _)| page)
            .collect();
        let expected: Vec<u32> = (1..=100).flat_map(|page| [page; 64]).collect();
        assert_eq!(stores, expected);
    });
}

#[test]
fn fetches_can_be_left_out() {
    each(|recorder| {
        let fetches = |recorded: &Recorded| {
            recorded.accesses.iter().filter(|access| access.kind == AccessKind::Fetch).count()
        };
        let Some(with) = run(recorder, &["true"], &Options::default()) else { return };
        assert!(fetches(&with) > 100);
        let Some(without) =
            run(recorder, &["true"], &Options { fetch: false, ..Options::default() })
        else {
            return;
        };
        assert_eq!(fetches(&without), 0);
    });
}
