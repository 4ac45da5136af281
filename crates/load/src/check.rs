//! Where the pages of a running load are, as the kernel says.

use crate::args::CheckArgs;
use crate::truth::Truth;
use anyhow::{Context, ensure};
use frostline_core::PAGE_BYTES;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Bits of an entry of /proc/PID/pagemap, Documentation/admin-guide/mm/pagemap.rst.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const ENTRY_BYTES: usize = 8;
/// Entries read in one go.
const CHUNK: usize = 1 << 16;

/// Where some pages are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Places {
    pages: u64,
    present: u64,
    swapped: u64,
    /// Neither; never written, or freed.
    absent: u64,
}

#[derive(Debug, Serialize)]
struct Answer {
    pid: u32,
    generation: u32,
    hot: Places,
    cold: Places,
}

/// Prints where the pages are.
///
/// # Errors
/// Where the file cannot be read, the load has ended, or rights to look at it are missing.
pub fn run(args: &CheckArgs) -> anyhow::Result<()> {
    let truth = Truth::read(&args.truth)?;
    let answer = examine(&truth)?;
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &answer)?;
        writeln!(out)?;
    } else {
        writeln!(out, "       pages  present  swapped   absent")?;
        for (name, places) in [("hot", &answer.hot), ("cold", &answer.cold)] {
            let percent =
                |n: u64| format!("{:.1} %", 100.0 * n as f64 / places.pages.max(1) as f64);
            writeln!(
                out,
                "{name:4} {:>7}  {:>7}  {:>7}  {:>7}",
                places.pages,
                percent(places.present),
                percent(places.swapped),
                percent(places.absent)
            )?;
        }
    }
    Ok(out.flush()?)
}

fn examine(truth: &Truth) -> anyhow::Result<Answer> {
    let path = format!("/proc/{}/pagemap", truth.pid);
    let pagemap = File::open(&path).with_context(|| format!("cannot open {path}"))?;
    let (mut hot, mut cold) = (Places::default(), Places::default());
    let mut ranges = truth.hot.iter().peekable();
    let mut bytes = vec![0; CHUNK * ENTRY_BYTES];
    let mut page = 0;
    while page < truth.pages {
        let pages = CHUNK.min((truth.pages - page) as usize);
        let bytes = &mut bytes[..pages * ENTRY_BYTES];
        let first = truth.start / PAGE_BYTES + u64::from(page);
        pagemap
            .read_exact_at(bytes, first * ENTRY_BYTES as u64)
            .with_context(|| format!("cannot read {path}"))?;
        for entry in bytes.as_chunks().0 {
            while ranges.next_if(|range| range.end <= page).is_some() {}
            let is_hot = ranges.peek().is_some_and(|range| range.contains(&page));
            let places = if is_hot { &mut hot } else { &mut cold };
            let entry = u64::from_ne_bytes(*entry);
            places.pages += 1;
            places.present += u64::from(entry & PRESENT != 0);
            places.swapped += u64::from(entry & SWAPPED != 0);
            places.absent += u64::from(entry & (PRESENT | SWAPPED) == 0);
            page += 1;
        }
    }
    ensure!(
        hot.absent + cold.absent < u64::from(truth.pages),
        "process {} has no such memory\nhint: the load that wrote the file may have ended",
        truth.pid
    );
    Ok(Answer { pid: truth.pid, generation: truth.generation, hot, cold })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::Area;

    #[test]
    fn own_pages_are_found_and_hot_ones_told_apart() {
        let mut area = Area::map(64, false).expect("memory");
        let truth = Truth {
            pid: std::process::id(),
            start: area.start(),
            pages: 64,
            generation: 0,
            hot: vec![0..4, 10..12],
        };
        assert!(examine(&truth).is_err(), "nothing is there before it is written");
        area.pages_mut()[..11].iter_mut().for_each(|page| page[0] = 1);
        let answer = examine(&truth).expect("own memory can be looked at");
        assert_eq!((answer.hot.pages, answer.hot.absent), (6, 1));
        assert_eq!((answer.cold.pages, answer.cold.absent), (58, 52));
        assert_eq!(answer.hot.present + answer.hot.swapped, 5);
    }
}
