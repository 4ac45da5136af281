//! Jobs in the two-node guest, an emulated machine with a fast and a slow NUMA node under a stock
//! kernel, and their reports. `docs/notes/guest.md` describes the guest; the work is done
//! by the script `lab/guest/run`.
//!
//! A boot takes seconds. Tests of one configuration share one: the job is a script of
//! [sections](Report::section), and every test looks at its own.
#![forbid(unsafe_code)]

mod report;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub use report::{Report, Section};

/// How an attempt to run a job ended.
#[derive(Debug)]
pub enum Outcome {
    /// The job came to its end, with whatever exit code.
    Ran(Report),
    /// This machine cannot run the guest; the reason, and what would help.
    Impossible(String),
    /// The guest died, or the job did not end in time; the reason and the end of the console.
    Failed(String),
}

/// Whether slow memory takes longer in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lab {
    /// It does, and time is the machine's own: equal runs are identical.
    Reference,
    /// It does not; accesses are counted and sampled all the same.
    Fast,
}

/// The lab's machine (`docs/notes/lab.md`).
#[derive(Clone, Copy, Debug)]
pub struct LabOptions {
    /// Reference or fast.
    pub mode: Lab,
    /// Of an access to nodes 0 and 1 that misses the last-level cache, in ns.
    pub latency_ns: (u64, u64),
    /// The last-level cache; a power of two, 64 KiB at least.
    pub llc_bytes: u64,
    /// Of a sample, in ns of the machine's time.
    pub sample_ns: u64,
    /// Counts are written so often, in ms of the machine's time; 0 for the end and marks only.
    pub interval_ms: u64,
    /// Of the machine's random numbers.
    pub seed: u64,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self {
            mode: Lab::Reference,
            latency_ns: (100, 300),
            llc_bytes: 2 << 20,
            sample_ns: 250,
            interval_ms: 0,
            seed: 7,
        }
    }
}

/// A guest to be booted.
#[derive(Clone, Debug)]
pub struct Guest {
    hmat: bool,
    fast_mib: u64,
    slow_mib: u64,
    timeout_s: u64,
    files: Vec<OsString>,
    append: String,
    lab: Option<LabOptions>,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            hmat: true,
            fast_mib: 1024,
            slow_mib: 1536,
            timeout_s: 1200,
            files: Vec::new(),
            append: String::new(),
            lab: None,
        }
    }
}

impl Guest {
    /// Whether firmware tells how fast memory is: without it, the kernel has all nodes in one tier.
    #[must_use]
    pub fn hmat(mut self, hmat: bool) -> Self {
        self.hmat = hmat;
        self
    }

    /// Sizes of nodes 0 and 1 in MiB, below 2816 together.
    #[must_use]
    pub fn memory_mib(mut self, fast: u64, slow: u64) -> Self {
        (self.fast_mib, self.slow_mib) = (fast, slow);
        self
    }

    /// Seconds for everything, boot included; 1200 by default, since a busy machine takes several
    /// times as long as a quiet one.
    #[must_use]
    pub fn timeout_s(mut self, seconds: u64) -> Self {
        self.timeout_s = seconds;
        self
    }

