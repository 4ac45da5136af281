//! Redis under the requests of memtier_benchmark and of YCSB.

use super::connection::Connection;
use super::laws::{Keys, Law, letters, shuffled};
use super::recipe::{Loading, Plan, Recipe, missing_program, version_of};
use super::resp;
use super::run::Meter;
use frostline_core::rng::Rng;
use std::path::Path;

const PROGRAM: &str = "redis-server";
/// Ten times a second it has the allocator add up its statistics, 70 KiB of them. The recorder
/// slows the server, but not its clock: once a second (`--hz 1`) is nearer.
const OPTIONS: &[&str] = &["--port", "0", "--save", "", "--appendonly", "no", "--hz", "1"];

/// What a key's value is.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// A string of so many bytes, as memtier_benchmark has it.
    String(usize),
    /// A hash of ten fields of 100 B, and a place in an index, as YCSB's client for Redis has it.
    Hash,
}

/// A run: every key is set once, in random order; then come requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Redis {
    layout: Layout,
    keys: u32,
    law: Law,
    /// Share of the requests that write.
    writes: f64,
    requests: u32,
}

/// GPAC, section 5.1: values of 1 KB, Gaussian keys; memtier's defaults otherwise.
pub(super) const GAUSS: Redis = Redis {
    layout: Layout::String(1024),
    keys: 48_000,
    law: Law::Gauss(1.0 / 6.0),
    writes: 1.0 / 11.0,
    requests: 1_000_000,
};

/// YCSB, Table 2: workload A.
pub(super) const YCSB_A: Redis = Redis {
    layout: Layout::Hash,
    keys: 32_000,
    law: Law::Zipf(0.99),
    writes: 0.5,
    requests: 400_000,
};

/// YCSB, Table 2: workload B.
pub(super) const YCSB_B: Redis = Redis { writes: 0.05, ..YCSB_A };

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;

impl Recipe for Redis {
    fn missing(&self) -> Option<String> {
        missing_program(PROGRAM, PROGRAM)
    }

    fn version(&self) -> anyhow::Result<String> {
        version_of(&[PROGRAM, "--version"])
    }

    fn texts(&self) -> &'static [&'static str] {
        OPTIONS
    }

    fn prepare(&self, dir: &Path) -> anyhow::Result<Plan> {
        let socket = dir.join("s");
        let mut command = vec![PROGRAM.into()];
        command.extend(["--unixsocket".into(), socket.clone().into_os_string()]);
        command.extend(["--dir".into(), dir.as_os_str().to_owned()]);
        command.extend(OPTIONS.iter().map(Into::into));
        let run = *self;
        let driver = Box::new(move |meter: &Meter| run.drive(&socket, meter));
        Ok(Plan { command, driver: Some(driver), loading: Loading::Driven })
    }
}

impl Redis {
    #[cfg(test)]
    pub(super) const fn small(self) -> Self {
        Self { keys: 500, requests: 2000, ..self }
    }

    fn drive(self, socket: &Path, meter: &Meter) -> anyhow::Result<()> {
        let mut server = Connection::open(socket, meter, resp::answer)?;
        let mut rng = Rng::new(1);
        for key in shuffled(self.keys, &mut rng) {
            self.insert(&mut server, key, &mut rng)?;
        }
        server.settle()?;
        meter.loaded()?;
        let mut keys = Keys::new(self.law, self.keys, rng.fork());
        for _ in 0..self.requests {
            let key = keys.draw();
            let write = rng.unit_f64() < self.writes;
            self.ask(&mut server, key, write, &mut rng)?;
        }
        let mut end = Vec::new();
        resp::request(&mut end, &[b"SHUTDOWN", b"NOSAVE"]);
        server.last(&end)
    }

    fn insert(self, server: &mut Connection, key: u32, rng: &mut Rng) -> anyhow::Result<()> {
        if let Layout::String(_) = self.layout {
            return self.ask(server, key, true, rng);
        }
        let name = self.name(key);
        let names: [String; FIELDS] = std::array::from_fn(|nth| format!("field{nth}"));
        let values: [Vec<u8>; FIELDS] = std::array::from_fn(|_| letters(FIELD_BYTES, rng));
        let mut words: Vec<&[u8]> = vec![b"HMSET", name.as_bytes()];
        for (field, value) in names.iter().zip(&values) {
            words.extend([field.as_bytes(), value]);
        }
        server.request(|out| resp::request(out, &words))?;
        let score = (scrambled(key) as f64).to_string();
        let index: [&[u8]; 4] = [b"ZADD", b"_indices", score.as_bytes(), name.as_bytes()];
        server.request(|out| resp::request(out, &index))
    }

    fn ask(
        self,
        server: &mut Connection,
        key: u32,
        write: bool,
        rng: &mut Rng,
    ) -> anyhow::Result<()> {
        let name = self.name(key);
        let name = name.as_bytes();
        match (self.layout, write) {
            (Layout::String(_), false) => server.request(|out| resp::request(out, &[b"GET", name])),
            (Layout::String(bytes), true) => {
                let value = letters(bytes, rng);
                server.request(|out| resp::request(out, &[b"SET", name, &value]))
            }
            (Layout::Hash, false) => server.request(|out| resp::request(out, &[b"HGETALL", name])),
            (Layout::Hash, true) => {
                let field = format!("field{}", rng.below(FIELDS as u64));
                let value = letters(FIELD_BYTES, rng);
                let words: [&[u8]; 4] = [b"HMSET", name, field.as_bytes(), &value];
                server.request(|out| resp::request(out, &words))
            }
        }
    }

    fn name(self, key: u32) -> String {
        match self.layout {
            Layout::String(_) => format!("memtier-{key}"),
            Layout::Hash => format!("user{}", scrambled(key)),
        }
    }
}

/// The 64-bit FNV hash of a number's bytes, by which YCSB names its keys.
fn scrambled(key: u32) -> u64 {
    let bytes = u64::from(key).to_le_bytes();
    let hash = bytes.into_iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash & (u64::MAX >> 1)
}
