//! Breadth-first search, top-down with a queue: the kernel of `bfs`.

use super::graph::{Graph, GraphPlan, written};
use super::graph_kernel::{Kernel, Machine, for_each_neighbour};
use super::stage::{Area, Stage};
use frostline_trace::event::{StreamId, TraceEvent};

const NOBODY: u32 = u32::MAX;
const VERTICES_PER_STEP: u32 = 16;

/// One search after the other, each with an operation mark, from random vertices that have
/// neighbours.
#[derive(Debug)]
pub(super) struct Bfs {
    parents: Vec<u32>,
    parents_area: Area,
    queue: Vec<u32>,
    queue_area: Area,
    head: usize,
    finished: bool,
}

const STREAM: StreamId = StreamId(0);
const OP: u64 = 0;

impl Kernel for Bfs {
    const BYTES_PER_VERTEX: u64 = 8;

    fn new(_: &GraphPlan, graph: &Graph, stage: &mut Stage, init: bool) -> Self {
        let len_bytes = u64::from(graph.vertices()) * 4;
        Self {
            parents: vec![NOBODY; graph.vertices() as usize],
            parents_area: written(stage, len_bytes, init),
            queue: Vec::with_capacity(graph.vertices() as usize),
            queue_area: written(stage, len_bytes, init),
            head: 0,
            finished: true,
        }
    }

    fn step(&mut self, machine: &mut Machine<'_>) {
        if self.finished {
            let source = machine.source();
            self.begin(machine, source);
        }
        for _ in 0..VERTICES_PER_STEP {
            if self.head == self.queue.len() {
                machine.stage.event(TraceEvent::OpEnd { stream: STREAM, op: OP });
                self.finished = true;
                return;
            }
            self.expand(machine);
        }
    }
}

impl Bfs {
    /// Whether the next step begins another search.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Loads the parent of a vertex; none where it was not reached.
    pub(super) fn parent(&self, machine: &mut Machine<'_>, vertex: u32) -> Option<u32> {
        machine.cpu.load(machine.stage, self.parents_area, u64::from(vertex) * 4);
        Some(self.parents[vertex as usize]).filter(|&parent| parent != NOBODY)
    }

    fn begin(&mut self, machine: &mut Machine<'_>, source: u32) {
        machine.stage.event(TraceEvent::OpBegin { stream: STREAM, op: OP });
        self.finished = false;
        self.parents.fill(NOBODY);
        machine.cpu.clear(machine.stage, self.parents_area);
        self.queue.clear();
        self.head = 0;
        self.reach(machine, source, source);
    }

    fn reach(&mut self, machine: &mut Machine<'_>, vertex: u32, parent: u32) {
        self.parents[vertex as usize] = parent;
        machine.cpu.store(machine.stage, self.parents_area, u64::from(vertex) * 4);
        machine.cpu.store(machine.stage, self.queue_area, self.queue.len() as u64 * 4);
        self.queue.push(vertex);
    }

    fn expand(&mut self, machine: &mut Machine<'_>) {
        let vertex = self.queue[self.head];
        machine.cpu.load(machine.stage, self.queue_area, self.head as u64 * 4);
        self.head += 1;
        for_each_neighbour(machine, vertex, |machine, neighbour| {
            machine.cpu.load(machine.stage, self.parents_area, u64::from(neighbour) * 4);
            if self.parents[neighbour as usize] == NOBODY {
                self.reach(machine, neighbour, vertex);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_kernel::tests::on_small_graph;

    /// Vertices that can be reached, by marking until nothing changes.
    fn component(graph: &Graph, source: u32) -> Vec<bool> {
        let mut reached = vec![false; graph.vertices() as usize];
        reached[source as usize] = true;
        loop {
            let before = reached.clone();
            for vertex in 0..graph.vertices() {
                let near = |p| reached[graph.neighbour(p) as usize];
                if graph.row(vertex).any(near) {
                    reached[vertex as usize] = true;
                }
            }
            if before == reached {
                return reached;
            }
        }
    }

    #[test]
    fn a_search_visits_exactly_the_component_of_its_source() {
        on_small_graph(|plan, machine| {
            let mut kernel = Bfs::new(plan, machine.graph, machine.stage, true);
            let mut unreached = 0;
            for _ in 0..5 {
                kernel.step(machine);
                while !kernel.finished {
                    kernel.step(machine);
                }
                let source = kernel.queue[0];
                let reached: Vec<bool> = kernel.parents.iter().map(|&p| p != NOBODY).collect();
                assert_eq!(reached, component(machine.graph, source));
                assert_eq!(reached.iter().filter(|&&r| r).count(), kernel.queue.len());
                unreached += reached.iter().filter(|&&r| !r).count();
            }
            assert!(unreached > 0, "a graph in one piece would test little");
        });
    }

    #[test]
    fn parents_are_one_step_nearer() {
        on_small_graph(|plan, machine| {
            let mut kernel = Bfs::new(plan, machine.graph, machine.stage, true);
            kernel.step(machine);
            while !kernel.finished {
                kernel.step(machine);
            }
            let mut depth = vec![0u32; kernel.parents.len()];
            for &vertex in &kernel.queue[1..] {
                let parent = kernel.parents[vertex as usize];
                depth[vertex as usize] = depth[parent as usize] + 1;
                let graph = machine.graph;
                assert!(graph.row(parent).any(|p| graph.neighbour(p) == vertex));
            }
            let order: Vec<u32> = kernel.queue.iter().map(|&v| depth[v as usize]).collect();
            assert!(order.is_sorted(), "breadth first");
        });
    }
}
