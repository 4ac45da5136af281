//! Memory of the own process that may be moved about.

use frostline_core::span::{Span, difference};
use frostline_core::types::Vpn;
use frostline_linux::process::maps::{Kind, Mapping};

/// Stacks are taken to be no larger than this.
const STACK_PAGES: u64 = 2048;
/// What cannot be accessed and is smaller guards a stack, in pages.
const GUARD_PAGES: u64 = 256;

/// What the C library keeps for a thread, at the upper end of its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadBlock {
    /// Its page.
    pub page: Vpn,
    /// Of the first thread, whose stack is elsewhere.
    pub first: bool,
}

/// Parts of mappings, ascending, each of one mapping: private memory that may be read and written,
/// but for
///
/// * stacks, and what the C library keeps for threads: the kernel writes there when a thread ends,
///   and does not wait for a page that is away;
/// * memory of libraries, which code on our own thread may need;
/// * `own`, ascending and apart.
pub fn movable(mappings: &[Mapping], own: &[Span], threads: &[ThreadBlock]) -> Vec<Span> {
    let mut left_out: Vec<Span> = own.to_vec();
    for thread in threads {
        let below = if thread.first { 1 } else { STACK_PAGES };
        let start = Vpn(thread.page.0.saturating_sub(below));
        let stack = Span::between(start, Vpn(thread.page.0 + 2));
        let mapped = mappings.iter().find(|mapping| mapping.span.contains(thread.page));
        left_out.extend(mapped.map(|mapping| mapping.span.intersect(stack)));
    }
    let mut before: Option<&Mapping> = None;
    let mut spans = Vec::new();
    for mapping in mappings {
        let adjoins = before.filter(|before| before.span.end() == mapping.span.start);
        before = Some(mapping);
        let perms = mapping.perms;
        if !mapping.is_tierable() || !perms.read || perms.execute || mapping.kind == Kind::Stack {
            continue;
        }
        let of_library = |before: &Mapping| matches!(before.kind, Kind::File(_));
        if mapping.kind == Kind::Anonymous && adjoins.is_some_and(of_library) {
            continue;
        }
        let guard = |before: &Mapping| {
            let perms = before.perms;
            !perms.read && !perms.write && !perms.execute && before.span.pages <= GUARD_PAGES
        };
        if adjoins.is_some_and(guard) {
            left_out.push(mapping.span.intersect(Span::new(mapping.span.start, STACK_PAGES)));
        }
        spans.push(mapping.span);
    }
    left_out.sort_unstable();
    let mut apart: Vec<Span> = Vec::new();
    for span in left_out {
        match apart.last_mut() {
            Some(last) if last.end() >= span.start => {
                *last = Span::between(last.start, last.end().max(span.end()));
            }
            _ => apart.push(span),
        }
    }
    difference(&spans, &apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_linux::process::maps::parse;

    const MAPS: &str = "\
560000000000-560000001000 r-xp 00000000 08:01 7 /bin/program
560000001000-560000002000 rw-p 00001000 08:01 7 /bin/program
560000002000-560000004000 rw-p 00000000 00:00 0
560000100000-560000200000 rw-p 00000000 00:00 0 [heap]
700000000000-700010000000 rw-p 00000000 00:00 0
710000000000-710000001000 ---p 00000000 00:00 0
710000001000-710002001000 rw-p 00000000 00:00 0
710002001000-710002002000 ---p 00000000 00:00 0
710002002000-710002003000 rw-p 00000000 00:00 0
710002003000-710002103000 rw-p 00000000 00:00 0 [anon:x]
720000000000-720000100000 rwxp 00000000 00:00 0
720000100000-720000200000 rw-s 00000000 00:01 9 /dev/zero (deleted)
720000200000-720000300000 r--p 00000000 00:00 0
7ffffff00000-7ffffff21000 rw-p 00000000 00:00 0 [stack]
";

    #[test]
    fn stacks_libraries_and_what_is_ours_stay() {
        let mut mappings = Vec::new();
        parse(MAPS.as_bytes(), &mut mappings);
        let span = |start: u64, end: u64| Span::of_addresses(start, end);
        assert_eq!(
            movable(&mappings, &[], &[]),
            [
                span(0x5600_0010_0000, 0x5600_0020_0000),
                span(0x7000_0000_0000, 0x7000_1000_0000),
                span(0x7100_0080_1000, 0x7100_0200_1000),
                span(0x7100_0200_3000, 0x7100_0210_3000),
            ]
        );
        let own = [span(0x5600_0010_0000, 0x5600_0020_0000)];
        let blocks = [
            ThreadBlock { page: Vpn(0x7_0000_0800), first: false },
            ThreadBlock { page: Vpn(0x7_0000_9000), first: true },
        ];
        assert_eq!(
            movable(&mappings, &own, &blocks),
            [
                span(0x7000_0080_2000, 0x7000_08ff_f000),
                span(0x7000_0900_2000, 0x7000_1000_0000),
                span(0x7100_0080_1000, 0x7100_0200_1000),
                span(0x7100_0200_3000, 0x7100_0210_3000),
            ]
        );
    }
}
