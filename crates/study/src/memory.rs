//! Memory that this computer can spare.

/// Bytes available according to `/proc/meminfo`; a careful guess where that cannot be read.
pub fn available_bytes() -> u64 {
    const GUESS: u64 = 2 << 30;
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    parse(&text).unwrap_or(GUESS)
}

/// `MemAvailable:   123456 kB`, proc(5).
fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read() {
        assert_eq!(parse("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(parse("MemTotal: 9 kB\n"), None);
        assert!(available_bytes() > 0);
    }
}
