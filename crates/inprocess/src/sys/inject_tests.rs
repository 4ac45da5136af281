//! Programs that are made to load a library while they wait, and must not notice, whenever whoever
//! does it is killed.

use crate::inject::{Injected, inject, look};
use frostline_linux::process::maps::{Kind, MapsReader};
use frostline_linux::{Root, Target, in_forked_child};
use frostline_testing::death;
use frostline_testing::{Requirement, skip};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::arch::asm;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(60);
const WRONG: u8 = b'n';
const RIGHT: u8 = b'y';
const QUIT: u8 = b'q';

/// A library that this process has not loaded, of the same system or in this folder.
fn library() -> Option<PathBuf> {
    let own = Target::open(&Root::system(), std::process::id()).expect("we run");
    let mut mappings = Vec::new();
    MapsReader::new().read(&own, &mut mappings).expect("readable");
    let names: Vec<&str> = mappings
        .iter()
        .filter_map(|mapping| match &mapping.kind {
            Kind::File(path) => Some(&**path),
            _ => None,
        })
        .collect();
    let libc = names.iter().find(|path| path.contains("/libc.so") || path.contains("/libc-"));
    let folder = Path::new(libc.expect("a C library")).parent().expect("a folder");
    let files = ["libresolv.so.2", "libm.so.6", "libanl.so.1", "libutil.so.1"];
    let here = std::env::current_dir().expect("a folder");
    let mut files = [folder, &here].into_iter().flat_map(|folder| files.map(|f| folder.join(f)));
    let free = |path: &PathBuf| path.exists() && !names.iter().any(|name| Path::new(name) == path);
    files.find(free)
}

/// Two pipes: from the test, and to it.
pub struct Line {
    pub orders: (OwnedFd, OwnedFd),
    reports: (OwnedFd, OwnedFd),
}

impl Line {
    fn new() -> Self {
        let pipe = || rustix::pipe::pipe().expect("a pipe");
        Self { orders: pipe(), reports: pipe() }
    }
}

/// A process under test, killed at the end.
pub struct Program {
    pub pid: u32,
    pub line: Line,
}

impl Drop for Program {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.pid as i32);
        let _ = kill_process(pid.expect("one"), Signal::KILL);
        let _ = waitpid(pid, WaitOptions::empty());
    }
}

impl Program {
    /// It does this over and over; each time it says whether all was as it should be.
    pub fn start(mut turn: impl FnMut(&Line) -> bool) -> Self {
        let line = Line::new();
        let mut work = || {
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            loop {
                let right = turn(&line);
                let report = [if right { RIGHT } else { WRONG }];
                rustix::io::write(&line.reports.1, &report).expect("the test reads");
            }
        };
        let pid = in_forked_child(|| -> u8 { work() }).expect("another process is possible");
        Self { pid, line }
    }

    pub fn target(&self) -> Target {
        Target::open(&Root::system(), self.pid).expect("it runs")
    }

    /// Its next report.
    pub fn report(&self) -> bool {
        let time = Timespec { tv_sec: TIMEOUT.as_secs() as i64, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.line.reports.0, PollFlags::IN)];
        assert_eq!(poll(&mut fds, Some(&time)), Ok(1), "it does not go on: {:?}", self.state());
        let mut report = [0];
        rustix::io::read(&self.line.reports.0, &mut report).expect("a report");
        report == [RIGHT]
    }

    fn state(&self) -> Option<char> {
        frostline_linux::process::stat(&Root::system(), self.pid).ok().map(|stat| stat.state)
    }

    /// Has it finish a turn, in which it waits for this.
    pub fn turn(&self) -> bool {
        rustix::io::write(&self.line.orders.1, b"x").expect("it reads");
        self.report()
    }

    pub fn has(&self, library: &Path) -> bool {
        let mut mappings = Vec::new();
        MapsReader::new().read(&self.target(), &mut mappings).expect("readable");
        let name = library.to_str().expect("a text");
        mappings.iter().any(|mapping| mapping.kind == Kind::File(name.into()))
    }

    /// Returns when it waits so that it could be taken.
    pub fn wait_until_taken(&self, library: &Path) {
        let until = Instant::now() + TIMEOUT;
        while look(&self.target(), library).expect("it is fit") != Some(self.pid) {
            assert!(Instant::now() < until, "it does not wait");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Memory that a loader was put into.
    fn loaders(&self) -> usize {
        let mut mappings = Vec::new();
        MapsReader::new().read(&self.target(), &mut mappings).expect("readable");
        let is_code = |mapping: &&frostline_linux::process::maps::Mapping| {
            mapping.kind == Kind::Anonymous && mapping.perms.execute
        };
        mappings.iter().filter(is_code).count()
    }
}

/// How a process that injects has ended: by its own, or killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Loaded,
    LetGo,
    Denied,
    Refused,
    Killed,
}

