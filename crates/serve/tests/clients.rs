//! Clients of all kinds: what each of them gets.

use frostline_linux::Root;
use frostline_serve::http::{Listener, Server};
use frostline_serve::{Access, Control, Page};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than any answer takes.
const LONG: Duration = Duration::from_secs(15);

struct Served {
    _server: Server,
    address: SocketAddr,
    urls: Receiver<String>,
    _root: tempfile::TempDir,
}

fn serve() -> Served {
    serve_with(None)
}

fn serve_with(control: Option<Control>) -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("proc")).expect("a folder");
    std::fs::write(folder.path().join("proc/meminfo"), "MemTotal: 8 kB\n").expect("a file");
    let root = Root::at(folder.path());
    let (listener, address) = Listener::tcp("127.0.0.1:0").expect("a port");
    let (print, urls) = channel();
    let print = move |url: &str| drop(print.send(url.to_owned()));
    let access = Access::of_port(address, print).expect("random numbers");
    let page = move || Page::new(root, access, None, control);
    let server = Server::start(listener, "page", page).expect("a thread");
    Served { _server: server, address, urls, _root: folder }
}

impl Served {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address, LONG).expect("a connection");
        stream.set_read_timeout(Some(LONG)).expect("a time");
        stream
    }

    fn ask(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        // One that is refused early may be closed before all of it is sent.
        let _ = stream.write_all(request.as_ref());
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn get(&self, path: &str, headers: &str) -> String {
        let host = self.address;
        self.ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n"))
    }

    /// Enters, and gives the cookie's header.
    fn enter(&self) -> String {
        let url = self.urls.recv_timeout(LONG).expect("an address");
        let path = url.split_once(&self.address.to_string()).expect("of this server").1.to_owned();
        let text = self.get(&path, "");
        assert!(text.starts_with("HTTP/1.1 303 "), "{text}");
        let cookie = text.lines().find_map(|line| line.strip_prefix("Set-Cookie: "));
        let cookie = cookie.and_then(|line| line.split(';').next()).expect("a cookie");
        format!("Cookie: {cookie}\r\n")
    }
}

fn code(text: &str) -> &str {
    text.split(' ').nth(1).unwrap_or("nothing")
}

