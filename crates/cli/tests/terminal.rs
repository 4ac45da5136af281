//! Text of others, on its way to a terminal, a report and JSON.

use assert_cmd::Command;
use frostline_core::AccessKind;
use frostline_core::foreign::leads;
use frostline_core::types::PageId;
use frostline_trace::event::StreamId;
use frostline_trace::{TraceHeader, TraceWriter};
use std::path::Path;

/// Sets a terminal's title, clears it (by an 8-bit control character), and is written from right to left.
const NAME: &str = "\x1b]0;title\x07\u{9b}2J\u{202e}x\nroot: all is well\r\u{7f}";
const SHOWN: &str = r"\u{1b}]0;title\u{7}\u{9b}2J\u{202e}x\nroot: all is well\r\u{7f}";

fn hostile_trace(path: &Path) {
    let mut header = TraceHeader::named(NAME);
    header.command = vec![NAME.into(), "b".into()];
    header.recorder = NAME.into();
    header.cpu_model = NAME.into();
    let mut writer = TraceWriter::create(path, &header).expect("it can be written");
    for clock in 0..2000 {
        let page = PageId(clock as u32 % 64);
        writer.access(clock, page, AccessKind::Load, StreamId(0), 0).expect("it can be written");
    }
    writer.finish().expect("it can be written");
}

struct Said {
    out: String,
    err: String,
}

/// Runs frostline; nothing that it says leads a terminal.
fn says(args: &[&str]) -> Said {
    let output =
        Command::new(env!("CARGO_BIN_EXE_frostline")).args(args).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let said = Said { out: text(output.stdout), err: text(output.stderr) };
    for text in [&said.out, &said.err] {
        assert!(!text.chars().any(|c| leads(c) && c != '\n'), "{args:?}: {text:?}");
    }
    said
}

#[test]
fn what_a_trace_says_of_itself_cannot_lead_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.flt");
    hostile_trace(&path);
    let trace = path.to_str().expect("a name");
    let info = says(&["trace", "info", trace]).out;
    assert_eq!(info.matches(SHOWN).count(), 4, "{info}");
    assert!(!info.contains("\nroot:"), "a name stays on its line: {info}");

    let json = says(&["trace", "info", "--json", trace]).out;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let header = &json["runs"][0]["header"];
    assert_eq!(header["name"], NAME, "JSON has it as it is");
    assert_eq!(header["command"][0], NAME);

    let report = folder.path().join("r.html");
    let to = report.to_str().expect("a name");
    let table = says(&["compare", trace, "--policies", "first-touch", "--report", to]).out;
    assert!(table.contains(&format!("program  {SHOWN} b\n")), "{table}");
    let html = std::fs::read_to_string(&report).expect("written");
    assert!(html.contains(SHOWN) && !html.chars().any(|c| leads(c) && c != '\n'));
}

#[test]
fn names_of_files_in_errors_cannot_lead_a_terminal() {
    let error = says(&["trace", "info", "a\x1b[2J\u{202e}.flt"]).err;
    assert!(error.contains(r"a\u{1b}[2J\u{202e}.flt"), "{error}");
}
