//! Partitions: parts of a table that are read separately, each on its own machine.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatchReader;

use super::batch::{Projection, column_as_text, fields_of};
use super::memory::BatchUnit;
use super::part::{check_columns, check_names};
use super::{Scan, Source, Unit};
use crate::base::error::{Error, Result};
use crate::data::block::Field;

/// The name in messages.
const NAME: &str = "the partition";

/// One of many parts of a table.
pub struct Partition {
    rows: Box<dyn Source>,
    number: u64,
    first_row: u64,
}

impl Partition {
    /// Part `number` of a table, with `first_row` rows before it.
    pub fn new(rows: Box<dyn Source>, number: u64, first_row: u64) -> Partition {
        Partition { rows, number, first_row }
    }
}

impl Source for Partition {
    fn fields(&self) -> &[Field] {
        self.rows.fields()
    }

    fn rows(&self) -> Option<u64> {
        self.rows.rows()
    }

    fn first_row(&self) -> u64 {
        self.first_row
    }

    fn part(&self) -> Option<u64> {
        Some(self.number)
    }

    fn files(&self) -> Vec<PathBuf> {
        self.rows.files()
    }

    fn is_sparse(&self) -> bool {
        self.rows.is_sparse()
    }

    fn scan(&self, columns: &[usize]) -> Result<Box<dyn Scan>> {
        self.rows.scan(columns)
    }
}

/// Record batches that can be read once: they serve one pass and are not saved.
pub struct Passing {
    name: &'static str,
    fields: Vec<Field>,
    batches: Mutex<Option<Box<dyn RecordBatchReader + Send>>>,
}

impl Passing {
    /// The batches of a reader.
    pub fn new(batches: Box<dyn RecordBatchReader + Send>) -> Result<Passing> {
        let fields = fields_of(&batches.schema());
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        check_names(Path::new(NAME), &names, None)?;
        Ok(Passing { name: NAME, fields, batches: Mutex::new(Some(batches)) })
    }

    /// Sets another name for messages, for batches that are not a partition.
    pub fn called(self, name: &'static str) -> Passing {
        Passing { name, ..self }
    }

    /// Reads a column as text, whatever its type.
    pub fn read_as_text(&mut self, name: &str) -> Result<()> {
        column_as_text(&mut self.fields, name)
    }
}

impl Source for Passing {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        None
    }

    fn scan(&self, columns: &[usize]) -> Result<Box<dyn Scan>> {
        check_columns(&self.fields, columns)?;
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner).take();
        let batches =
            batches.ok_or_else(|| Error::malformed(Path::new(self.name), "can be read only once"))?;
        let projection = Arc::new(Projection::from_whole(&self.fields, columns));
        Ok(Box::new(PassingScan { name: self.name, batches, projection, rows: 0 }))
    }
}

struct PassingScan {
    name: &'static str,
    batches: Box<dyn RecordBatchReader + Send>,
    projection: Arc<Projection>,
    rows: u64,
}

impl Scan for PassingScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        let Some(batch) = self.batches.next() else { return Ok(None) };
        let batch = batch.map_err(|error| Error::malformed(Path::new(self.name), error.to_string()))?;
        let first_row = self.rows;
        self.rows += batch.num_rows() as u64;
        Ok(Some(Box::new(BatchUnit { batch, projection: self.projection.clone(), first_row })))
    }
}
