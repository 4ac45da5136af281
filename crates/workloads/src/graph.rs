//! A random graph in compressed sparse rows, with the skew of real ones or without any.
//!
//! Kronecker graph of the Graph500 benchmark (A = 0.57, B = C = 0.19, probabilities to 2^-24), or
//! uniform graph (both ends of an edge anywhere): 2^scale vertices, `degree` edges for each, vertex
//! numbers shuffled or as drawn, both directions stored. Self-loops are dropped; parallel edges stay, as in the
//! generator's list. Edges are drawn again from the same seed, whenever they are needed, instead of
//! being kept.

use super::page_stream::write_pages;
use super::permutation::Permutation;
use super::stage::{Area, Stage};
use super::zipf_law::alias_table;
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::event::MapKind;

/// Which ends an edge has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// By the recursive quadrants of Graph500: few vertices have most edges.
    Kronecker,
    /// Any two vertices alike, as the Erdos-Renyi graphs of the GAP suite.
    Uniform,
}

/// How vertices are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// At random, as in Graph500 and the GAP suite.
    Shuffled,
    /// As the quadrants have it: the lower a number, the more edges. So do generators of R-MAT graphs
    /// that leave it at that, such as Ligra's.
    Drawn,
}

/// Size and randomness of a graph.
#[derive(Clone, Debug)]
pub(super) struct GraphPlan {
    pub(super) scale: u32,
    pub(super) degree: u32,
    /// Without it, vertices need no shuffling either.
    quadrants: Option<Quadrants>,
    /// `None`: as drawn.
    labels: Option<Permutation>,
    edges: Rng,
}

impl GraphPlan {
    /// `scale` within 1 and 27.
    pub(super) fn new(shape: Shape, order: Order, scale: u32, degree: u32, rng: &mut Rng) -> Self {
        let permutation = Permutation::new(1 << scale, rng);
        let labels = (order == Order::Shuffled).then_some(permutation);
        let quadrants = (shape == Shape::Kronecker).then(Quadrants::new);
        Self { scale, degree, quadrants, labels, edges: rng.fork() }
    }

    pub(super) fn vertices(&self) -> u32 {
        1 << self.scale
    }

    /// Edges drawn.
    pub(super) fn edges(&self) -> u64 {
        u64::from(self.degree) << self.scale
    }

    /// Bytes of the rows and of all neighbours, if no edge is a self-loop.
    pub(super) fn csr_bytes(&self) -> u64 {
        (u64::from(self.vertices()) + 1) * 8 + self.edges() * 8
    }

    /// All edges in the order of drawing, always the same ones.
    pub(super) fn list(&self) -> EdgeList {
        EdgeList { plan: self.clone(), rng: self.edges.clone(), drawn: 0 }
    }
}

/// Draws edges; self-loops are left out.
#[derive(Clone, Debug)]
pub(super) struct EdgeList {
    plan: GraphPlan,
    rng: Rng,
    drawn: u64,
}

impl EdgeList {
    /// Edges drawn by now, self-loops included: the place of the next one in the program's list.
    pub(super) fn drawn(&self) -> u64 {
        self.drawn
    }

    #[inline]
    fn draw(&mut self) -> (u32, u32) {
        let mask = self.plan.vertices() - 1;
        let Some(quadrants) = &self.plan.quadrants else {
            let random = self.rng.next_u64();
            return (random as u32 & mask, (random >> 32) as u32 & mask);
        };
        let (mut u, mut v) = (0u32, 0u32);
        let mut random = 0;
        for level in 0..self.plan.scale.div_ceil(LEVELS) {
            if level % 2 == 0 {
                random = self.rng.next_u64();
            }
            let bits = quadrants.draw(random as u32);
            random >>= 32;
            u = u << LEVELS | bits >> LEVELS;
            v = v << LEVELS | bits & ((1 << LEVELS) - 1);
        }
        let (u, v) = (u & mask, v & mask);
        self.plan.labels.as_ref().map_or((u, v), |labels| (labels.apply(u), labels.apply(v)))
    }
}

impl Iterator for EdgeList {
    type Item = (u32, u32);

    #[inline]
    fn next(&mut self) -> Option<(u32, u32)> {
        while self.drawn < self.plan.edges() {
            self.drawn += 1;
            let (u, v) = self.draw();
            if u != v {
                return Some((u, v));
            }
        }
        None
    }
}

