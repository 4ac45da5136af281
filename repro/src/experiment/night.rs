//! Many experiments one after the other, of which what is there is not made again.

use super::kept::{self, Kept};
use super::piece::{Piece, Played, pieces};
use super::stored::{Stored, digest};
use super::{Effort, Outcome, carry_out_all};
use crate::cluster::{Cluster, MOST_AT_A_TIME};
use crate::experiment::file::Experiment;
use crate::parallel::{Semaphore, lock};
use frostline_study::Monitor;
use frostline_terminal::cancel;
use frostline_terminal::progress::note;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

/// An experiment to carry out.
pub struct Task {
    /// What its results go by.
    pub name: String,
    /// Its file.
    pub text: String,
    /// What that says.
    pub experiment: Experiment,
    /// SHA-256 of that, see [`digest`].
    pub sha256: String,
    /// Seconds that one core needs for an access of a pass, where that was measured; 1 for all where not.
    pub pace: f64,
}

/// How experiments are carried out, and what is kept of them.
pub struct Night<'a> {
    /// How much work each is given.
    pub effort: Effort,
    /// Folder of results; none where nothing is kept.
    pub folder: Option<&'a Path>,
    /// This program's build.
    pub build: String,
}

/// Makes a piece.
type Play<'a> = &'a (dyn Fn(&Task, &Piece<'_>, &dyn Monitor) -> anyhow::Result<Played> + Sync);

impl Task {
    /// What is in a file.
    ///
    /// # Errors
    /// A file that cannot be read, or is no experiment.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = Experiment::text(path)?;
        let experiment = Experiment::parse(&path.display().to_string(), &text)?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let (name, sha256) = (stem.unwrap_or_default(), digest(&text)?);
        Ok(Self { name, text, experiment, sha256, pace: 1.0 })
    }
}

impl Night<'_> {
    /// Results of the task that are there already.
    ///
    /// # Errors
    /// A file that cannot be read, or holds something else.
    pub fn stored(&self, task: &Task) -> anyhow::Result<Option<Stored>> {
        let Some(folder) = self.folder else { return Ok(None) };
        let stored = Stored::read(Some(folder), &task.name)?;
        Ok(stored.filter(|stored| stored.is_of(&task.sha256, &task.experiment, self.effort)))
    }

    /// Pieces of the task that are there already.
    pub fn kept(&self, task: &Task) -> Option<Kept> {
        Some(Kept::new(self.folder?, &task.name))
    }

    /// Pieces of the task that are to be made.
    ///
    /// # Errors
    /// What the file names does not exist or does not fit together.
    pub fn missing<'t>(&self, task: &'t Task) -> anyhow::Result<Vec<Piece<'t>>> {
        let mut missing = pieces(&task.experiment, self.effort)?;
        if let Some(kept) = self.kept(task) {
            let keys = missing.iter().map(|piece| piece.key(&self.build));
            let keys = keys.collect::<anyhow::Result<Vec<_>>>()?;
            let mut keys = keys.iter();
            missing.retain(|_| keys.next().is_some_and(|key| !kept.has(key)));
        }
        Ok(missing)
    }

    /// Carries out what is missing, in the order of the tasks, and returns all results in that order.
    ///
    /// # Errors
    /// A run that fails; results that cannot be read or written; a stop.
    pub fn complete(&self, tasks: &[Task]) -> anyhow::Result<Vec<Stored>> {
        self.complete_by(tasks, self.effort, &|_, piece, monitor| piece.play(monitor))
    }

    /// The same, with what is generated run by a cluster.
    ///
    /// # Errors
    /// As there, and where the cluster is gone.
    pub fn complete_on(&self, cluster: &Cluster, tasks: &[Task]) -> anyhow::Result<Vec<Stored>> {
        let here = Semaphore::new(self.effort.jobs);
        let effort = Effort { jobs: MOST_AT_A_TIME, ..self.effort };
        self.complete_by(tasks, effort, &|task, piece, monitor| {
            if !piece.is_generated() {
                let _one = here.take();
                return piece.play(monitor);
            }
            let seeds = self.effort.seeds_of(&task.experiment).to_string();
            let (number, key) = (piece.number.to_string(), piece.key(&self.build)?);
            let words = ["piece", &number, "--key", &key, "--seeds", &seeds, "--jobs", "1"];
            let words = words.into_iter().chain(self.effort.quick.then_some("--quick"));
            let words: Vec<String> = words.map(str::to_owned).collect();
            kept::played(&cluster.ask(&words, &task.text, &|| monitor.stops())?)
        })
    }

    fn complete_by(
        &self,
        tasks: &[Task],
        effort: Effort,
        play: Play<'_>,
    ) -> anyhow::Result<Vec<Stored>> {
        let stored = tasks.iter().map(|task| self.stored(task));
        let stored = stored.collect::<anyhow::Result<Vec<_>>>()?;
        let to_do: Vec<&Task> =
            tasks.iter().zip(&stored).filter(|(_, s)| s.is_none()).map(|(task, _)| task).collect();
        let mut left = Left::default();
        for task in &to_do {
            for piece in self.missing(task)? {
                left.add(task, &piece);
            }
        }
        let (left, new) = (Mutex::new(left), Mutex::new(Vec::new()));
        let experiments: Vec<&Experiment> = to_do.iter().map(|task| &task.experiment).collect();
        let play = |number: usize, piece: &Piece<'_>, monitor: &dyn Monitor| {
            let task = to_do[number];
            let key = piece.key(&self.build)?;
            let kept = self.kept(task);
            if let Some(kept) = &kept
                && let Some(played) = kept.read(&key)?
            {
                return Ok(played);
            }
            let played = play(task, piece, monitor)?;
            if let Some(kept) = &kept {
                kept.write(&key, &played, task.experiment.wants_every_series())?;
            }
            note(&lock(&left).done(task, piece));
            Ok(played)
        };
        let ended = |number: usize, outcome: Outcome| {
            let task = to_do[number];
            let stored = Stored::of(task.sha256.clone(), &task.experiment, outcome);
            if let Some(folder) = self.folder {
                stored.write(folder, &task.name)?;
                Kept::new(folder, &task.name).clear()?;
            }
            lock(&new).push((number, stored));
            Ok(())
        };
        carry_out_all(&experiments, effort, play, ended).map_err(|error| {
            let folder = self.folder.filter(|_| cancel::requested());
            folder.map_or(error, |folder| cancel::interrupted(&going_on(folder)))
        })?;
        let mut new = std::mem::take(&mut *lock(&new));
        new.sort_by_key(|(number, _)| *number);
        let mut new = new.into_iter().map(|(_, stored)| stored);
        Ok(stored.into_iter().filter_map(|stored| stored.or_else(|| new.next())).collect())
    }
}

