//! Writes Parquet tables whose metadata contains a JSON description of how they were made.

use std::io::Write;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, Field as ArrowField, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde::Serialize;
use serde_json::Value;

use crate::base::error::{Error, ErrorKind, Help, Operation, Remedy, Result};
use crate::data::block::{Column, Field, Kind};
use crate::data::source::{Input, OpenOptions, open_inputs};

/// The key of this program's metadata in a Parquet file.
pub(crate) const KEY: &str = "tithe";
/// The name in messages of a table that is not written to a file.
pub(crate) const MEMORY: &str = "memory";
/// The version of the metadata of most files.
pub(crate) const VERSION: u64 = 1;
/// The newest version of the metadata that this program reads and writes: that of files with a formula or group effects.
pub(crate) const NEWEST_VERSION: u64 = 2;

/// `name`, or `tithe.name` if the user has a column of that name.
pub(crate) fn free_name(name: &str, taken: &[&str]) -> String {
    let mut free = name.to_string();
    while taken.contains(&free.as_str()) {
        free = format!("tithe.{free}");
    }
    free
}

/// A table of named columns.
pub(crate) fn table(columns: Vec<(String, ArrayRef)>) -> std::result::Result<RecordBatch, ArrowError> {
    let fields: Vec<ArrowField> = columns
        .iter()
        .map(|(name, array)| ArrowField::new(name, array.data_type().clone(), array.null_count() > 0))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

pub(crate) fn write_table(
    columns: Vec<(String, ArrayRef)>,
    metadata: &impl Serialize,
    file: impl Write + Send,
) -> std::io::Result<()> {
    let batch = table(columns).map_err(std::io::Error::other)?;
    let metadata = serde_json::to_string(metadata)?;
    let properties = properties(batch.num_columns(), Some((KEY, metadata)));
    let mut buffer = std::io::BufWriter::new(file);
    let mut writer = ArrowWriter::try_new(&mut buffer, batch.schema(), Some(properties)).map_err(plain_io)?;
    writer.write(&batch).map_err(plain_io)?;
    writer.close().map_err(plain_io)?;
    buffer.flush()
}

/// Above this many columns, columns are written without dictionaries: for each the writer would keep a table of 50 kB.
const COLUMNS_WITH_DICTIONARIES: usize = 1000;

/// The writer settings of a Parquet file of so many columns, with its metadata if there is any.
pub(crate) fn properties(columns: usize, metadata: Option<(&str, String)>) -> WriterProperties {
    WriterProperties::builder()
        .set_dictionary_enabled(columns <= COLUMNS_WITH_DICTIONARIES)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(
            metadata.map(|(key, metadata)| vec![KeyValue::new(key.to_string(), metadata)]),
        )
        .build()
}

/// The system's error inside a Parquet error, so that the user sees "No space left on device".
pub(crate) fn plain_io(error: parquet::errors::ParquetError) -> std::io::Error {
    match error {
        parquet::errors::ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    }
}

/// A column with the type it has in the user's file; text of any kind becomes plain text.
pub(crate) fn to_arrow(field: &Field, column: &Column) -> ArrayRef {
    match column {
        Column::Text { codes, levels } => Arc::new(StringArray::from_iter(
            codes.iter().map(|&code| levels.get(code as usize).map(String::as_str)),
        )),
        Column::Number(values) if field.kind == Kind::Boolean => Arc::new(BooleanArray::from_iter(
            values.iter().map(|&value| (!value.is_nan()).then_some(value != 0.0)),
        )),
        Column::Number(values) => {
            let is_there = |value: &f64| !value.is_nan();
            let nulls = (!values.iter().all(is_there)).then(|| values.iter().map(is_there).collect());
            let numbers: ArrayRef = Arc::new(Float64Array::new(values.clone(), nulls));
            match arrow_cast::cast(&numbers, &field.data_type) {
                Ok(cast) if cast.null_count() == numbers.null_count() => cast,
                _ => numbers,
            }
        }
    }
}

/// The metadata of a file that this program wrote.
#[derive(Clone, Debug)]
pub struct FileMetadata {
    /// The kind of file: "coreset", "posterior" or "corrected posterior".
    pub kind: String,
    /// All of the metadata as JSON.
    pub json: Value,
}

/// Reads the metadata of a file without its rows.
pub(crate) fn read_metadata(input: &Input) -> Result<FileMetadata> {
    if let Some(metadata) = find_metadata_in(input)? {
        return Ok(metadata);
    }
    // A Parquet file that cannot be read is damaged, whichever program wrote it.
    if input.open()?.bytes(0, 4).is_ok_and(|magic| magic == "PAR1") {
        open_inputs(vec![input.clone()], &OpenOptions::default())?;
    }
    let help = Help::from([
        Remedy::run("make a coreset", Operation::Build),
        Remedy::run("make a posterior", Operation::Fit),
    ]);
    Err(wrong_file(input.path(), "was not written by tithe", help))
}

/// The metadata of a file; `None` if this program did not write it.
pub fn find_metadata(path: &Path) -> Result<Option<FileMetadata>> {
    find_metadata_in(&Input::file(path))
}

pub(crate) fn find_metadata_in(input: &Input) -> Result<Option<FileMetadata>> {
    let (path, file) = (input.path(), input.open()?);
    // The external reader may panic on damaged bytes: then this program did not write the file.
    let reader = catch_unwind(|| ParquetRecordBatchReaderBuilder::try_new(file));
    let Ok(Ok(reader)) = reader else { return Ok(None) };
    let pairs = reader.metadata().file_metadata().key_value_metadata();
    let Some(pair) = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == KEY)) else {
        return Ok(None);
    };
    let damaged = || wrong_file(path, "has damaged metadata", "create it again");
    let text = pair.value.as_deref().unwrap_or_default();
    let json: Value = serde_json::from_str(text).map_err(|_| damaged())?;
    let version = json["version"].as_u64().unwrap_or(0);
    if version > NEWEST_VERSION {
        let (path, known) = (path.to_path_buf(), NEWEST_VERSION);
        return Err(ErrorKind::NewerFormat { path, version, known }.into());
    }
    let kind = json["file"].as_str().ok_or_else(damaged)?.to_string();
    Ok(Some(FileMetadata { kind, json }))
}

pub(crate) fn wrong_file(path: &Path, what: &str, help: impl Into<Help>) -> Error {
    ErrorKind::WrongFile { path: path.to_path_buf(), what: what.to_string(), help: Some(help.into()) }.into()
}
