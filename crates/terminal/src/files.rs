//! Output files that are complete or not there.

use crate::errors::{ResultExt, usage};
use crate::{cancel, progress};
use anyhow::Context;
use frostline_linux::own_files::outputs;
use frostline_trace::batch::Want;
use frostline_trace::{Batch, Totals, TraceSource, TraceWriter};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes a whole file that a user has named, as [`replace`] does. Destinations that are no regular
/// files (`/dev/stdout`, pipes) are written directly, unless other users have put them there.
///
/// # Errors
/// Where the file cannot be made or written.
pub fn write_whole(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if is_special(path) {
        return create(path)?.write_all(content).with_context(|| named(path));
    }
    replace(path, content)
}

/// Writes a report to a file that a user has named, and says so.
///
/// # Errors
/// As [`write_whole`].
pub fn write_report(path: &Path, page: &str) -> anyhow::Result<()> {
    write_whole(path, page.as_bytes())?;
    progress::note(&format!("report written to {}", path.display()));
    Ok(())
}

/// Writes a whole file. It is put together beside its destination and renamed, so that nobody sees a
/// part of it, and a link that is there is replaced. What is no file is left alone: never opened, because a pipe
/// without a reader would keep us waiting, and a device may do anything.
///
/// # Errors
/// Where the file cannot be made or written.
pub fn replace(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if is_special(path) {
        return Err(usage(
            format!("{}: there is something else than a file", named(path)),
            "choose another name",
        ));
    }
    let folder = folder_of(path);
    let mut file = tempfile::Builder::new()
        .prefix(".frostline-")
        .permissions(default_mode())
        .tempfile_in(folder)
        .or_hint(named(path), "choose a folder that exists and can be written")?;
    file.write_all(content).with_context(|| named(path))?;
    file.persist(path).map_err(|error| error.error).with_context(|| named(path))?;
    Ok(())
}

/// Opens a file that a user has named, to be written from its beginning.
///
/// # Errors
/// Where it cannot be written, or other users have put something there that leads elsewhere.
pub fn create(path: &Path) -> anyhow::Result<File> {
    outputs::create(path).with_context(|| named(path))
}

/// Fails as [`create`] would for what others have put there: before a path is handed to somebody else.
///
/// # Errors
/// There.
pub fn check(path: &Path) -> anyhow::Result<()> {
    outputs::check(path).with_context(|| named(path))
}

/// Writes all of a source, every column of it, as a native trace, with a bar of progress. The file
/// is removed again where that fails or is interrupted.
///
/// # Errors
/// Where the source cannot be read or the file not be written, and after a Ctrl-C.
pub fn write_trace(
    source: &mut dyn TraceSource,
    path: &Path,
    label: &str,
) -> anyhow::Result<Totals> {
    source.want(Want { clock_deltas: true, lines: true });
    let header = source.header().clone();
    let bar = progress::bar(label, "accesses", header.expected_records);
    check(path)?;
    let file = create(path)
        .or_hint("no trace written", "choose a folder that exists and can be written")?;
    let mut writer = TraceWriter::new(file, path, &header)?;
    let partial = Partial::guard(path);
    let mut batch = Batch::new();
    while source.next_batch(&mut batch)? {
        if cancel::requested() {
            drop(partial);
            return Err(cancel::interrupted(&format!("{} was removed", path.display())));
        }
        writer.append(&batch)?;
        bar.inc(batch.len() as u64);
    }
    let totals = writer.finish()?;
    partial.keep();
    bar.finish_and_clear();
    Ok(totals)
}

/// Creating the output would empty the input.
///
/// # Errors
/// Where both are the same file.
pub fn refuse_overwriting(input: &Path, output: &Path) -> anyhow::Result<()> {
    match (input.canonicalize(), output.canonicalize()) {
        (Ok(from), Ok(to)) if from == to => Err(usage(
            format!("{}: is both what to read and what to write", input.display()),
            "choose another name for the output",
        )),
        _ => Ok(()),
    }
}

/// A file that is written over time. Dropping it without [`Partial::keep`] removes it, but for
/// destinations that are no regular files.
pub struct Partial {
    path: PathBuf,
    remove: bool,
}

impl Partial {
    /// Guards a file that somebody else creates.
    pub fn guard(path: &Path) -> Self {
        Self { path: path.to_owned(), remove: !is_special(path) }
    }

    /// The file is complete, or of use as it is.
    pub fn keep(mut self) {
        self.remove = false;
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.remove {
            // Nothing better can be done here than to leave it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn named(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// What a plain `File::create` would ask for; the process's mask applies.
fn default_mode() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_files_replace_and_partial_ones_vanish() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_whole(&path, b"old").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file left");

        drop(Partial::guard(&path));
        assert!(!path.exists());
        write_whole(&path, b"whole").unwrap();
        Partial::guard(&path).keep();
        assert!(path.exists());
    }

    #[test]
    fn devices_are_written_and_not_removed() {
        write_whole(Path::new("/dev/null"), b"x").unwrap();
        drop(Partial::guard(Path::new("/dev/null")));
        assert!(Path::new("/dev/null").exists());
    }

    #[test]
    fn what_is_replaced_is_never_opened_or_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, pipe, device] =
            ["file", "link", "pipe", "device"].map(|name| folder.path().join(name));
        std::fs::write(&file, b"precious").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert!(!link.is_symlink());
        assert_eq!(std::fs::read(&link).unwrap(), b"new");
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        for path in [&pipe, &device] {
            let (done, ended) = std::sync::mpsc::channel();
            let own = path.clone();
            std::thread::spawn(move || done.send(replace(&own, b"new")));
            let result = ended.recv_timeout(std::time::Duration::from_secs(10));
            let error = result.expect("it does not wait").unwrap_err().to_string();
            assert!(error.contains("something else than a file\nhint: "), "{error}");
        }
        assert!(device.is_symlink(), "left as it is");
    }

    #[test]
    fn a_missing_folder_has_a_hint() {
        let error = write_whole(Path::new("/nonexistent/a"), b"").unwrap_err();
        assert!(error.to_string().contains("/nonexistent/a\nhint: "), "{error}");
    }
}
