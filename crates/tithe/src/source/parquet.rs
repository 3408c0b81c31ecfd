//! Parquet: one unit per row group.

use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::DataType;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::batch::{Projection, fields_of, guarded, make_text, with_dictionaries};
use super::input::{Handle, HandleReader, Input};
use super::part::{Part, check_columns, check_names};
use super::{Scan, Unit};
use crate::block::{Field, Kind, Segment};
use crate::error::Result;

/// Rows decoded at a time.
const BATCH: usize = 65_536;

impl Length for Handle {
    fn len(&self) -> u64 {
        Handle::len(self)
    }
}

impl ChunkReader for Handle {
    type T = BufReader<HandleReader>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(BufReader::new(self.reader(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        Ok(self.bytes(start, length)?)
    }
}

/// A Parquet file.
pub(super) struct ParquetFile {
    input: Arc<Input>,
    metadata: ArrowReaderMetadata,
    fields: Vec<Field>,
}

impl ParquetFile {
    /// Reads the schema and where the row groups are.
    pub fn open(input: Arc<Input>) -> Result<ParquetFile> {
        let handle = input.open()?;
        let path = input.path();
        let (metadata, fields) = guarded(path, "Parquet", || {
            let metadata = ArrowReaderMetadata::load(&handle, ArrowReaderOptions::new())?;
            let fields = fields_of(metadata.schema());
            let hinted = Arc::new(with_dictionaries(metadata.schema()));
            let options = ArrowReaderOptions::new().with_schema(hinted);
            let hinted = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options);
            Ok::<_, ParquetError>((hinted.unwrap_or(metadata), fields))
        })?;
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        check_names(path, &names, None)?;
        Ok(ParquetFile { input, metadata, fields })
    }

    fn group_rows(&self, group: usize) -> u64 {
        u64::try_from(self.metadata.metadata().row_group(group).num_rows()).unwrap_or(0)
    }

    fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }
}

impl Part for ParquetFile {
    fn file(&self) -> &Path {
        self.input.path()
    }

    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        Some((0..self.groups()).map(|group| self.group_rows(group)).fold(0, u64::saturating_add))
    }

    fn is_undecided(&self, column: usize) -> bool {
        self.fields[column].data_type == DataType::Null
    }

    fn decide(&mut self, column: usize, kind: Kind) {
        self.fields[column].kind = kind;
    }

    fn read_as_text(&mut self, column: usize) -> Result<()> {
        make_text(&mut self.fields[column])
    }

    fn scan(&self, columns: &[usize], first_row: Option<u64>) -> Result<Box<dyn Scan>> {
        check_columns(&self.fields, columns)?;
        let projection = Projection::new(&self.fields, columns);
        let mut next_row = first_row;
        let groups = (0..self.groups()).map(|group| {
            let rows = self.group_rows(group);
            let first_row = next_row;
            next_row = first_row.map(|row| row.saturating_add(rows));
            (group, rows, first_row)
        });
        let groups: Vec<_> = groups.filter(|(_, rows, _)| *rows > 0).collect();
        Ok(Box::new(ParquetScan {
            groups: groups.into_iter(),
            plan: Arc::new(Plan {
                handle: self.input.open()?,
                input: self.input.clone(),
                mask: ProjectionMask::roots(self.metadata.parquet_schema(), projection.roots.iter().copied()),
                metadata: self.metadata.clone(),
                projection,
            }),
        }))
    }
}

/// What all units of a scan share.
struct Plan {
    handle: Handle,
    input: Arc<Input>,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    projection: Projection,
}

struct ParquetScan {
    groups: std::vec::IntoIter<(usize, u64, Option<u64>)>,
    plan: Arc<Plan>,
}

impl Scan for ParquetScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        Ok(self.groups.next().map(|(group, rows, first_row)| -> Box<dyn Unit> {
            Box::new(RowGroup { plan: self.plan.clone(), group, rows, first_row })
        }))
    }
}

struct RowGroup {
    plan: Arc<Plan>,
    group: usize,
    rows: u64,
    first_row: Option<u64>,
}

impl Unit for RowGroup {
    fn first_row(&self) -> Option<u64> {
        self.first_row
    }

    fn file(&self) -> &Path {
        self.plan.input.path()
    }

    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
        let plan = &*self.plan;
        let path = plan.input.path();
        let mut reader = guarded(path, "Parquet", || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(plan.handle.clone(), plan.metadata.clone())
                .with_row_groups(vec![self.group])
                .with_projection(plan.mask.clone())
                .with_batch_size(BATCH)
                .build()
        })?;
        let mut decoded = 0;
        while let Some(segment) = guarded(path, "Parquet", || {
            reader.next().map(|batch| plan.projection.segment(&batch?)).transpose()
        })? {
            decoded += segment.len as u64;
            emit(segment)?;
        }
        // Positions were given out by the row counts of the metadata.
        guarded(path, "Parquet", || match decoded == self.rows {
            true => Ok(()),
            false => Err(format!("row group {} holds {decoded} rows instead of {}", self.group, self.rows)),
        })
    }
}
