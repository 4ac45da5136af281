use super::*;
use frostline_driver::Accounts;
use frostline_driver::status::{SourceStatus, TierStatus};
use std::collections::{BTreeMap, BTreeSet};

/// What a reader of the format makes of a page: numbers by name and labels.
fn parse(page: &str) -> BTreeMap<String, f64> {
    let mut kinds = BTreeMap::new();
    let mut found = BTreeMap::new();
    let page = page.strip_suffix("# EOF\n").expect("an end");
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            assert!(kinds.insert(name.clone(), kind.to_owned()).is_none(), "{name} twice");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let kind = kinds.get(name).unwrap_or_else(|| panic!("{name} has no type"));
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        let value: f64 = value.parse().unwrap();
        assert!(found.insert(series.to_owned(), value).is_none(), "{series} twice");
    }
    found
}

fn status() -> Status {
    let tier = |name: &str, used_bytes| TierStatus {
        name: name.into(),
        used_bytes,
        capacity_bytes: 1 << 40,
        ..TierStatus::default()
    };
    let mut accounts = Accounts { refaults: 7, splits: 3, ..Accounts::default() };
    accounts.demotions.verified_bytes = 8192;
    accounts.reclaimed.no_space_bytes = 4096;
    Status {
        name: "a \"b\\".into(),
        tiers: vec![tier("memory", 1 << 30), tier("swap", 5)],
        accounts,
        classes: Some([1, 2, 3]),
        sources: vec![SourceStatus { name: "refaults".into(), touches: 9, ..Default::default() }],
        ..Status::default()
    }
}

#[test]
fn a_page_holds_every_number_in_base_units() {
    let found = parse(&page(&[status()]));
    let number = |name: &str, labels: &str| {
        let series = format!("{name}{{target=\"a \\\"b\\\\\"{labels}}}");
        *found.get(&series).unwrap_or_else(|| panic!("no {series} in {found:#?}"))
    };
    assert_eq!(number("frostline_memory_bytes", ",tier=\"memory\""), 1073741824.0);
    assert_eq!(number("frostline_memory_limit_bytes", ",tier=\"swap\""), (1u64 << 40) as f64);
    assert_eq!(number("frostline_refaults_total", ""), 7.0);
    assert_eq!(number("frostline_class_bytes", ",class=\"cold\""), 12288.0);
    assert_eq!(number("frostline_moved_bytes_total", ",purpose=\"demotion\""), 8192.0);
    let failed = number("frostline_failed_bytes_total", ",purpose=\"limit\",reason=\"no_space\"");
    assert_eq!(failed, 4096.0);
    assert_eq!(number("frostline_touches_total", ",source=\"refaults\""), 9.0);
    assert!(
        page(&[status()]).contains("source=\"refaults\"} 9\n"),
        "whole numbers are written as such"
    );
    assert!(found["process_resident_memory_bytes"] > 0.0);
}

#[test]
fn every_family_is_there_and_documented() {
    let page = page(&[]);
    let names: BTreeSet<&str> = FAMILIES.iter().map(|family| family.name).collect();
    assert_eq!(names.len(), FAMILIES.len(), "every name once");
    let document = include_str!("../../../../../docs/reference/metrics.md");
    for name in names {
        let stem = name.strip_suffix("_total").unwrap_or(name);
        assert!(page.contains(&format!("# TYPE {stem} ")), "{name}");
        assert!(document.contains(&format!("`{name}")), "docs/reference/metrics.md lacks {name}");
    }
    assert!(parse(&page).len() == 2, "only the daemon's own numbers without a target");
}
