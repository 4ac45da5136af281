//! A client of `redis-server` for the demonstration: fills it with keys, then asks for them as
//! popularity would have it.
//!
//! As in a cache, some keys are older than the others, have a time to live, and are hardly read any more. Which of the
//! others comes next is decided by the synthetic workload `zipf`: each of its pages stands for a key, each of its
//! stores for a `SET`, everything else for a `GET`. The same numbers give the same requests.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail, ensure};
use frostline_core::types::AccessKind;
use frostline_trace::{Batch, TraceSource};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: frostline-demo SOCKET load KEYS OLD_KEYS
       frostline-demo SOCKET drive KEYS OLD_KEYS REQUESTS [PER_SECOND]";

/// Requests sent before their replies are read.
const PIPELINE: usize = 64;
/// One request in so many is for an old key.
const STRAY: u64 = 2000;
/// Seconds that old keys have to live.
const LEFT: &str = "86400";
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
        [socket, "load", keys, old] => (socket, Requests::load(keys_of(keys, old)?), None),
        [socket, "drive", keys, old, count, rest @ ..] if rest.len() <= 1 => {
            let requests = Requests::drive(keys_of(keys, old)?, number(count)?)?;
            (socket, requests, rest.first().map(|rate| number(rate)).transpose()?)
        }
        _ => bail!("{USAGE}"),
    };
    let start = Instant::now();
    let mut times = Client::connect(socket)?.serve(requests, rate)?;
    let (done, seconds) = (times.requests, start.elapsed().as_secs_f64());
    let (median, slow) = (times.percentile(0.5), times.percentile(0.99));
    println!(
        "{done} requests in {seconds:.1} s: {:.0} per second; {PIPELINE} at a time take {median:.2?}, 99 % of them at most {slow:.2?}",
        done as f64 / seconds
    );
    Ok(())
}

/// Numbers of keys: those that are read, and those after them that are old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Keys {
    read: u32,
    old: u32,
}

fn keys_of(read: &str, old: &str) -> Result<Keys> {
    let old = if old == "0" { 0 } else { number(old)? };
    let keys = Keys { read: number(read)?, old };
    ensure!(keys.read.checked_add(keys.old).is_some(), "too many keys");
    Ok(keys)
}

/// How long the answers to each group of requests took.
#[derive(Debug, Default)]
struct Times {
    requests: u64,
    groups: Vec<Duration>,
}

impl Times {
    fn percentile(&mut self, part: f64) -> Duration {
        self.groups.sort_unstable();
        let last = self.groups.len().saturating_sub(1);
        self.groups.get((part * last as f64) as usize).copied().unwrap_or_default()
    }
}

