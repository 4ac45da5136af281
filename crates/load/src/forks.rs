//! Processes forked from the load, which check what they inherit.

use crate::content::Recipe;
use crate::pace::Pace;
use crate::shared::Shared;
use crate::worker::Page;
use frostline_core::rng::Rng;
use rustix::process::{Pid, WaitOptions, waitpid};

/// Children of one worker at the same time.
const MOST_CHILDREN: usize = 4;
/// Pages that a child checks.
const SAMPLE: usize = 256;
/// One page in so many is then written by the child.
const WRITE_EVERY: usize = 8;

const CHILD_FOUND_A_FLAW: u8 = 1;

/// The children of a worker.
#[derive(Debug)]
pub struct Forks {
    pace: Pace,
    children: Vec<Pid>,
    /// Children started so far.
    pub started: u64,
}

impl Forks {
    /// Forks at this rate, as long as children end in time.
    pub fn new(per_second: f64) -> Self {
        Self { pace: Pace::new(per_second), children: Vec::new(), started: 0 }
    }

    /// Forks where it is due, and takes leave of children that have ended.
    pub fn tend(
        &mut self,
        seconds: f64,
        pages: &mut [Page<'_>],
        recipe: &Recipe,
        rng: &mut Rng,
        shared: &Shared,
    ) {
        self.reap(WaitOptions::NOHANG, shared);
        if self.pace.due(seconds) == 0 || self.children.len() >= MOST_CHILDREN {
            return;
        }
        let mut rng = rng.fork();
        match frostline_linux::in_forked_child(|| check_as_child(pages, recipe, &mut rng)) {
            Ok(pid) => {
                self.started += 1;
                self.children.extend(Pid::from_raw(pid as i32));
            }
            Err(error) => shared.found(format_args!("no child to check memory with: {error}")),
        }
    }

    /// Waits for all children.
    pub fn finish(&mut self, shared: &Shared) {
        self.reap(WaitOptions::empty(), shared);
    }

    fn reap(&mut self, options: WaitOptions, shared: &Shared) {
        self.children.retain(|child| match waitpid(Some(*child), options) {
            Ok(None) => true,
            Ok(Some((_, status))) => {
                if status.exit_status() != Some(0) {
                    shared.found(format_args!("a forked process ended with {status:?}"));
                }
                false
            }
            Err(error) => {
                shared.found(format_args!("waitpid: {error}"));
                false
            }
        });
    }
}

/// What a child does; its exit code. It checks random pages, writes some of them, which must not
/// reach the parent, and checks these again.
fn check_as_child(pages: &mut [Page<'_>], recipe: &Recipe, rng: &mut Rng) -> u8 {
    for i in 0..SAMPLE.min(pages.len()) {
        let page = &mut pages[rng.below(pages.len() as u64) as usize];
        let mut checked = page.check_fully();
        if checked.is_ok() && i % WRITE_EVERY == 0 {
            page.rewrite(recipe);
            checked = page.check_fully();
        }
        if let Err(flaw) = checked {
            let text = format!("page {} of a forked process: {flaw}\n", page.number);
            // Not through the standard library: another thread may have held its lock.
            let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
            return CHILD_FOUND_A_FLAW;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::PAGE_BYTES;

    fn fork_once(damage: bool) -> (u64, Shared) {
        let (recipe, shared) = (Recipe::new(1, 3.0), Shared::new(1));
        let mut memory = vec![[0u8; PAGE_BYTES]; 16];
        let mut pages: Vec<_> = memory
            .iter_mut()
            .zip(0..)
            .map(|(bytes, number)| Page { bytes, number, version: 0 })
            .collect();
        pages.iter_mut().for_each(|page| page.rewrite(&recipe));
        if damage {
            pages.iter_mut().for_each(|page| page.bytes[100] ^= 1);
        }
        let mut forks = Forks::new(1.0);
        forks.tend(1.0, &mut pages, &recipe, &mut Rng::new(1), &shared);
        forks.finish(&shared);
        let whole = pages.iter().all(|page| page.version == 1 && page.check_fully().is_ok());
        assert_eq!(whole, !damage, "what the child wrote did not reach the parent");
        (forks.started, shared)
    }

    #[test]
    fn children_check_what_they_inherit() {
        let (started, shared) = fork_once(false);
        assert_eq!((started, shared.findings().count), (1, 0));
    }

    #[test]
    fn a_child_that_finds_damage_is_heard_of() {
        let (started, shared) = fork_once(true);
        assert_eq!((started, shared.findings().count), (1, 1));
    }
}
