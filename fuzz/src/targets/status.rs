//! Status of running frostlines: JSON, one per line, shown as text, as a page of metrics and as a
//! picture.

use crate::target::Target;
use frostline_cli::readers;
use frostline_driver::Status;
use frostline_driver::status::{BinStatus, SourceStatus, TargetStatus, TierStatus};
use frostline_inprocess::consolidate::request::{Answer, Request};

pub const TARGET: Target = Target {
    name: "status",
    check,
    seeds,
    words: &[
        "\"pid\":",
        "\"seconds\":",
        "\"tiers\":[",
        "\"used_bytes\":",
        "\"capacity_bytes\":",
        "\"hotness\":[",
        "\"classes\":[",
        "18446744073709551615",
        "1e308",
        "null",
        "\"name\":\"",
        "\\u001b",
        "\"accounts\":{",
    ],
};

fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = (serde_json::from_str::<Request>(text), serde_json::from_str::<Answer>(text));
    let mut all = Vec::new();
    for line in text.lines() {
        let Ok(status) = serde_json::from_str::<Status>(line) else { continue };
        let shown = serde_json::to_string(&status).expect("it was JSON before");
        let again: Status = serde_json::from_str(&shown).unwrap_or_else(|e| panic!("{e}: {shown}"));
        assert_eq!(again, status, "{shown}");
        let _ = readers::status(&status);
        all.push(status);
    }
    if all.is_empty() {
        return;
    }
    let page = readers::metrics(&all);
    assert!(page.lines().all(|line| line.starts_with(['#', 'f', 'p'])), "{page}");
    let later = all.split_off(all.len() / 2);
    let picture = readers::screen(all, later, 100, 40);
    assert_eq!(picture.lines().count(), 40);
}

fn seeds() -> Vec<Vec<u8>> {
    let tier = |name: &str, used_bytes, capacity_bytes| TierStatus {
        name: name.into(),
        used_bytes,
        capacity_bytes,
        ..TierStatus::default()
    };
    let status = |seconds: f64| {
        let mut status = Status {
            pid: 7,
            name: "a".into(),
            policy: "memtis".into(),
            seconds,
            footprint_bytes: 4 << 30,
            tiers: vec![tier("memory", 1 << 30, 2 << 30), tier("swap", 3 << 30, 8 << 30)],
            targets: vec![TargetStatus { pid: 42, comm: "redis-server".into(), mapped_bytes: 1 }],
            saved_bytes: 2 << 30,
            compressed_bytes: Some(1 << 30),
            classes: Some([100, 0, 300]),
            hotness: vec![BinStatus {
                least: 3,
                class: "hot".into(),
                bytes: 1 << 20,
                tier_bytes: vec![1 << 20, 0],
            }],
            sources: vec![SourceStatus { name: "damon".into(), ..SourceStatus::default() }],
            cpu_seconds: seconds / 50.0,
            ..Status::default()
        };
        status.refused.insert(3, "no right".into());
        status.metrics.insert("cooling".into(), 0.5);
        serde_json::to_string(&status).expect("it is JSON")
    };
    vec![
        status(100.5).into_bytes(),
        format!("{}\n{}\n", status(1.0), status(2.0)).into_bytes(),
        br#"{"pid":1,"start_ticks":2,"limit":"Auto","dry_run":false,"number":3}"#.to_vec(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read() {
        let seeds: Vec<String> =
            seeds().into_iter().filter_map(|seed| String::from_utf8(seed).ok()).collect();
        assert!(seeds[1].lines().all(|line| serde_json::from_str::<Status>(line).is_ok()));
        assert!(serde_json::from_str::<Request>(&seeds[2]).is_ok());
    }
}
