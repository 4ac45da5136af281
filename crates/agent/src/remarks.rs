//! What the agent has to say: on the program's standard error, one line, or in a file.

use crate::{life, words};
use frostline_driver::environment::LOG;
use frostline_linux::inside::standard_error;
use std::fs::File;
use std::io::Write;

/// Says why the program is not tiered, or not any more. What concerns a forked child alone is only
/// written to the file: the program's output is its own.
pub fn complain(text: &str) {
    if !note(text) && !life::is_child() {
        say_without_memory(&line(text));
    }
}

/// Writes a remark to the file, where there is one; whether there is.
pub fn note(text: &str) -> bool {
    let Some(path) = words::get(LOG).filter(|path| !path.is_empty()) else { return false };
    let file = File::options().append(true).create(true).open(path);
    // One call, so that the lines of several processes do not mix.
    file.and_then(|mut file| file.write_all(line(text).as_bytes())).is_ok()
}

fn line(text: &str) -> String {
    format!("frostline[{}]: {}\n", std::process::id(), text.replace('\n', "; "))
}

/// Writes a line without allocating anything.
pub fn say_without_memory(line: &str) {
    if let Some(file) = standard_error() {
        // Where nobody reads, there is nobody to tell.
        let _ = rustix::io::write(file, line.as_bytes());
    }
}
