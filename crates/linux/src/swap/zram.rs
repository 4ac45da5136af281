//! A compressed part of memory as a slow tier: a zram device as swap.
//!
//! Sources: `Documentation/admin-guide/blockdev/zram.rst` in the kernel, mkswap(8), swapon(2).

use crate::changes::{Changes, Restored, SwapOff};
use crate::groups;
use crate::process::{self, kib_field};
use crate::swap::{self, SwapDevice};
use crate::sys::swap::{swapoff, swapon};
use crate::{LinuxError, Root};
use frostline_core::types::{Bytes, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

const HOT_ADD: &str = "/sys/class/zram-control/hot_add";
const HOT_REMOVE: &str = "/sys/class/zram-control/hot_remove";
/// Priority where no other swap device has a higher one: above those without one of their own.
const PRIORITY: i32 = 100;
/// Free memory that must remain when pages are brought back.
const RESERVE: Bytes = Bytes(64 << 20);
/// Offset of the swap header's fields, and of the signature at the end of the page
/// (`union swap_header` in `include/linux/swap.h`).
const INFO: usize = 1024;
const SIGNATURE: &[u8; 10] = b"SWAPSPACE2";
const PAGE: usize = PAGE_BYTES as usize;

/// What a zram device shall be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZramOptions {
    /// Room for uncompressed pages; whole pages of it are used.
    pub size: Bytes,
    /// Name of the compression algorithm; `None` for the kernel's choice.
    pub algorithm: Option<String>,
}

/// What is known of a device before it is set up, and enough to take it down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    number: u32,
    /// Whether it did not exist before.
    added: bool,
    size_bytes: u64,
    /// In the swap header: tells our device from one that somebody else set up later.
    uuid: String,
}

/// How full a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ZramUsage {
    /// Pages on it, uncompressed.
    pub original: Bytes,
    /// The same compressed, without what the allocator adds.
    pub compressed: Bytes,
    /// Memory that it takes.
    pub memory: Bytes,
    /// Most memory that it took at any time.
    pub memory_most: Bytes,
    /// Pages of one repeated word, which take no memory.
    pub same_pages: u64,
    /// Pages that did not get smaller, and take a page each.
    pub incompressible_pages: u64,
}

/// A zram device that is a swap device. It stays when this is dropped: see [`Self::take_down`].
#[derive(Debug)]
pub struct Zram {
    root: Root,
    record: Record,
}

impl Zram {
    /// Sets a free zram device up and makes it the swap device that is filled first. Written down
    /// in `changes` before anything is done. Where a process that has crashed left such a device,
    /// with pages of running programs on it, that one is taken over: the kernel knows about two
    /// dozen swap devices at most.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] without zram in the kernel, without the right, or with an
    /// unknown algorithm; whatever was done until then is undone.
    pub fn create(changes: &Changes, options: &ZramOptions) -> Result<Self, LinuxError> {
        let root = changes.root();
        let size_bytes = options.size.0 - options.size.0 % PAGE_BYTES;
        let serves = |record: &Record| {
            record.size_bytes == size_bytes
                && record.serves(root, options.algorithm.as_deref()).unwrap_or(false)
        };
        if let Some(record) = changes.take_over_zram(serves)? {
            return Ok(Self { root: root.clone(), record });
        }
        let uuid = root.read("/proc/sys/kernel/random/uuid")?;
        let record = |number, added| Record { number, added, size_bytes, uuid: uuid.clone() };
        let record = if root.path(HOT_ADD).exists() {
            // The kernel gives the lowest free number, which must be on the list before it does.
            let expected = record(next_number(root)?, true);
            changes.add_zram(&expected)?;
            match add_device(root) {
                Ok(number) if number == expected.number => expected,
                Ok(number) => {
                    // Somebody else was faster, and that device is theirs.
                    changes.forget_zram(&expected)?;
                    let record = record(number, true);
                    changes.add_zram(&record)?;
                    record
                }
                Err(error) => {
                    changes.forget_zram(&expected)?;
                    return Err(error);
                }
            }
        } else {
            let record = record(unused_device(root)?, false);
            changes.add_zram(&record)?;
            record
        };
        let set_up = record.set_up(root, options.algorithm.as_deref());
        if let Err(error) = set_up {
            changes.release_zram(&record, SwapOff::WhenUnused)?;
            return Err(error);
        }
        Ok(Self { root: root.clone(), record })
    }

    /// The device, such as `/dev/zram0`.
    pub fn device(&self) -> PathBuf {
        PathBuf::from(self.record.device())
    }

    /// Room for uncompressed pages.
    pub fn size(&self) -> Bytes {
        Bytes(self.record.size_bytes)
    }

    /// Room and what of it is taken, as the swap device that it is; `None` where somebody has
    /// turned it off.
    ///
    /// # Errors
    /// Where the list of swap devices cannot be read.
    pub fn swap(&self) -> Result<Option<SwapDevice>, LinuxError> {
        let own = self.device();
        Ok(swap::devices(&self.root)?.into_iter().find(|device| device.path == own))
    }

