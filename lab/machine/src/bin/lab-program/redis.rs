//! A client of a `redis-server` that it starts: strings of 1 KB, popular ones more often (YCSB-B).

use anyhow::{Context, ensure};
use frostline_core::rng::Rng;
use frostline_trace::synth::{ZipfLaw, ZipfRng};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Requests on the way at a time.
const PIPELINE: u64 = 32;
/// How long the server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);
/// One request in so many writes.
const WRITES: u64 = 20;

#[derive(clap::Args)]
pub struct Options {
    /// Strings
    #[arg(long, default_value_t = 150_000)]
    keys: u32,
    /// Bytes of each
    #[arg(long, default_value_t = 1000)]
    bytes: usize,
    /// Skew of popularity
    #[arg(long, default_value_t = 0.99)]
    skew: f64,
    /// Requests, of which one in 20 writes
    #[arg(long, default_value_t = 600_000)]
    requests: u64,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Ends the server, whatever happened.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only where it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Client {
    stream: BufReader<UnixStream>,
    request: Vec<u8>,
    value: Vec<u8>,
    /// Which requests on the way read.
    reads: Vec<bool>,
    line: String,
}

impl Client {
    fn new(stream: UnixStream, bytes: usize) -> Self {
        let (request, reads) = (Vec::new(), Vec::new());
        Self {
            stream: BufReader::new(stream),
            request,
            value: vec![b'v'; bytes],
            reads,
            line: String::new(),
        }
    }

    fn get(&mut self, key: u64) {
        self.request.extend(format!("*2\r\n$3\r\nGET\r\n$12\r\n{key:012}\r\n").bytes());
        self.reads.push(true);
    }

    fn set(&mut self, key: u64) {
        let head = format!("*3\r\n$3\r\nSET\r\n$12\r\n{key:012}\r\n${}\r\n", self.value.len());
        self.request.extend(head.bytes());
        self.request.extend(&self.value);
        self.request.extend(b"\r\n");
        self.reads.push(false);
    }

    /// Sends what was collected and waits for all answers.
    fn flush(&mut self) -> anyhow::Result<()> {
        self.stream.get_mut().write_all(&self.request)?;
        self.request.clear();
        for reads in std::mem::take(&mut self.reads) {
            self.line.clear();
            self.stream.read_line(&mut self.line)?;
            if !reads {
                ensure!(self.line == "+OK\r\n", "redis-server says {:?}", self.line);
                continue;
            }
            let length = self.line.trim_end().strip_prefix('$').and_then(|text| text.parse().ok());
            ensure!(length == Some(self.value.len()), "redis-server says {:?}", self.line);
            let mut value = vec![0; self.value.len() + 2];
            self.stream.read_exact(&mut value)?;
            ensure!(value.starts_with(&self.value), "redis-server returned another value");
        }
        Ok(())
    }
}

fn start(socket: &str) -> anyhow::Result<(Server, UnixStream)> {
    let child = Command::new("redis-server")
        .args(["--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"])
        .stdout(Stdio::null())
        .spawn()
        .context("redis-server")?;
    let mut server = Server(child);
    let begun = Instant::now();
    loop {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Ok((server, stream));
        }
        let ended = server.0.try_wait()?;
        ensure!(ended.is_none(), "redis-server has ended");
        ensure!(begun.elapsed() < PATIENCE, "redis-server does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let socket = format!("/tmp/redis-{}.sock", std::process::id());
    let (_server, stream) = start(&socket)?;
    let mut client = Client::new(stream, options.bytes);
    let keys = u64::from(options.keys.max(1));
    let mut rng = Rng::new(options.seed);
    let mut order: Vec<u32> = (0..options.keys.max(1)).collect();
    rng.shuffle(&mut order);
    for batch in order.chunks(PIPELINE as usize) {
        batch.iter().for_each(|key| client.set(u64::from(*key)));
        client.flush()?;
    }
    drop(order);
    let law = ZipfLaw::new(options.keys.max(1), options.skew);
    let mut rng = ZipfRng::new(&mut rng);
    eprintln!("ready");
    for request in 0..options.requests {
        let key = u64::from(law.draw(&mut rng)).wrapping_mul(0x9e37_79b9) % keys;
        if request % WRITES == 0 {
            client.set(key)
        } else {
            client.get(key)
        }
        if request % PIPELINE == PIPELINE - 1 {
            client.flush()?;
        }
    }
    client.flush()?;
    eprintln!("done");
    println!("answered {}", options.requests);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered() {
        if Command::new("redis-server").arg("--version").output().is_err() {
            return eprintln!("skipped: no redis-server");
        }
        let options = Options { keys: 100, bytes: 50, skew: 0.9, requests: 500, seed: 3 };
        run(&options).expect("all are answered");
    }
}
