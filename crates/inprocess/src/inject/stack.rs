//! Stack of a thread: room on it, and what on it must be finished first.

use super::frame::{CODE_SEGMENT, SEGMENTS_OFFSET};
use super::memory::Memory;
use crate::sys::ptrace::Registers;
use frostline_core::types::PAGE_BYTES;
use frostline_linux::process::maps::{Kind, Mapping};

/// Loading a library takes some 20 KiB, and as much for what our own begins with.
pub const ROOM_BYTES: u64 = 256 << 10;
/// Below the first thread's stack, which grows, the kernel leaves that much to other memory.
const GAP_BYTES: u64 = 1 << 20;
/// Deeper stacks are not looked through.
const MOST_BYTES: u64 = 8 << 20;
/// `mov $SYS_rt_sigreturn, %rax` and `syscall`, and the shorter way to say it. Debuggers know where
/// signal handlers return to by this, so it stays.
pub const SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
const SHORT_SIGRETURN: [u8; 7] = [0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// What is in use of a stack: the addresses `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    from: u64,
    to: u64,
}

fn end(mapping: &Mapping) -> u64 {
    mapping.span.end().0 * PAGE_BYTES
}

/// The mapping in which an address lies.
pub fn mapping_of(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let at = mappings.partition_point(|mapping| end(mapping) <= address);
    mappings.get(at).filter(|mapping| mapping.span.address() <= address)
}

/// The stack that a stopped thread uses; `None` where that is not one that it got from the C library, or
/// has no room. `limit` is how large the first thread's may grow, in bytes.
pub fn used(mappings: &[Mapping], registers: &Registers, limit: u64) -> Option<Used> {
    let from = registers.rsp;
    let stack = mapping_of(mappings, from).filter(|mapping| mapping.perms.write)?;
    let (to, room) = if stack.kind == Kind::Stack {
        let to = end(stack);
        let below = mappings[..mappings.partition_point(|other| other.span < stack.span)].last();
        let free = from - below.map_or(0, end);
        (to, free.saturating_sub(GAP_BYTES).min(limit.saturating_sub(to - from)))
    } else {
        // What the C library knows of a thread lies at the upper end of its stack.
        let to = registers.fs_base;
        let own = from < to && to < end(stack) && stack.kind == Kind::Anonymous;
        (own.then_some(to)?, from - stack.span.address())
    };
    (room >= ROOM_BYTES).then_some(Used { from, to })
}

/// Whether a signal handler runs on this stack: it may have come in the middle of anything.
pub fn holds_signal_frame(memory: &Memory, mappings: &[Mapping], used: Used) -> bool {
    let Used { from, to } = used;
    if to - from > MOST_BYTES {
        return true;
    }
    let mut bytes = vec![0; (to - from) as usize];
    if memory.read(from, &mut bytes).is_err() {
        return true;
    }
    let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8")));
    let returns = words.enumerate().filter(|(_, word)| {
        mapping_of(mappings, *word).is_some_and(|mapping| mapping.perms.execute)
    });
    returns.into_iter().any(|(at, word)| {
        let mut code = [0; SIGRETURN.len()];
        let known = memory.read(word, &mut code).is_ok()
            && (code == SIGRETURN || code.starts_with(&SHORT_SIGRETURN));
        let segments = from + 8 * at as u64 + SEGMENTS_OFFSET;
        known && memory.word(segments).is_some_and(|word| word & 0xffff == CODE_SEGMENT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::ptrace::no_registers;
    use frostline_core::span::Span;
    use frostline_linux::process::maps::Permissions;

    fn mapping(from: u64, to: u64, kind: Kind) -> Mapping {
        let perms = Permissions { read: true, write: true, ..Permissions::default() };
        let span = Span::of_addresses(from, to);
        Mapping { span, perms, offset: 0, dev: (0, 0), inode: 0, kind }
    }

    #[test]
    fn only_stacks_of_the_c_library_with_room_are_used() {
        const MIB: u64 = 1 << 20;
        let mappings = [
            mapping(MIB, 9 * MIB, Kind::Anonymous),
            mapping(20 * MIB, 21 * MIB, Kind::Heap),
            mapping(90 * MIB, 91 * MIB, Kind::Stack),
        ];
        let at = |rsp, fs_base, limit| {
            used(&mappings, &Registers { rsp, fs_base, ..no_registers() }, limit)
        };
        let thread = 9 * MIB - 4096;
        assert_eq!(at(8 * MIB, thread, 0), Some(Used { from: 8 * MIB, to: thread }));
        assert_eq!(at(MIB + 4096, thread, 0), None, "no room");
        assert_eq!(at(8 * MIB, 7 * MIB, 0), None, "of another kind");
        assert_eq!(at(20 * MIB + 4096, thread, 0), None, "in the heap");
        assert_eq!(at(30 * MIB, thread, 0), None, "nowhere");
        let first = 91 * MIB - 8192;
        assert_eq!(at(first, thread, 8 * MIB), Some(Used { from: first, to: 91 * MIB }));
        assert_eq!(at(first, thread, 256 << 10), None, "may not grow");
        assert_eq!(mapping_of(&mappings, MIB - 1), None);
        assert_eq!(mapping_of(&mappings, 9 * MIB), None);
    }
}
