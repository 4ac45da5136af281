//! Work on another thread, while the interpreter's own looks for Ctrl-C and tells of the progress.

use crate::errors;
use frostline_study::{Monitor, Pass, StudyError};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// What Python code has raised on another thread, where it cannot be passed on.
#[derive(Default)]
pub struct Failure {
    is_noted: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

impl Failure {
    /// Notes an error, where there is none yet.
    pub fn note(&self, error: PyErr) {
        let mut noted = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        noted.get_or_insert(error);
        self.is_noted.store(true, Ordering::Release);
    }

    /// Whether there is one.
    pub fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Acquire)
    }

    fn take(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Monitor that remembers what it hears.
#[derive(Default)]
pub struct Watcher {
    stops: AtomicBool,
    failure: Arc<Failure>,
    pass: Mutex<Option<Arc<Under>>>,
    notes: Mutex<Vec<String>>,
}

/// A pass under way.
struct Under {
    what: String,
    total: Option<u64>,
    done: AtomicU64,
}

struct Advances(Arc<Under>);

impl Pass for Advances {
    fn advance(&self, units: u64) {
        self.0.done.fetch_add(units, Ordering::Relaxed);
    }
}

impl Monitor for Watcher {
    fn pass<'a>(&'a self, what: &str, _: &str, total: Option<u64>) -> Box<dyn Pass + 'a> {
        let pass = Arc::new(Under { what: what.to_owned(), total, done: AtomicU64::new(0) });
        *self.pass.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&pass));
        Box::new(Advances(pass))
    }

    fn note(&self, text: &str) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed) || self.failure.is_noted()
    }
}

impl Watcher {
    /// Where errors go that end the work.
    pub fn failure(&self) -> Arc<Failure> {
        Arc::clone(&self.failure)
    }

    fn tell(&self, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(pass) = pass else { return Ok(()) };
        progress.call1((&pass.what, pass.done.load(Ordering::Relaxed), pass.total))?;
        Ok(())
    }
}

/// Does `work` without the interpreter's lock. `progress` is called with what is done, how much of it, and of how much,
/// now and then; what it raises, and a Ctrl-C, end the work. Notes become warnings.
///
/// # Errors
/// Those of the work, and what was raised meanwhile.
pub fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Watcher) -> anyhow::Result<T> + Send,
) -> PyResult<T> {
    let (watcher, ended) = (Watcher::default(), AtomicBool::new(false));
    let mut raised = None;
    let waiter = thread::current();
    let result = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let result = work(&watcher);
            ended.store(true, Ordering::Release);
            waiter.unpark();
            result
        });
        while !ended.load(Ordering::Acquire) && !worker.is_finished() {
            py.detach(|| thread::park_timeout(LOOK));
            // Once it is to end, nobody is told any more.
            if raised.is_some() {
                continue;
            }
            let told = py.check_signals();
            let told = told.and_then(|()| progress.map_or(Ok(()), |told| watcher.tell(told)));
            if let Err(error) = told {
                watcher.stops.store(true, Ordering::Relaxed);
                raised = Some(error);
            }
        }
        py.detach(|| worker.join())
    });
    if let Some(error) = raised.or_else(|| watcher.failure.take()) {
        return Err(error);
    }
    let result =
        result.unwrap_or_else(|_| Err(StudyError::failed("it panicked", "report it").into()));
    let notes = watcher.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
    for note in notes.into_iter().filter_map(|note| CString::new(note).ok()) {
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &note, 2)?;
    }
    result.map_err(|error| errors::of_study(&error))
}
