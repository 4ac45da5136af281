//! `pagerank`, `pagerank-delta`, `bfs`, `cc`, `bc`, `graph500`: graph kernels on a real graph, access by access.
//!
//! Model: a Kronecker or uniform graph is drawn and really stored in compressed sparse rows; the
//! kernel really runs on it, and its array accesses pass through the modelled caches. Rounds go on
//! until enough accesses are made. `kronecker-pr` and `kronecker-bfs` are further names.
//! Source: GAP benchmark suite (Beamer et al., 2015); Graph500, whose generator (A = 0.57,
//! B = C = 0.19) draws the Kronecker graph. In MEMTIS, HybridTier, HotBox and GPAC.
//! Not: GAP. One thread, no direction switch in BFS; further elements of a cache line just read
//! are first-level hits without being looked up.

use super::cpu::Cpu;
use super::graph::{Build, Graph, GraphPlan, Order, Shape};
use super::made::{Made, Workload};
use super::params::{self, Param, Settings};
use super::stage::Stage;
use frostline_core::rng::Rng;
use frostline_core::types::{HUGE_PAGES, PAGE_BYTES};
use frostline_trace::error::TraceError;

/// Parameters of a kernel with so many instructions from one access to the next.
pub(super) const fn params(gap: &'static str) -> [Param; 12] {
    [
        Param::text(
            "graph",
            "kronecker",
            "kronecker: few vertices have most edges; uniform: none does",
        ),
        Param::text(
            "order",
            "shuffled",
            "shuffled: vertices are numbered at random; drawn: the lower the number, the more edges",
        ),
        Param::text("scale", "20", "the graph has 2^scale vertices, 10 to 27"),
        Param::text(
            "degree",
            "16",
            "edges drawn for each vertex, 1 to 1024; the graph at most 4GiB",
        ),
        params::accesses("24M"),
        params::gap(gap),
        params::LLC,
        params::FILE,
        params::INIT,
        Param::text(
            "build",
            "list",
            "list: initialisation makes rows of a list of edges, which most kernels give back; rows: it fills \
         them from their starts, as with file=on",
        ),
        params::EPOCH,
        params::SEED,
    ]
}

const MAX_CSR_BYTES: u64 = (4 << 30) + (1 << 29);

/// What a kernel works with.
pub(super) struct Machine<'a> {
    pub(super) cpu: &'a mut Cpu,
    pub(super) stage: &'a mut Stage,
    pub(super) graph: &'a Graph,
    pub(super) rng: &'a mut Rng,
}

impl Machine<'_> {
    /// A random vertex that has neighbours.
    pub(super) fn source(&mut self) -> u32 {
        loop {
            let vertex = self.rng.below(u64::from(self.graph.vertices())) as u32;
            if !self.graph.row(vertex).is_empty() {
                return vertex;
            }
        }
    }
}

