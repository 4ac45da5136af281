//! Servers of keys and values.

use super::work::{Owned, Work, pinned};
use crate::validate::programs::connection::Connection;
use crate::validate::programs::laws::{Keys, Law, shuffled};
use crate::validate::programs::{memcached, resp};
use anyhow::bail;
use frostline_core::rng::Rng;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const KEYS: u32 = 300_000;
const VALUE_BYTES: usize = 1024;
/// Part of the keys that nearly all requests go to; the others wait for their time to live to end, as in a cache. They
/// are older, so that the server has put them together.
const LIVE: f64 = 0.6;
/// Part of the requests that go to any key.
const STRAY: f64 = 5e-4;
/// Share of the requests that write.
const WRITES: f64 = 0.05;
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with its client.
#[derive(Debug)]
pub struct Server {
    child: Owned,
    connection: Connection,
    put: fn(&mut Vec<u8>, &str, Option<&[u8]>),
    keys: Option<Keys>,
    rng: Rng,
}

/// With live keys by Zipf's law of that exponent and the rest hardly read, or with all keys alike.
pub fn redis(dir: &Path, skew: Option<f64>) -> anyhow::Result<Server> {
    let socket = dir.join("s");
    let mut command = pinned("redis-server");
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]);
    let child = Owned::start(command.arg(&socket).arg("--dir").arg(dir), dir)?;
    let put = |out: &mut Vec<u8>, name: &str, value: Option<&[u8]>| match value {
        Some(value) => resp::request(out, &[b"SET", name.as_bytes(), value]),
        None => resp::request(out, &[b"GET", name.as_bytes()]),
    };
    Server {
        child,
        connection: Connection::over(connect(&socket)?, resp::answer)?,
        put,
        keys: None,
        rng: Rng::new(1),
    }
    .loaded(skew)
}

pub fn memcached(dir: &Path) -> anyhow::Result<Server> {
    let socket = dir.join("s");
    let mut command = pinned("memcached");
    command.arg("-s").arg(&socket).args(["-u", "root", "-m", "1024", "-t", "1"]);
    // As one that has run for long: it reads all items after a minute, and later once in an hour; and where its table
    // grows with its items, old ones come to stand before live ones that hash alike, and are read with them.
    command.args(["-o", "no_lru_crawler,hashpower=20"]);
    let child = Owned::start(&mut command, dir)?;
    let put = |out: &mut Vec<u8>, name: &str, value: Option<&[u8]>| match value {
        Some(value) => {
            out.extend(format!("set {name} 0 0 {}\r\n", value.len()).bytes());
            out.extend_from_slice(value);
            out.extend(b"\r\n");
        }
        None => out.extend(format!("get {name}\r\n").bytes()),
    };
    let connection = Connection::over(connect(&socket)?, memcached::answer)?;
    Server { child, connection, put, keys: None, rng: Rng::new(1) }.loaded(Some(0.99))
}

fn connect(socket: &Path) -> anyhow::Result<UnixStream> {
    let began = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if began.elapsed() > PATIENCE => bail!("no connection: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

impl Server {
    fn loaded(mut self, skew: Option<f64>) -> anyhow::Result<Self> {
        let live = if skew.is_some() { (LIVE * f64::from(KEYS)) as u32 } else { KEYS };
        for keys in [live..KEYS, 0..live] {
            for offset in shuffled(keys.len() as u32, &mut self.rng) {
                self.request(keys.start + offset, true)?;
            }
        }
        self.connection.settle()?;
        let rng = self.rng.fork();
        self.keys = skew.map(|skew| Keys::new(Law::Zipf(skew), live, rng));
        Ok(self)
    }

    fn request(&mut self, key: u32, write: bool) -> anyhow::Result<()> {
        let name = format!("user:{key:08}");
        let value = write.then(|| record(&mut self.rng));
        let put = self.put;
        self.connection.request(|out| put(out, &name, value.as_deref()))
    }
}

impl Work for Server {
    fn pid(&self) -> u32 {
        self.child.0.id()
    }

    fn work(&mut self, units: u64) -> anyhow::Result<()> {
        for _ in 0..units {
            let stray = self.rng.unit_f64() < STRAY;
            let key = match &mut self.keys {
                Some(keys) if !stray => keys.draw(),
                _ => self.rng.below(u64::from(KEYS)) as u32,
            };
            let write = self.rng.unit_f64() < WRITES;
            self.request(key, write)?;
        }
        self.connection.settle()
    }
}

/// A value as compressible as records are: the same names of fields, and other numbers.
fn record(rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::with_capacity(VALUE_BYTES + 64);
    while text.len() < VALUE_BYTES {
        // Writing to memory does not fail.
        let _ = write!(
            text,
            "visited={:07x};article={:05x};seconds={:04};",
            rng.below(1 << 28),
            rng.below(1 << 20),
            rng.below(9999)
        );
    }
    text.truncate(VALUE_BYTES);
    text
}
