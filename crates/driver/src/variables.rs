//! Variables of a program's environment that are meant for an agent, without memory of an allocator: they are
//! read before the program begins, and forked children have them, too.

use crate::environment::VARIABLE;

/// Room for all variables together.
const ROOM: usize = 16 << 10;
/// What their names begin with.
const PREFIX: &[u8] = VARIABLE.as_bytes();

/// Variables, each as `NAME=value` with a zero at its end.
#[derive(Debug)]
pub struct Variables {
    bytes: [u8; ROOM],
    len: usize,
    /// Some did not fit.
    cut: bool,
}

impl Variables {
    const fn new() -> Self {
        Self { bytes: [0; ROOM], len: 0, cut: false }
    }

    /// Value of a variable; `None` where it is not set, or no text.
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
#[derive(Debug)]
pub struct Collector {
    variables: Variables,
    /// Where the present variable began.
    begin: usize,
    /// It is not one of ours.
    skips: bool,
}

impl Default for Collector {
    fn default() -> Self {
        Self::new()
    }
}

impl Collector {
    /// Of no environment yet.
    pub fn new() -> Self {
        Self { variables: Variables::new(), begin: 0, skips: false }
    }

    /// Takes the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        piece.iter().for_each(|byte| self.push(*byte));
    }

    /// What was found.
    pub fn variables(self) -> Variables {
        self.variables
    }

    fn push(&mut self, byte: u8) {
        let variables = &mut self.variables;
        if byte != 0 && self.skips {
            return;
        }
        let at = variables.len - self.begin;
        let foreign = match byte {
            0 => at < PREFIX.len(),
            byte => PREFIX.get(at).is_some_and(|wanted| *wanted != byte),
        };
        let full = variables.len == ROOM;
        if foreign || full {
            variables.cut |= full && !foreign;
            variables.len = self.begin;
            self.skips = byte != 0;
            return;
        }
        variables.bytes[variables.len] = byte;
        variables.len += 1;
        if byte == 0 {
            self.begin = variables.len;
            self.skips = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(environment: &[u8], piece: usize) -> Variables {
        let mut collector = Collector::new();
        environment.chunks(piece).for_each(|piece| collector.add(piece));
        collector.variables()
    }

    #[test]
    fn variables_are_found_however_they_come() {
        let environment =
            b"HOME=/\0FROSTLINE=hybridtier:momentum=2\0FROST=x\0\0PATH=a:FROSTLINE=b\0\
            FROSTLINE_FAST=40%\0FROSTLINE_SLOW=\0LAST=1\0";
        for piece in [1, 2, 7, 1000] {
            let variables = collected(environment, piece);
            assert_eq!(variables.get("FROSTLINE"), Some("hybridtier:momentum=2"));
            assert_eq!(variables.get("FROSTLINE_FAST"), Some("40%"));
            assert_eq!(variables.get("FROSTLINE_SLOW"), Some(""));
            assert_eq!((variables.get("HOME"), variables.get("FROSTLINE_SEED")), (None, None));
            assert!(!variables.is_cut());
        }
    }

    #[test]
    fn what_does_not_fit_is_known_to_be_missing() {
        let long = "x".repeat(ROOM);
        let variables = collected(format!("A={long}\0FROSTLINE=a\0").as_bytes(), 4096);
        assert_eq!((variables.get("FROSTLINE"), variables.is_cut()), (Some("a"), false));
        let text = format!("FROSTLINE_LOG={long}\0FROSTLINE=a\0");
        let variables = collected(text.as_bytes(), 4096);
        assert_eq!((variables.get("FROSTLINE"), variables.get("FROSTLINE_LOG")), (Some("a"), None));
        assert!(variables.is_cut());
    }
}
