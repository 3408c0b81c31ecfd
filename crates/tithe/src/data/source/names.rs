//! Resolves the inputs that a user names: files, globs, directories or standard input.

use std::fs;
use std::path::{Path, PathBuf};

use super::input::Input;
use crate::base::error::{Error, ErrorKind, Result};

/// The inputs in the given order; those of a glob or directory are sorted by name.
pub(super) fn inputs(names: &[String], memory: u64) -> Result<Vec<Input>> {
    let mut paths = Vec::new();
    for name in names {
        if name == "-" {
            paths.push(None);
        } else {
            paths.extend(files(name)?.into_iter().map(Some));
        }
    }
    if paths.is_empty() {
        return Err(nothing("", "name a file, a directory, or - for standard input"));
    }
    // A file that is both named and matched by a glob would be read twice.
    let mut seen = hashbrown::HashSet::with_hasher(std::hash::RandomState::new());
    for path in &paths {
        let same = path.as_ref().map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
        if !seen.insert(same) {
            let name = path.as_ref().map_or("-".into(), |path| path.display().to_string());
            return Err(nothing(&name, "is named twice"));
        }
    }
    paths.into_iter().map(|path| open(path, memory)).collect()
}

fn open(path: Option<PathBuf>, memory: u64) -> Result<Input> {
    let Some(path) = path else {
        return Input::from_reader("standard input", std::io::stdin().lock(), memory);
    };
    let failed = |error| Error::io("read", &path, error);
    if fs::metadata(&path).map_err(failed)?.is_file() {
        return Ok(Input::file(path));
    }
    // A pipe can be read only once.
    let pipe = fs::File::open(&path).map_err(failed)?;
    Input::from_reader(path, pipe, memory)
}

/// The files that a name means.
fn files(name: &str) -> Result<Vec<PathBuf>> {
    let path = Path::new(name);
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => directory(name, path),
        Ok(_) => Ok(vec![path.to_path_buf()]),
        // A file whose name looks like a glob was found above.
        Err(_) if name.contains(['*', '?', '[']) => matches(name),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

fn directory(name: &str, path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("read", path, error);
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Such files are markers of the program that wrote the parts, not data.
        let is_note = entry.file_name().to_string_lossy().starts_with(['_', '.']);
        if !is_note && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    if files.is_empty() {
        return Err(nothing(name, "the directory holds no data files"));
    }
    files.sort();
    Ok(files)
}

fn matches(pattern: &str) -> Result<Vec<PathBuf>> {
    let found = glob::glob(pattern).map_err(|_| nothing(pattern, "is not a valid pattern"))?;
    let mut files = Vec::new();
    for path in found {
        let path = path.map_err(|error| {
            let path = error.path().to_path_buf();
            Error::io("read", path, error.into())
        })?;
        if !path.is_dir() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(nothing(pattern, "no file matches"));
    }
    files.sort();
    Ok(files)
}

fn nothing(pattern: &str, what: &'static str) -> Error {
    ErrorKind::NoInput { pattern: pattern.to_string(), what }.into()
}
