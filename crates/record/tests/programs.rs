//! Events, processes, threads, ends of all kinds.

mod common;

use common::{Program, each, read, run, tool, words};
use frostline_core::types::ProcessId;
use frostline_record::{Options, RecordError, Recorder, Stop, record};
use frostline_testing::{Requirement, skip};
use frostline_trace::event::MapKind;
use frostline_trace::{Ending, TraceEvent};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const PAGE: u64 = 4096;

#[test]
fn exit_codes_and_signals_pass_through() {
    each(|recorder| {
        for (script, code) in [
            ("exit 0", 0),
            ("exit 3", 3),
            ("kill -SEGV $$", 139),
            ("kill -TERM $$", 143),
            ("kill -KILL $$", 137),
        ] {
            let Some(recorded) = run(recorder, &["sh", "-c", script], &Options::default()) else {
                return;
            };
            assert_eq!(recorded.outcome.code, code, "{script}");
            assert_eq!(recorded.ending, Ending::Finished, "{script}");
            let exits: Vec<_> = recorded
                .events
                .iter()
                .filter_map(|event| match event {
                    TraceEvent::ProcessExit { process, status } => Some((process.0, *status)),
                    _ => None,
                })
                .collect();
            assert_eq!(exits, [(0, i32::from(code))], "{script}");
        }
    });
}

#[test]
fn forks_and_execs_are_followed_on_request_only() {
    each(|recorder| {
        let command = ["sh", "-c", "/bin/true; /bin/echo hello > /dev/null; exit 4"];
        let Some(alone) = run(recorder, &command, &Options::default()) else { return };
        assert_eq!((alone.outcome.code, alone.outcome.processes), (4, 1));
        let follow = Options { follow: true, ..Options::default() };
        let Some(family) = run(recorder, &command, &follow) else { return };
        assert_eq!((family.outcome.code, family.outcome.processes), (4, 3));
        assert_eq!(family.ending, Ending::Finished);
        let mut images = Vec::new();
        let mut exits = BTreeSet::new();
        for event in &family.events {
            match event {
                TraceEvent::Process { process, parent, command, .. } => {
                    images.push((process.0, parent.map(|p| p.0), command.clone()));
                }
                TraceEvent::ProcessExit { process, status } => {
                    exits.insert((process.0, *status));
                }
                _ => {}
            }
        }
        assert_eq!(images.iter().filter(|(_, parent, _)| *parent == Some(0)).count(), 2);
        let executed =
            images.iter().any(|(p, parent, c)| *p > 0 && parent.is_none() && c == "/bin/true");
        match recorder {
            // The shell, then per child its fork and the image that it executes.
            Recorder::Valgrind => {
                assert_eq!(images.len(), 5, "{images:?}");
                assert!(executed);
            }
            // What is executed runs without QEMU.
            Recorder::Qemu => {
                assert_eq!(images.len(), 3, "{images:?}");
                assert!(!executed);
            }
        }
        assert_eq!(exits, BTreeSet::from([(0, 4), (1, 0), (2, 0)]));
        assert!(family.accesses.len() > alone.accesses.len());
    });
}

#[test]
fn every_thread_has_its_stream() {
    each(|recorder| {
        let source = r#"
        #include <pthread.h>
        #include <sys/mman.h>
        static void* work(void* arg) {
            long n = (long)arg;
            volatile char* p = mmap(0, (1000 + n) * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (int round = 0; round < 3; round++)
                for (int i = 0; i < 1000; i++) p[i * 4096] = 1;
            return 0;
        }
        int main(void) {
            pthread_t t[3];
            for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, work, (void*)(i + 1));
            for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
            return 0;
        }"#;
        let Some(program) = Program::compile(source, &["-pthread"]) else { return };
        let Some(recorded) = run(recorder, &[program.path()], &Options::default()) else { return };
        assert_eq!(recorded.outcome.code, 0);
        let mut streams = BTreeSet::new();
        for n in 1..=3 {
            let runs = recorded.mapping((1000 + n) * PAGE);
            let of_this: BTreeSet<u32> = recorded
                .accesses_to(&runs)
                .filter(|(_, a)| a.kind.is_demand())
                .map(|(_, a)| a.stream.0)
                .collect();
            assert_eq!(of_this.len(), 1, "mapping {n} was touched by streams {of_this:?}");
            streams.extend(of_this);
        }
        assert_eq!(streams.len(), 3);
        assert_eq!(recorded.count(|event| matches!(event, TraceEvent::Thread { .. })), 4);
        assert_eq!(recorded.count(|event| matches!(event, TraceEvent::ThreadExit { .. })), 4);
    });
}

