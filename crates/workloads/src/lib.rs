//! Synthetic workloads: seeded generators that are read like any other trace, without a file.
//!
//! A workload is described as `synth:NAME:key=value:...` (the leading `synth:` may be left out);
//! [`GENERATORS`] lists names, parameters with defaults, and sources. The same description gives
//! the same batches, whatever columns the reader asks for.
//!
//! Every trace begins with the process, its threads and its mappings and goes on with an
//! initialisation that writes each page in the order of allocation (placement by first touch
//! depends on it), before the accesses of the measured phase. It ends with the unmapping.
#![forbid(unsafe_code)]

use frostline_core::spec::{Spec, SpecError};
use frostline_trace::{TraceError, TraceSource};
use made::{Made, Synth};

mod alloc_units;
mod bc;
mod bfs;
mod btree;
mod cache;
mod cachelib;
mod cachelib_tables;
mod cc;
mod coin;
mod cpu;
mod etc;
mod gauss_kv;
mod glibc_heap;
mod graph;
mod graph500;
mod graph_kernel;
mod hash;
mod hotcold;
mod item_cache;
mod java_heap;
mod jemalloc;
mod liblinear;
mod made;
mod masim;
mod memory;
mod normal_law;
mod ocean;
mod open;
mod page_stream;
mod pagerank;
mod pagerank_delta;
mod params;
mod permutation;
mod phases;
mod redis;
mod redis_hash;
mod scan;
mod shift;
mod sqlite;
mod stage;
mod stencil;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tpcc;
mod tpcc_tables;
mod tree;
mod uniform;
mod xgboost;
mod xgboost_memory;
mod xsbench;
mod ycsb;
mod zipf;
mod zipf_law;

pub use open::{SYNTH_PREFIX, open};
pub use params::Param;
pub use zipf_law::{ZipfLaw, ZipfRng};

/// A kind of synthetic workload.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// Name in `synth:NAME`.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Publication or program that it follows.
    pub source: &'static str,
    /// What can be set, with defaults.
    pub params: &'static [Param],
    /// Why one record cannot stand for several accesses; none where it can.
    pub unthinnable: Option<&'static str>,
    build: fn(&params::Settings) -> Result<Made, TraceError>,
}

/// Why what passes through caches cannot be thinned.
const CACHED: &str = "what a cache lets through depends on what was left out";

/// Further names of generators.
const ALIASES: [(&str, &str); 2] = [("kronecker-pr", "pagerank"), ("kronecker-bfs", "bfs")];

