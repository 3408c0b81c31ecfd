//! Writes tables to files that appear only when they are complete.

pub mod output;
pub mod parquet;
pub(crate) mod rows;
pub(crate) mod stored;
pub mod text;

pub use output::{Output, write_directory};
pub use parquet::{FileMetadata, find_metadata};
pub use text::{RowFormat, RowWriter};
