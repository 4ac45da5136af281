//! Settings from the environment, kept where forked children have them, too.
//!
//! It is read from the kernel before `main`: later, the program may change it at any time.

use frostline_driver::environment::{self, VARIABLE};
use frostline_driver::variables::Collector;
pub use frostline_driver::variables::Variables;
use frostline_inprocess::consolidate::request;
use rustix::fs::{Mode, OFlags, open};
use std::sync::OnceLock;

/// What the first thread has read.
pub static VARIABLES: OnceLock<Variables> = OnceLock::new();

/// What asked for consolidation alone in former releases.
const FORMER: &str = "FROSTLINE_CONSOLIDATE";

/// The variables of this program; `None` where none asks for anything, and nobody else does. A program that
/// has the library only because somebody has a question is left alone otherwise, its children too.
pub fn read() -> Option<Variables> {
    let asks = |variables: &Variables| {
        variables.is_cut() || [VARIABLE, FORMER].iter().any(|name| variables.get(name).is_some())
    };
    let nothing = || Collector::new().variables();
    environment().filter(asks).or_else(|| comes_late().then(nothing))
}

/// Whether the library is brought into a program that runs already: then there is a question. Nothing of
/// such a program may be changed.
pub fn comes_late() -> bool {
    request::is_asked(std::process::id())
}

fn environment() -> Option<Variables> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = open(c"/proc/self/environ", flags, Mode::empty()).ok()?;
    let mut collector = Collector::new();
    let mut piece = [0; 4096];
    loop {
        match rustix::io::read(&file, &mut piece) {
            Ok(0) => break,
            Ok(bytes) => collector.add(&piece[..bytes]),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(collector.variables())
}

/// Programs that change rights or name spaces of single threads, or as a single thread only, and
/// then execute another program. With a second thread the C library would end some of them, and the
/// kernel refuse the others.
const LEFT_ALONE: [&[u8]; 5] = [b"bwrap", b"capsh", b"nsenter", b"setpriv", b"unshare"];

/// Whether this program is one that a second thread would disturb.
pub fn leaves_alone() -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mut name = [0; 16];
    let read = open(c"/proc/self/comm", flags, Mode::empty())
        .and_then(|file| rustix::io::read(file, &mut name))
        .unwrap_or(0);
    LEFT_ALONE.contains(&name[..read].trim_ascii_end())
}

/// What the agent is asked for, as text.
pub fn asked() -> Option<&'static str> {
    VARIABLES.get()?.get(VARIABLE)
}

/// Text of a key.
pub fn text(key: &str) -> Option<String> {
    environment::text(asked()?, key)
}

/// Whether what the program forks and executes is tiered, too.
pub fn follows_children() -> bool {
    asked().is_some_and(|asked| environment::field(asked, "children") != Some("false"))
}

/// Says what takes the place of variables of former releases, where one is set.
pub fn superseded() -> Option<String> {
    let variables = VARIABLES.get()?;
    let (name, key) = environment::superseded().find(|(name, _)| variables.get(name).is_some())?;
    Some(format!(
        "{name} is not read any more; hint: {VARIABLE}='{{\"policy\": ..., \"{key}\": ...}}' takes its place"
    ))
}