/// All generators, the plainest first.
pub const GENERATORS: &[Generator] = &[
    Generator {
        name: "zipf",
        about: "independent accesses to pages by Zipf's law, scattered or clustered",
        source: "Breslau et al., INFOCOM 1999; skew of YCSB, Cooper et al., SoCC 2010",
        params: zipf::PARAMS,
        unthinnable: None,
        build: zipf::build,
    },
    Generator {
        name: "uniform",
        about: "independent accesses, all pages alike",
        source: "GUPS: RandomAccess of the HPC Challenge benchmarks",
        params: uniform::PARAMS,
        unthinnable: None,
        build: uniform::build,
    },
    Generator {
        name: "hotcold",
        about: "hot and cold pages, hot ones packed or scattered over huge pages (hf)",
        source: "HotBox, Bergman et al., ISMM 2022, Fig. 5c",
        params: hotcold::PARAMS,
        unthinnable: None,
        build: hotcold::build,
    },
    Generator {
        name: "shift",
        about: "a hot set that changes: part of it replaced, or a window that slides",
        source: "HybridTier, Song et al., ASPLOS 2025, Fig. 4; PET, Doh et al., EuroSys 2025, Fig. 14",
        params: shift::PARAMS,
        unthinnable: Some("the change of its hot set is the workload"),
        build: shift::build,
    },
    Generator {
        name: "scan",
        about: "sequential sweeps over all pages, optionally beside a hot dense mapping",
        source: "sweeps of Liblinear: MEMTIS, Lee et al., SOSP 2023, Fig. 3a",
        params: scan::PARAMS,
        unthinnable: Some("its order is the workload"),
        build: scan::build,
    },
    Generator {
        name: "masim",
        about: "one hot page in every huge page, optionally another one in each phase",
        source: "Masim (Park) as configured by GPAC, section 5.1",
        params: masim::PARAMS,
        unthinnable: Some("its phases are the workload"),
        build: masim::build,
    },
    Generator {
        name: "ycsb-c",
        about: "look-ups in a database in memory (Silo's or SQLite's layout), keys by Zipf's law",
        source: "Silo under YCSB-C: MEMTIS, Lee et al., SOSP 2023, section 6.2.4",
        params: ycsb::PARAMS,
        unthinnable: Some(CACHED),
        build: ycsb::build,
    },
    Generator {
        name: "btree",
        about: "look-ups in a B+tree whose heap is bloated by huge pages",
        source: "Btree: MEMTIS, Lee et al., SOSP 2023, section 6.2.5",
        params: btree::PARAMS,
        unthinnable: Some(CACHED),
        build: btree::build,
    },
    Generator {
        name: "pagerank",
        about: "PageRank on a Kronecker or uniform graph, access by access",
        source: "GAP benchmark suite, Beamer et al., 2015; graph of Graph500",
        params: &graph_kernel::params("3"),
        unthinnable: Some(CACHED),
        build: graph_kernel::build::<pagerank::PageRank>,
    },
    Generator {
        name: "pagerank-delta",
        about: "PageRank that passes on changes only, by fewer vertices from round to round",
        source: "PageRankDelta of Ligra, Shun and Blelloch, PPoPP 2013; graph of Graph500",
        params: &graph_kernel::params("4"),
        unthinnable: Some(CACHED),
        build: graph_kernel::build::<pagerank_delta::PageRankDelta>,
    },
    Generator {
        name: "bfs",
        about: "breadth-first searches on a Kronecker or uniform graph, access by access",
        source: "GAP benchmark suite, Beamer et al., 2015; graph of Graph500",
        params: &graph_kernel::params("19"),
        unthinnable: Some(CACHED),
        build: graph_kernel::build::<bfs::Bfs>,
    },
    Generator {
        name: "cc",
        about: "connected components (Afforest) of a Kronecker or uniform graph, access by access",
        source: "GAP benchmark suite, Beamer et al., 2015; Sutton et al., IPDPS 2018",
        params: &graph_kernel::params("5"),
        unthinnable: Some(CACHED),
        build: graph_kernel::build::<cc::Components>,
    },
    Generator {
        name: "bc",
        about: "betweenness centrality (Brandes) on a Kronecker or uniform graph, access by access",
        source: "GAP benchmark suite, Beamer et al., 2015; Brandes, 2001",
        params: &graph_kernel::params("8"),
        unthinnable: Some(CACHED),
        build: graph_kernel::build::<bc::Centrality>,
    },
    Generator {
        name: "graph500",
        about: "breadth-first searches, each checked against the list of edges",
        source: "Graph500 benchmark; MEMTIS, Lee et al., SOSP 2023, Table 2",
        params: &graph_kernel::params("4"),
        unthinnable: Some(CACHED),
        build: graph_kernel::build::<graph500::Graph500>,
    },
    Generator {
        name: "xsbench",
        about: "look-ups of cross-sections in a unionized energy grid",
        source: "XSBench, Tramm et al., PHYSOR 2014",
        params: xsbench::PARAMS,
        unthinnable: Some(CACHED),
        build: xsbench::build,
    },
    Generator {
        name: "liblinear",
        about: "a linear classifier trained on a sparse matrix, rows in random order",
        source: "LIBLINEAR, Fan et al., JMLR 2008; shape of KDD Cup 2012 track 2",
        params: liblinear::PARAMS,
        unthinnable: Some(CACHED),
        build: liblinear::build,
    },
    Generator {
        name: "xgboost",
        about: "boosted trees trained on binned features, level by level",
        source: "XGBoost, Chen and Guestrin, KDD 2016; shape of the Criteo click logs",
        params: xgboost::PARAMS,
        unthinnable: Some(CACHED),
        build: xgboost::build,
    },
    Generator {
        name: "stencil",
        about: "sweeps over grids in space, with buffers that live for one step",
        source: "603.bwaves and 654.roms: MEMTIS, Lee et al., SOSP 2023, section 6.2.6",
        params: stencil::PARAMS,
        unthinnable: Some(CACHED),
        build: stencil::build,
    },
    Generator {
        name: "ycsb-a",
        about: "Redis: a hash of ten fields for each key, as many reads as updates, Zipf's law",
        source: "YCSB, Cooper et al., SoCC 2010; PET, Doh et al., EuroSys 2025, section 5.1",
        params: redis_hash::PARAMS_A,
        unthinnable: Some(CACHED),
        build: redis_hash::build,
    },
    Generator {
        name: "ycsb-b",
        about: "Redis: a hash of ten fields for each key, reads and 5% updates, Zipf's law",
        source: "YCSB, Cooper et al., SoCC 2010; PET, Doh et al., EuroSys 2025, section 5.1",
        params: redis_hash::PARAMS_B,
        unthinnable: Some(CACHED),
        build: redis_hash::build,
    },
    Generator {
        name: "etc",
        about: "memcached: hash table, slabs and lists in order of use, requests of the ETC pool",
        source: "Atikoglu et al., SIGMETRICS 2012; HotBox, Bergman et al., ISMM 2022, section 6",
        params: etc::PARAMS,
        unthinnable: Some(CACHED),
        build: etc::build,
    },
    Generator {
        name: "gauss-kv",
        about: "Redis: dictionary and separate values, neighbouring keys hot by a normal law",
        source: "Redis under memtier_benchmark: GPAC, section 5.1",
        params: gauss_kv::PARAMS,
        unthinnable: Some(CACHED),
        build: gauss_kv::build,
    },
    Generator {
        name: "hash",
        about: "a chained hash table, read by walkers with prime strides",
        source: "hash_bkt_rcu of perfbook (McKenney): GPAC, section 5.1",
        params: hash::PARAMS,
        unthinnable: Some(CACHED),
        build: hash::build,
    },
    Generator {
        name: "cachelib-cdn",
        about: "CacheLib: hash table, slabs and lists in order of use, requests for CDN objects",
        source: "CacheLib, Berg et al., OSDI 2020; HybridTier, Song et al., ASPLOS 2025, Table 2",
        params: cachelib::PARAMS,
        unthinnable: Some(CACHED),
        build: cachelib::build_cdn,
    },
    Generator {
        name: "cachelib-graph",
        about: "CacheLib: requests for edges of a social graph, many of them once only",
        source: "CacheLib, Berg et al., OSDI 2020; HybridTier, Song et al., ASPLOS 2025, Table 2",
        params: cachelib::PARAMS,
        unthinnable: Some(CACHED),
        build: cachelib::build_graph,
    },
    Generator {
        name: "tpcc",
        about: "the five transactions of TPC-C on tables and B+trees, orders growing",
        source: "TPC-C, revision 5.11; HotBox, Bergman et al., ISMM 2022, section 6",
        params: tpcc::PARAMS,
        unthinnable: Some(CACHED),
        build: tpcc::build,
    },
    Generator {
        name: "ocean",
        about: "stencils and multigrid relaxation on two-dimensional grids",
        source: "Ocean of SPLASH-2, Woo et al., ISCA 1995, as in GPAC, section 5.1",
        params: ocean::PARAMS,
        unthinnable: Some(CACHED),
        build: ocean::build,
    },
    Generator {
        name: "alloc-units",
        about: "allocations that are hot or cold as a whole, others in each phase",
        source: "PET, Doh et al., EuroSys 2025, section 3",
        params: alloc_units::PARAMS,
        unthinnable: Some("its phases are the workload"),
        build: alloc_units::build,
    },
    Generator {
        name: "phases",
        about: "memory that comes, is hot and goes, beside some that stays and is mostly idle",
        source: "imagick beside XSBench: PET, Doh et al., EuroSys 2025, Fig. 12",
        params: phases::PARAMS,
        unthinnable: Some("its phases are the workload"),
        build: phases::build,
    },
    Generator {
        name: "java-heap",
        about: "a database in a Java heap: bump allocation, copying collections, scattered objects",
        source: "H2 of DaCapo: PET, Doh et al., EuroSys 2025, Fig. 15",
        params: java_heap::PARAMS,
        unthinnable: Some(CACHED),
        build: java_heap::build,
    },
];

