//! Runs passes over all rows of a table, on every core, from memory or from files.

mod assembly;
mod cache;
mod local;
pub(crate) mod parts;
pub mod pass;
mod run;
mod settings;

pub use local::LocalEngine;
pub use settings::{EngineSettings, Missing, default_block_rows, thread_pool};

use crate::base::error::Result;
use crate::base::progress::Observer;
use crate::data::block::row_name;
use crate::data::table::Table;
use crate::engine::pass::Pass;

/// Runs passes over one table. An engine only reads rows and merges states; all arithmetic is in the passes.
pub trait Engine: Sync {
    /// The table that the passes read.
    fn table(&self) -> &Table;

    /// Runs a pass over all blocks. Returns `None` if the table has no rows.
    fn run<P: Pass>(&self, pass: &P) -> Result<Option<P::State>>;

    /// The treatment of rows with a missing, infinite or inexact value.
    fn missing(&self) -> Missing;

    /// The number of passes so far.
    fn passes(&self) -> usize;

    /// True if rows can change between passes without the engine noticing.
    fn rows_may_change(&self) -> bool {
        false
    }

    /// Receives progress events.
    fn observer(&self) -> &dyn Observer;

    /// Runs work between passes on the engine's own threads, so that no other thread pool is needed.
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        work()
    }

    /// The name of the row at a position, for messages.
    fn row_name(&self, position: u64) -> String {
        row_name(position)
    }
}
