//! A daemon for a long time, whose targets fork, execute, map, unmap, come and go.
//!
//! `FROSTLINE_SOAK=60m` is a campaign (docs/notes/reliability.md); without it, the same runs short.

use crate::load::load_program;
use crate::support::{Running, frostline, wait_until};
use crate::system::{System, number, status_kib};
use frostline_core::rng::Rng;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_secs(20);
const VARIABLE: &str = "FROSTLINE_SOAK";
/// From here on, slopes tell something, and are judged.
const LONG: Duration = Duration::from_secs(600);
/// The first part, in which tables grow to what the targets take.
const WARM_UP: f64 = 0.2;
const MOST_SAMPLES: u32 = 1200;
/// Targets at a time.
const TARGETS: usize = 2;

/// What is measured, and by how much it may grow in an hour: less than one in all is none.
const MEASURES: [(&str, f64); 4] = [
    ("resident KiB", 1024.0),
    ("open files", 0.5),
    ("threads", 0.5),
    ("files in its folders", 0.5),
];
/// What each may be above the mean of the beginning in a run too short for slopes.
const SHORT_GROWTH: [f64; 4] = [16384.0, 32.0, 8.0, 8.0];

fn duration() -> Duration {
    let Ok(text) = std::env::var(VARIABLE) else { return SHORT };
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => panic!("{VARIABLE}={text}: such as 60m"),
    };
    Duration::from_secs(number.parse::<u64>().expect(VARIABLE) * seconds)
}

