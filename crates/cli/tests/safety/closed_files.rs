//! Files that a program has closed leave memory under `pet`, and read as before.

use crate::load::load_program;
use crate::support::{EAGER, Run, Running, only_run, text};
use crate::system::{System, number};
use frostline_linux::files::cached::CachedFile;
use frostline_linux::files::{File, FileId};
use frostline_testing::{Requirement, skip};
use rustix::process::Signal;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const BYTES: usize = 24 << 20;

/// Fills a file, which is on the disk and cached then.
fn fill(path: &Path) -> File {
    let mut file = std::fs::File::create(path).expect("room");
    let bytes: Vec<u8> = (0..BYTES as u64).map(|at| (at.wrapping_mul(11) >> 9) as u8).collect();
    file.write_all(&bytes).and_then(|()| file.sync_all()).expect("room");
    let metadata = file.metadata().expect("there");
    let device = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    File { id: FileId { device, inode: metadata.ino() }, path: path.into(), bytes: BYTES as u64 }
}

fn cached_pages(file: &File) -> u64 {
    let open = CachedFile::open(file).expect("still that file");
    open.cached(0..open.pages()).expect("told")
}

/// What became of a program that is done with two files, of which it reads the first again at its
/// end, and how few of their pages were cached meanwhile.
struct Seen {
    run: Run,
    told: String,
    least: [u64; 2],
}

/// Runs until `enough` of them, or for a minute.
fn under(policy: &str, files: &[File; 2], enough: impl Fn([u64; 2]) -> bool) -> Option<Seen> {
    let folder = tempfile::tempdir().expect("a folder");
    let (summary, output) = (folder.path().join("summary.json"), folder.path().join("output"));
    // `pet` needs tracefs, which not every system has mounted.
    let mounted = "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; exec \"$@\"";
    let closes = "sleep 2; exec 3<\"$1\"; exec 3<&-; shift; exec \"$@\"";
    let errors = folder.path().join("errors");
    let file = |path| std::fs::File::create(path).expect("room");
    let mut command = Command::new("unshare");
    command
        .args(["-m", "--propagation", "private", "sh", "-c", mounted, "sh"])
        .args([env!("CARGO_BIN_EXE_frostline"), "run", "--slow", "zram:size=64MiB", "--policy"])
        .arg(format!("{policy}:sampling=200ms:scan=1s:temporary=8MiB:max-block=32MiB"))
        .args(EAGER.split(' '))
        .arg("--summary")
        .arg(&summary)
        .args(["--", "sh", "-c", closes, "sh"])
        .arg(&files[1].path)
        .arg(load_program())
        .args("--json --size 32MiB --checksums --seconds 60 --input".split(' '))
        .arg(&files[0].path)
        .stdout(file(&output))
        .stderr(file(&errors));
    let mut running = Running::start(&mut command);
    let (mut least, mut asked) = ([u64::MAX; 2], false);
    while !running.has_ended() {
        for (least, file) in least.iter_mut().zip(files) {
            *least = cached_pages(file).min(*least);
        }
        if !asked && enough(least) {
            asked = true;
            running.signal(Signal::INT);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let read = |path| std::fs::read(path).expect("there");
    let (stdout, stderr, status) = (read(&output), read(&errors), running.end());
    let told = text(&stderr);
    if told.contains("tracefs is not mounted") || told.contains("unshare failed") {
        skip(Requirement::Tracefs, told);
        return None;
    }
    let summary = std::fs::read(&summary).unwrap_or_else(|_| panic!("no tiering: {told}"));
    let run = Run { output: Output { status, stdout, stderr }, summary: only_run(&summary) };
    Some(Seen { run, told, least })
}

#[test]
fn closed_files_leave_memory_unless_somebody_holds_them_open() {
    let Some(system) = System::take() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let files = ["closed", "held"].map(|name| fill(&folder.path().join(name)));
    let held = std::fs::File::open(&files[1].path).expect("there");
    let all = (BYTES / 4096) as u64;
    assert!(files.iter().all(|file| cached_pages(file) > all / 2));
    let Some(seen) = under("pet", &files, |least| least[0] == 0) else { return };
    seen.run.whole();
    let Seen { run, told, least } = seen;
    if told.contains("files stay where they are") {
        return skip(Requirement::Closings, told);
    }
    let account = &run.summary["accounts"]["files"];
    assert_eq!(least[0], 0, "{told}: {:#}", run.summary);
    // That of one file, and perhaps of a library that the shell had; with the held one it would be two. How
    // much of that stays in memory does not tell: the kernel drops what is idle of its own accord.
    let verified = number(account, "verified_bytes");
    assert!((BYTES / 2..BYTES * 3 / 2).contains(&(verified as usize)), "{:#}", run.summary);
    assert!(told.contains("closed files: "), "{told}");
    drop(held);

    let files = ["closed", "held"].map(|name| fill(&folder.path().join(name)));
    let began = Instant::now();
    let long = |_| began.elapsed() > Duration::from_secs(10);
    let Some(seen) = under("pet-nofile", &files, long) else { return };
    seen.run.whole();
    assert!(seen.least.iter().all(|least| *least > all / 2), "{:?}: {}", seen.least, seen.told);
    assert_eq!(number(&seen.run.summary["accounts"]["files"], "attempted_bytes"), 0);
    system.finish();
}
