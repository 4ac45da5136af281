//! Systems of the kernel: what sets each up for one program, and keeps it to the limit.

use super::filler::Filler;
use crate::control_group::ControlGroup;
use frostline_core::types::{Bytes, Nanos};
use frostline_daemon::Limit;
use frostline_linux::Root;
use frostline_linux::accesses::balancing;
use frostline_linux::changes::Changes;
use frostline_linux::moves::damon::DamonTiering;
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
    /// DAMON, which moves what is accessed often to node 0 and what is hardly accessed to a slower node, node 0 being
    /// filled up to the limit
    Damon,
}

impl System {
    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::MglruReclaim => "mglru-reclaim",
            Self::NumaBalancing => "numa-balancing",
            Self::Damon => "damon",
        }
    }
}

/// The first node that is slower than those with processors.
fn slow_node(root: &Root) -> anyhow::Result<u32> {
    let lower = Topology::read(root)?.lower_nodes();
    lower.first().copied().ok_or_else(|| {
        failure(
            "no node is slower than those with processors",
            "'frostline doctor' lists nodes and tiers; mglru-reclaim takes zram",
        )
    })
}

/// What of a program is not in fast memory.
#[derive(Debug)]
enum Slow {
    Zram(Zram),
    Node {
        #[expect(dead_code, reason = "memory is taken as long as it is there")]
        filler: Filler,
        damon: Option<DamonTiering>,
    },
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
    pub fn set_up(
        system: System,
        limit: Limit,
        group: &ControlGroup,
        changes: &Changes,
    ) -> anyhow::Result<Self> {
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
                slow_node(root)?;
                changes.set(DEMOTION, "true")?;
                changes.set(balancing::MODE, TIERING)?;
                Slow::Node { filler: Filler::leave(root, size)?, damon: None }
            }
            (System::Damon, Limit::Size(size)) => {
                let nodes = [0, slow_node(root)?];
                let filler = Filler::leave(root, size)?;
                let damon = DamonTiering::start(changes, &group.path(), nodes)?;
                Slow::Node { filler, damon: Some(damon) }
            }
            (System::NumaBalancing | System::Damon, _) => {
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
            Slow::Node { .. } => {
                let fast = group.on_node(0)?;
                let slow = level.memory.used.saturating_sub(fast);
                Taken { fast, slow, compressed: Bytes::ZERO }
            }
        })
    }

    /// Processor time so far of a kernel thread that does nothing but tiering; none where there is no such thread.
    pub fn thread_cpu(&self, root: &Root) -> Nanos {
        let Slow::Node { damon: Some(damon), .. } = &self.slow else { return Nanos::ZERO };
        let stat = damon.kdamond().and_then(|thread| process::stat(root, thread));
        stat.map_or(Nanos::ZERO, |stat| stat.cpu())
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
