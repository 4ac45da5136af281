//! Ages beside an exact count, and what is foreseen from them.

use super::*;
use alloc::vec;
use frostline_core::rng::Rng;

const SECOND: u64 = 1_000_000_000;
const INTERVAL: u64 = 4;

fn at(second: u64) -> Nanos {
    Nanos(second * SECOND)
}

fn populated(pages: u32) -> [Event; 1] {
    let run = PageRun::between(0, pages);
    [Event::Populated { run, tier: TierId::FAST, huge: false }]
}

fn ages(pages: u32) -> Ages {
    let mut ages = Ages {
        stamps: Vec::new(),
        bins: Default::default(),
        began: Nanos::ZERO,
        swept: Swept::default(),
        told: Nanos::ZERO,
        ended: Nanos::ZERO,
        pending: 0.0,
        counted: None,
    };
    ages.follow(Nanos::ZERO, &populated(pages), pages);
    ages
}

/// Sweeps every few seconds over a program whose pages are touched with these probabilities in one; a core is busy.
fn watch(
    ages: &mut Ages,
    seconds: core::ops::Range<u64>,
    touches: &mut dyn FnMut(u64, u32) -> bool,
) {
    let pages = ages.stamps.len() as u32;
    let mut seen = vec![false; pages as usize];
    for second in seconds {
        (0..pages).for_each(|page| seen[page as usize] |= touches(second, page));
        if second % INTERVAL == 0 {
            for page in (0..pages).filter(|page| core::mem::take(&mut seen[*page as usize])) {
                ages.touched(at(second), PageId(page), true);
            }
        }
        let swept = Swept { times: second / INTERVAL, interval: at(INTERVAL) };
        ages.second(at(second), 1e9, swept);
    }
}

#[test]
fn bins_are_half_octaves() {
    let mut last = 0;
    for age in 1..=OLDEST {
        let bin = bin(age);
        assert!(bin == last || bin == last + 1 || age < 3, "{age}");
        let units = youngest(bin).0 >> UNIT_BITS;
        assert!(units <= age.into() && u64::from(age) < 2 * units, "{age} in {bin} from {units}");
        last = bin;
    }
    assert_eq!((bin(0), bin(TIMES), last), (bin(1), BINS - 1, BINS - 1));
}

#[test]
fn touches_of_old_pages_are_foreseen() {
    // A tenth is hot, a third is touched once in 50 s, the rest never.
    let (pages, mut rng) = (3000, Rng::new(7));
    let mut ages = ages(pages);
    let mut touches = |_, page| match page {
        0..300 => true,
        300..1300 => rng.unit_f64() < 0.02,
        _ => false,
    };
    watch(&mut ages, 1..401, &mut touches);
    let cold = ages.cold(at(400));
    assert!(cold.len() >= 8, "{cold:?}");
    assert!(cold.windows(2).all(|two| two[0].pages <= two[1].pages));
    assert!(cold.windows(2).all(|two| two[0].returns <= two[1].returns));
    assert!(cold.iter().all(|cold| cold.most_returns > cold.returns));
    let last = cold.last().unwrap();
    // Of a page that is touched once in 50 s, two touches are 6 s or more apart in exp(-6 / 50) of all cases.
    let expected = 1000.0 * 0.02 * 0.88;
    assert!((last.returns / expected - 1.0).abs() < 0.15, "{last:?}");
    assert!((2500..2700).contains(&last.pages.0), "{last:?}");
    let never = cold.iter().rfind(|cold| cold.most_returns < 3.0).unwrap();
    assert!((1700..1850).contains(&never.pages.0), "{cold:?}");
}

#[test]
fn what_has_been_seen_once_is_not_taken_for_all_there_is() {
    // All pages are touched every 60 s.
    let mut ages = ages(1000);
    let mut touches = |second: u64, _| second.is_multiple_of(60);
    assert_eq!(ages.cold(at(0)), []);
    watch(&mut ages, 1..59, &mut touches);
    let early = ages.cold(at(58));
    assert!(early.last().is_some_and(|cold| cold.pages.0 == 1000 && cold.returns == 0.0));
    watch(&mut ages, 59..600, &mut touches);
    let most = ages.cold(at(599)).last().copied().unwrap();
    assert!((most.returns - 1000.0 / 60.0).abs() < 4.0, "{most:?}");
}

#[test]
fn what_is_known_early_is_not_less_than_later() {
    // Between two sweeps, and just after them.
    for seconds in [13, 15, 16, 19, 40, 401] {
        let mut rng = Rng::new(seconds);
        let mut ages = ages(9000);
        watch(&mut ages, 1..seconds + 1, &mut |_, _| rng.unit_f64() < 0.1);
        ages.count(at(seconds));
        let cold = ages.cold(at(seconds)).last().copied().unwrap();
        let rate = cold.returns / cold.pages.0 as f64;
        assert!((rate / 0.1 - 1.0).abs() < 0.2, "{rate} after {seconds} s: {cold:?}");
    }
}

#[test]
fn without_sweeps_nothing_is_known() {
    let mut ages = ages(1000);
    watch(&mut ages, 1..100, &mut |_, _| false);
    assert!(!ages.cold(at(100)).is_empty());
    for second in 100..130 {
        ages.second(at(second), 1e9, Swept { times: 24, interval: at(INTERVAL) });
    }
    assert_eq!(ages.cold(at(130)), []);
}

#[test]
fn who_comes_is_young_and_who_goes_is_not_counted() {
    let mut ages = ages(1000);
    watch(&mut ages, 1..100, &mut |_, _| false);
    let pages = |ages: &mut Ages, now| {
        ages.count(at(now));
        let cold = ages.cold(at(now));
        (cold.last().unwrap().pages.0, cold.last().unwrap().returns)
    };
    assert_eq!(pages(&mut ages, 100), (1000, 0.0));
    ages.follow(at(100), &[Event::Freed { run: PageRun::between(0, 400) }], 1000);
    assert_eq!(pages(&mut ages, 100), (600, 0.0));
    // They come anew, and their first touch is no return.
    ages.follow(at(100), &populated(400), 1000);
    assert_eq!(pages(&mut ages, 100), (600, 0.0));
    (0..400).for_each(|page| ages.touched(at(101), PageId(page), true));
    assert_eq!(pages(&mut ages, 101), (600, 0.0));
    ages.touched(at(101), PageId(500), true);
    ages.second(at(101), 1e9, ages.swept);
    assert!(pages(&mut ages, 101).1 > 0.0);
    ages.touched(at(101), PageId(5000), true);
}

#[test]
fn times_come_round() {
    let mut ages = ages(10);
    let later = u64::from(TIMES) * 2;
    for second in 1..later {
        ages.second(at(second), 1e9, Swept { times: second, interval: at(1) });
    }
    let cold = ages.cold(at(later));
    assert!(cold.iter().all(|cold| cold.pages.0 == 10 && cold.returns == 0.0), "{cold:?}");
    assert_eq!(cold.len(), BINS - 5, "from one and a half seconds on");
}
