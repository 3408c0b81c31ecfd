//! Arguments of `merge` and `stream`.

use std::path::PathBuf;

use clap::Args;

use super::{ChoiceArgs, ColumnArgs, OutputArgs, ReadingArgs, UnseenArg};

/// `tithe merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Coreset files to merge.
    #[arg(required = true, value_name = "CORESET")]
    pub coresets: Vec<PathBuf>,

    /// Coreset file to write.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    #[command(flatten)]
    pub choice: ChoiceArgs,

    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// Flags that conflict with `--snapshot` and `--repair`: settings that are fixed in the state, and settings for reading
/// input, which these two do not do.
const SETTINGS: [&str; 43] = [
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
    "prior",
    "intercept_prior",
    "prior_for",
    "certificate",
    "seed",
    "formula",
    "label",
    "positive",
    "features",
    "exclude",
    "dates",
    "weight",
    "missing",
    "no_intercept",
    "standardize",
    "no_standardize",
    "max_levels",
    "groups",
    "min_level_rows",
    "format",
    "no_header",
    "zero_based",
    "text",
    "delimiter",
    "decimal",
    "null_values",
    "numbers",
    "block",
    "warmup_rows",
    "half_life",
    "encoding",
    "unseen",
    "skip_bad",
];

/// `tithe stream`.
#[derive(Debug, Args)]
pub struct StreamArgs {
    /// Files, globs or directories to read instead of standard input.
    #[arg(value_name = "DATA", conflicts_with_all = ["follow", "watch"])]
    pub data: Vec<String>,

    /// Directory with the state of the stream. If it exists, the stream resumes from it.
    #[arg(long, value_name = "DIR")]
    pub state: PathBuf,

    /// Write the coreset of all rows read so far, without reading input. The stream may be running.
    #[arg(
        long,
        requires = "output",
        conflicts_with_all = ["data", "follow", "watch", "replay", "repair"],
        conflicts_with_all = SETTINGS
    )]
    pub snapshot: bool,

    /// Coreset file to write, with --snapshot or at the end of the input. With --follow and --watch it is written when
    /// the stream is stopped.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// The input starts again at the first row: skip the rows already read, after checking that they are the same.
    #[arg(long)]
    pub replay: bool,

    /// Restore the last undamaged state, and report how many rows must be fed again.
    #[arg(long, conflicts_with_all = ["data", "follow", "watch", "replay", "output"], conflicts_with_all = SETTINGS)]
    pub repair: bool,

    /// Read a growing file until stopped (Ctrl-C).
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub follow: Option<PathBuf>,

    /// Read files as they appear in a directory, each once, until stopped (Ctrl-C).
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    pub watch: Option<PathBuf>,

    /// Rows per block.
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub block: usize,

    /// Forget: every row loses half of its weight in each N further rows, so that old data fades towards the prior
    /// [default: rows keep their weights].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub half_life: Option<f64>,

    /// Number of rows from which levels, means and scales are learnt [default: the first block].
    #[arg(long, value_name = "N", conflicts_with = "encoding", help_heading = "Columns")]
    pub warmup_rows: Option<usize>,

    /// Use the encoding of this coreset (levels, means and scales) instead of learning one.
    #[arg(long, value_name = "CORESET", help_heading = "Columns")]
    pub encoding: Option<PathBuf>,

    /// How to treat a level of a text column that did not occur when the encoding was learnt.
    #[arg(long, value_enum, default_value_t = UnseenArg::Error, help_heading = "Columns")]
    pub unseen: UnseenArg,

    /// Skip and count up to N rows that cannot be parsed. With --watch, a file that cannot be read counts as one of them.
    #[arg(long, value_name = "N", help_heading = "Reading")]
    pub skip_bad: Option<u64>,

    #[command(flatten)]
    pub choice: ChoiceArgs,

    #[command(flatten)]
    pub reading: ReadingArgs,

    #[command(flatten)]
    pub columns: ColumnArgs,

    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}
