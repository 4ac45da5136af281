//! Runs in the lab, and their results. `docs/notes/lab.md` describes the lab.
#![forbid(unsafe_code)]

pub mod advice;
pub mod compare;
pub mod measured;
pub mod programs;
pub mod systems;
pub mod trial;
pub mod truth;
pub mod validate;
