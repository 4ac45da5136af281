//! libCacheSim, the peer of our LRU and CLOCK: a C library with Python bindings.

use crate::contest::Round;
use anyhow::{Context, Result, ensure};
use frostline_trace::{Batch, TraceSource};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peer/libcachesim_replay.py");

/// A Python in which `import libcachesim` works.
#[derive(Debug)]
pub struct LibCacheSim {
    python: PathBuf,
}

impl LibCacheSim {
    /// The one named by `FROSTLINE_PEER_PYTHON`, else the one that `make bench` installs below the
    /// folder of build results, else the system's; none where it cannot import the library.
    pub fn find() -> Option<Self> {
        let installed = std::env::current_exe().ok()?;
        let installed = installed.ancestors().map(|folder| folder.join("peer/bin/python"));
        let named = std::env::var_os("FROSTLINE_PEER_PYTHON").map(PathBuf::from);
        named.into_iter().chain(installed).chain([PathBuf::from("python3")]).find_map(|python| {
            let output = Command::new(&python).args(["-c", "import libcachesim"]).output();
            output.is_ok_and(|output| output.status.success()).then_some(Self { python })
        })
    }

    /// Replays the trace at `path` (see [`write_oracle_general`]) through `algorithm`, `lru` or
    /// `clock`, with `capacity` pages.
    ///
    /// The hash table starts with the power of two that is next below `pages`: of 2^20 to 2^24 that
    /// was its fastest for 4 M pages.
    ///
    /// # Errors
    /// Where the script fails; its output is part of the error.
    pub fn replay(
        &self,
        path: &Path,
        algorithm: &str,
        capacity: usize,
        pages: usize,
    ) -> Result<Round> {
        let output = Command::new(&self.python)
            .arg(SCRIPT)
            .arg(path)
            .arg(algorithm)
            .arg(capacity.to_string())
            .arg(pages.max(2).ilog2().to_string())
            .output()
            .context("cannot start Python")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "libCacheSim failed: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        parse(&text).with_context(|| format!("libCacheSim printed '{}'", text.trim()))
    }
}

fn parse(text: &str) -> Option<Round> {
    let mut fields = text.lines().last()?.split_whitespace();
    let work = fields.next()?.parse().ok()?;
    let check = fields.next()?.parse().ok()?;
    let seconds: f64 = fields.next()?.parse().ok()?;
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    fields.next().is_none().then_some(Round { time, work, check })
}

/// Writes the accesses of `source` in libCacheSim's format oracleGeneral: 24 bytes an access, time
/// in seconds (u32), object (u64), its size (u32) and the next access to it (i64, unused here),
/// all little-endian. Objects are pages plus 1, of size 1.
///
/// # Errors
/// Those of the trace and of `out`.
pub fn write_oracle_general(source: &mut dyn TraceSource, mut out: impl Write) -> Result<u64> {
    let mut batch = Batch::new();
    let mut accesses = 0;
    while source.next_batch(&mut batch)? {
        for &page in &batch.pages {
            let mut record = [0_u8; 24];
            record[4..12].copy_from_slice(&(u64::from(page) + 1).to_le_bytes());
            record[12..16].copy_from_slice(&1_u32.to_le_bytes());
            record[16..].copy_from_slice(&(-1_i64).to_le_bytes());
            out.write_all(&record)?;
        }
        accesses += batch.len() as u64;
    }
    out.flush()?;
    Ok(accesses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_peer_counts() {
        let round = Round { time: Duration::from_millis(1500), work: 10, check: 3 };
        assert_eq!(parse("warning\n10 3 1.5\n"), Some(round));
        for text in ["", "10 3", "10 x 1", "10 3 -1", "10 3 1 1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
