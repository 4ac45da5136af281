//! What a driver tells about itself.

use crate::accounts::Accounts;
use crate::clock;
use crate::driver::Driver;
use crate::place::Place;
use frostline_core::engine::Rejected;
use frostline_core::types::*;
use frostline_linux::process::Identity;
use frostline_linux::{Root, swap};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    pub name: String,
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
    /// For how long the targets have had over 2 % more fast memory than they may.
    pub over_limit_seconds: f64,
    /// Memory that zram takes for what is paged out; `None` without zram.
    pub compressed_bytes: Option<u64>,
    /// Memory that the slow tier saves: what is paged out less what zram takes for it.
    pub saved_bytes: u64,
    /// Moves since the start.
    pub accounts: Accounts,
    /// Proposals that the engine turned down, in pages, by reason.
    pub rejected_pages: BTreeMap<String, u64>,
    /// Where knowledge of accesses comes from.
    pub sources: Vec<SourceStatus>,
    /// Pages by class of the policy: hot, warm, cold.
    pub classes: Option<[u64; 3]>,
    /// The policy's counters.
    pub metrics: BTreeMap<String, f64>,
    /// Our processor time since the start.
    pub cpu_seconds: f64,
    /// Our own resident memory.
    pub own_rss_bytes: u64,
    /// Tables with an entry for every managed page.
    pub metadata_bytes: u64,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// Its number.
    pub pid: u32,
    /// Its program.
    pub comm: String,
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
}

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
}

impl Driver {
    /// How things are.
    pub fn status(&self, name: &str) -> Status {
        let view = self.engine.view();
        let tiers = self.places.0.iter().enumerate().map(|(index, place)| {
            let tier = TierId(index as u8);
            TierStatus {
                name: match place {
                    Place::Memory => "memory".into(),
                    Place::Swap => "swap".into(),
                    Place::Node(node) => format!("node:{node}"),
                },
                used_bytes: view.used(tier).bytes().0,
                capacity_bytes: view.limits(tier).capacity.bytes().0,
            }
        });
        let tiers: Vec<TierStatus> = tiers.collect();
        let identity = Identity::own(&self.root).ok();
        let swapped: u64 = tiers.iter().filter(|t| t.name == "swap").map(|t| t.used_bytes).sum();
        let compressed = compressed(&self.root);
        let mut metrics = BTreeMap::new();
        self.engine.policy().metrics(&mut |name, value| {
            metrics.insert(name.to_owned(), value);
        });
        let rejected = Rejected::ALL.iter().zip(self.engine.stats().rejected);
        Status {
            pid: std::process::id(),
            start_ticks: identity.map_or(0, |identity| identity.start_ticks),
            seconds: self.now.as_secs_f64(),
            name: name.into(),
            policy: self.engine.policy().name().into(),
            dry_run: self.options.dry_run,
            targets: self
                .watched
                .values()
                .map(|watched| TargetStatus {
                    pid: watched.target.pid(),
                    comm: watched.target.comm().unwrap_or_default(),
                    mapped_bytes: watched.spans.iter().map(|span| span.bytes().0).sum(),
                })
                .collect(),
            refused: self.refused.clone(),
            footprint_bytes: tiers.iter().map(|tier| tier.used_bytes).sum(),
            tiers,
            over_limit_seconds: self.over_limit().as_secs_f64(),
            compressed_bytes: compressed,
            saved_bytes: swapped.saturating_sub(compressed.unwrap_or(0)),
            accounts: self.accounts,
            rejected_pages: rejected.map(|(why, n)| (why.name().to_owned(), n)).collect(),
            sources: self
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
                    }
                })
                .collect(),
            classes: self.engine.policy().classes(),
            metrics,
            cpu_seconds: clock::process_cpu().as_secs_f64(),
            own_rss_bytes: clock::own_rss().0,
            metadata_bytes: (self.engine.metadata_bytes() + self.map.bytes()).0,
        }
    }
}

/// Memory that the zram devices in use as swap take, from the third number of their `mm_stat`
/// (`Documentation/admin-guide/blockdev/zram.rst`); `None` where there is none.
fn compressed(root: &Root) -> Option<u64> {
    let devices = swap::devices(root).ok()?;
    let used = devices.iter().filter_map(|device| {
        let name = device.path.file_name()?.to_str().filter(|name| name.starts_with("zram"))?;
        let text = root.read(format!("/sys/block/{name}/mm_stat")).ok()?;
        text.split_whitespace().nth(2)?.parse::<u64>().ok()
    });
    used.reduce(|a, b| a + b)
}
