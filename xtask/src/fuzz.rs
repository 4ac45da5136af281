//! Fuzzer: runs of all targets or of some, for a time each, and a table of the finds.

mod outcome;

use anyhow::{Context, Result, ensure};
use outcome::Outcome;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Seconds after which a single input takes too long.
const LONGEST_INPUT_SECONDS: u32 = 10;
/// Memory of a fuzzer, its corpus included. Targets have a limit of their own, far below.
const MOST_MIB: u32 = 3000;
/// Files of a target that are kept in the repository, besides those that have a name.
const KEPT_FILES: usize = 40;
/// Between two looks at the time that a fuzzer has had.
const LOOK: Duration = Duration::from_millis(100);
/// Of processor time in `/proc`: `USER_HZ`.
const TICKS_PER_SECOND: u32 = 100;
/// Bytes of such a file.
const KEPT_BYTES: u64 = 4096;

/// What is asked for.
struct Options {
    /// Of a processor, for each target.
    seconds: u32,
    targets: Vec<String>,
    jobs: usize,
    /// A file with a table of what came of it, to which this run is added.
    summary: Option<PathBuf>,
}

impl Options {
    fn parse(args: &[&str]) -> Option<Self> {
        let mut options = Self { seconds: 60, targets: Vec::new(), jobs: 2, summary: None };
        for pair in args.chunks(2) {
            let [key, value] = pair else { return None };
            match *key {
                "--seconds" => options.seconds = value.parse().ok().filter(|n| *n > 0)?,
                "--targets" => {
                    options.targets = value.split_whitespace().map(str::to_owned).collect()
                }
                "--jobs" => options.jobs = value.parse().ok().filter(|n| *n > 0)?,
                "--summary" => options.summary = Some(value.into()),
                _ => return None,
            }
        }
        Some(options)
    }
}