#[test]
fn mappings_and_files_leave_events() {
    each(|recorder| {
        let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <sys/mman.h>
        #include <unistd.h>
        #include <stdlib.h>
        int main(int argc, char** argv) {
            char* p = mmap(0, 111 * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            p[0] = p[50 * 4096] = 1;
            /* Something behind it, so that growing must move it. */
            char* wall = mmap(p + 111 * 4096, 4096, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            (void)wall;
            p = mremap(p, 111 * 4096, 300 * 4096, MREMAP_MAYMOVE);
            p[299 * 4096] = 1;
            madvise(p, 10 * 4096, MADV_DONTNEED);
            munmap(p, 300 * 4096);
            char* reserved = mmap(0, 640 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            mprotect(reserved, 123 * 4096, 3);
            reserved[5] = 1;
            char* top = sbrk(99 * 4096);
            top[0] = 1;
            int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
            if (write(fd, top, 5000) != 5000 || pwrite(fd, top, 100, 9000) != 100) return 1;
            lseek(fd, 1000, SEEK_SET);
            if (read(fd, top, 300) != 300) return 1;
            char* m = mmap(0, 8192, PROT_READ, MAP_SHARED, fd, 4096);
            close(fd);
            return m[0];
        }"#;
        let Some(program) = Program::compile(source, &[]) else { return };
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        let command = [program.path(), data.to_str().unwrap()];
        let Some(recorded) = run(recorder, &command, &Options::default()) else { return };
        assert_eq!(recorded.outcome.code, 0);

        let file = recorded.events.iter().find_map(|event| match event {
            TraceEvent::FileOpen { file, path, fd, .. } if Path::new(path) == data && *fd >= 0 => {
                Some(*file)
            }
            _ => None,
        });
        let file = file.expect("the file was opened");
        let mut transfers = Vec::new();
        for event in &recorded.events {
            match event {
                TraceEvent::FileWrite { file: f, offset_bytes, len_bytes, .. } if *f == file => {
                    transfers.push(('w', *offset_bytes, *len_bytes));
                }
                TraceEvent::FileRead { file: f, offset_bytes, len_bytes, .. } if *f == file => {
                    transfers.push(('r', *offset_bytes, *len_bytes));
                }
                _ => {}
            }
        }
        assert_eq!(transfers, [('w', 0, 5000), ('w', 9000, 100), ('r', 1000, 300)]);
        let has = |matches: &dyn Fn(&TraceEvent) -> bool| recorded.count(matches) == 1;
        assert!(has(&|e| matches!(e, TraceEvent::FileClose { file: f, .. } if *f == file)));
        let shared = MapKind::FileShared { file, offset_bytes: 4096 };
        assert!(has(
            &|e| matches!(e, TraceEvent::Map { kind, len_bytes: 8192, .. } if *kind == shared)
        ));
        let heap = 99 * PAGE;
        assert!(has(
            &|e| matches!(e, TraceEvent::Map { kind: MapKind::Heap, len_bytes, .. } if *len_bytes == heap)
        ));
        let reserved = 640 * PAGE;
        assert!(has(
            &|e| matches!(e, TraceEvent::Map { len_bytes, accessible: false, .. } if *len_bytes == reserved)
        ));
        assert_eq!(recorded.mapping(123 * PAGE).iter().map(|run| run.pages).sum::<u32>(), 123);
        assert!(has(
            &|e| matches!(e, TraceEvent::Discard { len_bytes, .. } if *len_bytes == 10 * PAGE)
        ));
        assert!(has(
            &|e| matches!(e, TraceEvent::Unmap { len_bytes, .. } if *len_bytes == 300 * PAGE)
        ));

        let old = recorded.mapping(111 * PAGE);
        let moved = recorded.events.iter().find_map(|event| match event {
            TraceEvent::Remap { old_len_bytes, new_len_bytes, moves, gained, lost, .. } => {
                assert_eq!((*old_len_bytes, *new_len_bytes), (111 * PAGE, 300 * PAGE));
                Some((moves.clone(), gained.clone(), lost.clone()))
            }
            _ => None,
        });
        let (moves, gained, lost) = moved.expect("the mapping moved");
        assert_eq!(moves.iter().map(|(run, _)| run.pages).sum::<u32>(), 111);
        assert_eq!(moves[0].0.start, old[0].start);
        assert_eq!(gained.iter().map(|run| run.pages).sum::<u32>(), 189);
        assert!(lost.is_empty());
    });
}

#[test]
fn all_memory_belongs_to_a_mapping() {
    each(|recorder| {
        let Some(recorded) =
            run(recorder, &["perl", "-e", "my %h; $h{$_} = 1 for 1..5000"], &Options::default())
        else {
            return;
        };
        let (mut pages, mut stacks, mut files) = (BTreeSet::new(), 0, 0);
        for event in &recorded.events {
            match event {
                TraceEvent::Map { runs, kind, .. } => {
                    pages.extend(runs.iter().flat_map(|run| run.start.0..run.end()));
                    stacks += usize::from(matches!(kind, MapKind::Stack));
                    files += usize::from(matches!(kind, MapKind::FilePrivate { .. }));
                }
                TraceEvent::Remap { gained, .. } => {
                    pages.extend(gained.iter().flat_map(|run| run.start.0..run.end()));
                }
                _ => {}
            }
        }
        assert_eq!(stacks, 1);
        assert!(files > 5, "{files} file mappings");
        let strays = recorded.accesses.iter().filter(|access| !pages.contains(&access.page.0));
        let strays: BTreeSet<u32> = strays.map(|access| access.page.0).collect();
        assert!(recorded.accesses.len() > 1000);
        assert!(strays.is_empty(), "{} of {} pages", strays.len(), pages.len());
    });
}

#[test]
fn a_program_that_closes_all_descriptors_is_recorded_to_its_end() {
    let source = r#"
        #include <sys/mman.h>
        #include <unistd.h>
        int main(void) {
            for (int fd = 3; fd < 70000; fd++) close(fd);
            for (int fd = 3; fd < 70000; fd += 7) dup2(2, fd);
            volatile char* p = mmap(0, 200 * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (int i = 0; i < 200; i++) p[i * 4096] = 1;
            return 8;
        }"#;
    each(|recorder| {
        let Some(program) = Program::compile(source, &[]) else { return };
        let Some(recorded) = run(recorder, &[program.path()], &Options::default()) else { return };
        assert_eq!((recorded.outcome.code, recorded.outcome.log.as_str()), (8, ""));
        let runs = recorded.mapping(200 * PAGE);
        assert_eq!(recorded.accesses_to(&runs).filter(|(_, a)| a.kind.is_demand()).count(), 200);
    });
}

#[test]
fn a_recording_that_ends_before_the_program_says_so() {
    let source = r#"
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(void) {
            syscall(SYS_close_range, 3, ~0u, 0);
            return 9;
        }"#;
    let Some(program) = Program::compile(source, &[]) else { return };
    let Some(recorded) = run(Recorder::Qemu, &[program.path()], &Options::default()) else {
        return;
    };
    assert_eq!(recorded.outcome.code, 9);
    assert!(recorded.outcome.log.contains("before the program did"), "{}", recorded.outcome.log);
    assert_eq!(recorded.ending, Ending::Finished);
}

#[test]
fn operation_marks_are_recorded() {
    each(|recorder| {
        let source = r#"
        #include "frostline_marks.h"
        int main(void) {
            for (unsigned long i = 0; i < 10; i++) {
                FROSTLINE_OP_BEGIN(i);
                FROSTLINE_OP_END(i);
            }
            return 0;
        }"#;
        let Some(program) = Program::compile(source, &[]) else { return };
        assert!(
            Command::new(program.path()).status().unwrap().success(),
            "marks are harmless outside"
        );
        let Some(recorded) = run(recorder, &[program.path()], &Options::default()) else { return };
        let marks: Vec<(bool, u64)> = recorded
            .events
            .iter()
            .filter_map(|event| match event {
                TraceEvent::OpBegin { op, .. } => Some((false, *op)),
                TraceEvent::OpEnd { op, .. } => Some((true, *op)),
                _ => None,
            })
            .collect();
        let expected: Vec<(bool, u64)> = (0..10).flat_map(|op| [(false, op), (true, op)]).collect();
        assert_eq!(marks, expected);
    });
}

#[test]
fn a_static_program_is_recorded_too() {
    each(|recorder| {
        let source = "int main(void) { static char a[1 << 20]; for (int i = 0; i < 1 << 20; i += 64) ((volatile char*)a)[i] = 1; return 7; }";
        let Some(program) = Program::compile(source, &["-static"]) else { return };
        let Some(recorded) = run(recorder, &[program.path()], &Options::default()) else { return };
        assert_eq!(recorded.outcome.code, 7);
        assert!(recorded.accesses.len() > (1 << 20) / 64);
    });
}

#[test]
fn the_processes_of_a_forking_program_have_their_own_pages() {
    each(|recorder| {
        let source = r#"
        #include <sys/mman.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            volatile char* p = mmap(0, 400 * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (int i = 0; i < 400; i++) p[i * 4096] = 1;
            if (fork() == 0) {
                for (int i = 0; i < 400; i += 2) p[i * 4096 + 2048] = 2;
                _exit(5);
            }
            int status;
            wait(&status);
            return WEXITSTATUS(status);
        }"#;
        let Some(program) = Program::compile(source, &[]) else { return };
        let follow = Options { follow: true, ..Options::default() };
        let Some(recorded) = run(recorder, &[program.path()], &follow) else { return };
        assert_eq!((recorded.outcome.code, recorded.outcome.processes), (5, 2));
        let parents_pages: BTreeSet<u32> = recorded
            .events
            .iter()
            .filter_map(|event| match event {
                TraceEvent::Map { process: ProcessId(0), len_bytes, runs, .. }
                    if *len_bytes == 400 * PAGE =>
                {
                    Some(runs.iter().flat_map(|run| run.start.0..run.end()).collect::<Vec<_>>())
                }
                _ => None,
            })
            .flatten()
            .collect();
        assert_eq!(parents_pages.len(), 400);
        let inherited = recorded.count(|event| {
        matches!(event, TraceEvent::Map { process: ProcessId(1), len_bytes, .. } if *len_bytes == 400 * PAGE)
    });
        assert_eq!(inherited, 1, "the child's address space begins as a copy");
        let child: BTreeSet<u32> = recorded
            .events
            .iter()
            .filter_map(|event| match event {
                TraceEvent::Thread { stream, process: ProcessId(1), .. } => Some(stream.0),
                _ => None,
            })
            .collect();
        let childs_stores = recorded
            .accesses
            .iter()
            .filter(|a| child.contains(&a.stream.0) && a.line == 32)
            .inspect(|a| assert!(!parents_pages.contains(&a.page.0)))
            .count();
        assert!(childs_stores >= 200, "{childs_stores}");
    });
}

#[test]
fn recording_stops_at_the_size_and_the_program_goes_on() {
    each(|recorder| {
        let Some(tool) = tool(recorder) else { return };
        let dir = TempDir::new().unwrap();
        let (path, proof) = (dir.path().join("t.flt"), dir.path().join("proof"));
        let script = format!(
            "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo $i > {}; exit 9",
            proof.display()
        );
        let options = Options { max_bytes: Some(8 << 10), ..Options::default() };
        let mut told = 0;
        let outcome =
            record(tool, &words(&["sh", "-c", &script]), &path, &options, &mut |_, stop| {
                told += usize::from(matches!(stop, Some(Stop::Full)));
            })
            .unwrap();
        assert!(matches!(outcome.stop, Stop::Full));
        assert_eq!((outcome.code, told), (9, 1));
        assert_eq!(std::fs::read_to_string(proof).unwrap(), "20000\n");
        let bytes = outcome.bytes;
        assert!((8 << 10..2 << 20).contains(&bytes), "{bytes}");
        assert_eq!(read(&path, outcome).ending, Ending::Finished);
    });
}

#[test]
fn a_full_disk_is_an_error_and_leaves_a_readable_prefix() {
    each(|recorder| {
        let Some(tool) = tool(recorder) else { return };
        let dir = TempDir::new().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=128k", "none"])
            .arg(dir.path())
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            return skip(Requirement::Mounts, "mounting a small tmpfs needs root");
        }
        let path = dir.path().join("t.flt");
        let options = Options { llc_bytes: 128 << 10, ..Options::default() };
        let script = "my %h; $h{$_} = $_ for 1..200000; exit 6";
        let command = words(&["perl", "-e", script]);
        let outcome = record(tool, &command, &path, &options, &mut |_, _| {}).unwrap();
        assert_eq!(outcome.code, 6, "the program is not harmed");
        let Stop::Failed(error) = &outcome.stop else { panic!("{:?}", outcome.stop) };
        assert!(matches!(error, RecordError::DiskFull { .. }), "{error}");
        assert!(error.to_string().contains("hint: "));
        assert_eq!(error.exit_code(), 125);
        let mut reader = frostline_trace::TraceReader::open(&path).unwrap().prefix(true);
        let mut batch = frostline_trace::Batch::new();
        let mut records = 0;
        while frostline_trace::TraceSource::next_batch(&mut reader, &mut batch).unwrap() {
            records += batch.len();
        }
        drop(reader);
        let unmounted = Command::new("umount").arg(dir.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
        assert!(records > 1000, "{records} accesses are readable");
    });
}

#[test]
fn impossible_wishes_are_refused_before_the_program_starts() {
    each(|recorder| {
        let Some(tool) = tool(recorder) else { return };
        let dir = TempDir::new().unwrap();
        let proof = dir.path().join("ran");
        let touch = words(&["touch", proof.to_str().unwrap()]);
        let refused = |command: &[std::ffi::OsString], path: &Path, options: &Options| {
            let error = record(tool, command, path, options, &mut |_, _| {}).unwrap_err();
            assert!(error.to_string().contains("\nhint: "), "{error}");
            error
        };
        let path = dir.path().join("t.flt");
        let error = refused(&words(&["no-such-program-at-all"]), &path, &Options::default());
        assert_eq!(error.exit_code(), 127);
        let error = refused(&words(&["/etc/passwd"]), &path, &Options::default());
        assert_eq!(error.exit_code(), 126);
        assert!(!path.exists(), "nothing is created for a program that cannot run");
        let error = refused(&touch, Path::new("/no/such/dir/t.flt"), &Options::default());
        assert!(matches!(error, RecordError::Output(_)), "{error}");
        for options in [
            Options { llc_bytes: 3 << 20, ..Options::default() },
            Options { llc_bytes: 4096, ..Options::default() },
            Options { llc_ways: 65, ..Options::default() },
            Options { l1_bytes: 1000, ..Options::default() },
            Options { epoch: 10, ..Options::default() },
        ] {
            let error = refused(&touch, &path, &options);
            assert!(matches!(error, RecordError::Cache { .. }), "{error}");
        }
        assert!(!proof.exists(), "the program did not run");
    });
}