/// The generator of that name, or with that as a further name.
pub fn generator(name: &str) -> Option<&'static Generator> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, name)| name);
    GENERATORS.iter().find(|generator| generator.name == name)
}

/// Makes the source that `spec` describes: `synth:zipf:pages=4M:accesses=1G:seed=7`.
///
/// # Errors
/// [`TraceError::Spec`] for an unknown generator or parameter, and for values that are no such
/// thing or out of range; the text ends with a `hint:`.
pub fn from_spec(spec: &str) -> Result<Box<dyn TraceSource + Send>, TraceError> {
    let (_, made) = make(spec)?;
    Ok(Box::new(Synth::new(made)))
}

/// Records of the initialisation, in front of the measured phase; of the graph kernels, whose
/// graphs are drawn later, at most so many.
///
/// # Errors
/// As [`from_spec`].
pub fn initialisation_records(spec: &str) -> Result<u64, TraceError> {
    let (settings, made) = make(spec)?;
    let header = &made.stage.header;
    let measured = settings.accesses()?.div_ceil(header.thinning.max(1).into());
    Ok(header.expected_records.unwrap_or(0).saturating_sub(measured))
}

fn make(spec: &str) -> Result<(params::Settings, Made), TraceError> {
    let text = spec.strip_prefix("synth:").unwrap_or(spec);
    let given = Spec::parse(text).map_err(params::spec_error)?;
    let Some(generator) = generator(given.name()) else {
        let names: Vec<_> = GENERATORS.iter().map(|g| g.name).collect();
        return Err(params::spec_error(SpecError::unknown("workload", given.name(), &names)));
    };
    if let (Some(why), true) = (generator.unthinnable, given.get("thin").is_some()) {
        return Err(params::spec_error(SpecError::new(
            format!("{}: cannot be thinned: {why}", generator.name),
            "leave out thin=, or take fewer accesses; zipf, uniform and hotcold can be thinned",
        )));
    }
    let settings = params::Settings::new(given, generator.params)?;
    let made = (generator.build)(&settings)?;
    Ok((settings, made))
}
