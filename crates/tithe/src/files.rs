//! Coresets and posteriors on disk: plain Parquet tables with their story in the metadata, written whole or not at all.

mod corrected;
mod posterior;
mod stan;
mod text;

use std::fs::File;
use std::io::Write;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{ArrowError, Field as ArrowField, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use corrected::{write_corrected, write_resampled};
pub use posterior::{
    posterior_bytes, posterior_table, prior_scale, read_posterior, read_posterior_from, write_posterior,
};
pub use stan::write_stan_csv;
pub use text::{RowFormat, RowWriter};

use crate::block::{Block, Column, Field, Kind, RowSet, Segment};
use crate::coreset::{Coreset, Provenance};
use crate::encoding::Encoding;
use crate::error::{Error, ErrorKind, Result};
use crate::source::{Input, OpenOptions, Source, open_inputs};

/// The key of this program's metadata in a Parquet file.
const KEY: &str = "tithe";
/// What messages call what is not written to a file.
const MEMORY: &str = "memory";
/// The version of the metadata that this program writes, and the newest that it reads.
const VERSION: u64 = 1;

/// A file in the making: it appears under its name only when it is complete.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: tempfile::NamedTempFile,
}

impl Output {
    /// Makes sure that the file can be written, before any long work is done for it.
    pub fn create(path: &Path) -> Result<Output> {
        if path == Path::new("-") {
            let what = "stands for standard output, to which files are not written";
            return Err(wrong_file(path, what, "name a file with -o (./- for one of that name)"));
        }
        // A link to a file stays one: the file is replaced.
        let target = if path.is_symlink() { path.canonicalize().ok() } else { None };
        let path = target.as_deref().unwrap_or(path);
        // A device or a pipe would be replaced by a file of its name.
        if path.exists() && !path.is_file() {
            let what = match path.is_dir() {
                true => "is a directory, not a file to write to",
                false => "is not an ordinary file, so it cannot be replaced by one",
            };
            return Err(wrong_file(path, what, "name another file with -o"));
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        // Made by hand for the permissions of any new file, and for the system's own error.
        let create = |path: &Path| File::options().write(true).create_new(true).open(path);
        let file = tempfile::Builder::new()
            .prefix(".tithe-")
            .make_in(folder, create)
            .map_err(|error| Error::io("write", path, error))?;
        Ok(Output { path: path.to_path_buf(), file })
    }

    /// Where the unfinished file is; dropping the output removes it.
    pub fn temporary_path(&self) -> &Path {
        self.file.path()
    }

    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The unfinished file.
    fn file_mut(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Writes the whole content and puts the file in its place.
    pub fn write(self, content: &[u8]) -> Result<()> {
        let mut output = self;
        let written = output.file_mut().write_all(content);
        written.map_err(|error| Error::io("write", &output.path, error))?;
        output.commit()
    }

    /// Puts the complete file in its place.
    fn commit(self) -> Result<()> {
        let refuse = |error| Error::io("write", &self.path, error);
        self.file.as_file().sync_all().map_err(refuse)?;
        self.file.persist(&self.path).map_err(|error| Error::io("write", &self.path, error.error))?;
        Ok(())
    }
}

/// The story of a coreset file.
#[derive(Debug, Serialize, Deserialize)]
struct CoresetMetadata {
    file: String,
    version: u64,
    weight_column: String,
    row_column: String,
    encoding: Encoding,
    provenance: Provenance,
}

const CORESET: &str = "coreset";

/// Writes a coreset: the user's columns in the user's units, the label, `weight` and `row`.
///
/// The same coreset gives the same bytes.
pub fn write_coreset(coreset: &Coreset, mut output: Output) -> Result<()> {
    let written = write_coreset_to(coreset, output.file_mut());
    written.map_err(|error| Error::io("write", &output.path, error))?;
    output.commit()
}

/// The bytes of a coreset's file.
pub fn coreset_bytes(coreset: &Coreset) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let written = write_coreset_to(coreset, &mut bytes);
    written.map_err(|error| Error::io("write", MEMORY, error))?;
    Ok(bytes)
}

fn write_coreset_to(coreset: &Coreset, file: impl Write + Send) -> std::io::Result<()> {
    let names: Vec<&str> = coreset.fields.iter().map(|field| field.name.as_str()).collect();
    let metadata = CoresetMetadata {
        file: CORESET.to_string(),
        version: VERSION,
        weight_column: free_name("weight", &names),
        row_column: free_name("row", &names),
        encoding: coreset.encoding.clone(),
        provenance: coreset.provenance.clone(),
    };
    write_table(coreset_columns(coreset, &metadata.weight_column, &metadata.row_column), &metadata, file)
}

/// The table of a coreset's file: the user's columns, the label, `weight` and `row`.
pub fn coreset_table(coreset: &Coreset) -> Result<RecordBatch> {
    let names: Vec<&str> = coreset.fields.iter().map(|field| field.name.as_str()).collect();
    let columns = coreset_columns(coreset, &free_name("weight", &names), &free_name("row", &names));
    table(columns).map_err(|error| Error::malformed(Path::new(MEMORY), error.to_string()))
}

fn coreset_columns(coreset: &Coreset, weight_column: &str, row_column: &str) -> Vec<(String, ArrayRef)> {
    let mut columns: Vec<(String, ArrayRef)> = coreset
        .fields
        .iter()
        .zip(&coreset.rows.segment.columns)
        .map(|(field, column)| (field.name.clone(), to_arrow(field, column)))
        .collect();
    let weights: ArrayRef = Arc::new(Float64Array::from(coreset.weights.clone()));
    let positions: ArrayRef = Arc::new(UInt64Array::from(coreset.rows.positions.clone()));
    columns.push((weight_column.to_string(), weights));
    columns.push((row_column.to_string(), positions));
    columns
}

/// Writes rows as they came, missing values and all; [`read_rows`] gives them back to the bit.
pub(crate) fn write_rows(fields: &[Field], rows: &Segment, mut output: Output) -> Result<()> {
    let written = write_rows_to(fields, rows, output.file_mut());
    written.map_err(|error| Error::io("write", &output.path, error))?;
    output.commit()
}

/// The bytes of what [`write_rows`] writes.
pub(crate) fn rows_bytes(fields: &[Field], rows: &Segment) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let written = write_rows_to(fields, rows, &mut bytes);
    written.map_err(|error| Error::io("write", MEMORY, error))?;
    Ok(bytes)
}

