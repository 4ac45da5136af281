//! Sizes, durations, counts, shares and other values of the command line.

use crate::target::Target;
use crate::target::texts;
use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::spec::{
    parse_bytes, parse_count, parse_duration, parse_float, parse_ratio, parse_switch, show_bytes,
};
use frostline_core::types::Bytes;
use frostline_driver::{Limit, Samples, Written};
use frostline_sim::{FastSize, Footprint};

pub const TARGET: Target = Target {
    name: "amounts",
    check,
    seeds: || {
        texts(&[
            "4096",
            "1_000K",
            "1.5GiB",
            "2MB",
            "4Mi",
            "1e8",
            "1.25e-3T",
            "500ms",
            "2min",
            "30µs",
            "40%",
            "1/3",
            "1:8",
            "-2",
            "0.99",
            "on",
            "auto",
            "512",
            "18446744073709551615",
            "18446744073709551616",
            "100%",
            "0.1%",
            "3:1000000",
            "refaults",
            "16TiB",
        ])
    },
    words: &[
        "KiB", "Mi", "GB", "T", "e", "e-", "%", "/", ":", "ms", "µs", "min", "h", "_", ".", "1e19",
    ],
};

fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(plain) = text.parse::<u64>()
        && text.len() <= 30
        && !text.starts_with('+')
    {
        assert_eq!(parse_count(text), Ok(plain));
        assert_eq!(parse_bytes(text), Ok(Bytes(plain)));
    }
    if let Ok(count) = parse_count(text) {
        close(text, count, |unit| match unit {
            "" => Some(1.0),
            "k" => Some(1e3),
            "ki" => Some(1024.0),
            _ => None,
        });
        assert_eq!(parse_count(&count.to_string()), Ok(count));
    }
    if let Ok(Bytes(bytes)) = parse_bytes(text) {
        assert_eq!(parse_bytes(&show_bytes(bytes)), Ok(Bytes(bytes)));
        close(text, bytes, |unit| match unit {
            "" | "b" => Some(1.0),
            "m" | "mb" | "mib" => Some(1048576.0),
            _ => None,
        });
    }
    if let Ok(span) = parse_duration(text) {
        assert_eq!(parse_duration(&format!("{}ns", span.0)), Ok(span));
        close(text, span.0, |unit| (unit == "s").then_some(1e9));
    }
    if let Ok(share) = parse_ratio(text) {
        assert!((0.0..=1.0).contains(&share));
    }
    if let Ok(number) = parse_float(text) {
        assert!(number.is_finite());
        assert_eq!(parse_float(&number.to_string()), Ok(number));
    }
    let _ = parse_switch(text);
    if let Ok(size) = text.parse::<FastSize>() {
        assert_eq!(size.to_string().parse::<FastSize>(), Ok(size));
        for peak_resident_pages in [0, 1, 1 << 20, u64::from(u32::MAX)] {
            let footprint = Footprint { peak_resident_pages, ..Footprint::default() };
            let pages = size.pages(&footprint);
            assert!(!matches!(size, FastSize::Ratio(..)) || pages.0 <= peak_resident_pages);
        }
    }
    if let Ok(limit) = Limit::parse(text) {
        assert!(limit.bytes(Bytes(u64::MAX)) >= limit.bytes(Bytes::ZERO));
        let again = Limit::parse(&limit.to_string()).expect("we printed it");
        match (limit, again) {
            (Limit::Share(share), Limit::Share(again)) => {
                assert!(share > 0.0 && share <= 1e4, "{share}");
                assert!((share - again).abs() <= share * 1e-12, "{share} {again}");
            }
            sizes => assert_eq!(sizes.0, sizes.1),
        }
    }
    if let Ok(samples) = text.parse::<Written<Samples>>() {
        assert_eq!(samples.to_string(), text);
    }
    if let Ok(limit) = ConsolidationLimit::parse(text) {
        assert_eq!(ConsolidationLimit::parse(&limit.to_string()), Ok(limit));
        assert!((1..=512).contains(&limit.of([1, 5, 300].into_iter())));
    }
}

/// Where the standard library can read the number before the unit, too, both come to the same.
fn close(text: &str, value: u64, factor: impl Fn(&str) -> Option<f64>) {
    let lower = text.to_lowercase();
    let at = lower.trim_end_matches(char::is_alphabetic).len();
    let (number, unit) = lower.split_at(at);
    let (Ok(number), Some(factor)) = (number.trim_end().parse::<f64>(), factor(unit)) else {
        return;
    };
    let expected = number * factor;
    let error = (value as f64 - expected).abs();
    assert!(error <= 1.0 + expected * 1e-12, "{text}: {value}, not {expected}");
}