/// Injects from a process of its own, which is killed before its request of this number; 0 for never.
pub fn inject_and_die(program: &Program, library: &Path, requests: u32) -> End {
    let pid = in_forked_child(|| {
        death::STEPS.store(requests, Ordering::Relaxed);
        match inject(&program.target(), library, TIMEOUT) {
            Ok(Injected::Loaded) => 0,
            Ok(Injected::LetGo) => 2,
            Err(error) if error.is_denied() => 3,
            Err(error) if error.to_string().contains("refuses the library") => 5,
            Err(error) => {
                // By hand: the standard stream may be locked by another thread of the test.
                let _ = rustix::io::write(rustix::stdio::stderr(), format!("{error}\n").as_bytes());
                4
            }
        }
    });
    let pid = Pid::from_raw(pid.expect("another process is possible") as i32);
    let (_, status) = waitpid(pid, WaitOptions::empty()).expect("ours").expect("it has ended");
    match status.exit_status() {
        Some(0) => End::Loaded,
        Some(2) => End::LetGo,
        Some(3) => End::Denied,
        Some(5) => End::Refused,
        None => End::Killed,
        other => panic!("{other:?}"),
    }
}

/// The library to inject, where that can be done.
pub fn possible() -> Option<PathBuf> {
    let Some(library) = library() else {
        skip(Requirement::Inject, "no library of this system that we have not loaded");
        return None;
    };
    let program = Program::start(|line| read_with_full_registers(line).is_some());
    if inject_and_die(&program, &library, 0) == End::Denied {
        skip(Requirement::Inject, "no right to trace other processes");
        return None;
    }
    Some(library)
}

/// What a thread has besides memory.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Own {
    blocked: u64,
    other_stack: (usize, usize, i32),
    errno: i32,
}

fn own() -> Own {
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let mut blocked = 0_u64;
    // SAFETY: plain memory, valid when zero, into which the kernel writes as much as there is room for.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(ptr::null(), &raw mut stack);
        let none = ptr::null::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, 0, none, &raw mut blocked, 8_usize);
        Own { blocked, other_stack: (stack.ss_sp.addr(), stack.ss_size, stack.ss_flags), errno }
    }
}

/// Reads an order, while every register that the kernel keeps holds something; what was read, where
/// they were as before.
fn read_with_full_registers(line: &Line) -> Option<u8> {
    let file = line.orders.0.as_raw_fd();
    let mut order = 0_u8;
    let mut result = libc::SYS_read;
    let words: [u64; 8] = std::array::from_fn(|at| 0x0101_0101_0101_0101 * (at as u64 + 1));
    let mut kept = [0_u64; 8];
    let (mut control, mut control_after) = (0x9fc0_u32, 0_u32);
    // SAFETY: the kernel writes one byte, for which there is room, and destroys rcx and r11. The rounding
    // of floating point is put back; all other registers that change are named.
    unsafe {
        asm!(
            "sub rsp, 16",
            "stmxcsr [rsp]",
            "ldmxcsr [{control}]",
            "mov r8, [{words}]",
            "mov r9, [{words} + 8]",
            "mov r10, [{words} + 16]",
            "mov r12, [{words} + 24]",
            "mov r13, [{words} + 32]",
            "movq xmm0, [{words} + 40]",
            "movq xmm7, [{words} + 48]",
            "movq xmm15, [{words} + 56]",
            "syscall",
            "mov [{kept}], r8",
            "mov [{kept} + 8], r9",
            "mov [{kept} + 16], r10",
            "mov [{kept} + 24], r12",
            "mov [{kept} + 32], r13",
            "movq [{kept} + 40], xmm0",
            "movq [{kept} + 48], xmm7",
            "movq [{kept} + 56], xmm15",
            "stmxcsr [{control_after}]",
            "ldmxcsr [rsp]",
            "add rsp, 16",
            words = in(reg) words.as_ptr(),
            kept = in(reg) kept.as_mut_ptr(),
            control = in(reg) &raw mut control,
            control_after = in(reg) &raw mut control_after,
            inout("rax") result,
            in("rdi") file,
            in("rsi") &raw mut order,
            in("rdx") 1,
            out("rcx") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _, out("r12") _,
            out("r13") _, out("xmm0") _, out("xmm7") _, out("xmm15") _,
        );
    }
    // Exceptions that have been seen are bits of the same word.
    let same = kept == words && control_after & !0x3f == control & !0x3f;
    (result == 1 && same).then_some(order)
}