fn write_rows_to(fields: &[Field], rows: &Segment, file: impl Write + Send) -> std::io::Result<()> {
    let columns = fields.iter().zip(&rows.columns).map(|(field, column)| {
        let array: ArrayRef = match column {
            Column::Number(values) => Arc::new(Float64Array::new(values.clone(), None)),
            text @ Column::Text { .. } => to_arrow(field, text),
        };
        (field.name.clone(), array)
    });
    let story = serde_json::json!({"file": "rows of a stream", "version": VERSION});
    write_table(columns.collect(), &story, file)
}

/// Reads rows that [`write_rows`] wrote.
pub(crate) fn read_rows(path: &Path) -> Result<Segment> {
    read_rows_from(Input::file(path))
}

/// Reads them from anything that has the bytes.
pub(crate) fn read_rows_from(input: Input) -> Result<Segment> {
    let source = open_inputs(vec![input], &OpenOptions::default())?;
    all_rows(&*source, &(0..source.fields().len()).collect::<Vec<_>>())
}

/// All rows of some columns.
fn all_rows(source: &dyn Source, columns: &[usize]) -> Result<Segment> {
    let mut parts = Vec::new();
    let mut scan = source.scan(columns)?;
    while let Some(unit) = scan.next_unit()? {
        unit.decode(&mut |segment| {
            parts.push(segment);
            Ok(())
        })?;
    }
    Ok(Segment::concat(parts))
}

/// `name`, or `tithe.name` where the user has a column of that name.
pub(crate) fn free_name(name: &str, taken: &[&str]) -> String {
    let mut free = name.to_string();
    while taken.contains(&free.as_str()) {
        free = format!("tithe.{free}");
    }
    free
}

/// Named columns as one table.
fn table(columns: Vec<(String, ArrayRef)>) -> std::result::Result<RecordBatch, ArrowError> {
    let fields: Vec<ArrowField> = columns
        .iter()
        .map(|(name, array)| ArrowField::new(name, array.data_type().clone(), array.null_count() > 0))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

fn write_table(
    columns: Vec<(String, ArrayRef)>,
    metadata: &impl Serialize,
    file: impl Write + Send,
) -> std::io::Result<()> {
    let batch = table(columns).map_err(std::io::Error::other)?;
    let story = serde_json::to_string(metadata)?;
    let properties = properties(Some((KEY, story)));
    let mut buffer = std::io::BufWriter::new(file);
    let mut writer = ArrowWriter::try_new(&mut buffer, batch.schema(), Some(properties)).map_err(plain_io)?;
    writer.write(&batch).map_err(plain_io)?;
    writer.close().map_err(plain_io)?;
    buffer.flush()
}

/// How every Parquet file is written, with its story if it has one.
fn properties(story: Option<(&str, String)>) -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(story.map(|(key, story)| vec![KeyValue::new(key.to_string(), story)]))
        .build()
}

/// The system's own error inside Parquet's, so that "No space left on device" is what the user reads.
fn plain_io(error: parquet::errors::ParquetError) -> std::io::Error {
    match error {
        parquet::errors::ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    }
}

/// A column in the type it had in the user's file; text of any kind as plain text.
fn to_arrow(field: &Field, column: &Column) -> ArrayRef {
    match column {
        Column::Text { codes, levels } => Arc::new(StringArray::from_iter(
            codes.iter().map(|&code| levels.get(code as usize).map(String::as_str)),
        )),
        Column::Number(values) if field.kind == Kind::Boolean => {
            Arc::new(BooleanArray::from_iter(values.iter().map(|&value| Some(value != 0.0))))
        }
        Column::Number(values) => {
            let numbers: ArrayRef = Arc::new(Float64Array::new(values.clone(), None));
            match arrow_cast::cast(&numbers, &field.data_type) {
                Ok(cast) if cast.null_count() == 0 => cast,
                _ => numbers,
            }
        }
    }
}

