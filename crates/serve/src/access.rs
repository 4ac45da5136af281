//! Access: who may see the page.

use crate::http::Peer;
use hyper::Request;
use hyper::header::{COOKIE, HOST};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;

/// Name of the cookie.
const COOKIE_NAME: &str = "frostline";
/// Bytes of a secret.
const SECRET: usize = 16;
/// Header by which browsers say which site asks.
const SITE: &str = "sec-fetch-site";

/// Names of this machine, as it names itself; nobody's name server decides where they lead.
const LOCAL: &[&str] = &["", "localhost", "127.0.0.1", "[::1]"];

/// Verdict on a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be answered.
    Allowed,
    /// The browser came by an address that is good once; it gets this cookie.
    Enters(String),
    /// It is for a host that this is not: somebody's name leads here.
    OtherHost,
    /// Another site has a browser ask.
    OtherSite,
    /// Nobody knows who asks.
    Unknown,
}

/// Who may see the page: users of a socket by their numbers; of a port, browsers that came by an address that was printed.
pub struct Access {
    /// Besides root.
    user: u32,
    port: Option<Port>,
}

struct Port {
    hosts: Vec<String>,
    cookie: String,
    /// Good once.
    token: RefCell<String>,
    /// Told of the next token.
    print: Box<dyn Fn(&str) + Send>,
}

impl Access {
    /// By a socket in the file system: root, and whoever runs this.
    pub fn of_socket() -> Self {
        Self { user: rustix::process::geteuid().as_raw(), port: None }
    }

    /// By a port of this machine alone. `print` is told of each address by which a browser can enter, once.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub fn of_port(address: SocketAddr, print: impl Fn(&str) + Send + 'static) -> io::Result<Self> {
        let port = address.port();
        let hosts = vec![
            address.to_string(),
            format!("localhost:{port}"),
            format!("127.0.0.1:{port}"),
            format!("[::1]:{port}"),
        ];
        let print: Box<dyn Fn(&str) + Send> = Box::new(move |token| {
            print(&format!("http://{address}/?token={token}"));
        });
        let (cookie, token) = (secret()?, secret()?);
        print(&token);
        let port = Port { hosts, cookie, token: RefCell::new(token), print };
        Ok(Self { user: rustix::process::geteuid().as_raw(), port: Some(port) })
    }

    /// Whether a request may be answered.
    pub fn verdict<B>(&self, request: &Request<B>, peer: Peer) -> Verdict {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let host = header(HOST.as_str()).unwrap_or_default();
        let is_here = match &self.port {
            Some(port) => port.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)),
            // Whatever port leads here, by ssh.
            None => LOCAL.contains(&without_port(host).to_ascii_lowercase().as_str()),
        };
        if !is_here {
            return Verdict::OtherHost;
        }
        if matches!(header(SITE), Some("cross-site" | "same-site")) && request.uri().path() != "/" {
            return Verdict::OtherSite;
        }
        let Some(port) = &self.port else {
            let known = matches!(peer, Peer::User(Some(user)) if user == 0 || user == self.user);
            return if known { Verdict::Allowed } else { Verdict::Unknown };
        };
        if cookies(header(COOKIE.as_str())).any(|value| same(value, &port.cookie)) {
            return Verdict::Allowed;
        }
        match value(request.uri().query(), "token") {
            Some(token) if request.uri().path() == "/" && port.takes(token) => {
                let attributes = "Path=/; HttpOnly; SameSite=Strict";
                Verdict::Enters(format!("{COOKIE_NAME}={}; {attributes}", port.cookie))
            }
            _ => Verdict::Unknown,
        }
    }
}

impl Port {
    /// Whether that is the token; there is another one then.
    fn takes(&self, token: &str) -> bool {
        if !same(token, &self.token.borrow()) {
            return false;
        }
        // Without random numbers nobody else enters.
        let next = secret().unwrap_or_default();
        if !next.is_empty() {
            (self.print)(&next);
        }
        self.token.replace(next);
        true
    }
}

/// A host without its port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether two secrets are the same; it takes as long wherever they differ. An empty one is none.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let differ = a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    !b.is_empty() && a.len() == b.len() && differ == 0
}

/// Values of our cookie.
fn cookies(header: Option<&str>) -> impl Iterator<Item = &str> {
    let pairs =
        header.unwrap_or_default().split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

/// Value of a key in a query, as it is written there.
pub(crate) fn value<'a>(query: Option<&'a str>, key: &str) -> Option<&'a str> {
    query?.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

