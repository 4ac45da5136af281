//! Tiering by DAMON: the kernel's monitor of accesses moves pages of a control group between two nodes.
//!
//! One kernel thread watches the memory of both nodes by physical addresses. Two schemes move what is accessed often
//! on the slow node to the fast one, and what is hardly accessed on the fast node to the slow one.
//!
//! Source: `Documentation/admin-guide/mm/damon/usage.rst` in the kernel, `mm/damon/paddr.c`.

use crate::accesses::damon::{CONTEXT, Claim, OURS, check_operations};
use crate::changes::Changes;
use crate::error::LinuxError;
use crate::pages::frames::FrameNodes;
use frostline_core::types::{Bytes, PAGE_BYTES};
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

/// Between two looks at a page, and from one count of accesses to the next: four times what is usual, for a fourth of
/// the processor time. A count is at most 20.
const SAMPLE_US: u64 = 20_000;
const AGGREGATION_US: u64 = 400_000;
/// How often the kernel looks at which memory there is; by itself, once a minute.
const UPDATE_US: u64 = 1_000_000;
const LEAST_REGIONS: u64 = 100;
const MOST_REGIONS: u64 = 1000;
/// Accesses of a count from which on a region is hot, and up to which it is cold once it has been so for one more.
const HOT: u32 = 8;
const COLD: u32 = 4;
const COLD_AGE: u32 = 1;
/// What a scheme looks through in [`AGGREGATION_US`], pages of others included.
const QUOTA: Bytes = Bytes(256 << 20);

/// DAMON moving pages of a control group between two nodes for us. It stops when this is dropped.
#[derive(Debug)]
pub struct DamonTiering {
    claim: Claim,
}

/// What a scheme does.
struct Scheme<'a> {
    action: &'a str,
    to: u32,
    /// Accesses of a count.
    accesses: RangeInclusive<u32>,
    age: u32,
}

impl DamonTiering {
    /// Starts it on the pages of `group`, the path of a control group from the root of its tree on, on the nodes `fast`
    /// and `slow`.
    /// Written down in `changes` before anything is done.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where DAMON is missing, cannot migrate between nodes, or is used by somebody else;
    /// where frames do not tell their nodes; without the right to.
    pub fn start(
        changes: &Changes,
        group: &str,
        [fast, slow]: [u32; 2],
    ) -> Result<Self, LinuxError> {
        check_operations(changes.root(), "paddr", "physical memory", "CONFIG_DAMON_PADDR")?;
        let frames = FrameNodes::read(changes.root())?;
        let of = |node: u32| -> Vec<Range<u64>> {
            let ranges = frames.ranges().iter().filter(|(_, of)| *of == node);
            ranges.map(|(range, _)| range.start * PAGE_BYTES..range.end * PAGE_BYTES).collect()
        };
        let nodes = [fast, slow].map(of);
        let this = Self { claim: Claim::new(changes)? };
        this.watch(&nodes)?;
        this.set("schemes/nr_schemes", 2)?;
        let schemes = [
            Scheme { action: "migrate_hot", to: fast, accesses: HOT..=u32::MAX, age: 0 },
            Scheme { action: "migrate_cold", to: slow, accesses: 0..=COLD, age: COLD_AGE },
        ];
        for (at, (scheme, there)) in schemes.iter().zip(&nodes).enumerate() {
            // A kernel that does not know the action refuses it.
            this.add(at, scheme, there, group).map_err(|error| match error.errno() {
                Some(libc::EINVAL | libc::ENOENT) => LinuxError::Unsupported {
                    what: "this kernel's DAMON cannot migrate pages of a control group".into(),
                    hint: "needs Linux 6.11".into(),
                },
                _ => error,
            })?;
        }
        this.claim.root().write(format!("{OURS}/state"), "on")?;
        Ok(this)
    }

    fn set(&self, file: &str, value: impl Display) -> Result<(), LinuxError> {
        self.claim.root().write(format!("{CONTEXT}/{file}"), &value.to_string())
    }

