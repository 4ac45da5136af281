//! Kinds of disasters, and how often each has happened.

use std::fmt;

macro_rules! disasters {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// A disaster.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Disaster {
            $($(#[$doc])* $kind,)*
        }

        impl Disaster {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Name in output, and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name),*
                }
            }
        }
    };
}

disasters! {
    /// A process starts a copy of itself, which is managed, too.
    Fork = "fork",
    /// A process executes another program: all of its memory is gone.
    Exec = "exec",
    /// A process ends.
    Exit = "exit",
    /// A process ends, and another one gets its number at once.
    Reuse = "pid-reuse",
    /// Address space is unmapped.
    Unmap = "munmap",
    /// Address space moves.
    Remap = "mremap",
    /// Pages are given back, their address space stays.
    DontNeed = "dontneed",
    /// The kernel splits a folio.
    Split = "split",
    /// The kernel builds a folio.
    Collapse = "collapse",
    /// The kernel, or somebody else, moves pages.
    Elsewhere = "moved-by-others",
    /// A page is pinned or under I/O: it cannot be moved.
    Busy = "busy",
    /// A move finds no memory.
    NoMemory = "no-memory",
    /// A page is mapped by several processes: it cannot be moved.
    Shared = "shared",
    /// Rights are lost: the daemon ends, and another one begins.
    NotPermitted = "not-permitted",
    /// Something happens in the middle of a call.
    Race = "race",
    /// A process has ended when it is asked for.
    Gone = "gone",
    /// Samples are lost.
    LostSamples = "lost-samples",
    /// Calls of a process are not told.
    LostCalls = "lost-calls",
    /// The clock jumps.
    ClockJump = "clock-jump",
    /// Processor time is used by somebody else.
    NoTime = "no-time",
    /// A slower tier is filled by others.
    Full = "tier-full",
    /// What may be in swap is limited.
    GroupLimit = "group-limit",
    /// The limit of fast memory is another one.
    Reload = "reload",
    /// The daemon is stopped, brings everything back, and another one begins.
    Stop = "stop",
    /// The daemon is killed, and another one begins.
    Kill = "kill",
}

/// Disasters that do not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Without(u64);

impl Without {
    /// The same without this one, too.
    #[must_use]
    pub fn and(self, disaster: Disaster) -> Self {
        Self(self.0 | 1 << disaster as u64)
    }

    /// Whether this one does not happen.
    pub fn has(self, disaster: Disaster) -> bool {
        self.0 >> disaster as u64 & 1 == 1
    }

    /// Reads names with commas between them.
    ///
    /// # Errors
    /// A name that there is not.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.split(',').filter(|name| !name.is_empty()).try_fold(
            Self::default(),
            |without, name| {
                let found = Disaster::ALL.iter().find(|disaster| disaster.name() == name);
                let names: Vec<&str> =
                    Disaster::ALL.iter().map(|disaster| disaster.name()).collect();
                let unknown = || format!("'{name}' is no disaster; those are {}", names.join(", "));
                Ok(without.and(*found.ok_or_else(unknown)?))
            },
        )
    }
}

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Disaster::ALL.iter().filter(|one| self.has(**one)).map(|one| one.name());
        f.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

/// How often each disaster has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally([u64; Disaster::ALL.len()]);

impl Default for Tally {
    fn default() -> Self {
        Self([0; Disaster::ALL.len()])
    }
}

impl Tally {
    /// It has happened.
    pub fn count(&mut self, disaster: Disaster) {
        self.0[disaster as usize] += 1;
    }

    /// How often it has.
    pub fn of(&self, disaster: Disaster) -> u64 {
        self.0[disaster as usize]
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, one)| *sum += one);
    }
}
