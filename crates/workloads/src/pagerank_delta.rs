//! PageRank that passes on changes only, by pushing: the kernel of `pagerank-delta`.
//!
//! A round adds what each active vertex changed by to sums of its neighbours. A vertex is active in the next
//! round if its score has changed by more than a hundredth, so that fewer are from round to round.
//! Source: PageRankDelta of Ligra (Shun and Blelloch, PPoPP 2013), with its passes over all vertices.
//! Not: its copies of the active vertices, which it makes for each round.

use super::graph::{Graph, GraphPlan, written};
use super::graph_kernel::{Kernel, Machine, for_each_neighbour};
use super::stage::{Area, Stage};
use frostline_trace::event::{StreamId, TraceEvent};

const DAMPING: f64 = 0.85;
const VERTICES_PER_STEP: u32 = 16;
/// A score that changes by a larger part of itself is passed on.
const ACTIVE: f64 = 0.01;
/// Scores change by less in the last round, all together.
const CHANGE: f64 = 1e-7;
const MOST_ROUNDS: u32 = 100;
const STREAM: StreamId = StreamId(0);
const OP: u64 = 0;

/// What is being done for all vertices, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Begin,
    Push,
    Score,
    Amount,
    Sum,
    Reset,
}

/// One operation mark per round. After the last one of a computation, the next begins anew.
#[derive(Debug)]
pub(super) struct PageRankDelta {
    scores: Vec<f64>,
    deltas: Vec<f64>,
    sums: Vec<f64>,
    active: Vec<bool>,
    scores_area: Area,
    deltas_area: Area,
    sums_area: Area,
    active_area: Area,
    pass: Pass,
    next: u32,
    round: u32,
    change: f64,
}

impl Kernel for PageRankDelta {
    const BYTES_PER_VERTEX: u64 = 25;

    fn new(_: &GraphPlan, graph: &Graph, stage: &mut Stage, init: bool) -> Self {
        let vertices = graph.vertices() as usize;
        let [scores_area, deltas_area, sums_area, active_area] =
            [8, 8, 8, 1].map(|bytes| written(stage, vertices as u64 * bytes, init));
        Self {
            scores: vec![0.0; vertices],
            deltas: vec![0.0; vertices],
            sums: vec![0.0; vertices],
            active: vec![false; vertices],
            scores_area,
            deltas_area,
            sums_area,
            active_area,
            pass: Pass::Begin,
            next: 0,
            round: 0,
            change: 0.0,
        }
    }

    fn step(&mut self, machine: &mut Machine<'_>) {
        let vertices = machine.graph.vertices();
        if self.pass == Pass::Push && self.next == 0 {
            machine.stage.event(TraceEvent::OpBegin { stream: STREAM, op: OP });
        }
        for vertex in self.next..(self.next + VERTICES_PER_STEP).min(vertices) {
            match self.pass {
                Pass::Begin => self.begin(machine, vertex),
                Pass::Push => self.push(machine, vertex),
                Pass::Score => self.score(machine, vertex),
                Pass::Amount => {
                    load(machine, self.deltas_area, vertex);
                    self.sums[vertex as usize] = self.deltas[vertex as usize].abs();
                    store(machine, self.sums_area, vertex);
                }
                Pass::Sum => {
                    load(machine, self.sums_area, vertex);
                    self.change += self.sums[vertex as usize];
                }
                Pass::Reset => {
                    self.sums[vertex as usize] = 0.0;
                    store(machine, self.sums_area, vertex);
                }
            }
        }
        self.next += VERTICES_PER_STEP;
        if self.next >= vertices {
            self.next = 0;
            self.end_pass(machine);
        }
    }
}

impl PageRankDelta {
    fn begin(&mut self, machine: &mut Machine<'_>, vertex: u32) {
        let i = vertex as usize;
        self.scores[i] = 0.0;
        self.deltas[i] = 1.0 / f64::from(machine.graph.vertices());
        self.sums[i] = 0.0;
        self.active[i] = true;
        for area in [self.scores_area, self.deltas_area, self.sums_area] {
            store(machine, area, vertex);
        }
        machine.cpu.store(machine.stage, self.active_area, u64::from(vertex));
    }

