//! System calls in which a thread is taken: what they give is what they would have given.

use super::inject_tests::{End, Line, Program, inject_and_die, possible};
use frostline_core::rng::Rng;
use rustix::fd::AsRawFd;
use rustix::process::{Pid, Signal, kill_process};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Waits that end by themselves.
const MS: i64 = 50;
const TIME: Duration = Duration::from_millis(MS as u64);
/// Between two signals of a timer.
const TICK_US: i64 = 3000;

/// Ways to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Read,
    Poll,
    Select,
    Epoll,
    Receive,
    Accept,
    Child,
    Join,
    Signal,
    PollTime,
    SelectTime,
    EpollTime,
    Sleep,
    SleepUntil,
}

const ALL: [Wait; 14] = [
    Wait::Read,
    Wait::Poll,
    Wait::Select,
    Wait::Epoll,
    Wait::Receive,
    Wait::Accept,
    Wait::Child,
    Wait::Join,
    Wait::Signal,
    Wait::PollTime,
    Wait::SelectTime,
    Wait::EpollTime,
    Wait::Sleep,
    Wait::SleepUntil,
];

impl Wait {
    /// Whether the kernel makes it again after a handler that does not mind (signal(7)).
    fn is_made_again(self) -> bool {
        matches!(self, Self::Read | Self::Receive | Self::Accept | Self::Child | Self::Join)
    }

    /// Whether it ends by itself.
    fn ends(self) -> bool {
        matches!(
            self,
            Self::PollTime | Self::SelectTime | Self::EpollTime | Self::Sleep | Self::SleepUntil
        )
    }
}

/// Runs of the handler in this process.
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handle(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Has a signal handled, with these flags.
fn catch(signal: libc::c_int, flags: libc::c_int) {
    // SAFETY: the handler does one atomic operation; an empty set of signals is all zeros.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &raw const action, ptr::null_mut()), 0);
    }
}

fn begin_ticking() {
    catch(libc::SIGALRM, libc::SA_RESTART);
    let time = libc::timeval { tv_sec: 0, tv_usec: TICK_US };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the kernel reads numbers.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
}

/// What a system call gave: a number, or an error's.
fn result(number: i64) -> Result<i64, i32> {
    if number < 0 {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    } else {
        Ok(number)
    }
}

/// What a program under test waits for, made before it is forked.
struct Things {
    near: UnixStream,
    far: UnixStream,
    listener: UnixListener,
    address: SocketAddr,
}

impl Things {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (near, far) = UnixStream::pair().expect("sockets");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("frostline-{}-{number}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).expect("a name");
        let listener = UnixListener::bind_addr(&address).expect("free");
        Self { near, far, listener, address }
    }
}

/// Waits once.
fn wait_once(wait: Wait, line: &Line, things: &Things) -> Result<i64, i32> {
    let file = line.orders.0.as_raw_fd();
    let mut byte = 0_u8;
    let mut readable = libc::pollfd { fd: file, events: libc::POLLIN, revents: 0 };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: MS * 1_000_000 };
    // SAFETY: the kernel reads and writes local variables, of the sizes that are told, and descriptors that
    // are open.
    result(unsafe {
        match wait {
            Wait::Read => libc::read(file, (&raw mut byte).cast(), 1) as i64,
            Wait::Receive => {
                libc::recv(things.near.as_raw_fd(), (&raw mut byte).cast(), 1, 0) as i64
            }
            Wait::Accept => {
                let fd = things.listener.as_raw_fd();
                let new = libc::accept(fd, ptr::null_mut(), ptr::null_mut());
                if new >= 0 { 1 + i64::from(libc::close(new)) } else { -1 }
            }
            Wait::Poll => libc::poll(&raw mut readable, 1, -1).into(),
            Wait::PollTime => libc::poll(ptr::null_mut(), 0, MS as i32).into(),
            Wait::Select | Wait::SelectTime => {
                let mut files: libc::fd_set = std::mem::zeroed();
                libc::FD_SET(file, &raw mut files);
                let mut time = libc::timeval { tv_sec: 0, tv_usec: MS * 1000 };
                let none = ptr::null_mut();
                if wait == Wait::Select {
                    libc::select(file + 1, &raw mut files, none, none, ptr::null_mut()).into()
                } else {
                    libc::select(0, none, none, none, &raw mut time).into()
                }
            }
            Wait::Epoll | Wait::EpollTime => {
                let epoll = libc::epoll_create1(0);
                let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
                if wait == Wait::Epoll {
                    libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, file, &raw mut event);
                }
                let most = if wait == Wait::Epoll { -1 } else { MS as i32 };
                let number = libc::epoll_wait(epoll, &raw mut event, 1, most);
                let errno = *libc::__errno_location();
                libc::close(epoll);
                *libc::__errno_location() = errno;
                number.into()
            }
            Wait::Child => {
                let own = libc::getpid();
                let child = libc::fork();
                if child == 0 {
                    // Nobody else ends it where the program is killed.
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    if libc::getppid() != own {
                        libc::_exit(2);
                    }
                    libc::read(file, (&raw mut byte).cast(), 1);
                    libc::_exit(1);
                }
                let mut status = 0;
                let ended = libc::wait4(child, &raw mut status, 0, ptr::null_mut());
                if ended == child { libc::WEXITSTATUS(status).into() } else { -1 }
            }
            Wait::Join => {
                let reader = std::thread::spawn(move || {
                    let mut byte = 0_u8;
                    libc::read(file, (&raw mut byte).cast(), 1) as i64
                });
                reader.join().unwrap_or(-1)
            }
            Wait::Signal => {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&raw mut set, libc::SIGUSR2);
                let signal = libc::sigtimedwait(&raw const set, ptr::null_mut(), ptr::null());
                if signal == libc::SIGUSR2 { 1 } else { -1 }
            }
            Wait::Sleep => libc::nanosleep(&raw const time, ptr::null_mut()).into(),
            Wait::SleepUntil => {
                libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
                time.tv_nsec += MS * 1_000_000;
                time.tv_sec += time.tv_nsec / 1_000_000_000;
                time.tv_nsec %= 1_000_000_000;
                let (clock, until) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
                let none = ptr::null_mut();
                let failed = libc::clock_nanosleep(clock, until, &raw const time, none);
                *libc::__errno_location() = failed;
                if failed == 0 { 0 } else { -1 }
            }
        }
    })
}

