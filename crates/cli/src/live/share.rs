//! Shares of fast memory among programs for which it does not suffice.
//!
//! The rule: nobody gets more than it wants. While all wants fit, everybody gets what it wants.
//! Otherwise a tenth of the total is set aside in equal parts, so that nobody is left with
//! nothing; of the rest, the highest priority takes what it wants first, then the next, so that
//! the lowest gives way first. Programs of equal priority that cannot all be served get parts in
//! proportion to what they still want.

/// What is set aside for everybody: one part in so many.
const SET_ASIDE: u64 = 10;

/// What one program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The higher, the later it gives way.
    pub priority: u8,
    /// Fast memory.
    pub bytes: u64,
}

/// What each gets of `total`, in the order of `wants`. Rounding may leave fewer bytes over than
/// there are programs.
pub fn share(total: u64, wants: &[Want]) -> Vec<u64> {
    let wanted: u128 = wants.iter().map(|want| u128::from(want.bytes)).sum();
    if wanted <= u128::from(total) {
        return wants.iter().map(|want| want.bytes).collect();
    }
    let part = total / SET_ASIDE / wants.len() as u64;
    let mut got: Vec<u64> = wants.iter().map(|want| want.bytes.min(part)).collect();
    let mut left = total - got.iter().sum::<u64>();
    let mut priorities: Vec<u8> = wants.iter().map(|want| want.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    for priority in priorities.into_iter().rev() {
        let group = wants.iter().enumerate().filter(|(_, want)| want.priority == priority);
        let open: Vec<(usize, u64)> = group.map(|(i, want)| (i, want.bytes - got[i])).collect();
        let all: u128 = open.iter().map(|(_, bytes)| u128::from(*bytes)).sum();
        let given = all.min(u128::from(left));
        for (i, bytes) in open {
            // At most `bytes`, because at most all of it is given.
            let gets = (u128::from(bytes) * given).checked_div(all).unwrap_or(0) as u64;
            got[i] += gets;
            left -= gets;
        }
    }
    got
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::rng::Rng;

    fn shared(total: u64, wants: &[(u8, u64)]) -> Vec<u64> {
        let wants: Vec<Want> =
            wants.iter().map(|&(priority, bytes)| Want { priority, bytes }).collect();
        share(total, &wants)
    }

    #[test]
    fn what_fits_is_granted() {
        assert_eq!(shared(100, &[(1, 40), (2, 60)]), [40, 60]);
        assert!(shared(100, &[]).is_empty());
        assert_eq!(shared(0, &[(1, 0)]), [0]);
    }

    #[test]
    fn the_lowest_priority_gives_way_first() {
        assert_eq!(shared(1000, &[(90, 600), (50, 300), (10, 300)]), [600, 300, 100]);
        assert_eq!(shared(1000, &[(10, 300), (90, 600), (50, 400)]), [33, 600, 367]);
        assert_eq!(shared(1000, &[(10, 900), (90, 2000)]), [50, 950]);
    }

    #[test]
    fn equal_priorities_share_in_proportion() {
        let got = shared(1000, &[(50, 1000), (50, 3000)]);
        assert!((999..=1000).contains(&got.iter().sum::<u64>()), "{got:?}");
        assert!(got[0] * 5 / 2 < got[1] && got[1] < got[0] * 3, "{got:?}");
        assert_eq!(shared(1000, &[(50, 20), (50, 5000)]), [20, 980]);
    }

    #[test]
    fn no_numbers_break_the_rule() {
        let mut rng = Rng::new(7);
        let mut below = |n: u64| rng.below(n);
        for round in 0..20_000 {
            let scale = if round % 5 == 0 { u64::MAX / 8 } else { 1000 };
            let count = below(6);
            let wants: Vec<Want> = (0..count)
                .map(|_| Want {
                    priority: 1 + below(4) as u8,
                    bytes: below(1000).saturating_mul(scale / 1000),
                })
                .collect();
            let total = below(1500).saturating_mul(scale / 1000);
            let got = share(total, &wants);
            let sum: u128 = got.iter().map(|n| u128::from(*n)).sum();
            let wanted: u128 = wants.iter().map(|want| u128::from(want.bytes)).sum();
            assert!(wants.iter().zip(&got).all(|(want, got)| *got <= want.bytes));
            let target = wanted.min(u128::from(total));
            assert!(
                sum <= target && sum + u128::from(count) >= target,
                "{total} {wants:?} {got:?}"
            );
            let part = total / SET_ASIDE / count.max(1);
            for (a, a_got) in wants.iter().zip(&got) {
                assert!(*a_got >= a.bytes.min(part), "{total} {wants:?} {got:?}");
                let short = a_got + count < a.bytes;
                for (b, b_got) in wants.iter().zip(&got).filter(|_| short) {
                    let beyond = b.priority < a.priority && *b_got > part + count;
                    assert!(!beyond, "{total} {wants:?} {got:?}");
                }
            }
        }
    }
}
