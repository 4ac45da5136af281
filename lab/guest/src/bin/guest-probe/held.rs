//! A process whose memory is moved while it watches that nothing gets lost.

use anyhow::{Context, Result, bail, ensure};
use frostline_core::span::REGION_PAGES;
use frostline_core::span::Span;
use frostline_core::types::{PAGE_BYTES, Vpn};
use frostline_linux::{Root, Target};
use memmap2::{Advice, MmapMut};
use std::env;
use std::io::{BufRead, BufReader, Read, stdin};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Of what size its pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    Base,
    Huge,
}

/// What it does while it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Sleep,
    /// Counts one up in page after page, and checks each counter before.
    Write,
}

impl Pages {
    const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Huge => "huge",
        }
    }
}

impl FromStr for Pages {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::Base, Self::Huge]
            .into_iter()
            .find(|pages| pages.name() == text)
            .with_context(|| format!("pages '{text}'"))
    }
}

impl Work {
    const fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Write => "write",
        }
    }
}

impl FromStr for Work {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::Sleep, Self::Write]
            .into_iter()
            .find(|work| work.name() == text)
            .with_context(|| format!("work '{text}'"))
    }
}

/// The process, seen from outside.
pub struct Held {
    child: Child,
    pub target: Target,
    /// Its memory: whole regions.
    pub span: Span,
}

impl Held {
    /// Starts one and waits until its memory is filled.
    pub fn start(pages: Pages, mib: u64, work: Work) -> Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args(["hold", pages.name(), &mib.to_string(), work.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut line)?;
        let start = line.trim().parse().with_context(|| format!("it said '{line}'"))?;
        let target = Target::open(&Root::system(), child.id())?;
        Ok(Self { child, target, span: Span::new(Vpn(start), (mib << 20) / PAGE_BYTES) })
    }

    /// One page of each region.
    pub fn regions(&self) -> Vec<Vpn> {
        self.span.whole_regions().map(|region| region.start).collect()
    }

    /// All pages.
    pub fn pages(&self) -> Vec<Vpn> {
        self.span.iter().collect()
    }

    /// Lets it check all its memory, and end.
    pub fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "the process lost memory, see above: {status}");
        Ok(())
    }
}

/// What word `index` of page `page` holds from the start; word 0 is the counter.
const fn word(page: usize, index: usize) -> u64 {
    (page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64) | 1
}

/// The held process itself: fills memory, prints its first page's number, and checks the contents
/// when its standard input is closed.
pub fn hold(pages: Pages, mib: u64, work: Work) -> Result<()> {
    const WORDS: usize = PAGE_BYTES as usize / 8;
    let region_bytes = (REGION_PAGES * PAGE_BYTES) as usize;
    let len_bytes = (mib as usize) << 20;
    let mut map = MmapMut::map_anon(len_bytes + region_bytes)?;
    map.advise(if pages == Pages::Huge { Advice::HugePage } else { Advice::NoHugePage })?;
    let address = map.as_ptr().addr();
    let skipped = address.next_multiple_of(region_bytes) - address;
    let bytes = &mut map[skipped..skipped + len_bytes];
    let start = bytes.as_ptr().addr() as u64 / PAGE_BYTES;
    let memory: &mut [[[u8; 8]; WORDS]] = bytes.as_chunks_mut().0.as_chunks_mut().0;
    for (number, page) in memory.iter_mut().enumerate() {
        for (index, bytes) in page.iter_mut().enumerate() {
            *bytes = word(number, index).to_ne_bytes();
        }
    }
    println!("{start}");

    let ended = Arc::new(AtomicBool::new(false));
    let watch = {
        let ended = Arc::clone(&ended);
        thread::spawn(move || {
            let read = stdin().read_to_end(&mut Vec::new());
            ended.store(true, Ordering::Release);
            read
        })
    };
    let mut rounds = 0_u64;
    let mut lost = 0;
    while work == Work::Write && !ended.load(Ordering::Acquire) {
        for (number, page) in memory.iter_mut().enumerate() {
            let expected = word(number, 0).wrapping_add(rounds);
            lost += usize::from(u64::from_ne_bytes(page[0]) != expected);
            page[0] = expected.wrapping_add(1).to_ne_bytes();
        }
        rounds += 1;
    }
    watch.join().expect("reading does not panic")?;
    for (number, page) in memory.iter().enumerate() {
        let counter = word(number, 0).wrapping_add(rounds);
        let same = |index: usize| if index == 0 { counter } else { word(number, index) };
        let whole = page.iter().enumerate().all(|(i, w)| u64::from_ne_bytes(*w) == same(i));
        lost += usize::from(!whole);
    }
    if lost > 0 || (work == Work::Write && rounds == 0) {
        bail!("{lost} pages were not as they ought to be, after {rounds} rounds of writing");
    }
    Ok(())
}