/// What nobody can guess.
///
/// # Errors
/// Where the system has too few random numbers.
pub(crate) fn secret() -> io::Result<String> {
    let mut bytes = [0; SECRET];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if got != SECRET {
        return Err(io::Error::other("the system has too few random numbers"));
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn request(path: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request")
    }

    #[test]
    fn users_of_the_socket_are_root_and_who_runs_it() {
        let access = Access { user: 7, port: None };
        for (user, verdict) in [
            (Some(0), Verdict::Allowed),
            (Some(7), Verdict::Allowed),
            (Some(8), Verdict::Unknown),
            (None, Verdict::Unknown),
        ] {
            assert_eq!(access.verdict(&request("/", &[]), Peer::User(user)), verdict, "{user:?}");
        }
        assert_eq!(access.verdict(&request("/", &[]), Peer::Network), Verdict::Unknown);
        let from = |host| access.verdict(&request("/", &[("host", host)]), Peer::User(Some(0)));
        for host in ["localhost", "localhost:7199", "127.0.0.1:8", "[::1]:9", "[::1]"] {
            assert_eq!(from(host), Verdict::Allowed, "{host}");
        }
        for host in ["evil.example:7199", "localhost.evil", "[::2]", "10.0.0.1:7199"] {
            assert_eq!(from(host), Verdict::OtherHost, "{host}");
        }
    }

    #[test]
    fn browsers_enter_by_an_address_that_is_good_once() {
        let (told, tokens) = mpsc::channel();
        let address: SocketAddr = "127.0.0.1:7199".parse().expect("an address");
        let print = move |url: &str| told.send(url.to_owned()).expect("somebody listens");
        let access = Access::of_port(address, print).expect("random numbers");
        let ask = |path: &str, headers: &[(&str, &str)]| {
            let mut all = vec![("host", "localhost:7199")];
            all.extend_from_slice(headers);
            access.verdict(&request(path, &all), Peer::Network)
        };
        assert_eq!(ask("/", &[]), Verdict::Unknown);
        let url = tokens.recv().expect("an address");
        let path = url.strip_prefix("http://127.0.0.1:7199").expect("of this machine").to_owned();
        assert_eq!(ask("/?token=", &[]), Verdict::Unknown);
        assert_eq!(ask(&path[..path.len() - 1], &[]), Verdict::Unknown);
        assert_eq!(ask(&path.replace("/?", "/api/events?"), &[]), Verdict::Unknown);
        let Verdict::Enters(cookie) = ask(&path, &[]) else { panic!("{path}") };
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!(ask(&path, &[]), Verdict::Unknown, "it was good once");
        assert_ne!(tokens.recv().expect("another one"), url);
        let cookie = cookie.split(';').next().expect("a pair");
        for header in
            [cookie.to_owned(), format!("a=b; {cookie}; c"), format!("frostline=x; {cookie}")]
        {
            assert_eq!(ask("/api/events", &[("cookie", &header)]), Verdict::Allowed, "{header}");
        }
        assert_eq!(ask("/", &[("cookie", &cookie[..cookie.len() - 1])]), Verdict::Unknown);
        let elsewhere = [("cookie", cookie), ("sec-fetch-site", "cross-site")];
        assert_eq!(ask("/api/events", &elsewhere), Verdict::OtherSite);
    }

    #[test]
    fn names_that_lead_here_are_not_this_host() {
        let address: SocketAddr = "127.0.0.1:7199".parse().expect("an address");
        let access = Access::of_port(address, |_| ()).expect("random numbers");
        for host in ["evil.example:7199", "127.0.0.1", "127.0.0.1:80", "", "localhost:7199.evil"] {
            let verdict = access.verdict(&request("/", &[("host", host)]), Peer::Network);
            assert_eq!(verdict, Verdict::OtherHost, "{host}");
        }
        assert_eq!(access.verdict(&request("/", &[]), Peer::Network), Verdict::OtherHost);
        for host in ["127.0.0.1:7199", "LOCALHOST:7199", "[::1]:7199"] {
            let verdict = access.verdict(&request("/", &[("host", host)]), Peer::Network);
            assert_eq!(verdict, Verdict::Unknown, "{host}");
        }
    }
}
