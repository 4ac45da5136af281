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
    /// All processes of a program, by the kernel's name for them: `comm` in proc(5), at most 15
    /// bytes. Our own process is never among them.
    Command {
        /// The name.
        name: String,
        /// Also their descendants.
        tree: bool,
    },
}

/// Bytes that the kernel keeps of a program's name (`TASK_COMM_LEN` in `include/linux/sched.h`,
/// without the zero at its end).
const COMM_BYTES: usize = 15;

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
            Self::Command { name, tree } => {
                let comm = &name.as_bytes()[..name.len().min(COMM_BYTES)];
                let runs_it = |pid: &u32| {
                    // Whoever ends meanwhile is none of them.
                    let text = root.read(format!("/proc/{pid}/comm"));
                    *pid != std::process::id() && text.is_ok_and(|text| text.as_bytes() == comm)
                };
                let named: Vec<u32> = process::pids(root)?.into_iter().filter(runs_it).collect();
                let mut pids = BTreeSet::from_iter(named.iter().copied());
                for pid in named.into_iter().filter(|_| *tree) {
                    pids.extend(process::descendants(root, pid)?);
                }
                Ok(pids)
            }
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
        Ok(Self {
            target,
            pagemap,
            maps: MapsReader::new(),
            mappings: Vec::new(),
            spans: Vec::new(),
        })
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

    #[test]
    fn programs_are_found_by_the_kernels_name_for_them() {
        let dir = tempfile::tempdir().unwrap();
        let processes = [
            (7, 1, "redis-server\n"),
            (8, 7, "sh\n"),
            (9, 1, "a-very-long-nam\n"),
            (std::process::id(), 1, "redis-server\n"),
        ];
        for (pid, parent, comm) in processes {
            let folder = dir.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&folder).unwrap();
            let zeros = "0 ".repeat(40);
            std::fs::write(folder.join("stat"), format!("{pid} (x) S {parent} {zeros}")).unwrap();
            std::fs::write(folder.join("comm"), comm).unwrap();
        }
        let root = Root::at(dir.path());
        let pids = |name: &str, tree: bool| {
            let who = Selection::Command { name: name.into(), tree };
            who.pids(&root).unwrap().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(pids("redis-server", false), [7], "and not this process");
        assert_eq!(pids("redis-server", true), [7, 8]);
        assert_eq!(pids("a-very-long-name-indeed", true), [9]);
        assert!(pids("redis", true).is_empty());
    }

    proptest! {
        #[test]
        fn differences_are_those_of_sets(a in any::<u32>(), b in any::<u32>()) {
            prop_assert_eq!(difference(&spans(a), &spans(b)), spans(a & !b));
        }
    }
}
