//! A page for programs on this machine, by HTTP/1.1: `GET /metrics`.

use frostline_serve::http::{self, Answer, Listener, Peer, Site};
use frostline_terminal::errors::ResultExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A page is rendered anew after this time: asking more often costs nothing.
const FRESH: Duration = Duration::from_millis(500);
const PLAIN: &str = "text/plain; charset=utf-8";

/// Serves until it is dropped.
pub struct Server {
    address: SocketAddr,
    _server: http::Server,
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
        let (listener, address) = Listener::tcp(address).or_hint(
            format!("cannot listen on {address}"),
            "choose another port for metrics.listen; ss -ltnp tells who has it",
        )?;
        let page = move || Metrics(RefCell::new(Snapshot { render: page, last: None }));
        Ok(Self { address, _server: http::Server::start(listener, "metrics", page)? })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The page as it was a moment ago.
struct Snapshot<R> {
    render: R,
    last: Option<(Instant, Bytes)>,
}

impl<R: Fn() -> String> Snapshot<R> {
    fn page(&mut self) -> Bytes {
        match &self.last {
            Some((time, page)) if time.elapsed() < FRESH => page.clone(),
            _ => {
                let page = Bytes::from((self.render)());
                self.last = Some((Instant::now(), page.clone()));
                page
            }
        }
    }
}

struct Metrics<R>(RefCell<Snapshot<R>>);

impl<R: Fn() -> String + 'static> Site for Metrics<R> {
    fn answer(&self, request: &Request<Incoming>, _: Peer) -> Answer {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let (status, kind, body) = match request.uri().path() {
            _ if !is_read => {
                (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "there is only GET, and HEAD\n".into())
            }
            "/metrics" => (StatusCode::OK, super::CONTENT_TYPE, self.0.borrow_mut().page()),
            _ => (StatusCode::NOT_FOUND, PLAIN, "there is only /metrics\n".into()),
        };
        let mut answer = Answer::whole(status, body);
        let headers = answer.response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_serve::http::{MOST, REQUEST};
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Shutdown, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::thread;

    /// Longer than any answer takes.
    const LONG: Duration = Duration::from_secs(15);

    fn connect(server: &Server) -> TcpStream {
        let stream = TcpStream::connect_timeout(&server.address(), LONG).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    fn ask(server: &Server, request: &[u8]) -> String {
        let mut stream = connect(server);
        stream.write_all(request).unwrap();
        let mut text = String::new();
        // Without an answer in time, what has come is not one.
        let _ = stream.read_to_string(&mut text);
        text
    }

    const SCRAPE: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

    fn is_open(mut stream: &TcpStream) -> bool {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    #[test]
    fn one_page_and_nothing_else() {
        let server = Server::start("127.0.0.1:0", || "numbers\n".into()).unwrap();
        let text = ask(&server, SCRAPE);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains(&format!("Content-Type: {}\r\n", super::super::CONTENT_TYPE)));
        assert!(text.contains("Content-Length: 8\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nnumbers\n"), "{text}");
        let head = ask(&server, b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert_eq!(head, text.replace("numbers\n", ""), "the same without the page");
        assert!(ask(&server, b"GET /metrics?x HTTP/1.0\r\n\r\n").contains("numbers"));
        let missing = ask(&server, b"GET / HTTP/1.1\r\n\r\n");
        assert!(missing.starts_with("HTTP/1.1 404 Not Found\r\n"), "{missing}");
        assert!(missing.ends_with("\r\n\r\nthere is only /metrics\n"), "{missing}");
        assert!(ask(&server, b"HEAD / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        let other = ask(&server, b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\nsomething");
        assert!(other.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{other}");
        assert!(other.contains("\r\nAllow: GET, HEAD\r\n"), "{other}");
        for odd in [&b"\xff\r\n\r\n"[..], b"GET /metrics\r\n\r\n", b"GET / SSH-2.0\r\n\r\n"] {
            let text = ask(&server, odd);
            assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
        }
        assert_eq!(ask(&server, b"\r\n\r\n"), "", "empty lines come before a request");
        assert!(ask(&server, &[b'x'; REQUEST + 1]).starts_with("HTTP/1.1 431 "));
        let lines = "a: b\r\n".repeat(REQUEST / 6);
        let many = format!("GET /metrics HTTP/1.1\r\n{lines}\r\n");
        assert!(ask(&server, many.as_bytes()).starts_with("HTTP/1.1 431 "));
        let address = server.address();
        drop(server);
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }

    #[test]
    fn a_request_may_come_in_pieces() {
        let server = Server::start("127.0.0.1:0", || "numbers\n".into()).unwrap();
        let mut stream = connect(&server);
        for byte in SCRAPE.chunks(1) {
            stream.write_all(byte).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("numbers\n"), "{text}");
    }

    #[test]
    fn silent_and_slow_connections_keep_nobody_waiting() {
        let server = Server::start("127.0.0.1:0", || "numbers\n".into()).unwrap();
        let began = Instant::now();
        let come = |_| {
            assert!(began.elapsed() < LONG, "nobody is let in any more");
            connect(&server)
        };
        let silent: Vec<TcpStream> = (0..200).map(come).collect();
        let (ended, dripped) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut slow: Vec<TcpStream> = (0..50).map(|_| connect(&server)).collect();
                for byte in SCRAPE.iter().cycle() {
                    if ended.load(Ordering::Relaxed) {
                        return;
                    }
                    for stream in &mut slow {
                        match stream.write_all(&[*byte]) {
                            Ok(()) => dripped.fetch_add(1, Ordering::Relaxed),
                            Err(_) => {
                                *stream = connect(&server);
                                0
                            }
                        };
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            });
            for scrape in 0..30 {
                let text = ask(&server, SCRAPE);
                if !text.ends_with("numbers\n") {
                    ended.store(true, Ordering::Relaxed);
                    panic!("scrape {scrape} is not answered: '{text}'");
                }
                thread::sleep(Duration::from_millis(10));
            }
            ended.store(true, Ordering::Relaxed);
        });
        assert!(dripped.load(Ordering::Relaxed) > 50, "there were slow ones");
        let open = silent.iter().filter(|stream| is_open(stream)).count();
        assert!(open <= MOST, "{open} connections at a time");
        for mut stream in silent {
            stream.set_nonblocking(false).unwrap();
            // By a reset, where it was closed with something unread.
            let closed = stream.read(&mut [0]).or_else(|error| match error.kind() {
                ErrorKind::ConnectionReset => Ok(0),
                _ => Err(error),
            });
            assert_eq!(closed.expect("closed in time"), 0);
        }
    }

    #[test]
    fn who_does_not_read_the_answer_keeps_nobody_waiting() {
        let page = "n\n".repeat(4 << 20);
        let whole = page.len();
        let server = Server::start("127.0.0.1:0", move || page.clone()).unwrap();
        let deaf: Vec<TcpStream> = (0..40).map(|_| connect(&server)).collect();
        deaf.iter().for_each(|mut stream| stream.write_all(SCRAPE).unwrap());
        for _ in 0..3 {
            assert!(ask(&server, SCRAPE).len() > whole);
        }
        // Nor does one who has asked, and is not done with sending.
        let mut talks = connect(&server);
        talks.write_all(b"GET / HTTP/1.1\r\n\r\nand so on").unwrap();
        let mut text = String::new();
        talks.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 404 "), "{text}");
        talks.shutdown(Shutdown::Write).unwrap();
    }

    #[test]
    fn asking_often_renders_seldom() {
        let rendered = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&rendered);
        let page = move || format!("{}\n", count.fetch_add(1, Ordering::Relaxed));
        let server = Server::start("127.0.0.1:0", page).unwrap();
        let began = Instant::now();
        (0..100).for_each(|_| assert!(ask(&server, SCRAPE).starts_with("HTTP/1.1 200 ")));
        let most = 1 + began.elapsed().as_millis() / FRESH.as_millis();
        assert!(u128::from(rendered.load(Ordering::Relaxed)) <= most);
        thread::sleep(FRESH);
        let before = rendered.load(Ordering::Relaxed);
        assert!(ask(&server, SCRAPE).ends_with(&format!("\r\n\r\n{before}\n")), "a new one");
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let server = Server::start("127.0.0.1:0", String::new).unwrap();
        let address = server.address().to_string();
        let error = Server::start(&address, String::new).err().expect("it is taken");
        assert!(error.to_string().contains(&address), "{error:#}");
    }
}
