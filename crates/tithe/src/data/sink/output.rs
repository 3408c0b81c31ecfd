//! Files that appear under their name only when they are complete.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::parquet::wrong_file;
use crate::base::error::{Error, Remedy, Result, Setting};

/// A file that is being written: it appears under its name only when it is complete.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: tempfile::NamedTempFile,
}

impl Output {
    /// Checks that the file can be written, before any long computation.
    pub fn create(path: &Path) -> Result<Output> {
        if path == Path::new("-") {
            let what = "means standard output, but this output must be a file";
            return Err(wrong_file(
                path,
                what,
                Remedy::using("name a file (./- for a file named '-')", Setting::Output),
            ));
        }
        // A link stays a link: the file that it points to is replaced.
        let target = if path.is_symlink() { path.canonicalize().ok() } else { None };
        let path = target.as_deref().unwrap_or(path);
        // A device or pipe would be replaced by a file.
        if path.exists() && !path.is_file() {
            let what = match path.is_dir() {
                true => "is a directory, not a file to write to",
                false => "is not a regular file, so it cannot be replaced",
            };
            return Err(wrong_file(path, what, Remedy::using("name another file", Setting::Output)));
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        // Created directly, to get the default permissions and the system's own error.
        let create = |path: &Path| File::options().write(true).create_new(true).open(path);
        let file = tempfile::Builder::new()
            .prefix(".tithe-")
            .make_in(folder, create)
            .map_err(|error| Error::io("write", path, error))?;
        Ok(Output { path: path.to_path_buf(), file })
    }

    /// The path of the unfinished file; dropping the output removes it.
    pub fn temporary_path(&self) -> &Path {
        self.file.path()
    }

    /// The path of the complete file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The handle of the unfinished file.
    pub(crate) fn file(&self) -> &File {
        self.file.as_file()
    }

    /// The unfinished file.
    pub(crate) fn file_mut(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Writes the content and moves the file to its final path.
    pub fn write(self, content: &[u8]) -> Result<()> {
        let mut output = self;
        let written = output.file_mut().write_all(content);
        written.map_err(|error| Error::io("write", &output.path, error))?;
        output.commit()
    }

    /// Moves the complete file to its final path.
    pub(crate) fn commit(self) -> Result<()> {
        let refuse = |error| Error::io("write", &self.path, error);
        self.file.as_file().sync_all().map_err(refuse)?;
        self.file.persist(&self.path).map_err(|error| Error::io("write", &self.path, error.error))?;
        Ok(())
    }
}