/// What a file of this program's says of itself.
#[derive(Clone, Debug)]
pub struct Story {
    /// What the file is: "coreset", "posterior" or "corrected posterior".
    pub kind: String,
    /// Everything it says, as JSON.
    pub json: Value,
}

/// Reads what a file says of itself, without its rows.
fn read_story(input: &Input) -> Result<Story> {
    if let Some(story) = find_story_in(input)? {
        return Ok(story);
    }
    // Parquet that cannot be read is damaged, whosever it is.
    if input.open()?.bytes(0, 4).is_ok_and(|magic| magic == "PAR1") {
        open_inputs(vec![input.clone()], &OpenOptions::default())?;
    }
    let help = "`tithe build` makes coresets, `tithe fit` posteriors";
    Err(wrong_file(input.path(), "is no file of tithe's", help))
}

/// What a file says of itself; `None` if it is none of this program's.
pub fn find_story(path: &Path) -> Result<Option<Story>> {
    find_story_in(&Input::file(path))
}

fn find_story_in(input: &Input) -> Result<Option<Story>> {
    let (path, file) = (input.path(), input.open()?);
    // The reader is somebody else's and the bytes may be damaged: even if it panics, the file is none of ours.
    let reader = catch_unwind(|| ParquetRecordBatchReaderBuilder::try_new(file));
    let Ok(Ok(reader)) = reader else { return Ok(None) };
    let pairs = reader.metadata().file_metadata().key_value_metadata();
    let Some(pair) = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == KEY)) else {
        return Ok(None);
    };
    let damaged = || wrong_file(path, "has damaged metadata", "make it again");
    let text = pair.value.as_deref().unwrap_or_default();
    let json: Value = serde_json::from_str(text).map_err(|_| damaged())?;
    let version = json["version"].as_u64().unwrap_or(0);
    if version > VERSION {
        let what = format!("is of format version {version}; this program knows versions up to {VERSION}");
        return Err(wrong_file(path, &what, "use a newer tithe"));
    }
    let kind = json["file"].as_str().ok_or_else(damaged)?.to_string();
    Ok(Some(Story { kind, json }))
}

/// Reads a coreset.
pub fn read_coreset(path: &Path) -> Result<Coreset> {
    read_coreset_from(&Input::file(path))
}

/// Reads a coreset from anything that has the bytes of its file.
pub fn read_coreset_from(input: &Input) -> Result<Coreset> {
    let path = input.path();
    let story = read_story(input)?;
    if story.kind != CORESET {
        let what = format!("is a {}, not a coreset", story.kind);
        return Err(wrong_file(path, &what, "`tithe build` makes coresets"));
    }
    let metadata: CoresetMetadata = serde_json::from_value(story.json)
        .map_err(|error| wrong_file(path, &format!("has damaged metadata: {error}"), "build it again"))?;
    let source = open_inputs(vec![input.clone()], &OpenOptions::default())?;
    let find = |name: &str| {
        source
            .fields()
            .iter()
            .position(|field| field.name == name)
            .ok_or_else(|| wrong_file(path, &format!("has lost its column '{name}'"), "build it again"))
    };
    let names = metadata.encoding.features.iter().map(|feature| feature.column.as_str());
    let columns = names
        .chain([metadata.encoding.label.column.as_str(), &metadata.weight_column, &metadata.row_column])
        .map(find)
        .collect::<Result<Vec<_>>>()?;
    let Segment { columns: mut values, len } = all_rows(&*source, &columns)?;
    let width = columns.len() - 2;
    let fields = columns[..width].iter().map(|&c| source.fields()[c].clone()).collect();
    let (Some(Column::Number(positions)), Some(Column::Number(weights))) = (values.pop(), values.pop())
    else {
        return Err(wrong_file(path, "has weights or rows that are not numbers", "build it again"));
    };
    if let Some(row) = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
        let what = format!("has the weight {} in row {}", weights[row], row + 1);
        return Err(wrong_file(path, &what, "build it again"));
    }
    let segment = Segment { columns: values, len };
    metadata.encoding.check_labels(&Block::new(0, 0, segment.clone())).map_err(|error| {
        wrong_file(path, &format!("has a label that its encoding does not know ({error})"), "build it again")
    })?;
    Ok(Coreset {
        fields,
        rows: RowSet { segment, positions: positions.iter().map(|&position| position as u64).collect() },
        weights: weights.to_vec(),
        encoding: metadata.encoding,
        provenance: metadata.provenance,
    })
}

fn wrong_file(path: &Path, what: &str, help: &str) -> Error {
    ErrorKind::WrongFile { path: path.to_path_buf(), what: what.to_string(), help: Some(help.to_string()) }
        .into()
}
