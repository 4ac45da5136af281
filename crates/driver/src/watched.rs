//! The processes that a driver manages.

use frostline_core::types::{ProcessId, Vpn};
use frostline_linux::maps::{Mapping, MapsReader};
use frostline_linux::pagemap::Pagemap;
use frostline_linux::process::{self, Target};
use frostline_linux::span::Span;
use frostline_linux::{LinuxError, Root};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Whom to manage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// A process, and where wanted all that it starts.
    Process {
        /// Its number.
        pid: u32,
        /// Also its descendants.
        tree: bool,
    },
    /// All processes of a cgroup and of those below it.
    Cgroup(PathBuf),
}

impl Selection {
    /// Numbers of the processes that run now, and belong to it.
    ///
    /// # Errors
    /// Where `/proc` or the cgroup cannot be read.
    pub fn pids(&self, root: &Root) -> Result<BTreeSet<u32>, LinuxError> {
        match self {
            Self::Process { pid, tree } => {
                let mut pids = BTreeSet::from([*pid]);
                if *tree {
                    pids.extend(process::descendants(root, *pid)?);
                }
                Ok(pids)
            }
            Self::Cgroup(path) => Ok(process::pids_of_cgroup(root, path)?.into_iter().collect()),
        }
    }
}

/// One process.
#[derive(Debug)]
pub struct Watched {
    /// It, and nobody who gets its number later.
    pub target: Target,
    /// Where its pages are.
    pub pagemap: Pagemap,
    maps: MapsReader,
    mappings: Vec<Mapping>,
    /// Address space whose pages may be moved, ascending, neighbours joined.
    pub spans: Vec<Span>,
}

/// How address space has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// New.
    pub mapped: Vec<Span>,
    /// No longer there.
    pub unmapped: Vec<Span>,
}

impl Watched {
    /// A process of which no address space is known yet.
    ///
    /// # Errors
    /// Where it has ended or may not be looked into.
    pub fn open(root: &Root, pid: u32) -> Result<Self, LinuxError> {
        let target = Target::open(root, pid)?;
        let pagemap = Pagemap::open(&target)?;
        Ok(Self { target, pagemap, maps: MapsReader::new(), mappings: Vec::new(), spans: Vec::new() })
    }

    /// Its number, as events carry it.
    pub fn id(&self) -> ProcessId {
        ProcessId(self.target.pid())
    }

    /// Reads its mappings; tells what has changed since the last call.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn refresh(&mut self) -> Result<Changes, LinuxError> {
        self.maps.read(&self.target, &mut self.mappings)?;
        let tierable = self.mappings.iter().filter(|mapping| mapping.is_tierable());
        let spans = joined(tierable.map(|mapping| mapping.span));
        let changes = Changes {
            mapped: difference(&spans, &self.spans),
            unmapped: difference(&self.spans, &spans),
        };
        self.spans = spans;
        Ok(changes)
    }

    /// The program that it runs has been replaced: the page table is another one.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn reopen(&mut self) -> Result<(), LinuxError> {
        self.pagemap = Pagemap::open(&self.target)?;
        Ok(())
    }
}

/// Ascending spans with neighbours joined.
fn joined(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut out: Vec<Span> = Vec::new();
    for span in spans {
        match out.last_mut() {
            Some(last) if last.end() == span.start => last.pages += span.pages,
            _ => out.push(span),
        }
    }
    out
}

/// What of `a` is not in `b`; both ascending and free of overlap.
fn difference(a: &[Span], b: &[Span]) -> Vec<Span> {
    let mut out = Vec::new();
    let mut next = 0;
    for span in a {
        let mut at = span.start;
        while next < b.len() && b[next].end() <= at {
            next += 1;
        }
        for hole in b[next..].iter().take_while(|hole| hole.start < span.end()) {
            if hole.start > at {
                out.push(Span::between(at, hole.start));
            }
            at = Vpn(at.0.max(hole.end().0));
        }
        if at < span.end() {
            out.push(Span::between(at, span.end()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans(bits: u32) -> Vec<Span> {
        joined((0..32).filter(|i| bits >> i & 1 == 1).map(|i| Span::single(Vpn(i))))
    }

    proptest! {
        #[test]
        fn differences_are_those_of_sets(a in any::<u32>(), b in any::<u32>()) {
            prop_assert_eq!(difference(&spans(a), &spans(b)), spans(a & !b));
        }
    }
}
