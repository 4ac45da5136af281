//! Frame that the kernel leaves on a thread's stack before it has it run a signal handler, and
//! takes up
//! again afterwards, made by ourselves: a thread that returns to it is as it was before, whoever is
//! still there to see it.
//!
//! Source: `arch/x86/kernel/signal_64.c` and `arch/x86/kernel/fpu/signal.c`,
//! `arch/x86/include/uapi/asm/{ucontext,sigcontext}.h`.

use crate::sys::ptrace::{Registers, extended_component};

/// Below the stack pointer, compiled code may keep something (System V ABI, 3.2.2).
pub const RED_ZONE_BYTES: u64 = 128;
/// From the frame's beginning, where its return address is, to what the kernel takes up.
const CONTEXT: usize = 8;
const STACK: usize = CONTEXT + 16;
const REGISTERS: usize = STACK + 24;
const SEGMENTS: usize = REGISTERS + 18 * 8;
const EXTENDED: usize = REGISTERS + 23 * 8;
const MASK: usize = REGISTERS + 32 * 8;
const END: usize = MASK + 8;
/// Extended state is there, and the stack segment is to be taken from the frame as it is.
const FLAGS: u64 = 0b111;
/// No such way to use another stack exists: which one the thread has for signals stays as it is.
const NO_CHANGE: u32 = 0xff;

/// Where XSAVE has its header: which components are not as after a reset, and how it is packed.
const HEADER: usize = 512;
const HEADER_END: usize = 576;
/// Where the kernel describes what follows the first 512 bytes.
const DESCRIPTION: usize = 464;
const MAGIC_BEGIN: u32 = 0x4650_5853;
const MAGIC_END: u32 = 0x4650_5845;
/// x87 and SSE, which are always there.
const ALWAYS: u64 = 0b11;
/// Tiles, for which a program asks before the kernel has room for them in such a frame.
const TILES: u64 = 0b11 << 17;

/// Code segment of 64-bit programs.
pub const CODE_SEGMENT: u64 = 0x33;
/// Whether the words from a return address on are such a frame: these are its segments.
pub const SEGMENTS_OFFSET: u64 = SEGMENTS as u64;

/// A frame and where it belongs.
#[derive(Debug)]
pub struct Frame {
    /// Address of the first byte.
    pub at: u64,
    /// What belongs there. The first word is the address of the function that a call returns to
    /// before it returns to the frame itself, so that the stack pointer at its entry may be `at`.
    pub bytes: Vec<u8>,
}

impl Frame {
    /// Where a call begins that returns to the frame at once.
    pub fn returns(&self) -> u64 {
        self.at + 8
    }
}

