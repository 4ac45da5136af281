//! PageRank by pulling, in place (Gauss-Seidel): the kernel of `pagerank`.

use super::graph::{Graph, GraphPlan, written};
use super::graph_kernel::{Kernel, Machine, for_each_neighbour};
use super::stage::{Area, Stage};
use frostline_trace::event::{StreamId, TraceEvent};

const DAMPING: f32 = 0.85;
const VERTICES_PER_STEP: u32 = 16;

/// One operation mark per round over all vertices.
#[derive(Debug)]
pub(super) struct PageRank {
    scores: Vec<f32>,
    /// Score divided by degree: what a vertex passes on.
    shares: Vec<f32>,
    scores_area: Area,
    shares_area: Area,
    next: u32,
}

impl Kernel for PageRank {
    const BYTES_PER_VERTEX: u64 = 8;

    fn new(_: &GraphPlan, graph: &Graph, stage: &mut Stage, init: bool) -> Self {
        let vertices = graph.vertices();
        let score = 1.0 / vertices as f32;
        let len_bytes = u64::from(vertices) * 4;
        Self {
            scores: vec![score; vertices as usize],
            shares: (0..vertices).map(|v| share(graph, v, score)).collect(),
            scores_area: written(stage, len_bytes, init),
            shares_area: written(stage, len_bytes, init),
            next: 0,
        }
    }

    fn step(&mut self, machine: &mut Machine<'_>) {
        let vertices = machine.graph.vertices();
        let (stream, op) = (StreamId(0), 0);
        if self.next == 0 {
            machine.stage.event(TraceEvent::OpBegin { stream, op });
        }
        let base = (1.0 - DAMPING) / vertices as f32;
        for vertex in self.next..(self.next + VERTICES_PER_STEP).min(vertices) {
            let mut sum = 0.0;
            let (shares, area) = (&self.shares, self.shares_area);
            for_each_neighbour(machine, vertex, |machine, neighbour| {
                machine.cpu.load(machine.stage, area, u64::from(neighbour) * 4);
                sum += shares[neighbour as usize];
            });
            let score = base + DAMPING * sum;
            self.scores[vertex as usize] = score;
            machine.cpu.load(machine.stage, self.scores_area, u64::from(vertex) * 4);
            machine.cpu.store(machine.stage, self.scores_area, u64::from(vertex) * 4);
            self.shares[vertex as usize] = share(machine.graph, vertex, score);
            machine.cpu.store(machine.stage, self.shares_area, u64::from(vertex) * 4);
        }
        self.next += VERTICES_PER_STEP;
        if self.next >= vertices {
            self.next = 0;
            machine.stage.event(TraceEvent::OpEnd { stream, op });
        }
    }
}

fn share(graph: &Graph, vertex: u32, score: f32) -> f32 {
    let row = graph.row(vertex);
    score / (row.end - row.start).max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_kernel::tests::on_small_graph;

    #[test]
    fn scores_solve_the_equation_of_pagerank() {
        on_small_graph(|plan, machine| {
            let mut kernel = PageRank::new(plan, machine.graph, machine.stage, true);
            let vertices = machine.graph.vertices();
            for _ in 0..100 * vertices / VERTICES_PER_STEP {
                kernel.step(machine);
            }
            for vertex in 0..vertices {
                let graph = machine.graph;
                let pulled: f64 = graph
                    .row(vertex)
                    .map(|p| {
                        let neighbour = graph.neighbour(p);
                        let degree = graph.row(neighbour).count() as f64;
                        f64::from(kernel.scores[neighbour as usize]) / degree
                    })
                    .sum();
                let expected = 0.15 / f64::from(vertices) + 0.85 * pulled;
                let score = f64::from(kernel.scores[vertex as usize]);
                assert!((score / expected - 1.0).abs() < 1e-3, "{vertex}: {score} {expected}");
            }
        });
    }
}
