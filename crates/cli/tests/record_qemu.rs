//! `frostline record --from qemu`: what Valgrind cannot run.

use assert_cmd::Command;
use frostline_testing::{Requirement, skip};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(120);
const CLIENTS: usize = 4;
const KEYS: usize = 500;

fn frostline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_frostline"))
}

fn installed(requirement: Requirement, path: &str) -> bool {
    let there = cfg!(target_arch = "x86_64") && Path::new(path).exists();
    if !there {
        skip(requirement, format!("there is no {path}"));
    }
    there
}

/// Ends what a failing test leaves behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn connect(socket: &Path) -> UnixStream {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < deadline, "no memcached: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Stores values and reads them back, by memcached's text protocol.
fn client(socket: &Path, number: usize) {
    let stream = connect(socket);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    let value = |key: usize| vec![b'a' + (key % 26) as u8; 100 + key * 37 % 4000];
    let mut line = String::new();
    for key in 0..KEYS {
        let value = value(key);
        let head = format!("set {number}-{key} 0 0 {}\r\n", value.len());
        writer.write_all(&[head.as_bytes(), &value, b"\r\n"].concat()).unwrap();
        line.clear();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "STORED\r\n");
    }
    for key in (0..KEYS).rev() {
        writer.write_all(format!("get {number}-{key}\r\n").as_bytes()).unwrap();
        line.clear();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("VALUE "), "{line}");
        let mut found = vec![0; value(key).len()];
        reader.read_exact(&mut found).unwrap();
        assert_eq!(found, value(key));
        for end in ["\r\n", "END\r\n"] {
            line.clear();
            reader.read_line(&mut line).unwrap();
            assert_eq!(line, end);
        }
    }
}

#[test]
fn memcached_serves_clients_and_leaves_a_good_trace() {
    if !installed(Requirement::QemuUser, "/usr/bin/qemu-x86_64")
        || !installed(Requirement::Programs, "/usr/bin/memcached")
    {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // memcached gives up being root.
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let (trace, socket) = (dir.path().join("m.flt"), dir.path().join("socket"));
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_frostline"))
        .args(["record", "--from", "qemu", "-o"])
        .arg(&trace)
        .args(["--", "memcached", "-u", "nobody", "-t", "4", "-m", "64", "-s"])
        .arg(&socket)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let socket = &socket;
            scope.spawn(move || client(socket, number));
        }
    });
    let pid = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut told = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(running.0.wait().unwrap().success(), "{told}");
    assert!(told.contains("accesses"), "{told}");

    frostline().args(["trace", "verify"]).arg(&trace).assert().success();
    let output = frostline().args(["trace", "info", "--json"]).arg(&trace).output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &info["runs"][0];
    // Every value was stored once, a line at a time, in a cache that holds a fraction of them.
    let lines: usize = (0..KEYS).map(|key| (100 + key * 37 % 4000) / 64).sum();
    let records = run["records"].as_u64().unwrap();
    assert!(records > (CLIENTS * lines) as u64, "{records} of {} lines", CLIENTS * lines);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("qemu 7.") && text.contains("EPYC"), "{text}");
}

#[test]
fn what_is_wrong_with_from_is_said() {
    for (args, what) in [
        (&["--from", "gdb"][..], "write valgrind or qemu"),
        (&["--from", "qemu"], "<PROGRAM>..."),
        (&["--from", "live=j", "--", "true"], "write valgrind or qemu"),
    ] {
        let output = frostline().args(["record", "-o", "/dev/null"]).args(args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{told}");
        assert!(told.contains(what), "{told}");
    }
}