#[test]
fn hostile_requests_are_refused() {
    let served = serve();
    let cookie = served.enter();
    let host = served.address;
    let long = "x".repeat(9000);
    let request = |line: &str, headers: &str| format!("{line}\r\n{headers}\r\n");
    let own = format!("Host: {host}\r\n");
    let known = format!("{own}{cookie}");
    let cases: Vec<(&str, String, &[&str])> = vec![
        ("nobody known", request("GET / HTTP/1.1", &own), &["401"]),
        (
            "a wrong cookie",
            request("GET / HTTP/1.1", &format!("{own}Cookie: frostline=x\r\n")),
            &["401"],
        ),
        ("a wrong token", request("GET /?token=00 HTTP/1.1", &own), &["401"]),
        ("an empty token", request("GET /?token= HTTP/1.1", &own), &["401"]),
        (
            "another host",
            request("GET / HTTP/1.1", &format!("Host: evil.example\r\n{cookie}")),
            &["421"],
        ),
        ("no host", request("GET / HTTP/1.1", &cookie), &["421"]),
        (
            "another port",
            request("GET / HTTP/1.1", &format!("Host: 127.0.0.1:1\r\n{cookie}")),
            &["421"],
        ),
        (
            "another site",
            request("GET /api/events HTTP/1.1", &format!("{known}Sec-Fetch-Site: cross-site\r\n")),
            &["403"],
        ),
        ("a post", request("POST / HTTP/1.1", &format!("{known}Content-Length: 0\r\n")), &["405"]),
        ("a deletion", request("DELETE /api/history HTTP/1.1", &known), &["405"]),
        ("options", request("OPTIONS / HTTP/1.1", &known), &["405"]),
        ("a way out", request("GET /../../etc/passwd HTTP/1.1", &known), &["404"]),
        ("a way out in code", request("GET /%2e%2e/etc/passwd HTTP/1.1", &known), &["404"]),
        ("no such target", request("GET /api/history?target=1 HTTP/1.1", &known), &["404"]),
        ("no target", request("GET /api/history HTTP/1.1", &known), &["404"]),
        ("a long path", request(&format!("GET /{long} HTTP/1.1"), &known), &["414", "431"]),
        ("a long header", request("GET / HTTP/1.1", &format!("{known}X: {long}\r\n")), &["431"]),
        (
            "many headers",
            request("GET / HTTP/1.1", &format!("{known}{}", "a: b\r\n".repeat(500))),
            &["431"],
        ),
        ("no HTTP", "\u{1}\u{2}\u{3}\r\n\r\n".to_owned(), &["400"]),
        (
            "two lengths",
            request(
                "GET / HTTP/1.1",
                &format!("{known}Content-Length: 1\r\nContent-Length: 2\r\n"),
            ),
            &["400"],
        ),
        (
            "a length and pieces",
            request(
                "POST / HTTP/1.1",
                &format!("{known}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
            ),
            &["400", "405"],
        ),
        (
            "a split header",
            request("GET / HTTP/1.1", &format!("{known}X: a\rSet-Cookie: b\r\n")),
            &["400"],
        ),
        ("a tunnel", request(&format!("CONNECT {host} HTTP/1.1"), &known), &["405"]),
        (
            "an upgrade",
            request(
                "GET /nothing HTTP/1.1",
                &format!("{known}Connection: upgrade\r\nUpgrade: websocket\r\n"),
            ),
            &["404"],
        ),
    ];
    for (kind, request, codes) in &cases {
        let text = served.ask(request);
        println!("{kind}: {}", code(&text));
        assert!(codes.contains(&code(&text)), "{kind}: {text}");
        assert!(!text.contains("\"targets\""), "{kind} was told something");
    }
    assert!(cases.len() >= 20);
}

#[test]
fn who_may_change_something_has_read_the_secret() {
    let served = serve_with(Some(Control::new().expect("random numbers")));
    let cookie = served.enter();
    let host = served.address;
    let post = |headers: &str| {
        served.ask(format!(
            "POST /api/fast?target=1&size=1GiB HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: 0\r\n\r\n"
        ))
    };
    let told = served.get("/api/control", &cookie);
    let secret = told.split("\"secret\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let secret = secret.map(|secret| format!("x-frostline-control: {secret}\r\n"));
    let secret = secret.expect("it is told");
    for (kind, headers, wanted) in [
        ("nobody known", secret.clone(), "401"),
        ("a form of another site", format!("{cookie}Sec-Fetch-Site: cross-site\r\n"), "403"),
        ("the cookie alone", cookie.clone(), "403"),
        ("a wrong secret", format!("{cookie}x-frostline-control: 0\r\n"), "403"),
        ("no such target", format!("{cookie}{secret}"), "404"),
    ] {
        let text = post(&headers);
        println!("{kind}: {}", code(&text));
        assert_eq!(code(&text), wanted, "{kind}: {text}");
    }
    assert_eq!(code(&served.get("/api/control", "")), "401");
    let others = serve();
    let cookie = others.enter();
    assert!(others.get("/api/control", &cookie).ends_with("\r\n\r\nnull"));
}

#[test]
fn who_may_see_it_gets_all_of_it_and_nothing_from_elsewhere() {
    let served = serve();
    let cookie = served.enter();
    let page = served.get("/", &cookie);
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    for header in [
        "Content-Security-Policy: default-src 'none'; script-src 'self'",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
    ] {
        assert!(page.contains(header), "{header}: {page}");
    }
    assert!(!page.contains("https://") && !page.contains("//cdn"), "{page}");
    let next = served.urls.recv_timeout(LONG).expect("another address");
    assert!(next.contains("?token="), "{next}");
}

#[test]
fn events_go_on_beyond_the_time_of_a_request() {
    let served = serve();
    let cookie = served.enter();
    let mut stream = served.connect();
    let host = served.address;
    write!(stream, "GET /api/events HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n").expect("sent");
    let (began, mut text) = (Instant::now(), String::new());
    let mut buffer = [0; 4096];
    while text.matches("data: {").count() < 5 {
        assert!(began.elapsed() < LONG, "{text}");
        let count = stream.read(&mut buffer).expect("more");
        assert!(count > 0, "it ended: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    assert!(text.contains("Content-Type: text/event-stream"), "{text}");
    assert!(text.contains("\"memory_bytes\":8192"), "{text}");
}

#[test]
fn readers_that_sleep_keep_nobody_waiting() {
    let served = serve();
    let cookie = served.enter();
    let host = served.address;
    let asleep: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = served.connect();
            write!(stream, "GET /api/events HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n")
                .expect("sent");
            stream
        })
        .collect();
    for _ in 0..20 {
        assert!(served.get("/", &cookie).starts_with("HTTP/1.1 200 "));
    }
    drop(asleep);
}

#[test]
fn a_socket_is_for_its_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page.sock");
    let listener = Listener::unix(&path).expect("a socket");
    let root = Root::at(folder.path());
    let _server =
        Server::start(listener, "page", move || Page::new(root, Access::of_socket(), None, None))
            .expect("a thread");
    let ask = |host: &str| {
        let mut stream = UnixStream::connect(&path).expect("a connection");
        stream.set_read_timeout(Some(LONG)).expect("a time");
        write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("sent");
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    };
    assert!(ask("localhost:7199").starts_with("HTTP/1.1 200 "));
    assert!(ask("evil.example").starts_with("HTTP/1.1 421 "));
}
