//! An allocator of its own for code that runs inside of other people's programs.
//!
//! Blocks come in sizes of four to each doubling, from chunks that are mapped as needed and never
//! given back; what lies in large free blocks is. A forked child has none of it
//! (`MADV_DONTFORK`): there, [`Arena::forget`] must come before anything else.

use super::spin_lock::SpinLock;
use frostline_core::span::Span;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

/// Bytes of the smallest chunk.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks grow with what there is: so many reach beyond what addresses do.
const MOST_CHUNKS: usize = 128;
/// Sizes of blocks: multiples of 16 up to 64 bytes, then four to each doubling up to 128 TiB.
const CLASSES: usize = 4 + 4 * 41;
/// Of free blocks from this size on, all but the first page goes back to the kernel.
const GIVEN_BACK_BYTES: usize = 128 << 10;
const PAGE: usize = 4096;

/// See the module.
#[derive(Debug)]
pub struct Arena {
    state: SpinLock<State>,
    /// Called where the kernel has no more memory; instead of ending the program, it must not
    /// return.
    exhausted: fn() -> !,
}

#[derive(Debug)]
struct State {
    /// First byte that was never handed out, and the end of its chunk.
    next: usize,
    end: usize,
    /// The first free block of each size, 0 for none; its first word names the next one.
    free: [usize; CLASSES],
    chunks: [(usize, usize); MOST_CHUNKS],
    count: usize,
}

impl State {
    const EMPTY: Self =
        Self { next: 0, end: 0, free: [0; CLASSES], chunks: [(0, 0); MOST_CHUNKS], count: 0 };

    fn mapped_bytes(&self) -> usize {
        self.chunks[..self.count].iter().map(|(_, bytes)| bytes).sum()
    }

    /// A block of a class; whether it is known to hold zeros. 0 where there is no memory.
    fn take(&mut self, class: Class) -> (usize, bool) {
        let first = self.free[class.index];
        if first != 0 {
            // SAFETY: a free block belongs to nobody, lies in a chunk, is as aligned as a word,
            // and its first word was written when it became free.
            self.free[class.index] = unsafe { ptr::with_exposed_provenance::<usize>(first).read() };
            return (first, false);
        }
        let mut start = self.next.next_multiple_of(class.align());
        if self.next == 0 || start.checked_add(class.bytes).is_none_or(|end| end > self.end) {
            if !self.grow(class.bytes) {
                return (0, false);
            }
            start = self.next;
        }
        self.next = start + class.bytes;
        (start, true)
    }

    /// Maps another chunk, for a block of `bytes` at least; what was left of the last one is lost.
    fn grow(&mut self, bytes: usize) -> bool {
        if self.count == MOST_CHUNKS {
            return false;
        }
        let wanted = bytes.max(CHUNK_BYTES).max(self.mapped_bytes() / 4);
        let bytes = wanted.next_multiple_of(CHUNK_BYTES);
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: asks for a mapping at an address of the kernel's choice; replaces nothing.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), bytes, prot, flags) };
        let Ok(start) = mapped else { return false };
        for advice in [Advice::LinuxDontFork, Advice::LinuxNoHugepage, Advice::LinuxDontDump] {
            // A kernel that refuses it makes children larger, no more.
            // SAFETY: the mapping is ours, and none of these changes what is in it.
            let _ = unsafe { madvise(start, bytes, advice) };
        }
        self.chunks[self.count] = (start.expose_provenance(), bytes);
        self.count += 1;
        self.next = start.addr();
        self.end = self.next + bytes;
        true
    }

    fn give(&mut self, start: usize, class: Class) {
        if class.bytes >= GIVEN_BACK_BYTES {
            let from = (start + size_of::<usize>()).next_multiple_of(PAGE);
            let bytes = (start + class.bytes).saturating_sub(from) / PAGE * PAGE;
            let from = ptr::with_exposed_provenance_mut(from);
            // SAFETY: whole pages of a block that nobody uses any more.
            let _ = unsafe { madvise(from, bytes, Advice::LinuxDontNeed) };
        }
        // SAFETY: the block lies in a chunk, is as large and aligned as a word at least, and
        // nobody uses it any more.
        unsafe { ptr::with_exposed_provenance_mut::<usize>(start).write(self.free[class.index]) };
        self.free[class.index] = start;
    }
}