fn number(text: &str) -> Result<u32> {
    text.parse().ok().filter(|&n| n > 0).with_context(|| format!("'{text}' is no number\n{USAGE}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Get(u32),
    Set(u32),
    /// With a time to live.
    SetOld(u32),
}

/// The requests to make, in batches.
enum Requests {
    /// Keys that were set already.
    Load { done: u32, keys: Keys },
    /// Requests that were made already.
    Drive { source: Box<dyn TraceSource + Send>, batch: Box<Batch>, keys: Keys, done: u64 },
}

impl Requests {
    /// One `SET` for each key, the old ones first.
    fn load(keys: Keys) -> Self {
        Self::Load { done: 0, keys }
    }

    /// `count` requests, 5 % of them `SET`, by Zipf's law with exponent 0.99; a few for old keys.
    fn drive(keys: Keys, count: u32) -> Result<Self> {
        let read = keys.read;
        let spec = format!("synth:zipf:pages={read}:accesses={count}:init=off:writes=5%");
        Ok(Self::Drive {
            source: frostline_workloads::from_spec(&spec)?,
            batch: Box::new(Batch::new()),
            keys,
            done: 0,
        })
    }

    /// Replaces `out` by the next requests; none where there are no more.
    fn next(&mut self, out: &mut Vec<Request>) -> Result<()> {
        out.clear();
        match self {
            Self::Load { done, keys } => {
                let end = done.saturating_add(256).min(keys.read + keys.old);
                out.extend((*done..end).map(|place| match place.checked_sub(keys.old) {
                    None => Request::SetOld(keys.read + place),
                    Some(key) => Request::Set(key),
                }));
                *done = end;
            }
            Self::Drive { source, batch, keys, done } => {
                while out.is_empty() && source.next_batch(batch)? {
                    out.extend((0..batch.len()).map(|i| {
                        // As many pages as keys, one after the other: no two meet in one key.
                        let key = batch.pages[i] % keys.read;
                        *done += 1;
                        if keys.old > 0 && done.is_multiple_of(STRAY) {
                            let place = (*done / STRAY).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
                            return Request::Get(keys.read + (place % u64::from(keys.old)) as u32);
                        }
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
    fn serve(&mut self, mut requests: Requests, rate: Option<u32>) -> Result<Times> {
        let start = Instant::now();
        let mut times = Times::default();
        let mut group = Vec::new();
        loop {
            requests.next(&mut group)?;
            if group.is_empty() {
                return Ok(times);
            }
            for group in group.chunks(PIPELINE) {
                let asked = Instant::now();
                for &request in group {
                    self.send(request)?;
                }
                self.requests.flush()?;
                for &request in group {
                    self.receive(request)?;
                }
                times.groups.push(asked.elapsed());
                times.requests += group.len() as u64;
                if let Some(rate) = rate {
                    let due = Duration::from_secs_f64(times.requests as f64 / f64::from(rate));
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
            Request::Set(key) | Request::SetOld(key) => {
                let length = value_length(key);
                self.value.clear();
                write_value(key, length, &mut self.value);
                let (words, left) = match request {
                    Request::SetOld(_) => (5, format!("$2\r\nEX\r\n${}\r\n{LEFT}\r\n", LEFT.len())),
                    _ => (3, String::new()),
                };
                write!(
                    self.requests,
                    "*{words}\r\n$3\r\nSET\r\n$15\r\nuser:{key:010}\r\n${length}\r\n"
                )?;
                self.requests.write_all(&self.value)?;
                write!(self.requests, "\r\n{left}")?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, request: Request) -> Result<()> {
        let mut line = String::new();
        self.replies.read_line(&mut line).context("redis-server has stopped answering")?;
        match request {
            Request::Set(_) | Request::SetOld(_) => {
                ensure!(line == "+OK\r\n", "SET was answered by {line:?}")
            }
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
        let old = (1000..1500).map(Request::SetOld);
        let keys: Vec<Request> = old.chain((0..1000).map(Request::Set)).collect();
        assert_eq!(all(Requests::load(Keys { read: 1000, old: 500 })), keys);
    }

    #[test]
    fn driving_asks_for_popular_keys_and_is_always_the_same() {
        let keys = Keys { read: 1000, old: 500 };
        let drive = || all(Requests::drive(keys, 20_000).expect("a valid workload"));
        let requests = drive();
        assert_eq!(requests.len(), 20_000);
        let mut counts = HashMap::new();
        let mut sets = 0;
        for request in &requests {
            let (Request::Get(key) | Request::Set(key) | Request::SetOld(key)) = request;
            *counts.entry(*key).or_insert(0) += 1;
            sets += usize::from(matches!(request, Request::Set(_)));
        }
        let old: u32 = counts.iter().filter(|(key, _)| **key >= 1000).map(|(_, count)| count).sum();
        assert!(old == 10 && counts.keys().all(|&key| key < 1500), "{old} are one in 2000");
        assert!((800..1200).contains(&sets), "{sets} are about 5 %");
        let most = counts.values().max().copied().unwrap_or(0);
        assert!(most > 2000, "the first of 1000 keys gets a tenth and more, not {most}");
        assert_eq!(requests, drive());
    }

    #[test]
    fn requests_and_replies_are_those_of_redis() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let length = value_length(0);
            let set = |words: u32, key: u32, length| {
                format!("*{words}\r\n$3\r\nSET\r\n$15\r\nuser:{key:010}\r\n${length}\r\n")
            };
            let (old, left) = (value_length(1), "$2\r\nEX\r\n$5\r\n86400\r\n");
            let parts = [set(5, 1, old), set(3, 0, length)];
            let ends = [format!("\r\n{left}"), "\r\n".into()];
            let mut expected = Vec::new();
            for (key, (part, end)) in [1, 0].into_iter().zip(parts.into_iter().zip(ends)) {
                expected.extend(part.bytes());
                let mut value = Vec::new();
                write_value(key, value_length(key), &mut value);
                expected.append(&mut value);
                expected.extend(end.bytes());
            }
            let mut got = vec![0; expected.len()];
            stream.read_exact(&mut got).expect("whole requests");
            stream.write_all(b"+OK\r\n+OK\r\n").expect("replies");
            (expected, got)
        });
        let mut client = Client::connect(path.to_str().expect("a plain path")).expect("a server");
        let loaded = client.serve(Requests::load(Keys { read: 1, old: 1 }), None);
        let mut times = loaded.expect("answers");
        assert_eq!((times.requests, times.groups.len()), (2, 1));
        assert!(times.percentile(0.99) > Duration::ZERO);
        let (expected, got) = server.join().expect("the server has answered");
        assert_eq!(got, expected);
    }
}
