//! Writes tables: whole files or nothing.

pub mod output;
pub mod parquet;
pub(crate) mod rows;
pub mod text;

pub use output::Output;
pub use parquet::{Story, find_story};
pub use text::{RowFormat, RowWriter};
