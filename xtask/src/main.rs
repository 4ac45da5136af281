//! Chores of this repository: `cargo xtask tidy` checks what no compiler checks.
#![forbid(unsafe_code)]

mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["tidy"] => tidy(),
        _ => {
            eprintln!("usage: cargo xtask tidy");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    // Cargo sets the directory of this package, which lies directly below the root.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let problems = match tidy::check(&root) {
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
