//! Injection of a library into a running program that was not started with it.
//!
//! One of its threads, which waits for others in a system call, is stopped, made to call `dlopen`, and
//! waits again as if nothing had been. No other thread is stopped, and nothing stays in the program
//! but the library. It takes no harm when we are killed in the middle.
//!
//! For x86-64 and programs that use the same C library as we do.

#[cfg(target_arch = "x86_64")]
mod frame;
#[cfg(target_arch = "x86_64")]
mod load;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(target_arch = "x86_64")]
mod program;
#[cfg(target_arch = "x86_64")]
mod stack;
#[cfg(target_arch = "x86_64")]
mod waiting;

use frostline_linux::{LinuxError, Target};
use std::path::Path;
use std::time::Duration;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injected {
    /// The library is there.
    Loaded,
    /// The thread took too long, and was let go: it finishes by itself.
    LetGo,
}

/// Looks whether a library can be brought into a program, and changes nothing. Gives the thread that
/// would load it, where one waits now.
///
/// # Errors
/// [`LinuxError::Unsupported`], with the reason, where it cannot.
pub fn look(target: &Target, library: &Path) -> Result<Option<u32>, LinuxError> {
    imp::look(target, library)
}

/// Has a program load a library, given by its whole path. Waits for so long until one of its threads
/// can be taken.
///
/// # Errors
/// [`LinuxError::Unsupported`], with the reason, where it cannot be, or the dynamic linker refuses it;
/// [`LinuxError::Gone`] where the program ends.
pub fn inject(target: &Target, library: &Path, patience: Duration) -> Result<Injected, LinuxError> {
    imp::inject(target, library, patience)
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use super::Injected;
    use super::load::{Done, call_at, load};
    use super::program::Program;
    use super::waiting::Call;
    use frostline_linux::{LinuxError, Target};
    use std::path::Path;
    use std::time::{Duration, Instant};

    /// Between two looks at the threads of a program.
    const LOOK: Duration = Duration::from_millis(10);

    pub fn look(target: &Target, library: &Path) -> Result<Option<u32>, LinuxError> {
        let program = Program::open(target, library)?;
        Ok(candidates(&program)?.first().map(|(tid, _)| *tid))
    }

    pub fn inject(
        target: &Target,
        library: &Path,
        patience: Duration,
    ) -> Result<Injected, LinuxError> {
        let mut program = Program::open(target, library)?;
        let until = Instant::now() + patience;
        let mut why = "none waits in a call in which it holds no lock".to_owned();
        loop {
            program.look_again()?;
            for (tid, call) in candidates(&program)? {
                match load(&program, tid, call)? {
                    Done::Loaded => return Ok(Injected::Loaded),
                    Done::LetGo => return Ok(Injected::LetGo),
                    Done::Refused(text) => {
                        return Err(LinuxError::Unsupported {
                            what: format!(
                                "the program's dynamic linker refuses the library: {text}"
                            ),
                            hint: "its user must be allowed to read and execute the library's file"
                                .into(),
                        });
                    }
                    Done::Unfit(other) => why = other.into(),
                }
            }
            if Instant::now() >= until {
                return Err(LinuxError::Unsupported {
                    what: format!(
                        "no thread of process {} can be made to load the library; the last one: {why}",
                        target.pid()
                    ),
                    hint: "try again when one of its threads waits (for input, a connection, time, or the end \
                           of another thread), or start it with the library: frostline run"
                        .into(),
                });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Threads that wait, those first on whom being stopped leaves no trace.
    fn candidates(program: &Program<'_>) -> Result<Vec<(u32, Call)>, LinuxError> {
        let threads = program.target.threads()?;
        let (root, pid) = (program.target.root(), program.target.pid());
        let is_thread = |number| threads.iter().any(|tid| u64::from(*tid) == number);
        let mut fit = Vec::new();
        for &tid in &threads {
            let text = root.read(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
            let call = Call::parse(&text).and_then(|(call, at)| call_at(program, call, at));
            let is_fit =
                |call: &Call| call.is_fit(|address| program.memory.word(address), is_thread);
            fit.extend(call.filter(is_fit).map(|call| (tid, call)));
        }
        fit.sort_by_key(|(tid, call)| (call.shows(), *tid));
        Ok(fit)
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    use super::Injected;
    use frostline_linux::{LinuxError, Target};
    use std::path::Path;
    use std::time::Duration;

    fn refuse<T>() -> Result<T, LinuxError> {
        Err(LinuxError::Unsupported {
            what: "libraries can be brought into running programs on x86-64 only".into(),
            hint: "start the program with it instead: frostline run".into(),
        })
    }

    pub fn look(_: &Target, _: &Path) -> Result<Option<u32>, LinuxError> {
        refuse()
    }

    pub fn inject(_: &Target, _: &Path, _: Duration) -> Result<Injected, LinuxError> {
        refuse()
    }
}
