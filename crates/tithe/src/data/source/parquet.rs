//! Parquet files: one unit per row group, or several if the groups are large.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::DataType;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::basic::PageType;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};

use super::batch::{Projection, fields_of, guarded, make_text, with_dictionaries};
use super::input::{Handle, Input};
use super::page_header::PageReader;
use super::part::{Division, Part, check_columns, check_names};
use super::{Scan, Unit};
use crate::base::error::Result;
use crate::data::block::{Field, Kind, Segment};

/// Rows decoded at a time, starting at multiples of this number like blocks, so that few blocks consist of two pieces.
const BATCH: u64 = 65_536;
/// The minimum number of pages per unit if a row group is divided.
const PAGES: u64 = 4;

impl Length for Handle {
    fn len(&self) -> u64 {
        Handle::len(self)
    }
}

impl ChunkReader for Handle {
    type T = PageReader;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(PageReader::new(self, start))
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
    /// How row groups are divided into units, if they are.
    division: Option<Division>,
}

impl ParquetFile {
    /// Reads the schema and the positions of the row groups.
    pub fn open(input: Arc<Input>) -> Result<ParquetFile> {
        let handle = input.open()?;
        let path = input.path();
        let (metadata, fields) = guarded(path, "Parquet", || {
            // The page statistics give the number of pages.
            let options = ArrowReaderOptions::new().with_encoding_stats_as_mask(false);
            let metadata = ArrowReaderMetadata::load(&handle, options)?;
            let fields = fields_of(metadata.schema());
            let hinted = Arc::new(with_dictionaries(metadata.schema()));
            let options = ArrowReaderOptions::new().with_schema(hinted);
            let hinted = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options);
            Ok::<_, ParquetError>((hinted.unwrap_or(metadata), fields))
        })?;
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        check_names(path, &names, None)?;
        Ok(ParquetFile { input, metadata, fields, division: None })
    }

    fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }
}

/// Rows per page of the column with the longest pages in a row group; all rows if the file does not say.
fn page_rows(group: &RowGroupMetaData) -> u64 {
    let rows = u64::try_from(group.num_rows()).unwrap_or(0);
    let is_data = |kind| matches!(kind, PageType::DATA_PAGE | PageType::DATA_PAGE_V2);
    let pages = group.columns().iter().map(|column| {
        let stats = column.page_encoding_stats().map_or(&[][..], Vec::as_slice);
        let counts = stats.iter().filter(|stats| is_data(stats.page_type));
        counts.filter_map(|stats| u64::try_from(stats.count).ok()).sum::<u64>()
    });
    rows / pages.min().unwrap_or(0).max(1)
}

/// Number of rows of a row group by the metadata.
fn group_rows(metadata: &ArrowReaderMetadata, group: usize) -> u64 {
    u64::try_from(metadata.metadata().row_group(group).num_rows()).unwrap_or(0)
}

impl Part for ParquetFile {
    fn file(&self) -> &Path {
        self.input.path()
    }

    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        Some((0..self.groups()).map(|group| group_rows(&self.metadata, group)).fold(0, u64::saturating_add))
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

    fn divide(&mut self, division: Division) {
        self.division = Some(division);
    }

