//! Numbers as people read them.

/// `1.5 GiB`, `12.0 MiB`, `512 B`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} B"),
        _ => format!("{value:.*} {}", if value.abs() < 10.0 { 2 } else { 1 }, UNITS[unit]),
    }
}

/// `999`, `12.3 K`, `4.00 M`, `1.20 G`.
pub fn count(value: f64) -> String {
    const UNITS: [&str; 4] = ["", " K", " M", " G"];
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 if value.fract() == 0.0 => format!("{value:.0}"),
        0 => format!("{value:.1}"),
        _ => format!("{value:.*}{}", if value.abs() < 10.0 { 2 } else { 1 }, UNITS[unit]),
    }
}

/// `1.234 s`, `12.3 ms`, `45.6 us`, `80 ns`.
pub fn seconds(value: f64) -> String {
    match value.abs() {
        v if v >= 1.0 => format!("{value:.3} s"),
        v if v >= 1e-3 => format!("{:.2} ms", value * 1e3),
        v if v >= 1e-6 => format!("{:.2} us", value * 1e6),
        0.0 => "0 s".to_owned(),
        _ => format!("{:.0} ns", value * 1e9),
    }
}

/// `93.1 %` of a share within 0 and 1.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_chosen_by_size() {
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(1536.0), "1.50 KiB");
        assert_eq!(bytes(12.0 * 1048576.0), "12.0 MiB");
        assert_eq!(count(0.0), "0");
        assert_eq!(count(12_300.0), "12.3 K");
        assert_eq!(count(4e6), "4.00 M");
        assert_eq!(seconds(1.5), "1.500 s");
        assert_eq!(seconds(0.0123), "12.30 ms");
        assert_eq!(seconds(8e-8), "80 ns");
        assert_eq!(percent(0.9312), "93.1 %");
    }
}
