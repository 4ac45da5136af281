//! Page of all targets: what is there now, every second, and the last hour of each.

use crate::access::{Access, Verdict};
use crate::assets;
use crate::control::Control;
use crate::history::{History, Past, Point};
use crate::http::{Answer, Peer, Site};
use crate::machine::Machine;
use crate::warnings::{self, Warning};
use frostline_driver::{Rates, Status, instances};
use frostline_linux::Root;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;

/// Between two looks at what runs.
const EVERY: Duration = Duration::from_secs(1);
/// Pictures that a client may be behind; what comes then is left out for it.
const BEHIND: usize = 2;
/// Nothing but what this page is made of is loaded, and it may not be put into another one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What is told of a target.
#[derive(Serialize)]
struct Told<'a> {
    key: String,
    status: &'a Status,
    rates: Rates,
    /// What its history takes of it.
    point: Point,
    warnings: Vec<Warning>,
}

/// What is told every second.
#[derive(Serialize)]
struct Picture<'a> {
    at_ms: u64,
    version: &'static str,
    machine: Machine,
    targets: Vec<Told<'a>>,
}

/// See the module.
pub struct Page {
    root: Root,
    access: Access,
    /// A trace or runs, beside the targets.
    opened: Option<Bytes>,
    /// Where something may be changed.
    control: Option<Control>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// What there was a moment ago, with its rates.
    before: Vec<(Status, Rates)>,
    history: History,
    /// The latest picture, as an event.
    latest: Bytes,
    clients: Vec<mpsc::Sender<Bytes>>,
}

impl Page {
    /// Of what runs under `root`, for whom `access` allows it, and of what was opened beside them, told in JSON. With
    /// `control` something may be changed, too.
    pub fn new(
        root: Root,
        access: Access,
        opened: Option<String>,
        control: Option<Control>,
    ) -> Self {
        Self { root, access, opened: opened.map(Bytes::from), control, state: RefCell::default() }
    }

    /// Looks at what runs, and tells everybody.
    fn look(&self) {
        // What cannot be read now may be in a second.
        let Ok(now) = instances::list(&self.root) else { return };
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let at_ms = at_ms as u64;
        let State { before, history, latest, clients } = &mut *self.state.borrow_mut();
        let picture = Picture {
            at_ms,
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::read(&self.root),
            targets: now.iter().map(|status| told(status, before, history, at_ms)).collect(),
        };
        let Ok(text) = serde_json::to_string(&picture) else { return };
        *latest = Bytes::from(format!("data: {text}\n\n"));
        clients.retain(|client| match client.try_send(latest.clone()) {
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        });
        let rates: Vec<Rates> = picture.targets.iter().map(|told| told.rates).collect();
        drop(picture);
        *before = now.into_iter().zip(rates).collect();
    }

    fn events(&self) -> Answer {
        let (sender, receiver) = mpsc::channel(BEHIND);
        let mut state = self.state.borrow_mut();
        // There is room for the first one.
        let _ = sender.try_send(state.latest.clone());
        state.clients.push(sender);
        let mut answer = Answer::lasting(receiver);
        set(&mut answer.response, CONTENT_TYPE, "text/event-stream");
        answer
    }

