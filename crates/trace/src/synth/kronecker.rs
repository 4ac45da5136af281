//! `kronecker-pr`, `kronecker-bfs`: graph kernels on a real graph, access by access.
//!
//! Model: a Kronecker graph is drawn and really stored in compressed sparse rows; PageRank (pull,
//! in place) or breadth-first search (top-down, from random vertices) really runs on it, and its
//! array accesses pass through the modelled caches. Rounds go on until enough accesses are made.
//! Source: GAP benchmark suite (Beamer et al., 2015), generator of Graph500 (A = 0.57,
//! B = C = 0.19); PageRank and Graph500 of MEMTIS, BFS and PR of HybridTier.
//! Not: GAP. One thread, no direction switch in BFS; further elements of a cache line just read
//! are first-level hits without being looked up.

use super::bfs::Bfs;
use super::cpu::Cpu;
use super::graph::{Graph, GraphPlan};
use super::pagerank::PageRank;
use super::params::{self, Param, Settings};
use super::stage::Stage;
use super::{Made, Workload};
use crate::error::TraceError;
use frostline_core::rng::Rng;
use frostline_core::types::{HUGE_PAGES, PAGE_BYTES};

pub(super) const PARAMS: &[Param] = &[
    Param::new("scale", "20", "the graph has 2^scale vertices, 10 to 27"),
    Param::new("degree", "16", "edges drawn for each vertex, 1 to 1024; the graph at most 4GiB"),
    params::accesses("24M"),
    params::gap("4"),
    params::LLC,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const MAX_CSR_BYTES: u64 = (4 << 30) + (1 << 29);

/// What a kernel works with.
pub(super) struct Machine<'a> {
    pub(super) cpu: &'a mut Cpu,
    pub(super) stage: &'a mut Stage,
    pub(super) graph: &'a Graph,
    pub(super) rng: &'a mut Rng,
}

/// A graph algorithm that can be interrupted.
pub(super) trait Kernel: Send + Sized {
    /// Bytes of its own arrays, for each vertex.
    const BYTES_PER_VERTEX: u64;
    /// Maps its arrays and, with `init`, fills them.
    fn new(graph: &Graph, stage: &mut Stage, init: bool) -> Self;
    /// Works on a vertex or a few; starts again when it has finished.
    fn step(&mut self, machine: &mut Machine<'_>);
}

struct Kronecker<K> {
    cpu: Cpu,
    plan: GraphPlan,
    init: bool,
    rng: Rng,
    running: Option<(Graph, K)>,
    before: u64,
}

pub(super) fn build_pagerank(settings: &Settings) -> Result<Made, TraceError> {
    build::<PageRank>(settings)
}

pub(super) fn build_bfs(settings: &Settings) -> Result<Made, TraceError> {
    build::<Bfs>(settings)
}

fn build<K: Kernel + 'static>(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let scale = settings.count("scale", 10, 27)? as u32;
    let degree = settings.count("degree", 1, 1024)? as u32;
    let plan = GraphPlan::new(scale, degree, &mut rng);
    if plan.csr_bytes() > MAX_CSR_BYTES {
        return Err(settings.refuse(
            "scale",
            &format!("and degree make a graph of {} MiB", plan.csr_bytes() >> 20),
            "lower one of them: 4 GiB is the most",
        ));
    }
    let init = settings.switch("init")?;
    let own = u64::from(plan.vertices()) * K::BYTES_PER_VERTEX;
    let footprint = plan.csr_bytes() + own;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    // The graph is drawn at the first step; the header must do with upper limits.
    let with_list = footprint + if init { plan.edges() * 8 } else { 0 };
    let regions = with_list / (PAGE_BYTES * u64::from(HUGE_PAGES)) + 8;
    stage.header.expected_pages = Some(regions as u32 * HUGE_PAGES);
    let records = stage.header.expected_records.unwrap_or(0);
    let loaded = if init { with_list / PAGE_BYTES } else { 0 };
    stage.header.expected_records = Some(records + loaded);
    let workload = Kronecker::<K> { cpu, plan, init, rng, running: None, before: 0 };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl<K: Kernel> Workload for Kronecker<K> {
    fn step(&mut self, stage: &mut Stage) -> bool {
        let Some((graph, kernel)) = &mut self.running else {
            let graph = Graph::build(&self.plan, stage, self.init);
            let kernel = K::new(&graph, stage, self.init);
            self.before = stage.records();
            self.running = Some((graph, kernel));
            return true;
        };
        if self.cpu.done(stage, self.before) {
            return false;
        }
        kernel.step(&mut Machine { cpu: &mut self.cpu, stage, graph, rng: &mut self.rng });
        true
    }
}

/// Calls `visit` for each neighbour; the position of every sixteenth, a new cache line, is loaded
/// through the caches.
#[inline]
pub(super) fn for_each_neighbour(
    machine: &mut Machine<'_>,
    vertex: u32,
    mut visit: impl FnMut(&mut Machine<'_>, u32),
) {
    let graph = machine.graph;
    machine.cpu.load(machine.stage, graph.rows_area, u64::from(vertex) * 8);
    machine.cpu.load(machine.stage, graph.rows_area, u64::from(vertex) * 8 + 8);
    let row = graph.row(vertex);
    let first = row.start;
    for position in row {
        if position % 16 == 0 || position == first {
            machine.cpu.load(machine.stage, graph.neighbours_area, position * 4);
        } else {
            machine.cpu.hit(machine.stage);
        }
        visit(machine, graph.neighbour(position));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::header::TraceHeader;
    use crate::synth::tests::check;
    use frostline_core::spec::Spec;

    /// Lends a graph of 1024 vertices, drawn sparsely enough to fall into pieces.
    pub(in crate::synth) fn on_small_graph(run: impl FnOnce(&mut Machine<'_>)) {
        let mut rng = Rng::new(4);
        let plan = GraphPlan::new(10, 3, &mut rng);
        let given = Spec::parse("kronecker-bfs").expect("a name");
        let settings = Settings::new(given, PARAMS).expect("defaults");
        let (mut cpu, _) = Cpu::open(&settings, 1 << 20).expect("defaults");
        let mut stage = Stage::new(TraceHeader::named("test"), 1);
        let graph = Graph::build(&plan, &mut stage, true);
        run(&mut Machine { cpu: &mut cpu, stage: &mut stage, graph: &graph, rng: &mut rng });
    }

    #[test]
    fn the_list_of_edges_is_given_back_before_the_kernel_runs() {
        for name in ["kronecker-pr", "kronecker-bfs"] {
            let summary = check(&format!("{name}:scale=14:accesses=300K"));
            assert!(summary.unmapped_early && summary.marks > 1, "{name}");
            assert!(summary.by_kind[3] > 0, "{name}: dirty lines are written back");
        }
    }
}