    /// Has it look at the memory of both nodes.
    fn watch(&self, nodes: &[Vec<Range<u64>>; 2]) -> Result<(), LinuxError> {
        self.set("operations", "paddr")?;
        self.set("monitoring_attrs/intervals/sample_us", SAMPLE_US)?;
        self.set("monitoring_attrs/intervals/aggr_us", AGGREGATION_US)?;
        self.set("monitoring_attrs/intervals/update_us", UPDATE_US)?;
        self.set("monitoring_attrs/nr_regions/max", MOST_REGIONS)?;
        self.set("monitoring_attrs/nr_regions/min", LEAST_REGIONS)?;
        self.set("targets/nr_targets", 1)?;
        let mut ranges: Vec<_> = nodes.iter().flatten().collect();
        ranges.sort_unstable_by_key(|range| range.start);
        self.set("targets/0/regions/nr_regions", ranges.len())?;
        for (at, range) in ranges.into_iter().enumerate() {
            self.set(&format!("targets/0/regions/{at}/start"), range.start)?;
            self.set(&format!("targets/0/regions/{at}/end"), range.end)?;
        }
        Ok(())
    }

    /// Adds a scheme for pages of the group that are not `there` yet.
    fn add(
        &self,
        at: usize,
        scheme: &Scheme<'_>,
        there: &[Range<u64>],
        group: &str,
    ) -> Result<(), LinuxError> {
        let set =
            |file: &str, value: &dyn Display| self.set(&format!("schemes/{at}/{file}"), value);
        set("action", &scheme.action)?;
        set("target_nid", &scheme.to)?;
        set("apply_interval_us", &AGGREGATION_US)?;
        set("access_pattern/sz/min", &PAGE_BYTES)?;
        set("access_pattern/sz/max", &u64::MAX)?;
        set("access_pattern/nr_accesses/min", scheme.accesses.start())?;
        set("access_pattern/nr_accesses/max", scheme.accesses.end())?;
        set("access_pattern/age/min", &scheme.age)?;
        set("access_pattern/age/max", &u32::MAX)?;
        set("quotas/bytes", &QUOTA.0)?;
        set("quotas/reset_interval_ms", &(AGGREGATION_US / 1000))?;
        set("filters/nr_filters", &(there.len() + 1))?;
        for (filter, range) in there.iter().enumerate() {
            set(&format!("filters/{filter}/type"), &"addr")?;
            set(&format!("filters/{filter}/addr_start"), &range.start)?;
            set(&format!("filters/{filter}/addr_end"), &range.end)?;
            set(&format!("filters/{filter}/matching"), &"Y")?;
        }
        let filter = there.len();
        set(&format!("filters/{filter}/type"), &"memcg")?;
        set(&format!("filters/{filter}/memcg_path"), &group)?;
        set(&format!("filters/{filter}/matching"), &"N")
    }

    /// The kernel thread that does it: its processor time is what tiering costs.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn kdamond(&self) -> Result<u32, LinuxError> {
        self.claim.kdamond()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accesses::damon::KDAMONDS;
    use crate::testing::Tree;

    const GROUP: &str = "/frostline-test";

    /// Files as the kernel makes them for one kernel thread with two schemes, and two nodes, the first of which has
    /// memory in two places.
    fn tree(operations: &str) -> Tree {
        let tree = Tree::new();
        let own = std::process::id();
        tree.file(format!("proc/{own}/stat"), format!("{own} (x) S {}1 0 0", "0 ".repeat(18)));
        let zone = |node: u32, start: u64, spanned: u64| {
            format!("Node {node}, zone Normal\n  spanned {spanned}\n  start_pfn: {start}\n")
        };
        tree.file("proc/zoneinfo", [zone(0, 1, 9), zone(0, 10, 90), zone(1, 200, 50)].concat());
        for (file, text) in [
            (format!("{KDAMONDS}/nr_kdamonds"), "0\n"),
            (format!("{OURS}/state"), "off\n"),
            (format!("{OURS}/pid"), "7\n"),
            (format!("{OURS}/contexts/nr_contexts"), "0\n"),
            (format!("{CONTEXT}/avail_operations"), operations),
        ] {
            tree.file(file, text);
        }
        let of_regions = (0..3)
            .flat_map(|at| ["start", "end"].map(|name| format!("targets/0/regions/{at}/{name}")));
        let of_schemes = (0..2).flat_map(|at| {
            let files = [
                "action",
                "target_nid",
                "apply_interval_us",
                "access_pattern/sz/min",
                "access_pattern/nr_accesses/min",
                "access_pattern/age/min",
                "quotas/bytes",
                "filters/nr_filters",
                "filters/0/type",
                "filters/1/type",
                "filters/2/type",
            ];
            files.map(|file| format!("schemes/{at}/{file}"))
        });
        let others = ["monitoring_attrs/intervals/update_us", "monitoring_attrs/nr_regions/min"];
        for file in of_regions.chain(of_schemes).chain(others.map(str::to_owned)) {
            tree.file(format!("{CONTEXT}/{file}"), "");
        }
        tree
    }

