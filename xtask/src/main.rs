//! Chores of this repository: `cargo xtask tidy` checks what no compiler checks, `cargo xtask lab`
//! runs the emulated machine with two tiers of memory, `cargo xtask fuzz` the fuzzer, `cargo xtask
//! disasters` the daemon in worlds that are made up.
#![forbid(unsafe_code)]

mod fuzz;
mod lab;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["tidy"] => tidy(),
        ["lab", command, rest @ ..] => lab::run(&root(), command, rest),
        ["disasters", rest @ ..] => disasters(rest),
        ["fuzz", rest @ ..] => fuzz::run(&root(), rest),
        ["fuzz-min", rest @ ..] => fuzz::merge(&root(), rest),
        _ => {
            eprintln!(
                "usage: cargo xtask tidy\n       cargo xtask lab setup|run|compare|test ...\n       \
                 cargo xtask disasters|fuzz|fuzz-min ..."
            );
            ExitCode::from(2)
        }
    }
}

/// Cargo sets the directory of this package, which lies directly below the root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// As a program of its own: whoever checks tidiness need not build the daemon.
fn disasters(args: &[&str]) -> ExitCode {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--locked", "-p", "frostline-disasters", "--"]).args(args);
    match cargo.current_dir(root()).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> ExitCode {
    let problems = match tidy::check(&root()) {
        Ok(problems) => problems,
        Err(error) => {
            eprintln!("tidy: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("tidy: {} problem(s)", problems.len());
    ExitCode::FAILURE
}
