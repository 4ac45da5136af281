//! Cluster of Dask on which pieces of experiments are made.
//!
//! A child in Python, which is Dask's client, takes what is to be done line by line and answers in the same way. Workers need
//! nothing but Dask: they are sent this program, so that the build is the same everywhere.

use crate::parallel::lock;
use anyhow::Context;
use frostline_terminal::errors::failure;
use frostline_terminal::progress::note;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Dask's client.
const CLIENT: &str = include_str!("client.py");
/// Variable that names the interpreter which has Dask.
const PYTHON: &str = "FROSTLINE_PYTHON";
/// Pieces that wait for an answer at a time.
pub const MOST_AT_A_TIME: usize = 1024;
/// Between two looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(100);

/// See the module.
pub struct Cluster {
    child: Child,
    asks: Mutex<Asks>,
    waiting: Arc<Mutex<Waiting>>,
}

struct Asks {
    input: Option<ChildStdin>,
    last: u64,
}

/// Who waits for which answer; `None` once there will be none any more, with the reason.
struct Waiting {
    answers: BTreeMap<u64, Sender<Result<String, String>>>,
    over: Option<String>,
}

#[derive(Serialize)]
struct Asked<'a> {
    number: u64,
    words: &'a [String],
    text: &'a str,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    workers: Option<usize>,
    number: u64,
    output: Option<String>,
    error: Option<String>,
}

impl Cluster {
    /// With this scheduler: `tcp://HOST:PORT`.
    ///
    /// # Errors
    /// Where there is no Python with Dask, or nobody at that address.
    pub fn connect(address: &str) -> anyhow::Result<Self> {
        let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(&python);
        command.args(["-c", CLIENT, address]).arg(&program);
        Self::by(command).with_context(|| format!("no work for the cluster at {address}"))
    }

    /// By a child that speaks as the client does.
    fn by(mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            let python = Path::new(command.get_program()).display();
            let hint = format!("install Python, or name an interpreter that has Dask by {PYTHON}");
            failure(format!("cannot run {python}: {error}"), hint)
        })?;
        let input = child.stdin.take();
        let (Some(output), Some(mut errors)) = (child.stdout.take(), child.stderr.take()) else {
            anyhow::bail!("a child without pipes");
        };
        let waiting = Arc::new(Mutex::new(Waiting { answers: BTreeMap::new(), over: None }));
        let (begun, begins) = channel();
        let theirs = Arc::clone(&waiting);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(answer) = serde_json::from_str::<Answer>(&line) else { continue };
                if let Some(workers) = answer.workers {
                    let _ = begun.send(workers);
                    continue;
                }
                let waits = lock(&theirs).answers.remove(&answer.number);
                let result = answer.output.ok_or(answer.error.unwrap_or_default());
                // Nobody waits any more where all was stopped.
                let _ = waits.map(|waits| waits.send(result));
            }
            let mut told = String::new();
            let _ = errors.read_to_string(&mut told);
            let mut waiting = lock(&theirs);
            waiting.over = Some(last_line(&told));
            waiting.answers.clear();
        });
        let cluster = Self { child, asks: Mutex::new(Asks { input, last: 0 }), waiting };
        match begins.recv() {
            Ok(workers) => {
                note(&format!("{workers} workers, and those that come"));
                Ok(cluster)
            }
            Err(_) => Err(cluster.ended()),
        }
    }

    /// Why there are no answers any more.
    fn ended(&self) -> anyhow::Error {
        let mut said = None;
        // What it said last is read when its output has ended.
        for _ in 0..20 {
            said = lock(&self.waiting).over.clone();
            if said.is_some() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let said = said.filter(|said| !said.is_empty()).unwrap_or_else(|| "it has ended".into());
        let hint = match said.contains("No module named") {
            true => {
                format!("pip install distributed, or name an interpreter that has it by {PYTHON}")
            }
            false => "see that the scheduler runs and its address is right".into(),
        };
        failure(format!("the client of Dask: {said}"), hint)
    }

    /// What this program prints on a worker, with these arguments and this input.
    ///
    /// # Errors
    /// What it says there; a cluster that is gone; a stop.
    pub fn ask(
        &self,
        words: &[String],
        text: &str,
        stops: &dyn Fn() -> bool,
    ) -> anyhow::Result<String> {
        let answer = self.send(words, text)?;
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(Ok(output)) => return Ok(output),
                Ok(Err(error)) => anyhow::bail!("on a worker: {error}"),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) if stops() => anyhow::bail!("stopped"),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn send(
        &self,
        words: &[String],
        text: &str,
    ) -> anyhow::Result<Receiver<Result<String, String>>> {
        let (sender, receiver) = channel();
        let mut asks = lock(&self.asks);
        asks.last += 1;
        let number = asks.last;
        {
            let mut waiting = lock(&self.waiting);
            if waiting.over.is_none() {
                waiting.answers.insert(number, sender);
            }
        }
        let line = serde_json::to_string(&Asked { number, words, text })? + "\n";
        // A child that is gone is noticed by whoever waits.
        if let Some(input) = &mut asks.input {
            let _ = input.write_all(line.as_bytes()).and_then(|()| input.flush());
        }
        Ok(receiver)
    }
}

