//! `frostline list workloads`: what the papers ran, and what stands for it here.

use frostline_report::table::Table;
use frostline_terminal::output;
use serde::Serialize;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline list workloads
  frostline list workloads --paper hybridtier
  frostline compare synth:xsbench --policies memtis,first-touch

`frostline list generators NAME` says what a generator does and what can be set; docs/reference/workloads.md
says what each leaves out. A real program is recorded by `frostline record`; `frostline-repro
validate` says how near a generator comes to it.")]
pub(super) struct Args {
    /// Of one paper only
    #[arg(long, value_enum)]
    paper: Option<Paper>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Paper {
    Memtis,
    Hotbox,
    Hybridtier,
    Gpac,
    Pet,
}

/// One workload of a paper.
#[derive(Clone, Copy, Debug, Serialize)]
struct Workload {
    paper: Paper,
    /// As the paper calls it.
    name: &'static str,
    /// Memory there, as the paper gives it; empty where it does not.
    size: &'static str,
    /// Generator, or empty.
    generator: &'static str,
    /// Package that brings the real program, or empty.
    package: &'static str,
}

const fn of(
    paper: Paper,
    name: &'static str,
    size: &'static str,
    generator: &'static str,
    package: &'static str,
) -> Workload {
    Workload { paper, name, size, generator, package }
}

use Paper::{Gpac, Hotbox, Hybridtier, Memtis, Pet};

const ROMS: &str = "synth:stencil:grids=24:buffer=4%";

const WORKLOADS: &[Workload] = &[
    of(Memtis, "Graph500", "66.3 GB", "synth:graph500", ""),
    of(Memtis, "PageRank", "12.3 GB", "synth:pagerank", ""),
    of(Memtis, "XSBench", "63.4 GB", "synth:xsbench", ""),
    of(Memtis, "Liblinear", "67.9 GB", "synth:liblinear", "Debian: liblinear-tools"),
    of(Memtis, "Silo, YCSB-C", "58.1 GB", "synth:ycsb-c", ""),
    of(Memtis, "Btree", "38.3 GB", "synth:btree", ""),
    of(Memtis, "603.bwaves", "11.1 GB", "synth:stencil", ""),
    of(Memtis, "654.roms", "10.3 GB", ROMS, ""),
    of(Hotbox, "memcached-ETC", "10 GB", "synth:etc", "Debian: memcached"),
    of(Hotbox, "VoltDB-TPCC", "10 GB", "synth:tpcc", ""),
    of(Hotbox, "Graph500", "10 GB", "synth:graph500", ""),
    of(Hotbox, "Ligra-BFS", "10 GB", "synth:bfs:order=drawn", ""),
    of(Hotbox, "Ligra-PR", "10 GB", "synth:pagerank-delta:order=drawn", ""),
    of(Hotbox, "bimodal micro-benchmark", "", "synth:hotcold", ""),
    of(Hybridtier, "CacheLib CDN", "267 GB", "synth:cachelib-cdn", ""),
    of(Hybridtier, "CacheLib social graph", "267 GB", "synth:cachelib-graph", ""),
    of(Hybridtier, "GAP BFS, Kronecker", "335 GB", "synth:bfs", ""),
    of(Hybridtier, "GAP CC, Kronecker", "335 GB", "synth:cc", ""),
    of(Hybridtier, "GAP PR, Kronecker", "335 GB", "synth:pagerank", ""),
    of(Hybridtier, "GAP BFS, uniform", "335 GB", "synth:bfs:graph=uniform", ""),
    of(Hybridtier, "GAP CC, uniform", "335 GB", "synth:cc:graph=uniform", ""),
    of(Hybridtier, "GAP PR, uniform", "335 GB", "synth:pagerank:graph=uniform", ""),
    of(Hybridtier, "603.bwaves", "150 GB", "synth:stencil", ""),
    of(Hybridtier, "654.roms", "150 GB", ROMS, ""),
    of(Hybridtier, "Silo, YCSB-C", "208 GB", "synth:ycsb-c", ""),
    of(Hybridtier, "XGBoost, Criteo", "248 GB", "synth:xgboost", "PyPI: xgboost"),
    of(Hybridtier, "changing hot set (Fig. 4)", "", "synth:shift", ""),
    of(Gpac, "Masim", "9.8 GB", "synth:masim", ""),
    of(Gpac, "Redis", "12.5 GB", "synth:gauss-kv", "Debian: redis-server"),
    of(Gpac, "Memcached", "11 GB", "synth:gauss-kv", "Debian: memcached"),
    of(Gpac, "Hash", "8.8 GB", "synth:hash", ""),
    of(Gpac, "Ocean_ncp", "5.5 GB", "synth:ocean", ""),
    of(Pet, "Graph500", "", "synth:graph500", ""),
    of(Pet, "bfs, Twitter", "", "synth:bfs", ""),
    of(Pet, "pr, Twitter", "", "synth:pagerank", ""),
    of(Pet, "bc, Twitter", "", "synth:bc", ""),
    of(Pet, "liblinear, KDD", "", "synth:liblinear", "Debian: liblinear-tools"),
    of(Pet, "Redis, YCSB-A", "", "synth:ycsb-a", "Debian: redis-server"),
    of(Pet, "Redis, YCSB-B", "", "synth:ycsb-b", "Debian: redis-server"),
    of(Pet, "XSBench", "", "synth:xsbench", ""),
    of(Pet, "imagick_s with XSBench", "", "synth:phases", "Debian: imagemagick"),
    of(Pet, "imagick_s", "", "", "Debian: imagemagick"),
    of(Pet, "xz_s", "", "", "Debian: xz-utils"),
    of(Pet, "mcf_s", "", "", ""),
    of(Pet, "DaCapo H2", "", "synth:java-heap", "Maven: com.h2database:h2"),
    of(Pet, "shifting hot sets (Fig. 14)", "", "synth:shift:mode=slide:hot=1/15", ""),
    of(Pet, "allocations (Fig. 3)", "", "synth:alloc-units", ""),
];

/// Runs the command.
///
/// # Errors
/// Where standard output cannot be written.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let chosen: Vec<Workload> =
        WORKLOADS.iter().filter(|w| args.paper.is_none_or(|p| p == w.paper)).copied().collect();
    if args.json {
        return output::json(&chosen);
    }
    let mut table =
        Table::new(&["paper", "workload", "memory there", "generator", "real program"]).left(5);
    for workload in chosen {
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        table.row(vec![
            format!("{:?}", workload.paper).to_lowercase(),
            workload.name.into(),
            or_dash(workload.size),
            or_dash(workload.generator),
            or_dash(workload.package),
        ]);
    }
    output::text(&table.show(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_that_are_named_exist() {
        for workload in WORKLOADS.iter().filter(|w| !w.generator.is_empty()) {
            let made = frostline_workloads::from_spec(workload.generator);
            assert!(made.is_ok(), "{}: {:?}", workload.name, made.err());
        }
    }
}
