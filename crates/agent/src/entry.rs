//! Entry points for the dynamic linker, `fork` and the end of the program, on the program's own
//! threads: nothing here allocates, and nothing takes longer than it must.

use crate::variables::{self, VARIABLES};
use crate::{life, work};
use frostline_driver::environment::VARIABLE;
use frostline_inprocess::inside;

// SAFETY: the dynamic linker calls what stands in this section once, before the program's `main` or when
// the library is brought into it, by the convention that the type names.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

// SAFETY: as above, when the program ends by `exit` or by returning from `main`.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = life::end_of_program;

extern "C" fn begin() {
    let Some(variables) = variables::read() else { return };
    let _ = VARIABLES.set(variables);
    if !variables::follows_children() && !variables::comes_late() {
        // SAFETY: the program's `main` has not begun, so that no other thread of it reads its
        // environment.
        unsafe { std::env::remove_var(VARIABLE) };
    }
    if variables::leaves_alone() {
        return;
    }
    // Without it, children have no thread, and all else is as it should be.
    let _ = inside::after_fork(forked);
    life::begin(&work::THREAD);
}

extern "C" fn forked() {
    crate::ARENA.forget();
    inside::forget_pages_away();
    life::forked(&work::THREAD, variables::follows_children());
}
