//! Files that appear under their name only when they are complete.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::parquet::wrong_file;
use crate::base::error::{Error, Remedy, Result, Setting};
use crate::base::faults::{Faulty, FileOperation, point};

/// A file that is being written: it appears under its name only when it is complete.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: tempfile::NamedTempFile,
    /// Whether the rename is made durable by itself; the state of a stream does that once for many files.
    syncs_folder: bool,
}

/// The beginning, the end and the length of the names of unfinished files.
const PREFIX: &str = ".tithe-";
const SUFFIX: &str = ".tmp";
const RANDOM: usize = 6;
/// An unfinished file without a lock was left by a process that was killed, unless it is younger than this: its
/// owner may be about to lock it.
const SETTLED: Duration = Duration::from_secs(10);

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
        remove_leftovers(folder_of(path));
        Output::beside(path, true)
    }

    /// A file of a stream's state. A link is replaced, not followed, and the caller makes the rename durable.
    pub(crate) fn in_state(path: &Path) -> Result<Output> {
        Output::beside(path, false)
    }

    fn beside(path: &Path, syncs_folder: bool) -> Result<Output> {
        // Created directly, to get the default permissions and the system's own error.
        let create = |path: &Path| File::options().write(true).create_new(true).open(path);
        let file = point(FileOperation::Create)
            .and_then(|()| {
                let mut builder = tempfile::Builder::new();
                builder.prefix(PREFIX).suffix(SUFFIX).rand_bytes(RANDOM);
                builder.make_in(folder_of(path), create)
            })
            .map_err(|error| Error::io("write", path, error))?;
        lock(file.as_file());
        Ok(Output { path: path.to_path_buf(), file, syncs_folder })
    }

    /// The path of the unfinished file; dropping the output removes it.
    pub fn temporary_path(&self) -> &Path {
        self.file.path()
    }

    /// The path of the complete file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes to the unfinished file.
    pub(crate) fn writer(&mut self) -> Faulty<&mut File> {
        Faulty(self.file.as_file_mut())
    }

    /// Another handle that writes to the unfinished file.
    pub(crate) fn own_writer(&self) -> std::io::Result<Faulty<File>> {
        self.file.as_file().try_clone().map(Faulty)
    }

    /// Writes the content and moves the file to its final path.
    pub fn write(self, content: &[u8]) -> Result<()> {
        let mut output = self;
        let written = output.writer().write_all(content);
        written.map_err(|error| Error::io("write", &output.path, error))?;
        output.commit()
    }

    /// Moves the complete file to its final path.
    pub(crate) fn commit(self) -> Result<()> {
        let refuse = |error| Error::io("write", &self.path, error);
        point(FileOperation::Sync).and_then(|()| self.file.as_file().sync_all()).map_err(refuse)?;
        point(FileOperation::Rename).map_err(refuse)?;
        self.file.persist(&self.path).map_err(|error| Error::io("write", &self.path, error.error))?;
        if self.syncs_folder { sync_folder(folder_of(&self.path)) } else { Ok(()) }
    }
}

/// Writes files into a directory. A directory that does not exist yet appears with all of its files or not at all; in one
/// that exists, each file is replaced after all are complete.
pub fn write_directory(directory: &Path, files: &[(&str, String)]) -> Result<()> {
    let failed = |error| Error::io("write", directory, error);
    if directory.exists() {
        let outputs = files.iter().map(|(name, content)| {
            let mut output = Output::create(&directory.join(name))?;
            let written = output.writer().write_all(content.as_bytes());
            written.map_err(|error| Error::io("write", output.path(), error))?;
            Ok(output)
        });
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        return outputs.into_iter().try_for_each(Output::commit);
    }
    let parent = folder_of(directory);
    fs::create_dir_all(parent).map_err(failed)?;
    remove_leftovers(parent);
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX).rand_bytes(RANDOM);
    // The permissions of any new directory, by the process's mask.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let staging = builder.tempdir_in(parent).map_err(failed)?;
    let mut open = Vec::new();
    for (name, content) in files {
        point(FileOperation::Create).map_err(failed)?;
        let file = File::create_new(staging.path().join(name)).map_err(failed)?;
        lock(&file);
        Faulty(&file).write_all(content.as_bytes()).map_err(failed)?;
        point(FileOperation::Sync).and_then(|()| file.sync_all()).map_err(failed)?;
        open.push(file);
    }
    sync_folder(staging.path())?;
    point(FileOperation::Rename).and_then(|()| fs::rename(staging.path(), directory)).map_err(failed)?;
    // It is no longer there to be removed.
    let _ = staging.keep();
    sync_folder(parent)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Locks an unfinished file until it is closed, by a crash too. Where files cannot be locked nothing is ever swept.
