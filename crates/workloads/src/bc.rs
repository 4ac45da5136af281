//! Betweenness centrality (Brandes 2001) from one random vertex after the other, as the GAP suite
//! has it: the kernel of `bc`.

use super::graph::{Graph, GraphPlan, written};
use super::graph_kernel::{Kernel, Machine, for_each_edge_of};
use super::stage::{Area, Stage};
use frostline_trace::event::{StreamId, TraceEvent};

const UNSEEN: u32 = u32::MAX;
const VERTICES_PER_STEP: u32 = 16;
const STREAM: StreamId = StreamId(0);
const OP: u64 = 0;

/// One operation mark per source: a search that counts shortest paths, and the way back that adds
/// up dependencies.
#[derive(Debug)]
pub(super) struct Centrality {
    depths: Vec<u32>,
    paths: Vec<f64>,
    dependencies: Vec<f32>,
    scores: Vec<f32>,
    /// One bit per edge: it leads to the next depth.
    successors: Vec<u64>,
    queue: Vec<u32>,
    depths_area: Area,
    paths_area: Area,
    dependencies_area: Area,
    scores_area: Area,
    successors_area: Area,
    queue_area: Area,
    /// Next place in the queue; on the way back, one above it.
    at: usize,
    stage: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Idle,
    Forward,
    Back,
}

impl Kernel for Centrality {
    const BYTES_PER_VERTEX: u64 = 4 + 8 + 4 + 4 + 4;
    const BYTES_PER_EDGE: u64 = 1;

    fn new(_: &GraphPlan, graph: &Graph, stage: &mut Stage, init: bool) -> Self {
        let vertices = graph.vertices() as usize;
        let edges = graph.row(graph.vertices() - 1).end;
        let mut array = |bytes: u64| written(stage, (vertices as u64 * bytes).max(8), init);
        let [depths_area, dependencies_area, scores_area, queue_area] =
            [4, 4, 4, 4].map(&mut array);
        let paths_area = array(8);
        let successors_area = written(stage, edges.div_ceil(64).max(1) * 8, init);
        Self {
            depths: vec![UNSEEN; vertices],
            paths: vec![0.0; vertices],
            dependencies: vec![0.0; vertices],
            scores: vec![0.0; vertices],
            successors: vec![0; edges.div_ceil(64) as usize],
            queue: Vec::with_capacity(vertices),
            depths_area,
            paths_area,
            dependencies_area,
            scores_area,
            successors_area,
            queue_area,
            at: 0,
            stage: Progress::Idle,
        }
    }

    fn step(&mut self, machine: &mut Machine<'_>) {
        if self.stage == Progress::Idle {
            let source = machine.source();
            self.begin(machine, source);
        }
        for _ in 0..VERTICES_PER_STEP {
            match self.stage {
                Progress::Forward if self.at < self.queue.len() => self.expand(machine),
                Progress::Forward => self.stage = Progress::Back,
                Progress::Back if self.at > 0 => self.add_up(machine),
                Progress::Back => {
                    machine.stage.event(TraceEvent::OpEnd { stream: STREAM, op: OP });
                    self.stage = Progress::Idle;
                    return;
                }
                Progress::Idle => return,
            }
        }
    }
}

impl Centrality {
    fn begin(&mut self, machine: &mut Machine<'_>, source: u32) {
        machine.stage.event(TraceEvent::OpBegin { stream: STREAM, op: OP });
        self.stage = Progress::Forward;
        self.at = 0;
        self.queue.clear();
        self.depths.fill(UNSEEN);
        self.paths.fill(0.0);
        self.dependencies.fill(0.0);
        self.successors.fill(0);
        for area in
            [self.depths_area, self.paths_area, self.dependencies_area, self.successors_area]
        {
            machine.cpu.clear(machine.stage, area);
        }
        self.depths[source as usize] = 0;
        self.paths[source as usize] = 1.0;
        machine.cpu.store(machine.stage, self.depths_area, u64::from(source) * 4);
        machine.cpu.store(machine.stage, self.paths_area, u64::from(source) * 8);
        self.push(machine, source);
    }

    fn push(&mut self, machine: &mut Machine<'_>, vertex: u32) {
        machine.cpu.store(machine.stage, self.queue_area, self.queue.len() as u64 * 4);
        self.queue.push(vertex);
    }