/// Quadrants of several levels at once, by the alias method.
#[derive(Clone, Debug)]
struct Quadrants {
    /// Kept below this part of 2^24, else the other one.
    choices: Vec<(u32, u32)>,
}

/// Levels of the Kronecker product drawn at once: 256 quadrants.
const LEVELS: u32 = 4;

impl Quadrants {
    fn new() -> Self {
        const ABCD: [f64; 4] = [0.57, 0.19, 0.19, 0.05];
        // Index: the bits of `u` for all levels, then those of `v`.
        let weight = |index: u32| -> f64 {
            let (u, v) = (index >> LEVELS, index & ((1 << LEVELS) - 1));
            (0..LEVELS).map(|i| ABCD[(u >> i & 1) as usize * 2 + (v >> i & 1) as usize]).product()
        };
        let weights: Vec<f64> = (0..1 << (2 * LEVELS)).map(weight).collect();
        let choices = alias_table(&weights).into_iter().map(|choice| {
            let (keep, alias) = choice.parts();
            ((keep >> 40) as u32, alias)
        });
        Self { choices: choices.collect() }
    }

    #[inline]
    fn draw(&self, random: u32) -> u32 {
        let index = random >> 24;
        let (keep, alias) = self.choices[index as usize];
        if random & 0xff_ffff <= keep { index } else { alias }
    }
}

/// How a program comes by its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// It has it, and has touched none of it.
    Before,
    /// From a list of edges: the list is written, rows are counted, neighbours are scattered into
    /// place (their pages first touched in just that order), and the list is given back unless it
    /// is kept.
    FromList,
    /// Row by row.
    InRows,
}

/// A graph, and where its arrays lie in the traced program.
#[derive(Debug)]
pub(super) struct Graph {
    rows: Vec<u64>,
    neighbours: Vec<u32>,
    pub(super) rows_area: Area,
    pub(super) neighbours_area: Area,
    /// The list of edges, 8 bytes each, where it stays.
    pub(super) list_area: Option<Area>,
}

impl Graph {
    /// Draws the graph; the stage shows how a program builds it. A page of `file` is read before each
    /// page that it fills.
    pub(super) fn build(
        plan: &GraphPlan,
        stage: &mut Stage,
        (build, file): (Build, Option<Area>),
        keep_list: bool,
    ) -> Self {
        let init = build != Build::Before;
        let vertices = plan.vertices() as usize;
        let has_list = build == Build::FromList || keep_list;
        let list = has_list.then(|| written(stage, plan.edges() * 8, init));
        let rows_area = written(stage, (vertices as u64 + 1) * 8, build == Build::FromList);
        // Ends of the rows; filling from the back turns them into starts.
        let mut rows = vec![0u64; vertices + 1];
        for (u, v) in plan.list() {
            rows[u as usize] += 1;
            rows[v as usize] += 1;
        }
        let mut sum = 0;
        for row in &mut rows {
            sum += *row;
            *row = sum;
        }
        let neighbours_area = stage.map((sum * 4).max(1), MapKind::Anonymous);
        let mut neighbours = vec![0u32; sum as usize];
        let mut seen = vec![false; neighbours_area.run.pages as usize];
        let mut touched = Vec::new();
        for (u, v) in plan.list() {
            for (from, to) in [(u, v), (v, u)] {
                let row = &mut rows[from as usize];
                *row -= 1;
                neighbours[*row as usize] = to;
                let page = (*row * 4 / PAGE_BYTES) as usize;
                if !std::mem::replace(&mut seen[page], true) {
                    touched.push(neighbours_area.run.start.0 + page as u32);
                }
            }
        }
        let mut file = file.into_iter().flat_map(Area::pages);
        let order = match build {
            Build::Before => file.collect(),
            Build::FromList => touched,
            Build::InRows => rows_area
                .pages()
                .chain(neighbours_area.pages())
                .flat_map(|page| file.next().into_iter().chain([page]))
                .collect(),
        };
        write_pages(stage, order.into_iter());
        let list_area = if keep_list { list } else { None };
        if let (Some(list), None) = (list, list_area) {
            stage.unmap(list);
        }
        Self { rows, neighbours, rows_area, neighbours_area, list_area }
    }

