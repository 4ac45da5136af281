//! Cache misses of policies, counted by cachegrind: the benchmark runs itself once for each policy
//! and size of pages.

use std::process::Command;

/// First-level data cache and last-level cache that are modelled.
const CACHES: [&str; 2] = ["--D1=32768,8,64", "--LL=33554432,16,64"];

/// Misses of a run.
#[derive(Clone, Copy)]
struct Misses {
    first_level: u64,
    last_level: u64,
}

/// Misses of the program for which a sample stands, by the policies' default.
const PERIOD: f64 = 200.0;

/// Ratios that HybridTier's publication has of first-level misses (Fig. 13 and 14).
const BASE_PAGES: [(&str, &str, &str); 3] = [
    ("memtis", "hybridtier", "1.7"),
    ("memtis", "hybridtier-cbf", "1.1 to 1.6"),
    ("hybridtier-cbf", "hybridtier", "1.4 to 3.6"),
];
const HUGE_PAGES: [(&str, &str, &str); 1] = [("memtis", "hybridtier", "3.2")];

/// Prints what each policy misses for a sample beyond `idle`, which does nothing with it, with base
/// pages and with huge pages.
pub fn compare(policies: &[&str], idle: &str, samples: usize) {
    compare_with(policies, idle, samples, None, &BASE_PAGES);
    compare_with(policies, idle, samples, Some("--huge"), &HUGE_PAGES);
}

fn compare_with(
    policies: &[&str],
    idle: &str,
    samples: usize,
    option: Option<&str>,
    paper: &[(&str, &str, &str)],
) {
    let pages = if option.is_some() { "huge pages" } else { "base pages" };
    let run = |name: &str| {
        eprintln!("cachegrind: {name}, {pages}");
        measure(name, option)
    };
    let base = run(idle);
    let each = |all: u64, base: u64| all.saturating_sub(base) as f64 / samples as f64;
    let missed: Vec<(f64, f64)> = policies
        .iter()
        .map(|name| {
            let misses = run(name);
            (each(misses.first_level, base.first_level), each(misses.last_level, base.last_level))
        })
        .collect();
    let caches = CACHES.join(" ");
    println!("misses for a sample beyond `{idle}`, {pages}: {samples} samples, {caches}");
    println!(
        "  {:20} {:>11}  {:>10}  of all last-level misses",
        "policy", "first level", "last level"
    );
    for (name, (first, last)) in policies.iter().zip(&missed) {
        let share = 100.0 * last / (last + PERIOD);
        println!("  {name:20} {first:11.2}  {last:10.3}  {share:.2} %");
    }
    let of = |name: &str| policies.iter().position(|p| *p == name).map(|i| missed[i].0);
    let ratio = |a, b| Some(of(a)? / of(b)?);
    for (more, fewer, published) in paper {
        if let Some(ratio) = ratio(more, fewer) {
            println!("  {more} / {fewer}: {ratio:.2} (HybridTier, Fig. 13 and 14: {published})");
        }
    }
}

fn measure(name: &str, option: Option<&str>) -> Misses {
    let itself = std::env::current_exe().expect("a program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
        .args(CACHES)
        .arg(itself)
        .args(["--quick", "--only", name])
        .args(option)
        .output()
        .unwrap_or_else(|error| panic!("valgrind: {error}\nhint: apt-get install valgrind"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} under valgrind: {text}");
    let count = |what: &str| {
        let line = text.lines().find(|line| line.contains(what));
        let number = line.and_then(|line| line.split(what).nth(1)?.split_whitespace().next());
        let number = number.map(|n| n.replace(',', ""));
        number.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no `{what}` in {text}"))
    };
    Misses { first_level: count("D1  misses:"), last_level: count("LLd misses:") }
}
