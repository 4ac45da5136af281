//! The recorder for QEMU's user mode.

use crate::kit::{Kit, sources};
use crate::options::Options;
use crate::program::interpreter;
use crate::tool::Tool;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

pub(crate) const KIT: Kit = Kit {
    folder: "qemu",
    binary: "frostline-qemu.so",
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
        "qemu/Makefile",
        "qemu/README.md",
        "qemu/src/api.h",
        "qemu/src/cpus.c",
        "qemu/src/cpus.h",
        "qemu/src/decode.c",
        "qemu/src/decode.h",
        "qemu/src/main.c",
        "qemu/src/memory.c",
        "qemu/src/memory.h",
        "qemu/src/options.c",
        "qemu/src/options.h",
        "qemu/src/port.h",
        "qemu/src/program.c",
        "qemu/src/program.h",
        "qemu/src/transfer.c",
        "qemu/src/transfer.h",
    ],
    launchers: &["/usr/bin/qemu-x86_64"],
    support: &[],
    headers: &["/usr/include/stdlib.h"],
    called: "QEMU's user mode",
    packages: "qemu-user gcc make libc6-dev",
    trial: "qemu-x86_64 $(command -v PROGRAM)",
};

/// The processor that programs see. It decides which string and vector routines they choose, so it
/// is the same wherever a trace is recorded. What QEMU 7.2 does not emulate of it is taken away, or
/// QEMU would complain of it into the program's standard error.
const CPU: &str = "EPYC,-rdseed,-sha-ni,-fxsr-opt,-misalignsse,-3dnowprefetch,-osvw,-topoext,\
                   -nrip-save,-xsavec";

/// See [`Tool::command`].
pub(crate) fn command(
    tool: &Tool,
    options: &Options,
    pipe: i32,
    program: &Path,
    words: &[OsString],
) -> Command {
    let mut command = Command::new(&tool.launcher);
    // A comma ends the path unless it is doubled.
    let plugin = tool.binary().to_string_lossy().replace(',', ",,");
    let yes = |wanted: bool| u8::from(wanted);
    command.args(["-cpu", CPU, "-plugin"]).arg(format!(
        "{plugin},pipe={pipe},l1={},llc={},ways={},epoch={},fetch={},follow={}",
        options.l1_bytes,
        options.llc_bytes,
        options.llc_ways,
        options.epoch,
        yes(options.fetch),
        yes(options.follow),
    ));
    let (name, arguments) = words.split_first().map_or((None, words), |(n, a)| (Some(n), a));
    // QEMU does what the kernel does, except that it knows no scripts.
    match interpreter(program) {
        Some((interpreter, argument)) => {
            command.arg("--").arg(interpreter).args(argument).arg(program);
        }
        None => {
            command.args(name.map(|name| ["-0".into(), name.clone()]).into_iter().flatten());
            command.arg("--").arg(program);
        }
    }
    command.args(arguments);
    command
}

/// What the trace says about the processor.
pub(crate) fn cpu_model() -> String {
    format!("QEMU {CPU}")
}

/// Version of this QEMU; empty where it does not tell.
pub(crate) fn version(launcher: &Path) -> String {
    let output = Command::new(launcher).arg("-version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let words = text.unwrap_or_default();
    words.split_whitespace().skip_while(|word| *word != "version").nth(1).unwrap_or("").to_owned()
}
