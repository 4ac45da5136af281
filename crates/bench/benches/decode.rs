//! Speed of reading the native format from memory on one core, with and without the optional
//! columns.

use anyhow::Result;
use frostline_bench::contest::{self, Contestant, Round};
use frostline_trace::batch::Want;
use frostline_trace::native::MemTrace;
use frostline_trace::{Batch, TraceSource};

const TRACE: &str = "synth:zipf:pages=4M:accesses=64M";
const ROUNDS: usize = 9;

fn main() -> Result<()> {
    let trace = MemTrace::capture(frostline_workloads::from_spec(TRACE)?.as_mut())?;
    let everything = Want { clock_deltas: true, lines: true };
    let contestant = |name: &str, want: Want| {
        let trace = &trace;
        Contestant::new(name, move || Round::measure(|| decode(trace, want)))
    };
    let records = decode(&trace, Want::default())?.0;
    println!("{TRACE}: {:.2} bytes a record", trace.len_bytes() as f64 / records as f64);
    let mut contestants = [
        contestant("pages, kinds, streams", Want::default()),
        contestant("all columns", everything),
    ];
    contest::run("native decode", ROUNDS, &mut contestants)?;
    Ok(())
}

/// Number of records, and the sum of their pages.
fn decode(trace: &MemTrace, want: Want) -> Result<(u64, u64)> {
    let mut reader = trace.reader()?;
    reader.want(want);
    let mut batch = Batch::new();
    let (mut records, mut sum) = (0, 0);
    while reader.next_batch(&mut batch)? {
        records += batch.len() as u64;
        sum += batch.pages.iter().map(|&page| u64::from(page)).sum::<u64>();
    }
    Ok((records, sum))
}
