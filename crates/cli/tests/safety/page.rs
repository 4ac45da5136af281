//! The page of what is managed, in a browser, while a program is tiered and its driver killed.

use crate::load::Load;
use crate::support::{EAGER, Running, attach, status_of, wait_until};
use crate::system::System;
use frostline_testing::{Requirement, skip};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OPTIONS: &str = "--slow zram:size=256MiB --fast 60%";
const BROWSERS: &[&str] =
    &["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// The script, with the packages that it takes beside it; why there is none.
fn script() -> Result<PathBuf, String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../serve/page");
    let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&packages).map_err(|error| error.to_string())?;
    for file in ["package.json", "package-lock.json", "test/browser.mjs"] {
        let name = Path::new(file).file_name().expect("a file");
        std::fs::copy(page.join(file), packages.join(name)).map_err(|error| error.to_string())?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
    let done = npm.current_dir(&packages).output().map_err(|error| format!("npm: {error}"))?;
    match done.status.success() {
        true => Ok(packages.join("browser.mjs")),
        false => Err(format!("npm: {}", String::from_utf8_lossy(&done.stderr))),
    }
}

#[test]
fn a_browser_sees_what_is_so() {
    let Some(browser) = BROWSERS.iter().find(|path| Path::new(path).exists()) else {
        skip(Requirement::Browser, "no chromium");
        return;
    };
    let script = match script() {
        Ok(script) => script,
        Err(why) => {
            skip(Requirement::Browser, why);
            return;
        }
    };
    let Some(system) = System::take() else { return };
    let load = Load::start("--size 96MiB --hot 20% --cold-rate 200/s --checksums");
    let options = format!("{OPTIONS} {EAGER}");
    let begin = || {
        let driver = Running::start(&mut attach(load.pid(), &options));
        wait_until("it tells of itself", || status_of(driver.pid()).is_some());
        driver
    };
    let mut driver = begin();
    let name =
        status_of(driver.pid()).expect("it tells")["name"].as_str().expect("a name").to_owned();
    let mut node = Command::new("node");
    node.arg(script).arg(env!("CARGO_BIN_EXE_frostline")).arg(name);
    node.arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots"));
    node.env("CHROMIUM", browser).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = Running::start(&mut node);
    let mut answers = node.0.stdin.take().expect("piped");
    let lines = BufReader::new(node.0.stdout.take().expect("piped"));
    let mut passed = 0;
    for line in lines.lines() {
        let line = line.expect("text");
        println!("{line}");
        passed += usize::from(line.starts_with("PASS "));
        match line.as_str() {
            "KILL" => {
                driver.signal(Signal::KILL);
                driver.end();
            }
            "BEGIN" => driver = begin(),
            _ => continue,
        }
        writeln!(answers, "done").expect("it listens");
    }
    assert_eq!(node.end().code(), Some(0));
    assert_eq!(passed, 15, "all of it was looked at");
    driver.signal(Signal::INT);
    assert_eq!(driver.end().code(), Some(0));
    load.end();
    system.clean(&["--swap-off"]);
    system.finish();
}
