//! Sources: files of any supported format, several of them, or standard input, as one sequence of rows.

use std::path::Path;

use crate::block::{Field, Segment};
use crate::error::Result;

/// Where rows come from: they can be read from the first to the last as often as wanted.
pub trait Source: Send + Sync {
    /// The columns there are.
    fn fields(&self) -> &[Field];

    /// How many rows there are, where that is known without reading them.
    fn rows(&self) -> Option<u64>;

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
}
