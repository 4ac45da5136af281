//! Decodes arbitrary bytes as a native trace. `crates/trace/tests/corpus.rs` runs the same check
//! over the corpus and seeded mutations of it on every test run.
#![no_main]

#[path = "../../crates/trace/tests/corpus_check/mod.rs"]
mod corpus_check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = corpus_check::check(bytes);
});
