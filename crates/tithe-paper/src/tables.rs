//! Tables of results, as CSV and Parquet.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use tithe::base::error::{Error, Result};
use tithe::data::sink::{RowFormat, RowWriter};

use crate::runner::output;

/// The values of a column.
#[derive(Clone, Debug)]
pub enum Values {
    /// Words.
    Text(Vec<String>),
    /// Whole numbers.
    Count(Vec<u64>),
    /// Numbers, where there are any.
    Number(Vec<Option<f64>>),
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// The name of its files.
    pub name: String,
    columns: Vec<(&'static str, Values)>,
}

impl Table {
    /// A table without columns.
    pub fn new(name: impl Into<String>) -> Table {
        Table { name: name.into(), columns: Vec::new() }
    }

    /// Adds a column of words.
    pub fn text<R>(mut self, name: &'static str, rows: &[R], value: impl Fn(&R) -> String) -> Table {
        self.columns.push((name, Values::Text(rows.iter().map(value).collect())));
        self
    }

    /// Adds a column of whole numbers.
    pub fn count<R>(mut self, name: &'static str, rows: &[R], value: impl Fn(&R) -> usize) -> Table {
        self.columns.push((name, Values::Count(rows.iter().map(|row| value(row) as u64).collect())));
        self
    }

    /// Adds a column of numbers.
    pub fn number<R>(self, name: &'static str, rows: &[R], value: impl Fn(&R) -> f64) -> Table {
        self.maybe(name, rows, |row| Some(value(row)))
    }

    /// Adds a column of numbers that are not always there.
    pub fn maybe<R>(mut self, name: &'static str, rows: &[R], value: impl Fn(&R) -> Option<f64>) -> Table {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        self.columns.push((name, Values::Number(rows.iter().map(|row| finite(value(row))).collect())));
        self
    }

    /// Writes it as CSV and as Parquet.
    pub fn write(&self, folder: &Path) -> Result<()> {
        for (ending, format) in [("csv", RowFormat::Csv), ("parquet", RowFormat::Parquet)] {
            let path = folder.join(format!("{}.{ending}", self.name));
            let batch = self.batch().map_err(|error| Error::malformed(&path, error.to_string()))?;
            let mut writer = RowWriter::new(output(&path)?, format, &batch.schema(), None)?;
            writer.write(&batch)?;
            writer.finish()?;
        }
        Ok(())
    }

    fn batch(&self) -> std::result::Result<RecordBatch, arrow_schema::ArrowError> {
        let array = |values: &Values| -> ArrayRef {
            match values {
                Values::Text(values) => Arc::new(StringArray::from_iter_values(values)),
                Values::Count(values) => Arc::new(UInt64Array::from_iter_values(values.iter().copied())),
                Values::Number(values) => Arc::new(Float64Array::from_iter(values.iter().copied())),
            }
        };
        let data_type = |values: &Values| match values {
            Values::Text(_) => DataType::Utf8,
            Values::Count(_) => DataType::UInt64,
            Values::Number(_) => DataType::Float64,
        };
        let fields: Vec<Field> =
            self.columns.iter().map(|(name, values)| Field::new(*name, data_type(values), true)).collect();
        let arrays = self.columns.iter().map(|(_, values)| array(values)).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }
}
