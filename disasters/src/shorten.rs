//! Shorter ways to what a seed has found.

use crate::disaster::{Disaster, Without};
use crate::world::{Find, Played};

/// Fewest steps, and fewest kinds of disasters, with which `play` still finds something wrong, beginning
/// with what was found within `steps` steps of all of them.
pub fn shorten(
    play: impl Fn(u64, Without) -> Result<Played, Find>,
    steps: u64,
    find: Find,
) -> (u64, Without, Find) {
    let mut shortest = (steps, Without::default(), find);
    let shorten_steps = |shortest: &mut (u64, Without, Find)| {
        let (mut least, mut most) = (0, shortest.0);
        while least < most {
            let middle = least + (most - least) / 2;
            match play(middle, shortest.1) {
                Err(find) => {
                    (shortest.0, shortest.2) = (middle, find);
                    most = middle;
                }
                Ok(_) => least = middle + 1,
            }
        }
    };
    shorten_steps(&mut shortest);
    for &disaster in Disaster::ALL {
        let without = shortest.1.and(disaster);
        if let Err(find) = play(shortest.0, without) {
            shortest = (shortest.0, without, find);
        }
    }
    shorten_steps(&mut shortest);
    shortest
}
