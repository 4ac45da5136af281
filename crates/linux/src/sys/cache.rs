//! Caches of the processor.

/// Bytes of a cache line, at least.
const LINE: usize = 64;

/// Takes memory out of all caches.
#[cfg(target_arch = "x86_64")]
pub fn evict(memory: &[u8]) {
    use core::arch::x86_64::{_mm_clflush, _mm_mfence};
    for line in memory.chunks(LINE) {
        // SAFETY: the address is of memory that is borrowed; its contents stay as they are.
        unsafe { _mm_clflush(line.as_ptr()) };
    }
    // SAFETY: a fence touches no memory.
    unsafe { _mm_mfence() };
}

/// Takes memory out of all caches, most likely: as much else is read as caches hold.
#[cfg(not(target_arch = "x86_64"))]
pub fn evict(_: &[u8]) {
    let other = vec![1_u8; 64 << 20];
    let sum: u64 = other.iter().step_by(LINE).map(|byte| u64::from(*byte)).sum();
    std::hint::black_box(sum);
}
