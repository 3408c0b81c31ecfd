//! Parquet: one unit per row group, or several where the groups are large.

use std::io::BufReader;
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
use super::input::{Handle, HandleReader, Input};
use super::part::{Division, Part, check_columns, check_names};
use super::{Scan, Unit};
use crate::base::error::Result;
use crate::data::block::{Field, Kind, Segment};

/// Rows decoded at a time, from one multiple of it to the next: as blocks are, so that few must be put together from two
/// pieces.
const BATCH: u64 = 65_536;
/// Pages of a unit, at least, where a row group is cut.
const PAGES: u64 = 4;

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
    /// How row groups become units, where that was said.
    division: Option<Division>,
}

impl ParquetFile {
    /// Reads the schema and where the row groups are.
    pub fn open(input: Arc<Input>) -> Result<ParquetFile> {
        let handle = input.open()?;
        let path = input.path();
        let (metadata, fields) = guarded(path, "Parquet", || {
            // The number of pages is wanted.
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

/// How many rows the longest pages of a row group have, on average over a column; all rows where that is not told.
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

/// How many rows a row group has, by the metadata.
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
            // A piece that begins within a page unpacks all of it: pieces of several pages waste little.
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

/// What all units of a scan share.
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
    /// Counted from the start of the group.
    rows: Range<u64>,
    /// Where they stand in the input, as far as it is known.
    first_row: Option<u64>,
}

/// Cuts a range into pieces that end at multiples of [`BATCH`] or with the range: of about as many rows as `most` says for
/// the place where a piece begins, but of no fewer than `least`.
fn pieces_of(rows: Range<u64>, least: u64, most: impl Fn(u64) -> u64) -> impl Iterator<Item = Range<u64>> {
    let mut start = rows.start;
    std::iter::from_fn(move || {
        let cut = start.saturating_add(most(start).max(least)).div_ceil(BATCH).saturating_mul(BATCH);
        // What would be left must be worth a piece.
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
        // What stands ahead of the first block is decoded by itself, so that batches and blocks begin together.
        let head = (BATCH - first_row.unwrap_or(0) % BATCH) % BATCH;
        let head = head.min(rows.end - rows.start);
        let mut decoded = 0;
        for part in [rows.start..rows.start + head, rows.start + head..rows.end] {
            if !part.is_empty() {
                decoded += self.plan.decode(*group, part, emit)?;
            }
        }
        // Positions were given out by the row counts of the metadata.
        guarded(self.file(), "Parquet", || match decoded == rows.end - rows.start {
            true => Ok(()),
            false => Err(format!("row group {group} does not hold as many rows as it says")),
        })
    }
}

impl Plan {
    /// Decodes some rows of a row group, and tells how many there were.
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
                // At the end one more is asked for: rows that the metadata does not know of must be noticed.
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
                // What is too small for a piece of its own goes with the one ahead of it.
                let most = division.unit_rows(piece.start).max(least) + BATCH + least;
                prop_assert!(piece.end - piece.start < most);
            }
        }
    }
}