/// A graph algorithm that can be interrupted.
pub(super) trait Kernel: Send + Sized {
    /// Bytes of its own arrays, for each vertex.
    const BYTES_PER_VERTEX: u64;
    /// Bytes of its own arrays, for each edge drawn; with those of the list, if it is kept.
    const BYTES_PER_EDGE: u64 = 0;
    /// Whether it goes on using the list of edges.
    const KEEPS_LIST: bool = false;
    /// Maps its arrays and, with `init`, fills them.
    fn new(plan: &GraphPlan, graph: &Graph, stage: &mut Stage, init: bool) -> Self;
    /// Works on a vertex or a few; starts again when it has finished.
    fn step(&mut self, machine: &mut Machine<'_>);
}

struct OnGraph<K> {
    cpu: Cpu,
    plan: GraphPlan,
    /// The graph is read from a file first.
    file: bool,
    build: Build,
    rng: Rng,
    running: Option<(Graph, K)>,
    before: u64,
}

/// A generator that runs a kernel on a graph.
pub(super) fn build<K: Kernel + 'static>(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let scale = settings.count("scale", 10, 27)? as u32;
    let degree = settings.count("degree", 1, 1024)? as u32;
    let shapes = [("kronecker", Shape::Kronecker), ("uniform", Shape::Uniform)];
    let shape = shapes[settings.choice("graph", &shapes.map(|(name, _)| name))?].1;
    let orders = [("shuffled", Order::Shuffled), ("drawn", Order::Drawn)];
    let order = orders[settings.choice("order", &orders.map(|(name, _)| name))?].1;
    let plan = GraphPlan::new(shape, order, scale, degree, &mut rng);
    if plan.csr_bytes() > MAX_CSR_BYTES {
        return Err(settings.refuse(
            "scale",
            &format!("and degree make a graph of {} MiB", plan.csr_bytes() >> 20),
            "lower one of them: 4 GiB is the most",
        ));
    }
    let init = settings.switch("init")?;
    let file = settings.switch("file")?;
    let in_rows = settings.choice("build", &["list", "rows"])? == 1;
    let build = match (init, in_rows || file) {
        (false, _) => Build::Before,
        (true, false) => Build::FromList,
        (true, true) => Build::InRows,
    };
    let own = u64::from(plan.vertices()) * K::BYTES_PER_VERTEX + plan.edges() * K::BYTES_PER_EDGE;
    let footprint = plan.csr_bytes() + own;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    // The graph is drawn at the first step; the header must do with upper limits.
    let gives_back = build == Build::FromList && !K::KEEPS_LIST;
    let with_list = footprint + if gives_back { plan.edges() * 8 } else { 0 };
    let with_list = with_list + if file { plan.csr_bytes() } else { 0 };
    let regions = with_list / (PAGE_BYTES * u64::from(HUGE_PAGES)) + 8;
    stage.header.expected_pages = Some(regions as u32 * HUGE_PAGES);
    let records = stage.header.expected_records.unwrap_or(0);
    let loaded = if init || file { with_list / PAGE_BYTES } else { 0 };
    stage.header.expected_records = Some(records + loaded);
    let workload = OnGraph::<K> { cpu, plan, file, build, rng, running: None, before: 0 };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl<K: Kernel> Workload for OnGraph<K> {
    fn step(&mut self, stage: &mut Stage) -> bool {
        let Some((graph, kernel)) = &mut self.running else {
            let file = self.file.then(|| stage.open_file(self.plan.csr_bytes()));
            let graph = Graph::build(&self.plan, stage, (self.build, file), K::KEEPS_LIST);
            if self.file {
                stage.close_file();
            }
            let kernel = K::new(&self.plan, &graph, stage, self.build != Build::Before);
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
    for_each_edge_of(machine, vertex, |machine, _, neighbour| visit(machine, neighbour));
}

/// As [`for_each_neighbour`], with the position of the neighbour among those of all vertices.
#[inline]
pub(super) fn for_each_edge_of(
    machine: &mut Machine<'_>,
    vertex: u32,
    mut visit: impl FnMut(&mut Machine<'_>, u64, u32),
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
        visit(machine, position, graph.neighbour(position));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::tests::check;
    use frostline_core::spec::Spec;
    use frostline_trace::header::TraceHeader;

    /// Lends a graph of 1024 vertices, drawn sparsely enough to fall into pieces.
    pub(crate) fn on_small_graph(run: impl FnOnce(&GraphPlan, &mut Machine<'_>)) {
        let mut rng = Rng::new(4);
        let plan = GraphPlan::new(Shape::Kronecker, Order::Shuffled, 10, 3, &mut rng);
        let given = Spec::parse("bfs").expect("a name");
        let settings = Settings::new(given, &params("4")).expect("defaults");
        let (mut cpu, _) = Cpu::open(&settings, 1 << 20).expect("defaults");
        let mut stage = Stage::new(TraceHeader::named("test"), 1);
        let graph = Graph::build(&plan, &mut stage, (Build::FromList, None), true);
        let machine =
            &mut Machine { cpu: &mut cpu, stage: &mut stage, graph: &graph, rng: &mut rng };
        run(&plan, machine);
    }

    #[test]
    fn a_file_is_read_as_its_rows_are_filled_and_never_again() {
        let [list, rows, file] = ["build=list", "build=rows", "file=on"]
            .map(|how| check(&format!("bfs:scale=14:accesses=300K:{how}")));
        // 2^14 rows of 8 bytes, 2^19 neighbours of 4, and the list of 2^18 edges.
        let [row_pages, neighbour_pages] =
            [8 * ((1 << 14) + 1), 4 << 19].map(|b: u64| b.div_ceil(4096));
        let pages = row_pages + neighbour_pages;
        assert_eq!(list.pages.len() as u64, rows.pages.len() as u64 + (8 << 18) / 4096);
        assert_eq!(file.pages.len() as u64, rows.pages.len() as u64 + pages);
        assert_eq!((file.files_closed, rows.files_closed), (1, 0));
        let ascends = |pages: &[u32]| pages.windows(2).all(|two| two[0] < two[1]);
        assert!(
            ascends(&rows.first_touch[..pages as usize]),
            "arrays are filled from their starts"
        );
        let loading = &file.first_touch[..2 * pages as usize];
        let (read, filled): (Vec<u32>, Vec<u32>) =
            loading.chunks(2).map(|two| (two[0], two[1])).unzip();
        assert!(ascends(&read) && ascends(&filled), "a page is read for each that is filled");
        assert!(read.iter().all(|page| file.pages[page] == 1), "and is not looked at again");
    }

    #[test]
    fn the_list_of_edges_is_given_back_before_the_kernel_runs() {
        for name in
            ["pagerank", "pagerank-delta", "bfs", "cc", "bc", "kronecker-pr", "bfs:graph=uniform"]
        {
            let summary = check(&format!("{name}:scale=14:accesses=300K"));
            assert!(summary.unmapped_early && summary.marks > 1, "{name}");
            assert!(summary.by_kind[3] > 0, "{name}: dirty lines are written back");
        }
    }
}
