//! Sources: files of any supported format, several of them, or standard input, as one sequence of rows.

use std::path::{Path, PathBuf};

pub mod arrays;
mod arrow;
mod batch;
mod chunk;
mod csv;
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
mod parquet;
mod part;
pub mod partition;
mod row;
mod text;
mod token;

pub use format::Format;
pub use input::Input;
pub use ndjson::UniqueKeys;

use crate::base::error::{Error, Result};
use crate::data::block::{Field, Segment};

/// Where rows come from: they can be read from the first to the last as often as wanted.
pub trait Source: Send + Sync {
    /// The columns there are.
    fn fields(&self) -> &[Field];

    /// How many rows there are, where that is known without reading them: exactly so many must then come.
    fn rows(&self) -> Option<u64>;

    /// Position of the first row, where the source is a part of something larger.
    fn first_row(&self) -> u64 {
        0
    }

    /// The number of this part, where the source is one of many parts that are read apart from each other.
    fn part(&self) -> Option<u64> {
        None
    }

    /// The files that are read.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// True if the source leaves out zeros (LIBSVM): its columns are scaled but not centred.
    fn is_sparse(&self) -> bool {
        false
    }

    /// Starts reading the named columns (positions in [`Source::fields`]) from the first row on.
    fn scan(&self, columns: &[usize]) -> Result<Box<dyn Scan>>;
}

/// One reading of a source. Units come in the order of the rows; each may be decoded on any thread.
pub trait Scan: Send {
    /// The next unit, or `None` at the end. Does as little as it can: the caller holds a lock.
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>>;
}

/// Some consecutive rows, not yet decoded.
pub trait Unit: Send {
    /// Position of the first row in the whole input, where that is known before the rows ahead are decoded.
    fn first_row(&self) -> Option<u64>;

    /// The file it comes from. Errors count rows from the start of the unit; the engine adds those ahead
    /// of it in the same file.
    fn file(&self) -> &Path;

    /// Decodes the rows and hands them over, in order.
    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()>;

    /// The same, but rows that cannot be read are left out, each told to `bad`. Formats that cannot tell one row from the
    /// next once something is wrong fail as before.
    fn decode_leniently(
        self: Box<Self>,
        emit: &mut dyn FnMut(Segment) -> Result<()>,
        _bad: &mut dyn FnMut(Error),
    ) -> Result<()> {
        self.decode(emit)
    }
}

/// How inputs are opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The format, where it is not to be told from the content.
    pub format: Option<Format>,
    /// CSV and TSV: true if the first row holds the names of the columns; else they are `x1`, `x2`, ….
    pub header: bool,
    /// LIBSVM: whether feature indices begin at 0; `None` if that is so only where index 0 occurs.
    pub zero_based: Option<bool>,
    /// LIBSVM: the highest feature index there is at least, for data that should have the columns of other data.
    pub features: Option<u32>,
    /// NDJSON: whether a key that none of the first rows has is an error; else it is left out.
    pub refuse_late_keys: bool,
    /// Columns read as text, whatever they look like.
    pub text: Vec<String>,
    /// True if rows that cannot be read will be left out: then they have no say in what the columns hold.
    pub lenient: bool,
    /// Bytes of standard input held in memory; beyond that it goes to a temporary file.
    pub memory: u64,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            format: None,
            header: true,
            zero_based: None,
            features: None,
            refuse_late_keys: false,
            text: Vec::new(),
            lenient: false,
            memory: 1 << 30,
        }
    }
}

/// Opens files, globs, directories of part files and standard input (`-`), any mix of them, as one source.
pub fn open(inputs: &[String], options: &OpenOptions) -> Result<Box<dyn Source>> {
    open_inputs(find_inputs(inputs, options.memory)?, options)
}

/// What files, globs, directories and standard input (`-`) stand for, to be opened more than once; standard input is
/// held in `memory` bytes, and beyond that in a temporary file.
pub fn find_inputs(names: &[String], memory: u64) -> Result<Vec<Input>> {
    names::inputs(names, memory)
}

/// Opens inputs that are at hand, one after the other as one source.
pub fn open_inputs(inputs: Vec<Input>, options: &OpenOptions) -> Result<Box<dyn Source>> {
    Ok(Box::new(files::Files::open(inputs, options)?))
}
