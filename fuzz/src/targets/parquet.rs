//! The two Parquet files of a trace, one behind the other; in front the length of the first.

use super::trace::example;
use crate::content::check_import;
use crate::target::Target;
use frostline_parquet::{ParquetSource, events_path, export};
use frostline_trace::MemTrace;
use std::path::PathBuf;

pub const TARGET: Target = Target {
    name: "parquet",
    check,
    seeds,
    words: &["PAR1", "frostline.header", "frostline.events", "clock", "page", "kind", "record"],
};

const MOST: usize = 1 << 17;

fn check(bytes: &[u8]) {
    let Some((head, files)) = bytes.split_first_chunk::<4>() else { return };
    let first = (u32::from_le_bytes(*head) as usize).min(files.len());
    let folder = super::tree::folder();
    let path = folder.path().join("input.parquet");
    std::fs::write(&path, &files[..first]).expect("there is room");
    std::fs::write(events_path(&path), &files[first..]).expect("there is room");
    check_import(|| ParquetSource::open(&path), MOST);
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = super::tree::folder();
    let path: PathBuf = folder.path().join("seed.parquet");
    let trace = MemTrace::from_bytes(example(), "seed");
    let mut reader = trace.reader().expect("it is good");
    export(&mut reader, &path, |_| true).expect("there is room");
    let files = [&path, &events_path(&path)].map(|path| std::fs::read(path).expect("written"));
    let head = (files[0].len() as u32).to_le_bytes();
    vec![[&head[..], &files[0], &files[1]].concat()]
}
