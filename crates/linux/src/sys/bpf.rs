//! A BPF program that copies pages of the kernel's memory, and the memory that it shares with us.
//!
//! Sources: bpf(2), bpf-helpers(7), `include/uapi/linux/bpf.h`.

use memmap2::{MmapOptions, MmapRaw};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Pages in one run of the program.
pub const MOST_PAGES: usize = 64;
/// Entries of a page table.
pub const ENTRIES: usize = 512;

/// What the program and we share: the only element of an array map.
#[repr(C)]
struct Shared {
    /// The task that runs the program.
    task: u64,
    count: u64,
    addresses: [u64; MOST_PAGES],
    /// Error numbers, negative; 0 for a page that was copied.
    errors: [i64; MOST_PAGES],
    pages: [Page; MOST_PAGES],
}

/// A page of page-table entries, or of anything else.
#[repr(C, align(4096))]
struct Page([u64; ENTRIES]);

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, to: u8, from: u8, offset: usize, immediate: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset: offset as i16, immediate }
}

const fn set(to: u8, immediate: i32) -> Instruction {
    instruction(0xb7, to, 0, 0, immediate)
}
const fn copy(to: u8, from: u8) -> Instruction {
    instruction(0xbf, to, from, 0, 0)
}
const fn add(to: u8, from: u8) -> Instruction {
    instruction(0x0f, to, from, 0, 0)
}
const fn add_number(to: u8, immediate: usize) -> Instruction {
    instruction(0x07, to, 0, 0, immediate as i32)
}
const fn shift_left(to: u8, bits: i32) -> Instruction {
    instruction(0x67, to, 0, 0, bits)
}
const fn load(to: u8, from: u8, offset: usize) -> Instruction {
    instruction(0x79, to, from, offset, 0)
}
const fn store(to: u8, from: u8, offset: usize) -> Instruction {
    instruction(0x7b, to, from, offset, 0)
}
const fn call(helper: i32) -> Instruction {
    instruction(0x85, 0, 0, 0, helper)
}

/// `BPF_FUNC_get_current_task` and `BPF_FUNC_probe_read_kernel`.
const CURRENT_TASK: i32 = 35;
const READ_KERNEL: i32 = 113;
/// `BPF_PSEUDO_MAP_VALUE`.
const MAP_VALUE: u8 = 2;

/// Copies `count` pages, each as far as the kernel can read it.
fn program(map: RawFd) -> [Instruction; 23] {
    const LOOP: usize = 6;
    const END: usize = 21;
    [
        instruction(0x18, 6, MAP_VALUE, 0, map),
        instruction(0, 0, 0, 0, 0),
        call(CURRENT_TASK),
        store(6, 0, offset_of!(Shared, task)),
        load(8, 6, offset_of!(Shared, count)),
        set(7, 0),
        // The first of these ends the loop for the kernel's verifier, the second for us.
        instruction(0x35, 7, 0, END - LOOP - 1, MOST_PAGES as i32),
        instruction(0x3d, 7, 8, END - LOOP - 2, 0),
        copy(9, 7),
        shift_left(9, 3),
        add(9, 6),
        load(3, 9, offset_of!(Shared, addresses)),
        copy(1, 7),
        shift_left(1, size_of::<Page>().trailing_zeros() as i32),
        add(1, 6),
        add_number(1, offset_of!(Shared, pages)),
        set(2, size_of::<Page>() as i32),
        call(READ_KERNEL),
        store(9, 0, offset_of!(Shared, errors)),
        add_number(7, 1),
        Instruction { offset: LOOP as i16 - END as i16, ..instruction(0x05, 0, 0, 0, 0) },
        set(0, 0),
        instruction(0x95, 0, 0, 0, 0),
    ]
}

/// The part of `union bpf_attr` that creates a map.
#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// The part that loads a program.
#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

/// The part that runs a program once.
#[repr(C)]
#[derive(Default)]
struct ProgramRun {
    prog_fd: u32,
    retval: u32,
    rest: [u64; 8],
}

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_RUN: libc::c_int = 10;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_PROG_TYPE_SYSCALL: u32 = 31;
const BPF_F_SLEEPABLE: u32 = 1 << 4;

/// # Safety
/// `attributes` must be what `command` takes.
unsafe fn bpf<A>(command: libc::c_int, attributes: &mut A) -> Result<libc::c_long, i32> {
    // SAFETY: the kernel reads and writes `attributes`, as many bytes as it is large.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_mut(attributes), size_of::<A>()) };
    match result {
        result if result < 0 => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        result => Ok(result),
    }
}

