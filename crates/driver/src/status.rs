//! Status of a driver.

use crate::driver::Driver;
use crate::groups::{GroupStatus, Groups};
use crate::host::Linux;
use crate::options::ANY_LOSS;
use crate::place::Place;
pub use crate::source::WorkingSet;
pub use crate::watched::Unmanaged;
use crate::watched::Watched;
use frostline_core::Foreign;
use frostline_core::engine::Rejected;
use frostline_core::types::*;
use frostline_daemon::{Account, Accounts, Audits, Limit, Part, Space};
pub use frostline_daemon::{Loss, Lost};
use frostline_inprocess::consolidate::Numbers;
use frostline_linux::pressure::Pressure;
use frostline_linux::process::Identity;
use frostline_linux::process::clock;
use frostline_linux::{Root, swap};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// State of one driver at one moment. Sizes are bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Number of the process that drives.
    pub pid: u32,
    /// When that process started, in clock ticks since the system's start.
    pub start_ticks: u64,
    /// Seconds since the driver began.
    pub seconds: f64,
    /// What is managed, as the user said it.
    pub name: Foreign,
    /// Policy with its parameters.
    pub policy: String,
    /// Nothing is moved.
    pub dry_run: bool,
    /// Processes that are managed.
    pub targets: Vec<TargetStatus>,
    /// Processes that are left alone, and why.
    pub refused: BTreeMap<u32, String>,
    /// Memory by tier, the fastest first.
    pub tiers: Vec<TierStatus>,
    /// All of that memory.
    pub footprint_bytes: u64,
    /// Memory beside it that lies so scattered that it is left where it is: of each 2 MiB of address
    /// space, fewer than 64 pages.
    #[serde(default)]
    pub scattered_bytes: u64,
    /// What looking up where pages are has come to.
    #[serde(default)]
    pub audits: Audits,
    /// For how long the targets have had over 2 % more fast memory than they may.
    pub over_limit_seconds: f64,
    /// Memory that zram takes for what is paged out; `None` without zram.
    pub compressed_bytes: Option<u64>,
    /// Memory that the slow tier saves: what is paged out less what zram takes for it.
    pub saved_bytes: u64,
    /// What shall be taken out of fast memory, and what is; `None` where nobody has asked for a number of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saving: Option<Saving>,
    /// Control groups with a limit of memory or swap, where pages go to swap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupStatus>,
    /// Memory of the targets that stays where it is, by reason.
    #[serde(default)]
    pub unmanaged: Unmanaged,
    /// Memory pressure of the control group of the first target; `None` without such groups of version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<PressureStatus>,
    /// What the targets lose; `None` where nobody measures it, and in the first seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossStatus>,
    /// Moves since the start.
    pub accounts: Accounts,
    /// Proposals that the engine turned down, in pages, by reason.
    pub rejected_pages: BTreeMap<String, u64>,
    /// Where knowledge of accesses comes from.
    pub sources: Vec<SourceStatus>,
    /// Pages by class of the policy: hot, warm, cold.
    pub classes: Option<[u64; 3]>,
    /// Memory by hotness, the coldest first; empty where the policy keeps no such histogram.
    pub hotness: Vec<BinStatus>,
    /// Where memory is touched, ascending by process and address.
    #[serde(default)]
    pub heat: Vec<HeatStatus>,
    /// The policy's counters.
    pub metrics: BTreeMap<String, f64>,
    /// Our processor time since the start.
    pub cpu_seconds: f64,
    /// Our own resident memory.
    pub own_rss_bytes: u64,
    /// What that shall not exceed: 0.3 % of the managed memory, but see [`own_limit`].
    pub own_limit_bytes: u64,
    /// Tables with an entry for every managed page.
    pub metadata_bytes: u64,
    /// What came of gathering hot pages, where the program does that itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidation: Option<Numbers>,
}

impl Status {
    /// Names a target among all that are and were, whatever its name holds.
    pub fn key(&self) -> String {
        let name = crc32fast::hash(self.name.raw().as_bytes());
        format!("{}-{}-{name:08x}", self.pid, self.start_ticks)
    }

