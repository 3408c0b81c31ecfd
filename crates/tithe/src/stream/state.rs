//! The state of a stream on disk: a manifest and the files that it names, each with a checksum, each written atomically.
//!
//! `manifest.json` is the state; all other files are named by a manifest. A save first writes the new files under new
//! names, then replaces the manifest: whenever the machine stops, either the old or the new manifest is there with all of
//! its files. A copy of each manifest is kept as `manifest-N.json`. For every file that the newest manifest names, the
//! newest manifest that does not need it is kept as well, so that damage to one file loses only the rows since then.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::error::{Error, ErrorKind, Help, Operation, Remedy, Result};
use crate::base::faults::{Faulty, FileOperation, point};
use crate::coreset::Coreset;
use crate::coreset::file::{read_coreset, write_coreset};
use crate::data::block::{Field, Kind, Segment};
use crate::data::fingerprint::Fingerprint;
use crate::data::sink::Output;
use crate::data::sink::output::sync_folder;
use crate::data::sink::rows::{read_rows, write_rows};
use crate::encoding::Encoding;
use crate::stream::tree::Carried;

const VERSION: u64 = 2;
const MANIFEST: &str = "manifest.json";
const LOCK: &str = "lock";

/// A file of the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Named {
    pub file: String,
    pub checksum: Fingerprint,
}

/// A column of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FieldRecord {
    name: String,
    kind: Kind,
    #[serde(rename = "type")]
    data_type: String,
}

impl FieldRecord {
    pub fn new(field: &Field) -> FieldRecord {
        FieldRecord { name: field.name.clone(), kind: field.kind, data_type: field.data_type.to_string() }
    }

    pub fn field(&self) -> Field {
        let plain = match self.kind {
            Kind::Text => DataType::Utf8,
            Kind::Boolean => DataType::Boolean,
            Kind::Number | Kind::Time | Kind::Unsupported => DataType::Float64,
        };
        let data_type = self.data_type.parse().unwrap_or(plain);
        Field { name: self.name.clone(), kind: self.kind, data_type }
    }
}

/// The columns of a stream: features, label, and weight if there is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Layout {
    pub fields: Vec<FieldRecord>,
    pub features: usize,
    pub is_sparse: bool,
}

/// A part file of a watched directory, and how many of its rows were added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PartRecord {
    pub name: String,
    pub rows: u64,
    /// True if the rest of the file could not be read and was skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
}

/// The contents of a state's manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub version: u64,
    /// Number of saves.
    pub sequence: u64,
    pub settings: Value,
    pub layout: Option<Layout>,
    pub encoding: Option<Encoding>,
    /// Number of complete blocks.
    pub blocks: u64,
    /// Number of rows added, including those of the incomplete block.
    pub rows: u64,
    /// Number of added rows that are not used; 0 in states of older versions.
    #[serde(default)]
    pub rows_dropped: u64,
    /// Number of rows that could not be read and were skipped.
    pub bad_rows: u64,
    /// Fingerprint of the rows that are used.
    pub fingerprint: Fingerprint,
    /// Mean and standard deviation of the columns in the first block.
    pub moments: Vec<Option<(f64, f64)>>,
    /// Columns for which drift was reported.
    pub drifted: Vec<String>,
    pub parts: Vec<PartRecord>,
    /// The coreset of each level.
    pub levels: Vec<Option<Named>>,
    /// The residual log-likelihood: that of all rows minus that of the coresets. `None` before version 2.
    #[serde(default, rename = "remainder")]
    pub residual: Option<Named>,
    /// Rows of the incomplete block.
    pub pending: Option<Named>,
}

impl Manifest {
    /// The manifest of a new stream.
    pub fn new(settings: Value) -> Manifest {
        Manifest {
            version: VERSION,
            sequence: 0,
            settings,
            layout: None,
            encoding: None,
            blocks: 0,
            rows: 0,
            rows_dropped: 0,
            bad_rows: 0,
            fingerprint: Fingerprint::default(),
            moments: Vec::new(),
            drifted: Vec::new(),
            parts: Vec::new(),
            levels: Vec::new(),
            residual: None,
            pending: None,
        }
    }

