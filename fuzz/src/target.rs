//! Target of the fuzzer: what reads foreign input, and what it begins with.

use crate::memory;

/// Something that reads foreign input.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also of its folder in `corpus`.
    pub name: &'static str,
    /// Panics where the bytes show that something does not hold that must.
    pub check: fn(&[u8]),
    /// Good input to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// What good input is made of, for the fuzzer to put together.
    pub words: &'static [&'static str],
}

impl Target {
    /// Checks within the limit of memory.
    ///
    /// # Panics
    /// Where something does not hold that must.
    pub fn run(&self, bytes: &[u8]) {
        memory::limited(bytes.len(), || (self.check)(bytes));
    }

    /// The words as libFuzzer reads them from a file.
    pub fn dictionary(&self) -> String {
        let escaped = |word: &str| {
            let byte = |byte: u8| match byte {
                b'"' | b'\\' => format!("\\{}", char::from(byte)),
                b' '..=b'~' => char::from(byte).to_string(),
                other => format!("\\x{other:02x}"),
            };
            word.bytes().map(byte).collect::<String>()
        };
        self.words.iter().map(|word| format!("\"{}\"\n", escaped(word))).collect()
    }
}

/// Texts as input.
pub fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
