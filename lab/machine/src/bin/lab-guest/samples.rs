//! Samples of a program.

use anyhow::Context;
use frostline_core::event::SampleKind;
use frostline_linux::lab::LabMemory;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

/// Runs the command; prints how many of its loads were sampled in nodes 0 and 1, how many of
/// others, and how many were lost.
pub fn run(memory: &LabMemory, period: u32, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let (program, rest) = command.split_first().context("no command")?;
    memory.skip();
    let lost = memory.lost();
    memory.set_period(SampleKind::LoadMiss, period);
    let mut child = Command::new(program).args(rest).spawn()?;
    let status = child.wait()?;
    memory.set_period(SampleKind::LoadMiss, 0);
    let (mut nodes, mut others) = ([0u64; 2], 0u64);
    memory.drain(|sample| match nodes.get_mut(usize::from(sample.node)) {
        Some(count) if sample.pid == child.id() => *count += 1,
        _ => others += 1,
    });
    println!("samples {} {} {others} {}", nodes[0], nodes[1], memory.lost() - lost);
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)))
}