    /// What it holds and what that takes.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn usage(&self) -> Result<ZramUsage, LinuxError> {
        let path = self.record.sys("mm_stat");
        let text = self.root.read(&path)?;
        parse_usage(&text).ok_or_else(|| LinuxError::Malformed {
            path: self.root.path(path),
            what: format!("'{text}' is not what a zram device tells"),
        })
    }

    /// Takes it down, unless there are pages on it that must stay there; then it remains, and so
    /// does the note of it: [`crate::changes::restore`] may take it down later.
    ///
    /// # Errors
    /// Where the list of changes cannot be read or written.
    pub fn take_down(self, changes: &Changes, swap_off: SwapOff) -> Result<Restored, LinuxError> {
        changes.release_zram(&self.record, swap_off)
    }
}

/// Numbers of the zram devices there are.
fn numbers(root: &Root) -> Result<Vec<u32>, LinuxError> {
    let names = root.list("/sys/block")?;
    Ok(names.iter().filter_map(|name| name.strip_prefix("zram")?.parse().ok()).collect())
}

fn next_number(root: &Root) -> Result<u32, LinuxError> {
    let taken = numbers(root)?;
    Ok((0..=u32::MAX).find(|number| !taken.contains(number)).unwrap_or(u32::MAX))
}

/// Makes a device; its number.
fn add_device(root: &Root) -> Result<u32, LinuxError> {
    // Reading makes a device and tells its number.
    let text = root.read(HOT_ADD).map_err(|error| match error.is_denied() {
        true => LinuxError::Unsupported {
            what: "no right to make a zram device".into(),
            hint: "run as root".into(),
        },
        false => error,
    })?;
    text.parse().map_err(|_| LinuxError::Malformed {
        path: root.path(HOT_ADD),
        what: format!("'{text}' is not the number of a device"),
    })
}

/// A device without a size, in kernels that cannot make more.
fn unused_device(root: &Root) -> Result<u32, LinuxError> {
    for number in numbers(root)? {
        if root.read(format!("/sys/block/zram{number}/initstate")).is_ok_and(|state| state == "0") {
            return Ok(number);
        }
    }
    Err(LinuxError::Unsupported {
        what: "no zram device is free".into(),
        hint: "modprobe zram (kernel option CONFIG_ZRAM)".into(),
    })
}

fn parse_usage(text: &str) -> Option<ZramUsage> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    let (original, compressed, memory) = (Bytes(next()?), Bytes(next()?), Bytes(next()?));
    let (_limit, memory_most, same_pages) = (next()?, Bytes(next()?), next()?);
    let _compacted = next()?;
    // Since Linux 4.19.
    let incompressible_pages = next().unwrap_or(0);
    Some(ZramUsage { original, compressed, memory, memory_most, same_pages, incompressible_pages })
}

impl Record {
    /// The device, such as `/dev/zram0`.
    pub(crate) fn device(&self) -> String {
        format!("/dev/zram{}", self.number)
    }

    fn sys(&self, name: &str) -> String {
        format!("/sys/block/zram{}/{name}", self.number)
    }

    fn set_up(&self, root: &Root, algorithm: Option<&str>) -> Result<(), LinuxError> {
        let path = self.sys("comp_algorithm");
        if let Some(name) = algorithm {
            root.write(&path, name).map_err(|error| match root.read(&path) {
                Ok(known) if error.errno() == Some(libc::EINVAL) => LinuxError::Unsupported {
                    what: format!("zram does not compress with '{name}'"),
                    hint: format!("one of: {}", known.replace(['[', ']'], "")),
                },
                _ => error,
            })?;
        }
        // Refused with EBUSY where somebody else has taken the device meanwhile.
        root.write(self.sys("disksize"), &self.size_bytes.to_string())?;
        self.write_header(root)?;
        let highest = swap::devices(root)?.iter().map(|device| device.priority).max();
        let priority = highest.map_or(PRIORITY, |highest| highest.saturating_add(1).max(PRIORITY));
        let priority = u16::try_from(priority).unwrap_or(u16::MAX).min(swap::HIGHEST_PRIORITY);
        swapon(&self.c_path(root), priority).map_err(|errno| {
            LinuxError::io("swapon", self.device(), &std::io::Error::from_raw_os_error(errno))
        })
    }