/// Size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    index: usize,
    bytes: usize,
}

impl Class {
    /// The smallest for a layout; `None` where none is so large, or so aligned.
    fn of(layout: Layout) -> Option<Self> {
        let class = Self::holding(layout.size())?;
        if layout.align() <= class.align() {
            return Some(class);
        }
        let bytes = layout.size().max(layout.align()).checked_next_power_of_two()?;
        Self::holding(bytes).filter(|class| layout.align() <= class.align())
    }

    fn holding(bytes: usize) -> Option<Self> {
        if bytes <= 64 {
            let index = bytes.saturating_sub(1) / 16;
            return Some(Self { index, bytes: (index + 1) * 16 });
        }
        let doubling = (bytes - 1).ilog2();
        let shift = doubling - 2;
        let quarters = ((bytes - 1) >> shift) + 1;
        let index = 4 + (doubling as usize - 6) * 4 + quarters - 5;
        (index < CLASSES).then(|| Self { index, bytes: quarters << shift })
    }

    /// What all blocks of it are aligned to.
    fn align(self) -> usize {
        (1 << self.bytes.trailing_zeros()).min(PAGE)
    }
}

impl Arena {
    /// An arena without memory. `exhausted` is called where the kernel has none.
    pub const fn new(exhausted: fn() -> !) -> Self {
        Self { state: SpinLock::new(State::EMPTY), exhausted }
    }

    /// Begins anew in a forked child, whose only thread this is, and which has none of the memory.
    ///
    /// Whatever was allocated before must not be used any more: it is not there.
    pub fn forget(&self) {
        // Maybe it was in the middle of a change.
        self.state.forget();
        self.state.with(|state| *state = State::EMPTY);
    }

    /// Address space that it takes, chunk by chunk.
    pub fn spans(&self) -> Vec<Span> {
        let (chunks, count) = self.state.with(|state| (state.chunks, state.count));
        let span = |&(start, bytes): &(usize, usize)| {
            Span::of_addresses(start as u64, (start + bytes) as u64)
        };
        chunks[..count].iter().map(span).collect()
    }

    /// Bytes that were handed out at some time: no more than these are resident.
    pub fn touched_bytes(&self) -> u64 {
        self.state.with(|state| (state.mapped_bytes() - (state.end - state.next)) as u64)
    }
}