    fn expand(&mut self, machine: &mut Machine<'_>) {
        let vertex = self.queue[self.at];
        machine.cpu.load(machine.stage, self.queue_area, self.at as u64 * 4);
        self.at += 1;
        let (below, ways) = (self.depths[vertex as usize] + 1, self.paths[vertex as usize]);
        for_each_edge_of(machine, vertex, |machine, position, neighbour| {
            let n = neighbour as usize;
            machine.cpu.load(machine.stage, self.depths_area, u64::from(neighbour) * 4);
            if self.depths[n] == UNSEEN {
                self.depths[n] = below;
                machine.cpu.store(machine.stage, self.depths_area, u64::from(neighbour) * 4);
                self.push(machine, neighbour);
            }
            if self.depths[n] == below {
                self.successors[position as usize / 64] |= 1 << (position % 64);
                machine.cpu.store(machine.stage, self.successors_area, position / 64 * 8);
                self.paths[n] += ways;
                machine.cpu.store(machine.stage, self.paths_area, u64::from(neighbour) * 8);
            }
        });
    }

    fn add_up(&mut self, machine: &mut Machine<'_>) {
        self.at -= 1;
        let vertex = self.queue[self.at];
        let ways = self.paths[vertex as usize];
        machine.cpu.load(machine.stage, self.queue_area, self.at as u64 * 4);
        machine.cpu.load(machine.stage, self.paths_area, u64::from(vertex) * 8);
        let mut sum = 0.0;
        for_each_edge_of(machine, vertex, |machine, position, neighbour| {
            machine.cpu.load(machine.stage, self.successors_area, position / 64 * 8);
            if self.successors[position as usize / 64] >> (position % 64) & 1 == 1 {
                machine.cpu.load(machine.stage, self.paths_area, u64::from(neighbour) * 8);
                machine.cpu.load(machine.stage, self.dependencies_area, u64::from(neighbour) * 4);
                let share = ways / self.paths[neighbour as usize];
                sum += share as f32 * (1.0 + self.dependencies[neighbour as usize]);
            }
        });
        self.dependencies[vertex as usize] = sum;
        machine.cpu.store(machine.stage, self.dependencies_area, u64::from(vertex) * 4);
        if self.at > 0 {
            self.scores[vertex as usize] += sum;
            machine.cpu.store(machine.stage, self.scores_area, u64::from(vertex) * 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_kernel::tests::on_small_graph;

    /// Distances and numbers of shortest paths from one vertex, depth by depth.
    fn plain(graph: &Graph, source: u32) -> (Vec<Option<u32>>, Vec<f64>) {
        let n = graph.vertices() as usize;
        let (mut depth, mut paths) = (vec![None; n], vec![0.0; n]);
        depth[source as usize] = Some(0);
        paths[source as usize] = 1.0;
        let mut level = vec![source];
        for d in 1.. {
            let mut next = Vec::new();
            for &u in &level {
                for p in graph.row(u) {
                    let v = graph.neighbour(p) as usize;
                    if depth[v].is_none() {
                        depth[v] = Some(d);
                        next.push(v as u32);
                    }
                    if depth[v] == Some(d) {
                        paths[v] += paths[u as usize];
                    }
                }
            }
            if next.is_empty() {
                return (depth, paths);
            }
            level = next;
        }
        unreachable!("a level without vertices ends it")
    }

    #[test]
    fn dependencies_are_sums_over_pairs_of_vertices() {
        on_small_graph(|plan, machine| {
            let mut kernel = Centrality::new(plan, machine.graph, machine.stage, true);
            kernel.step(machine);
            while kernel.stage != Progress::Idle {
                kernel.step(machine);
            }
            let (graph, source) = (machine.graph, kernel.queue[0]);
            let (depth, paths) = plain(graph, source);
            let mut busy = 0;
            for v in (0..graph.vertices()).filter(|&v| v != source).step_by(7) {
                // Shortest paths through `v`: those to it times those from it, for every end.
                let (onward, ways) = plain(graph, v);
                let expected: f64 = (0..graph.vertices() as usize)
                    .filter(|&end| end != v as usize)
                    .filter_map(|end| {
                        let (total, part) = (depth[end]?, depth[v as usize]? + onward[end]?);
                        (total == part).then(|| paths[v as usize] * ways[end] / paths[end])
                    })
                    .sum();
                let found = f64::from(kernel.scores[v as usize]);
                assert!(
                    (found - expected).abs() <= 1e-3 * expected.max(1.0),
                    "{v}: {found}, {expected}"
                );
                busy += u32::from(expected > 0.0);
            }
            assert!(busy > 10, "{busy} vertices lie between others");
        });
    }
}
