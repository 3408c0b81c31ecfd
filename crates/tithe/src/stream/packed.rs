//! A stream as bytes that can be sent elsewhere: the contents of a state on disk, without the directory.

use std::path::Path;

use super::state::{Content, Manifest, carried_bytes, carried_from};
use super::{Stream, StreamSettings, refused};
use crate::base::error::{Error, ErrorKind, Result};
use crate::coreset::file::{coreset_bytes, read_coreset_from};
use crate::data::block::Segment;
use crate::data::sink::rows::{read_rows_from, rows_bytes};
use crate::data::source::Input;

/// The name in messages.
const NAME: &str = "the packed stream";

/// The contents of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The manifest with progress and settings: JSON with a checksum.
    pub manifest: String,
    /// The coreset of each level, as the bytes of its file.
    pub levels: Vec<Option<Vec<u8>>>,
    /// The residual log-likelihood: that of all rows minus that of the coresets.
    pub residual: Option<Vec<u8>>,
    /// Rows of the incomplete block, as Parquet.
    pub pending: Option<Vec<u8>>,
}

impl Stream {
    /// Packs the contents of the stream. The state on disk of the stream does not change: the unpacked copy is in memory.
    #[doc(hidden)]
    pub fn pack(&self) -> Result<Packed> {
        self.check_whole()?;
        let manifest = Manifest {
            blocks: self.tree.blocks(),
            levels: Vec::new(),
            residual: None,
            pending: None,
            ..self.manifest.clone()
        };
        let level = |coreset: &Option<_>| coreset.as_ref().map(coreset_bytes).transpose();
        let pending = match (self.pending_rows, self.fields()) {
            (0, _) | (_, None) => None,
            (_, Some(fields)) => Some(rows_bytes(&fields, &Segment::concat(self.pending.clone()))?),
        };
        Ok(Packed {
            manifest: manifest.to_text().map_err(|error| Error::io("write", NAME, error.into()))?,
            levels: self.tree.levels().iter().map(level).collect::<Result<_>>()?,
            residual: self.tree.carried().as_ref().map(carried_bytes).transpose()?,
            pending,
        })
    }

    /// Unpacks a stream that resumes in memory.
    ///
    /// # Errors
    /// If a newer program packed the bytes, or they are damaged.
    #[doc(hidden)]
    pub fn unpack(packed: &Packed, threads: Option<usize>) -> Result<Stream> {
        let path = Path::new(NAME);
        let damaged = || {
            let (what, help) = ("is damaged".to_string(), Some("pack it again".into()));
            Error::from(ErrorKind::WrongFile { path: path.to_path_buf(), what, help })
        };
        let manifest = Manifest::from_text(&packed.manifest, path)?.ok_or_else(damaged)?;
        let settings: StreamSettings = serde_json::from_value(manifest.settings.clone())
            .map_err(|_| refused(path, "has unknown settings", "use a newer tithe"))?;
        let input = |bytes: &Vec<u8>| Input::bytes(NAME, bytes.clone());
        let level = |bytes: &Option<Vec<u8>>| {
            bytes.as_ref().map(|bytes| read_coreset_from(&input(bytes))).transpose()
        };
        let carried = |bytes: &Vec<u8>| carried_from(bytes).ok_or_else(damaged);
        let content = Content {
            carried: packed.residual.as_ref().map(carried).transpose()?,
            levels: packed.levels.iter().map(level).collect::<Result<_>>()?,
            pending: packed.pending.as_ref().map(|bytes| read_rows_from(input(bytes))).transpose()?,
        };
        Stream::with_content(&settings, threads, None, manifest, content)
    }
}