/// The median of the slopes between all pairs of samples (Theil, Sen): what happens now and then
/// does not bend it.
fn slope(samples: &[(f64, f64)]) -> f64 {
    let pairs = samples
        .iter()
        .enumerate()
        .flat_map(|(at, a)| samples[at + 1..].iter().map(move |b| (b.1 - a.1) / (b.0 - a.0)));
    let mut slopes: Vec<f64> = pairs.filter(|slope| slope.is_finite()).collect();
    median(&mut slopes)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[test]
fn slopes_are_those_of_most_samples() {
    let line = |outlier: f64| {
        (0..50)
            .map(move |x| (f64::from(x), if x == 20 { outlier } else { 3.0 + f64::from(x) * 2.0 }))
    };
    assert!((slope(&line(1e6).collect::<Vec<_>>()) - 2.0).abs() < 0.1);
    assert!(slope(&[(0.0, 5.0)]).abs() < 1e-9);
}

/// Programs of one name that come and go.
struct Targets {
    program: PathBuf,
    running: Vec<Running>,
    rng: Rng,
    ended: u64,
    verified: u64,
}

impl Targets {
    /// Starts as many as are missing, and looks at what those found that have ended.
    fn tend(&mut self) {
        let mut running = Vec::new();
        for mut program in std::mem::take(&mut self.running) {
            if program.has_ended() {
                self.note(program);
            } else {
                running.push(program);
            }
        }
        self.running = running;
        while self.running.len() < TARGETS {
            let seconds = 2 + self.rng.below(5);
            let options = [
                "--fork-rate 8/s --churn 50/s",
                "--huge --fork-rate 2/s --threads 3",
                "--churn 200/s --threads 2 --shift 1",
            ][self.rng.below(3) as usize];
            let load = format!(
                "--json --size 24MiB --hot 20% --cold-rate 1000/s --writes 20% --checksums {options} --seconds {seconds}"
            );
            let mut command = Command::new("sh");
            command.args(["-c", "sleep 0.1; exec \"$0\" \"$@\""]).arg(&self.program);
            command.args(load.split(' ')).stdout(Stdio::piped()).stderr(Stdio::null());
            self.running.push(Running::start(&mut command));
        }
    }

    fn note(&mut self, mut program: Running) {
        let mut told = Vec::new();
        let mut out = program.0.stdout.take().expect("piped");
        out.read_to_end(&mut told).expect("readable");
        let done: Value = serde_json::from_slice(&told).expect("JSON");
        assert_eq!(done["mismatches"], 0, "{done}");
        self.ended += 1;
        self.verified += number(&done, "verified_pages");
    }
}

/// What a daemon takes.
fn measure(pid: u32, folders: &[&Path]) -> [f64; 4] {
    let count = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
    let own = format!("{pid}-");
    let instances = fs::read_dir("/run/frostline/instances").into_iter().flatten().flatten();
    let instances =
        instances.filter(|file| file.file_name().to_string_lossy().starts_with(&own)).count();
    let process = PathBuf::from(format!("/proc/{pid}"));
    let files = instances + folders.iter().map(|folder| count(folder)).sum::<usize>();
    [
        status_kib(pid, "VmRSS") as f64,
        count(&process.join("fd")) as f64,
        count(&process.join("task")) as f64,
        files as f64,
    ]
}

pub fn scrape(address: &str) -> String {
    let mut page = String::new();
    let done = TcpStream::connect(address).and_then(|mut stream| {
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        stream.read_to_string(&mut page)
    });
    done.map_or(String::new(), |_| page)
}

pub fn address(notes: &Path) -> Option<String> {
    let notes = fs::read_to_string(notes).ok()?;
    let (_, rest) = notes.split_once("metrics at http://")?;
    Some(rest.split_once("/metrics")?.0.to_owned())
}

#[test]
fn a_daemon_takes_no_more_and_no_more() {
    let Some(system) = System::take() else { return };
    let duration = duration();
    let folder = tempfile::tempdir().expect("a folder");
    let outputs = tempfile::tempdir().expect("a folder");
    let name = format!("soak{}", std::process::id());
    let program = folder.path().join(&name);
    std::os::unix::fs::symlink(load_program(), &program).expect("room");
    let config = folder.path().join("f.toml");
    let textfile = outputs.path().join("f.prom");
    let text = format!(
        "[metrics]\nlisten = \"127.0.0.1:0\"\ntextfile = \"{}\"\n[[target]]\nname = \"soak\"\n\
         command = \"{name}\"\nfast = \"40%\"\nslow = \"zram:size=256MiB\"\ncpu_limit = \"20%\"\n\
         settling_cpu_limit = \"40%\"\n",
        textfile.display()
    );
    fs::write(&config, &text).expect("room");
    let notes = outputs.path().join("notes");
    let mut command = frostline();
    command.args(["daemon", "-c"]).arg(&config).stderr(File::create(&notes).expect("room"));
    let mut daemon = Running::start(&mut command);
    wait_until("metrics are served", || address(&notes).is_some());
    let address = address(&notes).expect("served");

    let rng = Rng::new(3);
    let mut targets = Targets { program, running: Vec::new(), rng, ended: 0, verified: 0 };
    let pause = (duration / MOST_SAMPLES).max(Duration::from_millis(250));
    let (began, mut samples, mut looks, mut out) = (Instant::now(), Vec::new(), 0_u64, 0);
    // What it is for has to happen, however busy the machine is.
    while began.elapsed() < duration || targets.ended < 4 || out == 0 {
        targets.tend();
        std::thread::sleep(pause);
        assert!(!daemon.has_ended(), "{}", fs::read_to_string(&notes).unwrap_or_default());
        let swapped = targets.running.iter().map(|target| status_kib(target.pid(), "VmSwap"));
        out += u64::from(swapped.sum::<u64>() > 0);
        let page = scrape(&address);
        assert!(page.is_empty() || page.contains("frostline_"), "{page}");
        looks += 1;
        if looks % 20 == 0 {
            // A change that is taken on the fly, and one that has the target begin anew.
            let other = text.replace("40%", if looks % 40 == 0 { "50%" } else { "40%" });
            fs::write(&config, other).expect("room");
            daemon.signal(Signal::HUP);
        }
        let seconds = began.elapsed().as_secs_f64();
        samples.push((seconds, measure(daemon.pid(), &[outputs.path()])));
    }
    for program in std::mem::take(&mut targets.running) {
        targets.note(program);
    }
    let notes = fs::read_to_string(&notes).expect("readable");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code(), Some(0), "{notes}");
    println!(
        "{:.0} s, {} programs came and went, {} pages verified, {} times the configuration was read",
        began.elapsed().as_secs_f64(),
        targets.ended,
        targets.verified,
        notes.matches("reloaded: ").count()
    );
    judge(&samples, duration);
    system.finish();
}

/// Prints the table, and checks that nothing grows.
fn judge(samples: &[(f64, [f64; 4])], duration: Duration) {
    let from = duration.as_secs_f64() * WARM_UP;
    let warm: Vec<_> = samples.iter().filter(|(seconds, _)| *seconds >= from).collect();
    println!(
        "{:20} {:>10} {:>10} {:>10} {:>14}",
        "of the daemon", "first", "median", "last", "an hour"
    );
    let mut grows: Vec<&str> = Vec::new();
    for (at, (name, most)) in MEASURES.iter().enumerate() {
        let values: Vec<(f64, f64)> = warm.iter().map(|(x, all)| (*x, all[at])).collect();
        let middle =
            |part: &[(f64, f64)]| median(&mut part.iter().map(|v| v.1).collect::<Vec<_>>());
        let quarter = values.len().div_ceil(4);
        let (first, last) = (middle(&values[..quarter]), middle(&values[values.len() - quarter..]));
        let an_hour = slope(&values) * 3600.0;
        println!("{name:20} {first:>10} {:>10} {last:>10} {an_hour:>+14.1}", middle(&values));
        let too_much =
            if duration >= LONG { an_hour > *most } else { last - first > SHORT_GROWTH[at] };
        grows.extend(too_much.then_some(*name));
    }
    assert!(grows.is_empty(), "{grows:?} of the daemon grow");
}
