//! What the text formats (CSV, TSV, LIBSVM, NDJSON) share: a file is cut into chunks of whole rows, and each chunk is
//! parsed independently on any thread.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::DataType;

use super::chunk::{Chunk, Chunker};
use super::input::{Compression, Input};
use super::part::{Part, check_columns, not_delimited};
use super::row::Fault;
use super::windows::AsUtf8;
use super::{Scan, Unit};
use crate::base::error::{Error, ErrorKind, Result};
use crate::data::block::{Field, Kind, Segment};

/// A text file and how it is cut into chunks.
pub(super) struct TextFile {
    pub input: Arc<Input>,
    pub compression: Compression,
    /// Bytes read at a time.
    pub chunk: usize,
    /// True if a newline between double quotes does not end a row.
    pub quoting: bool,
}

impl TextFile {
    /// The name of the file in messages.
    pub fn path(&self) -> &Path {
        self.input.path()
    }

    /// The chunks of the file from its first byte on.
    pub fn chunks(&self) -> Result<Chunks> {
        let mut reader = self.compression.decompress(&self.input)?;
        // Only delimited text is written by spreadsheets; JSON is UTF-8.
        if self.quoting {
            let failed = |error| self.compression.failure(self.input.path(), error);
            reader = Box::new(AsUtf8::new(reader).map_err(failed)?);
        }
        Ok(self.chunks_by(Chunker::new(reader, self.quoting, self.chunk)))
    }

    /// The chunks of a reader that may be slow: rows are passed on as soon as they are complete.
    pub fn chunks_of(&self, reader: Box<dyn Read + Send>) -> Chunks {
        self.chunks_by(Chunker::eager(reader, self.quoting, self.chunk))
    }

    fn chunks_by(&self, chunker: Chunker) -> Chunks {
        Chunks { chunker, compression: self.compression, input: self.input.clone() }
    }
}

/// The chunks of a text file, in order.
pub(super) struct Chunks {
    chunker: Chunker,
    compression: Compression,
    input: Arc<Input>,
}

impl Chunks {
    /// The next chunk, or `None` at the end.
    pub fn next(&mut self) -> Result<Option<Chunk>> {
        self.chunker.next().map_err(|error| self.compression.failure(self.input.path(), error))
    }

    /// Skips the next `count` bytes.
    pub fn skip(&mut self, count: u64) -> Result<()> {
        self.chunker.skip(count).map_err(|error| self.compression.failure(self.input.path(), error))
    }
}

/// A column of a text file.
pub(super) fn field(name: String, kind: Kind) -> Field {
    let data_type = match kind {
        Kind::Boolean => DataType::Boolean,
        Kind::Text => DataType::Utf8,
        Kind::Number | Kind::Time => DataType::Float64,
        Kind::Unsupported => DataType::Binary,
    };
    Field { name, kind, data_type }
}

/// What to do with a row that cannot be parsed.
pub(super) enum BadRow<'a> {
    /// Stop with its error.
    Fail,
    /// Report its error and go on with the next row.
    Report(&'a mut dyn FnMut(Error)),
}

impl BadRow<'_> {
    /// Fails with the error, or reports it.
    pub fn handle(&mut self, error: Error) -> Result<()> {
        match self {
            BadRow::Fail => Err(error),
            BadRow::Report(report) => {
                report(error);
                Ok(())
            }
        }
    }
}

/// Parses the rows of a chunk. All units of a scan share one parser.
pub(super) trait RowParser: Send + Sync + 'static {
    /// The name of the file in messages.
    fn path(&self) -> &Path;

    /// Parses all rows of a chunk and passes them to `emit`, in order.
    fn parse(
        &self,
        chunk: &Chunk,
        emit: &mut dyn FnMut(Segment) -> Result<()>,
        bad: BadRow<'_>,
    ) -> Result<()>;
}

/// A text format that guesses the kinds of its columns from the first rows.
pub(super) trait TextFormat: Send + Sync {
    type Parser: RowParser;

    /// Where the first row begins: how many bytes the header and what comes before it have.
    fn data_start(&self) -> u64 {
        0
    }

    /// A value of a column of text whose values are all numbers written for readers.
    fn looks_numeric(&self, _column: usize) -> Option<&str> {
        None
    }

