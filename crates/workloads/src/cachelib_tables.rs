//! Popularity and sizes of objects in two caches, as published with CacheLib's benchmark.
//!
//! Figures from cachelib/cachebench/test_configs of github.com/facebook/CacheLib: popularity from
//! hit_ratio/bigcache/pop.json (which has the shares of operations of the CDN's configuration) and
//! hit_ratio/graph_cache_leader_assocs/pop.json, their hundreds of rows added up to twenty; sizes
//! from hit_ratio/bigcache/sizes.json and ssd_perf/tao_leader/assoc_sizes.json, steps of 32 B added
//! up and rounded, above 57 KiB and 8 KiB estimated from samples of the file. The one or two
//! thousandths above 400 KiB and 128 KiB are left out.

use super::memory::mix;
use super::zipf_law::{Choice, alias_table};
use frostline_core::rng::Rng;

/// What a cache holds and is asked for.
#[derive(Debug)]
pub(super) struct Tables {
    /// Objects and all accesses to them, the most popular ones first.
    popularity: &'static [(u32, u32)],
    /// Largest size in bytes, above that of the row before, and its weight.
    sizes: &'static [(u32, u32)],
    /// Share of requests for a key that was never there and never comes again.
    pub(super) lone: f64,
    /// Keys for each 10^9 bytes of cache in HybridTier's configuration.
    pub(super) keys_per_gb: u64,
}

/// Content-delivery network.
pub(super) const CDN: Tables = Tables {
    popularity: &[
        (4, 117_773),
        (12, 103_974),
        (43, 171_005),
        (161, 327_378),
        (597, 495_252),
        (748, 310_019),
        (1433, 347_081),
        (2715, 377_675),
        (5312, 437_338),
        (11_096, 612_226),
        (21_447, 863_748),
        (41_158, 1_238_506),
        (78_005, 1_715_779),
        (155_643, 2_415_107),
        (427_654, 4_267_098),
        (865_098, 5_304_264),
        (5_773_009, 17_589_810),
        (105_072, 210_144),
    ],
    sizes: &[
        (64, 987),
        (1440, 44),
        (3200, 412),
        (6400, 490),
        (12_800, 630),
        (25_600, 800),
        (51_200, 920),
        (102_400, 753),
        (204_800, 232),
        (409_600, 55),
    ],
    lone: 0.008_844_707,
    keys_per_gb: 42_500,
};

/// Edges of the social graph.
pub(super) const GRAPH: Tables = Tables {
    popularity: &[
        (2, 7_968_162),
        (3, 8_492_289),
        (6, 8_979_526),
        (15, 8_144_336),
        (32, 6_761_721),
        (70, 3_350_750),
        (155, 1_471_595),
        (340, 828_263),
        (757, 896_497),
        (1712, 1_149_569),
        (3748, 1_509_043),
        (8354, 2_107_006),
        (18_574, 3_115_492),
        (42_256, 4_774_939),
        (95_398, 7_440_826),
        (208_770, 10_645_083),
        (498_347, 14_847_108),
        (1_240_195, 22_306_080),
        (2_824_806, 31_002_744),
        (8_184_410, 44_384_366),
        (14_727_361, 33_646_589),
    ],
    sizes: &[
        (31, 26_773),
        (63, 7892),
        (95, 3301),
        (127, 2061),
        (255, 6495),
        (511, 2562),
        (1023, 1773),
        (2047, 1272),
        (4095, 1188),
        (8191, 1195),
        (16_383, 954),
        (65_535, 740),
        (131_071, 260),
    ],
    lone: 0.115_888_728,
    keys_per_gb: 100_000,
};

/// Draws keys by a popularity table, scaled to their number.
#[derive(Clone, Debug)]
pub(super) struct TableLaw {
    choices: Vec<Choice>,
    /// First key and number of keys of each row.
    rows: Vec<(u32, u32)>,
}

