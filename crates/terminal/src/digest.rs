//! Digests of input files, by which a result names what it was computed from.

use anyhow::Context;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// SHA-256 of a regular file, in hexadecimal digits; `None` for what is none, such as a pipe or the
/// description of a generated trace.
///
/// # Errors
/// Where a file is there and cannot be read.
pub fn sha256(path: &Path) -> anyhow::Result<Option<String>> {
    if !path.is_file() {
        return Ok(None);
    }
    let context = || format!("cannot read {}", path.display());
    let mut file = BufReader::with_capacity(PIECE, File::open(path).with_context(context)?);
    let mut digest = Sha256::new();
    loop {
        let piece = file.fill_buf().with_context(context)?;
        if piece.is_empty() {
            break;
        }
        digest.update(piece);
        let count = piece.len();
        file.consume(count);
    }
    Ok(Some(hexadecimal(digest)))
}

/// SHA-256 of a text, in hexadecimal digits.
pub fn sha256_of(text: &str) -> String {
    hexadecimal(Sha256::new_with_prefix(text))
}

fn hexadecimal(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_digests_and_descriptions_have_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").expect("written");
        // FIPS 180-2, B.1.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&path).expect("readable").as_deref(), Some(known));
        assert_eq!(sha256_of("abc"), known);
        assert_eq!(sha256(Path::new("synth:zipf")).expect("nothing is read"), None);
        assert_eq!(sha256(folder.path()).expect("nothing is read"), None);
    }
}