/// Waits, and again where a handler has ended that; whether all was as it should be.
fn turn(wait: Wait, line: &Line, things: &Things) -> bool {
    let mut right = true;
    loop {
        let (began, handled) = (Instant::now(), HANDLED.load(Ordering::Relaxed));
        let given = wait_once(wait, line, things);
        let ran = HANDLED.load(Ordering::Relaxed) != handled;
        right &= match given {
            Ok(0) if wait.ends() => began.elapsed() >= TIME,
            Ok(1) => !wait.ends(),
            Err(libc::EINTR) => ran && !wait.is_made_again(),
            _ => false,
        };
        if !right || given == Ok(1) || wait.ends() && is_ordered(line) {
            if matches!(wait, Wait::Poll | Wait::Select | Wait::Epoll) || wait.ends() {
                let _ = rustix::io::read(&line.orders.0, &mut [0]);
            }
            return right;
        }
    }
}

fn is_ordered(line: &Line) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut files = [PollFd::new(&line.orders.0, PollFlags::IN)];
    poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
}

/// Ends the program's turn.
fn order(program: &Program, wait: Wait, things: &Things) -> bool {
    match wait {
        Wait::Receive => {
            rustix::io::write(&things.far, b"x").expect("it reads");
        }
        Wait::Accept => drop(UnixStream::connect_addr(&things.address).expect("it listens")),
        Wait::Signal => {
            let pid = Pid::from_raw(program.pid as i32).expect("one");
            kill_process(pid, Signal::USR2).expect("it runs");
        }
        _ => return program.turn(),
    }
    program.report()
}

fn start(wait: Wait, ticks: bool, things: &Things) -> Program {
    let mut began = false;
    Program::start(|line| {
        if !began {
            began = true;
            let mut signal = 1_u64 << (libc::SIGUSR2 - 1);
            let none = ptr::null_mut::<u64>();
            // SAFETY: the kernel reads a number.
            unsafe {
                libc::syscall(libc::SYS_rt_sigprocmask, 0, &raw mut signal, none, 8_usize);
            }
            if ticks {
                begin_ticking();
            }
        }
        turn(wait, line, things)
    })
}

#[test]
fn every_call_gives_what_it_would_have_given() {
    let _forks = frostline_testing::forks();
    let Some(library) = possible() else { return };
    for (wait, ticks) in ALL.into_iter().flat_map(|wait| [(wait, false), (wait, true)]) {
        let things = Things::new();
        let program = start(wait, ticks, &things);
        program.wait_until_taken(&library);
        assert!(order(&program, wait, &things), "{wait:?} {ticks}: before");
        let end = inject_and_die(&program, &library, 0);
        assert_eq!(end, End::Loaded, "{wait:?} {ticks}");
        assert!(program.has(&library));
        for later in 0..3 {
            assert!(order(&program, wait, &things), "{wait:?} {ticks}: {later}");
        }
    }
}

#[test]
fn a_signal_that_comes_meanwhile_interrupts_the_call() {
    let _forks = frostline_testing::forks();
    if possible().is_none() {
        return;
    }
    // It is refused, so that the same program is made to load it again and again.
    let no_library = tempfile::NamedTempFile::new().expect("a file");
    let mut rng = Rng::new(7);
    for wait in [Wait::Read, Wait::Epoll, Wait::PollTime, Wait::Child] {
        let things = Things::new();
        let (mut began, mut seen) = (false, 0);
        // Each turn ends by the handler.
        let program = Program::start(|line| {
            if !began {
                began = true;
                catch(libc::SIGUSR1, 0);
            }
            loop {
                let given = wait_once(wait, line, &things);
                let ran = HANDLED.load(Ordering::Relaxed) - seen;
                seen += ran;
                // Where waits end by themselves, the handler may run between two of them, too.
                match given {
                    Ok(0) if wait.ends() && ran == 0 => {}
                    Ok(0) if wait.ends() => return ran == 1,
                    given => return given == Err(libc::EINTR) && ran == 1,
                }
            }
        });
        let pid = Pid::from_raw(program.pid as i32).expect("one");
        for round in 0..25 {
            let delay = Duration::from_micros(rng.below(12_000));
            program.wait_until_taken(no_library.path());
            let injecting = std::thread::scope(|scope| {
                let injecting = scope.spawn(|| inject_and_die(&program, no_library.path(), 0));
                std::thread::sleep(delay);
                kill_process(pid, Signal::USR1).expect("it runs");
                assert!(program.report(), "{wait:?}, round {round}, after {delay:?}");
                injecting.join().expect("no panic")
            });
            assert_eq!(injecting, End::Refused);
        }
    }
}
