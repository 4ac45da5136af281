//! Support for tests of `frostline record`.

use frostline_testing::{Requirement, skip};
use std::path::Path;

/// The recorder builds on x86-64 with Valgrind's headers only.
pub fn can_record() -> bool {
    let headers = Path::new("/usr/include/valgrind/pub_tool_basics.h").exists();
    let can = cfg!(target_arch = "x86_64") && headers;
    if !can {
        skip(Requirement::Valgrind, "no x86-64, or no valgrind package with its headers");
    }
    can
}