impl TableLaw {
    /// Rows keep their accesses; each has its share of the keys, at least one.
    pub(super) fn new(tables: &Tables, keys: u32) -> Self {
        let all: u64 = tables.popularity.iter().map(|&(objects, _)| u64::from(objects)).sum();
        let mut first = 0;
        let mut rows = Vec::new();
        for &(objects, _) in tables.popularity {
            let len = (u64::from(keys) * u64::from(objects) / all).max(1) as u32;
            rows.push((first, len));
            first += len;
        }
        let weights: Vec<_> = tables.popularity.iter().map(|&(_, n)| f64::from(n)).collect();
        Self { choices: alias_table(&weights), rows }
    }

    /// Keys are below this.
    pub(super) fn keys(&self) -> u32 {
        self.rows.last().map_or(0, |&(first, len)| first + len)
    }

    /// One key.
    pub(super) fn draw(&self, rng: &mut Rng) -> u32 {
        let index = rng.below(self.choices.len() as u64) as usize;
        let (keep, alias) = self.choices[index].parts();
        let row = if rng.next_u64() <= keep { index } else { alias as usize };
        let (first, len) = self.rows[row];
        first + rng.below(u64::from(len)) as u32
    }
}

/// Sizes of keys and values, always the same for a key.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    salt: u64,
    /// Weight up to and with the row, and the sizes in it.
    rows: Vec<(u64, std::ops::Range<u64>)>,
}

impl Sizes {
    pub(super) fn new(tables: &Tables, salt: u64) -> Self {
        let (mut sum, mut least) = (0, 0);
        let mut rows = Vec::new();
        for &(most, weight) in tables.sizes {
            sum += u64::from(weight);
            rows.push((sum, least..u64::from(most)));
            least = u64::from(most);
        }
        Self { salt, rows }
    }

    /// Bytes of key and value.
    pub(super) fn body(&self, key: u32) -> u64 {
        let mut rng = Rng::new(mix(self.salt ^ u64::from(key)));
        let weight = rng.below(self.rows[self.rows.len() - 1].0);
        let row = self.rows.partition_point(|&(sum, _)| sum <= weight);
        let sizes = &self.rows[row].1;
        let value = sizes.start + 1 + rng.below(sizes.end - sizes.start);
        // Three of ten keys have up to 8 B, which the benchmark makes 8 B, the others up to 64 B.
        let key = if rng.below(10) < 3 { 8 } else { 8 + rng.below(56) };
        key + value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chi_square_ok;

    #[test]
    fn keys_have_the_popularity_of_their_row() {
        for tables in [CDN, GRAPH] {
            let law = TableLaw::new(&tables, 100_000);
            assert!((99_900..100_100).contains(&law.keys()), "{}", law.keys());
            let mut rng = Rng::new(5);
            let mut counts = vec![0u64; law.rows.len()];
            for _ in 0..1_000_000 {
                let key = law.draw(&mut rng);
                counts[law.rows.partition_point(|&(first, _)| first <= key) - 1] += 1;
            }
            let weights: Vec<f64> = tables.popularity.iter().map(|row| f64::from(row.1)).collect();
            chi_square_ok(&counts, &weights);
        }
    }

    #[test]
    fn sizes_follow_the_table() {
        for (tables, mean) in [(CDN, 32e3), (GRAPH, 1.55e3)] {
            let sizes = Sizes::new(&tables, 3);
            let mut counts = vec![0u64; tables.sizes.len()];
            let mut sum = 0;
            for key in 0..400_000 {
                let mut rng = Rng::new(mix(3 ^ u64::from(key)));
                let row = rng.below(sizes.rows[sizes.rows.len() - 1].0);
                counts[sizes.rows.partition_point(|&(sum, _)| sum <= row)] += 1;
                sum += sizes.body(key);
            }
            let weights: Vec<f64> = tables.sizes.iter().map(|row| f64::from(row.1)).collect();
            chi_square_ok(&counts, &weights);
            let found = sum as f64 / 400e3;
            assert!((found / mean - 1.0).abs() < 0.1, "{found} B");
        }
    }
}
