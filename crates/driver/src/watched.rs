//! The processes that a driver manages.

use crate::incompressible::Probes;
use crate::left_alone::LeftAlone;
use crate::owner::Owner;
use frostline_core::Foreign;
use frostline_core::event::Backing;
use frostline_core::mappings;
use frostline_core::span::{ExtentChange, Span, joined};
use frostline_core::types::{Bytes, Vpn};
use frostline_daemon::Refreshed;
use frostline_linux::files::FileId;
use frostline_linux::groups::{GroupName, Trees};
use frostline_linux::pages::pagemap::Pagemap;
use frostline_linux::process::maps::{self, Kind, Mapping, MapsReader};
use frostline_linux::process::users::{self, User};
use frostline_linux::process::{self, Target, Usage, clock};
use frostline_linux::{LinuxError, Root};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Whom to manage. Processes that are [left alone](LeftAlone) are never among them, but for the one that is named by its
/// number, which a driver may be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// A process, and where wanted all that it starts.
    Process {
        /// Its number.
        pid: u32,
        /// Also its descendants.
        tree: bool,
    },
    /// All processes of a control group and of those in it, as long as they are there.
    Cgroup(GroupName),
    /// All processes of a program, by the kernel's name for them: `comm` in proc(5), at most 15
    /// bytes.
    Command {
        /// The name.
        name: String,
        /// Whose they are.
        owner: Owner,
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
    /// Where `/proc` or the control group cannot be read; a group that is not there has no processes.
    pub fn pids(&self, root: &Root) -> Result<BTreeSet<u32>, LinuxError> {
        let manageable = |pid: &u32| LeftAlone::of(root, *pid).is_none();
        let descendants = |pids: &[u32]| process::descendants(root, pids, |pid| manageable(&pid));
        match self {
            Self::Process { pid, tree } => {
                let mut pids = BTreeSet::from([*pid]);
                if *tree {
                    pids.extend(descendants(&[*pid])?);
                }
                Ok(pids)
            }
            Self::Cgroup(name) => {
                let group = Trees::read(root)?.find(root, name)?;
                let pids = group.map(|group| group.members(root)).transpose()?.unwrap_or_default();
                Ok(pids.into_iter().filter(manageable).collect())
            }
            Self::Command { name, owner, tree } => {
                let mut named = named(root, name)?;
                named.retain(|pid| manageable(pid) && owner.owns(root, *pid));
                let started = if *tree { descendants(&named)? } else { Vec::new() };
                Ok(named.into_iter().chain(started).collect())
            }
        }
    }

    /// Users of whom processes have the name, and are left alone because they are somebody else's.
    ///
    /// # Errors
    /// Where `/proc` cannot be read.
    pub fn namesakes(&self, root: &Root) -> Result<BTreeSet<User>, LinuxError> {
        let Self::Command { name, owner, .. } = self else { return Ok(BTreeSet::new()) };
        let mut named = named(root, name)?;
        named.retain(|pid| LeftAlone::of(root, *pid).is_none() && !owner.owns(root, *pid));
        let users = named.iter().filter_map(|pid| users::of_process(root, *pid));
        Ok(users.map(|[real, ..]| User::of(real)).collect())
    }

    /// Whether a process that belonged to it and no longer does is let go. One whose parent has ended is not told from
    /// others any more, and stays.
    pub fn lets_go(&self) -> bool {
        matches!(self, Self::Cgroup(_))
    }
}

/// Processes with this name, in the kernel's length; whoever ends meanwhile is none of them.
fn named(root: &Root, name: &str) -> Result<Vec<u32>, LinuxError> {
    let comm = &name.as_bytes()[..name.len().min(COMM_BYTES)];
    let mut pids = process::pids(root)?;
    pids.retain(|pid| {
        let text = root.read(format!("/proc/{pid}/comm"));
        text.is_ok_and(|text| text.as_bytes() == comm)
    });
    Ok(pids)
}

