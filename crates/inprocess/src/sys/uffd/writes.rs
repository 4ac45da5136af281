//! Tracking of writes to pages of this process.

use super::calls::{self, Uffd, feature, mode};
use frostline_core::span::Span;
use frostline_linux::LinuxError;
use frostline_linux::pages::pagemap::{Categories, Pagemap};

/// Notes writes, page by page: a page that is protected is written without anybody's help, at the
/// price of a fault of a microsecond, and is not protected any more (Linux 6.7). Ends when dropped.
///
/// It leaves contents alone, and nobody waits.
#[derive(Debug)]
pub struct Writes {
    fd: Uffd,
    spans: Vec<Span>,
}

impl Writes {
    /// Nothing is watched yet.
    ///
    /// # Errors
    /// The kernel's error number: `EINVAL` where it cannot do it, `EPERM` without the right.
    pub fn open() -> Result<Self, i32> {
        // No fault is ever handed over: those of system calls need not be, either.
        let fd = calls::open(true)?;
        calls::begin(&fd, feature::WP_ASYNC)?;
        Ok(Self { fd, spans: Vec::new() })
    }

    /// Watches a range, which should be a whole mapping, from the next [`Self::take`] on.
    ///
    /// # Errors
    /// The kernel's error number: `EBUSY` where another descriptor has a part of it, `EINVAL` where
    /// it is not mapped, or memory of another kind.
    pub fn watch(&mut self, span: Span) -> Result<(), i32> {
        calls::register(&self.fd, span.address(), span.bytes().0, mode::WP)?;
        self.spans.push(span);
        Ok(())
    }

    /// Appends base pages written since the last time, at first all that are there, in runs.
    ///
    /// # Errors
    /// Where the page table cannot be read.
    pub fn take(
        &mut self,
        pagemap: &mut Pagemap,
        written: &mut Vec<Span>,
    ) -> Result<(), LinuxError> {
        for span in &self.spans {
            let mut runs = Vec::new();
            pagemap.take_written(*span, &mut runs)?;
            let small = runs.into_iter().filter(|(_, page)| !page.has(Categories::HUGE));
            written.extend(small.map(|(span, _)| span));
        }
        Ok(())
    }
}
