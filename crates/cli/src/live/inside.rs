//! Programs that tier themselves, by a library that is preloaded into them.

use super::options::{Outputs, Tiering, default};
use super::slow::SlowMemory;
use super::{consolidation, summary};
use frostline_core::consolidation::ConsolidationLimit;
use frostline_driver::environment::{self, Settings, VARIABLE};
use frostline_driver::{CpuShare, Options, Status, Written};
use frostline_linux::Root;
use frostline_record::Running;
use frostline_record::trust::{Owners, temporary_folder};
use frostline_terminal::errors::failure;
use frostline_terminal::progress::note;
use frostline_terminal::{files, output};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// File of the library.
const FILE: &str = "libfrostline_agent.so";
/// Variable that says where it is.
const AGENT: &str = "FROSTLINE_AGENT";
/// By which the dynamic linker is told of it.
const PRELOAD: &str = "LD_PRELOAD";

/// The library.
#[derive(Debug)]
pub struct Agent(PathBuf);

impl Agent {
    /// Where the user says, or beside this program. Where nobody says, others must not be able to change
    /// it.
    ///
    /// # Errors
    /// Where it is not there, others can change it, or its path cannot be told to the dynamic linker.
    pub fn find(given: Option<&Path>) -> anyhow::Result<Self> {
        let named = std::env::var_os(AGENT).filter(|path| !path.is_empty()).map(PathBuf::from);
        let found = match (given, &named) {
            (Some(path), _) => fs::canonicalize(path).ok().filter(|path| path.is_file()),
            (None, Some(path)) if path.is_file() => Some(Owners::ours().check(path)?),
            (None, Some(_)) => None,
            (None, None) => beside()?,
        };
        let Some(path) = found else {
            let place = given.or(named.as_deref());
            let place = place.map_or(FILE.into(), |path| path.display().to_string());
            return Err(failure(
                format!("the library for what is done from inside is not there: {place}"),
                format!(
                    "build it (cargo build --release -p frostline-agent) and put {FILE} beside \
                         frostline, or say where it is with --agent"
                ),
            ));
        };
        if path.as_os_str().as_bytes().iter().any(|byte| b" :\n".contains(byte)) {
            return Err(failure(
                format!("a library in '{}' cannot be preloaded", path.display()),
                "put it where the path has neither spaces nor colons",
            ));
        }
        Ok(Self(path))
    }

    /// Its whole path, free of links.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// All that is preloaded, ours first: it begins when the others have.
    fn preload(&self, others: Option<&OsStr>) -> OsString {
        let mut all = self.0.clone().into_os_string();
        if let Some(others) = others.filter(|others| !others.is_empty()) {
            all.push(":");
            all.push(others);
        }
        all
    }
}

/// The library in the folder of this program, or in ../lib.
fn beside() -> anyhow::Result<Option<PathBuf>> {
    let program = fs::canonicalize("/proc/self/exe").unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(FILE), folder.join("../lib").join(FILE)];
    let found = places.into_iter().find(|path| path.is_file());
    Ok(found.map(|path| Owners::of_this_program().check(&path)).transpose()?)
}

/// What is to be done.
#[derive(Debug)]
pub struct Inside {
    agent: Agent,
    settings: Settings,
    why: Option<String>,
    outputs: Outputs,
}

impl Inside {
    /// From what was asked for.
    ///
    /// # Errors
    /// Where that makes no sense.
    pub fn new(
        root: &Root,
        tiering: &Tiering,
        agent: Agent,
        children: bool,
    ) -> anyhow::Result<Self> {
        let (mut options, why) = tiering.resolve(root)?;
        options.journal = options.journal.map(std::path::absolute).transpose()?;
        // What is printed is what does the work.
        options.dry_run = false;
        let settings = settings(Some(options), children);
        Ok(Self { agent, settings, why, outputs: tiering.outputs.clone() })
    }

