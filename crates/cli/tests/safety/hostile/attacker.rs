//! Attacks of another user: the test binary itself, started once more as nobody.
//!
//! Each attempt is told in one line, `attempts: what happened`, and goes on until standard input ends.

use memmap2::MmapOptions;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, Signal};
use rustix::process::{kill_process, pidfd_getfd, pidfd_open, prlimit, setpriority_process};
use std::fs::{self, File};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Which attempt this process is to make.
pub const ORDER: &str = "FROSTLINE_TEST_HOSTILE";
pub const MARK: &str = "attempt: ";
/// Address space that nobody uses: what sanitizers and virtual machines of languages reserve.
pub const RESERVED: usize = 16 << 40;
const USED: usize = 8 << 20;
pub const CONNECTIONS: usize = 250;
/// Leads a terminal: sets its title, and clears it.
pub const NAME: &str = "\x1b]0;t\x07\x1b[2J";

/// Returns at once where the test binary was not started as such.
pub fn serve() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let words: Vec<&str> = order.split(' ').collect();
    let number = |at: usize| words[at].parse::<i32>().expect("a number");
    let mut held = Held::default();
    let told = match words[0] {
        "locks" => held.locks(Path::new("/run/frostline")),
        "writes" => writes(Path::new("/run/frostline")),
        "signals" => signals(number(1)),
        "peeks" => peeks(number(1)),
        "connections" => held.connections(words[1]),
        "textfile" => return exchange(Path::new(words[1]), Path::new(words[2])),
        "name" => {
            fs::write("/proc/self/comm", NAME).map_or_else(|e| e.to_string(), |()| "named".into())
        }
        "reserves" => held.reserve(),
        other => panic!("unknown: {other}"),
    };
    println!("\n{MARK}{told}");
    std::io::stdin().lines().next();
}

/// What is kept for as long as the attempt goes on.
#[derive(Default)]
struct Held {
    files: Vec<File>,
    streams: Vec<TcpStream>,
    memory: Option<memmap2::MmapMut>,
}

impl Held {
    /// Locks all that can be opened.
    fn locks(&mut self, folder: &Path) -> String {
        let (mut opened, mut refused) = (0, 0);
        for path in below(folder) {
            match File::open(&path) {
                Ok(file) => {
                    opened += 1;
                    if file.try_lock().is_ok() {
                        self.files.push(file);
                    }
                }
                Err(_) => refused += 1,
            }
        }
        format!("{opened} opened, {refused} not, {} locked", self.files.len())
    }

    fn connections(&mut self, address: &str) -> String {
        for number in 0..CONNECTIONS {
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            if number % 5 == 0 {
                // A line without an end.
                let _ = stream.write_all(&[b'x'; 4096]);
            }
            self.streams.push(stream);
        }
        format!("{} connections say nothing", self.streams.len())
    }

    fn reserve(&mut self) -> String {
        match MmapOptions::new().len(RESERVED).no_reserve_swap().map_anon() {
            Ok(mut memory) => {
                memory[..USED].fill(1);
                self.memory = Some(memory);
                format!("{} GiB reserved", RESERVED >> 30)
            }
            Err(error) => error.to_string(),
        }
    }
}

/// A folder and all below it that can be seen.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { all.extend(below(&path)) } else { all.push(path) }
    }
    all
}

/// How many of the attempts have succeeded.
fn succeeded(done: impl IntoIterator<Item = bool>) -> String {
    let done: Vec<bool> = done.into_iter().collect();
    format!("{} of {} succeeded", done.iter().filter(|done| **done).count(), done.len())
}

fn writes(folder: &Path) -> String {
    let mut done = Vec::new();
    for path in below(folder) {
        if path.is_dir() {
            let new = path.join("planted");
            done.push(File::create(&new).is_ok());
            done.push(fs::create_dir(&new).is_ok());
            done.push(symlink("/etc/passwd", &new).is_ok());
            done.push(mknodat(CWD, &new, FileType::Fifo, Mode::RWXO, 0).is_ok());
        } else {
            done.push(File::options().append(true).open(&path).is_ok());
            done.push(fs::rename(&path, path.with_extension("away")).is_ok());
            done.push(fs::remove_file(&path).is_ok());
        }
    }
    succeeded(done)
}

fn signals(pid: i32) -> String {
    let pid = Pid::from_raw(pid).expect("a number");
    let signals =
        [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP, Signal::STOP, Signal::USR1];
    succeeded(signals.map(|signal| kill_process(pid, signal).is_ok()))
}

/// Looks into a process, and changes what it may use.
fn peeks(number: i32) -> String {
    let pid = Pid::from_raw(number).expect("a number");
    let file = |name: &str| PathBuf::from(format!("/proc/{number}/{name}"));
    let read = ["mem", "maps", "environ", "pagemap", "syscall", "stack", "auxv"];
    let mut done: Vec<bool> =
        read.map(|name| fs::read(file(name)).is_ok_and(|text| !text.is_empty())).into();
    done.push(fs::read_dir(file("fd")).is_ok());
    for name in ["oom_score_adj", "coredump_filter", "comm", "clear_refs", "mem"] {
        let write = File::options().write(true).open(file(name));
        done.push(write.and_then(|mut file| file.write_all(b"1")).is_ok());
    }
    let pidfd = pidfd_open(pid, PidfdFlags::empty());
    done.push(pidfd.is_ok_and(|fd| pidfd_getfd(fd, 0, PidfdGetfdFlags::empty()).is_ok()));
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    done.push(prlimit(Some(pid), Resource::Nofile, none).is_ok());
    done.push(setpriority_process(Some(pid), 19).is_ok());
    succeeded(done)
}

/// Puts one thing after the other in the place of a file in a folder of ours, until told to end.
fn exchange(path: &Path, precious: &Path) {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::io::stdin().lines().next();
            ends.store(true, Ordering::Relaxed);
        });
        let next = path.with_extension("planted");
        let mut rounds = 0_u64;
        while !ends.load(Ordering::Relaxed) || rounds < 8 {
            let _ = fs::remove_dir(path);
            let _ = fs::remove_file(&next);
            let made = match rounds % 4 {
                0 => symlink(precious, &next).is_ok(),
                1 => mknodat(CWD, &next, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).is_ok(),
                2 => symlink("/dev/zero", &next).is_ok(),
                _ => fs::create_dir(&next).is_ok(),
            };
            let _ = fs::rename(&next, path).or_else(|_| fs::remove_file(path));
            rounds += u64::from(made);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        println!("\n{MARK}{rounds} times exchanged");
    });
}
