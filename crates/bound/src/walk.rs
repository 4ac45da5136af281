//! The best residencies of one page at given prices: a Viterbi pass over two states, slow and
//! fast.
//!
//! Only the advantage of being fast over being slow has to be carried along. Leaving is possible
//! at any time for the price of a demotion, hence the advantage never exceeds it (what is above
//! goes to the slow state's value); entering is possible at any time, hence it never falls below
//! minus the price of a promotion. The two clamps also tell where the best path changes state:
//! where the advantage meets the upper one, both states' best paths come from fast, where it meets
//! the lower one, both come from slow. The boundary between them is where the clamp was last met.

use crate::matrix::{FREED, code_of, tick_of};
use crate::prices::Prices;

/// Savings and costs as the pass needs them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) prices: &'a Prices,
    /// By entry code, in nanoseconds.
    pub(crate) savings: [f64; 4],
    pub(crate) promotion_cost_ns: f64,
    pub(crate) demotion_cost_ns: f64,
    /// Ticks that an access itself occupies, 0 or 1.
    pub(crate) access_ticks: u32,
    /// End of time.
    pub(crate) ticks: u32,
}

/// Which state the best path is known to have been in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Nothing,
    Slow,
    Fast,
}

/// Value of the best residencies of a page, each handed to `resident` as `[start, end)` in ticks,
/// in order.
#[inline]
pub(crate) fn best(entries: &[u32], terms: &Terms<'_>, mut resident: impl FnMut(u32, u32)) -> f64 {
    let mut value = 0.0;
    let mut rest = entries;
    while let Some(&first) = rest.first() {
        let (life, used) = best_life(rest, tick_of(first), terms, &mut resident);
        value += life;
        rest = &rest[used..];
    }
    value
}

/// From a page's birth to its end; the value, and the entries that it took.
#[inline]
fn best_life(
    entries: &[u32],
    birth: u32,
    terms: &Terms<'_>,
    resident: &mut impl FnMut(u32, u32),
) -> (f64, usize) {
    let Terms { prices, savings, promotion_cost_ns, demotion_cost_ns, access_ticks, ticks } =
        *terms;
    let lower = -promotion_cost_ns;
    let access_share = f64::from(access_ticks);
    let mut paid = prices.at(birth).0;
    let (mut slow_value, mut advantage) = (0.0, 0.0f64);
    let mut known = Known::Nothing;
    let mut enter = birth;
    let (mut last_lower, mut last_upper) = (birth, birth);
    let mut death = ticks;
    let mut used = entries.len();

    for (i, &entry) in entries.iter().enumerate() {
        let code = code_of(entry);
        let tick = tick_of(entry);
        if code == usize::from(FREED) {
            death = tick;
            used = i + 1;
            break;
        }
        let (before, slope) = prices.at(tick);
        let own = slope * access_share;
        advantage -= before - paid;
        paid = before + own;
        if advantage < lower {
            advantage = lower;
            last_lower = tick;
            if known == Known::Fast {
                resident(enter, last_upper);
            }
            known = Known::Slow;
        }
        advantage += savings[code] - own;
        if advantage > demotion_cost_ns {
            slow_value += advantage - demotion_cost_ns;
            advantage = demotion_cost_ns;
            last_upper = tick + access_ticks;
            if known == Known::Slow {
                enter = last_lower;
            }
            known = Known::Fast;
        }
    }

    advantage -= prices.cumulative(death) - paid;
    if advantage > 0.0 {
        if known == Known::Slow {
            enter = last_lower;
        }
        resident(enter, death);
        slow_value += advantage;
    } else if known == Known::Fast {
        resident(enter, last_upper);
    }
    (slow_value, used)
}
