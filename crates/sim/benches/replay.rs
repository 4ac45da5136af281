//! Accesses per second of a replay.
fn main() {}