fn going_on(folder: &Path) -> String {
    format!("what has ended is kept in {}; the same command goes on", folder.display())
}

/// What is still to be done.
#[derive(Default)]
struct Left {
    pieces: usize,
    done: usize,
    work: f64,
    work_done: f64,
    began: Option<Instant>,
}

impl Left {
    fn add(&mut self, task: &Task, piece: &Piece<'_>) {
        self.pieces += 1;
        self.work += task.pace * piece.passed() as f64;
        self.began.get_or_insert_with(Instant::now);
    }

    /// Says that a piece was made, and how long the others will take at the pace so far.
    fn done(&mut self, task: &Task, piece: &Piece<'_>) -> String {
        self.done += 1;
        self.work_done += task.pace * piece.passed() as f64;
        let elapsed = self.began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        let left = (self.work - self.work_done).max(0.0) * elapsed / self.work_done.max(1e-9);
        // A damaged piece was not among those that were missing.
        let (done, pieces) = (self.done, self.pieces.max(self.done));
        format!("[{done}/{pieces}] {}: {}; {} left", task.name, piece.name(), duration(left))
    }
}

/// `2 h 05 min`, `12 min`, `40 s`.
pub fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0 => format!("{seconds:.0} s"),
        1..60 => format!("{minutes} min"),
        _ => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

