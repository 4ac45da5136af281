//! Files that nobody can have planted: what is executed, loaded or believed from a place that the
//! environment names, or that others can work out.
//!
//! Whoever can write a folder puts there what he likes, and whoever owns it can make it writable. The
//! rule is that of StrictModes in sshd_config(5), for every part of a path and every link on the way.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;

/// As many links as the kernel follows (path_resolution(7)).
const MOST_LINKS: u32 = 40;
const STICKY: u32 = 0o1000;
/// Permissions of others than the owner that make a file theirs.
pub(crate) const OTHERS_WRITE: u32 = 0o022;

/// Why a path is not trusted. Texts end with a `hint:` line.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It, or what it lies in, is another user's.
    #[error(
        "{} belongs to another user ({owner}), who could exchange what is in there\n\
         hint: name a place that is your own or root's", path.display()
    )]
    Owner {
        /// What belongs to somebody else.
        path: PathBuf,
        /// That user's number.
        owner: u32,
    },
    /// Others may write it, or what it lies in.
    #[error("{} can be written by others\nhint: chmod go-w {}", path.display(), path.display())]
    Writable {
        /// What can be written.
        path: PathBuf,
    },
    /// The environment names no place at all.
    #[error(
        "neither XDG_CACHE_HOME nor HOME names a whole path, so there is no place to keep files\n\
         hint: name one; for root: XDG_CACHE_HOME=/var/cache frostline ..."
    )]
    NoHome,
    /// It cannot be looked at, or made.
    #[error("{}: {source}\nhint: name a place that is there and can be read", path.display())]
    Io {
        /// What was looked at.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// Users who may own what is trusted: root, whoever runs this program, and others who can make it do
/// what they like anyway.
#[derive(Clone, Debug)]
pub struct Owners(Vec<u32>);

impl Owners {
    /// Root, and the effective user.
    pub fn ours() -> Self {
        Self(vec![0, rustix::process::geteuid().as_raw()])
    }

    /// These, and the owner of the program that runs: who can write that one needs nothing beside it.
    pub fn of_this_program() -> Self {
        let mut owners = Self::ours();
        owners.0.extend(fs::metadata("/proc/self/exe").map(|program| program.uid()));
        owners
    }

    /// The path without links, if none but these users can change what it leads to. A folder with the
    /// sticky bit, such as /tmp, may be passed through: nobody can exchange in there what is another's.
    ///
    /// # Errors
    /// Where others can, or something is not there.
    pub fn check(&self, path: &Path) -> Result<PathBuf, TrustError> {
        let mut ahead: VecDeque<OsString> = VecDeque::new();
        let mut at = PathBuf::from("/");
        let path = std::path::absolute(path).map_err(failed(path))?;
        put_first(&mut ahead, &path);
        let mut links = 0;
        // What is checked before something in it cannot be changed afterwards.
        let mut folder = self.look(&at, None)?;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                at.pop();
                folder = self.look(&at, None)?;
                continue;
            }
            let next = at.join(name);
            let found = self.look(&next, Some(&folder))?;
            if found.is_symlink() {
                links += 1;
                if links > MOST_LINKS {
                    return Err(failed(&next)(rustix::io::Errno::LOOP.into()));
                }
                let to = fs::read_link(&next).map_err(failed(&next))?;
                if to.is_absolute() {
                    at = "/".into();
                    folder = self.look(&at, None)?;
                }
                put_first(&mut ahead, &to);
            } else {
                (at, folder) = (next, found);
            }
        }
        Ok(at)
    }

    /// As [`Self::check`], for a folder with all that is in it.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn check_whole(&self, folder: &Path) -> Result<PathBuf, TrustError> {
        let folder = self.check(folder)?;
        let mut left = vec![folder.clone()];
        while let Some(next) = left.pop() {
            for entry in fs::read_dir(&next).map_err(failed(&next))? {
                let entry = entry.map_err(failed(&next))?;
                match self.check(&entry.path()) {
                    // A link to something that is not there, nor can be put there by others.
                    Err(TrustError::Io { source, .. })
                        if source.kind() == io::ErrorKind::NotFound => {}
                    checked => drop(checked?),
                }
                // Not those that links lead to: what is of use in there is linked itself.
                if entry.file_type().map_err(failed(&next))?.is_dir() {
                    left.push(entry.path());
                }
            }
        }
        Ok(folder)
    }

    /// What is there, if it cannot be changed by others.
    fn look(&self, path: &Path, folder: Option<&Metadata>) -> Result<Metadata, TrustError> {
        let found = fs::symlink_metadata(path).map_err(failed(path))?;
        if !self.0.contains(&found.uid()) {
            return Err(TrustError::Owner { path: path.into(), owner: found.uid() });
        }
        let writable = |meta: &Metadata| meta.mode() & OTHERS_WRITE != 0;
        let passed = found.is_dir() && found.mode() & STICKY != 0;
        // Everybody can write a link; what counts is its folder.
        if writable(&found) && !passed && !found.is_symlink() {
            return Err(TrustError::Writable { path: path.into() });
        }
        // Another name of a file of ours can be put where everybody can write (link(2)).
        match folder {
            Some(folder) if writable(folder) && found.is_file() => {
                Err(TrustError::Writable { path: path.parent().unwrap_or(path).into() })
            }
            _ => Ok(found),
        }
    }
}

/// A folder of our own, without links: it is made for us alone where it is not there.
///
/// # Errors
/// Where others can change what is in it, or it cannot be made.
pub fn own_folder(path: &Path) -> Result<PathBuf, TrustError> {
    let owners = Owners::ours();
    let there = path.ancestors().find(|part| part.symlink_metadata().is_ok());
    // Before something is made in what is somebody else's.
    owners.check(there.unwrap_or(Path::new("/")))?;
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed(path))?;
    owners.check(path)
}

/// A new folder for files that are needed for a while.
///
/// # Errors
/// Where TMPDIR names a place in which others can exchange it, or it cannot be made.
pub fn temporary_folder(prefix: &str) -> Result<TempDir, TrustError> {
    let place = std::env::temp_dir();
    let folder = Owners::ours().check(&place)?;
    tempfile::Builder::new().prefix(prefix).tempdir_in(&folder).map_err(failed(&folder))
}

/// Where the user's files lie that can be made again. It need not be there.
///
/// # Errors
/// Where the environment does not say.
pub fn cache_home() -> Result<PathBuf, TrustError> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    Ok(cache.ok_or(TrustError::NoHome)?.join("frostline"))
}

fn failed(path: &Path) -> impl Fn(io::Error) -> TrustError {
    move |source| TrustError::Io { path: path.into(), source }
}

fn put_first(ahead: &mut VecDeque<OsString>, path: &Path) {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => ahead.push_front(name.to_owned()),
            Component::ParentDir => ahead.push_front("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
