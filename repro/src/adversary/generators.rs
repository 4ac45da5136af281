//! Random generators of the development set, with parameters over all that they take.
//!
//! Policies are tuned on the finds: no generator of the held-out set is drawn.

use super::draw::Draw;

/// Parameters of a generator by its name.
type Entry = (&'static str, fn(&mut Draw) -> String);

/// Those with the widest parameters come more often.
pub const ALL: &[Entry] = &[
    ("zipf", zipf),
    ("zipf", zipf),
    ("hotcold", hotcold),
    ("hotcold", hotcold),
    ("shift", shift),
    ("shift", shift),
    ("masim", masim),
    ("alloc-units", alloc_units),
    ("btree", btree),
    ("ycsb-a", store),
    ("ycsb-b", store),
    ("ycsb-c", store),
    ("gauss-kv", gauss_kv),
    ("cachelib-cdn", cachelib),
    ("tpcc", tpcc),
    ("graph500", graph500),
    ("xgboost", xgboost),
];

/// A description that some generator takes, with its seed. `share` is how much of the longest run it may take.
pub fn program(draw: &mut Draw, share: f64) -> String {
    loop {
        let (name, parameters) = ALL[draw.within(0, ALL.len() as u64 - 1) as usize];
        let own = parameters(draw);
        let size = match name {
            "graph500" => format!("scale={}", draw.within(13, 17)),
            _ => format!("size={}MiB", draw.magnitude(5, 96)),
        };
        let longest = (4_000_000.0 * share) as u64;
        let accesses = draw.magnitude(500_000.min(longest), longest);
        let seed = draw.within(1, 1_000_000);
        let own = if own.is_empty() { own } else { format!(":{own}") };
        let text = format!("synth:{name}:{size}:accesses={accesses}{own}:seed={seed}");
        // Some parameters do not go together, and the generators know which.
        if frostline_workloads::from_spec(&text).is_ok() {
            return text;
        }
    }
}

/// What generators have that make records directly.
fn plain(draw: &mut Draw) -> String {
    let gap = draw.magnitude(5, 500);
    let (writes, init) = (draw.percent(0, 60), draw.one(&["on", "on", "on", "off"]));
    let threads = draw.one(&["1", "1", "1", "4"]);
    format!("gap={gap}:writes={writes}:init={init}:threads={threads}")
}

fn skew(draw: &mut Draw) -> &'static str {
    draw.one(&["0", "0.5", "0.8", "0.99", "1.2", "1.6"])
}

fn zipf(draw: &mut Draw) -> String {
    let (s, layout) = (skew(draw), draw.one(&["scattered", "clustered"]));
    format!("s={s}:layout={layout}:{}", plain(draw))
}

fn hotcold(draw: &mut Draw) -> String {
    let hot = draw.magnitude(1, 60);
    let (share, hf) = (draw.percent(30, 100), draw.within(0, 100 - hot));
    format!("hot={hot}%:share={share}:hf={}:{}", hf as f64 / 100.0, plain(draw))
}

fn shift(draw: &mut Draw) -> String {
    let (mode, hot) = (draw.one(&["replace", "slide"]), draw.percent(1, 50));
    let mut text = format!("mode={mode}:hot={hot}:{}", plain(draw));
    if mode == "replace" {
        text += &format!(":s={}:change={}", skew(draw), draw.percent(10, 100));
    }
    if draw.chance(75) {
        text += &format!(":period={}", draw.magnitude(20_000, 2_000_000));
    }
    text
}

fn masim(draw: &mut Draw) -> String {
    let stride = draw.magnitude(2, 1024);
    let phases = draw.magnitude(1, stride.min(16));
    format!("stride={stride}:share={}:phases={phases}:{}", draw.percent(30, 100), plain(draw))
}

fn alloc_units(draw: &mut Draw) -> String {
    let (hot, share) = (draw.percent(5, 90), draw.percent(50, 100));
    let (order, phases) = (draw.one(&["any", "sequential"]), draw.magnitude(1, 60));
    let renewed = draw.percent(0, 100);
    format!(
        "hot={hot}:share={share}:order={order}:phases={phases}:renewed={renewed}:{}",
        plain(draw)
    )
}

fn btree(draw: &mut Draw) -> String {
    let (bloat, run) = (draw.percent(0, 95), draw.magnitude(1, 100_000));
    format!("bloat={bloat}:s={}:run={run}:writes={}", skew(draw), draw.percent(0, 60))
}

fn store(draw: &mut Draw) -> String {
    format!("s={}:writes={}:gap={}", skew(draw), draw.percent(0, 60), draw.magnitude(5, 300))
}

fn gauss_kv(draw: &mut Draw) -> String {
    let (value, ratio) = (draw.one(&["64", "256", "1KiB", "4KiB"]), draw.magnitude(1, 100));
    let load = draw.one(&["shuffled", "ordered"]);
    format!("value={value}:ratio={ratio}:load={load}:spread={}", draw.percent(1, 50))
}

fn cachelib(draw: &mut Draw) -> String {
    let pop = format!("pop={}", draw.one(&["table", "normal"]));
    if draw.chance(50) { format!("{pop}:change={}", draw.percent(5, 90)) } else { pop }
}

fn tpcc(draw: &mut Draw) -> String {
    format!("items={}:room={}", draw.magnitude(1000, 20_000), draw.percent(5, 70))
}

fn graph500(draw: &mut Draw) -> String {
    let (graph, degree) = (draw.one(&["kronecker", "uniform"]), draw.magnitude(4, 32));
    format!("graph={graph}:order={}:degree={degree}", draw.one(&["shuffled", "drawn"]))
}

fn xgboost(draw: &mut Draw) -> String {
    let (features, depth) = (draw.magnitude(2, 64), draw.within(1, 6));
    format!("features={features}:depth={depth}:parts={}", draw.one(&["0", "0", "8"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tournament::families::Set;
    use crate::tournament::matrix::Matrix;
    use std::collections::BTreeSet;

    #[test]
    fn all_of_the_development_set_and_nothing_else_is_drawn() {
        let matrix = Matrix::read(None).expect("it is ours");
        let development = matrix.families.values().filter(|of| of.set == Set::Development);
        let development: BTreeSet<String> = development.flat_map(|of| of.names()).collect();
        let generators = development.iter().filter(|name| !name.ends_with(".flt"));
        let drawn: BTreeSet<&str> = ALL.iter().map(|(name, _)| *name).collect();
        assert!(generators.eq(drawn), "{development:?}");
    }

    #[test]
    fn every_generator_gets_a_turn() {
        let mut seen = BTreeSet::new();
        for number in 0..200 {
            let text = program(&mut Draw::new(1, number), 1.0);
            let name = text.split(':').nth(1).expect("a name").to_owned();
            assert!(text.contains(":seed="), "{text}");
            seen.insert(name);
        }
        let all: BTreeSet<String> = ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(seen, all);
    }
}
