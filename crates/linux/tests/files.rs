//! Closed files, who holds them, and what is cached of them, in folders of our own.

use frostline_core::event::MoveOutcome;
use frostline_linux::files::File;
use frostline_linux::files::cached::CachedFile;
use frostline_linux::files::closings::Closings;
use frostline_linux::files::holders::held_open;
use frostline_linux::topology::Topology;
use frostline_linux::{LinuxError, Root, Target};
use frostline_testing::{Requirement, skip, wait_for, wait_until};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const PAGES: u64 = 300;

fn contents(seed: u64) -> Vec<u8> {
    (0..PAGES * 4096 - 100).map(|at| (at.wrapping_mul(seed) >> 7) as u8).collect()
}

/// Writes a file, on the disk when this returns.
fn write(path: &Path, contents: &[u8]) {
    let mut file = std::fs::File::create(path).expect("room");
    file.write_all(contents).expect("room");
    file.sync_all().expect("a disk");
}

/// The closings that are heard of files in a folder; `None` where this system tells of none.
fn closings(folder: &Path) -> Option<Closings> {
    let mut closings = match Closings::new() {
        Ok(closings) => closings,
        Err(error) => {
            assert!(matches!(error, LinuxError::Unsupported { .. }), "{error}");
            skip(Requirement::Closings, error);
            return None;
        }
    };
    closings.watch(&Root::system(), std::process::id());
    write(&folder.join("probe"), b"x");
    // A program that is just being started has what we have open, and may be the last to close it.
    if !(0..50).any(|_| closes(&mut closings, &folder.join("probe")).is_some()) {
        let why = format!("{} is on no disk that can be watched", folder.display());
        skip(Requirement::Closings, why);
        return None;
    }
    Some(closings)
}

/// The last closing of a file by this process that was not heard before.
fn heard(closings: &mut Closings, path: &Path) -> Option<File> {
    let inode = std::fs::metadata(path).map_or(0, |metadata| metadata.ino());
    let mut found = None;
    let closed = |file: &File| file.id.inode == inode || file.path == path;
    closings
        .poll(|closing| {
            let ours = closing.pid() == std::process::id();
            found = closing.file().filter(|file| ours && closed(file)).or(found.take());
            true
        })
        .expect("it is told");
    found
}

/// Opens and closes a file; that closing, if it was ours.
fn closes(closings: &mut Closings, path: &Path) -> Option<File> {
    drop(std::fs::File::open(path).expect("there"));
    heard(closings, path)
}

/// A file, once its closing is told.
fn closed(closings: &mut Closings, path: &Path) -> File {
    wait_for("a closing is told", || closes(closings, path).ok_or_else(String::new))
}

#[test]
fn closings_are_told_and_files_that_are_held_open_are_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut closings) = closings(folder.path()) else { return };
    let path = folder.path().join("a file");
    write(&path, &contents(3));
    let file = closed(&mut closings, &path);
    assert_eq!((file.path.as_path(), file.bytes), (path.as_path(), PAGES * 4096 - 100));

    let root = Root::system();
    let asked = BTreeSet::from([file.id]);
    let held = std::fs::File::open(&path).expect("there");
    assert_eq!(held_open(&root, &asked).expect("readable"), asked);
    assert_eq!(heard(&mut closings, &path), None);
    drop(held);
    wait_until("nobody has it", || held_open(&root, &asked).expect("readable").is_empty());
    assert_eq!(closed(&mut closings, &path), file);
    let _folder = std::fs::File::open(folder.path()).expect("there");
    drop(_folder);
    assert_eq!(heard(&mut closings, folder.path()), None, "a folder is no file");
}

#[test]
fn what_is_cached_is_dropped_and_contents_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut closings) = closings(folder.path()) else { return };
    let path = folder.path().join("file");
    write(&path, &contents(5));
    let file = closed(&mut closings, &path);
    assert_eq!(std::fs::read(&path).expect("there"), contents(5));
    let cached = CachedFile::open(&file).expect("the same file");
    assert_eq!(cached.pages(), PAGES);
    // The kernel drops some of its own accord, if seldom.
    assert!(cached.cached(0..PAGES).expect("told") > 0);
    let dropped = cached.drop_cache(10..20).expect("a disk");
    // A large folio goes only as a whole.
    assert!(dropped.gone + dropped.kept <= 10, "{dropped:?}");

    wait_until("nothing is cached", || {
        let rest = cached.drop_cache(0..PAGES).expect("a disk");
        (rest.kept, cached.cached(0..PAGES).expect("told")) == (0, 0)
    });
    assert_eq!(std::fs::read(&path).expect("there"), contents(5));
}

