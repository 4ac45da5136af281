//! Systems of the kernel: what sets each up for one program, and keeps it to the limit.

use super::filler::Filler;
use crate::control_group::ControlGroup;
use frostline_core::types::Bytes;
use frostline_daemon::Limit;
use frostline_linux::accesses::balancing;
use frostline_linux::changes::Changes;
use frostline_linux::process;
use frostline_linux::swap::zram::{Zram, ZramOptions};
use frostline_linux::topology::Topology;
use frostline_terminal::errors::{failure, usage};

const GENERATIONS: &str = "/sys/kernel/mm/lru_gen/enabled";
/// All parts of it, as it reads.
const ON: &str = "0x0007";
const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";
/// Mode of NUMA balancing that promotes from lower tiers.
const TIERING: &str = "2";
/// Least memory that a program is limited to: as much as it takes to begin.
const LEAST: Bytes = Bytes(16 << 20);

/// Systems by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum System {
    /// A limit of the control group, and reclaim by generations where the kernel has them; to zram
    MglruReclaim,
    /// NUMA balancing in tiering mode with demotion, node 0 being filled up to the limit; to a slower node
    NumaBalancing,
}

impl System {
    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::MglruReclaim => "mglru-reclaim",
            Self::NumaBalancing => "numa-balancing",
        }
    }
}

/// What of a program is not in fast memory.
#[derive(Debug)]
enum Slow {
    Zram(Zram),
    Node(#[expect(dead_code, reason = "memory is taken as long as it is there")] Filler),
}

/// Memory of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    pub fast: Bytes,
    pub slow: Bytes,
    /// What the slow part takes of memory, compressed.
    pub compressed: Bytes,
}

/// A system at work.
#[derive(Debug)]
pub struct AtWork {
    limit: Limit,
    slow: Slow,
    /// Whether reclaim goes by generations.
    pub generations: bool,
}

impl AtWork {
    /// Sets it up; what is changed for it is written down before.
    ///
    /// # Errors
    /// Where the machine lacks something, without rights, and for a limit that such a system cannot have.
    pub fn set_up(system: System, limit: Limit, changes: &Changes) -> anyhow::Result<Self> {
        let root = changes.root();
        let generations = system == System::MglruReclaim && root.path(GENERATIONS).exists();
        let slow = match (system, limit) {
            (System::MglruReclaim, _) => {
                if generations {
                    changes.set(GENERATIONS, ON)?;
                }
                let size = process::total_memory(root)?;
                Slow::Zram(Zram::create(changes, &ZramOptions { size, algorithm: None })?)
            }
            (System::NumaBalancing, Limit::Size(size)) => {
                if Topology::read(root)?.lower_nodes().is_empty() {
                    return Err(failure(
                        "no node is slower than those with processors",
                        "'frostline doctor' lists nodes and tiers; mglru-reclaim takes zram",
                    ));
                }
                changes.set(DEMOTION, "true")?;
                changes.set(balancing::MODE, TIERING)?;
                Slow::Node(Filler::leave(root, size)?)
            }
            (System::NumaBalancing, _) => {
                let what = "a node cannot be a share of a program's memory";
                return Err(usage(what, "write a size such as --fast 2GiB"));
            }
        };
        Ok(Self { limit, slow, generations })
    }

    /// Memory that a program takes.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn taken(&self, group: &ControlGroup) -> anyhow::Result<Taken> {
        let level = group.level()?;
        Ok(match &self.slow {
            Slow::Zram(zram) => Taken {
                fast: level.memory.used,
                slow: level.swap.used,
                compressed: zram.usage()?.memory,
            },
            Slow::Node(_) => {
                let fast = group.on_node(0)?;
                let slow = level.memory.used.saturating_sub(fast);
                Taken { fast, slow, compressed: Bytes::ZERO }
            }
        })
    }

    /// Keeps a program to its limit, as far as the machine does not do that by itself.
    pub fn keep(&self, group: &ControlGroup, taken: Taken) {
        if let Slow::Zram(_) = self.slow {
            let limit = self.limit.bytes(Bytes(taken.fast.0 + taken.slow.0)).max(LEAST);
            // Version 1 refuses what it cannot reach at once, and comes nearer by trying.
            let _ = group.limit(Some(limit));
        }
    }
}
