//! Types of the kernel's structures, of which it tells where their members are (BTF).
//!
//! Source: `Documentation/bpf/btf.rst` and `include/uapi/linux/btf.h` in the kernel.

use crate::error::LinuxError;
use crate::root::Root;

const FILE: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// Bytes of a type, without what depends on its kind, and of a member.
const TYPE: usize = 12;
const MEMBER: usize = 12;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
/// Structures without a name in one another.
const DEEPEST: u32 = 8;

/// See the module.
pub(crate) struct KernelTypes {
    bytes: Vec<u8>,
    names: usize,
    /// Where each type begins; the first has number 1.
    types: Vec<u32>,
}

impl KernelTypes {
    /// Reads the running kernel's.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where it does not tell; where it cannot be understood.
    pub(crate) fn read(root: &Root) -> Result<Self, LinuxError> {
        let path = root.path(FILE);
        let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => LinuxError::Unsupported {
                what: "the kernel does not tell its types".into(),
                hint: "needs CONFIG_DEBUG_INFO_BTF".into(),
            },
            _ => LinuxError::io("read", &path, &error),
        })?;
        let what = "these are no types in BTF".to_owned();
        Self::parse(bytes).ok_or(LinuxError::Malformed { path, what })
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let magic = u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?);
        let header = word(&bytes, 4)?;
        let [from, length, names] = [8, 12, 16].map(|at| word(&bytes, at));
        let mut at = header.checked_add(from?)? as usize;
        let end = at.checked_add(length? as usize)?;
        let names = header.checked_add(names?)? as usize;
        let mut this = Self { bytes, names, types: Vec::new() };
        while at < end {
            this.types.push(at as u32);
            at += TYPE + this.beside(at)?;
        }
        (magic == MAGIC && at == end).then_some(this)
    }

    /// Bytes that belong to a type beside those that all have.
    fn beside(&self, at: usize) -> Option<usize> {
        let (kind, count) = self.kind(at)?;
        Some(match kind {
            1 | 14 | 17 => 4,
            2 | 7..=12 | 16 | 18 => 0,
            3 => 12,
            STRUCT | UNION | 15 | 19 => 12 * count,
            6 | 13 => 8 * count,
            _ => return None,
        })
    }

    /// Kind of a type, and number of its members.
    fn kind(&self, at: usize) -> Option<(u32, usize)> {
        let info = word(&self.bytes, at + 4)?;
        Some((info >> 24 & 31, (info & 0xffff) as usize))
    }

    fn is_named(&self, at: usize, name: &str) -> bool {
        let from = word(&self.bytes, at).map(|name| self.names + name as usize);
        let text = from.and_then(|from| self.bytes.get(from..));
        text.and_then(|text| text.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    /// Offset of a member of a structure, or of one without a name in it (bytes).
    ///
    /// # Errors
    /// Where there is none.
    pub(crate) fn offset(&self, of: &str, member: &str) -> Result<u64, LinuxError> {
        let begins = self.types.iter().map(|at| *at as usize);
        let mut structures = begins.filter(|at| {
            self.kind(*at).is_some_and(|(kind, _)| kind == STRUCT) && self.is_named(*at, of)
        });
        let bits = structures.find_map(|at| self.bits(at, member, DEEPEST));
        bits.filter(|bits| bits % 8 == 0).map(|bits| bits / 8).ok_or_else(|| {
            let what = format!("the kernel's {of} has no {member}");
            LinuxError::Unsupported { what, hint: "take another source of samples".into() }
        })
    }

    fn bits(&self, at: usize, name: &str, deep: u32) -> Option<u64> {
        let (kind, count) = self.kind(at)?;
        if kind != STRUCT && kind != UNION {
            return None;
        }
        // Above 24 bits there is the length of a bit field, where there are such.
        let has_fields = word(&self.bytes, at + 4)? >> 31 == 1;
        (0..count).find_map(|index| {
            let at = at + TYPE + index * MEMBER;
            let [of, offset] = [4, 8].map(|within| word(&self.bytes, at + within));
            let offset = u64::from(if has_fields { offset? & 0x00ff_ffff } else { offset? });
            if self.is_named(at, name) {
                return Some(offset);
            }
            let deep = deep.checked_sub(1).filter(|_| self.is_named(at, ""))?;
            let within = *self.types.get((of? as usize).checked_sub(1)?)?;
            self.bits(within as usize, name, deep).map(|bits| offset + bits)
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: &[u8] = b"\0file\0private\0inner\0other\0";

    /// `struct file { int other; struct { union { long inner; }; int private : 3; }; }`, in which a bit field follows.
    fn types() -> Vec<u8> {
        let name = |text: &str| {
            let text = [b"\0", text.as_bytes(), b"\0"].concat();
            NAMES.windows(text.len()).position(|part| part == text).map_or(0, |at| at as u32 + 1)
        };
        let of = |kind: u32, count: u32| kind << 24 | count;
        let words = [
            &[0, of(1, 0), 8, 64][..],
            &[name("other"), of(UNION, 1), 8, name("inner"), 1, 0],
            &[0, of(UNION, 1), 8, name("inner"), 1, 0],
            &[0, of(STRUCT, 2) | 1 << 31, 16, 0, 3, 0, name("private"), 1, 3 << 24 | 64],
            &[name("other"), of(13, 2), 0, 0, 1, 0, 1],
            &[name("file"), of(STRUCT, 2), 32, name("other"), 1, 0, 0, 4, 128],
        ]
        .concat();
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = [24, 0, types.len() as u32, types.len() as u32, NAMES.len() as u32];
        let header: Vec<u8> = header.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        [&MAGIC.to_le_bytes()[..], &[1, 0], &header, &types, NAMES].concat()
    }

    #[test]
    fn members_are_found_however_deep() {
        let types = KernelTypes::parse(types()).expect("well-formed");
        assert_eq!(types.types.len(), 6);
        let offset = |name| types.offset("file", name).ok();
        assert_eq!(
            (offset("other"), offset("inner"), offset("private")),
            (Some(0), Some(16), Some(24))
        );
        assert_eq!(offset("missing"), None);
        assert!(types.offset("other", "inner").is_err(), "a union, no structure");
        assert!(types.offset("fil", "other").is_err());
    }

    #[test]
    fn the_kernels_own_are_understood() {
        let root = Root::system();
        match KernelTypes::read(&root) {
            Ok(types) => {
                let of = |name| types.offset("list_head", name).expect("every kernel has it");
                assert_eq!((of("next"), of("prev")), (0, 8));
            }
            Err(error) => {
                frostline_testing::skip(frostline_testing::Requirement::PageTables, error)
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_fatal(cut in 0_usize..400, changes in proptest::collection::vec((0_usize..400, any::<u8>()), 0..8)) {
            let mut bytes = types();
            bytes.truncate(cut);
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            if let Some(types) = KernelTypes::parse(bytes) {
                let _ = types.offset("file", "private");
                let _ = types.offset("file", "inner");
            }
        }
    }
}
