//! Delays of processes, as the kernel accounts for them: what refaults and waiting for a core have cost.
//!
//! The kernel answers by generic netlink (`Documentation/accounting/taskstats.rst`). Refaults are counted while
//! [`SETTING`] is on. Asking takes `CAP_NET_ADMIN`.

use crate::LinuxError;
use crate::changes::Changes;
use crate::held::Held;
use frostline_core::types::Nanos;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use std::sync::Arc;
use std::time::Duration;

/// The kernel's switch for counting delays.
pub const SETTING: &str = "/proc/sys/kernel/task_delayacct";

const ON: &str = "1";

/// Longest wait for an answer. The kernel gives it within the call that asks.
const PATIENCE: Duration = Duration::from_secs(1);
/// Room for an answer, of which the largest known has 640 bytes.
const ANSWER: usize = 4096;

// `include/uapi/linux/netlink.h`, `genetlink.h`, `taskstats.h`.
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_TGID: u16 = 2;
const TASKSTATS_TYPE_AGGR_TGID: u16 = 5;
const TASKSTATS_TYPE_STATS: u16 = 3;
/// Bytes of the headers of a message and of a command.
const HEADERS: usize = 20;
/// The one version of `struct taskstats` in which fields were moved (Linux 6.14).
const MOVED: u16 = 15;

/// Sums over all threads of a process, ended ones included, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Time on processors.
    pub cpu: Nanos,
    /// Waits for a core while others had all of them.
    pub core_wait: Nanos,
    /// Refaults from swap.
    pub swap_ins: u64,
    /// Time that refaults took.
    pub swap_in: Nanos,
}

/// A connection to the kernel's accounting.
#[derive(Debug)]
pub struct DelayAccounting {
    socket: OwnedFd,
    family: u16,
    /// Refaults are counted as long as it is there.
    counting: Option<Arc<Held>>,
}

impl DelayAccounting {
    /// Connects, and has refaults counted for as long as it is there.
    ///
    /// # Errors
    /// Where the kernel keeps no such accounts, or rights are missing.
    pub fn begin(changes: &Changes) -> Result<Self, LinuxError> {
        let mut this = Self::open()?;
        this.of(std::process::id())?;
        let settings = || Ok(vec![(SETTING, ON.to_owned())]);
        this.counting = Some(Held::make(changes, SETTING, settings)?);
        Ok(this)
    }

    /// Has refaults counted again where somebody has ended that; whether they were not.
    ///
    /// # Errors
    /// Without the right to change settings.
    pub fn renew(&self) -> Result<bool, LinuxError> {
        let Some(changes) = self.counting.as_deref().map(Held::changes) else { return Ok(false) };
        let lapsed = changes.root().read(SETTING)? != ON;
        if lapsed {
            changes.set(SETTING, ON)?;
        }
        Ok(lapsed)
    }