    /// The manifest as JSON, with its checksum.
    pub fn to_text(&self) -> serde_json::Result<String> {
        let body = serde_json::to_value(self)?;
        let checksum = Fingerprint::of_bytes(body.to_string().as_bytes());
        Ok(json!({"checksum": checksum, "manifest": body}).to_string())
    }

    /// Parses a manifest; `None` if it is damaged.
    ///
    /// # Errors
    /// If a newer program wrote it.
    pub fn from_text(text: &str, path: &Path) -> Result<Option<Manifest>> {
        let Ok(document) = serde_json::from_str::<Value>(text) else { return Ok(None) };
        let Some(version) = document["manifest"]["version"].as_u64() else { return Ok(None) };
        if version > VERSION {
            return Err(ErrorKind::NewerFormat { path: path.to_path_buf(), version, known: VERSION }.into());
        }
        let checksum = Fingerprint::of_bytes(document["manifest"].to_string().as_bytes()).to_string();
        if document["checksum"] != checksum {
            return Ok(None);
        }
        Ok(serde_json::from_value(document["manifest"].clone()).ok())
    }

    fn files(&self) -> impl Iterator<Item = &Named> {
        self.levels.iter().flatten().chain(&self.residual).chain(&self.pending)
    }

    fn names(&self, file: &str) -> bool {
        self.files().any(|named| named.file == file)
    }
}

/// Removes a file if possible; one that stays does no harm, and is removed later.
fn remove(path: &Path) {
    let _ = point(FileOperation::Remove).and_then(|()| fs::remove_file(path));
}

/// Whether a file name has the form of the names in manifests.
fn is_content(name: &str) -> bool {
    ["level-", "remainder-", "pending-"].iter().any(|prefix| name.starts_with(prefix))
}

/// The error for a state that cannot be used as it is.
pub(super) fn refused(path: &Path, what: &str, help: impl Into<Help>) -> Error {
    let (what, help) = (what.to_string(), Some(help.into()));
    ErrorKind::State { path: path.to_path_buf(), what, help }.into()
}

/// What a tree carries, as it is saved.
pub(super) fn carried_bytes(carried: &Carried) -> Result<Vec<u8>> {
    rmp_serde::to_vec(carried).map_err(|error| Error::io("write", "a residual", std::io::Error::other(error)))
}

/// Parses what a tree carries; `None` if it is damaged. Earlier programs saved only the residual.
pub(super) fn carried_from(bytes: &[u8]) -> Option<Carried> {
    let residual = |bytes| Some(Carried { residual: rmp_serde::from_slice(bytes).ok()?, checkpoint: None });
    rmp_serde::from_slice(bytes).ok().or_else(|| residual(bytes))
}

/// The contents of the files that a manifest names.
pub(super) struct Content {
    pub levels: Vec<Option<Coreset>>,
    pub pending: Option<Segment>,
    pub carried: Option<Carried>,
}