    /// Whether a driver can have written it, as far as numbers tell that are added up where it is shown.
    pub fn can_be(&self) -> bool {
        const MOST: u64 = 1 << 48;
        let sources = self.sources.iter().all(|source| source.touches.max(source.lost) <= MOST);
        let classes = self.classes.is_none_or(|pages| pages.iter().all(|pages| *pages <= MOST));
        sources && classes && self.accounts.can_be()
    }
}

/// Time in which some threads of a control group waited for memory, as the kernel counts it (PSI).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PressureStatus {
    /// Share of the last ten seconds.
    pub some: f64,
    /// Seconds since the group was made.
    pub some_seconds: f64,
}

/// Memory that shall be out of fast memory, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saving {
    /// That was asked for.
    pub asked_bytes: u64,
    /// That is out of it.
    pub slow_bytes: u64,
    /// Both are of all targets of a daemon together.
    pub of_all: bool,
}

/// Memory in all tiers but the fastest.
pub fn slow_bytes(tiers: &[TierStatus]) -> u64 {
    tiers.iter().skip(1).map(|tier| tier.used_bytes).sum()
}

/// Slowdown of the targets. Shares are of the time that they would take with all memory fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossStatus {
    /// Most that it shall be, where that decides on the size of fast memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<f64>,
    /// Since the start.
    pub whole: Loss,
    /// Of the last half minute.
    pub latest: Loss,
    /// Refaults are counted and not timed, or loads from slow nodes are estimated from touches of pages.
    pub is_estimate: bool,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// Its number.
    pub pid: u32,
    /// Its program.
    pub comm: Foreign,
    /// Address space whose pages may be moved.
    pub mapped_bytes: u64,
}

/// One tier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierStatus {
    /// `memory`, `swap` or `node:1`.
    pub name: String,
    /// Of the targets.
    pub used_bytes: u64,
    /// What the targets may use.
    pub capacity_bytes: u64,
    /// Moves towards it, for whatever reason.
    pub arrivals: Account,
}

/// Memory of about the same hotness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinStatus {
    /// Least hotness of it, in the policy's own unit; it ends where the next begins.
    pub least: u32,
    /// `hot`, `warm` or `cold`.
    pub class: String,
    /// All of it.
    pub bytes: u64,
    /// By tier, the fastest first. Where there are more than 16384 pages, that many, evenly
    /// spread, were asked for their tier.
    pub tier_bytes: Vec<u64>,
}

/// Part of an address space, up to the next part: process, address, and touches that are seen in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatStatus(pub u32, pub u64, pub f32);

/// One source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// Its name.
    pub name: String,
    /// Accesses reported.
    pub touches: u64,
    /// Accesses known to have been missed.
    pub lost: u64,
    /// Its processor time in our process.
    pub cpu_seconds: f64,
    /// Pages that it has looked at; 0 for a source that is told.
    #[serde(default)]
    pub pages_looked_at: u64,
    /// Memory that was in use of late, where it can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<WorkingSet>,
}

