//! The lab (`docs/notes/lab.md`): sets it up, builds what runs in it, and hands over to `frostline-lab`.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// What a set-up script ends with where the machine cannot have the lab.
const IMPOSSIBLE: i32 = 77;

pub fn run(root: &Path, command: &str, rest: &[&str]) -> ExitCode {
    for setup in ["lab/guest/setup", "lab/plugin/setup"] {
        let status = Command::new(root.join(setup)).stdout(Stdio::null()).status();
        match status.map(|status| status.code()) {
            Ok(Some(0)) => {}
            Ok(Some(IMPOSSIBLE)) => return ExitCode::from(IMPOSSIBLE as u8),
            other => {
                eprintln!("error: {setup}: {other:?}");
                return ExitCode::FAILURE;
            }
        }
    }
    let cargo = || {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(root);
        cargo
    };
    match command {
        "setup" => ExitCode::SUCCESS,
        "test" => code(cargo().args(["test", "-p", "frostline-lab"]).args(rest)),
        _ => {
            // All of the workspace's programs go into the guest, in the same profile.
            let mut build = cargo();
            build.args([
                "build",
                "--release",
                "--quiet",
                "-p",
                "frostline",
                "-p",
                "frostline-load",
            ]);
            build.args(["-p", "frostline-lab"]);
            let built = code(&mut build);
            if built != ExitCode::SUCCESS {
                return built;
            }
            let mut lab = cargo();
            lab.args([
                "run",
                "--release",
                "--quiet",
                "-p",
                "frostline-lab",
                "--bin",
                "frostline-lab",
            ]);
            code(lab.args(["--", command]).args(rest))
        }
    }
}

fn code(command: &mut Command) -> ExitCode {
    match command.status() {
        Ok(status) => ExitCode::from(status.code().map_or(1, |code| code as u8)),
        Err(error) => {
            eprintln!("error: {command:?}: {error}");
            ExitCode::FAILURE
        }
    }
}
