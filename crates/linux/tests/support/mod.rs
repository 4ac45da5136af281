//! A program with memory whose contents it can check: the test binary itself, started once more.

use frostline_core::span::Span;
use frostline_core::types::PAGE_BYTES;
use frostline_linux::{Root, Target, in_forked_child};
use memmap2::{Advice, MmapMut};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const VARIABLE: &str = "FROSTLINE_TEST_MEMORY";
const PAGE: usize = PAGE_BYTES as usize;
const REGION: usize = 512 * PAGE;
/// What answers begin with, to tell them from what the test harness prints.
const MARK: &str = "memory: ";

/// What the memory is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folios {
    Base,
    Huge,
}

/// The program, seen from the test.
pub struct Memory {
    child: Child,
    to: RefCell<ChildStdin>,
    from: RefCell<BufReader<ChildStdout>>,
    pub target: Target,
    pub span: Span,
}

impl Memory {
    /// Starts the test binary's `serve_memory` with `pages` pages, all written.
    pub fn start(pages: u64, folios: Folios) -> Self {
        let own = std::env::current_exe().expect("a path");
        let mut child = Command::new(own)
            .args(["serve_memory", "--exact", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, format!("{pages} {folios:?}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let to = child.stdin.take().expect("piped");
        let mut from = BufReader::new(child.stdout.take().expect("piped"));
        let start = answer(&mut from).parse().expect("an address");
        let target = Target::open(&Root::system(), child.id()).expect("it runs");
        let span = Span::of_addresses(start, start + pages * PAGE_BYTES);
        assert_eq!(span.pages, pages);
        Self { child, to: to.into(), from: from.into(), target, span }
    }

    /// Sends a command and waits for the answer.
    pub fn ask(&self, command: &str) -> String {
        writeln!(self.to.borrow_mut(), "{command}").expect("it listens");
        answer(&mut *self.from.borrow_mut())
    }

    /// Has it look at all of its memory.
    pub fn verify(&self) {
        assert_eq!(self.ask("verify"), "0 wrong");
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    while from.read_line(&mut line).expect("it answers") > 0 {
        if let Some((_, answer)) = line.split_once(MARK) {
            return answer.trim().to_owned();
        }
        line.clear();
    }
    panic!("it has ended");
}

/// The program itself. Returns at once where the test binary was not started as such.
pub fn serve() {
    let Ok(order) = std::env::var(VARIABLE) else { return };
    let (pages, folios) = order.split_once(' ').expect("two words");
    let bytes = pages.parse::<usize>().expect("a number") * PAGE;
    let mut map = MmapMut::map_anon(bytes + REGION).expect("memory");
    let advice = if folios == "Huge" { Advice::HugePage } else { Advice::NoHugePage };
    map.advise(advice).expect("advised");
    let skip = map.as_ptr().align_offset(REGION);
    let memory = &mut map[skip..skip + bytes];
    for (number, page) in memory.chunks_exact_mut(PAGE).enumerate() {
        fill(page, number as u64, 0);
    }
    let mut versions = vec![0; bytes / PAGE];
    println!("{MARK}{}", memory.as_ptr() as usize);
    let mut copy = None;
    let mut lines = std::io::stdin().lock().lines();
    while let Some(Ok(line)) = lines.next() {
        let answer = match line.as_str() {
            "verify" => format!("{} wrong", wrong(memory, &versions)),
            "write" => {
                let stop = AtomicBool::new(false);
                println!("{MARK}writing");
                std::thread::scope(|scope| {
                    let writer = scope.spawn(|| write_until(&stop, memory, &mut versions));
                    lines.next();
                    stop.store(true, Ordering::Relaxed);
                    writer.join().expect("no panic")
                })
            }
            "fork" => {
                let parent = std::process::id();
                let wait = || {
                    while std::os::unix::process::parent_id() == parent {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    0
                };
                copy = Some(in_forked_child(wait).expect("a copy"));
                "forked".into()
            }
            "end copy" => {
                end(copy.take().expect("forked before"));
                "ended".into()
            }
            other => format!("unknown: {other}"),
        };
        println!("{MARK}{answer}");
    }
    if let Some(copy) = copy {
        end(copy);
    }
}

fn end(copy: u32) {
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
    let pid = Pid::from_raw(copy as i32).expect("a number");
    kill_process(pid, Signal::KILL).expect("ours");
    waitpid(Some(pid), WaitOptions::empty()).expect("ours");
}

/// What a page holds that nobody has written since the program's start.
#[allow(dead_code, reason = "not every test looks at swap devices")]
pub fn contents(page: u64) -> Vec<u8> {
    let mut contents = vec![0; PAGE];
    fill(&mut contents, page, 0);
    contents
}

/// Half of a page is noise and the other half is zero: it compresses to about a half.
fn fill(page: &mut [u8], number: u64, version: u64) {
    let mut state = (number << 20 | version).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for word in page[..PAGE / 2].chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_ne_bytes());
    }
    page[PAGE / 2..].fill(0);
}

fn wrong(memory: &[u8], versions: &[u64]) -> usize {
    let mut expected = vec![0; PAGE];
    let pages = memory.chunks_exact(PAGE).zip(versions).enumerate();
    pages
        .filter(|&(number, (page, &version))| {
            fill(&mut expected, number as u64, version);
            page != expected
        })
        .count()
}

/// Checks and rewrites page after page.
fn write_until(stop: &AtomicBool, memory: &mut [u8], versions: &mut [u64]) -> String {
    let mut expected = vec![0; PAGE];
    let (mut wrong, mut written) = (0_u64, 0_u64);
    // However late it begins.
    while written == 0 || !stop.load(Ordering::Relaxed) {
        let number = (written as usize).wrapping_mul(7919) % versions.len();
        let page = &mut memory[number * PAGE..(number + 1) * PAGE];
        fill(&mut expected, number as u64, versions[number]);
        wrong += u64::from(page != expected);
        versions[number] += 1;
        fill(page, number as u64, versions[number]);
        written += 1;
    }
    format!("{wrong} wrong, written: {}", written > 0)
}
