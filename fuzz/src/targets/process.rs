//! Files of the kernel about a process: `maps`, `stat` and `children`.

use super::tree::{Tree, joined, parts};
use crate::target::Target;
use frostline_core::types::PAGE_BYTES;
use frostline_linux::pages::extents::Extents;
use frostline_linux::perf::tracepoints::Change;
use frostline_linux::process::maps::{self, Kind, Mapping};
use frostline_linux::process::{children, descendants, stat};

/// Behind the part that is `maps`.
const PLACES: [&str; 3] = ["/proc/1/stat", "/proc/2/stat", "/proc/1/task/1/children"];

pub const TARGET: Target = Target {
    name: "process",
    check,
    seeds: || {
        let maps = "\
55d0c0de0000-55d0c0df0000 r-xp 00001000 fe:00 1234                       /usr/bin/a b\n\
55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]\n\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0 \n\
7f0000200000-7f0000400000 rw-p 00000000 00:00 0                          [anon:jemalloc]\n\
7f0000400000-7f0000500000 rw-s 00000000 00:01 77                         /dev/zero (deleted)\n\
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]\n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
        let stat = "1 (a (b) c) S 2 1 1 0 -1 4194560 1000 2000 3 4 50 60 7 8 20 0 9 0 12345 1000 200 \
                    18446744073709551615 1 2 3 4 5 6 7 8 9 0 0 0 17 0 0 0 0 0 0 10 11 12 13 14 15 16 0\n";
        let other = "2 (x) R 1 1 1 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n";
        vec![joined(&[maps, stat, other, "2 3 4\n"])]
    },
    words: &[
        "%%\n",
        "rw-p ",
        " 00:00 0 ",
        "[heap]\n",
        "[stack]\n",
        "[anon:",
        "(deleted)",
        "ffffffffffffffff",
        "-",
        " (",
        ") S ",
    ],
};

fn check(bytes: &[u8]) {
    check_maps(parts(bytes).next().unwrap_or_default());
    let at = parts(bytes).next().unwrap_or_default().len() + 3;
    let tree = Tree::new(bytes.get(at..).unwrap_or_default(), &PLACES);
    let root = &tree.root();
    if let Ok(stat) = stat(root, 1) {
        assert!(stat.user_ticks <= stat.cpu_ticks);
    }
    for found in [children(root, 1), descendants(root, &[1], |_| true)].into_iter().flatten() {
        assert!(found.is_sorted_by(|a, b| a < b), "{found:?}");
    }
}

fn check_maps(text: &[u8]) {
    let mut mappings = Vec::new();
    maps::parse(text, &mut mappings);
    let mut end = 0;
    for mapping in &mappings {
        assert!(!mapping.span.is_empty());
        assert!(mapping.span.start.0 >= end, "{mappings:?}");
        end = mapping.span.end().0;
    }
    let printed: String = mappings.iter().map(print).collect();
    let mut again = Vec::new();
    maps::parse(printed.as_bytes(), &mut again);
    assert_eq!(again, mappings, "{printed}");

    let mut extents = Extents::default();
    extents.compare(&mappings, 1, |_| {});
    let tierable: u64 = mappings.iter().filter(|m| m.is_tierable()).map(|m| m.span.pages).sum();
    assert_eq!(extents.spans().iter().map(|span| span.pages).sum::<u64>(), tierable);
    for (time, mapping) in (2..).zip(&mappings) {
        let (address, len_bytes) = (mapping.span.address(), mapping.span.bytes().0);
        extents.apply(Change::Unmap { address, len_bytes }, time, |_| {});
    }
    assert_eq!(extents.iter().count(), 0, "nothing is left");
}

/// As the kernel prints it.
fn print(mapping: &Mapping) -> String {
    let flag = |is: bool, letter: char| if is { letter } else { '-' };
    let perms = mapping.perms;
    let shared = if perms.shared { 's' } else { 'p' };
    let name = match &mapping.kind {
        Kind::Anonymous => "",
        Kind::Heap => "[heap]",
        Kind::Stack => "[stack]",
        Kind::File(name) | Kind::Special(name) => name,
    };
    format!(
        "{:x}-{:x} {}{}{}{shared} {:08x} {:02x}:{:02x} {} {name}\n",
        mapping.span.start.0 * PAGE_BYTES,
        mapping.span.end().0 * PAGE_BYTES,
        flag(perms.read, 'r'),
        flag(perms.write, 'w'),
        flag(perms.execute, 'x'),
        mapping.offset,
        mapping.dev.0,
        mapping.dev.1,
        mapping.inode,
    )
}