    /// What mkswap(8) would write.
    fn header(&self) -> Vec<u8> {
        let mut page = vec![0_u8; PAGE];
        let last_page = (self.size_bytes / PAGE_BYTES).saturating_sub(1);
        page[INFO..INFO + 4].copy_from_slice(&1_u32.to_ne_bytes());
        let last_page = u32::try_from(last_page).unwrap_or(u32::MAX);
        page[INFO + 4..INFO + 8].copy_from_slice(&last_page.to_ne_bytes());
        let digits: Vec<u8> = self.uuid.bytes().filter(u8::is_ascii_hexdigit).collect();
        for (byte, digits) in page[INFO + 12..INFO + 28].iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(digits[at]).to_digit(16).unwrap_or(0) as u8;
            *byte = digit(0) << 4 | digit(1);
        }
        page[INFO + 28..INFO + 37].copy_from_slice(b"frostline");
        page[PAGE - SIGNATURE.len()..].copy_from_slice(SIGNATURE);
        page
    }

    fn write_header(&self, root: &Root) -> Result<(), LinuxError> {
        let path = root.path(self.device());
        // On a block device this flag refuses one that is mounted or a swap device.
        let mut options = File::options();
        options.write(true).custom_flags(libc::O_EXCL);
        let write = || {
            let mut file = options.open(&path)?;
            file.write_all(&self.header())?;
            file.sync_all()
        };
        write().map_err(|error| LinuxError::io("write the swap header of", &path, &error))
    }

    fn c_path(&self, root: &Root) -> CString {
        // Neither the root nor the device's name holds a zero byte: they are names of files.
        CString::new(root.path(self.device()).into_os_string().into_vec()).unwrap_or_default()
    }

    /// Whether it is set up so, and the swap device that is filled first, as far as there can be one.
    fn serves(&self, root: &Root, algorithm: Option<&str>) -> Result<bool, LinuxError> {
        let devices = swap::devices(root)?;
        let own = PathBuf::from(self.device());
        let ours = devices.iter().find(|device| device.path == own).map(|device| device.priority);
        let highest = i32::from(swap::HIGHEST_PRIORITY);
        let is_before = |ours: i32| {
            let mut others = devices.iter().filter(|device| device.path != own);
            others.all(|other| ours > other.priority || ours == highest)
        };
        if !ours.is_some_and(is_before) {
            return Ok(false);
        }
        let compresses_so = match algorithm {
            Some(name) => root.read(self.sys("comp_algorithm"))?.contains(&format!("[{name}]")),
            None => true,
        };
        Ok(compresses_so && self.is_ours(root).unwrap_or(false))
    }

    /// Takes the device down; the reason where it stays.
    pub(crate) fn undo(&self, root: &Root, swap_off: SwapOff) -> Result<(), String> {
        let text = |error: LinuxError| error.to_string();
        if !root.path(self.sys("disksize")).exists() {
            return Ok(());
        }
        if root.read(self.sys("initstate")).map_err(text)? == "1" {
            if !self.is_ours(root)? {
                // Somebody else has taken it down and set it up again.
                return Ok(());
            }
            self.swap_off(root, swap_off)?;
            root.write(self.sys("reset"), "1").map_err(text)?;
        }
        if self.added {
            root.write(HOT_REMOVE, &self.number.to_string()).map_err(text)?;
        }
        Ok(())
    }

    /// Whether the device is the one that we have set up, or were about to.
    fn is_ours(&self, root: &Root) -> Result<bool, String> {
        let size = root.read(self.sys("disksize")).map_err(|error| error.to_string())?;
        let mut page = vec![0_u8; PAGE];
        let path = root.path(self.device());
        File::open(&path)
            .and_then(|mut file| file.read_exact(&mut page))
            .map_err(|error| LinuxError::io("read", path, &error).to_string())?;
        let untouched = page.iter().all(|&byte| byte == 0);
        Ok(size == self.size_bytes.to_string() && (untouched || page == self.header()))
    }

    fn swap_off(&self, root: &Root, swap_off: SwapOff) -> Result<(), String> {
        let text = |error: LinuxError| error.to_string();
        let devices = swap::devices(root).map_err(text)?;
        let own = PathBuf::from(self.device());
        let Some(device) = devices.iter().find(|device| device.path == own) else {
            return Ok(());
        };
        if device.used > Bytes::ZERO {
            if swap_off == SwapOff::WhenUnused {
                let swapped = processes_in_swap(root).map_err(text)?;
                if !swapped.is_empty() {
                    return Err(format!(
                        "{} KiB of running programs are on it (in swap: {})",
                        device.used.0 / 1024,
                        swapped.join(", ")
                    ));
                }
            }
            let available = process::available_memory(root).map_err(text)?;
            if available < device.used.saturating_add(RESERVE) {
                return Err(format!(
                    "{} MiB are on it, and only {} MiB of memory are free",
                    device.used.0 >> 20,
                    available.0 >> 20
                ));
            }
            // The kernel would kill programs of a group without room, however much memory is free.
            if let Some(obstacle) = groups::obstacle(root, device.used).map_err(text)? {
                return Err(obstacle.to_string());
            }
        }
        swapoff(&self.c_path(root))
            .map_err(|errno| format!("swapoff: {}", std::io::Error::from_raw_os_error(errno)))
    }
}

/// Running processes that have pages in any swap, as `name (number)`, at most five and how many
/// more.
fn processes_in_swap(root: &Root) -> Result<Vec<String>, LinuxError> {
    const MOST: usize = 5;
    let mut found = Vec::new();
    let mut more = 0;
    for pid in process::pids(root)? {
        let status = root.read(format!("/proc/{pid}/status")).unwrap_or_default();
        if kib_field(&status, "VmSwap").unwrap_or(0) == 0 {
            continue;
        }
        if found.len() == MOST {
            more += 1;
            continue;
        }
        let name = process::stat(root, pid).map_or("?".into(), |stat| stat.comm);
        found.push(format!("{name} ({pid})"));
    }
    if more > 0 {
        found.push(format!("{more} more"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
