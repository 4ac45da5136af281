//! Wishes: how much memory of a target shall be fast from now on, said while it is managed.
//!
//! Each is a file in `/run/frostline/wishes`, by the target's [key](Status::key), which whoever may write to
//! `/run/frostline` makes. The frostline concerned looks at it about once a second, and removes it in the end.

use crate::status::Status;
use crate::written::Written;
use frostline_daemon::Limit;
use frostline_linux::{LinuxError, Root, own_files};
use std::fs;

const FOLDER: &str = "/run/frostline/wishes";

/// What is wished for a target; `None` where nothing is, or nothing that can be read.
pub fn of(root: &Root, key: &str) -> Option<Written<Limit>> {
    root.read_optional(format!("{FOLDER}/{key}")).ok()??.parse().ok()
}

/// Wishes that so much of a target's memory is fast; `None` for what it was begun with.
///
/// # Errors
/// Without the right to write there.
pub fn set(root: &Root, target: &Status, fast: Option<&Written<Limit>>) -> Result<(), LinuxError> {
    let Some(fast) = fast else { return clear(root, &target.key()) };
    let file = own_files::folder(root, FOLDER)?.join(target.key());
    own_files::replace(&file, fast.text().as_bytes())
        .map_err(|error| LinuxError::io("write", &file, &error))
}

/// Forgets what is wished for a target.
///
/// # Errors
/// Without the right to.
pub fn clear(root: &Root, key: &str) -> Result<(), LinuxError> {
    let file = root.path(format!("{FOLDER}/{key}"));
    match fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LinuxError::io("remove", &file, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wished_is_read_until_it_is_cleared() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("run")).expect("a folder");
        let root = Root::at(folder.path());
        let target = Status { pid: 7, name: "a/../b".into(), ..Status::default() };
        let other = Status { pid: 7, name: "c".into(), ..Status::default() };
        assert_eq!(of(&root, &target.key()), None);
        for limit in ["25%", "3GiB", "all-4KiB"] {
            let limit: Written<Limit> = limit.parse().expect("a limit");
            set(&root, &target, Some(&limit)).expect("it is written");
            assert_eq!(of(&root, &target.key()).as_ref(), Some(&limit));
            assert_eq!(of(&root, &other.key()), None);
        }
        fs::write(folder.path().join("run/frostline/wishes").join(target.key()), "nonsense")
            .expect("room");
        assert_eq!(of(&root, &target.key()), None);
        set(&root, &target, None).expect("it is cleared");
        set(&root, &target, None).expect("twice");
        assert_eq!(
            fs::read_dir(folder.path().join("run/frostline/wishes")).expect("there").count(),
            0
        );
    }
}
