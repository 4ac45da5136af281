//! The recorder for Valgrind.

use crate::kit::{Kit, sources};
use crate::options::Options;
use crate::tool::Tool;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

pub(crate) const KIT: Kit = Kit {
    folder: "valgrind",
    // As Valgrind's launcher wants it.
    binary: "frostline-amd64-linux",
    sources: sources![
        "COPYING",
        "common/cache.c",
        "common/cache.h",
        "common/calls.c",
        "common/calls.h",
        "common/kernel.h",
        "common/stream.c",
        "common/stream.h",
        "frostline_marks.h",
        "valgrind/Makefile",
        "valgrind/README.md",
        "valgrind/src/checks.c",
        "valgrind/src/checks.h",
        "valgrind/src/core_extra.h",
        "valgrind/src/instrument.c",
        "valgrind/src/instrument.h",
        "valgrind/src/main.c",
        "valgrind/src/options.h",
        "valgrind/src/port.h",
        "valgrind/src/program.c",
        "valgrind/src/program.h",
    ],
    // The first is without the shell wrapper, which would change the program's environment.
    launchers: &["/usr/bin/valgrind.bin", "/usr/bin/valgrind"],
    support: &["/usr/libexec/valgrind/vgpreload_core-amd64-linux.so"],
    headers: &[
        "/usr/include/valgrind/pub_tool_tooliface.h",
        "/usr/lib/x86_64-linux-gnu/valgrind/libcoregrind-amd64-linux.a",
    ],
    called: "Valgrind",
    packages: "valgrind gcc make libc6-dev",
    trial: "valgrind --tool=none PROGRAM",
};

/// See [`Tool::command`].
pub(crate) fn command(
    tool: &Tool,
    options: &Options,
    logs: &Path,
    pipe: i32,
    program: &[OsString],
) -> Command {
    let mut command = Command::new(&tool.launcher);
    // `%` begins a pattern in the log's name.
    let log = logs.join("log").to_string_lossy().replace('%', "%%");
    command
        .env("VALGRIND_LIB", &tool.dir)
        .env_remove("VALGRIND_OPTS")
        .args(["--tool=frostline", "--command-line-only=yes", "-q", "--vgdb=no"])
        .args(["--sigill-diagnostics=yes", "--fair-sched=try"])
        .arg(format!("--log-file={log}.%p"))
        .arg(format!("--trace-children={}", if options.follow { "yes" } else { "no" }))
        .arg(format!("--pipe-fd={pipe}"))
        .arg(format!("--l1-size={}", options.l1_bytes))
        .arg(format!("--llc-size={}", options.llc_bytes))
        .arg(format!("--llc-ways={}", options.llc_ways))
        .arg(format!("--epoch={}", options.epoch))
        .arg(format!("--fetch={}", if options.fetch { "yes" } else { "no" }))
        .arg("--")
        .args(program);
    command
}

/// `model name` of proc_cpuinfo(5); empty where it is not known.
pub(crate) fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|rest| rest.split_once(':')).map_or("", |(_, name)| name.trim()).to_owned()
}
