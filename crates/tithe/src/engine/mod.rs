//! Runs passes over all rows, on every core, from memory or from files.

mod assembly;
mod kept;
mod local;
pub(crate) mod parts;
pub mod pass;

pub use local::{Engine, EngineSettings, LocalEngine, Missing, default_block_rows, thread_pool};
