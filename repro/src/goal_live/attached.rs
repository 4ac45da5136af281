//! `frostline attach` beside a program, and the numbers that it writes every second.

use super::attendant::Line;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Lines of a series that the loss of each is of.
pub const LATEST: usize = 30;

/// A frostline at work; it is interrupted when it goes out of scope.
#[derive(Debug)]
pub struct Attached {
    child: Option<Child>,
    series: PathBuf,
    said: PathBuf,
}

impl Attached {
    pub fn start(frostline: &Path, pid: u32, goal: f64, series: &Path) -> anyhow::Result<Self> {
        let said = series.with_extension("said");
        let child = Command::new(frostline)
            .args(["attach", &pid.to_string(), "--slow", "zram"])
            .args(["--max-slowdown", &format!("{}%", goal * 100.0), "--series"])
            .arg(series)
            .stdout(Stdio::null())
            .stderr(Stdio::from(std::fs::File::create(&said)?))
            .spawn();
        let child = child.with_context(|| format!("cannot start {}", frostline.display()))?;
        Ok(Self { child: Some(child), series: series.to_owned(), said })
    }

    /// Fails where it has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let ended = match &mut self.child {
            Some(child) => child.try_wait()?,
            None => None,
        };
        if ended.is_some() {
            bail!("frostline has ended: {}", std::fs::read_to_string(&self.said)?.trim());
        }
        Ok(())
    }

    /// What it has written so far.
    pub fn lines(&self) -> anyhow::Result<Vec<Line>> {
        let text = std::fs::read_to_string(&self.series);
        parse(&text.with_context(|| self.series.display().to_string())?)
    }

    /// Ends it; all that it has written.
    pub fn stop(mut self) -> anyhow::Result<Vec<Line>> {
        self.check()?;
        let lines = self.lines();
        self.end()?;
        lines
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        kill_process(Pid::from_child(&child), Signal::INT)?;
        child.wait()?;
        Ok(())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn parse(text: &str) -> anyhow::Result<Vec<Line>> {
    let mut lines = text.lines();
    let names: HashMap<&str, usize> =
        lines.next().unwrap_or("").split(',').enumerate().map(|(at, name)| (name, at)).collect();
    // The last one may be half written.
    let whole = text.rfind('\n').map_or(0, |end| text[..end].lines().count());
    lines
        .take(whole.saturating_sub(1))
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let number = |name: &str| -> anyhow::Result<f64> {
                let cell = names.get(name).and_then(|at| cells.get(*at));
                cell.and_then(|cell| cell.parse().ok())
                    .with_context(|| format!("no {name}: {line}"))
            };
            Ok(Line {
                footprint: number("footprint_bytes")?,
                saved: number("saved_bytes")?,
                loss: number("loss")?,
                cpu_share: number("cpu_share")?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_half_written_is_left_out() {
        let head = "seconds,footprint_bytes,saved_bytes,loss,cpu_share\n";
        let line = Line { footprint: 100.0, saved: 20.0, loss: 0.01, cpu_share: 0.015 };
        let text = format!("{head}1.0,100,20,0.01,0.015\n2.0,100,2");
        assert_eq!(parse(&text).expect("it is whole"), [line]);
        assert_eq!(parse("").expect("nothing"), []);
        assert!(parse("seconds,loss\n1.0,0.1\n").is_err());
    }
}
