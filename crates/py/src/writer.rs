//! Traces from arrays.

use crate::errors;
use frostline_core::types::AccessKind;
use frostline_trace::header::ClockUnit;
use frostline_trace::import::{Accessed, AddressWriter};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A trace that is being written.
#[pyclass(frozen, module = "frostline._native")]
pub struct Writer(Mutex<Option<AddressWriter>>);

/// Values of a column, as its bytes in this machine's order.
pub fn values<const N: usize>(column: &[u8]) -> impl ExactSizeIterator<Item = [u8; N]> {
    column.as_chunks().0.iter().copied()
}

#[pymethods]
impl Writer {
    /// Creates the file. `clock` is `nanoseconds` or `instructions`.
    #[new]
    fn new(path: PathBuf, name: &str, clock: &str) -> PyResult<Self> {
        let unit = match clock {
            "nanoseconds" => ClockUnit::Nanoseconds,
            "instructions" => ClockUnit::Instructions,
            _ => {
                let hint = "nanoseconds or instructions";
                return Err(errors::UsageError::new_err(format!(
                    "no clock: {clock}\nhint: {hint}"
                )));
            }
        };
        let writer = AddressWriter::create(&path, name, unit);
        Ok(Self(Mutex::new(Some(writer.map_err(|error| errors::of_trace(&error))?))))
    }

    /// Appends accesses: times and addresses of 64 bits, a byte that is not 0 for a store, threads of 32 bits.
    fn append(
        &self,
        py: Python<'_>,
        times: &[u8],
        addresses: &[u8],
        writes: &[u8],
        threads: &[u8],
    ) -> PyResult<()> {
        let times = values(times).map(u64::from_ne_bytes);
        let addresses = values(addresses).map(u64::from_ne_bytes);
        let threads = values(threads).map(u32::from_ne_bytes);
        let lengths = [times.len(), addresses.len(), writes.len(), threads.len()];
        if lengths.iter().any(|length| *length != lengths[0]) {
            let what = format!("columns of different lengths: {lengths:?}");
            return Err(errors::UsageError::new_err(what));
        }
        let mut accesses = times.zip(addresses).zip(writes.iter().zip(threads)).map(
            |((clock, address), (write, thread))| {
                let kind = if *write == 0 { AccessKind::Load } else { AccessKind::Store };
                Accessed { clock, address, kind, thread }
            },
        );
        py.detach(|| {
            let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(writer) = &mut *writer else { return Ok(()) };
            accesses.try_for_each(|access| writer.push(access))
        })
        .map_err(|error| errors::UsageError::new_err(error.to_string()))
    }

    /// Writes the rest. Gives the number of accesses.
    fn finish(&self) -> PyResult<u64> {
        let writer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(writer) = writer else { return Ok(0) };
        let totals = writer.finish().map_err(|error| errors::of_trace(&error))?;
        Ok(totals.records)
    }
}
