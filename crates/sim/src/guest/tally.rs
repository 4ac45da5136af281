//! Tally of one program of several.

use frostline_core::types::*;

/// Numbers of accessed pages in a 2 MiB region that shares are given for: regions with fewer.
const BELOW: [usize; 7] = [10, 50, 100, 150, 250, 290, 400];

/// Sums over a program's run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Its own time at its end.
    pub(crate) seconds: f64,
    pub(crate) accesses: u64,
    pub(crate) fast_accesses: u64,
    /// Fast memory over time, in the whole run and in the second half of its accesses.
    whole: OverTime,
    late: OverTime,
    /// Most pages that it had in its own page tables, at the moments looked at.
    pub(crate) resident_max: u64,
    windows: Windows,
    pub(crate) consolidation: Consolidation,
}

/// Windows of a guest, in each of which it was seen which pages are accessed.
#[derive(Clone, Debug)]
struct Windows {
    all: u64,
    /// Those in the second half.
    late: u64,
    /// Of these: how many regions had so many accessed pages.
    regions: Vec<u64>,
}

/// Work of a guest that gathers its hot pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Consolidation {
    pub(crate) limit_sum: u64,
    pub(crate) page_checks: u64,
    pub(crate) scan_ns: f64,
    pub(crate) selected: u64,
    pub(crate) calls: u64,
    pub(crate) pages: u64,
    pub(crate) ns: f64,
    pub(crate) without_region: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OverTime {
    byte_ns: f64,
    ns: f64,
}

impl OverTime {
    fn add(&mut self, bytes: f64, ns: f64) {
        self.byte_ns += bytes * ns;
        self.ns += ns;
    }

    fn mean(self) -> f64 {
        if self.ns > 0.0 { self.byte_ns / self.ns } else { 0.0 }
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self { all: 0, late: 0, regions: vec![0; HUGE_PAGES as usize + 1] }
    }
}

impl Tally {
    /// Fast memory in use for a while.
    pub(crate) fn add_fast(&mut self, pages: u64, ns: f64, late: bool) {
        let bytes = PageCount(pages).bytes().0 as f64;
        self.whole.add(bytes, ns);
        if late {
            self.late.add(bytes, ns);
        }
    }

    /// A window has ended in which each region had so many accessed pages.
    pub(crate) fn add_window(&mut self, by_region: &[u16], late: bool) {
        self.windows.all += 1;
        if late {
            self.windows.late += 1;
            for &hot in by_region.iter().filter(|hot| **hot > 0) {
                self.windows.regions[usize::from(hot)] += 1;
            }
        }
    }
}

/// Numbers of all programs together, and of each.
pub(crate) fn report(tallies: &[&Tally], in_guests: bool, put: &mut dyn FnMut(&str, f64)) {
    let n = tallies.len().max(1) as f64;
    let sum = |of: &dyn Fn(&Tally) -> f64| tallies.iter().map(|tally| of(tally)).sum::<f64>();
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let resident = |t: &Tally| PageCount(t.resident_max).bytes().0 as f64;
    put("programs.count", n);
    put("programs.seconds_mean", sum(&|t| t.seconds) / n);
    let speed = |t: &Tally| share(t.accesses as f64, t.seconds);
    put("programs.accesses_per_second_mean", sum(&speed) / n);
    put("programs.late_seconds_mean", sum(&|t| t.late.ns) / n / 1e9);
    put("programs.resident_bytes", sum(&resident));
    put("programs.fast_bytes_mean", sum(&|t| t.whole.mean()));
    put("programs.fast_bytes_late", sum(&|t| t.late.mean()));
    put("programs.fast_of_resident_late", share(sum(&|t| t.late.mean()), sum(&resident)));
    for (i, tally) in tallies.iter().enumerate() {
        let i = i + 1;
        put(&format!("programs.{i}.seconds"), tally.seconds);
        put(&format!("programs.{i}.fast_bytes_mean"), tally.whole.mean());
        put(&format!("programs.{i}.fast_bytes_late"), tally.late.mean());
        let fast = share(tally.whole.mean(), sum(&|t| t.whole.mean()));
        put(&format!("programs.{i}.share_of_fast"), fast);
        let hits = share(tally.fast_accesses as f64, tally.accesses as f64);
        put(&format!("programs.{i}.fast_hit_ratio"), hits);
    }
    if !in_guests {
        return;
    }
    let late = sum(&|t| t.windows.late as f64);
    let regions =
        |from: usize, to: usize| sum(&|t| t.windows.regions[from..to].iter().sum::<u64>() as f64);
    let all = regions(1, HUGE_PAGES as usize + 1);
    let pages =
        sum(&|t| t.windows.regions.iter().enumerate().map(|(k, n)| (k as u64 * n) as f64).sum());
    put("guests.windows_total", sum(&|t| t.windows.all as f64));
    put("guests.accessed_regions_mean", share(all, late / n));
    put("guests.accessed_pages_mean", share(pages, late / n));
    put("guests.accessed_pages_per_region_mean", share(pages, all));
    for below in BELOW {
        put(&format!("guests.regions_below_{below}_share"), share(regions(1, below), all));
    }
    for (name, value) in [
        ("page_checks_total", sum(&|t| t.consolidation.page_checks as f64)),
        ("scan_seconds", sum(&|t| t.consolidation.scan_ns) / 1e9),
        ("selected_pages_total", sum(&|t| t.consolidation.selected as f64)),
        ("consolidations_total", sum(&|t| t.consolidation.calls as f64)),
        ("consolidated_pages_total", sum(&|t| t.consolidation.pages as f64)),
        ("consolidation_seconds", sum(&|t| t.consolidation.ns) / 1e9),
        ("without_region_total", sum(&|t| t.consolidation.without_region as f64)),
        (
            "limit_mean",
            share(sum(&|t| t.consolidation.limit_sum as f64), sum(&|t| t.windows.all as f64)),
        ),
    ] {
        put(&format!("guests.{name}"), value);
    }
    let pages = sum(&|t| t.resident_max as f64);
    put("guests.consolidated_of_resident", share(sum(&|t| t.consolidation.pages as f64), pages));
    let per_page = share(sum(&|t| t.consolidation.ns), sum(&|t| t.consolidation.pages as f64));
    put("guests.consolidation_us_per_page", per_page / 1e3);
}
