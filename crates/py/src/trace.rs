//! Traces as Python objects.

use crate::accesses::Accesses;
use crate::errors;
use crate::events::Events;
use crate::stream::{Columns, Stream};
use crate::watched::watched;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use frostline_core::Limit;
use frostline_profile::{Profile, Span};
use frostline_study::{Input, Monitor, StudyError, Unwatched, Watched};
use frostline_trace::{TraceHeader, TraceInfo};
use frostline_workloads::{SYNTH_PREFIX, initialisation_records};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::path::Path;

/// Name that consumers of Arrow streams expect a capsule to have.
const CAPSULE: &std::ffi::CStr = c"arrow_array_stream";

/// A trace that can be read any number of times: a file, or one that is generated as it is read.
#[pyclass(frozen, module = "frostline._native")]
pub struct Trace {
    input: Input,
    header: TraceHeader,
}

#[pymethods]
impl Trace {
    /// Finds a file, or a generator by `synth:NAME:key=value...`, and checks that it begins well.
    #[new]
    fn new(py: Python<'_>, name: &str) -> PyResult<Self> {
        let open = || -> anyhow::Result<Self> {
            let input = Input::open(name, 1, Limit::default(), &Unwatched)?;
            let header = input.source()?.header().clone();
            Ok(Self { input, header })
        };
        py.detach(open).map_err(|error| errors::of_study(&error))
    }

    /// As it was named.
    #[getter]
    fn name(&self) -> &str {
        self.input.name()
    }

    /// What the trace says about itself, as JSON.
    fn header(&self) -> PyResult<String> {
        serde_json::to_string(&self.header).map_err(|error| errors::of_study(&error.into()))
    }

    /// What it holds, by a pass over all of it, as JSON.
    #[pyo3(signature = (progress=None))]
    fn info(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        watched(py, progress, |monitor| {
            let mut source = Watched::new(self.input.source()?, "reading", None, monitor);
            let bytes = Path::new(self.input.name()).metadata().ok().map(|file| file.len());
            let info = TraceInfo::collect(&mut source, bytes, |_| true)?;
            monitor.check()?;
            Ok(serde_json::to_string(&info)?)
        })
    }

    /// How much memory serves how many of its accesses, by one pass over it, as JSON. What a generator does first is left
    /// out unless `skip` says how much.
    #[pyo3(signature = (skip=None, records=None, progress=None))]
    fn profile(
        &self,
        py: Python<'_>,
        skip: Option<u64>,
        records: Option<u64>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        watched(py, progress, |monitor| {
            let name = self.input.name();
            let skip = match skip {
                Some(skip) => skip,
                None if name.starts_with(SYNTH_PREFIX) => initialisation_records(name)?,
                None => 0,
            };
            let mut source = Watched::new(self.input.source()?, "reading", None, monitor);
            let profile = Profile::of(&mut source, Span { skip, records }, |_| true)?;
            monitor.check()?;
            if profile.records() == 0 {
                let what =
                    format!("there is nothing behind the first {} records", profile.left_out());
                return Err(StudyError::usage(what, "leave out fewer").into());
            }
            Ok(serde_json::to_string(&profile.summary())?)
        })
    }

    /// A stream of its accesses for whatever reads Arrow: batches that are decoded when they are asked for.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        self.capsule::<Accesses>(py)
    }

    /// A stream of its events, likewise.
    #[pyo3(signature = (requested_schema=None))]
    fn events<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        self.capsule::<Events>(py)
    }
}

impl Trace {
    /// Consumers that want other types than a stream has convert them themselves.
    fn capsule<'py, C: Columns + 'static>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let source = self.input.source().map_err(|error| errors::of_trace(&error))?;
        let stream = FFI_ArrowArrayStream::new(Box::new(Stream::<C>::new(source)));
        PyCapsule::new_with_value(py, stream, CAPSULE)
    }
}
