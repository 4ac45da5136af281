//! Memory pressure of a group, as the kernel's pressure stall information tells it.
//!
//! Source: `Documentation/accounting/psi.rst` in the kernel.

use crate::Root;
use crate::groups::{Group, Version};
use frostline_core::types::Nanos;

/// Time in which some of a group's threads waited for memory: to be reclaimed, or to come back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Share of the last ten seconds.
    pub share: f64,
    /// Sum since the group was made.
    pub total: Nanos,
}

impl Pressure {
    /// That of a group; `None` in the first version's trees, and where the kernel does not count it.
    pub fn read(root: &Root, group: &Group) -> Option<Self> {
        let is_v2 = group.version() == Version::Two;
        let text = is_v2.then(|| root.read(group.folder().join("memory.pressure")).ok())??;
        parse(&text)
    }
}

fn parse(text: &str) -> Option<Pressure> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let of =
        |name: &str| some.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let percent: f64 = of("avg10")?.parse().ok()?;
    let microseconds: u64 = of("total")?.trim().parse().ok()?;
    let share = Some(percent / 100.0).filter(|share| (0.0..=1.0).contains(share))?;
    Some(Pressure { share, total: Nanos(microseconds.saturating_mul(1000)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_some_counts() {
        let text = "some avg10=1.50 avg60=0.40 avg300=0.10 total=123\nfull avg10=9 avg60=0 avg300=0 total=7\n";
        assert_eq!(parse(text), Some(Pressure { share: 0.015, total: Nanos(123_000) }));
        for bad in [
            "",
            "full avg10=1.00 total=7",
            "some avg10=nan total=1",
            "some total=1",
            "some avg10=1",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
