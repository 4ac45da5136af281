//! memcached under the requests of Facebook's ETC pool.

use super::connection::Connection;
use super::laws::{Keys, Law, letters, shuffled};
use super::recipe::{Loading, Plan, Recipe, missing_program, version_of};
use super::run::Meter;
use anyhow::{Context, bail};
use frostline_core::rng::Rng;
use std::io::{BufRead, Read};
use std::path::Path;

const PROGRAM: &str = "memcached";

/// A run: every key is set once, in an order unlike its popularity; then come requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memcached {
    keys: u32,
    law: Law,
    /// Share of the requests that write, each with a new size of the value.
    writes: f64,
    requests: u32,
}

/// Atikoglu et al., SIGMETRICS 2012; the skew is YCSB's, as in the generator.
pub(super) const ETC: Memcached =
    Memcached { keys: 130_000, law: Law::Zipf(0.99), writes: 1.0 / 31.0, requests: 1_000_000 };

/// Values are cut from this; memcached takes 1 MiB for an item at most.
const MOST_BYTES: usize = 500 << 10;

impl Recipe for Memcached {
    fn missing(&self) -> Option<String> {
        missing_program(PROGRAM, PROGRAM)
    }

    fn version(&self) -> anyhow::Result<String> {
        version_of(&[PROGRAM, "--version"])
    }

    fn prepare(&self, dir: &Path) -> anyhow::Result<Plan> {
        let socket = dir.join("s");
        // With -A a client may end it. -u is for those who are root.
        let mut command = vec![PROGRAM.into(), "-s".into(), socket.clone().into_os_string()];
        command.extend(["-u", "root", "-m", "1024", "-t", "1", "-A"].map(Into::into));
        let run = *self;
        let driver = Box::new(move |meter: &Meter| run.drive(&socket, meter));
        Ok(Plan { command, driver: Some(driver), loading: Loading::Driven })
    }
}

impl Memcached {
    #[cfg(test)]
    pub(super) const fn small(self) -> Self {
        Self { keys: 1000, requests: 2000, ..self }
    }

    fn drive(self, socket: &Path, meter: &Meter) -> anyhow::Result<()> {
        let mut server = Connection::open(socket, meter, answer)?;
        let mut rng = Rng::new(1);
        let values = letters(MOST_BYTES, &mut rng);
        let names: Vec<String> = (0..self.keys).map(|key| name(key, &mut rng)).collect();
        for key in shuffled(self.keys, &mut rng) {
            set(&mut server, &names[key as usize], &values[..value_bytes(&mut rng)])?;
        }
        server.settle()?;
        meter.loaded()?;
        let mut keys = Keys::new(self.law, self.keys, rng.fork());
        for _ in 0..self.requests {
            let name = &names[keys.draw() as usize];
            if rng.unit_f64() < self.writes {
                set(&mut server, name, &values[..value_bytes(&mut rng)])?;
            } else {
                server.request(|out| out.extend(format!("get {name}\r\n").bytes()))?;
            }
        }
        server.last(b"shutdown\r\n")
    }
}

fn set(server: &mut Connection, name: &str, value: &[u8]) -> anyhow::Result<()> {
    server.request(|out| {
        out.extend(format!("set {name} 0 0 {}\r\n", value.len()).bytes());
        out.extend_from_slice(value);
        out.extend(b"\r\n");
    })
}

/// A key of its own: its number, and what is missing to the length that is due.
fn name(key: u32, rng: &mut Rng) -> String {
    let shape = 0.0787;
    let due = 30.80 + 8.20 / shape * ((-(1.0 - rng.unit_f64()).ln()).powf(-shape) - 1.0);
    format!("{key:0>width$}", width = due.clamp(1.0, 250.0) as usize)
}

fn value_bytes(rng: &mut Rng) -> usize {
    let shape = 0.348;
    let bytes = 214.48 / shape * ((1.0 - rng.unit_f64()).powf(-shape) - 1.0);
    (bytes as usize).min(MOST_BYTES)
}

/// Reads the answer to a `set` or a `get`.
pub fn answer(from: &mut impl BufRead) -> anyhow::Result<()> {
    loop {
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        let text = std::str::from_utf8(&line).ok().and_then(|line| line.strip_suffix("\r\n"));
        let text = text.context("the server went away, or speaks another language")?;
        let mut words = text.split(' ');
        match words.next() {
            Some("STORED" | "END") => return Ok(()),
            Some("VALUE") => {
                let bytes = words.nth(2).and_then(|bytes| bytes.parse::<u64>().ok());
                let bytes = bytes.with_context(|| format!("no length: {text}"))? + 2;
                let skipped = std::io::copy(&mut from.take(bytes), &mut std::io::sink())?;
                if skipped < bytes {
                    bail!("the server went away");
                }
            }
            _ => bail!("the server refuses: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_is_read_and_no_more() {
        for good in ["STORED\r\n", "END\r\n", "VALUE k 0 4\r\na\r\nb\r\nEND\r\n"] {
            let text = format!("{good}next");
            let mut left = text.as_bytes();
            answer(&mut left).expect(good);
            assert_eq!(left, b"next", "{good}");
        }
        for bad in ["", "SERVER_ERROR out of memory\r\n", "VALUE k 0 9\r\na", "VALUE k\r\n"] {
            assert!(answer(&mut bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_pool() {
        let mut rng = Rng::new(1);
        let mut names: Vec<String> = (0..100_000).map(|key| name(key, &mut rng)).collect();
        let mut bytes: Vec<usize> = (0..100_000).map(|_| value_bytes(&mut rng)).collect();
        bytes.sort_unstable();
        // Medians: 30.80 + 8.20 / 0.0787 * (ln 2 ^ -0.0787 - 1) and 214.48 / 0.348 * (2 ^ 0.348 - 1).
        assert!((163..=171).contains(&bytes[50_000]), "{}", bytes[50_000]);
        let mut lengths: Vec<usize> = names.iter().map(String::len).collect();
        lengths.sort_unstable();
        assert!((33..=34).contains(&lengths[50_000]), "{}", lengths[50_000]);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 100_000, "no key twice");
    }
}
