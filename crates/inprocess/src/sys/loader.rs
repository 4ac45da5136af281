//! Code that a thread of another program executes when it is made to load a library.

std::arch::global_asm!(
    ".pushsection .rodata",
    ".global frostline_loader_begin",
    ".global frostline_loader_end",
    ".hidden frostline_loader_begin",
    ".hidden frostline_loader_end",
    "frostline_loader_begin:",
    // rbx: the table; r12: the stack to end on; rsp: ours to use, a multiple of 16.
    "    call *({errno})(%rbx)",
    "    mov %rax, %rbp",
    "    mov (%rax), %r15d",
    "    lea {path}(%rbx), %rdi",
    "    mov ${flags}, %esi",
    "    call *({dlopen})(%rbx)",
    "    mov %rax, %r14",
    "    xor %r13d, %r13d",
    "    test %rax, %rax",
    "    jne 2f",
    "    call *({dlerror})(%rbx)",
    "    mov %rax, %r13",
    "2:  mov %r15d, (%rbp)",
    // The C library's munmap removes this code, and returns to what lies on that stack.
    "    mov ({page})(%rbx), %rdi",
    "    mov ${bytes}, %esi",
    "    mov %r12, %rsp",
    "    jmp *({munmap})(%rbx)",
    "frostline_loader_end:",
    ".popsection",
    errno = const 8 * ERRNO,
    dlopen = const 8 * DLOPEN,
    dlerror = const 8 * DLERROR,
    munmap = const 8 * MUNMAP,
    page = const 8 * PAGE,
    path = const 8 * WORDS,
    bytes = const BYTES,
    flags = const FLAGS,
    options(att_syntax),
);

/// Words of the table: addresses of `__errno_location`,
pub const ERRNO: usize = 0;
/// `dlopen`,
pub const DLOPEN: usize = 1;
/// `dlerror`
pub const DLERROR: usize = 2;
/// and `munmap`; the memory of all this.
pub const MUNMAP: usize = 3;
/// Where that begins.
pub const PAGE: usize = 4;
/// The path of the library follows, with a zero byte at its end.
pub const WORDS: usize = 5;
/// Where the table is, from the beginning.
pub const TABLE: usize = 256;
/// Bytes of code and table together.
pub const BYTES: usize = 8192;
/// All symbols are looked up at once, and it is never unloaded (dlopen(3)).
const FLAGS: libc::c_int = libc::RTLD_NOW | libc::RTLD_NODELETE;

/// The instructions. In the end `r14` is what dlopen(3) gave, and `r13` the address of a text where that
/// is nothing.
pub fn code() -> &'static [u8] {
    unsafe extern "C" {
        static frostline_loader_begin: u8;
        static frostline_loader_end: u8;
    }
    let (begin, end) = (&raw const frostline_loader_begin, &raw const frostline_loader_end);
    // SAFETY: both labels stand above, in this order, in memory that nobody writes.
    unsafe { std::slice::from_raw_parts(begin, end.addr() - begin.addr()) }
}
