//! Writes the rows of a table and reads them back bit for bit.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};

use super::output::Output;
use super::parquet::{MEMORY, VERSION, to_arrow, write_table};
use crate::base::error::{Error, Result};
use crate::data::block::{Column, Field, Segment};
use crate::data::source::{Input, OpenOptions, Source, open_inputs};

/// Writes rows including missing values; [`read_rows`] returns exactly the same rows.
pub(crate) fn write_rows(fields: &[Field], rows: &Segment, mut output: Output) -> Result<()> {
    let written = write_rows_to(fields, rows, output.writer());
    written.map_err(|error| Error::io("write", output.path(), error))?;
    output.commit()
}

/// The bytes that [`write_rows`] writes.
pub(crate) fn rows_bytes(fields: &[Field], rows: &Segment) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let written = write_rows_to(fields, rows, &mut bytes);
    written.map_err(|error| Error::io("write", MEMORY, error))?;
    Ok(bytes)
}

pub(crate) fn write_rows_to(
    fields: &[Field],
    rows: &Segment,
    file: impl Write + Send,
) -> std::io::Result<()> {
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

/// Reads rows from the bytes of such a file.
pub(crate) fn read_rows_from(input: Input) -> Result<Segment> {
    let source = open_inputs(vec![input], &OpenOptions::default())?;
    all_rows(&*source, &(0..source.fields().len()).collect::<Vec<_>>())
}

/// All rows of some columns.
pub(crate) fn all_rows(source: &dyn Source, columns: &[usize]) -> Result<Segment> {
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
