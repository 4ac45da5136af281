//! PostgreSQL with a table in its shared buffers.

use super::piped::Piped;
use super::work::{Owned, Work, pinned};
use crate::validate::programs::recipe::missing_program;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ACCOUNTS: &str = include_str!("accounts.sql");
const ROWS: u64 = 1_500_000;
const PATIENCE: Duration = Duration::from_secs(120);
/// Who owns the database: PostgreSQL refuses root.
const OWNER: [&str; 3] = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"];

#[derive(Debug)]
pub struct Postgres {
    server: Owned,
    client: Piped,
}

fn initdb() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    versions.flatten().map(|version| version.path().join("bin/initdb")).find(|path| path.is_file())
}

pub fn missing() -> Option<String> {
    let none = initdb().is_none();
    none.then(|| "PostgreSQL is not installed: apt-get install postgresql".to_owned())
        .or_else(|| missing_program("setpriv", "util-linux"))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

pub fn start(dir: &Path) -> anyhow::Result<Postgres> {
    let initdb = initdb().context("PostgreSQL is not installed")?;
    let data = dir.join("data");
    std::fs::create_dir(&data)?;
    run(Command::new("chown").arg("-R").arg("nobody:nogroup").arg(dir))?;
    let owned = |program: &Path| {
        let mut command = pinned("setpriv");
        command.args(OWNER).arg(program).current_dir(dir);
        command
    };
    run(owned(&initdb).args(["-D", "data", "-A", "trust", "-N", "-U", "nobody"]))?;
    let mut server = owned(&initdb.with_file_name("postgres"));
    server.args(["-D", "data", "-k", ".", "-c", "listen_addresses=", "-c", "fsync=off"]);
    server.args(["-c", "shared_buffers=384MB", "-c", "synchronous_commit=off"]);
    // It would vacuum in one of a pair, and minutes later in the other.
    server.args(["-c", "autovacuum=off"]);
    let server = Owned::start(&mut server, dir)?;
    let psql = |words: &[&str]| {
        let mut command = Command::new("psql");
        command.arg("-h").arg(&data).args(["-U", "nobody", "-qAt", "-d", "postgres"]).args(words);
        command
    };
    let began = Instant::now();
    while !psql(&["-c", "select 1"]).stderr(Stdio::null()).output()?.status.success() {
        if began.elapsed() > PATIENCE {
            bail!("PostgreSQL does not answer");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let script = dir.join("accounts.sql");
    std::fs::write(&script, ACCOUNTS)?;
    let script = script.display().to_string();
    run(&mut psql(&["-v", &format!("rows={ROWS}"), "-v", "ON_ERROR_STOP=1", "-f", &script]))?;
    let client = dir.join("client");
    std::fs::create_dir(&client)?;
    let ask = |units| format!("select look({units}, {ROWS});\n\\echo done\n");
    let mut client = Piped::start(&mut psql(&[]), &client, ask)?;
    client.work(1)?;
    Ok(Postgres { server, client })
}

impl Drop for Postgres {
    /// Has it give back its shared memory.
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.server.0), Signal::QUIT);
        let _ = self.server.0.wait();
    }
}

impl Work for Postgres {
    fn pid(&self) -> u32 {
        self.server.0.id()
    }

    fn work(&mut self, units: u64) -> anyhow::Result<()> {
        self.client.work(units)
    }
}