/// Paths of experiments: files, names, and folders of them; all that come with the program where none is
/// given.
///
/// # Errors
/// A folder that cannot be read.
pub fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = if paths.is_empty() { Experiment::names() } else { Vec::new() };
    for path in paths {
        match path.is_dir() {
            true => files.extend(Experiment::files(path)?),
            false => files.push(path.clone()),
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Four pieces of two runs each; one result is made of series.
    const FILE: &str = r#"
title = "t"
paper = "p"
about = "a"
fast = ["1:8"]
policies = "memtis,all-slow"
seeds = 2
[[workload]]
name = "Zipf"
trace = "synth:zipf:pages=4K:accesses=100K"
[[workload]]
name = "Shift"
trace = "synth:shift:pages=4K:accesses=100K"
[[result]]
what = "speed"
measure = "gain"
of = "memtis"
over = "all-slow"
paper = 7
[[result]]
what = "adaptation"
measure = "adaptation"
of = "memtis"
since = 0.5
paper = 7
"#;

    struct Place {
        folder: tempfile::TempDir,
        tasks: Vec<Task>,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("small.toml");
            std::fs::write(&file, FILE).unwrap();
            Self { tasks: vec![Task::read(&file).unwrap()], folder }
        }

        /// Runs that were made, until an injected stop after `most` pieces.
        fn run(&self, build: &str, most: u64) -> (anyhow::Result<Vec<Stored>>, u64) {
            let effort = Effort { quick: false, seeds: None, jobs: 1, charts: false };
            let night = Night { effort, folder: Some(self.folder.path()), build: build.into() };
            let (pieces, runs) = (AtomicU64::new(0), AtomicU64::new(0));
            let ended = night.complete_by(&self.tasks, effort, &|_, piece, monitor| {
                anyhow::ensure!(pieces.fetch_add(1, Ordering::Relaxed) < most, "stopped");
                runs.fetch_add(piece.runs(), Ordering::Relaxed);
                piece.play(monitor)
            });
            (ended, runs.into_inner())
        }

        fn result(&self) -> String {
            std::fs::read_to_string(self.folder.path().join("small.json")).unwrap()
        }

        fn kept(&self) -> Vec<PathBuf> {
            let entries = std::fs::read_dir(self.folder.path().join("runs/small"));
            let paths = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
            let mut paths: Vec<PathBuf> = paths.collect();
            paths.sort();
            paths
        }
    }

    fn whole() -> String {
        let place = Place::new();
        let (ended, runs) = place.run("b", u64::MAX);
        assert_eq!((ended.unwrap().len(), runs), (1, 8));
        assert!(!place.folder.path().join("runs").exists(), "pieces go once the result is there");
        place.result()
    }

    #[test]
    fn what_was_stopped_goes_on_and_comes_out_the_same() {
        let place = Place::new();
        let (ended, runs) = place.run("b", 3);
        assert_eq!((ended.unwrap_err().to_string(), runs), ("stopped".to_owned(), 6));
        assert_eq!(place.kept().len(), 3);
        let (ended, runs) = place.run("b", u64::MAX);
        assert_eq!((ended.unwrap().len(), runs), (1, 2), "only the rest runs");
        assert_eq!(place.result(), whole(), "byte for byte");
        assert_eq!(place.run("b", 0).1, 0, "what has a result does not run");
    }

    #[test]
    fn damaged_pieces_and_those_of_another_program_are_made_again() {
        let place = Place::new();
        assert_eq!(place.run("b", 3).1, 6);
        let kept = place.kept();
        let torn = std::fs::read(&kept[0]).unwrap();
        std::fs::write(&kept[0], &torn[..torn.len() / 2]).unwrap();
        std::fs::write(&kept[1], "").unwrap();
        std::fs::write(kept[2].with_file_name(".frostline-killed"), "{").unwrap();
        assert_eq!(place.run("b", u64::MAX).1, 6, "two damaged, one never made");
        assert_eq!(place.result(), whole(), "byte for byte");
        let place = Place::new();
        place.run("b", 3).0.unwrap_err();
        assert_eq!(place.run("c", u64::MAX).1, 8, "another program may bring something else");
        assert!(place.kept().is_empty(), "those of older programs go, too");
    }
}
