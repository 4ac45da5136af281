//! Moves of pages between nodes and swap, and advice that leads to them.

pub mod advise;
pub mod damon;
pub mod migrate;
