//! Programs that run while systems are compared.

use anyhow::Context;

/// A program for the guest. It prints `ready` and `done` to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// As users see it.
    pub name: &'static str,
    /// Its process's name, cut to 15 characters as the kernel cuts it.
    pub comm: &'static str,
    /// Its arguments, the program first; `$seed` stands for the seed.
    pub command: &'static str,
    /// The server that the program starts, and whose accesses count, with its arguments; the
    /// program finds it at `$socket` with `--server $socket`. Empty where there is none.
    pub server: &'static [&'static str],
    /// Node 0, in MiB. About 90 of them are the guest's own.
    pub fast_mib: u64,
    /// Node 1, in MiB.
    pub slow_mib: u64,
}

/// All of them.
pub const ALL: &[Program] = &[
    // The hot quarter is touched last, so that first touch puts it into slow memory.
    Program {
        name: "hotcold",
        comm: "frostline-load",
        command: "frostline-load --size 256MiB --hot 25% --scatter last --hot-accesses 90% \
                  --writes 0 --operations 20M --seconds 3600 --seed $seed",
        server: &[],
        fast_mib: 272,
        slow_mib: 512,
    },
    Program {
        name: "scattered",
        comm: "frostline-load",
        command: "frostline-load --size 256MiB --hot 25% --hot-accesses 90% --writes 0 \
                  --operations 20M --seconds 3600 --seed $seed",
        server: &[],
        fast_mib: 272,
        slow_mib: 512,
    },
    Program {
        name: "shift",
        comm: "frostline-load",
        command: "frostline-load --size 256MiB --hot 20% --scatter block --hot-accesses 90% \
                  --writes 0 --operations 20M --shift-operations 5M --seconds 3600 --seed $seed",
        server: &[],
        fast_mib: 208,
        slow_mib: 512,
    },
    Program {
        name: "masim",
        comm: "frostline-load",
        command: "frostline-load --size 512MiB --hot 1/64 --hot-accesses 100% --writes 0 \
                  --operations 20M --huge --seconds 3600 --seed $seed",
        server: &[],
        fast_mib: 272,
        slow_mib: 768,
    },
    Program {
        name: "btree",
        comm: "lab-program",
        command: "lab-program btree --keys 1500000 --lookups 2500000 --seed $seed",
        server: &[],
        fast_mib: 192,
        slow_mib: 512,
    },
    Program {
        name: "redis",
        comm: "redis-server",
        command: "lab-program redis --keys 180000 --requests 600000 --seed $seed",
        server: &[
            "redis-server",
            "--port",
            "0",
            "--save",
            "",
            "--appendonly",
            "no",
            "--unixsocket",
            "$socket",
        ],
        fast_mib: 224,
        slow_mib: 512,
    },
    Program {
        name: "bfs",
        comm: "lab-program",
        command: "lab-program bfs --scale 20 --degree 16 --searches 2 --seed $seed",
        server: &[],
        fast_mib: 192,
        slow_mib: 512,
    },
];

/// Finds one.
///
/// # Errors
/// Where there is none of this name.
pub fn find(name: &str) -> anyhow::Result<Program> {
    let found = ALL.iter().find(|program| program.name == name);
    found.copied().with_context(|| {
        let names: Vec<&str> = ALL.iter().map(|program| program.name).collect();
        format!("no program '{name}'\nhint: {}", names.join(", "))
    })
}
