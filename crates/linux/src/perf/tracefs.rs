//! Descriptions of tracepoints, and of the fields of their records.

use crate::error::LinuxError;
use crate::root::Root;
use std::path::PathBuf;

/// A mounted tracefs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracefs {
    /// Folder below the root, such as `/sys/kernel/tracing`.
    folder: String,
}

impl Tracefs {
    /// Finds where it is mounted, by itself or below debugfs. We mount nothing.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where it is not mounted or may not be read.
    pub fn find(root: &Root) -> Result<Self, LinuxError> {
        let mounts = root.read("/proc/self/mounts")?;
        let folders = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (folder, kind) = (words.next()?, words.next()?);
            match kind {
                "tracefs" => Some(folder.to_owned()),
                "debugfs" => Some(format!("{folder}/tracing")),
                _ => None,
            }
        });
        let mut denied = false;
        for folder in folders {
            match std::fs::read_dir(root.path(format!("{folder}/events"))) {
                Ok(_) => return Ok(Self { folder }),
                Err(error) => denied |= error.kind() == std::io::ErrorKind::PermissionDenied,
            }
        }
        let (what, hint) = if denied {
            ("tracefs may not be read", "run as root")
        } else {
            (
                "tracefs is not mounted: there are no tracepoints",
                "as root, mount -t tracefs tracefs /sys/kernel/tracing",
            )
        };
        Err(LinuxError::Unsupported { what: what.into(), hint: hint.into() })
    }

    /// What records of a tracepoint such as `syscalls/sys_enter_mmap` hold.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where the kernel has no such tracepoint.
    pub fn format(&self, root: &Root, tracepoint: &str) -> Result<Format, LinuxError> {
        let path = format!("{}/events/{tracepoint}/format", self.folder);
        let Some(text) = root.read_optional(&path)? else {
            return Err(LinuxError::Unsupported {
                what: format!("this kernel has no tracepoint {tracepoint}"),
                hint: "syscalls/* needs CONFIG_FTRACE_SYSCALLS, damon/* needs CONFIG_DAMON".into(),
            });
        };
        Format::parse(&text).ok_or_else(|| LinuxError::Malformed {
            path: root.path(&path),
            what: "no description of a tracepoint".into(),
        })
    }

    /// Where it is on the system that the process runs on.
    pub fn path(&self, root: &Root) -> PathBuf {
        root.path(&self.folder)
    }
}

/// What a tracepoint's records hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Number of the tracepoint: its `config`, and the `common_type` of its records.
    pub id: u16,
    fields: Vec<Field>,
}

/// Where a number is in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    name: String,
    offset: usize,
    size: usize,
    signed: bool,
}

impl Format {
    fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let fields = text.lines().filter_map(Field::parse).collect();
        Some(Self { id, fields })
    }

    /// The field of this name.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where there is none, or it is no number.
    pub fn field(&self, name: &str) -> Result<Field, LinuxError> {
        let found = self.fields.iter().find(|field| field.name == name);
        found.filter(|field| matches!(field.size, 1 | 2 | 4 | 8)).cloned().ok_or_else(|| {
            LinuxError::Unsupported {
                what: format!("tracepoint {} has no number '{name}' in this kernel", self.id),
                hint: "another kernel may have it".into(),
            }
        })
    }
}

impl Field {
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim().strip_prefix("field:")?;
        let mut parts = line.split(';').map(str::trim);
        let name = parts.next()?.rsplit([' ', '*']).next()?.to_owned();
        let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
        let (offset, size, signed) = (number("offset:")?, number("size:")?, number("signed:")?);
        Some(Self { name, offset, size, signed: signed != 0 })
    }

    /// The number in a record; negative ones in two's complement. None where the record is too
    /// short.
    pub fn get(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        let fill =
            if self.signed && bytes.last().is_some_and(|b| b & 0x80 != 0) { 0xff } else { 0 };
        let mut wide = [fill; 8];
        wide.get_mut(..self.size)?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(wide))
    }
}

/// Number of the tracepoint that a record belongs to: `common_type`, its first field.
pub fn id_of(record: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(record.get(..2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use proptest::prelude::*;

    const FORMAT: &str = "name: sys_exit_mmap\nID: 173\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:const char * name;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:24;\tsize:16;\tsigned:0;\n\
        \tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n\n\
        print fmt: \"0x%lx\", REC->ret\n";

    #[test]
    fn it_is_found_where_it_is_mounted() {
        let tree = Tree::new();
        tree.file("/proc/self/mounts", "proc /proc proc rw 0 0\n");
        let error = Tracefs::find(tree.root()).expect_err("not mounted").to_string();
        assert!(error.contains("hint: as root, mount -t tracefs"), "{error}");

        tree.file("/proc/self/mounts", "d /sys/kernel/debug debugfs rw 0 0\nx /t tracefs rw 0 0\n");
        tree.file("/t/events/syscalls/sys_exit_mmap/format", FORMAT);
        let tracefs = Tracefs::find(tree.root()).expect("it is mounted");
        assert_eq!(tracefs.path(tree.root()), tree.root().path("/t"));
        let format = tracefs.format(tree.root(), "syscalls/sys_exit_mmap").expect("it is there");
        assert_eq!(format.id, 173);
        let error = tracefs.format(tree.root(), "syscalls/none").expect_err("it is not there");
        assert!(error.to_string().contains("no tracepoint syscalls/none"), "{error}");

        tree.file("/sys/kernel/debug/tracing/events/x/format", FORMAT);
        let tracefs = Tracefs::find(tree.root()).expect("below debugfs");
        assert_eq!(tracefs.path(tree.root()), tree.root().path("/sys/kernel/debug/tracing"));
    }

    #[test]
    fn fields_are_read_with_their_sign() {
        let format = Format::parse(FORMAT).expect("it has a number");
        let record: Vec<u8> =
            [&173u16.to_le_bytes()[..], &[0; 2], &(-7i32).to_le_bytes(), &[9; 8], &[0xfe; 8]]
                .concat();
        let get = |name: &str| format.field(name).expect("a number").get(&record);
        assert_eq!(id_of(&record), Some(173));
        assert_eq!(get("common_type"), Some(173));
        assert_eq!(get("common_pid"), Some(-7i64 as u64));
        assert_eq!(get("name"), Some(0x0909_0909_0909_0909));
        assert_eq!(get("ret"), Some(0xfefe_fefe_fefe_fefe));
        assert!(format.field("comm").is_err() && format.field("comm[16]").is_err());
        assert_eq!(format.field("ret").expect("a number").get(&record[..23]), None);
    }

    proptest! {
        #[test]
        fn any_description_is_read_without_panic(text: String, record: Vec<u8>) {
            if let Some(format) = Format::parse(&text) {
                for field in &format.fields {
                    field.get(&record);
                }
            }
            if let Some(field) = Field::parse(&format!("field:int x; offset:{text}; size:4; signed:1")) {
                field.get(&record);
            }
        }
    }
}