fn owned(fd: libc::c_long) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us, nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd as RawFd) }
}

/// Reads the kernel's memory and changes nothing of it. What it does not map cannot be read.
#[derive(Debug)]
pub struct KernelMemory {
    program: OwnedFd,
    shared: MmapRaw,
    /// Keeps the map alive, which the program does as well.
    _map: OwnedFd,
}

impl KernelMemory {
    /// Loads the program.
    ///
    /// # Errors
    /// The kernel's error number: `EPERM` without `CAP_BPF` and `CAP_PERFMON`, `EINVAL` before
    /// Linux 5.14 or where lockdown keeps the kernel's memory confidential.
    pub fn open() -> Result<Self, i32> {
        let mut create = MapCreate {
            map_type: BPF_MAP_TYPE_ARRAY,
            key_size: 4,
            value_size: size_of::<Shared>() as u32,
            max_entries: 1,
            map_flags: BPF_F_MMAPABLE,
        };
        // SAFETY: these are the attributes of the command.
        let map = owned(unsafe { bpf(BPF_MAP_CREATE, &mut create)? });
        let shared = MmapOptions::new()
            .len(size_of::<Shared>())
            .map_raw(&map)
            .map_err(|error| error.raw_os_error().unwrap_or(0))?;
        let program = program(map.as_raw_fd());
        let mut load = ProgramLoad {
            prog_type: BPF_PROG_TYPE_SYSCALL,
            insn_cnt: program.len() as u32,
            insns: program.as_ptr().expose_provenance() as u64,
            license: c"Dual MIT/GPL".as_ptr().expose_provenance() as u64,
            prog_flags: BPF_F_SLEEPABLE,
            ..ProgramLoad::default()
        };
        // SAFETY: these are the attributes of the command; the addresses in it are those of a
        // program of that length and of a text that ends with a zero, which outlive the call.
        let program = owned(unsafe { bpf(BPF_PROG_LOAD, &mut load)? });
        Ok(Self { program, shared, _map: map })
    }

    fn shared(&self) -> *mut Shared {
        self.shared.as_mut_ptr().cast()
    }

    fn run(&mut self) -> Result<(), i32> {
        let mut run =
            ProgramRun { prog_fd: self.program.as_raw_fd() as u32, ..ProgramRun::default() };
        // SAFETY: these are the attributes of the command. The program writes to `shared` only.
        unsafe { bpf(BPF_PROG_RUN, &mut run).map(drop) }
    }

    /// Address of the kernel's structure of the thread that calls.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn own_task(&mut self) -> Result<u64, i32> {
        let shared = self.shared();
        // SAFETY: `shared` is mapped, as large as a `Shared`, page-aligned, and valid with any
        // bits. Nobody but the program accesses it, and that only while `run` lasts.
        unsafe {
            (*shared).count = 0;
            self.run()?;
            Ok((*shared).task)
        }
    }

    /// Copies the 4 KiB from each of the first [`MOST_PAGES`] of `addresses` on, and shows them in
    /// their order; `None` for what cannot be read.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn read(
        &mut self,
        addresses: &[u64],
        mut see: impl FnMut(usize, Option<&[u64; ENTRIES]>),
    ) -> Result<(), i32> {
        let shared = self.shared();
        let addresses = &addresses[..addresses.len().min(MOST_PAGES)];
        // SAFETY: as in `own_task`. What is shown is borrowed from `self` for as long as it is seen.
        let (errors, pages) = unsafe {
            let asked: &mut [u64; MOST_PAGES] = &mut (*shared).addresses;
            asked[..addresses.len()].copy_from_slice(addresses);
            (*shared).count = addresses.len() as u64;
            self.run()?;
            (&(*shared).errors, &(*shared).pages)
        };
        for (at, (error, page)) in errors.iter().zip(pages).take(addresses.len()).enumerate() {
            see(at, (*error == 0).then_some(&page.0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_what_the_program_presumes() {
        assert_eq!(offset_of!(Shared, pages) % 4096, 0);
        assert_eq!(size_of::<Page>(), 4096);
        assert_eq!((size_of::<Instruction>(), size_of::<ProgramRun>()), (8, 72));
        assert_eq!(offset_of!(ProgramLoad, prog_flags), 44);
    }
}