    /// What `of` takes of the past of the target that is asked for.
    fn past<'a, T: Serialize + 'a>(
        state: &'a State,
        query: Option<&str>,
        of: impl Fn(&'a Past) -> &'a T,
    ) -> Answer {
        let key = query.and_then(|query| query.strip_prefix("target="));
        let past = key.and_then(|key| state.history.of(key));
        match past.map(|past| serde_json::to_string(of(past))) {
            Some(Ok(text)) => json(text),
            _ => plain(StatusCode::NOT_FOUND, "there is no such target\n"),
        }
    }

    fn has(&self, method: &Method) -> bool {
        match *method {
            Method::GET | Method::HEAD => true,
            Method::POST => self.control.is_some(),
            _ => false,
        }
    }

    fn change(&self, control: &Control, request: &Request<Incoming>) -> Answer {
        let state = self.state.borrow();
        let targets = || state.before.iter().map(|(status, _)| status);
        control.change(&self.root, request, |key| targets().find(|one| one.key() == key))
    }

    fn allowed(&self, request: &Request<Incoming>) -> Answer {
        match (request.method(), &self.control) {
            // Nothing is told to whom nothing is sent.
            (&Method::HEAD, _) => return Answer::whole(StatusCode::OK, Bytes::new()),
            (&Method::POST, Some(control)) => return self.change(control, request),
            _ => {}
        }
        let (path, query) = (request.uri().path(), request.uri().query());
        match path {
            "/api/events" => return self.events(),
            "/api/history" => return Self::past(&self.state.borrow(), query, |past| &past.points),
            "/api/heat" => return Self::past(&self.state.borrow(), query, |past| &past.heat),
            "/api/control" => {
                return json(self.control.as_ref().map_or("null".into(), Control::told));
            }
            "/api/opened" => {
                // That there is none is no error of who asks.
                return json(self.opened.clone().unwrap_or(Bytes::from_static(b"null")));
            }
            _ => {}
        }
        let Some(asset) = assets::ALL.iter().find(|asset| asset.path == path) else {
            return plain(StatusCode::NOT_FOUND, "there is nothing here\n");
        };
        let mut answer = Answer::whole(StatusCode::OK, asset.content);
        set(&mut answer.response, CONTENT_TYPE, asset.kind);
        answer
    }
}

impl Site for Page {
    fn answer(&self, request: &Request<Incoming>, peer: Peer) -> Answer {
        let mut answer = match self.access.verdict(request, peer) {
            _ if !self.has(request.method()) => {
                plain(StatusCode::METHOD_NOT_ALLOWED, "there is only GET, and HEAD\n")
            }
            Verdict::Allowed => self.allowed(request),
            Verdict::Enters(cookie) => {
                let mut answer = plain(StatusCode::SEE_OTHER, "");
                set(&mut answer.response, LOCATION, "/");
                if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                    answer.response.headers_mut().insert(SET_COOKIE, cookie);
                }
                answer
            }
            Verdict::OtherHost => plain(StatusCode::MISDIRECTED_REQUEST, "this is another host\n"),
            Verdict::OtherSite => plain(StatusCode::FORBIDDEN, "another site asks for this\n"),
            Verdict::Unknown => plain(
                StatusCode::UNAUTHORIZED,
                "open the address that frostline serve has printed last: each is good once\n",
            ),
        };
        let response = &mut answer.response;
        set(response, ALLOW, if self.control.is_some() { "GET, HEAD, POST" } else { "GET, HEAD" });
        set(response, CACHE_CONTROL, "no-store");
        set(response, CONTENT_SECURITY_POLICY, POLICY);
        set(response, REFERRER_POLICY, "no-referrer");
        set(response, X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(response, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
        answer
    }

    fn live(self: Rc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let mut clock = tokio::time::interval(EVERY);
            clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                clock.tick().await;
                self.look();
            }
        })
    }
}

/// What is told of a target, which its history takes, too. `before` is what there was a moment ago.
fn told<'a>(
    status: &'a Status,
    before: &[(Status, Rates)],
    history: &mut History,
    at_ms: u64,
) -> Told<'a> {
    let key = status.key();
    let rates = Rates::next(before.iter().find(|(old, _)| old.key() == key), status);
    let point = Point::of(at_ms, status, &rates);
    history.add(&key, point, status);
    Told { key, status, rates, point, warnings: warnings::of(status) }
}

fn set<B>(response: &mut Response<B>, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

fn json(text: impl Into<Bytes>) -> Answer {
    let mut answer = Answer::whole(StatusCode::OK, text);
    set(&mut answer.response, CONTENT_TYPE, "application/json");
    answer
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Answer::whole(status, text);
    set(&mut answer.response, CONTENT_TYPE, "text/plain; charset=utf-8");
    answer
}
