//! A coreset on disk: a Parquet table in the user's units, with its provenance in the metadata.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt64Array};
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Operation, Remedy, Result};
use crate::coreset::{Coreset, Provenance};
use crate::data::block::{Block, Column, RowSet, Segment};
use crate::data::sink::Output;
use crate::data::sink::parquet::{
    MEMORY, VERSION, free_name, read_metadata, table, to_arrow, write_table, wrong_file,
};
use crate::data::sink::rows::all_rows;
use crate::data::source::{Input, OpenOptions, open_inputs};
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

const CORESET: &str = "coreset";

/// Writes a coreset: the user's columns in the user's units, the label, `weight` and `row`.
///
/// The same coreset gives the same bytes.
pub fn write_coreset(coreset: &Coreset, mut output: Output) -> Result<()> {
    let written = write_coreset_to(coreset, output.file_mut());
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

/// Reads a coreset.
pub fn read_coreset(path: &Path) -> Result<Coreset> {
    read_coreset_from(&Input::file(path))
}

/// Reads a coreset from anything that has the bytes of its file.
pub fn read_coreset_from(input: &Input) -> Result<Coreset> {
    let path = input.path();
    let metadata = read_metadata(input)?;
    if metadata.kind != CORESET {
        let what = format!("is a {}, not a coreset", metadata.kind);
        return Err(wrong_file(path, &what, Remedy::run("make a coreset", Operation::Build)));
    }
    let metadata: CoresetMetadata = serde_json::from_value(metadata.json)
        .map_err(|error| wrong_file(path, &format!("has damaged metadata: {error}"), "build it again"))?;
    let source = open_inputs(vec![input.clone()], &OpenOptions::default())?;
    let find = |name: &str| {
        source
            .fields()
            .iter()
            .position(|field| field.name == name)
            .ok_or_else(|| wrong_file(path, &format!("has no column '{name}'"), "build it again"))
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
        wrong_file(path, &format!("has a label that is not in its encoding ({error})"), "build it again")
    })?;
    Ok(Coreset {
        fields,
        rows: RowSet { segment, positions: positions.iter().map(|&position| position as u64).collect() },
        weights: weights.to_vec(),
        encoding: metadata.encoding,
        provenance: metadata.provenance,
    })
}