    fn push(&mut self, machine: &mut Machine<'_>, vertex: u32) {
        machine.cpu.load(machine.stage, self.active_area, u64::from(vertex));
        let row = machine.graph.row(vertex);
        if !self.active[vertex as usize] || row.is_empty() {
            return;
        }
        load(machine, self.deltas_area, vertex);
        let share = self.deltas[vertex as usize] / (row.end - row.start) as f64;
        let (sums, area) = (&mut self.sums, self.sums_area);
        for_each_neighbour(machine, vertex, |machine, neighbour| {
            sums[neighbour as usize] += share;
            load(machine, area, neighbour);
            store(machine, area, neighbour);
        });
    }

    fn score(&mut self, machine: &mut Machine<'_>, vertex: u32) {
        let i = vertex as usize;
        let average = 1.0 / f64::from(machine.graph.vertices());
        load(machine, self.sums_area, vertex);
        let pulled = DAMPING * self.sums[i];
        let first = self.round == 0;
        // The first round makes scores of what every vertex began with, which was passed on whole.
        let (delta, before) =
            if first { (pulled - DAMPING * average, average) } else { (pulled, self.scores[i]) };
        self.deltas[i] = delta;
        store(machine, self.deltas_area, vertex);
        load(machine, self.scores_area, vertex);
        let compared = if first { before + delta } else { before };
        let active = delta.abs() > ACTIVE * compared;
        if first || active {
            self.scores[i] = before + delta;
            store(machine, self.scores_area, vertex);
        }
        self.active[i] = active;
        machine.cpu.store(machine.stage, self.active_area, u64::from(vertex));
    }

    fn end_pass(&mut self, machine: &mut Machine<'_>) {
        self.pass = match self.pass {
            Pass::Begin => {
                self.round = 0;
                Pass::Push
            }
            Pass::Push => Pass::Score,
            Pass::Score => Pass::Amount,
            Pass::Amount => {
                self.change = 0.0;
                Pass::Sum
            }
            Pass::Sum => {
                machine.stage.event(TraceEvent::OpEnd { stream: STREAM, op: OP });
                self.round += 1;
                let ends = self.change < CHANGE || self.round == MOST_ROUNDS;
                if ends { Pass::Begin } else { Pass::Reset }
            }
            Pass::Reset => Pass::Push,
        };
    }
}

fn load(machine: &mut Machine<'_>, area: Area, vertex: u32) {
    machine.cpu.load(machine.stage, area, u64::from(vertex) * 8);
}

fn store(machine: &mut Machine<'_>, area: Area, vertex: u32) {
    machine.cpu.store(machine.stage, area, u64::from(vertex) * 8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_kernel::tests::on_small_graph;

    /// One computation; gives the active vertices at the end of each round.
    fn compute(kernel: &mut PageRankDelta, machine: &mut Machine<'_>) -> Vec<usize> {
        let mut active = Vec::new();
        loop {
            let before = kernel.pass;
            kernel.step(machine);
            if before == Pass::Score && kernel.pass == Pass::Amount {
                active.push(kernel.active.iter().filter(|&&a| a).count());
            }
            if before == Pass::Sum && kernel.pass == Pass::Begin {
                return active;
            }
        }
    }

    #[test]
    fn scores_are_near_to_those_of_the_equation() {
        on_small_graph(|plan, machine| {
            let mut kernel = PageRankDelta::new(plan, machine.graph, machine.stage, true);
            compute(&mut kernel, machine);
            let vertices = machine.graph.vertices();
            let average = 1.0 / f64::from(vertices);
            let mut exact = vec![average; vertices as usize];
            for _ in 0..200 {
                let mut next = vec![0.15 * average; vertices as usize];
                for vertex in 0..vertices {
                    let row = machine.graph.row(vertex);
                    let degree = (row.end - row.start) as f64;
                    for p in row {
                        next[machine.graph.neighbour(p) as usize] +=
                            DAMPING * exact[vertex as usize] / degree;
                    }
                }
                exact = next;
            }
            for (vertex, (score, exact)) in kernel.scores.iter().zip(&exact).enumerate() {
                assert!((score / exact - 1.0).abs() < 0.1, "{vertex}: {score} {exact}");
            }
        });
    }

    #[test]
    fn fewer_vertices_are_active_from_round_to_round_and_all_at_the_next_beginning() {
        on_small_graph(|plan, machine| {
            let mut kernel = PageRankDelta::new(plan, machine.graph, machine.stage, true);
            let active = compute(&mut kernel, machine);
            assert!(active.len() > 5, "{active:?}");
            let [first, last] = [active[0], active[active.len() - 1]];
            assert!(first > kernel.active.len() / 4 && last < first / 10, "{active:?}");
            assert_eq!(compute(&mut kernel, machine), active, "it begins anew");
        });
    }
}