    #[test]
    fn pages_of_the_group_move_to_the_node_where_they_are_not() {
        let tree = tree("vaddr\nfvaddr\npaddr\n");
        let changes = Changes::of_this_process(tree.root()).expect("we run");
        let tiering = DamonTiering::start(&changes, GROUP, [0, 1]).expect("all files are there");
        let read = |file: &str| tree.text(format!("{CONTEXT}/{file}"));
        assert_eq!((&*read("operations"), &*read("targets/0/regions/nr_regions")), ("paddr", "3"));
        let bounds = [0, 1, 2]
            .map(|at| ["start", "end"].map(|name| read(&format!("targets/0/regions/{at}/{name}"))));
        let pages = [[1, 10], [10, 100], [200, 250]];
        assert_eq!(bounds, pages.map(|ends| ends.map(|page| (page * 4096).to_string())));
        for (scheme, action, to, least, most, filters) in [
            (0, "migrate_hot", "0", "8", "4294967295", vec![("addr", "Y"); 2]),
            (1, "migrate_cold", "1", "0", "4", vec![("addr", "Y"); 1]),
        ] {
            let of = |file: &str| read(&format!("schemes/{scheme}/{file}"));
            assert_eq!((&*of("action"), &*of("target_nid")), (action, to));
            let accesses =
                ["min", "max"].map(|end| of(&format!("access_pattern/nr_accesses/{end}")));
            assert_eq!(accesses, [least, most]);
            let expected: Vec<_> = filters.into_iter().chain([("memcg", "N")]).collect();
            assert_eq!(of("filters/nr_filters"), expected.len().to_string());
            for (at, (kind, matching)) in expected.iter().enumerate() {
                let filter = |file: &str| of(&format!("filters/{at}/{file}"));
                assert_eq!((&*filter("type"), &*filter("matching")), (*kind, *matching));
            }
            let last = expected.len() - 1;
            assert_eq!(of(&format!("filters/{last}/memcg_path")), GROUP);
        }
        assert_eq!(read("schemes/1/filters/0/addr_start"), (200 * 4096).to_string());
        assert_eq!(tree.text(format!("{OURS}/state")), "on");
        assert_eq!(tiering.kdamond().expect("it runs"), 7);
        let error = DamonTiering::start(&changes, GROUP, [0, 1]).expect_err("there is one only");
        assert!(error.to_string().contains("somebody else"), "{error}");
        drop(tiering);
        assert_eq!(tree.text(format!("{OURS}/state")), "off");
        assert_eq!(tree.text(format!("{KDAMONDS}/nr_kdamonds")), "0");
    }

    #[test]
    fn a_damon_without_physical_memory_is_none() {
        let tree = tree("vaddr\n");
        let changes = Changes::of_this_process(tree.root()).expect("we run");
        let error = DamonTiering::start(&changes, GROUP, [0, 1]).expect_err("it cannot");
        assert!(error.to_string().contains("cannot watch physical memory"), "{error}");
        assert_eq!(tree.text(format!("{KDAMONDS}/nr_kdamonds")), "0", "it is given back");
    }

    #[test]
    fn a_kernel_that_knows_no_migration_is_told_of() {
        let tree = tree("paddr\n");
        std::fs::remove_dir_all(tree.root().path(format!("{CONTEXT}/schemes/1"))).expect("there");
        let changes = Changes::of_this_process(tree.root()).expect("we run");
        let error = DamonTiering::start(&changes, GROUP, [0, 1]).expect_err("it cannot");
        assert!(error.to_string().contains("cannot migrate pages"), "{error}");
        assert_eq!(tree.text(format!("{KDAMONDS}/nr_kdamonds")), "0", "it is given back");
    }
}