#[test]
fn pages_that_a_program_has_mapped_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut closings) = closings(folder.path()) else { return };
    let path = folder.path().join("sleep");
    std::fs::copy("/bin/sleep", &path).expect("there");
    std::fs::File::open(&path).and_then(|file| file.sync_all()).expect("a disk");
    let file = closed(&mut closings, &path);
    let mut program = std::process::Command::new(&path).arg("100").spawn().expect("it starts");
    let exe = format!("/proc/{}/exe", program.id());
    while std::fs::read_link(&exe).is_ok_and(|exe| exe != path) {
        std::thread::yield_now();
    }
    let cached = CachedFile::open(&file).expect("the same file");
    let drop_all = || cached.drop_cache(0..cached.pages()).expect("a disk").kept;
    wait_until("it has mapped some", || drop_all() >= 1);
    assert!(program.try_wait().expect("ours").is_none(), "it runs");
    program.kill().and_then(|()| program.wait()).expect("ours");
    wait_until("nobody has any", || drop_all() == 0);
}

/// A program writes, shortens, lengthens and reads a file all the time, whose pages are dropped and
/// looked for in nodes meanwhile.
#[test]
fn a_file_that_changes_meanwhile_has_what_was_written() {
    const ROUNDS: u64 = 300;
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut closings) = closings(folder.path()) else { return };
    let path = folder.path().join("file");
    write(&path, &contents(1));
    let file = closed(&mut closings, &path);
    let done = std::sync::atomic::AtomicBool::new(false);
    let dropped = std::thread::scope(|scope| {
        let dropper = scope.spawn(|| {
            let own = Target::open(&Root::system(), std::process::id()).expect("ours");
            let (mut gone, mut looks) = (0, 0);
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let cached = CachedFile::open(&file).expect("the same file");
                gone += cached.drop_cache(0..PAGES).expect("a disk").gone;
                // In a kernel without nodes, nothing moves.
                let _ = cached.move_to_node(&own, 0..PAGES, 0, |_, _| ());
                looks += 1;
            }
            (gone, looks)
        });
        for round in 2..ROUNDS {
            let mut now = contents(round);
            now.truncate(now.len() * (round as usize % 7) / 7 + 1);
            std::fs::write(&path, &now).expect("room");
            if round.is_multiple_of(3) {
                std::fs::File::open(&path).and_then(|file| file.sync_all()).expect("a disk");
            }
            assert!(std::fs::read(&path).expect("there") == now, "round {round}");
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        dropper.join().expect("it ends by itself")
    });
    assert!(dropped.0 > 0 && dropped.1 > 1, "{dropped:?}");
}

#[test]
fn another_file_by_the_same_name_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut closings) = closings(folder.path()) else { return };
    let path = folder.path().join("file");
    write(&path, &contents(5));
    let file = closed(&mut closings, &path);
    assert!(CachedFile::open(&file).is_some());
    write(&folder.path().join("other"), &contents(7));
    std::fs::rename(folder.path().join("other"), &path).expect("a disk");
    assert!(CachedFile::open(&file).is_none(), "it has another number");
    std::fs::remove_file(&path).expect("there");
    std::os::unix::fs::symlink("/etc/passwd", &path).expect("a disk");
    assert!(CachedFile::open(&file).is_none(), "links are not followed");
}

#[test]
fn cached_pages_go_to_a_node_and_contents_stay() {
    let root = Root::system();
    let nodes = Topology::read(&root).map(|topology| topology.nodes).unwrap_or_default();
    let nodes: Vec<u32> = nodes.iter().filter(|n| n.total_bytes > 0).map(|n| n.id).collect();
    if nodes.len() < 2 {
        return skip(Requirement::Nodes, "cached pages have only one node to be in");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    write(&path, &contents(9));
    let metadata = std::fs::metadata(&path).expect("there");
    let device = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let id = frostline_linux::files::FileId { device, inode: metadata.ino() };
    let cached = CachedFile::open(&File { id, path: path.clone(), bytes: 0 }).expect("the file");
    let own = Target::open(&root, std::process::id()).expect("ours");
    let to = |node| {
        let mut moved = 0;
        let count = |pages, outcome| {
            assert_eq!(outcome, MoveOutcome::Moved);
            moved += pages;
        };
        cached.move_to_node(&own, 0..PAGES, node, count).expect("it is there");
        moved
    };
    to(nodes[0]);
    assert_eq!(to(nodes[1]), PAGES);
    assert_eq!(to(nodes[1]), 0, "they are there");
    assert_eq!(std::fs::read(&path).expect("there"), contents(9));
    assert_eq!(to(nodes[0]), PAGES);
}
