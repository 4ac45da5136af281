//! Files that a user has named to be written, where other users may have put something else.

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, stat};
use rustix::process::geteuid;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// What the sticky bit allows in a folder for all: only who owns a file may replace it.
const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Opens a file to be written from its beginning, made where it is missing. Links, pipes and devices are
/// written to only where nobody but root and the effective user can have put them there: `/dev/stdout`, or a
/// pipe of one's own.
///
/// # Errors
/// `PermissionDenied` where somebody else has put one there; those of open(2).
pub fn create(path: &Path) -> io::Result<File> {
    match File::options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let (there, stat) = look(path)?;
    if is_link(&stat) {
        return File::options().write(true).create(true).truncate(true).open(path);
    }
    // By what was looked at, not by a name that may lead elsewhere by now.
    let there = format!("/proc/thread-self/fd/{}", there.as_raw_fd());
    File::options().write(true).truncate(true).open(there)
}

/// Fails as [`create`] would because of what others have put there, and opens nothing: for a path that is
/// handed on.
///
/// # Errors
/// `PermissionDenied`.
pub fn check(path: &Path) -> io::Result<()> {
    match look(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map(drop),
    }
}

/// What is at the end of a path, not followed.
fn look(path: &Path) -> io::Result<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let there = open(path, flags, Mode::empty())?;
    let stat = fstat(&there)?;
    let own = is_own(&stat);
    let trusted = match FileType::from_raw_mode(stat.st_mode) {
        // Another name of a file is as good as a link.
        FileType::RegularFile => own || stat.st_nlink == 1,
        FileType::Directory => true,
        FileType::Symlink => own && is_kept(path)?,
        _ => own,
    };
    if trusted {
        return Ok((there, stat));
    }
    let what = format!(
        "what is there leads elsewhere, and user {} can have put it there\n\
         hint: remove it, or choose another name",
        stat.st_uid
    );
    Err(io::Error::new(ErrorKind::PermissionDenied, what))
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

fn is_own(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == geteuid().as_raw()
}

/// Whether nobody else can replace what is our own in the folder of this path.
fn is_kept(path: &Path) -> io::Result<bool> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let stat = stat(folder.unwrap_or(Path::new(".")))?;
    let open_to_all = stat.st_mode & WRITABLE_BY_OTHERS != 0 && stat.st_mode & STICKY == 0;
    Ok(is_own(&stat) && !open_to_all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_testing::{Requirement, skip};
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    fn write(path: &Path) -> io::Result<()> {
        check(path)?;
        create(path)?.write_all(b"new")
    }

    #[test]
    fn files_are_made_and_emptied() {
        let folder = folder();
        let path = folder.path().join("a");
        write(&path).expect("a new file");
        fs::write(&path, "something longer").expect("ours");
        write(&path).expect("an old file");
        assert_eq!(fs::read(&path).expect("ours"), b"new");
        assert!(create(folder.path()).is_err(), "a folder");
        assert!(create(&folder.path().join("none/a")).is_err(), "in no folder");
    }

    #[test]
    fn own_links_pipes_and_devices_are_written_to() {
        let folder = folder();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| folder.path().join(name));
        symlink(&file, &link).expect("a link");
        write(&link).expect("it leads nowhere yet");
        write(&link).expect("it leads to a file");
        assert_eq!(fs::read(&file).expect("ours"), b"new");
        assert!(link.is_symlink());
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("a pipe");
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || {
                let mut text = String::new();
                File::open(pipe)?.read_to_string(&mut text).map(|_| text)
            })
        };
        write(&pipe).expect("somebody reads");
        assert_eq!(reader.join().expect("no panic").expect("readable"), "new");
        write(Path::new("/dev/null")).expect("a device of root's");
        assert!(check(Path::new("/dev/stdout")).is_ok());
    }

    #[test]
    fn what_others_have_put_there_is_not_followed() {
        if !geteuid().is_root() {
            return skip(Requirement::Root, "only root can give files to others");
        }
        let folder = folder();
        let [file, link, pipe, other, plain] =
            ["file", "link", "pipe", "other", "plain"].map(|name| folder.path().join(name));
        fs::write(&file, "precious").expect("ours");
        symlink(&file, &link).expect("a link");
        lchown(&link, Some(1), None).expect("we are root");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("a pipe");
        fs::write(&other, "precious").expect("ours");
        fs::hard_link(&other, folder.path().join("name")).expect("another name");
        for path in [&pipe, &other] {
            chown(path, Some(1), None).expect("we are root");
        }
        for path in [&link, &pipe, &other] {
            let error = write(path).expect_err("not ours").to_string();
            assert!(error.contains("user 1 ") && error.contains("\nhint: "), "{error}");
            create(path).expect_err("not ours either");
        }
        fs::write(&plain, "text").expect("ours");
        chown(&plain, Some(1), None).expect("we are root");
        write(&plain).expect("it leads nowhere else");
        // Links of our own are followed unless others can replace them.
        lchown(&link, Some(0), None).expect("we are root");
        let mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode));
        mode(0o777).expect("ours");
        write(&link).expect_err("replaced by anybody");
        assert_eq!(fs::read(&file).expect("ours"), b"precious");
        assert_eq!(fs::read(&other).expect("ours"), b"precious");
        mode(0o1777).expect("ours");
        write(&link).expect("replaced by us alone");
        assert_eq!(fs::read(&file).expect("ours"), b"new");
    }
}
