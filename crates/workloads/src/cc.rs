//! Connected components by Afforest (Sutton et al., IPDPS 2018), as the GAP suite has it: the
//! kernel of `cc`.

use super::graph::{Graph, GraphPlan, written};
use super::graph_kernel::{Kernel, Machine, for_each_neighbour};
use super::stage::{Area, Stage};
use frostline_trace::event::{StreamId, TraceEvent};
use std::collections::BTreeMap;

/// Neighbours of every vertex that are linked before the largest component is guessed.
const ROUNDS: u32 = 2;
/// Vertices looked at for the guess.
const GUESSES: u32 = 1024;
const VERTICES_PER_STEP: u32 = 16;
const STREAM: StreamId = StreamId(0);
const OP: u64 = 0;

/// What is done to the next vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Each is its own component.
    Reset,
    /// Linked to one neighbour.
    Link(u32),
    /// Pointed at the root of its component; before linking round so many.
    Compress(u32),
    /// Linked to its other neighbours, unless it belongs to the largest component.
    Finish { largest: u32 },
    /// Pointed at its root for the last time.
    Conclude,
}

/// One operation mark per computation of all components.
#[derive(Debug)]
pub(super) struct Components {
    roots: Vec<u32>,
    area: Area,
    phase: Phase,
    next: u32,
}

impl Kernel for Components {
    const BYTES_PER_VERTEX: u64 = 4;

    fn new(_: &GraphPlan, graph: &Graph, stage: &mut Stage, init: bool) -> Self {
        Self {
            roots: vec![0; graph.vertices() as usize],
            area: written(stage, u64::from(graph.vertices()) * 4, init),
            phase: Phase::Reset,
            next: 0,
        }
    }

    fn step(&mut self, machine: &mut Machine<'_>) {
        let vertices = machine.graph.vertices();
        if self.next == 0 && self.phase == Phase::Reset {
            machine.stage.event(TraceEvent::OpBegin { stream: STREAM, op: OP });
        }
        let some = self.next..(self.next + VERTICES_PER_STEP).min(vertices);
        self.next = some.end;
        some.for_each(|vertex| self.visit(machine, vertex));
        if self.next < vertices {
            return;
        }
        self.next = 0;
        self.phase = match self.phase {
            Phase::Reset => Phase::Link(0),
            Phase::Link(round) => Phase::Compress(round + 1),
            Phase::Compress(round) if round < ROUNDS => Phase::Link(round),
            Phase::Compress(_) => Phase::Finish { largest: self.guess_largest(machine) },
            Phase::Finish { .. } => Phase::Conclude,
            Phase::Conclude => {
                machine.stage.event(TraceEvent::OpEnd { stream: STREAM, op: OP });
                Phase::Reset
            }
        };
    }
}

impl Components {
    fn visit(&mut self, machine: &mut Machine<'_>, vertex: u32) {
        match self.phase {
            Phase::Reset => self.set(machine, vertex, vertex),
            Phase::Link(round) => {
                let position = machine.graph.row(vertex).nth(round as usize);
                machine.cpu.load(machine.stage, machine.graph.rows_area, u64::from(vertex) * 8);
                if let Some(position) = position {
                    let area = machine.graph.neighbours_area;
                    machine.cpu.load(machine.stage, area, position * 4);
                    self.link(machine, vertex, machine.graph.neighbour(position));
                }
            }
            Phase::Compress(_) | Phase::Conclude => self.compress(machine, vertex),
            Phase::Finish { largest } => {
                if self.root(machine, vertex) == largest {
                    return;
                }
                let mut nth = 0;
                for_each_neighbour(machine, vertex, |machine, neighbour| {
                    if nth >= ROUNDS {
                        self.link(machine, vertex, neighbour);
                    }
                    nth += 1;
                });
            }
        }
    }

    fn root(&self, machine: &mut Machine<'_>, vertex: u32) -> u32 {
        machine.cpu.load(machine.stage, self.area, u64::from(vertex) * 4);
        self.roots[vertex as usize]
    }

    fn set(&mut self, machine: &mut Machine<'_>, vertex: u32, root: u32) {
        machine.cpu.store(machine.stage, self.area, u64::from(vertex) * 4);
        self.roots[vertex as usize] = root;
    }

    /// Joins the trees of two vertices: the higher root is hung below the lower one.
    fn link(&mut self, machine: &mut Machine<'_>, u: u32, v: u32) {
        let (mut a, mut b) = (self.root(machine, u), self.root(machine, v));
        while a != b {
            let (low, high) = (a.min(b), a.max(b));
            let above = self.root(machine, high);
            if above == low {
                return;
            }
            if above == high {
                self.set(machine, high, low);
                return;
            }
            (a, b) = (self.root(machine, above), self.root(machine, low));
        }
    }

    fn compress(&mut self, machine: &mut Machine<'_>, vertex: u32) {
        let mut root = self.root(machine, vertex);
        loop {
            let above = self.root(machine, root);
            if above == root {
                return;
            }
            self.set(machine, vertex, above);
            root = above;
        }
    }

    fn guess_largest(&self, machine: &mut Machine<'_>) -> u32 {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for _ in 0..GUESSES {
            let vertex = machine.rng.below(self.roots.len() as u64) as u32;
            *counts.entry(self.root(machine, vertex)).or_default() += 1;
        }
        counts.into_iter().max_by_key(|&(_, count)| count).map_or(0, |(root, _)| root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_kernel::tests::on_small_graph;

    #[test]
    fn vertices_have_one_root_exactly_where_edges_join_them() {
        on_small_graph(|plan, machine| {
            let mut kernel = Components::new(plan, machine.graph, machine.stage, true);
            while kernel.phase != Phase::Conclude || kernel.next != 0 {
                kernel.step(machine);
            }
            kernel.step(machine);
            while kernel.phase != Phase::Reset {
                kernel.step(machine);
            }
            // An independent answer: labels spread until nothing changes.
            let vertices = machine.graph.vertices();
            let mut labels: Vec<u32> = (0..vertices).collect();
            loop {
                let before = labels.clone();
                for (u, v) in plan.list() {
                    let low = labels[u as usize].min(labels[v as usize]);
                    (labels[u as usize], labels[v as usize]) = (low, low);
                }
                if labels == before {
                    break;
                }
            }
            assert_eq!(kernel.roots, labels, "roots are the lowest vertices");
            let pieces = labels.iter().collect::<std::collections::BTreeSet<_>>().len();
            assert!((2..vertices as usize).contains(&pieces), "{pieces} pieces test little");
        });
    }
}
