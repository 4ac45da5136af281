//! What the environment says, kept where forked children have it, too.
//!
//! It is read from the kernel before `main`: later, the program may change it at any time.

use frostline_driver::consolidate::request;
use frostline_driver::environment::{CHILDREN, CONSOLIDATE, POLICY};
use rustix::fs::{Mode, OFlags, open};
use std::sync::OnceLock;

/// What the first thread has read.
pub static WORDS: OnceLock<Words> = OnceLock::new();

/// Room for all variables together.
const ROOM: usize = 16 << 10;
/// Those that ask for something.
pub const ASKS: [&str; 2] = [POLICY, CONSOLIDATE];
/// What their names begin with.
const PREFIX: &[u8] = POLICY.as_bytes();

/// Variables, each as `NAME=value` with a zero at its end.
pub struct Words {
    bytes: [u8; ROOM],
    len: usize,
    /// Some did not fit.
    cut: bool,
}

impl Words {
    const fn new() -> Self {
        Self { bytes: [0; ROOM], len: 0, cut: false }
    }

    /// Value of a variable; not where it is no text.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut variables = self.bytes[..self.len].split(|byte| *byte == 0);
        let value = variables
            .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        std::str::from_utf8(value).ok()
    }

    /// Whether not all of it is there.
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}

/// Takes variables out of an environment that comes in pieces.
struct Collector {
    words: Words,
    /// Where the present variable began.
    begin: usize,
    /// It is not one of ours.
    skips: bool,
}

impl Collector {
    fn new() -> Self {
        Self { words: Words::new(), begin: 0, skips: false }
    }

    fn add(&mut self, piece: &[u8]) {
        piece.iter().for_each(|byte| self.push(*byte));
    }

    fn push(&mut self, byte: u8) {
        let words = &mut self.words;
        if byte != 0 && self.skips {
            return;
        }
        let at = words.len - self.begin;
        let foreign = match byte {
            0 => at < PREFIX.len(),
            byte => PREFIX.get(at).is_some_and(|wanted| *wanted != byte),
        };
        let full = words.len == ROOM;
        if foreign || full {
            words.cut |= full && !foreign;
            words.len = self.begin;
            self.skips = byte != 0;
            return;
        }
        words.bytes[words.len] = byte;
        words.len += 1;
        if byte == 0 {
            self.begin = words.len;
            self.skips = false;
        }
    }
}

/// The variables of this program; `None` where none asks for anything, and nobody else does. A program that
/// has the library only because somebody has a question is left alone otherwise, its children too.
pub fn read() -> Option<Words> {
    let asks = |words: &Words| ASKS.iter().any(|name| words.get(name).is_some());
    environment().filter(asks).or_else(|| {
        let mut collector = Collector::new();
        [CHILDREN, "=off\0"].iter().for_each(|piece| collector.add(piece.as_bytes()));
        comes_late().then_some(collector.words)
    })
}

/// Whether the library is brought into a program that runs already: then there is a question. Nothing of
/// such a program may be changed.
pub fn comes_late() -> bool {
    request::is_asked(std::process::id())
}

fn environment() -> Option<Words> {
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
    Some(collector.words)
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

/// Value of a variable.
pub fn get(name: &str) -> Option<&'static str> {
    WORDS.get()?.get(name)
}

/// Whether what the program forks and executes is tiered, too.
pub fn follows_children() -> bool {
    get(CHILDREN) != Some("off")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(environment: &[u8], piece: usize) -> Words {
        let mut collector = Collector::new();
        environment.chunks(piece).for_each(|piece| collector.add(piece));
        collector.words
    }

    #[test]
    fn variables_are_found_however_they_come() {
        let environment =
            b"HOME=/\0FROSTLINE=hybridtier:momentum=2\0FROST=x\0\0PATH=a:FROSTLINE=b\0\
            FROSTLINE_FAST=40%\0FROSTLINE_SLOW=\0LAST=1\0";
        for piece in [1, 2, 7, 1000] {
            let words = collected(environment, piece);
            assert_eq!(words.get("FROSTLINE"), Some("hybridtier:momentum=2"));
            assert_eq!(words.get("FROSTLINE_FAST"), Some("40%"));
            assert_eq!(words.get("FROSTLINE_SLOW"), Some(""));
            assert_eq!((words.get("HOME"), words.get("FROSTLINE_SEED")), (None, None));
            assert!(!words.is_cut());
        }
    }

    #[test]
    fn what_does_not_fit_is_known_to_be_missing() {
        let long = "x".repeat(ROOM);
        let words = collected(format!("A={long}\0FROSTLINE=a\0").as_bytes(), 4096);
        assert_eq!((words.get("FROSTLINE"), words.is_cut()), (Some("a"), false));
        let text = format!("FROSTLINE_LOG={long}\0FROSTLINE=a\0");
        let words = collected(text.as_bytes(), 4096);
        assert_eq!((words.get("FROSTLINE"), words.get("FROSTLINE_LOG")), (Some("a"), None));
        assert!(words.is_cut());
    }
}
