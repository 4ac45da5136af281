//! Rights of this process.

use super::capability::Capability;
use frostline_linux::Root;
use frostline_linux::process::field;
use std::path::{Path, PathBuf};

/// Numbers of `linux/capability.h`.
const RIGHTS: [(&str, u32, &str); 4] = [
    ("cap-sys-nice", 23, "advising and moving the memory of other processes"),
    ("cap-sys-ptrace", 19, "looking into processes of other users"),
    ("cap-sys-admin", 21, "setting up swap, seeing physical pages"),
    ("cap-perfmon", 38, "sampling other users' programs, tracepoints"),
];

/// What the kernel says of our own rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    effective: u64,
    /// Rights inside a user namespace are none outside of it.
    confined: bool,
}

impl Rights {
    pub fn read(root: &Root) -> Option<Self> {
        let status = root.read("/proc/self/status").ok()?;
        let effective = u64::from_str_radix(field(&status, "CapEff")?, 16).ok()?;
        let map = root.read("/proc/self/uid_map").unwrap_or_default();
        let whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
        Some(Self { effective, confined: !whole })
    }

    pub fn has(self, number: u32) -> bool {
        !self.confined && self.effective & 1 << number != 0
    }
}

/// Whether setting up swap and the like may be tried: `CAP_SYS_ADMIN`, for real.
pub fn is_admin(root: &Root) -> bool {
    Rights::read(root).is_some_and(|rights| rights.has(21))
}

pub fn examine(root: &Root) -> Vec<Capability> {
    let rights = Rights::read(root);
    let mut found: Vec<_> = RIGHTS
        .iter()
        .map(|&(name, number, what)| match rights {
            None => Capability::no(name, "/proc/self/status cannot be read"),
            Some(rights) if rights.has(number) => {
                Capability::yes(name, format!("held; needed for {what}"))
            }
            Some(Rights { confined: true, .. }) => {
                Capability::no(name, format!("held in a user namespace at most; needed for {what}"))
                    .hint("run outside of the container, or give the container this right")
            }
            Some(_) => Capability::no(name, format!("not held; needed for {what}"))
                .hint("run as root, or give the program this right with setcap(8)"),
        })
        .collect();
    found.push(paranoid(root, rights));
    found.push(lockdown(root));
    found
}

fn paranoid(root: &Root, rights: Option<Rights>) -> Capability {
    let name = "perf-event-paranoid";
    let level = root.read("/proc/sys/kernel/perf_event_paranoid").ok();
    let privileged = rights.is_some_and(|rights| rights.has(38) || rights.has(21));
    match level.as_deref().map(str::parse::<i32>) {
        None => Capability::no(name, "the kernel has no performance events (CONFIG_PERF_EVENTS)"),
        Some(Err(_)) => Capability::no(name, "/proc/sys/kernel/perf_event_paranoid is no number"),
        Some(Ok(level)) if privileged => {
            Capability::yes(name, format!("is {level}, which does not bind us"))
        }
        Some(Ok(level)) if level <= 2 => Capability::yes(
            name,
            format!(
                "is {level}: programs of the same user may be sampled, the kernel's part of \
                     their work {}",
                if level <= 1 { "included" } else { "left out" }
            ),
        ),
        Some(Ok(level)) => {
            Capability::no(name, format!("is {level}: no sampling without CAP_PERFMON"))
                .hint("sysctl kernel.perf_event_paranoid=2")
        }
    }
}

fn lockdown(root: &Root) -> Capability {
    let name = "no-lockdown";
    match root.read_optional("/sys/kernel/security/lockdown") {
        Ok(Some(text)) if text.contains("[none]") => Capability::yes(name, "lockdown is off"),
        Ok(Some(text)) => {
            let mode = text.split(['[', ']']).nth(1).unwrap_or("on").to_owned();
            Capability::no(name, format!("lockdown is '{mode}': debugfs may not be written"))
                .hint("boot without Secure Boot or lockdown=; little depends on it")
        }
        Ok(None) => match mount_of(root, "securityfs") {
            Some(_) => Capability::yes(name, "the kernel has no lockdown"),
            // A kernel that is locked down lets nobody write there.
            None if debugfs_file(root, "split_huge_pages")
                .is_some_and(|path| is_writable(&path)) =>
            {
                Capability::yes(name, "debugfs may be written")
            }
            None => Capability::no(name, "not known: securityfs is not mounted")
                .hint("mount -t securityfs securityfs /sys/kernel/security"),
        },
        Err(error) => Capability::failed(name, &error),
    }
}

/// Where a file system of this kind is mounted.
fn mount_of(root: &Root, kind: &str) -> Option<String> {
    let mounts = root.read("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == kind).then(|| place.to_owned())
    })
}

/// Where a file of debugfs is; none where that is not mounted.
pub fn debugfs_file(root: &Root, file: &str) -> Option<PathBuf> {
    Some(root.path(format!("{}/{file}", mount_of(root, "debugfs")?)))
}

fn is_writable(path: &Path) -> bool {
    std::fs::OpenOptions::new().write(true).open(path).is_ok()
}