    /// The program shall not tier itself.
    ///
    /// # Errors
    /// Where something of tiering was asked for all the same.
    pub fn without_tiering(
        tiering: &Tiering,
        agent: Agent,
        children: bool,
    ) -> anyhow::Result<Self> {
        let asked = [
            (!tiering.slow.is_empty(), "--slow"),
            (tiering.policy != default::POLICY, "--policy"),
            (tiering.fast.is_some(), "--fast"),
            (tiering.journal.is_some(), "--journal"),
            (tiering.outputs.series.is_some(), "--series"),
            (tiering.extents, "--extents"),
        ];
        if let Some((_, option)) = asked.into_iter().find(|(asked, _)| *asked) {
            return Err(failure(
                format!("{option} is about tiering, and --consolidate alone does none"),
                "add --in-process to have the program do both",
            ));
        }
        let settings = settings(None, children);
        Ok(Self { agent, settings, why: None, outputs: tiering.outputs.clone() })
    }

    /// It shall gather its hot pages, where there is a limit, within a share of a core.
    #[must_use]
    pub fn consolidate(
        mut self,
        limit: Option<ConsolidationLimit>,
        share: Written<CpuShare>,
    ) -> Self {
        self.settings.consolidate = limit;
        self.settings.consolidate_cpu_limit = share;
        self
    }

