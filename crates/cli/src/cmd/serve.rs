//! `frostline serve`: a page of what is managed here, for browsers.

use super::opened;
use frostline_linux::{Root, own_files};
use frostline_serve::http::{Listener, Server};
use frostline_serve::{Access, Control, Page};
use frostline_terminal::cancel;
use frostline_terminal::errors::{ResultExt, failure, usage};
use frostline_terminal::progress::note;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Between two looks for signals.
const LOOK: Duration = Duration::from_millis(100);
/// Where users of this machine find it.
const SOCKET: &str = "/run/frostline/page.sock";

/// What `--help` says first.
pub const LONG: &str = "\
Shows every target in a browser: memory by tier, what is saved and lost, moves, hotness, warnings, now \
and over the last hour. Nothing can be changed there but with --allow-control: how much of a target's memory \
is fast, until its frostline ends or that is taken back.

With a trace it shows that, too: where it accesses memory and when, how much memory serves how many of its \
accesses, how much slower the program becomes with how much fast memory, and policies compared. Of runs that \
`frostline compare --json` has printed it shows the comparison.

By default it listens on a socket that root and the user who runs it may use; from elsewhere, ssh leads \
to it. With --listen it is a port of this machine, which browsers enter by an address that is printed, \
and good once. Other machines are not listened to: use ssh, or a proxy with TLS.";

const EXAMPLES: &str = "\
Examples:
  frostline serve --listen 127.0.0.1:7199
  frostline serve
  frostline serve --listen 127.0.0.1:7199 s.flt
  frostline serve --listen 127.0.0.1:7199 runs.json      # of frostline compare --json
  ssh -L 7199:/run/frostline/page.sock root@server       # then http://localhost:7199/";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Show this as well: a trace (a file, or synth:NAME:key=value...), or runs of `compare --json`
    #[arg(value_name = "TRACE|RUNS.json")]
    opened: Option<String>,
    /// Policies and groups of policies that are compared on the trace, separated by commas
    #[arg(short, long, default_value = "all", value_name = "LIST", requires = "opened")]
    policies: String,
    /// Machine that the trace is replayed on
    #[arg(short, long, default_value = "dram-cxl", value_name = "MACHINE", requires = "opened")]
    machine: String,
    /// Listen on this port of this machine: 127.0.0.1:7199
    #[arg(long, value_name = "ADDRESS", conflicts_with = "socket")]
    listen: Option<String>,
    /// Listen on a socket in the file system
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// Let who may see the page set how much of a target's memory is fast, which needs the right to write to
    /// /run/frostline
    #[arg(long)]
    allow_control: bool,
}

/// What is shown beside the targets, and whether something may be changed.
#[derive(Default)]
pub struct Shown {
    opened: Option<String>,
    control: Option<Control>,
}

/// Serves until it is told to stop.
///
/// # Errors
/// Where it cannot listen there.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    cancel::install()?;
    let opened = args.opened.as_ref();
    let shown = Shown {
        opened: opened.map(|name| opened::look(name, &args.machine, &args.policies)).transpose()?,
        control: args.allow_control.then(Control::new).transpose()?,
    };
    let _served = match &args.listen {
        Some(address) => (at_port(address, shown)?, None),
        None => {
            let (server, socket) = at_socket(&args.socket, shown)?;
            (server, Some(socket))
        }
    };
    while !cancel::requested() {
        std::thread::sleep(LOOK);
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(listener: Listener, access: Access, shown: Shown) -> anyhow::Result<Server> {
    let page = move || Page::new(Root::system(), access, shown.opened, shown.control);
    Ok(Server::start(listener, "page", page)?)
}

/// At a socket in the file system, which goes with what is given beside the server.
fn at_socket(path: &Path, shown: Shown) -> anyhow::Result<(Server, Socket)> {
    let socket = Socket::make(path)?;
    let listener = Listener::unix(path).or_hint(
        format!("cannot listen on {}", path.display()),
        "name another place by --socket, or a port by --listen",
    )?;
    note(&format!("listening on {}", path.display()));
    Ok((serve(listener, Access::of_socket(), shown)?, socket))
}

/// At a port of this machine; addresses by which browsers enter are printed.
///
/// # Errors
/// Where it is not of this machine alone, or taken.
pub fn at_port(address: &str, shown: Shown) -> anyhow::Result<Server> {
    let mut addresses = address
        .to_socket_addrs()
        .map_err(|error| usage(format!("--listen {address}: {error}"), "write 127.0.0.1:7199"))?;
    if !addresses.all(|one: SocketAddr| one.ip().is_loopback()) {
        return Err(usage(
            format!("--listen {address}: others than this machine would see the page"),
            "listen on 127.0.0.1 and have ssh, or a proxy with TLS, lead there",
        ));
    }
    let (listener, bound) = Listener::tcp(address)
        .or_hint(format!("cannot listen on {address}"), "choose another port")?;
    let access = Access::of_port(bound, |url| note(&format!("open {url} (good once)")))?;
    serve(listener, access, shown)
}

/// A socket of ours, which goes with us.
struct Socket(PathBuf);

impl Socket {
    /// Makes room for it: what somebody has left there and nobody answers at goes.
    fn make(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new(SOCKET) {
            own_files::folder(&Root::system(), own_files::FOLDER)?;
        }
        match UnixStream::connect(path) {
            Ok(_) => {
                let what = format!("{} is served by somebody already", path.display());
                return Err(failure(what, "name another place by --socket"));
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(path);
            }
            Err(_) => {}
        }
        Ok(Self(path.to_owned()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // It may be gone.
        let _ = std::fs::remove_file(&self.0);
    }
}
