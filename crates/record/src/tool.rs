//! Tool: a recorder, found or built.

use crate::error::RecordError;
use crate::kit::Kit;
use crate::options::Options;
use crate::trust::{OTHERS_WRITE, Owners, cache_home, own_folder};
use crate::{qemu, valgrind};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the directory to take the recorder from.
const DIR_VARIABLE: &str = "FROSTLINE_RECORDER_DIR";

/// What records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recorder {
    /// A tool for Valgrind: the quicker one. Threads run in turns.
    #[default]
    Valgrind,
    /// A plugin for QEMU's user mode: runs programs that Valgrind cannot, and threads side by side.
    Qemu,
}

impl Recorder {
    /// All, the default first.
    pub const ALL: [Self; 2] = [Self::Valgrind, Self::Qemu];

    /// As users name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Valgrind => "valgrind",
            Self::Qemu => "qemu",
        }
    }

    fn kit(self) -> &'static Kit {
        match self {
            Self::Valgrind => &valgrind::KIT,
            Self::Qemu => &qemu::KIT,
        }
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Kit {
    fn missing(&self, why: String) -> RecordError {
        let hint = format!("apt-get install {}", self.packages);
        RecordError::NoTool { why, hint }
    }

    fn is_in(&self, dir: &Path) -> bool {
        dir.join(self.binary).is_file()
    }

    /// The folder that the environment names.
    fn in_named(&self, dir: &Path) -> Result<PathBuf, RecordError> {
        if self.is_in(dir) {
            return Ok(Owners::ours().check_whole(dir)?);
        }
        Err(RecordError::NoTool {
            why: format!("{DIR_VARIABLE}={} holds no {}", dir.display(), self.binary),
            hint: format!(
                "unset it, or build there: make -C recorder/{} BUILD={}",
                self.folder,
                dir.display()
            ),
        })
    }

    /// The running program's folder, if it is there.
    fn beside(&self, note: impl Fn(&str)) -> Option<PathBuf> {
        let program = std::env::current_exe().ok()?;
        let dir = program.parent().filter(|dir| self.is_in(dir))?;
        match Owners::of_this_program().check(&dir.join(self.binary)) {
            Ok(_) => Some(dir.to_owned()),
            Err(error) => {
                note(&format!("the recorder beside frostline is not used: {error}"));
                None
            }
        }
    }

    /// Its folder in the cache, where it is built unless it is there.
    fn in_cache(&self, cache: &Path, note: impl Fn(&str)) -> Result<PathBuf, RecordError> {
        let cache = own_folder(cache)?;
        let dir = cache.join(self.cached_name());
        if !self.is_in(&dir) {
            build(self, &cache, &dir, note)?;
        }
        Ok(Owners::ours().check_whole(&dir)?)
    }

    /// A name of its own for each version of the sources and of what they are built against.
    fn cached_name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.sources.hash(&mut hasher);
        let built_against = self.headers.last().map(fs::metadata);
        let stamp =
            built_against.and_then(|meta| meta.and_then(|m| Ok((m.len(), m.modified()?))).ok());
        stamp.hash(&mut hasher);
        format!("recorder-{}-{:016x}", self.folder, hasher.finish())
    }
}

/// The recorder, ready to run.
#[derive(Clone, Debug)]
pub struct Tool {
    recorder: Recorder,
    /// Holds what was built.
    pub(crate) dir: PathBuf,
    /// The program that runs it.
    pub(crate) launcher: PathBuf,
}

impl Tool {
    /// Looks in `FROSTLINE_RECORDER_DIR` (nowhere else if it is set), beside the running program,
    /// and in the user's cache directory; builds it there as a last resort, which takes some
    /// seconds and is told to `note` beforehand. What others can change is not taken.
    ///
    /// # Errors
    /// Where it is not there and cannot be built, where Valgrind or QEMU is missing, and where others
    /// can change what the environment names.
    pub fn find(recorder: Recorder, note: impl Fn(&str)) -> Result<Self, RecordError> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err(RecordError::Platform);
        }
        let kit = recorder.kit();
        let is_file = |path: &&&str| Path::new(path).is_file();
        let launcher = kit.launchers.iter().find(is_file).map(PathBuf::from);
        let supported = kit.support.iter().all(|path| Path::new(path).is_file());
        let Some(launcher) = launcher.filter(|_| supported) else {
            return Err(kit.missing(format!("{} is not installed", kit.called)));
        };
        let dir = match std::env::var_os(DIR_VARIABLE) {
            Some(dir) => kit.in_named(Path::new(&dir))?,
            None => match kit.beside(&note) {
                Some(dir) => dir,
                None => kit.in_cache(&cache_home()?, note)?,
            },
        };
        Ok(Self { recorder, dir, launcher })
    }

    /// Which one it is, of which version: what it is made from is part of the name of its folder.
    /// Two recordings of one program by different ones are not alike to the last record.
    pub fn identity(&self) -> String {
        format!("{} {}", self.signature(), self.dir.display())
    }

    /// Which one it is.
    pub fn recorder(&self) -> Recorder {
        self.recorder
    }

    /// What was built.
    pub(crate) fn binary(&self) -> PathBuf {
        self.dir.join(self.recorder.kit().binary)
    }

    /// Runs `program` (and its arguments) recorded. `pipe` is the descriptor to write to, `logs`
    /// a directory for what the recorder has to say.
    pub(crate) fn command(
        &self,
        options: &Options,
        logs: &Path,
        pipe: i32,
        program: &Path,
        command: &[OsString],
    ) -> Command {
        match self.recorder {
            Recorder::Valgrind => valgrind::command(self, options, logs, pipe, command),
            Recorder::Qemu => qemu::command(self, options, pipe, program, command),
        }
    }

    /// The processor that the program sees, for the trace.
    pub(crate) fn cpu_model(&self) -> String {
        match self.recorder {
            Recorder::Valgrind => valgrind::cpu_model(),
            Recorder::Qemu => qemu::cpu_model(),
        }
    }

    /// Name and version for the trace.
    pub(crate) fn signature(&self) -> String {
        let ours = format!("frostline {} {}", env!("CARGO_PKG_VERSION"), self.recorder);
        match self.recorder {
            Recorder::Valgrind => ours,
            Recorder::Qemu => format!("{ours} {}", qemu::version(&self.launcher)).trim().to_owned(),
        }
    }

    /// The program did not begin.
    pub(crate) fn silent(&self, why: String) -> RecordError {
        RecordError::Silent { why, trial: self.recorder.kit().trial }
    }

    /// How to say that it could not be started.
    pub(crate) fn starting(&self) -> &'static str {
        match self.recorder {
            Recorder::Valgrind => "start Valgrind",
            Recorder::Qemu => "start QEMU",
        }
    }
}

