//! What the user may type of coresets that come of others.

use std::path::PathBuf;

use clap::Args;

use super::{ChoiceArgs, ColumnArgs, OutputArgs, ReadingArgs, UnseenArg};

/// `tithe merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The coresets to join.
    #[arg(required = true, value_name = "CORESET")]
    pub coresets: Vec<PathBuf>,

    /// The coreset file to write.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    #[command(flatten)]
    pub choice: ChoiceArgs,

    /// Number of threads [default: one a core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// What a state has decided for good, and what only readers need.
const SETTINGS: [&str; 30] = [
    "size",
    "epsilon",
    "delta",
    "constant",
    "method",
    "clusters",
    "radius",
    "theta_star",
    "centers",
    "no_collapse",
    "prior_scale",
    "seed",
    "label",
    "positive",
    "features",
    "exclude",
    "weight",
    "missing",
    "no_intercept",
    "no_standardize",
    "max_levels",
    "format",
    "no_header",
    "zero_based",
    "text",
    "block",
    "warmup_rows",
    "encoding",
    "unseen",
    "skip_bad",
];

/// `tithe stream`.
#[derive(Debug, Args)]
pub struct StreamArgs {
    /// Files, globs and directories to read in place of standard input.
    #[arg(value_name = "DATA", conflicts_with_all = ["follow", "watch"])]
    pub data: Vec<String>,

    /// The directory that holds the stream's state; it goes on where it was.
    #[arg(long, value_name = "DIR")]
    pub state: PathBuf,

    /// Write the coreset of everything that is in, and read nothing; the stream may be running.
    #[arg(
        long,
        requires = "output",
        conflicts_with_all = ["data", "follow", "watch", "replay", "repair"],
        conflicts_with_all = SETTINGS
    )]
    pub snapshot: bool,

    /// The coreset file to write, with --snapshot or when the input has ended; with --follow and --watch, when stopped.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// The input is fed again from its first row: rows that are in are skipped, and must be the same.
    #[arg(long)]
    pub replay: bool,

    /// Fall back to the last state that is whole, and tell how many rows must be fed again.
    #[arg(long, conflicts_with_all = ["data", "follow", "watch", "replay", "output"], conflicts_with_all = SETTINGS)]
    pub repair: bool,

    /// Read a file that grows, until stopped.
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub follow: Option<PathBuf>,

    /// Read the files that appear in a directory, each once, until stopped.
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    pub watch: Option<PathBuf>,

    /// Rows in a block.
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub block: usize,

    /// Rows from which levels and moments are learnt [default: those of the first block].
    #[arg(long, value_name = "N", conflicts_with = "encoding", help_heading = "Columns")]
    pub warmup_rows: Option<usize>,

    /// Take the encoding of this coreset (levels, means and scales) in place of learning one.
    #[arg(long, value_name = "CORESET", help_heading = "Columns")]
    pub encoding: Option<PathBuf>,

    /// What to do with a level that was not there when the encoding was learnt.
    #[arg(long, value_enum, default_value_t = UnseenArg::Error, help_heading = "Columns")]
    pub unseen: UnseenArg,

    /// Leave out rows that cannot be read, at most so many, and count them.
    #[arg(long, value_name = "N", help_heading = "Reading")]
    pub skip_bad: Option<u64>,

    #[command(flatten)]
    pub choice: ChoiceArgs,

    #[command(flatten)]
    pub reading: ReadingArgs,

    #[command(flatten)]
    pub columns: ColumnArgs,

    /// Number of threads [default: one a core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}