fn lock(file: &File) {
    if cfg!(unix) {
        let _ = file.try_lock();
    }
}

/// Makes a rename durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match point(FileOperation::SyncFolder).and_then(|()| File::open(folder)?.sync_all()) {
        // Not every file system can do that.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        synced => synced.map_err(|error| Error::io("write", folder, error)),
    }
}

/// Removes what killed processes left unfinished in a folder. Failures do not matter: they only leave it there.
fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| is_unfinished(&entry.file_name().to_string_lossy())) {
        let path = entry.path();
        let is_abandoned = |path: &Path| {
            let old = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file).is_some_and(is_settled);
            old && File::open(path).is_ok_and(|file| file.try_lock().is_ok())
        };
        if cfg!(unix) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let inside = fs::read_dir(&path).map(|entries| entries.flatten().map(|entry| entry.path()));
            if entry.metadata().is_ok_and(is_settled)
                && inside.is_ok_and(|mut inside| inside.all(|file| is_abandoned(&file)))
            {
                let _ = fs::remove_dir_all(path);
            }
        } else if cfg!(unix) && is_abandoned(&path) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether this is the name of an unfinished file.
fn is_unfinished(name: &str) -> bool {
    let random = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
    random.is_some_and(|random| random.len() == RANDOM && random.bytes().all(|c| c.is_ascii_alphanumeric()))
}

fn is_settled(metadata: fs::Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age > SETTLED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn make_old(path: &Path) {
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        File::open(path).unwrap().set_modified(long_ago).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn only_what_a_killed_process_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // A file of a running process, however old, stays; so does a new one, which may not be locked yet.
        let running = Output::create(&path("a")).unwrap();
        make_old(running.temporary_path());
        let kept = ["old.txt", ".tithe-notes", ".tithe-abcdef.tmp2", ".tithe-young0.tmp"];
        for name in kept.iter().chain(&[".tithe-gone00.tmp"]) {
            fs::write(path(name), name).unwrap();
            if !name.contains("young") {
                make_old(&path(name));
            }
        }
        for (folder, old) in [(".tithe-gone01.tmp", true), (".tithe-young1.tmp", false)] {
            fs::create_dir(path(folder)).unwrap();
            fs::write(path(folder).join("data.json"), "{}").unwrap();
            if old {
                make_old(&path(folder).join("data.json"));
                make_old(&path(folder));
            }
        }
        drop(Output::create(&path("b")).unwrap());
        let own = running.temporary_path().file_name().unwrap().to_string_lossy().into_owned();
        let mut expected: Vec<String> = kept.iter().map(|name| name.to_string()).collect();
        expected.extend([own, ".tithe-young1.tmp".to_string()]);
        expected.sort();
        assert_eq!(names(folder.path()), expected);
        running.write(b"done").unwrap();
        assert_eq!(fs::read(path("a")).unwrap(), b"done");
    }

    #[test]
    fn a_directory_appears_with_all_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("deep/model");
        let files = [("data.json", "{}".to_string()), ("model.stan", "data {}".to_string())];
        write_directory(&directory, &files).unwrap();
        assert_eq!(names(&directory), ["data.json", "model.stan"]);
        assert_eq!(names(&folder.path().join("deep")), ["model"]);
        // Into an existing directory, beside other files.
        fs::write(directory.join("notes"), "mine").unwrap();
        fs::remove_file(directory.join("data.json")).unwrap();
        write_directory(&directory, &files).unwrap();
        assert_eq!(names(&directory), ["data.json", "model.stan", "notes"]);
        // Nothing remains of what cannot be written.
        let invalid = [("data.json", "{}".to_string()), ("no/such/folder", String::new())];
        write_directory(&folder.path().join("other"), &invalid).unwrap_err();
        assert_eq!(names(folder.path()), ["deep"]);
    }
}
