//! Programs that a library can be brought into, and the addresses of the functions that this takes.

use super::memory::Memory;
use super::stack::{SIGRETURN, mapping_of};
use crate::sys::loader;
use frostline_core::types::PAGE_BYTES;
use frostline_linux::process::field;
use frostline_linux::process::maps::{Kind, Mapping, MapsReader};
use frostline_linux::{LinuxError, Root, Target};
use std::ffi::CString;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What helps where nothing else does.
const START_SO: &str = "start it with the library instead: frostline run";

/// A program that the library can be brought into.
#[derive(Debug)]
pub struct Program<'a> {
    /// The process.
    pub target: &'a Target,
    /// Its memory.
    pub memory: Memory,
    /// Its mappings when it was looked at.
    pub mappings: Vec<Mapping>,
    /// Where functions are in it.
    pub functions: Functions,
    /// The library.
    pub library: CString,
    /// How large the first thread's stack may grow, in bytes.
    pub stack_limit: u64,
}

/// Addresses of functions of the program's C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Functions {
    /// For the loader's table.
    pub loader: [(usize, u64); 4],
    /// `mmap`.
    pub mmap: u64,
    /// `getpid`, which does nothing else, and changes no other register.
    pub getpid: u64,
    /// What signal handlers return to.
    pub sigreturn: u64,
}

fn unsupported<T>(what: String, hint: &str) -> Result<T, LinuxError> {
    Err(LinuxError::Unsupported { what, hint: hint.into() })
}

impl<'a> Program<'a> {
    /// Looks at a program; nothing is changed.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where it is not one of those.
    pub fn open(target: &'a Target, library: &Path) -> Result<Self, LinuxError> {
        // A process that is ending looks like many others.
        Self::look(target, library).or_else(|error| target.check_alive().and(Err(error)))
    }

    fn look(target: &'a Target, library: &Path) -> Result<Self, LinuxError> {
        let pid = target.pid();
        check_fit(target)?;
        let memory = Memory::open(target).or_else(|error| match error.errno() {
            Some(libc::EACCES | libc::EPERM) => unsupported(
                format!("process {pid} may not be changed: {error}"),
                "do it as root, outside of containers",
            ),
            Some(libc::ESRCH) => unsupported(
                format!("the first thread of process {pid} has ended by itself"),
                "agents leave such programs alone",
            ),
            _ => Err(error),
        })?;
        check_kind(target)?;
        check_place(target, library)?;
        let mut mappings = Vec::new();
        MapsReader::new().read(target, &mut mappings)?;
        check_absent(target, &mappings, library)?;
        let functions = Functions::find(target, &mappings, &memory)?;
        let library = CString::new(library.as_os_str().as_bytes()).ok();
        let room = loader::BYTES - loader::TABLE - 8 * loader::WORDS;
        let Some(library) = library.filter(|path| path.as_bytes_with_nul().len() <= room) else {
            return unsupported("the library's path is too long".into(), "put it elsewhere");
        };
        let stack_limit = stack_limit(target);
        Ok(Self { target, memory, mappings, functions, library, stack_limit })
    }

    /// What its mappings are now.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn look_again(&mut self) -> Result<(), LinuxError> {
        MapsReader::new().read(self.target, &mut self.mappings)
    }

    /// Contents of the memory from which it loads the library.
    pub fn loader(&self, page: u64) -> Vec<u8> {
        let mut bytes = loader::code().to_vec();
        bytes.resize(loader::TABLE, 0);
        let mut table = [0; loader::WORDS];
        self.functions.loader.iter().for_each(|(place, address)| table[*place] = *address);
        table[loader::PAGE] = page;
        bytes.extend(table.into_iter().flat_map(u64::to_ne_bytes));
        bytes.extend_from_slice(self.library.as_bytes_with_nul());
        bytes
    }
}

/// Whether a thread may make the system calls that it takes, and call functions as we have it do.
pub fn thread_is_free(target: &Target, tid: u32) -> Result<(), &'static str> {
    let path = format!("/proc/{}/task/{tid}/status", target.pid());
    let status = target.root().read(path).unwrap_or_default();
    if field(&status, "Seccomp").is_some_and(|mode| mode != "0") {
        return Err("it has a filter of system calls (seccomp)");
    }
    if field(&status, "x86_Thread_features").is_some_and(|all| all.contains("shstk")) {
        return Err("it has a shadow stack");
    }
    Ok(())
}

