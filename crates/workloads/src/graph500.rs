//! Graph500: searches from random vertices, each checked against the list of edges afterwards as
//! the benchmark demands: the kernel of `graph500`.

use super::bfs::Bfs;
use super::graph::{EdgeList, Graph, GraphPlan, written};
use super::graph_kernel::{Kernel, Machine};
use super::stage::{Area, Stage};

const UNKNOWN: u32 = u32::MAX;
const PER_STEP: u32 = 64;

/// What is done next.
#[derive(Debug)]
enum Phase {
    Search,
    /// Depths of all vertices, from the tree of parents.
    Depths(u32),
    /// Edges join vertices whose depths differ by one at most.
    Edges(Box<EdgeList>),
}

/// A search with its operation mark, then its check; the list of edges stays in memory for it.
#[derive(Debug)]
pub(super) struct Graph500 {
    plan: GraphPlan,
    bfs: Bfs,
    depths: Vec<u32>,
    depths_area: Area,
    phase: Phase,
    /// Edges found in order.
    checked: u64,
}

impl Kernel for Graph500 {
    const BYTES_PER_VERTEX: u64 = Bfs::BYTES_PER_VERTEX + 4;
    const BYTES_PER_EDGE: u64 = 8;
    const KEEPS_LIST: bool = true;

    fn new(plan: &GraphPlan, graph: &Graph, stage: &mut Stage, init: bool) -> Self {
        Self {
            plan: plan.clone(),
            bfs: Bfs::new(plan, graph, stage, init),
            depths: vec![UNKNOWN; graph.vertices() as usize],
            depths_area: written(stage, u64::from(graph.vertices()) * 4, init),
            phase: Phase::Search,
            checked: 0,
        }
    }

    fn step(&mut self, machine: &mut Machine<'_>) {
        match &mut self.phase {
            Phase::Search => {
                self.bfs.step(machine);
                if self.bfs.is_finished() {
                    self.depths.fill(UNKNOWN);
                    machine.cpu.clear(machine.stage, self.depths_area);
                    self.phase = Phase::Depths(0);
                }
            }
            Phase::Depths(next) => {
                let some = *next..(*next + PER_STEP).min(machine.graph.vertices());
                *next = some.end;
                let finished = some.end == machine.graph.vertices();
                some.for_each(|vertex| self.find_depth(machine, vertex));
                if finished {
                    self.phase = Phase::Edges(Box::new(self.plan.list()));
                }
            }
            Phase::Edges(list) => {
                for _ in 0..PER_STEP {
                    let Some((u, v)) = list.next() else {
                        self.phase = Phase::Search;
                        return;
                    };
                    let place = (list.drawn() - 1) * 8;
                    if let Some(area) = machine.graph.list_area {
                        machine.cpu.load(machine.stage, area, place);
                    }
                    for vertex in [u, v] {
                        machine.cpu.load(machine.stage, self.depths_area, u64::from(vertex) * 4);
                    }
                    let (a, b) = (self.depths[u as usize], self.depths[v as usize]);
                    assert!(a == b || a.abs_diff(b) == 1, "a search must reach ends of an edge");
                    self.checked += 1;
                }
            }
        }
    }
}

impl Graph500 {
    /// Goes up the tree to a vertex of known depth, and down again.
    fn find_depth(&mut self, machine: &mut Machine<'_>, vertex: u32) {
        let mut way = Vec::new();
        let (mut at, mut depth) = (vertex, 0);
        loop {
            machine.cpu.load(machine.stage, self.depths_area, u64::from(at) * 4);
            if self.depths[at as usize] != UNKNOWN {
                depth = self.depths[at as usize];
                break;
            }
            let Some(parent) = self.bfs.parent(machine, at) else { return };
            if parent == at {
                self.set_depth(machine, at, 0);
                break;
            }
            way.push(at);
            at = parent;
        }
        for &vertex in way.iter().rev() {
            depth += 1;
            self.set_depth(machine, vertex, depth);
        }
    }

    fn set_depth(&mut self, machine: &mut Machine<'_>, vertex: u32, depth: u32) {
        machine.cpu.store(machine.stage, self.depths_area, u64::from(vertex) * 4);
        self.depths[vertex as usize] = depth;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_kernel::tests::on_small_graph;

    #[test]
    fn every_edge_is_checked_after_a_search() {
        on_small_graph(|plan, machine| {
            let mut kernel = Graph500::new(plan, machine.graph, machine.stage, true);
            let before = machine.stage.records();
            while kernel.checked == 0 {
                kernel.step(machine);
            }
            while !matches!(kernel.phase, Phase::Search) {
                kernel.step(machine);
            }
            assert_eq!(kernel.checked as usize, plan.list().count());
            assert!(kernel.depths.iter().any(|&depth| depth != UNKNOWN && depth > 1));
            assert!(machine.stage.records() > before);
        });
    }
}
