//! Holders of files: who has them open.

use super::{FileId, regular};
use crate::{LinuxError, Root, process};
use rustix::fs::{Dir, Mode, OFlags, open};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::{ffi::OsStr, path::Path};

/// Those of some files that a process holds open by a descriptor, any process that we see. All of
/// them where we may not look into one of those. Descriptors that one thread has for itself, those
/// that are on their way between processes, and those of the kernel are not seen.
///
/// # Errors
/// Where `/proc` cannot be listed.
pub fn held_open(root: &Root, files: &BTreeSet<FileId>) -> Result<BTreeSet<FileId>, LinuxError> {
    let mut held = BTreeSet::new();
    for pid in process::pids(root)? {
        if held.len() == files.len() {
            break;
        }
        let path = root.path(format!("/proc/{pid}/fd"));
        let folder =
            open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let folder = match folder {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::SRCH) => continue,
            Err(Errno::ACCESS | Errno::PERM) => return Ok(files.clone()),
            Err(errno) => return Err(LinuxError::io("list", path, &errno.into())),
        };
        // One that ends meanwhile holds nothing.
        let Ok(entries) = Dir::read_from(&folder) else { continue };
        for entry in entries.filter_map(Result::ok) {
            let name = Path::new(OsStr::from_bytes(entry.file_name().to_bytes()));
            if let Some((id, _)) = regular(&folder, name)
                && files.contains(&id)
            {
                held.insert(id);
            }
        }
    }
    Ok(held)
}
