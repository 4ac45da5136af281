//! Waiting for a condition instead of for a time, and finding moments that are before and after it.

use std::time::{Duration, Instant};

/// Longer than anything takes that works, on a machine that does much else.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until something is so.
///
/// # Panics
/// Where it is not so within [`TIMEOUT`].
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()).ok_or_else(String::new));
}

/// Waits until something succeeds; what it gives. What others do on the same machine may keep it
/// from that for a while.
///
/// # Panics
/// Where it does not within [`TIMEOUT`], with the last reason why.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) => {
                assert!(began.elapsed() < TIMEOUT, "not within {TIMEOUT:?}: {what}: {why}")
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Moments around the one at which something is done that takes longer on one machine than on
/// another. Each is told by how long after the beginning it is.
///
/// A moment that was too late is followed by one half as late, and one that was too early by one
/// half as late again: sooner or later there are both, and most are close to the end of what is done.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    next: Duration,
}

impl Moments {
    /// With this as the first one.
    pub fn from(first: Duration) -> Self {
        Self { next: first }
    }

    /// The next one.
    pub fn next(&self) -> Duration {
        self.next
    }

    /// Takes note whether it was done already at that moment.
    pub fn was_done(&mut self, done: bool) {
        self.next = match done {
            true => self.next / 2,
            false => (self.next * 3 / 2 + Duration::from_millis(1)).min(TIMEOUT),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_true_later_is_waited_for() {
        let mut looks = 0;
        let mut third = || {
            looks += 1;
            (looks == 3).then_some(looks).ok_or_else(|| "too early".to_owned())
        };
        assert_eq!(wait_for("the third look", &mut third), 3);
    }

    #[test]
    fn moments_are_soon_before_and_after_whatever_it_takes() {
        for takes in [0, 1, 700, 90_000].map(Duration::from_millis) {
            let mut moments = Moments::from(Duration::from_millis(50));
            let (mut before, mut after) = (0, 0);
            for _ in 0..60 {
                let done = moments.next() > takes;
                *if done { &mut after } else { &mut before } += 1;
                moments.was_done(done);
            }
            assert!(before > 9 || takes.is_zero(), "{takes:?}: {before} {after}");
            assert!(after > 9, "{takes:?}: {before} {after}");
        }
    }
}
