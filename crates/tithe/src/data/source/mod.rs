//! Data sources: one or several files of any supported format, standard input, or data in memory, as one sequence of rows.

use std::path::{Path, PathBuf};

pub mod arrays;
mod arrow;
mod batch;
mod chunk;
mod csv;
pub(crate) mod dates;
mod files;
mod format;
mod guess;
mod input;
mod libsvm;
pub mod live;
pub mod memory;
mod names;
mod ndjson;
pub mod once;
mod page_header;
mod parquet;
mod part;
pub mod partition;
mod row;
mod text;
mod token;
mod windows;

pub(crate) use csv::READ_AS_NUMBERS;
pub use format::Format;
pub use input::Input;
pub use ndjson::UniqueKeys;

use crate::base::error::{Error, Result};
use crate::data::block::{Field, Segment};

/// A source of rows that can be scanned from the first row to the last any number of times.
pub trait Source: Send + Sync {
    /// The columns.
    fn fields(&self) -> &[Field];

    /// The number of rows, if it is known without reading them; a scan must then give exactly this many.
    fn rows(&self) -> Option<u64>;

    /// Position of the first row, if the source is a part of a larger table.
    fn first_row(&self) -> u64 {
        0
    }

    /// The number of this part, if the source is one of many parts that are read separately.
    fn part(&self) -> Option<u64> {
        None
    }

    /// The files that are read.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// True if zeros are not stored (LIBSVM): such columns are scaled but not centred.
    fn is_sparse(&self) -> bool {
        false
    }

    /// A value of a column of text whose values are all numbers written for readers, such as `8 %` or `$1,200`.
    fn looks_numeric(&self, _column: usize) -> Option<String> {
        None
    }

    /// For a column of text whose first values are all dates: whether they have times of day.
    fn looks_like_dates(&self, _column: usize) -> Option<bool> {
        None
    }

    /// The name of the column that this one is computed from, if it is not a column of the data itself.
    fn computed_from(&self, _column: usize) -> Option<&str> {
        None
    }

    /// Starts reading the given columns (positions in [`Source::fields`]) from the first row.
    fn scan(&self, columns: &[usize]) -> Result<Box<dyn Scan>>;
}

/// One scan of a source. Units come in the order of the rows; each can be decoded on any thread.
pub trait Scan: Send {
    /// The next unit, or `None` at the end. Must be fast, because the caller holds a lock.
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>>;
}

/// Consecutive rows that are not decoded yet.
pub trait Unit: Send {
    /// Position of the first row in the input, if it is known before the rows ahead are decoded.
    fn first_row(&self) -> Option<u64>;

    /// The file of the rows. Errors count rows from the start of the unit; the engine adds the number of rows before it in
    /// the same file.
    fn file(&self) -> &Path;

    /// Decodes the rows and passes them to `emit`, in order.
    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()>;

    /// Like [`Unit::decode`], but skips rows that cannot be read and reports each to `bad`. Formats that cannot find the next
    /// row after an error fail like [`Unit::decode`].
    fn decode_leniently(
        self: Box<Self>,
        emit: &mut dyn FnMut(Segment) -> Result<()>,
        _bad: &mut dyn FnMut(Error),
    ) -> Result<()> {
        self.decode(emit)
    }
}

/// The character between the whole part and the fraction of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decimal {
    /// `1.5`.
    Point,
    /// `1,5`.
    Comma,
}

/// The character between the fields of delimited text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Delimiter {
    /// `,`.
    Comma = b',',
    /// `;`.
    Semicolon = b';',
    /// The tabulator.
    Tab = b'\t',
    /// `|`.
    Pipe = b'|',
}

/// How inputs are opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The format; `None` to detect it from the content.
    pub format: Option<Format>,
    /// CSV and TSV: true if the first row contains the names of the columns; otherwise they are `x1`, `x2`, ….
    pub header: bool,
    /// CSV and TSV: the character between fields; `None` to detect it.
    pub delimiter: Option<Delimiter>,
    /// CSV and TSV: the decimal separator; `None` to detect it.
    pub decimal: Option<Decimal>,
    /// CSV and TSV: words for missing values, besides the usual ones.
    pub null_values: Vec<String>,
    /// CSV and TSV: columns that are read as numbers although they have percent signs, currencies or separated thousands.
    pub numbers: Vec<String>,
    /// LIBSVM: whether feature indices begin at 0; `None` if they do when index 0 occurs.
    pub zero_based: Option<bool>,
    /// LIBSVM: the minimum of the highest feature index, for data that must have the columns of other data.
    pub features: Option<u32>,
    /// NDJSON: whether a key that does not occur in the first rows is an error; otherwise it is ignored.
    pub refuse_late_keys: bool,
    /// Columns that are read as text, even if they contain numbers.
    pub text: Vec<String>,
    /// True if rows that cannot be read will be skipped: they are then ignored when the kinds of the columns are guessed.
    pub lenient: bool,
    /// Bytes of standard input kept in memory; longer input goes to a temporary file.
    pub memory: u64,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            format: None,
            header: true,
            delimiter: None,
            decimal: None,
            null_values: Vec::new(),
            numbers: Vec::new(),
            zero_based: None,
            features: None,
            refuse_late_keys: false,
            text: Vec::new(),
            lenient: false,
            memory: 1 << 30,
        }
    }
}

/// Opens any mix of files, globs, directories of part files and standard input (`-`) as one source.
pub fn open(inputs: &[String], options: &OpenOptions) -> Result<Box<dyn Source>> {
    open_inputs(find_inputs(inputs, options.memory)?, options)
}

/// The inputs that files, globs, directories and standard input (`-`) mean; they can be opened more than once. Up to
/// `memory` bytes of standard input are kept in memory, and longer input in a temporary file.
pub fn find_inputs(names: &[String], memory: u64) -> Result<Vec<Input>> {
    names::inputs(names, memory)
}

/// Opens inputs as one source, one after the other.
pub fn open_inputs(inputs: Vec<Input>, options: &OpenOptions) -> Result<Box<dyn Source>> {
    Ok(Box::new(files::Files::open(inputs, options)?))
}