    /// Puts a program or another file into the job's directory, which is in `PATH`.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into().into_os_string());
        self
    }

    /// The same under another name.
    #[must_use]
    pub fn file_as(mut self, name: &str, path: impl AsRef<Path>) -> Self {
        let mut file = OsString::from(format!("{name}="));
        file.push(path.as_ref());
        self.files.push(file);
        self
    }

    /// Adds words to the kernel's command line.
    #[must_use]
    pub fn append(mut self, words: &str) -> Self {
        self.append = words.to_owned();
        self
    }

    /// Takes the lab's machine.
    #[must_use]
    pub fn lab(mut self, lab: LabOptions) -> Self {
        self.lab = Some(lab);
        self
    }

    /// Boots, runs a script for `/bin/sh`, and brings back what it printed.
    ///
    /// The command `section NAME COMMAND...` of the script frames what the command prints.
    pub fn run(&self, script: &str) -> Outcome {
        match self.boot(script) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(format!("cannot start the guest: {error}")),
        }
    }

    /// Arguments of the kernel, and after how many seconds a job may hang, so that what runs is told. In the lab
    /// nothing else runs.
    fn arguments(&self) -> String {
        match self.lab {
            Some(_) => self.append.clone(),
            None => format!("{} frostline.watch={}", self.append, self.timeout_s / 2),
        }
    }

    fn boot(&self, script: &str) -> std::io::Result<Outcome> {
        let work = TempDir::new()?;
        let job = work.path().join("job");
        let kept = work.path().join("kept");
        fs::write(&job, script)?;
        let output = Command::new(folder().join("run"))
            .args(["--hmat", if self.hmat { "on" } else { "off" }])
            .args(["--memory", &format!("{}M:{}M", self.fast_mib, self.slow_mib)])
            .args(["--timeout", &self.timeout_s.to_string()])
            .args(["--append", &self.arguments()])
            .args(self.lab.iter().flat_map(lab_arguments))
            .arg("--keep")
            .arg(&kept)
            .arg("--")
            .arg(&job)
            .args(&self.files)
            .stdin(Stdio::null())
            .output()?;
        let status = fs::read_to_string(kept.join("status")).unwrap_or_default();
        let said = String::from_utf8_lossy(&output.stderr);
        if let Some(code) = status.trim().strip_prefix("exit ") {
            let code = code.parse().map_err(|_| std::io::Error::other(status.clone()))?;
            return Ok(Outcome::Ran(Report::new(work, kept, code)));
        }
        Ok(match status.strip_prefix("impossible: ") {
            Some(reason) => Outcome::Impossible(reason.trim().to_owned()),
            None => Outcome::Failed(format!("{}: {}", output.status, said.trim())),
        })
    }
}

fn lab_arguments(lab: &LabOptions) -> Vec<String> {
    let mode = match lab.mode {
        Lab::Reference => "reference",
        Lab::Fast => "fast",
    };
    let (fast, slow) = lab.latency_ns;
    let pairs = [
        ("--lab", mode.to_owned()),
        ("--latency", format!("{fast}:{slow}")),
        ("--llc", lab.llc_bytes.to_string()),
        ("--sample-cost", lab.sample_ns.to_string()),
        ("--interval", lab.interval_ms.to_string()),
        ("--seed", lab.seed.to_string()),
    ];
    pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

/// Where the guest's scripts are.
fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program of this workspace, in the profile that the caller was built with. Where it is
/// there, it is taken as it is: `cargo test --workspace` has brought it up to date. Where it is
/// not, it is built.
///
/// # Errors
/// What cargo printed, where it could not build the program.
pub fn program(name: &str) -> Result<PathBuf, String> {
    built(name, &["--workspace", "--bin", name])
}

/// The library that a program tiers itself with, as [`program`] gives programs.
///
/// # Errors
/// As there.
pub fn agent() -> Result<PathBuf, String> {
    built("libfrostline_agent.so", &["--package", "frostline-agent"])
}

fn built(name: &str, what: &[&str]) -> Result<PathBuf, String> {
    let caller = env::current_exe().map_err(|error| error.to_string())?;
    let beside = caller.parent().ok_or("no target directory")?;
    // Tests lie one deeper than programs.
    let profile = if beside.ends_with("deps") { beside.parent() } else { Some(beside) };
    let profile = profile.ok_or("no target directory")?;
    let program = profile.join(name);
    if program.is_file() {
        return Ok(program);
    }
    let target = profile.parent().ok_or("no target directory")?;
    let optimised = profile.file_name().is_some_and(|name| name == "release");
    let built = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(folder())
        .args(["build", "--locked", "--quiet"])
        .args(what)
        .args(["--profile", if optimised { "release" } else { "test" }, "--target-dir"])
        .arg(target)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if built.status.success() {
        Ok(program)
    } else {
        Err(String::from_utf8_lossy(&built.stderr).into_owned())
    }
}

/// The tests named `name` of any package of this workspace, as `cargo test` has built them in the
/// profile of the calling test; `None` where it has not. The name is that of a library, or of a
/// file in a package's folder `tests`.
pub fn built_tests(name: &str) -> Option<PathBuf> {
    let test = env::current_exe().ok()?;
    let is_ours = |path: &Path| {
        let (stem, hash) = path.file_name()?.to_str()?.rsplit_once('-')?;
        (stem == name && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(())
    };
    let files = fs::read_dir(test.parent()?).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    // Older ones stay where they are when something about a package changes.
    files
        .filter(|path| is_ours(path).is_some())
        .max_by_key(|path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok())
}
