//! Mappings of a process, from `/proc/PID/maps`.
//!
//! Source: proc_pid_maps(5), `show_map_vma` in the kernel's `fs/proc/task_mmu.c`.

use crate::LinuxError;
use crate::process::Target;
use frostline_core::event::Backing;
use frostline_core::span::Span;
use std::fs::File;
use std::io::Read;

/// What a mapping may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Permissions {
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
    /// Writes are seen by other processes.
    pub shared: bool,
}

/// What is behind a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory without a name, or with one that the program gave it (`[anon:name]`).
    Anonymous,
    /// The `brk` heap.
    Heap,
    /// The stack of the first thread; those of others are anonymous memory.
    Stack,
    /// A file, by its path; also shared memory and devices.
    File(Box<str>),
    /// The kernel's: `vdso`, `vvar`, `vsyscall`, `uprobes` and whatever else has brackets.
    Special(Box<str>),
}

impl Kind {
    /// What the engine is told, of memory that is private to the program.
    pub fn backing(&self) -> Backing {
        match self {
            Self::Heap => Backing::Heap,
            Self::Stack => Backing::Stack,
            _ => Backing::Anonymous,
        }
    }
}

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its pages; never empty.
    pub span: Span,
    /// What it may be used for.
    pub perms: Permissions,
    /// Offset in the file in bytes.
    pub offset: u64,
    /// Device of the file: major and minor number; both 0 where there is none.
    pub dev: (u32, u32),
    /// File number; 0 where there is none.
    pub inode: u64,
    /// What is behind it.
    pub kind: Kind,
}

impl Mapping {
    /// Whether its pages may be moved without anybody but their owner being concerned: private
    /// writable memory without a file, of base or transparent huge pages.
    pub fn is_tierable(&self) -> bool {
        let private = matches!(self.kind, Kind::Anonymous | Kind::Heap | Kind::Stack);
        private && self.perms.write && !self.perms.shared && self.inode == 0 && self.dev == (0, 0)
    }
}

/// Mappings whose pages [may be moved](Mapping::is_tierable), and what the engine is told of them.
pub fn tierable(mappings: &[Mapping]) -> impl Iterator<Item = (Span, Backing)> + Clone {
    let tierable = mappings.iter().filter(|mapping| mapping.is_tierable());
    tierable.map(|mapping| (mapping.span, mapping.kind.backing()))
}

/// Reads the mappings of processes, over and over, into the same buffer.
#[derive(Debug, Default)]
pub struct MapsReader {
    buffer: Vec<u8>,
}

impl MapsReader {
    /// With an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces `mappings` by those of `target`, ascending and free of overlap. Empty for a
    /// process without memory, such as a thread of the kernel.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended; without the right to look into it.
    pub fn read(&mut self, target: &Target, mappings: &mut Vec<Mapping>) -> Result<(), LinuxError> {
        mappings.clear();
        self.buffer.clear();
        let path = target.root().path(format!("/proc/{}/maps", target.pid()));
        let read = File::open(&path).and_then(|mut file| file.read_to_end(&mut self.buffer));
        target.check_alive()?;
        read.map_err(|error| LinuxError::io("read", path, &error))?;
        parse(&self.buffer, mappings);
        Ok(())
    }
}

/// Parses the text of a maps file and appends what it says. Lines that make no sense are left out.
/// A file is read in pieces while the program goes on, hence a mapping that grew between two
/// pieces may come twice: only what lies above everything before counts.
pub fn parse(text: &[u8], mappings: &mut Vec<Mapping>) {
    let mut above = 0;
    for line in text.split(|&byte| byte == b'\n') {
        let Some(mut mapping) = parse_line(line) else { continue };
        let end = mapping.span.end();
        mapping.span =
            Span::between(mapping.span.start.max(frostline_core::types::Vpn(above)), end);
        if !mapping.span.is_empty() {
            above = end.0;
            mappings.push(mapping);
        }
    }
}

fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let (start, end) = split_pair(word(&mut rest)?, b'-')?;
    let perms = permissions(word(&mut rest)?)?;
    let offset = number(word(&mut rest)?, 16)?;
    let (major, minor) = split_pair(word(&mut rest)?, b':')?;
    let dev = (u32::try_from(major).ok()?, u32::try_from(minor).ok()?);
    let inode = number(word(&mut rest)?, 10)?;
    let name = rest.trim_ascii_start();
    let kind = match name {
        b"" => Kind::Anonymous,
        b"[heap]" => Kind::Heap,
        b"[stack]" => Kind::Stack,
        _ if name.starts_with(b"[anon:") || name.starts_with(b"[stack:") => Kind::Anonymous,
        _ if name.starts_with(b"[") => Kind::Special(text(name)),
        _ => Kind::File(text(name)),
    };
    Some(Mapping { span: Span::of_addresses(start, end), perms, offset, dev, inode, kind })
}

/// Cuts the next word off, words being separated by single or several blanks.
fn word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let line = rest.trim_ascii_start();
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    let (word, after) = line.split_at(end);
    *rest = after;
    (!word.is_empty()).then_some(word)
}

fn split_pair(word: &[u8], separator: u8) -> Option<(u64, u64)> {
    let at = word.iter().position(|&byte| byte == separator)?;
    Some((number(&word[..at], 16)?, number(&word[at + 1..], 16)?))
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok()?;
    // A sign is no digit, though the standard library takes it.
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, radix).ok() }
}

fn permissions(word: &[u8]) -> Option<Permissions> {
    let &[read, write, execute, shared] = word else { return None };
    Some(Permissions {
        read: read == b'r',
        write: write == b'w',
        execute: execute == b'x',
        shared: shared == b's',
    })
}

