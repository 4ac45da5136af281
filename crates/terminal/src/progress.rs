//! Progress and notes on standard error.
//!
//! Bars show only where standard error is a terminal; nothing but errors shows with `--quiet`.

use crate::cancel;
use frostline_core::foreign::Plain;
use frostline_study::{Monitor, Pass};
use indicatif::{
    HumanCount, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);
static BARS: OnceLock<MultiProgress> = OnceLock::new();

/// Switches bars and notes off.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

fn quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

fn bars() -> &'static MultiProgress {
    // `stderr` draws nothing where it is no terminal.
    BARS.get_or_init(|| {
        MultiProgress::with_draw_target(if quiet() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(10)
        })
    })
}

/// A bar over `total` units; a spinner with a counter where the total is not known. `unit` is
/// shown after the numbers: `accesses`, `runs`.
pub fn bar(what: &str, unit: &str, total: Option<u64>) -> ProgressBar {
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    let template = match total {
        Some(_) => format!(
            "{{msg:24!}} {{wide_bar}} {{human_pos}}/{{human_len}} {unit}  {{rate}}/s  left {{eta}}"
        ),
        None => format!("{{msg:24!}} {{spinner}} {{human_pos}} {unit}  {{rate}}/s  {{elapsed}}"),
    };
    let style = ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = write!(out, "{}", HumanCount(state.per_sec() as u64));
        })
        .progress_chars("━╸─");
    bars().add(bar.with_style(style).with_message(Plain::line(what).to_string()))
}

/// Bars and notes of a study, which Ctrl-C ends.
pub struct Screen;

impl Monitor for Screen {
    fn pass<'a>(&'a self, what: &str, unit: &str, total: Option<u64>) -> Box<dyn Pass + 'a> {
        Box::new(Shown(bar(what, unit, total)))
    }
    fn note(&self, text: &str) {
        note(text);
    }
    fn stops(&self) -> bool {
        cancel::requested()
    }
}

/// A bar that goes when its pass is over.
struct Shown(ProgressBar);

impl Pass for Shown {
    fn advance(&self, units: u64) {
        self.0.inc(units);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A line for people: what was chosen, what was left out. Not an error.
pub fn note(text: &str) {
    if !quiet() {
        stderr_line(text);
    }
}

/// Takes all bars off the screen.
pub fn clear() {
    if let Some(bars) = BARS.get() {
        // A terminal that cannot be cleared is no reason to fail.
        let _ = bars.clear();
    }
}

/// A line, or several, on standard error, that does not tear a bar apart and leads no terminal. Failure to write is ignored: there
/// is nowhere left to say so.
pub fn stderr_line(text: &str) {
    let write = || {
        let _ = writeln!(std::io::stderr().lock(), "{}", Plain::lines(text));
    };
    match BARS.get() {
        Some(bars) => bars.suspend(write),
        None => write(),
    }
}