    fn scan(&self, columns: &[usize], first_row: Option<u64>) -> Result<Box<dyn Scan>> {
        check_columns(&self.fields, columns)?;
        let projection = Projection::new(&self.fields, columns);
        let mut next_row = first_row;
        let mut pieces = Vec::new();
        for group in 0..self.groups() {
            let rows = group_rows(&self.metadata, group);
            let place = next_row.unwrap_or(0);
            // A piece that starts within a page decompresses the entire page, so pieces of several pages waste little.
            let least = page_rows(self.metadata.metadata().row_group(group)).saturating_mul(PAGES).max(BATCH);
            let most = |position| self.division.map_or(u64::MAX, |division| division.unit_rows(position));
            for rows in pieces_of(place..place.saturating_add(rows), least, most) {
                let first_row = next_row.map(|_| rows.start);
                pieces.push(Piece { group, rows: rows.start - place..rows.end - place, first_row });
            }
            next_row = next_row.map(|row| row.saturating_add(rows));
        }
        Ok(Box::new(ParquetScan {
            pieces: pieces.into_iter(),
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

/// What to read; shared by all units of a scan.
struct Plan {
    handle: Handle,
    input: Arc<Input>,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    projection: Projection,
}

/// Some rows of a row group.
struct Piece {
    group: usize,
    /// Positions from the start of the group.
    rows: Range<u64>,
    /// Their position in the input, if it is known.
    first_row: Option<u64>,
}

/// Divides a range into pieces that end at multiples of [`BATCH`] or at the end of the range. A piece that begins at a
/// position has about `most(position)` rows, and at least `least`.
fn pieces_of(rows: Range<u64>, least: u64, most: impl Fn(u64) -> u64) -> impl Iterator<Item = Range<u64>> {
    let mut start = rows.start;
    std::iter::from_fn(move || {
        let cut = start.saturating_add(most(start).max(least)).div_ceil(BATCH).saturating_mul(BATCH);
        // The remaining rows must be enough for another piece.
        let end = if cut.saturating_add(least) <= rows.end { cut } else { rows.end };
        let piece = start..end;
        start = end;
        (!piece.is_empty()).then_some(piece)
    })
}

struct ParquetScan {
    pieces: std::vec::IntoIter<Piece>,
    plan: Arc<Plan>,
}

impl Scan for ParquetScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        let unit = |piece| -> Box<dyn Unit> { Box::new(ParquetUnit { plan: self.plan.clone(), piece }) };
        Ok(self.pieces.next().map(unit))
    }
}

struct ParquetUnit {
    plan: Arc<Plan>,
    piece: Piece,
}

impl Unit for ParquetUnit {
    fn first_row(&self) -> Option<u64> {
        self.piece.first_row
    }

    fn file(&self) -> &Path {
        self.plan.input.path()
    }

    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
        let Piece { group, rows, first_row } = &self.piece;
        // Rows before the first block are decoded separately, so that batches and blocks start at the same rows.
        let head = (BATCH - first_row.unwrap_or(0) % BATCH) % BATCH;
        let head = head.min(rows.end - rows.start);
        let mut decoded = 0;
        for part in [rows.start..rows.start + head, rows.start + head..rows.end] {
            if !part.is_empty() {
                decoded += self.plan.decode(*group, part, emit)?;
            }
        }
        // Row positions were computed from the row counts in the metadata.
        guarded(self.file(), "Parquet", || match decoded == rows.end - rows.start {
            true => Ok(()),
            false => Err(format!("row group {group} does not contain as many rows as its metadata says")),
        })
    }
}

impl Plan {
    /// Decodes some rows of a row group and returns their number.
    fn decode(
        &self,
        group: usize,
        rows: Range<u64>,
        emit: &mut dyn FnMut(Segment) -> Result<()>,
    ) -> Result<u64> {
        let path = self.input.path();
        let mut reader = guarded(path, "Parquet", || {
            let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
                self.handle.clone(),
                self.metadata.clone(),
            )
            .with_row_groups(vec![group])
            .with_projection(self.mask.clone())
            .with_batch_size(BATCH as usize);
            let last = group_rows(&self.metadata, group);
            if rows != (0..last) {
                // At the end one more row is requested, to detect rows that the metadata does not count.
                let wanted = rows.end - rows.start + u64::from(rows.end == last);
                builder = builder.with_row_selection(RowSelection::from(vec![
                    RowSelector::skip(rows.start as usize),
                    RowSelector::select(wanted as usize),
                ]));
            }
            builder.build()
        })?;
        let mut decoded = 0;
        while let Some(segment) = guarded(path, "Parquet", || {
            reader.next().map(|batch| self.projection.segment(&batch?)).transpose()
        })? {
            decoded += segment.len as u64;
            emit(segment)?;
        }
        Ok(decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_follow_each_other_and_are_worth_it(
            start in 0u64..5_000_000,
            len in 0u64..5_000_000,
            least in BATCH..300_000,
            shares in 1u64..20,
        ) {
            let rows = start..start + len;
            let division = Division { rows: rows.end + 1_000_000, shares };
            let pieces: Vec<_> = pieces_of(rows.clone(), least, |place| division.unit_rows(place)).collect();
            prop_assert_eq!(pieces.iter().map(|piece| piece.end - piece.start).sum::<u64>(), len);
            let mut next = rows.start;
            for piece in &pieces {
                prop_assert_eq!(piece.start, next);
                next = piece.end;
                prop_assert!(piece.end % BATCH == 0 || piece.end == rows.end);
                prop_assert!(piece.end - piece.start >= least.min(len));
                // Rows too few for their own piece are added to the piece before.
                let most = division.unit_rows(piece.start).max(least) + BATCH + least;
                prop_assert!(piece.end - piece.start < most);
            }
        }
    }
}
