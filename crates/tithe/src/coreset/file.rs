//! A coreset on disk: a Parquet table in the user's units, with its provenance in the metadata.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt64Array};
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Operation, Result};
use crate::coreset::check::MOST_ROWS;
use crate::coreset::{Coreset, Provenance};
use crate::data::block::{Column, RowSet, Segment};
use crate::data::sink::Output;
use crate::data::sink::parquet::{MEMORY, free_name, table, to_arrow, write_table};
use crate::data::sink::stored::{FileKind, Stored};
use crate::data::source::Input;
use crate::encoding::Encoding;

/// The metadata of a coreset file.
#[derive(Debug, Serialize, Deserialize)]
struct CoresetMetadata {
    file: String,
    version: u64,
    weight_column: String,
    row_column: String,
    encoding: Encoding,
    provenance: Provenance,
}

const CORESET: FileKind =
    FileKind { name: "coreset", made_by: ("make a coreset", Operation::Build), again: "build it again" };

/// Writes a coreset: the user's columns in the user's units, the label, `weight` and `row`.
///
/// The same coreset gives the same bytes.
pub fn write_coreset(coreset: &Coreset, mut output: Output) -> Result<()> {
    let written = write_coreset_to(coreset, output.writer());
    written.map_err(|error| Error::io("write", output.path(), error))?;
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
        file: CORESET.name.to_string(),
        version: coreset.encoding.file_version(),
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

/// Reads a coreset.
pub fn read_coreset(path: &Path) -> Result<Coreset> {
    read_coreset_from(&Input::file(path))
}

/// Reads a coreset from anything that has the bytes of its file.
pub fn read_coreset_from(input: &Input) -> Result<Coreset> {
    let mut stored = Stored::open(input, CORESET)?;
    let CoresetMetadata { weight_column, row_column, encoding, provenance, .. } = stored.metadata()?;
    let features = encoding.features.iter().map(|feature| feature.column.as_str());
    let own = [encoding.label.column.as_str(), weight_column.as_str(), row_column.as_str()];
    let names: Vec<&str> = features.chain(own).collect();
    let (mut fields, Segment { columns: mut values, len }) = stored.columns(&names)?;
    fields.truncate(names.len() - 2);
    let (Some(Column::Number(numbers)), Some(Column::Number(weights))) = (values.pop(), values.pop()) else {
        return Err(stored.damaged("has weights or rows that are not numbers"));
    };
    let positions: Option<Vec<u64>> = numbers.iter().map(|number| row_number(*number)).collect();
    let positions =
        positions.ok_or_else(|| stored.damaged("has row numbers that are not integers up to 2^53"))?;
    let rows = RowSet { segment: Segment { columns: values, len }, positions };
    let coreset = Coreset { fields, rows, weights: weights.to_vec(), encoding, provenance };
    match coreset.fault() {
        None => Ok(coreset),
        Some(what) => Err(stored.damaged(what)),
    }
}

/// A row number that is stored exactly.
fn row_number(number: f64) -> Option<u64> {
    let exact = (0.0..=MOST_ROWS as f64).contains(&number) && number.fract() == 0.0;
    exact.then_some(number as u64)
}
