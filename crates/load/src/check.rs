//! Check of where the pages of a running load are, by the kernel's answers.

use crate::args::CheckArgs;
use crate::truth::Truth;
use anyhow::ensure;
use frostline_core::span::Span;
use frostline_core::{PAGE_BYTES, Vpn};
use frostline_linux::moves::migrate::{NodeStatus, nodes_of};
use frostline_linux::pages::pagemap::{PageEntry, Pagemap};
use frostline_linux::{LinuxError, Root, Target};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;

/// Pages looked at in one go.
const CHUNK: u32 = 1 << 16;

/// Where some pages are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Places {
    pages: u64,
    present: u64,
    swapped: u64,
    /// Neither: never written, or freed.
    absent: u64,
    /// Of the present ones, by node.
    nodes: BTreeMap<u32, u64>,
}

#[derive(Debug, Serialize)]
struct Answer {
    pid: u32,
    generation: u32,
    hot: Places,
    cold: Places,
    /// Why nodes are not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_nodes: Option<String>,
}

/// Prints where the pages are.
///
/// # Errors
/// Where the file cannot be read, the load has ended, or rights to look at it are missing.
pub fn run(args: &CheckArgs) -> anyhow::Result<()> {
    let answer = examine(&Truth::read(&args.truth)?)?;
    if let Some(why) = &answer.no_nodes {
        eprintln!("note: nodes are not told: {why}");
    }
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &answer)?;
        writeln!(out)?;
    } else {
        out.write_all(table(&answer).as_bytes())?;
    }
    Ok(out.flush()?)
}

fn table(answer: &Answer) -> String {
    let kinds = [("hot", &answer.hot), ("cold", &answer.cold)];
    let mut nodes: Vec<u32> = kinds.iter().flat_map(|(_, p)| p.nodes.keys().copied()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let titles = nodes.iter().map(|node| format!("  {:>8}", format!("node {node}")));
    let mut text =
        format!("        pages   present   swapped    absent{}\n", titles.collect::<String>());
    for (kind, places) in kinds {
        let share = |n: u64| format!("  {:>6.2} %", 100.0 * n as f64 / places.pages.max(1) as f64);
        let nodes = nodes.iter().map(|node| places.nodes.get(node).copied().unwrap_or(0));
        let counts = [places.present, places.swapped, places.absent].into_iter().chain(nodes);
        let shares: String = counts.map(share).collect();
        text.push_str(&format!("{kind:4} {:>8}{shares}\n", places.pages));
    }
    text
}

fn examine(truth: &Truth) -> anyhow::Result<Answer> {
    let target = Target::open(&Root::system(), truth.pid)?;
    let mut pagemap = Pagemap::open(&target)?;
    let (mut hot, mut cold) = (Places::default(), Places::default());
    let mut no_nodes = None;
    let (mut entries, mut done) = (Vec::new(), 0);
    for first in (0..truth.pages).step_by(CHUNK as usize) {
        let pages = first..truth.pages.min(first.saturating_add(CHUNK));
        let span = Span::new(page_at(truth, first), u64::from(pages.end - first));
        entries.clear();
        pagemap.read(span, &mut entries)?;
        let nodes = nodes_of_present(&target, span, &entries).unwrap_or_else(|error| {
            no_nodes = Some(error.to_string());
            BTreeMap::new()
        });
        for (page, entry) in pages.zip(&entries) {
            let places = if is_hot(&truth.hot, &mut done, page) { &mut hot } else { &mut cold };
            places.pages += 1;
            places.present += u64::from(entry.present());
            places.swapped += u64::from(entry.swapped());
            places.absent += u64::from(!entry.present() && !entry.swapped());
            if let Some(node) = nodes.get(&page_at(truth, page)) {
                *places.nodes.entry(*node).or_default() += 1;
            }
        }
    }
    ensure!(
        hot.absent + cold.absent < u64::from(truth.pages),
        "process {} has no such memory\nhint: the load that wrote the file may have ended",
        truth.pid
    );
    Ok(Answer { pid: truth.pid, generation: truth.generation, hot, cold, no_nodes })
}

fn page_at(truth: &Truth, page: u32) -> Vpn {
    Vpn(truth.start / PAGE_BYTES + u64::from(page))
}

/// Whether a page is hot; asked for ascending pages, so that `done` ranges lie before them.
fn is_hot(hot: &[Range<u32>], done: &mut usize, page: u32) -> bool {
    *done += hot[*done..].iter().take_while(|range| range.end <= page).count();
    hot.get(*done).is_some_and(|range| range.contains(&page))
}

/// Nodes of the pages that are in memory.
fn nodes_of_present(
    target: &Target,
    span: Span,
    entries: &[PageEntry],
) -> Result<BTreeMap<Vpn, u32>, LinuxError> {
    let present: Vec<Vpn> = span
        .iter()
        .zip(entries)
        .filter(|(_, entry)| entry.present())
        .map(|(page, _)| page)
        .collect();
    let nodes = nodes_of(target, &present)?;
    let known = present.into_iter().zip(nodes).filter_map(|(page, status)| match status {
        NodeStatus::Node(node) => Some((page, node)),
        _ => None,
    });
    Ok(known.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::Area;
    use frostline_testing::{Requirement, skip};

    #[test]
    fn own_pages_are_found_and_hot_ones_told_apart() {
        let mut area = Area::map(64, false).expect("memory");
        let truth = Truth {
            pid: std::process::id(),
            start: area.start(),
            pages: 64,
            generation: 0,
            hot: vec![0..4, 10..12],
        };
        assert!(examine(&truth).is_err(), "nothing is there before it is written");
        area.pages_mut()[..11].iter_mut().for_each(|page| page[0] = 1);
        let answer = examine(&truth).expect("own memory can be looked at");
        assert_eq!((answer.hot.pages, answer.hot.absent), (6, 1));
        assert_eq!((answer.cold.pages, answer.cold.absent), (58, 52));
        assert_eq!(answer.hot.present + answer.hot.swapped, 5);
        match &answer.no_nodes {
            Some(why) => skip(Requirement::OtherMemory, why),
            None => assert_eq!(answer.hot.nodes.values().sum::<u64>(), answer.hot.present),
        }
        assert!(table(&answer).contains("hot         6"), "{}", table(&answer));
    }

    #[test]
    fn hot_pages_are_found_between_cold_ones() {
        let (hot, mut done) = ([1..3, 3..4, 7..8], 0);
        let found: Vec<u32> = (0..10).filter(|page| is_hot(&hot, &mut done, *page)).collect();
        assert_eq!(found, [1, 2, 3, 7]);
    }
}
