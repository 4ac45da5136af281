//! Command lines, errors, progress and output, the same in all programs of Frostline.
//!
//! # What every subcommand keeps to
//!
//! * Data goes to standard output, everything else (progress, notes, errors) to standard error.
//! * An error is printed as `error: what: why`, then `hint: ...` where there is a remedy; see
//!   [`errors`].
//! * Exit codes: 0 done; 1 failed; 2 wrong usage; 128 + number after a signal (130 for Ctrl-C).
//! * A reader that goes away (`frostline ... | head`) ends the program silently, with 0.
//! * Files appear under their names when they are complete: [`files`].
#![forbid(unsafe_code)]

pub mod args;
pub mod cancel;
pub mod completions;
pub mod digest;
pub mod errors;
pub mod files;
pub mod limit;
pub mod located;
pub mod output;
pub mod progress;
