//! Settings of the local engine, and the defaults for threads and block size.

use crate::base::error::{Error, Result, Setting};
use crate::data::block::Block;

/// What to do with rows that have missing, infinite or inexact values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Missing {
    /// Stop with an error that names the columns and rows.
    #[default]
    Error,
    /// Skip such rows, and count them.
    Drop,
    /// Use the mean in place of missing numbers, with a coefficient for "missing"; missing text is a level. Rows without a label are
    /// skipped.
    Indicator,
    /// Use the mean in place of missing numbers, and the reference level in place of missing text. Rows without a label are skipped.
    Mean,
}

impl Missing {
    /// True if missing values of features are replaced.
    pub(crate) fn is_substituted(self) -> bool {
        matches!(self, Missing::Indicator | Missing::Mean)
    }

    /// The rows of a block that are in use; the label is its column `features`.
    pub(crate) fn in_use(self, block: Block, features: usize) -> Block {
        match self {
            Missing::Error => block,
            Missing::Drop => block.without_unusable_rows(),
            Missing::Indicator | Missing::Mean => block.without_missing_from(features),
        }
    }
}

/// Settings of the local engine. Only `missing` and `block_rows` change results.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The number of threads; `None` uses one thread per core.
    pub threads: Option<usize>,
    /// The number of bytes of decoded rows to keep in memory; other rows are read again in every pass.
    pub memory: u64,
    /// What to do with unusable rows.
    pub missing: Missing,
    /// The number of rows per block; `None` chooses by the number of columns.
    pub block_rows: Option<usize>,
}

impl Default for EngineSettings {
    fn default() -> EngineSettings {
        EngineSettings { threads: None, memory: 4 << 30, missing: Missing::Error, block_rows: None }
    }
}

/// A limit that is larger than the number of cores of any machine.
const MAX_THREADS: usize = 1024;

/// The default number of rows per block: 65,536 for narrow tables. Wide tables have fewer (a power of two, at least 1,024), so that a block
/// has at most 8 MiB.
pub fn default_block_rows(columns: usize) -> usize {
    let fitting = (1 << 20) / columns.max(1);
    if fitting >= 1 << 16 { 1 << 16 } else { (fitting.max(1).next_power_of_two() / 2).max(1 << 10) }
}

/// Creates a pool with this number of threads; `None` uses one thread per core.
pub fn thread_pool(threads: Option<usize>) -> Result<rayon::ThreadPool> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.unwrap_or_else(cores);
    if threads == 0 || threads > MAX_THREADS {
        return Err(Error::setting(Setting::Threads, format!("must be between 1 and {MAX_THREADS}")));
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Error::setting(Setting::Threads, format!("cannot be started: {error}")))
}