    /// For a column of text whose first values are all dates: whether they have times of day.
    fn looks_like_dates(&self, _column: usize) -> Option<bool> {
        None
    }

    /// Chooses whether a column is read as numbers written for readers; false if the format does not have them.
    fn set_formatted(&mut self, _column: usize, _is_formatted: bool) -> bool {
        false
    }

    /// A parser that reads the given columns (positions in `fields`), in this order.
    fn parser(&self, file: &TextFile, fields: &[Field], columns: &[usize]) -> Self::Parser;
}

/// One file in such a format.
pub(super) struct TextPart<F> {
    pub file: TextFile,
    pub format: F,
    pub fields: Vec<Field>,
    /// For each column, whether the first rows have only missing values.
    pub undecided: Vec<bool>,
}

impl<F: TextFormat> TextPart<F> {
    fn scan_chunks(&self, columns: &[usize], mut chunks: Chunks) -> Result<Box<dyn Scan>> {
        check_columns(&self.fields, columns)?;
        chunks.skip(self.format.data_start())?;
        let parser = Arc::new(self.format.parser(&self.file, &self.fields, columns));
        Ok(Box::new(TextScan { chunks, parser }))
    }
}

impl<F: TextFormat> Part for TextPart<F> {
    fn file(&self) -> &Path {
        self.file.path()
    }

    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        None
    }

    fn is_undecided(&self, column: usize) -> bool {
        self.undecided[column]
    }

    fn decide(&mut self, column: usize, kind: Kind) {
        self.fields[column] = field(std::mem::take(&mut self.fields[column].name), kind);
        self.undecided[column] = false;
    }

    fn read_as_text(&mut self, column: usize) -> Result<()> {
        self.format.set_formatted(column, false);
        self.decide(column, Kind::Text);
        Ok(())
    }

    fn read_as_numbers(&mut self, column: usize) -> Result<()> {
        if !self.format.set_formatted(column, true) {
            return Err(not_delimited(&self.fields[column].name));
        }
        self.decide(column, Kind::Number);
        Ok(())
    }

    fn looks_numeric(&self, column: usize) -> Option<&str> {
        self.format.looks_numeric(column)
    }

    fn looks_like_dates(&self, column: usize) -> Option<bool> {
        self.format.looks_like_dates(column)
    }

    fn scan(&self, columns: &[usize], _first_row: Option<u64>) -> Result<Box<dyn Scan>> {
        self.scan_chunks(columns, self.file.chunks()?)
    }

    fn scan_once(&self, columns: &[usize], reader: Box<dyn Read + Send>) -> Result<Box<dyn Scan>> {
        self.scan_chunks(columns, self.file.chunks_of(reader))
    }
}

/// Makes a unit of each chunk.
struct TextScan<P> {
    chunks: Chunks,
    parser: Arc<P>,
}

impl<P: RowParser> Scan for TextScan<P> {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        let chunk = self.chunks.next()?;
        Ok(chunk.map(|chunk| -> Box<dyn Unit> {
            Box::new(TextUnit { chunk, parser: self.parser.clone(), first_row: None })
        }))
    }
}

/// The rows of a chunk.
pub(super) struct TextUnit<P> {
    pub chunk: Chunk,
    pub parser: Arc<P>,
    pub first_row: Option<u64>,
}

impl<P: RowParser> TextUnit<P> {
    fn parse(&self, emit: &mut dyn FnMut(Segment) -> Result<()>, bad: BadRow<'_>) -> Result<()> {
        if self.chunk.is_cut {
            let what = if self.chunk.has_quotes { Fault::Unclosed.what() } else { "the row does not end" };
            let (path, what) = (self.parser.path().to_path_buf(), what.to_string());
            return Err(ErrorKind::Cell { path, row: 0, column: None, what, help: None }.into());
        }
        self.parser.parse(&self.chunk, emit, bad)
    }
}

impl<P: RowParser> Unit for TextUnit<P> {
    fn first_row(&self) -> Option<u64> {
        self.first_row
    }

    fn file(&self) -> &Path {
        self.parser.path()
    }

    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
        self.parse(emit, BadRow::Fail)
    }

    fn decode_leniently(
        self: Box<Self>,
        emit: &mut dyn FnMut(Segment) -> Result<()>,
        bad: &mut dyn FnMut(Error),
    ) -> Result<()> {
        self.parse(emit, BadRow::Report(bad))
    }
}
