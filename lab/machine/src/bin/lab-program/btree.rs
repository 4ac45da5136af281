//! A B+tree under look-ups.

use frostline_core::rng::Rng;
use frostline_workloads::{ZipfLaw, ZipfRng};

/// Keys of a node: 16 keys and 16 children or values take 256 bytes.
const FANOUT: usize = 16;
/// Words of a value.
const VALUE_WORDS: usize = 13;

#[derive(clap::Args)]
pub struct Options {
    /// Pairs of 8 bytes and 104 bytes
    #[arg(long, default_value_t = 1_500_000)]
    keys: u32,
    /// Skew of popularity
    #[arg(long, default_value_t = 0.99)]
    skew: f64,
    /// Look-ups
    #[arg(long, default_value_t = 2_000_000)]
    lookups: u64,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy)]
struct Node {
    /// The least key below each child.
    keys: [u64; FANOUT],
    /// Nodes of the level below, or values.
    children: [u32; FANOUT],
}

/// A tree that is as high as it must be; the last level has the root.
struct Tree {
    levels: Vec<Vec<Node>>,
    values: Vec<[u64; VALUE_WORDS]>,
}

impl Tree {
    /// With keys `0..n`, the values in the order in which keys were inserted.
    fn new(n: u32, rng: &mut Rng) -> Self {
        let mut places: Vec<u32> = (0..n).collect();
        rng.shuffle(&mut places);
        let mut values = vec![[0; VALUE_WORDS]; n as usize];
        for (key, place) in places.iter().enumerate() {
            values[*place as usize][0] = key as u64;
        }
        let mut entries: Vec<(u64, u32)> =
            places.iter().enumerate().map(|(key, place)| (key as u64, *place)).collect();
        let mut levels = Vec::new();
        loop {
            let nodes: Vec<Node> = entries.chunks(FANOUT).map(Node::of).collect();
            entries = nodes.iter().zip(0..).map(|(node, i)| (node.keys[0], i)).collect();
            levels.push(nodes);
            if entries.len() <= 1 {
                return Self { levels, values };
            }
        }
    }

    fn get(&self, key: u64) -> Option<&[u64; VALUE_WORDS]> {
        let mut at = 0u32;
        for level in self.levels.iter().rev() {
            let node = level.get(at as usize)?;
            let found = node.keys.iter().rposition(|first| *first <= key)?;
            at = node.children[found];
        }
        self.values.get(at as usize)
    }
}

impl Node {
    fn of(entries: &[(u64, u32)]) -> Self {
        let mut node = Self { keys: [u64::MAX; FANOUT], children: [0; FANOUT] };
        for (i, (key, child)) in entries.iter().enumerate() {
            (node.keys[i], node.children[i]) = (*key, *child);
        }
        node
    }
}

pub fn run(options: &Options) {
    let mut rng = Rng::new(options.seed);
    let tree = Tree::new(options.keys.max(1), &mut rng);
    let law = ZipfLaw::new(options.keys.max(1), options.skew);
    let mut rng = ZipfRng::new(&mut rng);
    eprintln!("ready");
    let mut sum = 0u64;
    for _ in 0..options.lookups {
        // Popular keys lie anywhere: an odd factor visits every key of a power of two once.
        let rank = u64::from(law.draw(&mut rng));
        let key = rank.wrapping_mul(0x9e37_79b9) % u64::from(options.keys.max(1));
        let value = tree.get(key).expect("every key is there");
        sum = value.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
    }
    eprintln!("done");
    println!("sum {sum}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_leads_to_its_value() {
        for n in [1, 15, 16, 17, 1000] {
            let tree = Tree::new(n, &mut Rng::new(3));
            for key in 0..u64::from(n) {
                assert_eq!(tree.get(key).map(|value| value[0]), Some(key), "{key} of {n}");
            }
        }
    }
}
