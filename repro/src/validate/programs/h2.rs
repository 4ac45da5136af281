//! H2 in a Java heap, with short transactions on a table in memory.

use super::recipe::{Loading, Plan, Recipe, missing_program};
use anyhow::{Context, bail};
use frostline_record::trust::Owners;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("Transactions.java");
/// File that says that all rows are there.
const LOADED: &str = "loaded";
const VERSION: &str = "2.2.224";

/// A heap of fixed size under the serial collector. Look-ups and updates in a transaction, and
/// their skew, stand in the source.
#[derive(Clone, Copy, Debug)]
pub struct H2 {
    heap_mib: u32,
    rows: u32,
    transactions: u32,
}

pub const TABLE: H2 = H2 { heap_mib: 128, rows: 150_000, transactions: 30_000 };

/// Where Maven puts it; `None` without a home.
fn jar() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())?;
    Some(home.join(format!(".m2/repository/com/h2database/h2/{VERSION}/h2-{VERSION}.jar")))
}

/// What is not there, and how to get it.
pub fn missing() -> Option<String> {
    let java = ["java", "javac"]
        .into_iter()
        .find_map(|program| missing_program(program, "default-jdk-headless"));
    java.or_else(|| {
        (!jar().is_some_and(|path| path.is_file())).then(|| {
            format!("H2 is not there: mvn dependency:get -Dartifact=com.h2database:h2:{VERSION}")
        })
    })
}

impl H2 {
    /// The same with transactions that are asked for, one number a line.
    pub fn asked(self, heap_mib: u32, rows: u32) -> Self {
        Self { heap_mib, rows, transactions: 0 }
    }

    /// Compiles it into the folder; the command that runs it, which makes the file `loaded` there.
    pub fn command(&self, dir: &Path) -> anyhow::Result<Vec<OsString>> {
        let (source, loaded) = (dir.join("Transactions.java"), dir.join(LOADED));
        std::fs::write(&source, SOURCE)?;
        let compiled = Command::new("javac").arg("-d").arg(dir).arg(&source).output()?;
        if !compiled.status.success() {
            bail!("javac: {}", String::from_utf8_lossy(&compiled.stderr));
        }
        let heap = self.heap_mib;
        let mut command: Vec<OsString> = vec!["java".into()];
        command.extend(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"].map(Into::into));
        command.extend([format!("-Xms{heap}m").into(), format!("-Xmx{heap}m").into()]);
        let jar = Owners::ours().check(&jar().context("HOME is not set")?)?;
        command.extend(["-cp".into(), std::env::join_paths([jar.as_path(), dir])?]);
        command.push("Transactions".into());
        command.extend([self.rows, self.transactions].map(|number| number.to_string().into()));
        command.push(loaded.into_os_string());
        Ok(command)
    }
}

impl Recipe for H2 {
    fn missing(&self) -> Option<String> {
        missing()
    }

    fn version(&self) -> anyhow::Result<String> {
        let output = Command::new("java").arg("-version").output().context("java does not run")?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let java = text.split('"').nth(1).unwrap_or("unknown");
        Ok(format!("{VERSION} in Java {java}"))
    }

    fn prepare(&self, dir: &Path) -> anyhow::Result<Plan> {
        let (command, loaded) = (self.command(dir)?, dir.join(LOADED));
        Ok(Plan { command, driver: None, loading: Loading::File(loaded) })
    }

    fn texts(&self) -> &'static [&'static str] {
        &[SOURCE]
    }
}
