//! Million records a second that a profile takes, the making of the records left out.
//!
//! `cargo bench -p frostline-profile -- [TRACE]...`, by default Zipf, a sweep and uniform accesses.

use frostline_profile::{Profile, Span};
use frostline_trace::MemTrace;
use std::time::Instant;

fn main() {
    let given: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let defaults = [
        "synth:zipf:pages=128K:accesses=20M",
        "synth:zipf:pages=4M:accesses=20M:init=off",
        "synth:scan:pages=1M:accesses=20M",
        "synth:uniform:pages=4M:accesses=20M:init=off",
    ];
    let traces = if given.is_empty() { defaults.map(str::to_owned).to_vec() } else { given };
    for name in traces {
        let mut source = frostline_workloads::open(&name).expect("a trace");
        let trace = MemTrace::capture(&mut *source).expect("room in memory");
        let mut reader = trace.reader().expect("just written");
        let started = Instant::now();
        let profile = Profile::of(&mut reader, Span::default(), |_| true).expect("readable");
        let seconds = started.elapsed().as_secs_f64();
        let (records, pages) = (profile.records(), profile.pages());
        let rate = records as f64 / seconds / 1e6;
        println!("{name}: {rate:.1} M records/s ({records} records, {pages} pages)");
    }
}
