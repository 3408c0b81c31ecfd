//! What the user may type of coresets that come of others.

use std::path::PathBuf;

use clap::Args;

use super::{ChoiceArgs, OutputArgs};

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