    pub(super) fn vertices(&self) -> u32 {
        (self.rows.len() - 1) as u32
    }

    /// Positions of the vertex's neighbours.
    #[inline]
    pub(super) fn row(&self, vertex: u32) -> std::ops::Range<u64> {
        self.rows[vertex as usize]..self.rows[vertex as usize + 1]
    }

    #[inline]
    pub(super) fn neighbour(&self, position: u64) -> u32 {
        self.neighbours[position as usize]
    }
}

/// Maps an array and, with `init`, fills it from its start.
pub(super) fn written(stage: &mut Stage, len_bytes: u64, init: bool) -> Area {
    let area = stage.map(len_bytes, MapKind::Anonymous);
    if init {
        write_pages(stage, area.pages());
    }
    area
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_trace::header::TraceHeader;

    #[test]
    fn rows_hold_exactly_the_edges_drawn() {
        let plan = GraphPlan::new(Shape::Kronecker, Order::Shuffled, 9, 5, &mut Rng::new(2));
        let graph = Graph::build(
            &plan,
            &mut Stage::new(TraceHeader::named("t"), 1),
            (Build::FromList, None),
            false,
        );
        let mut expected = vec![Vec::new(); 512];
        for (u, v) in plan.list() {
            expected[u as usize].push(v);
            expected[v as usize].push(u);
        }
        assert!(expected.iter().map(Vec::len).sum::<usize>() > 4 * 512);
        for (vertex, expected) in (0..512).zip(&mut expected) {
            let mut row: Vec<u32> = graph.row(vertex).map(|p| graph.neighbour(p)).collect();
            row.sort_unstable();
            expected.sort_unstable();
            assert_eq!(&row, expected);
            assert!(!row.contains(&vertex));
        }
    }

    #[test]
    fn degrees_are_as_skewed_as_the_model_says() {
        let plan = GraphPlan::new(Shape::Kronecker, Order::Shuffled, 14, 16, &mut Rng::new(1));
        let graph = Graph::build(
            &plan,
            &mut Stage::new(TraceHeader::named("t"), 1),
            (Build::Before, None),
            false,
        );
        let mut degrees: Vec<u64> = (0..1 << 14).map(|v| graph.row(v).count() as u64).collect();
        // An endpoint's bit is 1 with probability 0.24: a vertex with k ones among 14 bits has
        // the expected degree 2 * edges * 0.76^(14 - k) * 0.24^k. Self-loops lower the top.
        degrees.sort_unstable_by_key(|&d| std::cmp::Reverse(d));
        let expected_top = 2.0 * plan.edges() as f64 * 0.76f64.powi(14);
        let top = degrees[0] as f64;
        assert!((0.9..1.05).contains(&(top / expected_top)), "{top} of {expected_top}");
        let hubs: u64 = degrees[..164].iter().sum();
        let share = hubs as f64 / degrees.iter().sum::<u64>() as f64;
        assert!(share > 0.2, "1 % of the vertices has {share:.2} of the edges");
        assert!(degrees.iter().filter(|&&d| d == 0).count() > 1000, "many vertices are alone");
    }

    #[test]
    fn vertices_in_front_have_most_edges_where_they_are_as_drawn_and_not_where_they_are_shuffled() {
        let [drawn, shuffled] = [Order::Drawn, Order::Shuffled].map(|order| {
            let plan = GraphPlan::new(Shape::Kronecker, order, 14, 16, &mut Rng::new(1));
            let front = plan.list().filter(|&(u, _)| u < 1 << 11).count();
            front as f64 / plan.edges() as f64
        });
        // Three bits that are 0 with probability 0.76 each; an eighth of all.
        assert!((drawn - 0.76f64.powi(3)).abs() < 0.01, "{drawn}");
        assert!((shuffled - 0.125).abs() < 0.05, "{shuffled}");
    }

    #[test]
    fn ends_of_edges_of_a_uniform_graph_are_alike() {
        let plan = GraphPlan::new(Shape::Uniform, Order::Shuffled, 10, 64, &mut Rng::new(3));
        let mut degrees = vec![0u64; 1 << 10];
        for (u, v) in plan.list() {
            degrees[u as usize] += 1;
            degrees[v as usize] += 1;
        }
        crate::testing::chi_square_ok(&degrees, &vec![1.0; 1 << 10]);
    }
}
