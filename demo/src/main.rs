//! A client of `redis-server` for the demonstration: fills it with keys, then asks for them as
//! popularity would have it.
//!
//! Which key comes next is decided by the synthetic workload `zipf`: each of its pages stands for
//! a key, each of its stores for a `SET`, everything else for a `GET`. The same numbers give the
//! same requests.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail, ensure};
use frostline_core::types::AccessKind;
use frostline_trace::{Batch, TraceSource};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: frostline-demo SOCKET load KEYS
       frostline-demo SOCKET drive KEYS REQUESTS [PER_SECOND]";

/// Requests sent before their replies are read.
const PIPELINE: usize = 64;
/// A server that does not answer for so long is taken for dead.
const TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("frostline-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (socket, requests, rate) = match args.as_slice() {
        [socket, "load", keys] => (socket, Requests::load(number(keys)?), None),
        [socket, "drive", keys, count, rest @ ..] if rest.len() <= 1 => {
            let requests = Requests::drive(number(keys)?, number(count)?)?;
            (socket, requests, rest.first().map(|rate| number(rate)).transpose()?)
        }
        _ => bail!("{USAGE}"),
    };
    let start = Instant::now();
    let done = Client::connect(socket)?.serve(requests, rate)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{done} requests in {seconds:.1} s: {:.0} per second", done as f64 / seconds);
    Ok(())
}

