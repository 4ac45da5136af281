//! A client of a `redis-server`, which it starts or finds: strings of 1 KB, popular ones more often
//! (YCSB-B).

use anyhow::{Context, ensure};
use frostline_core::rng::Rng;
use frostline_workloads::{ZipfLaw, ZipfRng};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Requests on the way at a time.
const PIPELINE: u64 = 32;
/// How long the server may take to listen.
const TIMEOUT: Duration = Duration::from_secs(60);
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
    /// Socket of a server that somebody else starts: it logs `ready` and `done`, too, and ends
    #[arg(long)]
    server: Option<PathBuf>,
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

    /// Has the server write a word into its log.
    fn log(&mut self, word: &str) -> anyhow::Result<()> {
        let script = format!("redis.log(redis.LOG_WARNING, '{word}') return 1");
        let words = ["EVAL", &script, "0"];
        let request = words.map(|word| format!("${}\r\n{word}\r\n", word.len())).concat();
        write!(self.stream.get_mut(), "*3\r\n{request}")?;
        self.line.clear();
        self.stream.read_line(&mut self.line)?;
        ensure!(self.line == ":1\r\n", "redis-server says {:?}", self.line);
        Ok(())
    }

    /// Ends the server.
    fn shut_down(&mut self) -> anyhow::Result<()> {
        self.stream.get_mut().write_all(b"*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n")?;
        self.line.clear();
        self.stream.read_line(&mut self.line)?;
        ensure!(self.line.is_empty(), "redis-server says {:?}", self.line);
        Ok(())
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

fn start(socket: &Path) -> anyhow::Result<Server> {
    let child = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
        .arg(socket)
        .stdout(Stdio::null())
        .spawn()
        .context("redis-server")?;
    Ok(Server(child))
}

fn connect(socket: &Path, mut server: Option<&mut Server>) -> anyhow::Result<UnixStream> {
    let begun = Instant::now();
    loop {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Ok(stream);
        }
        if let Some(server) = &mut server {
            ensure!(server.0.try_wait()?.is_none(), "redis-server has ended");
        }
        ensure!(begun.elapsed() < TIMEOUT, "redis-server does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let own = folder.path().join("socket");
    let mut server = match options.server {
        Some(_) => None,
        None => Some(start(&own)?),
    };
    let socket = options.server.as_deref().unwrap_or(&own);
    let stream = connect(socket, server.as_mut())?;
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
    if server.is_none() {
        client.log("ready")?;
    }
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
    if server.is_none() {
        client.log("done")?;
        client.shut_down()?;
    }
    println!("answered {}", options.requests);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_testing::{Requirement, skip};

    #[test]
    fn requests_are_answered() {
        if Command::new("redis-server").arg("--version").output().is_err() {
            return skip(Requirement::Programs, "no redis-server");
        }
        let options =
            Options { keys: 100, bytes: 50, skew: 0.9, requests: 500, seed: 3, server: None };
        run(&options).expect("all are answered");
    }

    #[test]
    fn a_server_of_somebody_elses_logs_when_the_work_begins_and_ends() {
        if Command::new("redis-server").arg("--version").output().is_err() {
            return skip(Requirement::Programs, "no redis-server");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (socket, log) = (folder.path().join("socket"), folder.path().join("log"));
        let server = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .stdout(std::fs::File::create(&log).expect("a file"))
            .spawn();
        let mut server = Server(server.expect("it starts"));
        let server_of = Some(socket);
        let options =
            Options { keys: 100, bytes: 50, skew: 0.9, requests: 500, seed: 3, server: server_of };
        run(&options).expect("all are answered");
        assert!(server.0.wait().expect("it ends").success());
        let log = std::fs::read_to_string(&log).expect("its log");
        let [ready, done] = ["ready\n", "done\n"].map(|line| log.find(line).expect("logged"));
        assert!(ready < done);
    }
}