/// Builds it in `dir`, a folder of `cache`, which is ours alone.
fn build(kit: &Kit, cache: &Path, dir: &Path, note: impl Fn(&str)) -> Result<(), RecordError> {
    if let Some(path) = kit.headers.iter().find(|path| !Path::new(path).is_file()) {
        return Err(kit.missing(format!("{path} is missing, which it is built with")));
    }
    note(&format!("building the recorder in {}", dir.display()));
    let failed =
        |why: String| RecordError::Build { dir: dir.to_owned(), why, packages: kit.packages };
    let refused = |source: io::Error| failed(source.to_string());
    // Built aside and renamed, so that two recordings at once do not meet a half-built tool.
    let aside = tempfile::Builder::new().prefix("build-").tempdir_in(cache).map_err(refused)?;
    for (path, text) in kit.sources {
        let path = aside.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(cache)).map_err(refused)?;
        fs::write(path, text).map_err(refused)?;
    }
    let output = Command::new("make")
        .args(["-s", "-C", kit.folder, "BUILD=../tool"])
        .current_dir(aside.path())
        .env_remove("MAKEFLAGS")
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => failed("`make` is not installed".into()),
            _ => refused(error),
        })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = text.lines().rev().take(5).collect();
        return Err(failed(last.into_iter().rev().collect::<Vec<_>>().join("\n")));
    }
    let tool = aside.path().join("tool");
    close_to_others(&tool).map_err(refused)?;
    match fs::rename(tool, dir) {
        // Somebody else was faster; theirs is as good.
        Err(_) if dir.join(kit.binary).is_file() => Ok(()),
        other => other.map_err(refused),
    }
}

/// Takes back what a lenient umask(2) lets others do with a folder and its files.
fn close_to_others(folder: &Path) -> io::Result<()> {
    let close = |path: &Path| {
        let mode = fs::metadata(path)?.permissions().mode() & !OTHERS_WRITE;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    };
    close(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_symlink() {
            close(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_testing::{Requirement, skip};
    use std::os::unix::fs::chown;

    const NOBODY: u32 = 65534;

    /// A recorder that somebody has put into a cache, under the name that everybody can work out.
    fn planted(cache: &Path) -> PathBuf {
        let dir = cache.join(valgrind::KIT.cached_name());
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(valgrind::KIT.binary), "#!/bin/sh\n").unwrap();
        dir
    }

    fn refused(error: RecordError) {
        assert!(matches!(error, RecordError::Untrusted(_)), "{error}");
        assert_eq!(error.exit_code(), 125);
        assert!(error.to_string().contains("\nhint: "), "{error}");
    }

    #[test]
    fn a_recorder_that_others_can_write_is_not_run() {
        let cache = tempfile::tempdir().unwrap();
        let dir = planted(cache.path());
        let find = || valgrind::KIT.in_cache(cache.path(), |_| panic!("built again"));
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&dir, 0o755);
        let binary = dir.join(valgrind::KIT.binary);
        mode(&binary, 0o755);
        assert_eq!(find().unwrap(), dir.canonicalize().unwrap());
        for path in [cache.path(), &dir, &binary] {
            mode(path, 0o777);
            refused(find().unwrap_err());
            mode(path, 0o755);
        }
        mode(&dir, 0o777);
        refused(valgrind::KIT.in_named(&dir).unwrap_err());
    }

    #[test]
    fn a_recorder_that_another_user_has_planted_is_not_run() {
        if !rustix::process::geteuid().is_root() {
            skip(Requirement::Root, "only root can give files to others");
            return;
        }
        let cache = tempfile::tempdir().unwrap();
        let dir = planted(cache.path());
        for path in [dir.join(valgrind::KIT.binary), dir.clone(), cache.path().to_owned()] {
            chown(&path, Some(NOBODY), None).unwrap();
            refused(valgrind::KIT.in_cache(cache.path(), |_| {}).unwrap_err());
            if path != cache.path() {
                refused(valgrind::KIT.in_named(&dir).unwrap_err());
            }
            chown(&path, Some(0), None).unwrap();
        }
    }

    #[test]
    fn what_a_lenient_umask_allows_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink("/dev/null", folder.path().join("link")).unwrap();
        for path in [folder.path(), &file] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        close_to_others(folder.path()).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(Owners::ours().check(&file).is_ok());
    }
}