/// Of what a stopped thread goes on with. `restart` makes it execute the last instruction again, a
/// system call, of this number. `sigreturn` is the address of code that calls sigreturn(2), `last` of a
/// function that is called before. `None` where the processor's state cannot be kept.
pub fn frame(
    registers: &Registers,
    restart: u64,
    extended: &[u8],
    mask: u64,
    (last, sigreturn): (u64, u64),
) -> Option<Frame> {
    let state = state(extended)?;
    let top = registers.rsp.checked_sub(RED_ZONE_BYTES)?;
    let state_at = top.checked_sub(state.len() as u64)? & !63;
    // As after a call: eight bytes below a multiple of 16.
    let frame_at = (state_at.checked_sub(END as u64)? & !15).checked_sub(8)?;
    let at = frame_at.checked_sub(8)?;
    let mut bytes = vec![0; 8 + (state_at - frame_at) as usize];
    bytes.extend_from_slice(&state);
    bytes[..8].copy_from_slice(&last.to_ne_bytes());
    let frame = &mut bytes[8..];
    let mut put = |at: usize, word: u64| frame[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    let r = registers;
    put(0, sigreturn);
    put(CONTEXT, FLAGS);
    put(STACK + 8, u64::from(NO_CHANGE));
    let kept = [
        r.r8,
        r.r9,
        r.r10,
        r.r11,
        r.r12,
        r.r13,
        r.r14,
        r.r15,
        r.rdi,
        r.rsi,
        r.rbp,
        r.rbx,
        r.rdx,
        restart,
        r.rcx,
        r.rsp,
        r.rip - CALL.len() as u64,
        r.eflags,
    ];
    for (at, word) in kept.into_iter().enumerate() {
        put(REGISTERS + 8 * at, word);
    }
    put(SEGMENTS, r.cs & 0xffff | (r.ss & 0xffff) << 48);
    put(EXTENDED, state_at);
    put(MASK, mask);
    Some(Frame { at, bytes })
}

/// The instruction by which 64-bit programs call the kernel.
pub const CALL: [u8; 2] = [0x0f, 0x05];

/// The extended registers as the kernel wants them in a frame: those in use, a description, and a
/// mark at the end.
fn state(extended: &[u8]) -> Option<Vec<u8>> {
    let header = extended.get(HEADER..HEADER + 8)?;
    let in_use = u64::from_ne_bytes(header.try_into().ok()?) | ALWAYS;
    if in_use & TILES != 0 {
        return None;
    }
    let ends = (2..63).filter(|component| in_use >> component & 1 != 0).map(|component| {
        let (bytes, begin) = extended_component(component);
        begin + bytes
    });
    let len = ends.max().unwrap_or(0).max(HEADER_END);
    let mut state = extended.get(..len)?.to_vec();
    // Not packed.
    state[HEADER + 8..HEADER + 16].fill(0);
    let description = &mut state[DESCRIPTION..HEADER];
    description.fill(0);
    description[..4].copy_from_slice(&MAGIC_BEGIN.to_ne_bytes());
    description[4..8].copy_from_slice(&(len as u32 + 4).to_ne_bytes());
    description[8..16].copy_from_slice(&in_use.to_ne_bytes());
    description[16..20].copy_from_slice(&(len as u32).to_ne_bytes());
    state.extend_from_slice(&MAGIC_END.to_ne_bytes());
    Some(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::ptrace::no_registers;

    fn word(frame: &Frame, at: usize) -> u64 {
        u64::from_ne_bytes(frame.bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn a_frame_lies_below_the_red_zone_and_as_the_kernel_wants_it() {
        for rsp in (0x7000_0000_1000..0x7000_0000_1080).step_by(8) {
            let registers =
                Registers { rsp, rip: 0x1234, cs: 0x33, ss: 0x2b, r15: 15, ..no_registers() };
            let mut extended = vec![0; 4096];
            extended[HEADER + 8] = 9;
            let frame = frame(&registers, 232, &extended, 1 << 9, (7, 8)).expect("plain state");
            let end = frame.at + frame.bytes.len() as u64;
            assert!(end <= rsp - RED_ZONE_BYTES && frame.at.is_multiple_of(16));
            assert_eq!((word(&frame, 0), word(&frame, 8)), (7, 8));
            let context = 8 + REGISTERS;
            assert_eq!(word(&frame, context + 7 * 8), 15);
            assert_eq!(word(&frame, context + 13 * 8), 232, "the call's number");
            assert_eq!(word(&frame, context + 15 * 8), rsp);
            assert_eq!(word(&frame, context + 16 * 8), 0x1232, "the call's instruction");
            assert_eq!(word(&frame, 8 + SEGMENTS), 0x002b_0000_0000_0033);
            assert_eq!(word(&frame, 8 + MASK), 1 << 9);
            let state = word(&frame, 8 + EXTENDED);
            assert!(state.is_multiple_of(64));
            let state = (state - frame.at) as usize;
            let four = |at: usize| {
                u32::from_ne_bytes(frame.bytes[state + at..state + at + 4].try_into().unwrap())
            };
            assert_eq!((four(DESCRIPTION), four(DESCRIPTION + 16)), (MAGIC_BEGIN, 576));
            assert_eq!(four(576), MAGIC_END);
            assert_eq!(four(HEADER + 8), 0, "not packed");
        }
    }

    #[test]
    fn state_that_does_not_fit_is_refused() {
        let mut extended = vec![0; 16 << 10];
        extended[HEADER + 2] = 0b100;
        let registers = Registers { rsp: 1 << 40, rip: 1 << 20, ..no_registers() };
        assert!(frame(&registers, 0, &extended, 0, (1, 2)).is_none(), "tiles");
        assert!(frame(&registers, 0, &extended[..100], 0, (1, 2)).is_none(), "cut off");
        let low = Registers { rsp: 64, ..registers };
        assert!(frame(&low, 0, &[0; 1024], 0, (1, 2)).is_none(), "no stack");
    }
}
