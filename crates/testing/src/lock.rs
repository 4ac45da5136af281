//! One test at a time of those that set up swap, in all checkouts on this machine: pages go to
//! whichever device was set up last.

use rustix::fs::OFlags;
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const NAME: &str = "frostline-swap-tests.lock";

/// Waits for other tests; held until it is dropped.
///
/// # Panics
/// Where the file in the folder for temporary files is somebody else's, or a link.
pub fn swap_lock() -> File {
    lock(&std::env::temp_dir().join(NAME))
}

/// The folder is everybody's: no link is followed, and only we can open what is made, which is all
/// that it takes to hold such a lock.
fn lock(path: &Path) -> File {
    let mut options = File::options();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.create(true).truncate(false).write(true).mode(0o600).custom_flags(flags.bits() as i32);
    let file = options.open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let metadata = file.metadata().expect("open");
    let own = rustix::process::geteuid().as_raw();
    let is_ours = metadata.is_file() && metadata.uid() == own;
    assert!(is_ours, "{}: not a file of user {own}", path.display());
    // It may be older than this rule.
    file.set_permissions(Permissions::from_mode(0o600)).expect("ours");
    file.lock().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::panic::catch_unwind;

    #[test]
    fn it_is_held_until_it_is_dropped_and_nobody_else_can_open_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        fs::write(&path, "").expect("room");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("ours");
        let held = lock(&path);
        assert_eq!(fs::metadata(&path).expect("made").mode() & 0o777, 0o600);
        let other = File::open(&path).expect("ours");
        assert!(other.try_lock().is_err());
        drop(held);
        assert!(other.try_lock().is_ok());
    }

    #[test]
    fn what_others_put_there_is_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let [link, target] = ["link", "target"].map(|name| folder.path().join(name));
        symlink(&target, &link).expect("room");
        assert!(catch_unwind(|| lock(&link)).is_err());
        assert!(!target.exists(), "the link was followed");
        assert!(catch_unwind(|| lock(folder.path())).is_err());
    }
}
