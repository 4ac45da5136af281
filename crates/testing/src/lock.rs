//! One test at a time of those that set up swap, in all checkouts on this machine: pages go to
//! whichever device was set up last.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Only the superuser makes folders where this one is, and only who has made it gets into it.
const FOLDER: &str = "/run/frostline-tests";
/// Longer than a test takes, and the others that have come before it.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// Waits for other tests; held until it is dropped. For the superuser, as is all that swap takes.
///
/// # Panics
/// Where the folder of the lock cannot be made or is not ours alone, and where others hold the lock
/// for half an hour.
pub fn swap_lock() -> File {
    lock(Path::new(FOLDER), TIMEOUT)
}

fn lock(folder: &Path, patience: Duration) -> File {
    let made = match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    let found = made.and_then(|()| fs::symlink_metadata(folder)).expect("a folder for the lock");
    let own = rustix::process::geteuid().as_raw();
    let is_ours = found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0;
    assert!(is_ours, "{}: not a folder of user {own} alone", folder.display());
    let mut options = File::options();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(folder.join("swap")).expect("our folder");
    // Who waits in the call comes next; who looks now and then may never.
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(file.lock().map(|()| file)));
    let held = told.recv_timeout(patience);
    let held = held.unwrap_or_else(|_| panic!("{}: held for {patience:?}", folder.display()));
    held.expect("it can be locked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::panic::catch_unwind;

    const SOON: Duration = Duration::from_millis(100);

    #[test]
    fn it_is_held_until_it_is_dropped_and_waited_for_so_long() {
        let above = tempfile::tempdir().expect("a folder");
        let folder = above.path().join("locks");
        let held = lock(&folder, TIMEOUT);
        assert_eq!(fs::metadata(&folder).expect("made").mode() & 0o777, 0o700);
        assert!(catch_unwind(|| lock(&folder, SOON)).is_err());
        drop(held);
        lock(&folder, TIMEOUT);
    }

    #[test]
    fn a_folder_that_others_may_use_is_not_taken() {
        let above = tempfile::tempdir().expect("a folder");
        let [link, open] = ["link", "open"].map(|name| above.path().join(name));
        symlink(above.path(), &link).expect("room");
        fs::create_dir(&open).expect("room");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("ours");
        for folder in [link, open] {
            assert!(catch_unwind(|| lock(&folder, SOON)).is_err(), "{}", folder.display());
        }
        assert!(!above.path().join("swap").exists());
    }
}