/// Memory that is not moved, by reason. It is in no tier's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmanaged {
    /// Resident pages of files.
    pub file_bytes: u64,
    /// Resident, shared between processes and of no file on a disk.
    pub shared_bytes: u64,
    /// Locked into memory; part of it may be in the others, and in the tiers' figures.
    pub locked_bytes: u64,
    /// Huge pages that were reserved (hugetlbfs).
    pub reserved_bytes: u64,
    /// Address space whose pages were looked at and do not compress, where slow memory is compressed.
    pub incompressible_bytes: u64,
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
    /// Resident memory when that was last found to have changed.
    resident: Bytes,
    /// Its kinds, at that time.
    usage: Usage,
    /// What of it does not compress.
    pub probes: Probes,
    /// Name of the program, as it was read last.
    comm: Foreign,
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
            resident: Bytes::ZERO,
            usage: Usage::default(),
            probes: Probes::default(),
            comm: Foreign::default(),
        })
    }

    /// The name of its program, when [`Self::has_changed`] was last asked for.
    pub fn comm(&self) -> &Foreign {
        &self.comm
    }

    /// Reads name and size. Whether its resident memory has grown or shrunk by more than a small part
    /// since this was last so.
    pub fn has_changed(&mut self) -> bool {
        self.comm = self.target.comm().unwrap_or_default();
        let Ok(resident) = self.target.resident() else { return false };
        let changed = Refreshed::is_other_size(self.resident.0, resident.0);
        if changed {
            self.resident = resident;
            self.usage = self.target.usage().unwrap_or_default();
        }
        changed
    }

    /// Anonymous memory, and what is in swap, when [`Self::has_changed`] last said so.
    pub fn memory(&self) -> Bytes {
        Bytes(self.usage.anonymous.0 + self.usage.swapped.0)
    }

    /// Memory that cannot be moved, by reason, at the same time.
    pub fn unmanaged(&self) -> Unmanaged {
        let incompressible = self.probes.left_alone(clock::monotonic());
        let mappings = maps::tierable(&self.mappings);
        let left = mappings::parts(mappings, &incompressible).map(|(part, _)| part.bytes().0);
        Unmanaged {
            file_bytes: self.usage.files.0,
            shared_bytes: self.usage.shared.0,
            locked_bytes: self.usage.locked.0,
            reserved_bytes: self.usage.reserved.0,
            incompressible_bytes: left.sum(),
        }
    }

    /// Reads its mappings.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn read_mappings(&mut self) -> Result<&[Mapping], LinuxError> {
        self.maps.read(&self.target, &mut self.mappings)?;
        Ok(&self.mappings)
    }

    /// Whether a file is mapped, as the mappings were read last.
    pub fn has_mapped(&self, file: FileId) -> bool {
        let is_it = |mapping: &Mapping| (mapping.dev, mapping.inode) == (file.device, file.inode);
        self.mappings.iter().any(is_it)
    }

    /// How the mappings that were read last differ from `known`, ascending and apart: what is new in
    /// each of them by itself. Nothing is in `left_out`, ascending and apart.
    pub fn changes(&self, known: &[Span], left_out: &[Span]) -> Vec<ExtentChange> {
        let mut left = self.probes.left_alone(clock::monotonic());
        left.extend(left_out);
        left.sort_unstable();
        let left = joined(left.into_iter());
        mappings::changes(maps::tierable(&self.mappings), known, &left)
    }

    /// What backs `parts` of the address space, ascending and apart, as far as each is in one
    /// mapping. What was mapped since the mappings were read last is anonymous memory.
    pub fn backing(&self, parts: &[Span]) -> Vec<(Span, Backing)> {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Vec::new() };
        let span = Span::between(first.start, last.end());
        let from = self.mappings.partition_point(|mapping| mapping.span.end() <= span.start);
        let there = maps::tierable(&self.mappings[from..]);
        mappings::backing(there.take_while(|(mapping, _)| mapping.start < span.end()), parts)
    }

    /// The mapping of a page, as it was read last, where it is memory of the program's alone: not
    /// what it keeps beside a file's memory, which every thread's libraries may need at any time,
    /// nor the first thread's stack, nor what lies beside pages that are left out.
    /// `known` is all that may be moved, ascending and apart.
    pub fn separate_mapping(&self, page: Vpn, known: &[Span]) -> Option<Span> {
        let at = self.mappings.partition_point(|mapping| mapping.span.end() <= page);
        let mapping = self.mappings.get(at).filter(|mapping| mapping.span.contains(page))?;
        let before = at.checked_sub(1).map(|at| &self.mappings[at]);
        let beside_a_file = before.is_some_and(|before| {
            matches!(before.kind, Kind::File(_)) && before.span.end() == mapping.span.start
        });
        let kind = matches!(mapping.kind, Kind::Anonymous | Kind::Heap);
        let at = known.partition_point(|span| span.end() <= page);
        let span = known.get(at)?.intersect(mapping.span);
        (kind && !beside_a_file && span == mapping.span).then_some(mapping.span)
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

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_daemon::Space;
    use frostline_testing::{Requirement, skip};

    use std::path::PathBuf;
    use tempfile::TempDir;

    /// This process, with mappings to be written into the folder.
    fn watched(dir: &TempDir) -> Option<(Watched, PathBuf)> {
        let pid = std::process::id();
        let folder = dir.path().join(format!("proc/{pid}"));
        std::fs::create_dir_all(&folder).unwrap();
        let stat = std::fs::read("/proc/self/stat").unwrap();
        std::fs::write(folder.join("stat"), stat).unwrap();
        std::fs::write(folder.join("pagemap"), "").unwrap();
        match Watched::open(&Root::at(dir.path()), pid) {
            Ok(watched) => Some((watched, folder)),
            Err(error) => {
                skip(Requirement::OtherMemory, error);
                None
            }
        }
    }

    #[test]
    fn neighbours_among_mappings_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let Some((mut watched, folder)) = watched(&dir) else { return };
        let line = |from: u64, to: u64, name: &str| {
            format!("{:x}-{:x} rw-p 00000000 00:00 0 {name}\n", from << 12, to << 12)
        };
        let mut space = Space::default();
        let mut changes = |lines: &[String]| {
            std::fs::write(folder.join("maps"), lines.concat()).unwrap();
            watched.read_mappings().unwrap();
            let changes = watched.changes(space.spans(), &[]);
            for change in &changes {
                if let ExtentChange::Mapped { span, .. } = change {
                    space.add(*span);
                }
            }
            changes
        };
        let mapped = |start, pages, backing| {
            let span = Span::new(Vpn(start), pages);
            ExtentChange::Mapped { span, backing }
        };
        let heap = |end| line(100, end, "[heap]");
        let rest = [line(200, 300, ""), line(300, 310, "[anon:stack]"), line(400, 433, "[stack]")];
        let [a, b, c] = rest.clone();
        assert_eq!(
            changes(&[heap(140), a, b, c]),
            [
                mapped(100, 40, Backing::Heap),
                mapped(200, 100, Backing::Anonymous),
                mapped(300, 10, Backing::Anonymous),
                mapped(400, 33, Backing::Stack),
            ]
        );
        let [a, b, c] = rest;
        assert_eq!(changes(&[heap(150), a, b, c]), [mapped(140, 10, Backing::Heap)]);
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
            let who = Selection::Command { name: name.into(), owner: Owner::Anybody, tree };
            who.pids(&root).unwrap().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(pids("redis-server", false), [7], "and not this process");
        assert_eq!(pids("redis-server", true), [7, 8]);
        assert_eq!(pids("a-very-long-name-indeed", true), [9]);
        assert!(pids("redis", true).is_empty());
    }

    #[test]
    fn who_gives_a_program_the_name_of_another_users_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        // The last two have the rights of user 7, and were started by user 1000.
        for (pid, users) in [
            (20, "7 7 7 7"),
            (21, "1000 1000 1000 1000"),
            (22, "1000 7 7 7"),
            (23, "1000 7 1000 7"),
        ] {
            let folder = dir.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&folder).unwrap();
            let zeros = "0 ".repeat(40);
            std::fs::write(folder.join("stat"), format!("{pid} (x) S 1 {zeros}")).unwrap();
            std::fs::write(folder.join("comm"), "redis-server\n").unwrap();
            std::fs::write(folder.join("status"), format!("Uid:\t{users}\n")).unwrap();
        }
        let root = Root::at(dir.path());
        let found = |owner: Owner| {
            let who = Selection::Command { name: "redis-server".into(), owner, tree: true };
            let others = who.namesakes(&root).unwrap().into_iter().map(|user| user.id);
            (who.pids(&root).unwrap().into_iter().collect::<Vec<_>>(), others.collect::<Vec<_>>())
        };
        let user = |id| Owner::User(User { id, name: "x".into() });
        assert_eq!(found(user(7)), (vec![20], vec![1000]));
        assert_eq!(found(user(1000)), (vec![21], vec![7, 1000]));
        assert_eq!(found(user(0)).0, [0; 0]);
        assert_eq!(found(Owner::Anybody), (vec![20, 21, 22, 23], vec![]));
    }
}
