//! Targets: functions that take any bytes and panic where something does not hold that must. A fuzzer searches
//! for such bytes (`make fuzz`), and a test takes what is in `corpus` and mutations of it.
#![forbid(unsafe_code)]

pub mod content;
pub mod memory;
pub mod mutate;
mod target;
mod targets;

pub use target::Target;

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