/// Programs that others do not depend on, and that are no part of us.
fn check_fit(target: &Target) -> Result<(), LinuxError> {
    let pid = target.pid();
    if pid == 1 {
        return unsupported("process 1 is left alone: the system ends with it".into(), START_SO);
    }
    if target.is_this_process() {
        return unsupported(format!("process {pid} is frostline itself"), "name another process");
    }
    if target.stat()?.is_kernel {
        return unsupported(format!("process {pid} is a thread of the kernel"), "name a program");
    }
    Ok(())
}

/// Programs for this processor, which nobody else traces.
fn check_kind(target: &Target) -> Result<(), LinuxError> {
    const ELF_64: [u8; 5] = [0x7f, b'E', b'L', b'F', 2];
    const X86_64: [u8; 2] = [62, 0];
    let pid = target.pid();
    let mut header = [0; 20];
    let file = fs::File::open(target.root().path(format!("/proc/{pid}/exe")));
    let read = file.and_then(|mut file| file.read_exact(&mut header));
    if read.is_err() || header[..5] != ELF_64 || header[18..] != X86_64 {
        return unsupported(format!("process {pid} runs no 64-bit program for x86"), START_SO);
    }
    let status = target.root().read(format!("/proc/{pid}/status")).unwrap_or_default();
    match field(&status, "TracerPid") {
        Some(tracer) if tracer != "0" => unsupported(
            format!("process {pid} is traced by process {tracer}"),
            "let the debugger go first",
        ),
        _ => Ok(()),
    }
}

/// Programs that know each other, and the library, by the names that we do.
fn check_place(target: &Target, library: &Path) -> Result<(), LinuxError> {
    let (root, pid) = (target.root(), target.pid());
    let space = |pid: u32| fs::read_link(root.path(format!("/proc/{pid}/ns/pid"))).ok();
    if space(pid) != space(std::process::id()) {
        return unsupported(
            format!("process {pid} is in a container: it has another number there"),
            "run frostline in that container",
        );
    }
    let file = |path: &Path| fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let seen =
        root.path(format!("/proc/{pid}/root")).join(library.strip_prefix("/").unwrap_or(library));
    if file(&seen).is_none() || file(&seen) != file(library) {
        return unsupported(
            format!("process {pid} does not see {}", library.display()),
            "it has other mounts than we: put the library where both see it, or run frostline there",
        );
    }
    Ok(())
}

fn check_absent(target: &Target, mappings: &[Mapping], library: &Path) -> Result<(), LinuxError> {
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    let is_ours = |mapping: &Mapping| {
        matches!(&mapping.kind, Kind::File(path) if Path::new(&**path).file_name().is_some_and(
            |file| file.to_string_lossy().starts_with(&*name)))
    };
    if mappings.iter().any(is_ours) {
        return unsupported(
            format!("process {} has the library, which does nothing there", target.pid()),
            "it was told to leave this process alone, or has ended by itself; start the program anew",
        );
    }
    Ok(())
}

/// How large the first thread's stack may grow (proc_pid_limits(5)).
fn stack_limit(target: &Target) -> u64 {
    let limits = target.root().read(format!("/proc/{}/limits", target.pid())).unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max stack size"));
    match line.and_then(|line| line.split_ascii_whitespace().next()) {
        Some("unlimited") => u64::MAX,
        Some(number) => number.parse().unwrap_or(0),
        None => 0,
    }
}

/// What addresses of ours are in the program: that of the same place of the same file.
struct Translation<'a> {
    ours: Vec<Mapping>,
    theirs: &'a [Mapping],
}

impl Translation<'_> {
    fn of(&self, address: usize) -> Option<u64> {
        let address = address as u64;
        let ours = mapping_of(&self.ours, address).filter(|ours| ours.perms.execute)?;
        let offset = ours.offset + address - ours.span.address();
        let theirs = self.theirs.iter().find(|theirs| {
            let end = theirs.offset + theirs.span.pages * PAGE_BYTES;
            let same = (theirs.dev, theirs.inode) == (ours.dev, ours.inode);
            same && theirs.perms.execute && (theirs.offset..end).contains(&offset)
        });
        theirs
            .filter(|_| ours.inode != 0)
            .map(|theirs| theirs.span.address() + offset - theirs.offset)
    }
}

