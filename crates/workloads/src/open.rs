//! Sources of traces, opened by the names that users give them.

use crate::from_spec;
use frostline_trace::{TraceError, TraceReader, TraceSource};

/// Prefix of synthetic traces in the place of a path.
pub const SYNTH_PREFIX: &str = "synth:";

/// Opens `synth:NAME:key=value:...` as a generator and everything else as the path of a native
/// trace. A file whose name begins with `synth:` is reached as `./synth:...`.
///
/// # Errors
/// Those of [`from_spec`] and [`TraceReader::open`]; text and Parquet files are
/// named as such, with the command that converts them.
pub fn open(spec: &str) -> Result<Box<dyn TraceSource + Send>, TraceError> {
    if spec.starts_with(SYNTH_PREFIX) {
        from_spec(spec)
    } else {
        Ok(Box::new(TraceReader::open(spec)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_trace::{Batch, MemTrace};

    #[test]
    fn generators_and_files_open_alike() {
        let spec = "synth:uniform:pages=1000:accesses=5000:seed=3";
        let trace = MemTrace::capture(&mut *open(spec).unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.flt");
        std::fs::write(&path, trace.as_bytes()).unwrap();
        let (mut file, mut synth) = (open(path.to_str().unwrap()).unwrap(), open(spec).unwrap());
        assert_eq!(file.header().name, synth.header().name);
        let pages = |source: &mut dyn TraceSource| {
            let (mut pages, mut batch) = (Vec::new(), Batch::new());
            while source.next_batch(&mut batch).unwrap() {
                pages.extend_from_slice(&batch.pages);
            }
            pages
        };
        let found = pages(&mut *file);
        assert!(!found.is_empty());
        assert_eq!(found, pages(&mut *synth));
    }

    #[test]
    fn errors_name_what_was_opened() {
        let text = open("/nowhere/t.flt").err().unwrap().to_string();
        assert!(text.starts_with("/nowhere/t.flt: open: "), "{text}");
        assert!(open("synth:nosuch").err().unwrap().to_string().contains("hint:"));
    }
}
