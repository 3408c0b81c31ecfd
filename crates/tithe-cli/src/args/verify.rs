//! What the user may type after `verify` and `certify`.

use std::path::PathBuf;

use clap::Args;

use super::{DataArgs, EngineArgs, OutputArgs};

/// `tithe verify`.
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.long("data").num_args(1..).help(FULL_DATA)))]
pub struct VerifyArgs {
    /// The posterior file.
    pub posterior: PathBuf,

    #[command(flatten)]
    pub data: DataArgs,

    /// How many of the posterior's draws to look at, evenly spaced.
    #[arg(long, value_name = "S", default_value_t = 400)]
    pub draws: usize,

    /// Write these draws with a column `weight` of importance weights.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,

    /// With --write: draw anew in proportion to the weights, so that the file is a posterior like any other.
    #[arg(long, requires = "write")]
    pub resample: bool,

    /// Also search the ball for the largest relative error of the log-likelihood, a lower bound of the paper's ε: a few
    /// more passes; needs --coreset.
    #[arg(long, requires = "coreset")]
    pub epsilon_check: bool,

    /// With --epsilon-check: the coreset that the posterior was fitted to.
    #[arg(long, value_name = "FILE", requires = "epsilon_check")]
    pub coreset: Option<PathBuf>,

    /// Go on even if this is not the data that the posterior speaks of.
    #[arg(long)]
    pub force: bool,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// `tithe certify`.
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.long("data").num_args(1..).help(FULL_DATA)))]
pub struct CertifyArgs {
    /// The coreset file.
    pub coreset: PathBuf,

    #[command(flatten)]
    pub data: DataArgs,

    /// Standard deviation of the normal prior of both posteriors, on the standardised scale.
    #[arg(long, value_name = "SD", default_value_t = 2.0)]
    pub prior_scale: f64,

    /// Go on even if this is not the data that the coreset was built from.
    #[arg(long)]
    pub force: bool,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub show: OutputArgs,
}

const FULL_DATA: &str =
    "The full data: files, globs and directories, as for build; the columns are known already";
