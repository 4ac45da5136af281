//! A file whose words another machine writes while we read them.

use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A shared mapping of a file or of a device's memory, seen as words of 64 bits.
#[derive(Debug)]
pub struct SharedWords {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone, and all access to it is atomic.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps the first `bytes` of a file; what is left of a last word that is not whole is not
    /// seen.
    ///
    /// The file must keep its size: access beyond its end kills the process (`SIGBUS`).
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn map(file: impl AsFd, bytes: usize) -> Result<Self, i32> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let words = bytes / size_of::<AtomicU64>();
        // SAFETY: asks for a mapping at an address of the kernel's choice; replaces nothing.
        let base = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, file, 0)
        };
        let base = base.map_err(rustix::io::Errno::raw_os_error)?;
        let base = NonNull::new(base.cast()).ok_or(libc::ENOMEM)?;
        Ok(Self { base, words })
    }

    /// All of them.
    pub fn all(&self) -> &[AtomicU64] {
        // SAFETY: so many words are mapped, readable and writable, for the life of `self`; a
        // mapping begins at a page, which is aligned; every bit pattern is a number, and nothing
        // of this process sees them but by atomics.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }

    /// Some of them, `None` beyond the end.
    pub fn get(&self, range: Range<usize>) -> Option<&[AtomicU64]> {
        self.all().get(range)
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: nobody borrows from a value that is dropped, so that nothing of this mapping,
        // which is ours, is in use.
        let unmapped = unsafe {
            rustix::mm::munmap(self.base.as_ptr().cast(), self.words * size_of::<AtomicU64>())
        };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_of_a_file_see_each_other_s_words() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[0; 8195]).expect("room");
        let (one, other) = (
            SharedWords::map(&file, 8195).expect("mapped"),
            SharedWords::map(&file, 8192).expect("mapped"),
        );
        assert_eq!((one.all().len(), other.all().len()), (1024, 1024));
        one.all()[1023].store(7, Ordering::Release);
        assert_eq!(other.all()[1023].load(Ordering::Acquire), 7);
        assert!(one.get(1000..1025).is_none());
        assert!(SharedWords::map(&file, 0).is_err());
    }
}
