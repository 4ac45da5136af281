//! A page for programs on this machine, by HTTP/1.0: `GET /metrics`, one request at a time.

use crate::errors::ResultExt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Longest request, in bytes.
const REQUEST: usize = 8192;
/// Longest time for one request, and for one answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Serves until it is dropped.
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `address`, an address and a port; port 0 takes any that is free.
    ///
    /// # Errors
    /// Where that address is taken or not of this machine.
    pub fn start(
        address: &str,
        page: impl Fn() -> String + Send + 'static,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).or_hint(
            format!("cannot listen on {address}"),
            "choose another port for metrics.listen; ss -ltnp tells who has it",
        )?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let serve = move || {
            for stream in listener.incoming() {
                if asked.load(Ordering::Relaxed) {
                    return;
                }
                match stream {
                    // A reader that goes away, or is slow, gets nothing.
                    Ok(stream) => drop(answer(stream, &page)),
                    // Out of file descriptors, for instance: it may pass.
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        };
        let thread = thread::Builder::new().name("metrics".into()).spawn(serve)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it up. Where nobody can connect any more, it cannot be waited for either.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, page: &dyn Fn() -> String) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, body) = match read_request(&mut stream)? {
        None => ("431 Request Header Fields Too Large", String::new()),
        Some(line) => match line.split(' ').collect::<Vec<_>>()[..] {
            ["GET", path, _] if path.split('?').next() == Some("/metrics") => ("200 OK", page()),
            ["GET", ..] => ("404 Not Found", "there is only /metrics\n".into()),
            _ => ("405 Method Not Allowed", String::new()),
        },
    };
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// The first line of a request, read up to the empty line; `None` where that is too far away.
fn read_request(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        if bytes.len() > REQUEST {
            return Ok(None);
        }
        let left = until.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    }
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(line).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(server: &Server, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        // It may answer, and close, before it has read everything.
        let _ = stream.write_all(request);
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn one_page_and_nothing_else() {
        let server = Server::start("127.0.0.1:0", || "numbers\n".into()).unwrap();
        let text = ask(&server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.starts_with("HTTP/1.0 200 OK\r\n"), "{text}");
        assert!(text.contains("version=0.0.4") && text.contains("Content-Length: 8\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nnumbers\n"), "{text}");
        assert!(ask(&server, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 404 "));
        assert!(ask(&server, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 405 "));
        assert!(ask(&server, b"\xff\r\n\r\n").starts_with("HTTP/1.0 405 "));
        // As long as is read: an answer would be lost with what is left unread.
        let long = [b'x'; REQUEST + 1024];
        assert!(ask(&server, &long[..REQUEST + 1024]).starts_with("HTTP/1.0 431 "));
        drop(TcpStream::connect(server.address()).unwrap());
        assert!(ask(&server, b"GET /metrics?x HTTP/1.0\r\n\r\n").contains("numbers"));
        let address = server.address();
        drop(server);
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let server = Server::start("127.0.0.1:0", String::new).unwrap();
        let address = server.address().to_string();
        let error = Server::start(&address, String::new).err().expect("it is taken");
        assert!(error.to_string().contains(&address), "{error:#}");
    }
}