    fn variables(&self) -> anyhow::Result<[(&'static str, OsString); 2]> {
        let preload = self.agent.preload(std::env::var_os(PRELOAD).as_deref());
        let settings = self.settings.text().map_err(|error| {
            let hint = "choose paths whose names are UTF-8";
            failure(format!("the program cannot be told: {error}"), hint)
        })?;
        Ok([(PRELOAD, preload), (VARIABLE, settings.into())])
    }

    /// Prints what would be set, as a shell understands it.
    ///
    /// # Errors
    /// Where standard output cannot be written.
    pub fn explain(&self, program: &[OsString]) -> anyhow::Result<ExitCode> {
        if let Some(why) = &self.why {
            note(why);
        }
        let options = self.settings.options.as_ref();
        if options.is_some_and(|options| options.tiers().swap().is_some()) {
            note(
                "before that, vm.page-cluster is set to 0, and a zram device set up where asked for",
            );
        }
        let quoted = |text: &OsStr| {
            let text = text.to_string_lossy();
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=%,+@".contains(c);
            match !text.is_empty() && text.chars().all(plain) {
                true => text.into_owned(),
                false => format!("'{}'", text.replace('\'', "'\\''")),
            }
        };
        let mut text = String::from("env");
        for (name, value) in self.variables()? {
            text += &format!(" {name}={}", quoted(&value));
        }
        for word in program {
            text += &format!(" {}", quoted(word));
        }
        output::text(&(text + "\n"))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Sets up what the program needs, and has `command` run with the library.
    ///
    /// # Errors
    /// Where rights are missing; the command is as it was.
    pub fn set_up(mut self, root: &Root, command: &mut Command) -> anyhow::Result<Prepared> {
        if let Some(why) = &self.why {
            note(why);
        }
        let folder = temporary_folder("frostline-")?;
        self.settings.status = Some(folder.path().into());
        // What cannot be told is known before anything is set up.
        self.variables()?;
        let mut slow = None;
        if let Some(options) = &mut self.settings.options {
            let memory = SlowMemory::set_up(root, options.tiers())?;
            options.swap_device = memory.only_device(options.tiers());
            slow = Some(memory);
            if let Some(journal) = &options.journal {
                // Who finds one there takes another name.
                let _ = fs::remove_file(journal);
            }
        }
        let series = self.outputs.series.as_deref().map(summary::Series::create).transpose()?;
        for (name, _) in environment::superseded() {
            command.env_remove(name);
        }
        command.envs(self.variables()?);
        Ok(Prepared { slow, folder, summary: self.outputs.summary, series })
    }
}

/// Remarks go where those of our own environment would.
fn settings(options: Option<Options>, children: bool) -> Settings {
    let own = std::env::var(VARIABLE).unwrap_or_default();
    let log = environment::text(&own, "log").map(PathBuf::from);
    Settings { options, children, log, ..Settings::default() }
}

/// What was set up for a program that tiers itself.
pub struct Prepared {
    slow: Option<SlowMemory>,
    folder: tempfile::TempDir,
    summary: Option<PathBuf>,
    series: Option<summary::Series>,
}

/// How often a line of the series is due.
const LINE: Duration = Duration::from_secs(1);

impl Prepared {
    /// Writes the series, where there is one, until the program has ended.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn follow(&mut self, program: &Running) -> anyhow::Result<()> {
        let Some(series) = &mut self.series else { return Ok(()) };
        let mut last = 0.0;
        loop {
            let due = Instant::now() + LINE;
            while Instant::now() < due {
                if program.has_ended() {
                    return Ok(());
                }
                std::thread::sleep(LINE / 20);
            }
            let all = statuses(self.folder.path(), Some(program.id()));
            if let Some(status) = all.first().filter(|status| status.seconds > last) {
                last = status.seconds;
                series.add(status)?;
            }
        }
    }

    /// Says what came of it, and undoes it; `pid` is the program's, where it ran.
    ///
    /// # Errors
    /// Where the summary cannot be written.
    pub fn end(self, root: &Root, name: &str, pid: Option<u32>) -> anyhow::Result<()> {
        let all = statuses(self.folder.path(), pid);
        // What agents have set themselves, and nobody is left to undo.
        let _ =
            frostline_linux::changes::restore(root, frostline_linux::changes::SwapOff::WhenUnused);
        if let Some(slow) = self.slow {
            slow.take_down();
        }
        match all.split_first() {
            Some((first, rest)) => {
                if !first.policy.is_empty() {
                    note(&summary::text(first));
                }
                if let Some(numbers) = &first.consolidation {
                    note(&consolidation::text(numbers));
                }
                if !rest.is_empty() && !first.policy.is_empty() {
                    let moved: u64 = rest.iter().map(|s| s.accounts.demoted_bytes()).sum();
                    note(&format!(
                        "{} more processes tiered themselves; {} moved to slow tiers",
                        rest.len(),
                        frostline_report::units::bytes(moved as f64)
                    ));
                }
            }
            None if pid.is_some() => {
                note(&format!(
                    "{name} told nothing of tiering: it was too small, ended at once, became \
                               another user, or is of a kind that libraries are not preloaded into"
                ));
            }
            None => {}
        }
        if let Some(path) = self.summary {
            files::write_whole(&path, output::envelope(&all)?.as_bytes())?;
        }
        Ok(())
    }
}

/// What processes have left, the program itself first.
fn statuses(folder: &Path, pid: Option<u32>) -> Vec<Status> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = files.filter(|file| file.path().extension().is_some_and(|kind| kind == "json"));
    let mut all: Vec<Status> = files
        .filter_map(|file| serde_json::from_slice(&fs::read(file.path()).ok()?).ok())
        .collect();
    all.sort_by_key(|status| (Some(status.pid) != pid, status.start_ticks, status.pid));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_preloaded_before_others() {
        let agent = Agent("/lib/a.so".into());
        assert_eq!(agent.preload(None), "/lib/a.so");
        assert_eq!(agent.preload(Some(OsStr::new(""))), "/lib/a.so");
        assert_eq!(agent.preload(Some(OsStr::new("/x.so y.so"))), "/lib/a.so:/x.so y.so");
    }

    #[test]
    fn a_library_must_be_there_under_a_path_that_the_linker_reads() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Agent::find(Some(&folder.path().join("a.so"))).unwrap_err();
        assert!(missing.to_string().contains("hint: "), "{missing}");
        let odd = folder.path().join("a b.so");
        fs::write(&odd, "").unwrap();
        let error = Agent::find(Some(&odd)).unwrap_err().to_string();
        assert!(error.contains("spaces"), "{error}");
    }

    #[test]
    fn the_program_comes_first_among_those_that_have_told() {
        let folder = tempfile::tempdir().unwrap();
        for pid in [5, 9, 7] {
            let status = Status { pid, start_ticks: pid.into(), ..Status::default() };
            let file = folder.path().join(format!("{pid}-{pid}.json"));
            fs::write(file, serde_json::to_vec(&status).unwrap()).unwrap();
        }
        fs::write(folder.path().join("8-8.json"), "{\"pid\":").unwrap();
        fs::write(folder.path().join("8-8.next"), "").unwrap();
        let pids: Vec<u32> = statuses(folder.path(), Some(7)).iter().map(|s| s.pid).collect();
        assert_eq!(pids, [7, 5, 9]);
    }
}
