//! Couples the engine to a live system.
#![forbid(unsafe_code)]
