//! One Parquet file, read row group by row group.

use crate::files::{io_error, parquet_error};
use crate::pages::{check_footer, claimed_bytes};
use frostline_trace::TraceError;
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::Result;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Values asked for at a time, so that a wrong row count allocates nothing.
const STEP: usize = 1 << 16;

/// Rows of a group that a file may have for each of its bytes, beside those that any may have. Encoded
/// repetitions take next to nothing.
const ROWS_PER_BYTE: u64 = 1;
/// Rows of a group that any file may have.
const ROWS: u64 = 1 << 20;
/// Decompressed bytes of a group's column that a file may have for each of its bytes, beside those that any may
/// have.
const COLUMN_BYTES_PER_BYTE: u64 = 16;
/// Decompressed bytes of a group's column that any file may have.
const COLUMN_BYTES: u64 = 32 << 20;

thread_local! {
    /// Whether a panic of this thread will be an error, so that nobody needs to read of it.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Has the process's panic hook pass over panics that will be errors.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !CAUGHT.get() {
                before(panic);
            }
        }));
    });
}

/// Calls the library, which panics on some damaged files: that, too, is an error here.
fn call<T>(path: &Path, library: impl FnOnce() -> Result<T>) -> std::result::Result<T, TraceError> {
    hush();
    CAUGHT.set(true);
    let result = catch_unwind(AssertUnwindSafe(library));
    CAUGHT.set(false);
    match result {
        Ok(result) => result.map_err(|error| parquet_error(path, "read as Parquet", error)),
        Err(_) => Err(TraceError::Foreign {
            path: path.to_owned(),
            what: "damaged: it says what cannot be".to_owned(),
        }),
    }
}

pub(crate) struct Table {
    path: PathBuf,
    file: File,
    len: u64,
    reader: SerializedFileReader<File>,
}

impl Table {
    pub(crate) fn open(path: &Path) -> std::result::Result<Self, TraceError> {
        let file = File::open(path).map_err(|error| io_error(path, "open", error))?;
        let len = file.metadata().map_err(|error| io_error(path, "open", error))?.len();
        check_footer(&file, len).map_err(|error| io_error(path, "read as Parquet", error))?;
        let copy = file.try_clone().map_err(|error| io_error(path, "open", error))?;
        let reader = call(path, || SerializedFileReader::new(copy))?;
        Ok(Self { path: path.to_owned(), file, len, reader })
    }

    /// Rows that a group may have.
    fn most_rows(&self) -> u64 {
        self.len.saturating_mul(ROWS_PER_BYTE).saturating_add(ROWS)
    }

    fn absurd(&self, what: String) -> TraceError {
        let hint = "write it with row groups of a million rows or fewer".to_owned();
        TraceError::Absurd { path: self.path.clone(), what, hint }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        let pairs = self.reader.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    pub(crate) fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// Index of a column; an error where it is needed and missing.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        let schema = self.reader.metadata().file_metadata().schema_descr_ptr();
        schema.columns().iter().position(|column| column.path().string() == name)
    }

    /// Index of a column that must be there.
    pub(crate) fn needed(&self, name: &str) -> std::result::Result<usize, TraceError> {
        self.column(name).ok_or_else(|| TraceError::Foreign {
            path: self.path.clone(),
            what: format!(
                "no column `{name}`\nhint: a Parquet trace has at least the columns clock, page and kind"
            ),
        })
    }

    /// A column of unsigned numbers, of 32 or 64 bits.
    pub(crate) fn numbers(
        &self,
        group: usize,
        column: usize,
    ) -> std::result::Result<Vec<u64>, TraceError> {
        let read = self.reader(group, column)?;
        match read {
            ColumnReader::Int32ColumnReader(column) => {
                Ok(self.read(column)?.into_iter().map(|v| u64::from(v as u32)).collect())
            }
            ColumnReader::Int64ColumnReader(column) => {
                Ok(self.read(column)?.into_iter().map(|v| v as u64).collect())
            }
            _ => Err(self.wrong_type(column, "integers")),
        }
    }

    pub(crate) fn bytes(
        &self,
        group: usize,
        column: usize,
    ) -> std::result::Result<Vec<ByteArray>, TraceError> {
        match self.reader(group, column)? {
            ColumnReader::ByteArrayColumnReader(column) => self.read(column),
            _ => Err(self.wrong_type(column, "bytes or text")),
        }
    }

    pub(crate) fn is_bytes(&self, column: usize) -> bool {
        let schema = self.reader.metadata().file_metadata().schema_descr_ptr();
        schema.column(column).physical_type() == Type::BYTE_ARRAY
    }

    fn reader(&self, group: usize, column: usize) -> std::result::Result<ColumnReader, TraceError> {
        let part = || Ok(self.reader.metadata().row_group(group).column(column).byte_range());
        let (start, len) = call(&self.path, part)?;
        if start.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(self.foreign("a column ends behind the file's end"));
        }
        let claimed = claimed_bytes(&self.file, start, len)
            .map_err(|error| io_error(&self.path, "read as Parquet", error))?;
        let most = self.len.saturating_mul(COLUMN_BYTES_PER_BYTE).saturating_add(COLUMN_BYTES);
        if claimed > most {
            return Err(self.absurd(format!(
                "a row group's column has {claimed} bytes when it is decompressed, more than {most}"
            )));
        }
        let open = || self.reader.get_row_group(group)?.get_column_reader(column);
        call(&self.path, open)
    }

    fn read<T: DataType>(
        &self,
        mut column: ColumnReaderImpl<T>,
    ) -> std::result::Result<Vec<T::T>, TraceError> {
        let most_rows = self.most_rows();
        let read = || -> Result<(Vec<T::T>, usize)> {
            let (mut values, mut levels, mut rows) = (Vec::new(), Vec::new(), 0);
            loop {
                levels.clear();
                let (records, _, _) =
                    column.read_records(STEP, Some(&mut levels), None, &mut values)?;
                if records == 0 {
                    return Ok((values, rows));
                }
                rows += records;
                if rows as u64 > most_rows {
                    return Ok((values, rows));
                }
            }
        };
        let (values, rows) = call(&self.path, read)?;
        if rows as u64 > most_rows {
            return Err(self.absurd(format!("a row group has more than {most_rows} rows")));
        }
        if values.len() < rows {
            return Err(self.foreign("a column that is needed has empty (null) values"));
        }
        Ok(values)
    }

    fn wrong_type(&self, column: usize, what: &str) -> TraceError {
        let schema = self.reader.metadata().file_metadata().schema_descr_ptr();
        self.foreign(&format!("column `{}` does not hold {what}", schema.column(column).name()))
    }

    pub(crate) fn foreign(&self, what: &str) -> TraceError {
        TraceError::Foreign { path: self.path.clone(), what: what.to_owned() }
    }
}
