//! Check that a program can be run and recorded, before the recorder would fail.

use crate::error::RecordError;
use rustix::fs::{Access, access};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const ELF_MAGIC: [u8; 4] = [0x7f, b'E', b'L', b'F'];
const ELF_CLASS_64: u8 = 2;
const ELF_MACHINE_X86_64: u16 = 62;
const SET_ID_BITS: u32 = 0o6000;

/// The file that `program` names, looked up as `execvp(3)` does.
///
/// # Errors
/// Where it is not there, or cannot be executed or recorded.
pub fn check(program: &OsStr) -> Result<PathBuf, RecordError> {
    let name = program.to_string_lossy().into_owned();
    let refuse = |why: &str, hint: &'static str| RecordError::NotExecutable {
        program: name.clone(),
        why: why.to_owned(),
        hint,
    };
    let path = find(program).ok_or_else(|| RecordError::NotFound { program: name.clone() })?;
    let meta = path.metadata().map_err(|_| RecordError::NotFound { program: name.clone() })?;
    if meta.is_dir() {
        return Err(refuse("is a directory", "name a program"));
    }
    if access(&path, Access::EXEC_OK).is_err() {
        return Err(refuse("permission denied", "make it executable: chmod +x"));
    }
    if meta.mode() & SET_ID_BITS != 0 {
        return Err(refuse(
            "is set-user-ID or set-group-ID, which cannot be recorded",
            "record a copy without those bits: cp PROGRAM /tmp && chmod u-s,g-s",
        ));
    }
    let mut head = [0; 20];
    let Ok(n) = File::open(&path).and_then(|mut file| read_up_to(&mut file, &mut head)) else {
        return Err(refuse("cannot be read", "the recorder needs read permission on it"));
    };
    if n == head.len() && head[..4] == ELF_MAGIC {
        let machine = u16::from_le_bytes([head[18], head[19]]);
        if head[4] != ELF_CLASS_64 || machine != ELF_MACHINE_X86_64 {
            return Err(refuse("is not a 64-bit x86 program", "record a build for x86-64 (amd64)"));
        }
    }
    Ok(path)
}

/// The first line of a script (execve(2)): its interpreter and that one's argument, if any.
pub fn interpreter(path: &Path) -> Option<(PathBuf, Option<OsString>)> {
    let mut head = [0; 256];
    let n = File::open(path).and_then(|mut file| read_up_to(&mut file, &mut head)).ok()?;
    let line = head[..n].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = line.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (name, argument) = line.split_at(end);
    let argument = argument.trim_ascii();
    let argument = (!argument.is_empty()).then(|| OsStr::from_bytes(argument).to_owned());
    (!name.is_empty()).then(|| (PathBuf::from(OsStr::from_bytes(name)), argument))
}

fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        let path = Path::new(program);
        return path.exists().then(|| path.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let candidates: Vec<PathBuf> = std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .filter(|candidate| candidate.is_file())
        .collect();
    let executable = candidates.iter().find(|path| access(path.as_path(), Access::EXEC_OK).is_ok());
    executable.or(candidates.first()).cloned()
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match file.read(&mut buffer[n..])? {
            0 => break,
            more => n += more,
        }
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn code(program: &Path) -> Option<u8> {
        check(program.as_os_str()).err().map(|error| error.exit_code())
    }

    fn write(path: &Path, bytes: &[u8], mode: u32) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn each_kind_of_unusable_program_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        assert_eq!(code(&path), Some(127));
        assert_eq!(code(dir.path()), Some(126));
        write(&path, b"#!/bin/sh\n", 0o644);
        assert_eq!(code(&path), Some(126));
        write(&path, b"#!/bin/sh\n", 0o755);
        assert_eq!(code(&path), None);
        write(&path, b"#!/bin/sh\n", 0o4755);
        assert_eq!(code(&path), Some(126));
        let mut elf32 = [0; 64];
        elf32[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', 1]);
        elf32[18] = 3;
        write(&path, &elf32, 0o755);
        let error = check(path.as_os_str()).unwrap_err();
        assert!(error.to_string().contains("not a 64-bit x86 program"), "{error}");
    }

    #[test]
    fn scripts_name_their_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        for (text, expected) in [
            (&b"#!/bin/sh\necho"[..], Some(("/bin/sh", None))),
            (b"#! /usr/bin/env  -S a b \n", Some(("/usr/bin/env", Some("-S a b")))),
            (b"#!\n", None),
            (b"\x7fELF", None),
        ] {
            write(&path, text, 0o755);
            let expected = expected.map(|(name, arg)| (name.into(), arg.map(OsString::from)));
            assert_eq!(interpreter(&path), expected);
        }
    }

    #[test]
    fn names_are_looked_up_in_the_path() {
        assert!(check(OsStr::new("sh")).is_ok());
        let error = check(OsStr::new("no-such-program-anywhere")).unwrap_err();
        assert_eq!(error.exit_code(), 127);
    }
}