    fn open() -> Result<Self, LinuxError> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(GENERIC),
        )
        .map_err(|errno| failed(0, errno))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE)).map_err(|e| failed(0, e))?;
        connect(&socket, &SocketAddrNetlink::new(0, 0)).map_err(|errno| failed(0, errno))?;
        let mut this = Self { socket, family: GENL_ID_CTRL, counting: None };
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0");
        let answer = this.ask(0, CTRL_CMD_GETFAMILY, &name)?;
        let family = find(&answer, CTRL_ATTR_FAMILY_ID).and_then(|id| u16_at(id, 0));
        this.family = family.ok_or_else(|| unsupported("no accounts of delays in this kernel"))?;
        Ok(this)
    }

    /// What a process has spent.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended; without the right to ask.
    pub fn of(&mut self, pid: u32) -> Result<Delays, LinuxError> {
        let whom = attribute(TASKSTATS_CMD_ATTR_TGID, &pid.to_ne_bytes());
        let answer = self.ask(pid, TASKSTATS_CMD_GET, &whom)?;
        parse(&answer).ok_or_else(|| unsupported("accounts of delays of an unknown layout"))
    }

    /// Attributes of the answer to a command.
    fn ask(&mut self, pid: u32, command: u8, attributes: &[u8]) -> Result<Vec<u8>, LinuxError> {
        let mut message = Vec::with_capacity(HEADERS + attributes.len());
        message.extend_from_slice(&((HEADERS + attributes.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&self.family.to_ne_bytes());
        message.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
        // Sequence and port: one question at a time.
        message.extend_from_slice(&[0; 8]);
        message.extend_from_slice(&[command, 1, 0, 0]);
        message.extend_from_slice(attributes);
        send(&self.socket, &message, SendFlags::empty()).map_err(|errno| failed(pid, errno))?;
        let mut buffer = vec![0; ANSWER];
        let (read, _) = recv(&self.socket, &mut buffer, RecvFlags::empty())
            .map_err(|errno| failed(pid, errno))?;
        buffer.truncate(read);
        if u16_at(&buffer, 4) == Some(NLMSG_ERROR) {
            let errno = bytes_at(&buffer, 16).map_or(0, |bytes| i32::from_ne_bytes(bytes).abs());
            return Err(LinuxError::call("taskstats", pid, errno));
        }
        let end = bytes_at(&buffer, 0).map_or(0, |bytes| u32::from_ne_bytes(bytes) as usize);
        let whole = buffer.get(HEADERS..end.min(read)).map(<[u8]>::to_vec);
        whole.ok_or_else(|| unsupported("an answer that ends early"))
    }
}

fn failed(pid: u32, errno: Errno) -> LinuxError {
    LinuxError::call("taskstats", pid, errno.raw_os_error())
}

fn unsupported(what: &str) -> LinuxError {
    let hint = "CONFIG_TASK_DELAY_ACCT is on in kernels of distributions".into();
    LinuxError::Unsupported { what: what.into(), hint }
}

/// One attribute, at a multiple of four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + value.len() + 3);
    bytes.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Value of the first attribute of a kind.
fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(4..length)?;
        if u16_at(attributes, 2)? == kind {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// Reads `struct taskstats`.
fn parse(answer: &[u8]) -> Option<Delays> {
    let stats = find(find(answer, TASKSTATS_TYPE_AGGR_TGID)?, TASKSTATS_TYPE_STATS)?;
    if u16_at(stats, 0)? == MOVED {
        return None;
    }
    let number = |at: usize| bytes_at(stats, at).map(u64::from_ne_bytes);
    Some(Delays {
        core_wait: Nanos(number(24)?),
        swap_ins: number(48)?,
        swap_in: Nanos(number(56)?),
        // The field before it is counted in ticks: who works right after each of them is never seen.
        cpu: Nanos(number(72)?),
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes_at(bytes, at).map(u16::from_ne_bytes)
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stats(version: u16) -> Vec<u8> {
        let mut stats = vec![0; 328];
        stats[..2].copy_from_slice(&version.to_ne_bytes());
        for (at, value) in [(24, 5_u64), (48, 7), (56, 11), (64, 1), (72, 13)] {
            stats[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let inside = [attribute(2, &9_u32.to_ne_bytes()), attribute(3, &stats)].concat();
        attribute(TASKSTATS_TYPE_AGGR_TGID, &inside)
    }

    #[test]
    fn numbers_are_found_in_nested_attributes() {
        let Delays { cpu, core_wait, swap_ins, swap_in } = parse(&stats(13)).unwrap();
        assert_eq!((core_wait.0, swap_ins, swap_in.0, cpu.0), (5, 7, 11, 13));
        assert_eq!(parse(&stats(MOVED)), None, "whose fields lie elsewhere");
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..600), cut in 0_usize..400) {
            let _ = parse(&bytes);
            let whole = stats(9);
            let _ = parse(&whole[..cut.min(whole.len())]);
        }
    }

    #[test]
    fn the_kernel_tells_what_this_process_has_spent() {
        if !frostline_testing::delays() {
            return;
        }
        let mut accounting = DelayAccounting::open().unwrap();
        let own = std::process::id();
        let before = accounting.of(own).unwrap();
        let mut sum = 0_u64;
        while accounting.of(own).unwrap().cpu <= before.cpu {
            sum = (0..100_000).fold(sum, |sum, n| std::hint::black_box(sum ^ n));
        }
        let ended = accounting.of(u32::MAX >> 1);
        assert!(ended.is_err_and(|error| error.is_gone()));
    }
}