fn number(text: &str) -> Result<u32> {
    text.parse().ok().filter(|&n| n > 0).with_context(|| format!("'{text}' is no number\n{USAGE}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Get(u32),
    Set(u32),
}

/// The requests to make, in batches.
enum Requests {
    Load { next: u32, keys: u32 },
    Drive { source: Box<dyn TraceSource + Send>, batch: Box<Batch>, keys: u32 },
}

impl Requests {
    /// One `SET` for each key.
    fn load(keys: u32) -> Self {
        Self::Load { next: 0, keys }
    }

    /// `count` requests, 5 % of them `SET`, by Zipf's law with exponent 0.99.
    fn drive(keys: u32, count: u32) -> Result<Self> {
        let spec = format!("synth:zipf:pages={keys}:accesses={count}:init=off:writes=5%");
        Ok(Self::Drive {
            source: frostline_workloads::from_spec(&spec)?,
            batch: Box::new(Batch::new()),
            keys,
        })
    }

    /// Replaces `out` by the next requests; none where there are no more.
    fn next(&mut self, out: &mut Vec<Request>) -> Result<()> {
        out.clear();
        match self {
            Self::Load { next, keys } => {
                let end = next.saturating_add(256).min(*keys);
                out.extend((*next..end).map(Request::Set));
                *next = end;
            }
            Self::Drive { source, batch, keys } => {
                while out.is_empty() && source.next_batch(batch)? {
                    out.extend((0..batch.len()).map(|i| {
                        // As many pages as keys, one after the other: no two meet in one key.
                        let key = batch.pages[i] % *keys;
                        match batch.kind(i) {
                            AccessKind::Store => Request::Set(key),
                            _ => Request::Get(key),
                        }
                    }));
                }
            }
        }
        Ok(())
    }
}

struct Client {
    requests: BufWriter<UnixStream>,
    replies: BufReader<UnixStream>,
    value: Vec<u8>,
    answer: Vec<u8>,
}

impl Client {
    fn connect(socket: &str) -> Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("cannot connect to redis-server at {socket}"))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let requests = BufWriter::with_capacity(1 << 18, stream.try_clone()?);
        let replies = BufReader::new(stream);
        Ok(Self { requests, replies, value: Vec::new(), answer: Vec::new() })
    }

    /// Makes all requests, as fast as they are answered, or at most `rate` per second.
    fn serve(&mut self, mut requests: Requests, rate: Option<u32>) -> Result<u64> {
        let start = Instant::now();
        let mut done = 0u64;
        let mut group = Vec::new();
        loop {
            requests.next(&mut group)?;
            if group.is_empty() {
                return Ok(done);
            }
            for group in group.chunks(PIPELINE) {
                for &request in group {
                    self.send(request)?;
                }
                self.requests.flush()?;
                for &request in group {
                    self.receive(request)?;
                }
                done += group.len() as u64;
                if let Some(rate) = rate {
                    let due = Duration::from_secs_f64(done as f64 / f64::from(rate));
                    std::thread::sleep(due.saturating_sub(start.elapsed()));
                }
            }
        }
    }

    fn send(&mut self, request: Request) -> Result<()> {
        match request {
            Request::Get(key) => {
                write!(self.requests, "*2\r\n$3\r\nGET\r\n$15\r\nuser:{key:010}\r\n")?
            }
            Request::Set(key) => {
                let length = value_length(key);
                self.value.clear();
                write_value(key, length, &mut self.value);
                write!(self.requests, "*3\r\n$3\r\nSET\r\n$15\r\nuser:{key:010}\r\n${length}\r\n")?;
                self.requests.write_all(&self.value)?;
                self.requests.write_all(b"\r\n")?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, request: Request) -> Result<()> {
        let mut line = String::new();
        self.replies.read_line(&mut line).context("redis-server has stopped answering")?;
        match request {
            Request::Set(_) => ensure!(line == "+OK\r\n", "SET was answered by {line:?}"),
            Request::Get(key) => {
                let length = value_length(key);
                ensure!(line == format!("${length}\r\n"), "GET was answered by {line:?}");
                self.answer.resize(length + 2, 0);
                self.replies.read_exact(&mut self.answer)?;
                self.value.clear();
                write_value(key, length, &mut self.value);
                ensure!(self.answer[..length] == self.value, "the value of key {key} is damaged");
            }
        }
        Ok(())
    }
}

/// What records of users look like to a compressor: names of fields come again and again, their
/// contents do not.
const FIELDS: [&str; 8] =
    ["name", "street", "city", "visited", "balance", "language", "referrer", "comment"];

/// Fills `value` with a record of `length` bytes, always the same for a key.
fn write_value(key: u32, length: usize, value: &mut Vec<u8>) {
    let mut state = u64::from(key);
    let mut next = || {
        // Weyl sequence and a multiplication: enough to look random to a compressor.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (state ^ state >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    };
    while value.len() < length {
        for field in FIELDS {
            // Writing to memory does not fail.
            let _ = write!(value, "\"{field}\":\"{:x}\",", next() >> 36);
        }
    }
    value.truncate(length);
}

/// Between 256 and 1791 bytes, 1 KiB in the mean, always the same for a key.
fn value_length(key: u32) -> usize {
    let mixed = u64::from(key).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    256 + ((mixed >> 40) % 1536) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::os::unix::net::UnixListener;

    fn all(mut requests: Requests) -> Vec<Request> {
        let (mut all, mut some) = (Vec::new(), Vec::new());
        loop {
            requests.next(&mut some).expect("requests can be made");
            if some.is_empty() {
                return all;
            }
            all.append(&mut some);
        }
    }

    #[test]
    fn loading_sets_each_key_once() {
        let keys: Vec<Request> = (0..1000).map(Request::Set).collect();
        assert_eq!(all(Requests::load(1000)), keys);
    }

    #[test]
    fn driving_asks_for_popular_keys_and_is_always_the_same() {
        let requests = all(Requests::drive(1000, 20_000).expect("a valid workload"));
        assert_eq!(requests.len(), 20_000);
        let mut counts = HashMap::new();
        let mut sets = 0;
        for request in &requests {
            let (Request::Get(key) | Request::Set(key)) = request;
            *counts.entry(*key).or_insert(0) += 1;
            sets += usize::from(matches!(request, Request::Set(_)));
        }
        assert!(counts.keys().all(|&key| key < 1000));
        assert!((800..1200).contains(&sets), "{sets} are about 5 %");
        let most = counts.values().max().copied().unwrap_or(0);
        assert!(most > 2000, "the first of 1000 keys gets a tenth and more, not {most}");
        assert_eq!(requests, all(Requests::drive(1000, 20_000).expect("a valid workload")));
    }

    #[test]
    fn requests_and_replies_are_those_of_redis() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let length = value_length(0);
            let expected = format!("*3\r\n$3\r\nSET\r\n$15\r\nuser:0000000000\r\n${length}\r\n");
            let mut got = vec![0; expected.len() + length + 2];
            stream.read_exact(&mut got).expect("a whole request");
            stream.write_all(b"+OK\r\n").expect("a reply");
            (expected, got)
        });
        let mut client = Client::connect(path.to_str().expect("a plain path")).expect("a server");
        assert_eq!(client.serve(Requests::load(1), None).expect("an answer"), 1);
        let (expected, got) = server.join().expect("the server has answered");
        let mut value = Vec::new();
        write_value(0, value_length(0), &mut value);
        assert_eq!(got, [expected.as_bytes(), &value, b"\r\n"].concat());
    }
}
