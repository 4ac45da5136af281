//! Remarks of the agent: on the program's standard error, one line each, or in a file.

use crate::{life, variables};
use frostline_core::foreign::Plain;
use frostline_inprocess::inside::standard_error;
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
    let Some(path) = variables::text("log") else { return false };
    let file = File::options().append(true).create(true).open(path);
    // One call, so that the lines of several processes do not mix.
    file.and_then(|mut file| file.write_all(line(text).as_bytes())).is_ok()
}

fn line(text: &str) -> String {
    let text = text.replace('\n', "; ");
    format!("frostline[{}]: {}\n", std::process::id(), Plain::line(&text))
}

/// Writes a line without allocating anything.
pub fn say_without_memory(line: &str) {
    if let Some(file) = standard_error() {
        // Where nobody reads, there is nobody to tell.
        let _ = rustix::io::write(file, line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_is_one_line_that_leads_no_terminal() {
        let line = line("cannot read /a\x1b[2J\u{9b}\nhint: none");
        let expected = concat!(r"]: cannot read /a\u{1b}[2J\u{9b}; hint: none", "\n");
        assert!(line.ends_with(expected), "{line:?}");
    }
}