/// A turn of a program that checks all that belongs to its thread, and 1 MiB of memory.
pub fn careful_turns() -> impl FnMut(&Line) -> bool {
    let stack = vec![0_u8; 64 << 10].leak();
    let content = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let memory: Vec<u64> = (0..1 << 17).map(content).collect();
    let mut began = false;
    move |line| {
        if !began {
            began = true;
            // SAFETY: the memory is given away for ever, and nothing else uses it; a set of signals is
            // a number.
            unsafe {
                let other = libc::stack_t {
                    ss_sp: stack.as_mut_ptr().cast(),
                    ss_flags: 0,
                    ss_size: stack.len(),
                };
                libc::sigaltstack(&raw const other, ptr::null_mut());
                let blocked = 1_u64 << (libc::SIGUSR2 - 1);
                let none = ptr::null_mut::<u64>();
                libc::syscall(libc::SYS_rt_sigprocmask, 0, &raw const blocked, none, 8_usize);
                *libc::__errno_location() = libc::EXDEV;
            }
        }
        let before = own();
        let order = read_with_full_registers(line);
        let after = own();
        let whole = memory.iter().zip(0_u64..).all(|(word, at)| *word == content(at));
        if order == Some(QUIT) {
            return false;
        }
        order.is_some() && before == after && before.errno == libc::EXDEV && whole
    }
}

#[test]
fn a_program_does_not_notice_that_it_loads_a_library() {
    let _forks = frostline_testing::forks();
    let Some(library) = possible() else { return };
    let program = Program::start(careful_turns());
    assert!(program.turn());
    assert!(!program.has(&library));
    program.wait_until_taken(&library);
    let target = program.target();
    assert!(!program.has(&library), "looking changes nothing");
    assert_eq!(inject_and_die(&program, &library, 0), End::Loaded);
    assert!(program.has(&library));
    assert_eq!(program.loaders(), 0, "nothing else stays");
    assert!(program.turn() && program.turn());
    let again = inject(&target, &library, TIMEOUT).expect_err("it is there");
    assert!(again.to_string().contains("has the library"), "{again}");
    let none = inject(&target, Path::new("/nowhere/lib.so"), TIMEOUT).expect_err("not there");
    assert!(none.to_string().contains("does not see"), "{none}");
    // What is no library is refused by the dynamic linker, and nothing else happens.
    let text = tempfile::NamedTempFile::new().expect("a file");
    let refused = inject(&target, text.path(), TIMEOUT).expect_err("no library");
    assert!(refused.to_string().contains("too short"), "{refused}");
    assert!(program.turn());
    assert_eq!(program.loaders(), 0);
}

#[test]
fn whoever_injects_may_be_killed_at_any_step() {
    let _forks = frostline_testing::forks();
    let Some(library) = possible() else { return };
    let (mut before, mut after) = (0, 0);
    let mut program = Program::start(careful_turns());
    for step in 1.. {
        let end = inject_and_die(&program, &library, step);
        assert!(program.turn(), "killed before request {step}: something is not as it was");
        assert!(program.turn(), "killed before request {step}: later");
        // The thread was not waiting for us any more, so it has finished what we began.
        let loaded = program.has(&library);
        if end == End::Loaded {
            assert!(loaded && before > 10 && after > 10, "{before} {after}");
            return;
        }
        assert_eq!(end, End::Killed);
        *if loaded { &mut after } else { &mut before } += 1;
        if loaded || program.loaders() > 0 {
            program = Program::start(careful_turns());
        }
    }
}
