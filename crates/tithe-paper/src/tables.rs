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
    /// Text.
    Text(Vec<String>),
    /// Whole numbers.
    Count(Vec<u64>),
    /// Numbers; `None` is a missing value.
    Number(Vec<Option<f64>>),
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// File name without extension.
    pub name: String,
    columns: Vec<(&'static str, Values)>,
}

impl Table {
    /// A table without columns.
    pub fn new(name: impl Into<String>) -> Table {
        Table { name: name.into(), columns: Vec::new() }
    }

    /// Adds a column of text.
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

    /// Adds a column of numbers with missing values. Values that are not finite become missing.
    pub fn maybe<R>(mut self, name: &'static str, rows: &[R], value: impl Fn(&R) -> Option<f64>) -> Table {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        self.columns.push((name, Values::Number(rows.iter().map(|row| finite(value(row))).collect())));
        self
    }

    /// Writes the table as CSV and as Parquet.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> Table {
        let rows = [("a,b", 1usize, 0.5), ("c", 20, f64::NAN), ("d", 3, f64::INFINITY)];
        Table::new(name)
            .text("name", &rows, |row| row.0.to_string())
            .count("count", &rows, |row| row.1)
            .number("number", &rows, |row| row.2)
            .maybe("maybe", &rows, |row| (row.1 > 1).then_some(row.2.min(7.0)))
    }

    #[test]
    fn csv_and_parquet_have_the_same_content() {
        let folder = tempfile::tempdir().expect("a directory");
        table("t").write(&folder.path().join("deep/er")).expect("two files");
        let path = |ending: &str| folder.path().join(format!("deep/er/t.{ending}"));
        let text = std::fs::read_to_string(path("csv")).expect("a CSV file");
        // Values that are not finite are missing.
        assert_eq!(text, "name,count,number,maybe\n\"a,b\",1,0.5,\nc,20,,7\nd,3,,7\n");
        let open = |ending: &str| {
            let path = path(ending).display().to_string();
            let source = tithe::data::source::open(&[path], &Default::default()).expect("a table");
            let names: Vec<String> = source.fields().iter().map(|field| field.name.clone()).collect();
            let mut counts = Vec::new();
            let mut scan = source.scan(&[1]).expect("a scan");
            while let Some(unit) = scan.next_unit().expect("rows") {
                unit.decode(&mut |segment| {
                    if let tithe::data::block::Column::Number(values) = &segment.columns[0] {
                        counts.extend_from_slice(values);
                    }
                    Ok(())
                })
                .expect("rows");
            }
            (names, counts)
        };
        assert_eq!(open("parquet").1, [1.0, 20.0, 3.0]);
        assert_eq!(open("csv"), open("parquet"));
    }
}