/// What is asked for and not begun is taken back.
impl Drop for Cluster {
    fn drop(&mut self) {
        lock(&self.asks).input = None;
        let unanswered = !lock(&self.waiting).answers.is_empty();
        if unanswered {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Of a traceback, what is wrong.
fn last_line(told: &str) -> String {
    told.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A client by a shell script, which answers each line with its number and what the script says.
    fn by(script: &str) -> anyhow::Result<Cluster> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Cluster::by(command)
    }

    const NUMBER: &str =
        "number() { printf '%s\\n' \"$1\" | sed 's/.*\"number\":\\([0-9]*\\).*/\\1/'; }\n";

    #[test]
    fn answers_reach_who_has_asked_in_any_order() {
        let script = format!(
            "{NUMBER}echo '{{\"workers\": 2}}'\nread -r a; read -r b; echo noise\n\
             for line in \"$b\" \"$a\"; do n=$(number \"$line\"); \
             echo \"{{\\\"number\\\": $n, \\\"output\\\": \\\"of $n\\\"}}\"; done\n\
             read -r c; echo \"{{\\\"number\\\": 3, \\\"error\\\": \\\"no such file\\\"}}\""
        );
        let cluster = by(&script).unwrap();
        let ask = |cluster: &Cluster| cluster.ask(&["piece".into()], "text\n", &|| false);
        let two = std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(|| ask(&cluster).unwrap()));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(std::collections::BTreeSet::from(two), ["of 1".into(), "of 2".into()].into());
        assert_eq!(ask(&cluster).unwrap_err().to_string(), "on a worker: no such file");
        let over = ask(&cluster).unwrap_err().to_string();
        assert!(over.contains("has ended") && over.contains("hint: "), "{over}");
    }

    #[test]
    fn whoever_waits_is_stopped_and_the_child_ends() {
        let cluster = by("echo '{\"workers\": 0}'; exec sleep 600").unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| cluster.ask(&[], "", &|| stop.load(Ordering::Relaxed)));
            stop.store(true, Ordering::Relaxed);
            assert_eq!(waits.join().unwrap().unwrap_err().to_string(), "stopped");
        });
        drop(cluster);
    }

    #[test]
    fn a_client_that_cannot_begin_says_why() {
        let error = by("echo Traceback >&2; echo \"No module named 'distributed'\" >&2; exit 1");
        let error = error.err().expect("it has ended").to_string();
        assert!(error.contains("No module named") && error.contains("pip install"), "{error}");
        let error = Cluster::by(Command::new("/no/such/python")).err().expect("none").to_string();
        assert!(error.contains("hint: ") && error.contains(PYTHON), "{error}");
    }
}