// SAFETY: `State` hands out parts of mappings of its own, apart from each other, which stay mapped;
// a block has its class from the layout, so that it comes back with the class that it was taken
// with, and is as large and aligned as the class says.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Class::of(layout).map(|class| self.state.with(|state| state.take(class))) {
            None | Some((0, _)) => (self.exhausted)(),
            Some((start, _)) => ptr::with_exposed_provenance_mut(start),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match Class::of(layout).map(|class| self.state.with(|state| state.take(class))) {
            None | Some((0, _)) => (self.exhausted)(),
            Some((start, fresh)) => {
                let block = ptr::with_exposed_provenance_mut::<u8>(start);
                if !fresh {
                    // SAFETY: the block is ours, and as large as the layout.
                    unsafe { block.write_bytes(0, layout.size()) };
                }
                block
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(class) = Class::of(layout) {
            self.state.with(|state| state.give(block.expose_provenance(), class));
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller sees to it that the size, rounded up to the alignment, is a size.
        let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        if Class::of(wanted) == Class::of(layout) {
            return block;
        }
        // SAFETY: the caller's promises are those of the three calls; both blocks are as large as
        // what is copied.
        unsafe {
            let new = self.alloc(wanted);
            ptr::copy_nonoverlapping(block, new, layout.size().min(bytes));
            self.dealloc(block, layout);
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::rng::Rng;

    fn arena() -> Arena {
        Arena::new(|| panic!("no memory"))
    }

    #[test]
    fn classes_hold_what_they_are_for() {
        let mut last = Class { index: 0, bytes: 16 };
        for bytes in (0..5000).chain((12..40).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 1])) {
            let class = Class::holding(bytes).expect("there is one");
            assert!(class.bytes >= bytes && (bytes <= 64 || class.bytes * 4 <= bytes * 5 + 16));
            assert!(class.index == last.index || class.bytes > last.bytes || bytes < last.bytes);
            assert_eq!(Class::holding(class.bytes), Some(class), "{bytes}");
            last = class;
        }
        assert_eq!(Class::holding(1 << 47).map(|class| class.index), Some(CLASSES - 1));
        assert_eq!(Class::holding((1 << 47) + 1), None);
        let aligned = |size, align| Class::of(Layout::from_size_align(size, align).expect("one"));
        assert_eq!(aligned(5000, 4096).map(|class| class.bytes), Some(8192));
        assert_eq!(aligned(1, 8192), None);
    }

    #[test]
    fn blocks_keep_what_is_written_to_them() {
        let arena = arena();
        let mut rng = Rng::new(3);
        let mut blocks: Vec<(*mut u8, Layout, u8)> = Vec::new();
        for step in 0..20_000_u32 {
            let large = step % 500 == 0;
            let size = 1 + rng.below(if large { 3 << 20 } else { 3000 }) as usize;
            let align = 1 << rng.below(8);
            let mark = step as u8;
            if blocks.len() > 200 || (step % 3 == 0 && !blocks.is_empty()) {
                let (block, layout, mark) =
                    blocks.swap_remove(rng.below(blocks.len() as u64) as usize);
                // SAFETY: it was allocated with this layout, and is freed once, or moved.
                unsafe {
                    let all = std::slice::from_raw_parts(block, layout.size());
                    assert!(all.iter().all(|byte| *byte == mark));
                    if step % 2 == 0 {
                        let kept = size.min(layout.size());
                        let moved = arena.realloc(block, layout, size);
                        let all = std::slice::from_raw_parts_mut(moved, size);
                        assert!(all[..kept].iter().all(|byte| *byte == mark));
                        all.fill(mark);
                        let layout = Layout::from_size_align_unchecked(size, layout.align());
                        blocks.push((moved, layout, mark));
                    } else {
                        arena.dealloc(block, layout);
                    }
                }
                continue;
            }
            let layout = Layout::from_size_align(size, align).expect("a layout");
            // SAFETY: a layout of more than 0 bytes.
            let block = unsafe {
                let block = arena.alloc_zeroed(layout);
                let all = std::slice::from_raw_parts_mut(block, size);
                assert!(all.iter().all(|byte| *byte == 0), "step {step}");
                all.fill(mark);
                block
            };
            assert_eq!(block.addr() % align, 0);
            blocks.push((block, layout, mark));
        }
        let spans = arena.spans();
        assert!(spans.len() > 2, "{spans:?}");
        let page = |block: *mut u8| frostline_core::types::Vpn(block.addr() as u64 / 4096);
        assert!(blocks.iter().all(|(block, ..)| spans.iter().any(|s| s.contains(page(*block)))));
        let mapped: u64 = spans.iter().map(|span| span.bytes().0).sum();
        assert!(arena.touched_bytes() <= mapped && mapped < 256 << 20, "{mapped}");
    }

    #[test]
    fn a_child_has_none_of_it_and_begins_anew() {
        let _forks = frostline_testing::forks();
        let arena = arena();
        let layout = Layout::from_size_align(100, 8).expect("a layout");
        // SAFETY: a layout of more than 0 bytes.
        let block = unsafe { arena.alloc(layout) };
        let page = block.addr() as u64 / 4096;
        let pid = frostline_linux::in_forked_child(|| {
            arena.forget();
            let root = frostline_linux::Root::system();
            let target = frostline_linux::Target::open(&root, std::process::id()).expect("runs");
            let mut mappings = Vec::new();
            frostline_linux::process::maps::MapsReader::new()
                .read(&target, &mut mappings)
                .expect("read");
            let there = mappings.iter().any(|m| m.span.contains(frostline_core::types::Vpn(page)));
            // SAFETY: as above; the block is large enough for what is written.
            unsafe { arena.alloc(layout).write_bytes(7, 100) };
            u8::from(there) + 2 * u8::from(arena.spans().len() != 1)
        });
        let pid = rustix::process::Pid::from_raw(pid.expect("a child") as i32);
        let waited = rustix::process::waitpid(pid, rustix::process::WaitOptions::empty());
        let (_, status) = waited.expect("ours").expect("it has ended");
        assert_eq!(status.exit_status(), Some(0));
    }
}