impl Functions {
    /// Where they are in a program that uses the very file that we use as C library.
    fn find(target: &Target, theirs: &[Mapping], memory: &Memory) -> Result<Self, LinuxError> {
        let own = Target::open(&Root::system(), std::process::id())?;
        let mut ours = Vec::new();
        MapsReader::new().read(&own, &mut ours)?;
        let there = Translation { ours, theirs };
        let found = || {
            let errno = there.of(libc::__errno_location as *const () as usize)?;
            let mmap = there.of(libc::mmap as *const () as usize)?;
            Some(Self {
                loader: [
                    (loader::ERRNO, errno),
                    (loader::DLOPEN, there.of(libc::dlopen as *const () as usize)?),
                    (loader::DLERROR, there.of(libc::dlerror as *const () as usize)?),
                    (loader::MUNMAP, there.of(libc::munmap as *const () as usize)?),
                ],
                mmap,
                getpid: there.of(libc::getpid as *const () as usize)?,
                sigreturn: sigreturn(mapping_of(theirs, mmap)?, memory)?,
            })
        };
        let found = found();
        // Whoever has ended has no mappings any more.
        if found.is_none() && !target.is_alive() {
            return Err(LinuxError::Gone { pid: target.pid() });
        }
        found.map_or_else(|| unsupported(
            format!(
                "process {} is linked statically, or uses another C library than frostline: musl, or \
                 one that has been replaced since",
                target.pid()
            ),
            "start the program anew, if its C library was updated; programs without glibc are not reached",
        ), Ok)
    }
}

/// Where the C library's signal handlers return to.
fn sigreturn(library: &Mapping, memory: &Memory) -> Option<u64> {
    let mut code = vec![0; (library.span.pages * PAGE_BYTES) as usize];
    memory.read(library.span.address(), &mut code).ok()?;
    let at = code.windows(SIGRETURN.len()).position(|window| window == SIGRETURN)?;
    Some(library.span.address() + at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_testing::{Requirement, skip};

    #[test]
    fn addresses_are_translated_by_file_and_place() {
        let own = Target::open(&Root::system(), std::process::id()).expect("we run");
        let mut ours = Vec::new();
        MapsReader::new().read(&own, &mut ours).expect("readable");
        let theirs = ours.clone();
        let there = Translation { ours: ours.clone(), theirs: &theirs };
        let mmap = libc::mmap as *const () as usize;
        assert_eq!(there.of(mmap), Some(mmap as u64), "in ourselves, it is where it is");
        let data = &raw const mmap;
        assert_eq!(there.of(data.addr()), None, "no code");
        let none = Translation { ours, theirs: &[] };
        assert_eq!(none.of(mmap), None);
        let memory = Memory::open(&own).expect("ours");
        let functions = Functions::find(&own, &theirs, &memory).expect("the C library is ours");
        assert_eq!(functions.mmap, mmap as u64);
        let mut code = [0; SIGRETURN.len()];
        memory.read(functions.sigreturn, &mut code).expect("code");
        assert_eq!(code, SIGRETURN);
    }

    #[test]
    fn the_first_process_ourselves_and_the_kernel_are_left_alone() {
        let root = Root::system();
        let library = Path::new("/nowhere/lib.so");
        let refused = |pid: u32| {
            let target = Target::open(&root, pid).expect("it runs");
            Program::open(&target, library).expect_err("left alone").to_string()
        };
        assert!(refused(1).contains("process 1 is left alone"), "{}", refused(1));
        let own = std::process::id();
        assert!(refused(own).contains("frostline itself"), "{}", refused(own));
        let pids = frostline_linux::process::pids(&root).expect("readable");
        let is_kernel =
            |pid: &u32| frostline_linux::process::stat(&root, *pid).is_ok_and(|s| s.is_kernel);
        match pids.into_iter().find(is_kernel) {
            Some(pid) => assert!(refused(pid).contains("of the kernel"), "{}", refused(pid)),
            None => skip(Requirement::KernelThreads, "no thread of the kernel is to be seen here"),
        }
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let status = "Name:\tx\nSeccomp_filters:\t3\nSeccomp:\t2\nTracerPid:\t0";
        assert_eq!(field(status, "Seccomp"), Some("2"));
        assert_eq!(field(status, "TracerPid"), Some("0"));
        assert_eq!(field(status, "NSpid"), None);
    }
}
