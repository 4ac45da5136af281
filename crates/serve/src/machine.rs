//! Machine: memory and swap of this computer.

use frostline_linux::{LinuxError, Root};
use serde::Serialize;

/// Memory of this computer, in bytes.
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
    ///
    /// # Errors
    /// Where `/proc/meminfo` cannot be read.
    pub fn read(root: &Root) -> Result<Self, LinuxError> {
        let text = root.read("/proc/meminfo")?;
        let host = root.read_optional("/proc/sys/kernel/hostname")?.unwrap_or_default();
        Ok(Self { host: host.trim().to_owned(), ..Self::parse(&text) })
    }

    fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
            kib.checked_mul(1024)
        };
        let value = |name| value(name).unwrap_or(0);
        Self {
            host: String::new(),
            memory_bytes: value("MemTotal:"),
            available_bytes: value("MemAvailable:"),
            swap_bytes: value("SwapTotal:"),
            swap_free_bytes: value("SwapFree:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kib() {
        let text = "MemTotal:       24683900 kB\nMemFree: 1 kB\nMemAvailable:   23000000 kB\nSwapTotal: 8 kB\n";
        let found = Machine::parse(text);
        assert_eq!((found.memory_bytes, found.swap_bytes), (24_683_900 << 10, 8192));
        assert_eq!(Machine::parse("SwapFree: x kB"), Machine::default());
    }
}
