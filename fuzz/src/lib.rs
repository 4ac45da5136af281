//! Targets: functions that take any bytes and panic where something does not hold that must. A fuzzer searches
//! for such bytes (`make fuzz`), and a test takes what is in `corpus` and mutations of it.
#![forbid(unsafe_code)]

pub mod content;
pub mod memory;
pub mod mutate;
mod targets;

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

/// All targets.
pub const TARGETS: &[Target] = targets::ALL;

/// The target of this name.
pub fn find(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}

/// Panics of the Parquet library, which its caller turns into errors, are not printed, which takes much memory, and
/// end no process. One that is turned into nothing ends it all the same, a little later.
pub fn pass_over_caught_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.location().is_none_or(|place| !place.file().contains("/parquet-")) {
            usual(info);
        }
    }));
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