impl Driver {
    /// How things are.
    pub fn status(&self, name: &str) -> Status {
        let view = self.daemon.engine().view();
        let tiers = self.system.places.tiers.iter().enumerate().map(|(index, place)| {
            let tier = TierId(index as u8);
            TierStatus {
                name: match place {
                    Place::Memory => "memory".into(),
                    Place::Swap => "swap".into(),
                    Place::Node(node) => format!("node:{node}"),
                },
                used_bytes: view.used(tier).bytes().0,
                capacity_bytes: view.limits(tier).capacity.bytes().0,
                arrivals: self.daemon.arrivals()[index],
            }
        });
        let tiers: Vec<TierStatus> = tiers.collect();
        let footprint = Bytes(tiers.iter().map(|tier| tier.used_bytes).sum());
        let slow = slow_bytes(&tiers);
        let identity = Identity::own(&self.system.root).ok();
        let swapped: u64 = tiers.iter().filter(|t| t.name == "swap").map(|t| t.used_bytes).sum();
        let compressed = compressed(&self.system.root, self.system.places.device.as_deref());
        let mut metrics = BTreeMap::new();
        self.daemon.engine().policy().metrics(&mut |name, value| {
            metrics.insert(name.to_owned(), value);
        });
        let rejected = Rejected::ALL.iter().zip(self.daemon.engine().stats().rejected);
        Status {
            pid: std::process::id(),
            start_ticks: identity.map_or(0, |identity| identity.start_ticks),
            seconds: self.daemon.now().as_secs_f64(),
            name: name.into(),
            policy: self.daemon.engine().name().into(),
            dry_run: self.system.dry_run,
            targets: self.targets(),
            refused: self.system.refused.clone(),
            footprint_bytes: footprint.0,
            scattered_bytes: self.daemon.scattered().bytes().0,
            audits: self.daemon.audits(),
            tiers,
            over_limit_seconds: self.daemon.over_limit().as_secs_f64(),
            compressed_bytes: compressed,
            saved_bytes: swapped.saturating_sub(compressed.unwrap_or(0)),
            saving: self.saving(slow),
            groups: self.system.groups.as_ref().map(Groups::status).unwrap_or_default(),
            unmanaged: self.unmanaged(),
            pressure: self.pressure(),
            loss: self.loss(),
            accounts: self.accounts(),
            rejected_pages: rejected.map(|(why, n)| (why.name().to_owned(), n)).collect(),
            sources: self
                .system
                .sources
                .iter()
                .map(|source| {
                    let stats = source.stats();
                    SourceStatus {
                        name: source.name().into(),
                        touches: stats.touches,
                        lost: stats.lost,
                        cpu_seconds: stats.cpu.as_secs_f64(),
                        pages_looked_at: source.pages_looked_at(),
                        working_set: source.working_set(),
                    }
                })
                .collect(),
            classes: self.daemon.engine().policy().classes(),
            hotness: self.hotness(),
            heat: self.heat(),
            metrics,
            cpu_seconds: clock::process_cpu().as_secs_f64(),
            own_rss_bytes: clock::own_rss().0,
            own_limit_bytes: own_limit(footprint, 1).0,
            metadata_bytes: (self.daemon.engine().metadata_bytes() + self.daemon.map().bytes()).0,
            consolidation: None,
        }
    }
}

/// Parts that heat is told of.
const HEAT_PARTS: usize = 64;
/// Pages that are asked for their tier.
const ASKED_PAGES: u32 = 16_384;
/// What we may take of the memory that we manage.
const OWN_SHARE: f64 = 0.003;
/// What any run of this program takes: code, libraries, buffers of fixed size.
const OWN_LEAST: Bytes = Bytes(16 << 20);

/// What each target beyond the first takes: readers, and buffers of fixed size.
const OWN_FURTHER: Bytes = Bytes(4 << 20);

/// Our own memory where we manage so much of so many targets: 0.3 % of it, and 16 MiB where that is less, with 4 MiB for each
/// target beyond the first.
pub fn own_limit(managed: Bytes, targets: usize) -> Bytes {
    let least = OWN_LEAST.0 + OWN_FURTHER.0 * targets.saturating_sub(1) as u64;
    Bytes((managed.0 as f64 * OWN_SHARE) as u64).max(Bytes(least))
}

impl Driver {
    fn heat(&self) -> Vec<HeatStatus> {
        let told = |part: Part| {
            let tenths = (part.touches * 10.0).round() / 10.0;
            HeatStatus(part.process.0, part.start.0 * PAGE_BYTES, tenths)
        };
        self.daemon.heat(HEAT_PARTS).into_iter().map(told).collect()
    }

    fn unmanaged(&self) -> Unmanaged {
        let mut all = Unmanaged::default();
        for one in self.system.watched.values().map(Watched::unmanaged) {
            all.file_bytes += one.file_bytes;
            all.shared_bytes += one.shared_bytes;
            all.locked_bytes += one.locked_bytes;
            all.reserved_bytes += one.reserved_bytes;
            all.incompressible_bytes += one.incompressible_bytes;
        }
        all
    }

