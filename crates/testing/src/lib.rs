//! Requirements of tests on a machine. A test that cannot run there says so in one line,
//! `skipped: REQUIREMENT: REASON`, which `scripts/run-tests` counts. Where the environment variable
//! [`REQUIRE`] names the requirement, the test fails instead.
//!
//! Nothing here uses Frostline: what is broken in it must not look like a machine that cannot.

#![forbid(unsafe_code)]

pub mod death;
mod forks;
mod group;
mod lock;
mod machine;
mod wait;

pub use forks::{forks, takes_pages_out};
pub use group::{MemoryGroup, memory_group};
pub use lock::swap_lock;
pub use machine::Machine;
use std::fmt;
pub use wait::{Moments, TIMEOUT, wait_for, wait_until};

/// Variable with the requirements that this machine must meet: names between commas, or `all`.
pub const REQUIRE: &str = "FROSTLINE_REQUIRE";

macro_rules! requirements {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// Something that not every machine has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Requirement {
            $($(#[$doc])* $variant,)*
        }

        impl Requirement {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in skip lines and in [`REQUIRE`].
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

requirements! {
    /// Swap on zram devices may be set up.
    Zram "zram",
    /// Faults may be handed over, those of system calls included, and pages moved within a process.
    Userfaultfd "uffd",
    /// DAMON is there, and nobody else uses it.
    Damon "damon",
    /// Page faults may be sampled.
    Faults "faults",
    /// Trace points may be read, if need be among mounts of one's own.
    Tracefs "tracefs",
    /// Frames of pages may be seen.
    Frames "frames",
    /// Memory of other processes may be looked up, advised, moved and written.
    OtherMemory "other-memory",
    /// Other processes may be traced, and a library brought into them.
    Inject "inject",
    /// Pages tell whether they were written.
    SoftDirty "soft-dirty",
    /// Guard pages (Linux 6.13), told from others.
    GuardPages "guard-pages",
    /// Huge pages are given where they are asked for.
    HugePages "huge-pages",
    /// Control groups may be made that limit memory and swap.
    Groups "groups",
    /// Memory of two nodes.
    Nodes "nodes",
    /// Closings of files on the disk of the folder for temporary files are told.
    Closings "closings",
    /// File systems may be mounted.
    Mounts "mounts",
    /// A swap device of the machine's own may be set up on a file.
    FileSwap "file-swap",
    /// Tests run as root, who can give files to other users.
    Root "root",
    /// The processor has caches, which an emulator has not.
    Caches "caches",
    /// Delays of processes are counted, and told.
    Delays "delays",
    /// Page tables of processes may be read.
    PageTables "page-tables",
    /// Threads of the kernel are to be seen.
    KernelThreads "kernel-threads",
    /// setsid(1) that gives a program a terminal.
    Terminal "terminal",
    /// env(1) that ignores signals.
    Env "env",
    /// setpriv(1).
    Setpriv "setpriv",
    /// A C compiler that builds what the test needs.
    Compiler "cc",
    /// The allocator, as a library.
    Jemalloc "jemalloc",
    /// The emulated machine with two nodes.
    Guest "guest",
    /// The machine in which slow memory takes longer.
    Lab "lab",
    /// Valgrind with its headers.
    Valgrind "valgrind",
    /// QEMU for programs.
    QemuUser "qemu-user",
    /// A browser that a program leads, and the packages that it takes.
    Browser "browser",
    /// Prometheus's checks of rules.
    Promtool "promtool",
    /// A clean system in which packages are tried (`packaging/test`).
    Packages "packages",
    /// Programs whose memory is recorded: redis-server, memcached, sqlite3, liblinear.
    Programs "programs",
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Says that the test that runs cannot do what it is for. It returns afterwards.
///
/// # Panics
/// Where the machine must meet the requirement, and where [`REQUIRE`] holds an unknown name.
pub fn skip(requirement: Requirement, why: impl fmt::Display) {
    let named = std::env::var(REQUIRE).unwrap_or_default();
    let line = line(requirement, &why.to_string());
    match is_required(&named, requirement) {
        Ok(false) => println!("{line}"),
        Ok(true) => panic!("{REQUIRE} says that this machine has '{requirement}'; {line}"),
        Err(unknown) => panic!("{REQUIRE}: there is no requirement '{unknown}'"),
    }
}

/// Whether delays of processes can be tested; says that the test is skipped where not.
pub fn delays() -> bool {
    met(Requirement::Delays, Machine::this().delays())
}

/// Whether zram can be tested; says that the test is skipped where not.
pub fn zram() -> bool {
    met(Requirement::Zram, Machine::this().zram())
}

/// Whether userfaultfd can be tested; says that the test is skipped where not.
pub fn userfaultfd() -> bool {
    met(Requirement::Userfaultfd, Machine::this().userfaultfd())
}

/// Whether frames of pages are told; says that the test is skipped where not.
pub fn frames() -> bool {
    met(Requirement::Frames, Machine::this().frames())
}

fn met(requirement: Requirement, found: Result<(), String>) -> bool {
    found.map_err(|why| skip(requirement, why)).is_ok()
}

fn line(requirement: Requirement, why: &str) -> String {
    let why: Vec<&str> = why.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    format!("skipped: {requirement}: {}", why.join("; "))
}

/// Whether a list of names has one; the first unknown name of it otherwise.
fn is_required(named: &str, requirement: Requirement) -> Result<bool, &str> {
    let names = || named.split(',').map(str::trim).filter(|name| !name.is_empty());
    let is_known = |name: &&str| {
        *name == "all" || Requirement::ALL.iter().any(|requirement| requirement.name() == *name)
    };
    match names().find(|name| !is_known(name)) {
        Some(unknown) => Err(unknown),
        None => Ok(names().any(|name| name == "all" || name == requirement.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_must_have_something_does_not_skip_it() {
        let required = |named| is_required(named, Requirement::Zram);
        assert_eq!(required(""), Ok(false));
        assert_eq!(required("uffd, damon"), Ok(false));
        assert_eq!(required("uffd, zram"), Ok(true));
        assert_eq!(required("all"), Ok(true));
    }

    #[test]
    fn a_name_that_is_misspelt_requires_nothing_in_silence() {
        assert_eq!(is_required("zram,userfaultfd", Requirement::Zram), Err("userfaultfd"));
    }

    #[test]
    fn a_reason_takes_one_line() {
        let line = line(Requirement::Zram, "no right\n  hint: be root\n");
        assert_eq!(line, "skipped: zram: no right; hint: be root");
    }

    #[test]
    fn names_are_apart() {
        let mut names: Vec<_> = Requirement::ALL.iter().map(|one| one.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Requirement::ALL.len());
        assert!(!names.contains(&"all"));
    }

    #[test]
    fn continuous_integration_requires_what_there_is_to_require() {
        let script = include_str!("../../../.ci/run");
        let named = script.lines().find_map(|line| {
            line.trim().strip_prefix("export ")?.strip_prefix(REQUIRE)?.strip_prefix('=')
        });
        let named = named.expect("a list").trim_matches('"');
        assert_eq!(is_required(named, Requirement::Zram), Ok(true));
    }
}