/// `cargo xtask fuzz ...`.
pub fn run(root: &Path, args: &[&str]) -> ExitCode {
    finish(Options::parse(args), |options| {
        let fuzzer = Fuzzer::build(root)?;
        let targets = fuzzer.chosen(&options.targets)?;
        println!("{}", outcome::head());
        // One writer at a time. A row is written as soon as there is one: a campaign may be interrupted.
        let summary = Mutex::new(options.summary);
        let outcomes = on_threads(&targets, options.jobs, |target| {
            let outcome = fuzzer.run(target, options.seconds)?;
            println!("{}", outcome.line());
            if let Some(path) = &*locked(&summary) {
                let before = fs::read_to_string(path).unwrap_or_default();
                fs::write(path, outcome::table(&before, &outcome))
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            Ok(outcome)
        })?;
        outcomes.iter().for_each(|outcome| print!("{}", outcome.finds(&fuzzer.program)));
        Ok(outcomes.iter().all(|outcome| outcome.found.is_empty()))
    })
}

/// `cargo xtask fuzz-min ...`: takes what fuzzing has collected into the corpus of the repository.
pub fn merge(root: &Path, args: &[&str]) -> ExitCode {
    finish(Options::parse(args), |options| {
        let fuzzer = Fuzzer::build(root)?;
        let targets = fuzzer.chosen(&options.targets)?;
        on_threads(&targets, options.jobs, |target| {
            let (files, bytes) = fuzzer.merge(target)?;
            println!("{target}: {files} files, {bytes} bytes");
            Ok(())
        })?;
        Ok(true)
    })
}

fn finish(options: Option<Options>, work: impl FnOnce(Options) -> Result<bool>) -> ExitCode {
    let Some(options) = options else {
        eprintln!(
            "usage: cargo xtask fuzz|fuzz-min [--seconds N] [--targets \"NAME ...\"] [--jobs N] [--summary FILE]"
        );
        return ExitCode::from(2);
    };
    match work(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Calls `work` for every target, on some threads, and gives what came of it in their order.
fn on_threads<T: Send>(
    targets: &[String],
    threads: usize,
    work: impl Fn(&str) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let waiting: Mutex<VecDeque<(usize, &String)>> =
        Mutex::new(targets.iter().enumerate().collect());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let next = || locked(&waiting).pop_front();
                while let Some((at, target)) = next() {
                    let result = work(target).with_context(|| target.clone());
                    locked(&done).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The program that was built, and where it works.
struct Fuzzer {
    program: PathBuf,
    /// Of the crate.
    folder: PathBuf,
    /// What is not kept: seeds, what was collected, logs.
    work: PathBuf,
}

impl Fuzzer {
    /// Builds it: crates of this workspace by a compiler that has them counted, all others as tests have them.
    fn build(root: &Path) -> Result<Self> {
        let folder = root.join("fuzz").canonicalize()?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .current_dir(root)
            .env("RUSTC_WORKSPACE_WRAPPER", folder.join("rustc"))
            .args(["build", "--quiet", "--locked", "--workspace"])
            .args(["--features", "frostline-fuzz/libfuzzer", "--example", "frostline-fuzz"])
            .status()?;
        ensure!(built.success(), "the fuzzer cannot be built");
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        let target = root.canonicalize()?.join(target);
        let program = target.join("debug/examples/frostline-fuzz");
        Ok(Self { program, folder, work: target.join("fuzz") })
    }

    /// The targets of these names; all of them where there are none.
    fn chosen(&self, names: &[String]) -> Result<Vec<String>> {
        let output = Command::new(&self.program).env("FROSTLINE_FUZZ_LIST", "1").output()?;
        ensure!(output.status.success(), "{} does not tell its targets", self.program.display());
        let known = String::from_utf8(output.stdout)?;
        let known: Vec<String> = known.lines().map(str::to_owned).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(name)) {
            anyhow::bail!("there is no target '{name}'\nhint: one of {}", known.join(" "));
        }
        Ok(if names.is_empty() { known } else { names.to_vec() })
    }

    fn corpus(&self, target: &str) -> PathBuf {
        self.folder.join("corpus").join(target)
    }

    fn collected(&self, target: &str) -> PathBuf {
        self.work.join(target).join("corpus")
    }

    fn seeds(&self, target: &str) -> PathBuf {
        self.work.join(target).join("seeds")
    }

    /// A call of the fuzzer, its folders made, and its seeds and words written.
    fn command(&self, target: &str) -> Result<Command> {
        let seeds = self.seeds(target);
        for folder in [self.corpus(target), self.collected(target), seeds.clone()] {
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let prepared = Command::new(&self.program)
            .env("FROSTLINE_FUZZ", target)
            .env("FROSTLINE_FUZZ_SEEDS", &seeds)
            .output()?;
        let said = String::from_utf8_lossy(&prepared.stderr);
        ensure!(prepared.status.success(), "the seeds cannot be written: {said}");
        let mut command = Command::new(&self.program);
        command
            .env("FROSTLINE_FUZZ", target)
            .arg(format!("-timeout={LONGEST_INPUT_SECONDS}"))
            .arg(format!("-rss_limit_mb={MOST_MIB}"));
        // One without words is refused.
        let words = seeds.with_file_name("words");
        if fs::metadata(&words).is_ok_and(|data| data.len() > 0) {
            command.arg(format!("-dict={}", words.display()));
        }
        Ok(command)
    }

    fn run(&self, target: &str, seconds: u32) -> Result<Outcome> {
        let finds = self.folder.join("finds").join(target);
        fs::create_dir_all(&finds)?;
        let before = files(&finds)?;
        let log = self.work.join(target).join("log");
        let mut command = self.command(target)?;
        let child = command
            .arg("-print_final_stats=1")
            .arg(format!("-artifact_prefix={}/", finds.display()))
            .args([self.collected(target), self.corpus(target), self.seeds(target)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        let (status, time) = watch(child, seconds)?;
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let mut found = files(&finds)?;
        found.retain(|path| !before.contains(path));
        let corpus = files(&self.collected(target))?.len() + files(&self.corpus(target))?.len();
        let outcome = Outcome::new(target, time, &text, corpus, found);
        ensure!(status.success() || !outcome.found.is_empty(), "failed; see {}", log.display());
        Ok(outcome)
    }

    /// Files that reach what others do not, the most fruitful ones. Gives how many files there are now, and their
    /// bytes.
    fn merge(&self, target: &str) -> Result<(usize, u64)> {
        let corpus = self.corpus(target);
        let fresh = self.work.join(target).join("merged");
        let _ = fs::remove_dir_all(&fresh);
        fs::create_dir_all(&fresh)?;
        let merged = self
            .command(target)?
            .args(["-set_cover_merge=1", &format!("-max_len={KEPT_BYTES}")])
            .arg(&fresh)
            .args([self.collected(target), corpus.clone(), self.seeds(target)])
            .stdout(Stdio::null())
            .stderr(File::create(self.work.join(target).join("merge.log"))?)
            .status()?;
        ensure!(merged.success(), "the corpus cannot be merged");
        for path in files(&corpus)?.iter().filter(|path| is_collected(path)) {
            fs::remove_file(path)?;
        }
        // They were written in the order of how much they add.
        let mut added = files(&fresh)?;
        added.retain(|path| fs::metadata(path).is_ok_and(|data| data.len() <= KEPT_BYTES));
        added.sort_by_key(|path| fs::metadata(path).and_then(|data| data.modified()).ok());
        for path in added.iter().take(KEPT_FILES) {
            fs::copy(path, corpus.join(path.file_name().unwrap_or_default()))?;
        }
        let kept = files(&corpus)?;
        let bytes = kept.iter().filter_map(|path| Some(fs::metadata(path).ok()?.len())).sum();
        Ok((kept.len(), bytes))
    }
}

/// Whether libFuzzer has named it: by a hash in hexadecimal digits. Others were put there by somebody.
fn is_collected(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.len() == 40 && name.iter().all(u8::is_ascii_hexdigit)
}

/// Waits for a fuzzer, and asks it to end after a time on a processor: others may want that as well. How it has ended,
/// and its time.
fn watch(mut child: Child, seconds: u32) -> Result<(ExitStatus, Duration)> {
    let pid = Pid::from_child(&child);
    let most = Duration::from_secs(seconds.into());
    // Its numbers are there until its parent has asked how it ended.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let mut asked = false;
    while waitid(WaitId::Pid(pid), options | WaitIdOptions::NOHANG)?.is_none() {
        if asked || processor_time(pid)? < most {
            std::thread::sleep(LOOK);
        } else {
            // It ends after the input at which it is.
            kill_process(pid, Signal::USR1)?;
            asked = true;
        }
    }
    let time = processor_time(pid)?;
    Ok((child.wait()?, time))
}

fn processor_time(pid: Pid) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = processor_ticks(&stat).context("/proc/PID/stat has no times")?;
    Ok(Duration::from_secs(ticks) / TICKS_PER_SECOND)
}

/// Fields 14 and 15, `utime` and `stime`. The second is a name, which may hold anything.
fn processor_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_done_once_and_told_in_their_order() {
        let names: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let done = on_threads(&names, 3, |name| Ok(format!("{name}!"))).expect("nothing fails");
        assert_eq!(done, names.iter().map(|name| format!("{name}!")).collect::<Vec<_>>());
        let failing = on_threads(&names, 3, |name| {
            ensure!(name != "7", "no");
            Ok(())
        });
        assert_eq!(format!("{:#}", failing.expect_err("one fails")), "7: no");
    }

    #[test]
    fn options_come_in_pairs() {
        let options =
            Options::parse(&["--seconds", "5", "--targets", "a b"]).expect("they are right");
        assert_eq!((options.seconds, options.targets.len(), options.jobs), (5, 2, 2));
        for wrong in
            [&["--seconds"][..], &["--seconds", "0"], &["--seconds", "x"], &["--what", "1"]]
        {
            assert!(Options::parse(wrong).is_none(), "{wrong:?}");
        }
        assert!(Options::parse(&["--targets", ""]).is_some_and(|all| all.targets.is_empty()));
    }

    #[test]
    fn time_is_what_a_program_had_of_a_processor() {
        let stat = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 300 45 0 0";
        assert_eq!(processor_ticks(stat), Some(345));
        assert_eq!(processor_ticks("7 (a) R 1"), None);
        let shell = |script| {
            let child = Command::new("sh").args(["-c", script]).spawn().expect("there is a shell");
            watch(child, 1).expect("it ends")
        };
        let (status, time) = shell("trap 'exit 3' USR1; while :; do :; done");
        assert_eq!(status.code(), Some(3), "it was asked to end");
        assert!(time >= Duration::from_secs(1));
        let (status, time) = shell("sleep 1.2; exit 4");
        assert_eq!(status.code(), Some(4));
        assert!(time < Duration::from_secs(1));
    }

    #[test]
    fn files_with_names_are_told_from_collected_ones() {
        assert!(is_collected(Path::new("a/0123456789abcdef0123456789abcdef01234567")));
        assert!(!is_collected(Path::new("a/good-blocks")));
    }
}