/// The directory of a state.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub fn new(path: &Path) -> Directory {
        Directory { path: path.to_path_buf() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the directory for one writer; the lock is released when the process ends, even by a crash.
    pub fn lock(&self) -> Result<File> {
        point(FileOperation::Create)
            .and_then(|()| fs::create_dir_all(&self.path))
            .map_err(|error| Error::io("make the directory", &self.path, error))?;
        let path = self.path.join(LOCK);
        if path.is_symlink() {
            return Err(self.refused("has a link in place of its lock", Remedy::OtherState));
        }
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| Error::io("write", &path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => Err(self.refused(
                "is being written by another stream",
                [
                    "wait until it has finished".into(),
                    "stop it".into(),
                    Remedy::run("read its coreset", Operation::Snapshot),
                ],
            )),
            Err(fs::TryLockError::Error(error)) => Err(Error::io("lock", &path, error)),
        }
    }

    /// The newest manifest; `None` if there is no stream yet.
    pub fn manifest(&self) -> Result<Option<Manifest>> {
        let path = self.path.join(MANIFEST);
        if path.exists() {
            return self.read_manifest(&path).map(Some);
        }
        let ours = |name: &str| name == LOCK || name.starts_with(".tithe-") || is_content(name);
        match self.entries()?.into_iter().find(|name| !ours(name)) {
            None => Ok(None),
            Some(name) if name.starts_with("manifest-") => {
                Err(self.refused("has no manifest", self.repair()))
            }
            Some(name) => {
                let what = format!("is not the state of a stream: it contains '{name}'");
                Err(self.refused(&what, Remedy::OtherState))
            }
        }
    }

    fn entries(&self) -> Result<Vec<String>> {
        let failed = |error| Error::io("read", &self.path, error);
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn read_manifest(&self, path: &Path) -> Result<Manifest> {
        let damaged = || self.damaged(path, "is damaged");
        let text = point(FileOperation::Read).and_then(|()| fs::read_to_string(path));
        let text = text.map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => damaged(),
            _ => Error::io("read", path, error),
        })?;
        Manifest::from_text(&text, path)?.ok_or_else(damaged)
    }

    /// Reads the files that a manifest names; the error for a damaged file names it.
    pub fn content(&self, manifest: &Manifest) -> Result<Content> {
        let checked = |named: &Named| {
            let path = self.path.join(&named.file);
            if !is_content(&named.file) || named.file.contains(['/', '\\']) {
                return Err(self.damaged(&path, "is no file of a state"));
            }
            let bytes = point(FileOperation::Read).and_then(|()| fs::read(&path));
            let bytes = bytes.map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => self.damaged(&path, "is missing"),
                _ => Error::io("read", &path, error),
            })?;
            if Fingerprint::of_bytes(&bytes) != named.checksum {
                return Err(self.damaged(&path, "is damaged: its checksum is wrong"));
            }
            Ok(path)
        };
        let level =
            |named: &Option<Named>| named.as_ref().map(|named| read_coreset(&checked(named)?)).transpose();
        let carried = |named: &Named| {
            let path = checked(named)?;
            let bytes = fs::read(&path).map_err(|error| Error::io("read", &path, error))?;
            carried_from(&bytes).ok_or_else(|| self.damaged(&path, "is damaged: it cannot be decoded"))
        };
        Ok(Content {
            levels: manifest.levels.iter().map(level).collect::<Result<_>>()?,
            carried: manifest.residual.as_ref().map(carried).transpose()?,
            pending: manifest.pending.as_ref().map(|named| read_rows(&checked(named)?)).transpose()?,
        })
    }

    fn damaged(&self, path: &Path, what: &str) -> Error {
        let help = Some(self.repair().into());
        ErrorKind::WrongFile { path: path.to_path_buf(), what: what.to_string(), help }.into()
    }

    fn repair(&self) -> Remedy {
        Remedy::Repair { state: self.path.clone() }
    }

    pub fn refused(&self, what: &str, help: impl Into<Help>) -> Error {
        refused(&self.path, what, help)
    }

    /// Writes the coreset of a level that was built with block number `blocks`.
    pub fn write_level(&self, level: usize, blocks: u64, coreset: &Coreset) -> Result<Named> {
        self.write(format!("level-{level:02}-{blocks:012}.parquet"), |output| write_coreset(coreset, output))
    }

    /// Writes what the tree carries after block number `blocks`.
    pub fn write_carried(&self, blocks: u64, carried: &Carried) -> Result<Named> {
        let bytes = carried_bytes(carried)?;
        self.write(format!("remainder-{blocks:012}.bin"), |output| output.write(&bytes))
    }

    /// Writes the rows of the incomplete block; every save has its own file.
    pub fn write_pending(&self, sequence: u64, fields: &[Field], pending: &Segment) -> Result<Named> {
        self.write(format!("pending-{sequence:015}.parquet"), |output| write_rows(fields, pending, output))
    }

    fn write(&self, name: String, write: impl FnOnce(Output) -> Result<()>) -> Result<Named> {
        let path = self.path.join(&name);
        let output = Output::in_state(&path)?;
        write(output)?;
        let bytes = point(FileOperation::Read).and_then(|()| fs::read(&path));
        let bytes = bytes.map_err(|error| Error::io("read", &path, error))?;
        Ok(Named { file: name, checksum: Fingerprint::of_bytes(&bytes) })
    }

    /// Makes a manifest the state; all of its files must have been written.
    pub fn commit(&self, manifest: &Manifest) -> Result<()> {
        self.sync()?;
        let current = self.path.join(MANIFEST);
        let text = manifest.to_text().map_err(|error| Error::io("write", &current, error.into()))?;
        let copy = self.path.join(format!("manifest-{:015}.json", manifest.sequence));
        Output::in_state(&current)?.write(text.as_bytes())?;
        self.sync()?;
        // The copy is only for repairs: a crash or a full disk may damage or prevent it, and the state is valid without it.
        // It replaces whatever has its name: a link must not be followed to another file.
        remove(&copy);
        let _ = point(FileOperation::Create)
            .and_then(|()| File::create_new(&copy))
            .and_then(|file| Faulty(file).write_all(text.as_bytes()));
        Ok(())
    }

    /// Makes renames durable by syncing the directory.
    fn sync(&self) -> Result<()> {
        sync_folder(&self.path)
    }

    /// Earlier manifests that are undamaged, the newest first.
    fn earlier(&self) -> Result<Vec<(PathBuf, Manifest)>> {
        let names = self.entries()?.into_iter().rev().filter(|name| name.starts_with("manifest-"));
        let paths = names.map(|name| self.path.join(name));
        Ok(paths.filter_map(|path| Some((path.clone(), self.read_manifest(&path).ok()?))).collect())
    }

    /// Removes files that neither the state nor a repair needs.
    pub fn tidy(&self, manifest: &Manifest) -> Result<()> {
        let mut kept = vec![manifest.clone()];
        for (path, earlier) in self.earlier()? {
            let is_previous = kept.len() == 1;
            let spares = |named: &Named| {
                !earlier.names(&named.file) && kept[1..].iter().all(|kept| kept.names(&named.file))
            };
            if earlier.sequence == manifest.sequence {
                continue;
            }
            if earlier.sequence < manifest.sequence && (is_previous || manifest.files().any(spares)) {
                kept.push(earlier);
            } else {
                remove(&path);
            }
        }
        for name in self.entries()? {
            if is_content(&name) && !kept.iter().any(|manifest| manifest.names(&name)) {
                remove(&self.path.join(name));
            }
        }
        Ok(())
    }

    /// Removes files that a killed writer did not complete. Only the holder of the lock may do this.
    pub fn sweep(&self) -> Result<()> {
        for name in self.entries()?.iter().filter(|name| name.starts_with(".tithe-")) {
            remove(&self.path.join(name));
        }
        Ok(())
    }

    /// The newest manifest that is undamaged with all its files, and the number of rows of the state, if it is known.
    pub fn last_good(&self) -> Result<(Option<Manifest>, Option<u64>)> {
        let newest = self.manifest();
        let newest = match newest {
            // A manifest of a newer program is not damaged.
            Err(error) if matches!(error.kind(), ErrorKind::NewerFormat { .. }) => return Err(error),
            newest => newest.ok().flatten(),
        };
        let earlier = self.earlier()?.into_iter().map(|(_, manifest)| manifest);
        let all: Vec<Manifest> = newest.into_iter().chain(earlier).collect();
        let rows = all.iter().map(|manifest| manifest.rows).max();
        Ok((all.into_iter().find(|manifest| self.content(manifest).is_ok()), rows))
    }
}
