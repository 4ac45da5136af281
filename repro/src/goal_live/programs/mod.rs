//! Programs that do a given number of units of work when asked: servers, and scripts that read numbers.

mod piped;
mod postgres;
mod servers;
mod work;

use crate::validate::programs::recipe::missing_program;
use std::path::Path;
pub use work::Work;

/// A program by name.
#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    /// Data and requests, in a few words.
    pub about: &'static str,
    /// What is not installed, and the command that installs it.
    pub missing: fn() -> Option<String>,
    /// Starts one with its files in an empty folder.
    pub start: fn(&Path) -> anyhow::Result<Box<dyn Work>>,
}

/// All programs.
pub static ALL: &[Program] = &[
    Program {
        name: "redis",
        about: "300 000 values of 1 KiB, 60 % of them by Zipf's law, the others older and hardly read",
        missing: || missing_program("redis-server", "redis-server"),
        start: |dir| Ok(Box::new(servers::redis(dir, Some(0.99))?)),
    },
    Program {
        name: "redis-uniform",
        about: "300 000 values of 1 KiB, all alike",
        missing: || missing_program("redis-server", "redis-server"),
        start: |dir| Ok(Box::new(servers::redis(dir, None)?)),
    },
    Program {
        name: "memcached",
        about: "300 000 values of 1 KiB, 60 % of them by Zipf's law, the others older and hardly read",
        missing: || missing_program("memcached", "memcached"),
        start: |dir| Ok(Box::new(servers::memcached(dir)?)),
    },
    Program {
        name: "postgresql",
        about: "1.5 M accounts in 300 MiB of shared buffers",
        missing: postgres::missing,
        start: |dir| Ok(Box::new(postgres::start(dir)?)),
    },
    Program {
        name: "h2",
        about: "600 000 accounts in a Java heap, Zipf",
        missing: piped::no_h2,
        start: |dir| Ok(Box::new(piped::h2(dir)?)),
    },
    Program {
        name: "pandas",
        about: "orders of a year, recent days first",
        missing: piped::no_pandas,
        start: |dir| Ok(Box::new(piped::pandas(dir)?)),
    },
    Program {
        name: "node",
        about: "250 000 sessions, Zipf",
        missing: || missing_program("node", "nodejs"),
        start: |dir| Ok(Box::new(piped::node(dir)?)),
    },
    Program {
        name: "xz",
        about: "liblzma, preset 8",
        missing: || missing_program("python3", "python3"),
        start: |dir| Ok(Box::new(piped::xz(dir)?)),
    },
];
