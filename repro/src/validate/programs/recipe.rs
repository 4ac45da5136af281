//! Recipe of a program: how it is installed, fed and loaded.

use super::run::Meter;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// How a program is run.
pub trait Recipe: fmt::Debug + Sync {
    /// What is not there, and how to get it.
    fn missing(&self) -> Option<String>;

    /// Of what is installed.
    fn version(&self) -> anyhow::Result<String>;

    /// Makes its inputs in an empty folder.
    fn prepare(&self, dir: &Path) -> anyhow::Result<Plan>;

    /// What decides on its accesses, beside the recipe's own numbers and its code.
    fn texts(&self) -> &'static [&'static str] {
        &[]
    }
}

/// What puts load on a program, and ends it.
pub type Driver = Box<dyn FnOnce(&Meter) -> anyhow::Result<()> + Send>;

/// A program that is ready to run.
pub struct Plan {
    pub command: Vec<OsString>,
    /// What puts load on it, and ends it.
    pub driver: Option<Driver>,
    pub loading: Loading,
}

/// Where loading ends.
#[derive(Clone, Debug)]
pub enum Loading {
    /// Where the driver says: it has had all answers then, and the recorder was left to catch up.
    Driven,
    /// Where the program last opens or reads this file: its input, or one that it makes for this.
    File(PathBuf),
    /// Where the program last maps anonymous memory: all its arrays are there then.
    LastMapping,
}

/// None where the program is in PATH.
pub fn missing_program(program: &str, package: &str) -> Option<String> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&paths).any(|dir| dir.join(program).is_file());
    (!there).then(|| format!("{program} is not installed: apt-get install {package}"))
}

/// The first word with a digit in front and a dot in what the command prints.
pub fn version_of(command: &[&str]) -> anyhow::Result<String> {
    use anyhow::Context;
    let (program, arguments) = command.split_first().context("no command")?;
    let output = std::process::Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("{program} does not run"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(version_in(&text).unwrap_or("unknown").to_owned())
}

pub fn version_in(text: &str) -> Option<&str> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '=' | ','))
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
}
