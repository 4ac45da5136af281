//! Breadth-first search on a Kronecker graph, as Graph500 makes it.

use frostline_core::rng::Rng;

/// Chances of the quadrants of the adjacency matrix, in per cent, summed up (Graph500, section 3).
const QUADRANTS: [u64; 3] = [57, 57 + 19, 57 + 19 + 19];
const NOBODY: u32 = u32::MAX;

#[derive(clap::Args)]
pub struct Options {
    /// Vertices, as a power of two
    #[arg(long, default_value_t = 20)]
    scale: u32,
    /// Edges for each vertex
    #[arg(long, default_value_t = 16)]
    degree: u32,
    /// Searches
    #[arg(long, default_value_t = 2)]
    searches: u32,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Neighbours of all vertices in one list, and where each one's begin.
struct Graph {
    begin: Vec<u32>,
    neighbours: Vec<u32>,
}

fn edges(options: &Options) -> impl Iterator<Item = (u32, u32)> {
    let mut rng = Rng::new(options.seed);
    let scale = options.scale;
    (0..u64::from(options.degree) << scale).map(move |_| {
        let (mut from, mut to) = (0, 0);
        for _ in 0..scale {
            let draw = rng.below(100);
            let quadrant = QUADRANTS.iter().filter(|below| draw >= **below).count() as u32;
            from = (from << 1) | (quadrant >> 1);
            to = (to << 1) | (quadrant & 1);
        }
        // Without this, the busiest vertices would be neighbours in memory.
        let scatter = |vertex: u32| vertex.wrapping_mul(0x9e37_79b1) & ((1u32 << scale) - 1);
        (scatter(from), scatter(to))
    })
}

impl Graph {
    fn new(options: &Options) -> Self {
        let vertices = 1usize << options.scale;
        let mut begin = vec![0u32; vertices + 1];
        for (from, to) in edges(options) {
            begin[from as usize + 1] += 1;
            begin[to as usize + 1] += 1;
        }
        for i in 1..begin.len() {
            begin[i] += begin[i - 1];
        }
        let mut next = begin.clone();
        let mut neighbours = vec![0; begin[vertices] as usize];
        for (from, to) in edges(options) {
            for (one, other) in [(from, to), (to, from)] {
                neighbours[next[one as usize] as usize] = other;
                next[one as usize] += 1;
            }
        }
        Self { begin, neighbours }
    }

    fn of(&self, vertex: u32) -> &[u32] {
        let at = vertex as usize;
        &self.neighbours[self.begin[at] as usize..self.begin[at + 1] as usize]
    }

    /// Vertices that are reached, and the parent of each.
    fn search(&self, root: u32, parents: &mut [u32], queue: &mut Vec<u32>) {
        parents.fill(NOBODY);
        queue.clear();
        parents[root as usize] = root;
        queue.push(root);
        let mut done = 0;
        while let Some(vertex) = queue.get(done).copied() {
            done += 1;
            for neighbour in self.of(vertex) {
                if parents[*neighbour as usize] == NOBODY {
                    parents[*neighbour as usize] = vertex;
                    queue.push(*neighbour);
                }
            }
        }
    }
}

pub fn run(options: &Options) {
    let graph = Graph::new(options);
    let vertices = graph.begin.len() - 1;
    let (mut parents, mut queue) = (vec![NOBODY; vertices], Vec::with_capacity(vertices));
    let mut rng = Rng::new(options.seed);
    eprintln!("ready");
    let mut reached = 0;
    for _ in 0..options.searches {
        let mut root = rng.below(vertices as u64) as u32;
        while graph.of(root).is_empty() {
            root = rng.below(vertices as u64) as u32;
        }
        graph.search(root, &mut parents, &mut queue);
        reached += queue.len();
    }
    eprintln!("done");
    println!("reached {reached}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_reaches_what_is_connected_and_parents_are_neighbours() {
        let options = Options { scale: 8, degree: 4, searches: 1, seed: 5 };
        let graph = Graph::new(&options);
        assert_eq!(graph.neighbours.len(), (2 * 4) << 8);
        let (mut parents, mut queue) = (vec![NOBODY; 256], Vec::new());
        let root = (0..256).max_by_key(|vertex| graph.of(*vertex).len()).expect("vertices");
        graph.search(root, &mut parents, &mut queue);
        assert!(queue.len() > 50, "{}", queue.len());
        for vertex in &queue {
            let parent = parents[*vertex as usize];
            assert!(parent == *vertex && parent == root || graph.of(parent).contains(vertex));
        }
        let reached = |vertex: u32| parents[vertex as usize] != NOBODY;
        for vertex in 0..256 {
            assert!(graph.of(vertex).iter().all(|other| reached(*other) == reached(vertex)));
        }
    }
}
