//! HTTP/1.1 for programs and browsers on this machine.
//!
//! One thread serves all connections at once and waits for none of them. Each has [`TIMEOUT`] from its
//! beginning to its end, but those that are told of what happens, and where there are more than [`MOST`], the oldest
//! makes room: whoever asks at once is answered, however many others ask slowly or not at all.

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, LocalSet, spawn_local};

/// Most connections at a time, of each kind.
pub const MOST: usize = 128;
/// Most that wait to be let in.
const BACKLOG: i32 = 1024;
/// Longest time for a connection that is not told of what happens.
pub const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest request, in bytes.
pub const REQUEST: usize = 8192;
/// Before it is tried again what the system refuses.
const PAUSE: Duration = Duration::from_millis(100);

/// Content of an answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Somebody who can reach a port.
    Network,
    /// A user of this machine, by number; `None` where the kernel does not say which.
    User(Option<u32>),
}

/// An answer.
pub struct Answer {
    /// Its head, and its content.
    pub response: Response<Body>,
    /// More may come at any time.
    pub lasts: bool,
}

impl Answer {
    /// One that is complete.
    pub fn whole(status: StatusCode, body: impl Into<Bytes>) -> Self {
        let mut response = Response::new(Full::new(body.into()).boxed_unsync());
        *response.status_mut() = status;
        Self { response, lasts: false }
    }

    /// One that goes on with what is sent; it ends when the sender is dropped. Who is slow is sent less: the channel is full.
    pub fn lasting(receiver: mpsc::Receiver<Bytes>) -> Self {
        Self { response: Response::new(Told(receiver).boxed_unsync()), lasts: true }
    }
}

/// Body of pieces as they come.
struct Told(mpsc::Receiver<Bytes>);

impl HttpBody for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// What is served.
pub trait Site: 'static {
    /// Answers a request.
    fn answer(&self, request: &Request<Incoming>, peer: Peer) -> Answer;

    /// Work beside that, as long as it is served.
    fn live(self: Rc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(pending())
    }
}

/// Where it is listened, bound already.
pub enum Listener {
    /// At a port.
    Tcp(std::net::TcpListener),
    /// In the file system.
    Unix(std::os::unix::net::UnixListener),
}

impl Listener {
    /// At an address and a port, and which that is; port 0 takes any that is free.
    ///
    /// # Errors
    /// Where that address is taken or not of this machine.
    pub fn tcp(address: &str) -> io::Result<(Self, SocketAddr)> {
        let listener = std::net::TcpListener::bind(address)?;
        // A burst of newcomers is not turned away before it is seen.
        rustix::net::listen(&listener, BACKLOG)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((Self::Tcp(listener), address))
    }

    /// A socket in the file system.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn unix(path: &std::path::Path) -> io::Result<Self> {
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Unix(listener))
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Bound {
    fn new(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => Self::Tcp(TcpListener::from_std(listener)?),
            Listener::Unix(listener) => Self::Unix(UnixListener::from_std(listener)?),
        })
    }

    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Box::new(stream), Peer::Network))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().ok().map(|credentials| credentials.uid());
                Ok((Box::new(stream), Peer::User(user)))
            }
        }
    }
}

/// Serves until it is dropped.
pub struct Server {
    /// The thread ends when this is dropped.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves what `site` makes, in a thread of that name.
    ///
    /// # Errors
    /// Where there can be no thread.
    pub fn start<S: Site>(
        listener: Listener,
        name: &str,
        site: impl FnOnce() -> S + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            Bound::new(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            let connections = LocalSet::new();
            let site = Rc::new(site());
            connections.block_on(&runtime, async {
                tokio::select! {
                    () = accept(&listener, &site) => {}
                    () = Rc::clone(&site).live() => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name(name.into()).spawn(serve)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection that is served.
struct Connection {
    task: AbortHandle,
    lasts: Rc<Cell<bool>>,
}

/// Takes whoever comes; never ends.
async fn accept<S: Site>(listener: &Bound, site: &Rc<S>) {
    // The oldest first.
    let mut connections: VecDeque<Connection> = VecDeque::new();
    loop {
        let accepted = listener.accept().await;
        connections.retain(|one| !one.task.is_finished());
        match accepted {
            Ok((stream, peer)) => {
                for lasting in [false, true] {
                    let of_kind = connections.iter().filter(|one| one.lasts.get() == lasting);
                    if of_kind.count() >= MOST {
                        close_oldest(&mut connections, lasting);
                    }
                }
                let lasts = Rc::new(Cell::new(false));
                let served = serve(stream, Rc::clone(site), peer, Rc::clone(&lasts));
                let served = within_time(served, Rc::clone(&lasts));
                let task = spawn_local(served).abort_handle();
                connections.push_back(Connection { task, lasts });
                // Whoever asks at once is answered before the next one comes.
                tokio::task::yield_now().await;
            }
            // Out of file descriptors, for instance; or nobody is there any more.
            Err(_) => {
                close_oldest(&mut connections, false);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn close_oldest(connections: &mut VecDeque<Connection>, lasting: bool) {
    if let Some(oldest) = connections.iter().position(|one| one.lasts.get() == lasting)
        && let Some(oldest) = connections.remove(oldest)
    {
        oldest.task.abort();
    }
}

/// Ends what has not come to its end in time, unless it lasts.
async fn within_time(served: impl Future<Output = ()>, lasts: Rc<Cell<bool>>) {
    tokio::pin!(served);
    if tokio::time::timeout(TIMEOUT, &mut served).await.is_err() && lasts.get() {
        served.await;
    }
}

/// Answers one request of a connection, and closes it.
async fn serve<S: Site>(stream: Box<dyn Stream>, site: Rc<S>, peer: Peer, lasts: Rc<Cell<bool>>) {
    let answer = service_fn(|request: Request<Incoming>| {
        let answer = site.answer(&request, peer);
        lasts.set(answer.lasts);
        async { Ok::<_, Infallible>(answer.response) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(REQUEST).title_case_headers(true);
    let connection = http.serve_connection(TokioIo::new(stream), answer);
    let Ok(parts) = connection.without_shutdown().await else { return };
    // Closed with something unread, the connection would take the answer along.
    let mut stream = parts.io.into_inner();
    if stream.shutdown().await.is_ok() {
        let mut rest = [0; REQUEST];
        while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
    }
}
