//! Plain LRU and CLOCK beside libCacheSim's, on the same trace, with the same miss counts: Zipf
//! (0.99) over 4 M pages, 20 M accesses after each page was written once, a cache of one ninth of
//! them. Each reads the trace in its own format from memory; reading is part of the time.

use anyhow::{Context, Result};
use frostline_bench::clock::Clock;
use frostline_bench::contest::{self, Contestant, Round};
use frostline_bench::lru::Lru;
use frostline_bench::peer::{self, LibCacheSim};
use frostline_bench::{PageCache, replay};
use frostline_trace::native::MemTrace;
use std::fs::File;
use std::io::BufWriter;

const TRACE: &str = "synth:zipf:pages=4M:accesses=20M";
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let trace = MemTrace::capture(frostline_workloads::from_spec(TRACE)?.as_mut())?;
    let pages = pages(&trace)?;
    let capacity = pages / 9;
    println!("{TRACE}: {pages} pages, cache of {capacity}");

    let peer = LibCacheSim::find();
    if peer.is_none() {
        println!("libCacheSim: skipped, no Python can import it (`make bench` installs it)");
    }
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let foreign = folder.path().join("trace.oracleGeneral");
    if peer.is_some() {
        let file = File::create(&foreign).context("cannot write the trace for libCacheSim")?;
        peer::write_oracle_general(&mut trace.reader()?, BufWriter::new(file))?;
    }

    for name in ["lru", "clock"] {
        let ours = Contestant::new(format!("frostline {name}"), || {
            let mut cache: Box<dyn PageCache> = match name {
                "lru" => Box::new(Lru::new(capacity, pages)),
                _ => Box::new(Clock::new(capacity, pages)),
            };
            let mut reader = trace.reader()?;
            Round::measure(|| {
                let accesses = replay(&mut reader, cache.as_mut())?;
                Ok((accesses, cache.misses()))
            })
        });
        let mut contestants = vec![ours];
        if let Some(peer) = &peer {
            contestants.push(Contestant::new(format!("libCacheSim {name}"), || {
                peer.replay(&foreign, name, capacity, pages)
            }));
        }
        contest::run(&format!("{name}, equal misses"), ROUNDS, &mut contestants)?;
    }
    Ok(())
}

/// One more than the highest page id.
fn pages(trace: &MemTrace) -> Result<usize> {
    let mut reader = trace.reader()?;
    let mut batch = frostline_trace::Batch::new();
    let mut pages = 0;
    while frostline_trace::TraceSource::next_batch(&mut reader, &mut batch)? {
        pages = pages.max(batch.pages.iter().map(|&page| page as usize + 1).max().unwrap_or(0));
    }
    Ok(pages)
}
