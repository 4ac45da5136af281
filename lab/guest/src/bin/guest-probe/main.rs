//! Probe inside of the guest: it moves, splits and collapses the memory of another process by
//! `frostline-linux` and checks the result by the kernel's own counters. It exits with 0 where every
//! check holds.
#![forbid(unsafe_code)]

mod folios;
mod held;
mod kernel;
mod limits;
mod moves;

use anyhow::{Result, bail};
use frostline_driver::doctor;
use frostline_linux::Root;
use frostline_linux::topology::Topology;
use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guest-probe: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    match words {
        ["hold", pages, mib, work] => held::hold(pages.parse()?, mib.parse()?, work.parse()?),
        ["move", "base"] => moves::base(),
        ["move", "huge"] => moves::huge(),
        ["folios"] => folios::split_and_collapse(),
        ["full", mib] => limits::full_node(mib.parse()?),
        ["cpuset"] => limits::cpuset(),
        ["topology"] => topology(),
        ["doctor"] => {
            for capability in doctor::examine(&Root::system()) {
                let answer = if capability.available { "yes" } else { "no" };
                println!("{}: {answer}: {}", capability.name, capability.why);
            }
            Ok(())
        }
        _ => bail!("no such check: {words:?}"),
    }
}

fn topology() -> Result<()> {
    let topology = Topology::read(&Root::system())?;
    println!("lower nodes: {:?}", topology.lower_nodes());
    for node in &topology.nodes {
        let performance = node.performance.map(|p| (p.read_latency_ns, p.read_bandwidth_mib));
        println!("node {}: cpus {:?}, ns and MiB/s {performance:?}", node.id, node.cpus);
    }
    Ok(())
}
