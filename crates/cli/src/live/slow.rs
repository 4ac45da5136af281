//! Slow tiers: chosen, set up before, taken down afterwards.

use frostline_core::spec::SpecError;
use frostline_core::types::Bytes;
use frostline_driver::{Options, SlowTier, SlowTiers};
use frostline_linux::Root;
use frostline_linux::changes::{Changes, SwapOff, restore};
use frostline_linux::process;
use frostline_linux::swap::zram::{Zram, ZramOptions};
use frostline_linux::swap::{self, PAGE_CLUSTER};
use frostline_linux::topology::{self, Topology};
use frostline_terminal::errors::ResultExt;
use frostline_terminal::progress::note;
use std::path::PathBuf;

/// The slow tier where the user names none, and why it is that.
pub fn choose(root: &Root) -> (SlowTier, String) {
    let none = |why: &str| (SlowTier::Observe, format!("nothing is moved: {why}"));
    let topology = match Topology::read(root) {
        Ok(topology) => topology,
        Err(error) => return none(&error.to_string()),
    };
    match topology.slow_tier_candidates().first() {
        Some(topology::SlowTier::Node(node)) => {
            (SlowTier::Node(*node), format!("slow tier: node {node}, of a lower memory tier"))
        }
        Some(topology::SlowTier::Zram) if rustix::process::geteuid().is_root() => {
            let tier = SlowTier::Zram { size: None, algorithm: None, spills: false };
            (tier, "slow tier: zram; all memory of this machine is of one tier".into())
        }
        Some(topology::SlowTier::Zram) => none("setting up zram takes root"),
        None => none("there is no slower node, and no zram in this kernel"),
    }
}

/// Chooses the slow tier where the user names none, and says why it is that.
///
/// # Errors
/// A limit of a tier that is not there.
pub fn settle(root: &Root, options: &mut Options) -> Result<Option<String>, SpecError> {
    let mut why = None;
    options.settle(|| {
        let (tier, because) = choose(root);
        why = Some(because);
        tier
    })?;
    Ok(why)
}

/// What was set up.
pub struct SlowMemory {
    changes: Changes,
    zram: Option<Zram>,
}

impl SlowMemory {
    /// Sets up what the tiers need. Every change is written down before it is made, for
    /// `frostline doctor --undo`.
    ///
    /// # Errors
    /// Where rights or the kernel's support are missing.
    pub fn set_up(root: &Root, tiers: &SlowTiers) -> anyhow::Result<Self> {
        let changes = Changes::of_this_process(root)?;
        let mut memory = Self { changes, zram: None };
        if tiers.swap().is_some() {
            memory.changes.set(PAGE_CLUSTER, "0").or_hint(
                "cannot set up the slow tier",
                "run as root, or choose --slow none to watch only",
            )?;
        }
        if let Some(SlowTier::Zram { size, algorithm, .. }) = tiers.zram() {
            let size = size.unwrap_or_else(|| total_memory(root));
            let options = ZramOptions { size, algorithm: algorithm.clone() };
            match Zram::create(&memory.changes, &options) {
                Ok(zram) => {
                    if let Ok(Some(others)) = swap::never_behind(root, Some(&zram.device())) {
                        note(&format!(
                            "swap of the highest priority does not come after zram: {others}; nothing \
                             is paged out while it has room, unless it is compressed\nhint: {}",
                            swap::LOWER
                        ));
                    }
                    memory.zram = Some(zram);
                }
                Err(error) => {
                    memory.take_down();
                    return Err(error.into());
                }
            }
        }
        // What runs that were killed have left. Whoever may not undo it lets it be.
        let _ = restore(root, SwapOff::WhenUnused);
        Ok(memory)
    }

    /// Whether it is swap space of our own, which stays as long as pages are on it.
    pub fn is_own_swap(&self) -> bool {
        self.zram.is_some()
    }

    /// The only swap device that pages shall go to, where `tiers` says so.
    pub fn only_device(&self, tiers: &SlowTiers) -> Option<PathBuf> {
        let spills = matches!(tiers.zram(), Some(SlowTier::Zram { spills: true, .. }));
        self.zram.as_ref().filter(|_| !spills).map(Zram::device)
    }

    /// Undoes all of it. What pages of running programs depend on stays, and is said.
    pub fn take_down(self) {
        match self.changes.release(SwapOff::WhenUnused) {
            Ok(restored) => {
                for kept in restored.kept {
                    note(&format!("left as it is: {}: {}", kept.what, kept.why));
                }
            }
            Err(error) => note(&format!("cannot undo what was set up: {error}")),
        }
    }
}

fn total_memory(root: &Root) -> Bytes {
    process::total_memory(root).unwrap_or(Bytes(4 << 30))
}