fn text(name: &[u8]) -> Box<str> {
    String::from_utf8_lossy(name).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use frostline_core::types::Vpn;
    use proptest::prelude::*;

    fn all(text: &str) -> Vec<Mapping> {
        let mut mappings = Vec::new();
        parse(text.as_bytes(), &mut mappings);
        mappings
    }

    fn one(text: &str) -> Mapping {
        all(text).pop().expect("a mapping")
    }

    #[test]
    fn kinds_are_told_by_name_and_rights() {
        let cases = [
            ("00400000-00452000 r-xp 00001000 08:02 173521 /usr/bin/a b (deleted)", false),
            ("00651000-00652000 rw-p 00051000 08:02 173521      /usr/bin/x", false),
            ("00e03000-00e24000 rw-p 00000000 00:00 0           [heap]", true),
            ("35b1800000-35b1820000 rw-p 00000000 00:00 0 ", true),
            ("35b1800000-35b1820000 rw-p 00000000 00:00 0", true),
            ("35b1800000-35b1820000 rw-p 00000000 00:00 0 [anon:my arena]", true),
            ("35b1800000-35b1820000 rwxp 00000000 00:00 0 ", true),
            ("35b1800000-35b1820000 ---p 00000000 00:00 0 ", false),
            ("35b1800000-35b1820000 rw-s 00000000 00:01 55 /dev/zero (deleted)", false),
            ("35b1800000-35b1820000 rw-s 00000000 00:01 55 [anon_shmem:x]", false),
            ("35b1800000-35b1820000 rw-p 00000000 00:0f 55 /anon_hugepage (deleted)", false),
            ("35b1800000-35b1820000 rw-s 00000000 00:05 7 /dev/nvidia0", false),
            ("35b1800000-35b1820000 rw-s 00000000 00:0e 7 anon_inode:[io_uring]", false),
            ("7fffb2c0d000-7fffb2c2e000 rw-p 00000000 00:00 0 [stack]", true),
            ("7fffb2d48000-7fffb2d49000 r-xp 00000000 00:00 0 [vdso]", false),
            ("7fffb2d48000-7fffb2d49000 rw-p 00000000 00:00 0 [uprobes]", false),
            ("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]", false),
        ];
        for (line, tierable) in cases {
            assert_eq!(one(line).is_tierable(), tierable, "{line}");
        }
        let file = one(cases[0].0);
        assert_eq!(file.span, Span::between(Vpn(0x400), Vpn(0x452)));
        assert_eq!((file.offset, file.dev, file.inode), (0x1000, (8, 2), 173_521));
        assert_eq!(file.kind, Kind::File("/usr/bin/a b (deleted)".into()));
        assert_eq!(one(cases[14].0).kind, Kind::Special("[vdso]".into()));
    }

    #[test]
    fn what_comes_twice_counts_once() {
        let mappings =
            all("1000-3000 rw-p 0 00:00 0\n1000-5000 rw-p 0 00:00 0\n2000-4000 rw-p 0 00:00 0\n");
        let spans: Vec<Span> = mappings.iter().map(|mapping| mapping.span).collect();
        assert_eq!(spans, [Span::new(Vpn(1), 2), Span::new(Vpn(3), 2)]);
    }

    #[test]
    fn odd_lines_are_left_out() {
        let odd = [
            "",
            "1000",
            "1000-2000",
            "1000-2000 rw-p",
            "1000-2000 rwp 0 00:00 0",
            "2000-1000 rw-p 0 00:00 0",
            "+1000-2000 rw-p 0 00:00 0",
            "1000-2000 rw-p 0 0000 0",
            "1000-2000 rw-p 0 100000000:00 0",
            "1000-2000 rw-p 0 00:00 x",
            "1000-10000000000000000 rw-p 0 00:00 0",
        ];
        for line in odd {
            assert_eq!(all(line), [], "{line}");
        }
        assert_eq!(all(&format!("{}\n1000-2000 rw-p 0 00:00 0 ", odd.join("\n"))).len(), 1);
    }

    proptest! {
        #[test]
        fn bytes_give_mappings_in_order(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut mappings = Vec::new();
            parse(&bytes, &mut mappings);
            prop_assert!(mappings.windows(2).all(|pair| pair[0].span.end() <= pair[1].span.start));
        }

        #[test]
        fn lines_give_mappings_in_order(
            lines in proptest::collection::vec((0_u64..1 << 36, 0_u64..1 << 36, "[rwxps-]{3,5}", "[\\[/a-z: ]{0,12}"), 0..20),
        ) {
            let mut text = String::new();
            for (start, end, perms, name) in &lines {
                text.push_str(&format!("{start:x}-{end:x} {perms} 0 00:00 0 {name}\n"));
            }
            let mappings = all(&text);
            prop_assert!(mappings.windows(2).all(|pair| pair[0].span.end() <= pair[1].span.start));
            prop_assert!(mappings.iter().all(|mapping| !mapping.span.is_empty()));
        }
    }

    #[test]
    fn own_mappings_are_read() {
        let target = Target::open(&Root::system(), std::process::id()).expect("opens");
        let mut reader = MapsReader::new();
        let mut mappings = Vec::new();
        for _ in 0..2 {
            reader.read(&target, &mut mappings).expect("read");
            let local = 0_u8;
            let page = Vpn(std::ptr::from_ref(&local) as u64 / 4096);
            let stack = mappings.iter().find(|m| m.span.contains(page)).expect("the stack");
            assert!(stack.is_tierable());
            assert!(
                mappings
                    .iter()
                    .any(|m| matches!(&m.kind, Kind::File(path) if path.starts_with('/')))
            );
            assert!(mappings.iter().any(|m| m.kind == Kind::Special("[vdso]".into())));
        }
    }
}