    fn pressure(&self) -> Option<PressureStatus> {
        let Linux { root, trees, watched, .. } = &self.system;
        let (pid, _) = watched.first_key_value()?;
        let pressure = Pressure::read(root, &trees.memory_group_of(root, *pid).ok()??)?;
        let some_seconds = pressure.total.as_secs_f64();
        Some(PressureStatus { some: pressure.share, some_seconds })
    }

    fn saving(&self, slow_bytes: u64) -> Option<Saving> {
        let limit = self.daemon.settings().tiers.first().and_then(|fast| fast.limit);
        let floor = self.daemon.goal().and_then(|goal| goal.floor);
        let asked = [limit, floor].into_iter().flatten().find_map(|limit| match limit {
            Limit::AllBut(bytes) => Some(bytes.0),
            Limit::Size(_) | Limit::Share(_) => None,
        });
        Some(Saving { asked_bytes: asked?, slow_bytes, of_all: false })
    }

    fn loss(&self) -> Option<LossStatus> {
        Some(LossStatus {
            goal: self.daemon.goal().map(|goal| goal.most_loss).filter(|loss| *loss < ANY_LOSS),
            whole: self.daemon.loss()?,
            latest: self.daemon.latest_loss()?,
            is_estimate: self.system.spending.as_ref()?.is_estimate()
                || self.daemon.estimates_loads(),
        })
    }

    fn targets(&self) -> Vec<TargetStatus> {
        let status = |(process, space): (ProcessId, &Space)| TargetStatus {
            pid: process.0,
            comm: self
                .system
                .watched
                .get(&process.0)
                .map_or_else(Foreign::default, |watched| watched.comm().clone()),
            mapped_bytes: space.spans().iter().map(|span| span.bytes().0).sum(),
        };
        self.daemon.spaces().map(status).collect()
    }

    /// The policy's histogram, divided by tier.
    fn hotness(&self) -> Vec<BinStatus> {
        let policy = self.daemon.engine().policy();
        let Some(bins) = policy.hotness() else { return Vec::new() };
        let view = self.daemon.engine().view();
        let tiers = view.tiers();
        let mut asked = vec![vec![0_u64; tiers]; bins.pages.len()];
        for page in (0..view.pages()).step_by((view.pages() / ASKED_PAGES).max(1) as usize) {
            let page = PageId(page);
            if let (Some(tier), Some(bin)) = (view.state(page).tier(), policy.bin_of(page)) {
                asked[bin][tier.index()] += 1;
            }
        }
        let class = |bin: i8| match bin {
            bin if bin >= bins.hot => "hot",
            bin if bin >= bins.warm => "warm",
            _ => "cold",
        };
        let bin = |(index, asked): (usize, Vec<u64>)| {
            let bytes = PageCount(bins.pages[index]).bytes().0;
            let all = asked.iter().sum::<u64>().max(1);
            BinStatus {
                least: bins.least[index],
                class: class(index as i8).into(),
                bytes,
                tier_bytes: asked
                    .iter()
                    .map(|n| (u128::from(bytes) * u128::from(*n) / u128::from(all)) as u64)
                    .collect(),
            }
        };
        asked.into_iter().enumerate().map(bin).collect()
    }
}

/// Memory that the zram devices in use as swap take, or the one that pages go to alone, from the third number of their `mm_stat`
/// (`Documentation/admin-guide/blockdev/zram.rst`); `None` where there is none.
fn compressed(root: &Root, only: Option<&Path>) -> Option<u64> {
    let mut devices = swap::devices(root).ok()?;
    devices.retain(|device| only.is_none_or(|only| device.path == only));
    let used = devices.iter().filter_map(|device| {
        let name = device.path.file_name()?.to_str().filter(|name| name.starts_with("zram"))?;
        let text = root.read(format!("/sys/block/{name}/mm_stat")).ok()?;
        text.split_whitespace().nth(2)?.parse::<u64>().ok()
    });
    used.reduce(u64::saturating_add)
}
