//! Reads back the files that this program writes: the only way to the columns of a coreset or of a posterior.
//!
//! Such a file may be damaged or made up. The reader is the one for data, which turns a decoder's panic into an error; the
//! columns must be there, must fit into memory, and must have as many values as the file has rows.

use serde::de::DeserializeOwned;

use super::parquet::{FileMetadata, read_metadata, wrong_file};
use super::rows::all_rows;
use crate::base::error::{Error, Operation, Remedy, Result};
use crate::base::machine::memory_limit;
use crate::data::block::{Field, Segment};
use crate::data::source::{Input, OpenOptions, Source, open_inputs};

/// A kind of file that this program writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileKind {
    /// Its name in the metadata.
    pub name: &'static str,
    /// How such a file is made: "make a coreset" with this operation.
    pub made_by: (&'static str, Operation),
    /// What to do if it is damaged: "build it again".
    pub again: &'static str,
}

/// A file of this program's, with its metadata read and its columns known.
pub(crate) struct Stored<'a> {
    input: &'a Input,
    kind: FileKind,
    content: FileMetadata,
    source: Box<dyn Source>,
}

impl<'a> Stored<'a> {
    /// Opens a file of this kind.
    pub fn open(input: &'a Input, kind: FileKind) -> Result<Stored<'a>> {
        let content = read_metadata(input)?;
        if content.kind != kind.name {
            let what = format!("is a {}, not a {}", content.kind, kind.name);
            let (action, operation) = kind.made_by;
            return Err(wrong_file(input.path(), &what, Remedy::run(action, operation)));
        }
        let source = open_inputs(vec![input.clone()], &OpenOptions::default())?;
        Ok(Stored { input, kind, content, source })
    }

    /// The error for a file whose content cannot be used; `what` continues a sentence that begins with the file.
    pub fn damaged(&self, what: impl Into<String>) -> Error {
        wrong_file(self.input.path(), &what.into(), self.kind.again)
    }

    /// The metadata.
    pub fn metadata<T: DeserializeOwned>(&mut self) -> Result<T> {
        let json = std::mem::take(&mut self.content.json);
        serde_json::from_value(json).map_err(|error| self.damaged(format!("has damaged metadata: {error}")))
    }

    /// The number of rows, as the file says; [`Stored::columns`] returns exactly as many.
    pub fn rows(&self) -> u64 {
        self.source.rows().unwrap_or(0)
    }

    /// The columns of these names with all their values, in this order.
    pub fn columns(&self, names: &[&str]) -> Result<(Vec<Field>, Segment)> {
        let all = self.source.fields();
        let positions: hashbrown::HashMap<&str, usize, std::hash::RandomState> =
            all.iter().enumerate().map(|(at, field)| (field.name.as_str(), at)).collect();
        let find = |name: &&str| {
            let found = positions.get(*name).copied();
            found.ok_or_else(|| self.damaged(format!("has no column '{name}'")))
        };
        let columns = names.iter().map(find).collect::<Result<Vec<_>>>()?;
        let bytes = self.rows().saturating_mul(8).saturating_mul(columns.len() as u64 + 1);
        if bytes > memory_limit().unwrap_or(isize::MAX as u64) / 2 {
            return Err(self.damaged(format!("says that it has {} rows, too many for memory", self.rows())));
        }
        let segment = all_rows(&*self.source, &columns)?;
        if segment.len as u64 != self.rows() {
            let what = format!("has {} of the {} rows that it should have", segment.len, self.rows());
            return Err(self.damaged(what));
        }
        Ok((columns.iter().map(|&column| all[column].clone()).collect(), segment))
    }
}
