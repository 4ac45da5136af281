//! Machine: memory and swap of this computer.

use frostline_core::types::Bytes;
use frostline_linux::process::{available_memory, free_swap, total_memory, total_swap};
use frostline_linux::{LinuxError, Root};
use serde::Serialize;

/// Memory of this computer, in bytes; 0 where the kernel does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Machine {
    pub host: String,
    pub memory_bytes: u64,
    pub available_bytes: u64,
    pub swap_bytes: u64,
    pub swap_free_bytes: u64,
}

impl Machine {
    /// How it is now.
    pub fn read(root: &Root) -> Self {
        let bytes = |of: fn(&Root) -> Result<Bytes, LinuxError>| of(root).unwrap_or(Bytes(0)).0;
        let host = root.read_optional("/proc/sys/kernel/hostname").ok().flatten();
        Self {
            host: host.unwrap_or_default().trim().to_owned(),
            memory_bytes: bytes(total_memory),
            available_bytes: bytes(available_memory),
            swap_bytes: bytes(total_swap),
            swap_free_bytes: bytes(free_swap),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kib() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |text: &str| {
            std::fs::create_dir_all(folder.path().join("proc")).expect("a folder");
            std::fs::write(folder.path().join("proc/meminfo"), text).expect("a file");
            Machine::read(&Root::at(folder.path()))
        };
        let text = "MemTotal:       24683900 kB\nMemFree: 1 kB\nMemAvailable:   23000000 kB\nSwapTotal: 8 kB\n";
        let found = read(text);
        assert_eq!((found.memory_bytes, found.swap_bytes), (24_683_900 << 10, 8192));
        assert_eq!(read("SwapFree: x kB"), Machine::default());
    }
}
