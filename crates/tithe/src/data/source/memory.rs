//! Data in memory: columns, or Arrow record batches.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{ArrowError, DataType, Field as ArrowField, Schema, SchemaRef};

use super::batch::{Projection, column_as_text, fields_of, guarded};
use super::part::{check_columns, check_names};
use super::{Scan, Source, Unit};
use crate::base::error::{Error, ErrorKind, Result};
use crate::data::block::{Column, Field, Kind, Segment};

/// The name in messages.
pub(super) const NAME: &str = "data in memory";
/// Rows per unit.
pub(super) const UNIT: usize = 65_536;

/// Columns in memory; a clone shares them.
#[derive(Clone)]
pub struct Columns {
    fields: Vec<Field>,
    rows: Segment,
    first_row: u64,
    is_sparse: bool,
}

impl Columns {
    /// Named columns of numbers, all of the same length; nothing is copied.
    pub fn new(columns: Vec<(String, Vec<f64>)>) -> Result<Columns> {
        let rows = columns.first().map_or(0, |(_, values)| values.len());
        let (names, values): (Vec<String>, Vec<ScalarBuffer<f64>>) =
            columns.into_iter().map(|(name, values)| (name, ScalarBuffer::from(values))).unzip();
        check_names(Path::new(NAME), &names, None)?;
        if let Some((name, values)) = names.iter().zip(&values).find(|(_, values)| values.len() != rows) {
            return Err(ErrorKind::Column {
                column: name.clone(),
                what: format!("has {} rows where '{}' has {rows}", values.len(), names[0]),
                help: None,
            }
            .into());
        }
        let number = |name| Field { name, kind: Kind::Number, data_type: DataType::Float64 };
        let columns = values.into_iter().map(Column::Number).collect();
        let rows = Segment { columns, len: rows };
        Ok(Columns { fields: names.into_iter().map(number).collect(), rows, first_row: 0, is_sparse: false })
    }

    /// Decoded rows of these columns, the first of which is row `first_row` of the input.
    pub(crate) fn of_rows(fields: Vec<Field>, rows: Segment, first_row: u64, is_sparse: bool) -> Columns {
        Columns { fields, rows, first_row, is_sparse }
    }
}

impl Source for Columns {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows.len as u64)
    }

    fn first_row(&self) -> u64 {
        self.first_row
    }

    fn is_sparse(&self) -> bool {
        self.is_sparse
    }

    fn scan(&self, columns: &[usize]) -> Result<Box<dyn Scan>> {
        check_columns(&self.fields, columns)?;
        let columns = columns.iter().map(|&column| self.rows.columns[column].clone()).collect();
        Ok(Box::new(ColumnsScan { all: Segment { columns, len: self.rows.len }, next: 0 }))
    }
}

struct ColumnsScan {
    all: Segment,
    next: usize,
}

impl Scan for ColumnsScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        let rows = self.next..self.all.len.min(self.next + UNIT);
        self.next = rows.end;
        Ok((!rows.is_empty())
            .then(|| -> Box<dyn Unit> { Box::new(Piece { segment: self.all.slice(rows.clone()), rows }) }))
    }
}

struct Piece {
    segment: Segment,
    rows: Range<usize>,
}

impl Unit for Piece {
    fn first_row(&self) -> Option<u64> {
        Some(self.rows.start as u64)
    }

    fn file(&self) -> &Path {
        Path::new(NAME)
    }

    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
        emit(self.segment)
    }
}

/// Arrow record batches with the same schema; a clone shares them.
#[derive(Clone)]
pub struct Batches {
    fields: Vec<Field>,
    batches: Arc<Vec<RecordBatch>>,
    rows: u64,
}

impl Batches {
    /// Concatenated batches, which all have this schema.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Batches> {
        let path = Path::new(NAME);
        let fields = fields_of(&schema);
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        check_names(path, &names, None)?;
        for batch in &batches {
            let found = batch.schema();
            let found: Vec<_> =
                found.fields().iter().map(|field| (field.name(), field.data_type())).collect();
            let expected = schema.fields().iter().map(|field| (field.name(), field.data_type()));
            if !expected.eq(found) {
                return Err(Error::malformed(path, "the batches differ in their columns"));
            }
        }
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        Ok(Batches { fields, batches: Arc::new(batches), rows })
    }

    /// The same batches with one more column, as long as all batches together.
    pub fn with_column(self, name: &str, values: &ArrayRef) -> Result<Batches> {
        if values.len() as u64 != self.rows {
            let what = format!("has {} rows where the data has {}", values.len(), self.rows);
            return Err(ErrorKind::Column { column: name.to_string(), what, help: None }.into());
        }
        let broken = |error: ArrowError| Error::malformed(Path::new(NAME), error.to_string());
        let column = ArrowField::new(name, values.data_type().clone(), true);
        let mut first = 0;
        let mut batches = Vec::with_capacity(self.batches.len());
        for batch in self.batches.iter() {
            let schema = batch.schema();
            let fields = schema.fields().iter().cloned().chain([Arc::new(column.clone())]);
            let columns = batch.columns().iter().cloned().chain([values.slice(first, batch.num_rows())]);
            let wider = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            batches.push(RecordBatch::try_new(wider, columns.collect()).map_err(broken)?);
            first += batch.num_rows();
        }
        let mut fields = self.fields;
        fields.extend(fields_of(&Schema::new(vec![column])));
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        check_names(Path::new(NAME), &names, None)?;
        Ok(Batches { fields, batches: Arc::new(batches), rows: self.rows })
    }

    /// Reads a column as text, whatever its type.
    pub fn read_as_text(&mut self, name: &str) -> Result<()> {
        column_as_text(&mut self.fields, name)
    }
}

impl Source for Batches {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn scan(&self, columns: &[usize]) -> Result<Box<dyn Scan>> {
        check_columns(&self.fields, columns)?;
        let projection = Arc::new(Projection::from_whole(&self.fields, columns));
        Ok(Box::new(BatchesScan { batches: self.batches.clone(), projection, next: 0, next_row: 0 }))
    }
}

struct BatchesScan {
    batches: Arc<Vec<RecordBatch>>,
    projection: Arc<Projection>,
    next: usize,
    next_row: u64,
}

impl Scan for BatchesScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        let Some(batch) = self.batches.get(self.next) else { return Ok(None) };
        let unit =
            BatchUnit { batch: batch.clone(), projection: self.projection.clone(), first_row: self.next_row };
        self.next += 1;
        self.next_row += batch.num_rows() as u64;
        Ok(Some(Box::new(unit)))
    }
}

pub(super) struct BatchUnit {
    pub batch: RecordBatch,
    pub projection: Arc<Projection>,
    pub first_row: u64,
}

impl Unit for BatchUnit {
    fn first_row(&self) -> Option<u64> {
        Some(self.first_row)
    }

    fn file(&self) -> &Path {
        Path::new(NAME)
    }

    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
        let segment = guarded(self.file(), "Arrow", || self.projection.segment(&self.batch))?;
        if segment.len > 0 { emit(segment) } else { Ok(()) }
    }
}
