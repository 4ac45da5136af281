//! Caches of the processor.

#[cfg(target_arch = "x86_64")]
use std::{
    fs::File,
    io::{self, Read},
};

/// Bytes of a cache line, at least.
const LINE: usize = 64;

/// Most of the program's file that is read, which is more than the caches of emulated machines hold.
#[cfg(target_arch = "x86_64")]
const READ: u64 = 4 << 20;

/// Takes memory out of all caches. Those of an emulated machine may not know the instruction for it, and
/// are filled with something else.
#[cfg(target_arch = "x86_64")]
pub fn evict(memory: &[u8]) {
    use core::arch::x86_64::{_mm_clflush, _mm_mfence};
    for line in memory.chunks(LINE) {
        // SAFETY: the address is of memory that is borrowed; its contents stay as they are.
        unsafe { _mm_clflush(line.as_ptr()) };
    }
    // SAFETY: a fence touches no memory.
    unsafe { _mm_mfence() };
    // A file that the system holds in memory already takes no faults. Without it caches stay as they are.
    let program = File::open("/proc/self/exe").map(|file| file.take(READ));
    let _ = program.and_then(|mut program| io::copy(&mut program, &mut io::sink()));
}

/// Takes memory out of all caches, most likely: as much else is read as caches hold.
#[cfg(not(target_arch = "x86_64"))]
pub fn evict(_: &[u8]) {
    let other = vec![1_u8; 64 << 20];
    let sum: u64 = other.iter().step_by(LINE).map(|byte| u64::from(*byte)).sum();
    std::hint::black_box(sum);
}
