//! Contents of pages of a process.
//!
//! Source: process_vm_readv(2).

use crate::process::Target;
use crate::sys::memory;
use frostline_core::types::{PAGE_BYTES, Vpn};

/// Reads a page; whether all of it could be read. What is in swap comes back by that, and what was never touched is mapped
/// to zeroes: only pages that are in memory should be asked for.
pub fn read(target: &Target, page: Vpn, bytes: &mut [u8; PAGE_BYTES as usize]) -> bool {
    let Some(address) = page.0.checked_mul(PAGE_BYTES) else { return false };
    // Another process may have its number by now.
    target.is_alive() && memory::read(target.pid(), address, bytes) == Ok(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    #[test]
    fn a_page_is_read_as_it_is_or_not_at_all() {
        let target = Target::open(&Root::system(), std::process::id()).unwrap();
        let memory: Vec<u8> = (0..3 * PAGE_BYTES).map(|at| (at % 251) as u8).collect();
        let page = Vpn((memory.as_ptr() as u64).div_ceil(PAGE_BYTES));
        let from = (page.0 * PAGE_BYTES - memory.as_ptr() as u64) as usize;
        let mut bytes = [0; PAGE_BYTES as usize];
        assert!(read(&target, page, &mut bytes));
        assert_eq!(bytes[..], memory[from..from + PAGE_BYTES as usize]);
        for nowhere in [Vpn(1), Vpn(u64::MAX)] {
            assert!(!read(&target, nowhere, &mut bytes), "{nowhere:?}");
        }
    }
}
