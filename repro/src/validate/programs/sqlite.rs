//! SQLite's shell on a table in memory, asked for one row after the other.

use super::laws::{Keys, Law};
use super::recipe::{Loading, Plan, Recipe, missing_program, version_of};
use frostline_core::rng::Rng;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

const PROGRAM: &str = "sqlite3";

/// A table of rows with 100 bytes each and an index from keys to rows, as Silo has them; filled in
/// the order of keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sqlite {
    rows: u32,
    law: Law,
    requests: u32,
}

/// YCSB, Table 2: workload C.
pub(super) const YCSB_C: Sqlite = Sqlite { rows: 500_000, law: Law::Zipf(0.99), requests: 250_000 };

impl Recipe for Sqlite {
    fn missing(&self) -> Option<String> {
        missing_program(PROGRAM, PROGRAM)
    }

    fn version(&self) -> anyhow::Result<String> {
        version_of(&[PROGRAM, "--version"])
    }

    fn prepare(&self, dir: &Path) -> anyhow::Result<Plan> {
        let (script, loaded) = (dir.join("requests"), dir.join("loaded"));
        let mut out = BufWriter::new(File::create(&script)?);
        self.write(&mut out, &loaded)?;
        out.flush()?;
        let read = format!(".read '{}'", script.display());
        let command = [PROGRAM, "-batch", ":memory:", &read].map(Into::into).into();
        Ok(Plan { command, driver: None, loading: Loading::File(loaded) })
    }
}

impl Sqlite {
    #[cfg(test)]
    pub(super) const fn small(self) -> Self {
        Self { rows: 2000, requests: 500, ..self }
    }

    fn write(self, out: &mut impl Write, loaded: &Path) -> anyhow::Result<()> {
        writeln!(out, "create table usertable(key integer, value text);")?;
        writeln!(out, "create unique index keys on usertable(key);")?;
        writeln!(
            out,
            "insert into usertable select value, printf('%0100d', value) \
             from generate_series(0, {});",
            self.rows - 1
        )?;
        writeln!(out, ".output '{}'\n.output /dev/null", loaded.display())?;
        let mut keys = Keys::new(self.law, self.rows, Rng::new(1));
        for _ in 0..self.requests {
            writeln!(out, "select value from usertable where key = {};", keys.draw())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_rows_are_asked_for_every_time() {
        let [mut one, mut other] = [Vec::new(), Vec::new()];
        YCSB_C.small().write(&mut one, Path::new("/l")).unwrap();
        YCSB_C.small().write(&mut other, Path::new("/l")).unwrap();
        assert_eq!(one, other);
        let text = String::from_utf8(one).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with("select")).count(), 500);
    }
}
