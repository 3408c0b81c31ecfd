//! Arguments of `verify` and `certify`.

use std::path::PathBuf;

use clap::Args;

use super::posterior::PriorArgs;
use super::{DataArgs, EngineArgs, MissingArg, OutputArgs};

/// `tithe verify`.
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.long("data").num_args(1..).help(FULL_DATA)))]
pub struct VerifyArgs {
    /// Posterior file.
    pub posterior: PathBuf,

    #[command(flatten)]
    pub data: DataArgs,

    /// Number of draws to check, evenly spaced [default: 400, and more if the importance weights are unreliable or the
    /// verdict is close].
    #[arg(long, value_name = "S")]
    pub draws: Option<usize>,

    /// Write the checked draws to this file, with a column `weight` of importance weights.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,

    /// With --write: resample the draws in proportion to their weights and write an ordinary posterior file.
    #[arg(long, requires = "write")]
    pub resample: bool,

    /// Also search the parameter ball for the largest relative error of the log-likelihood, which is a lower bound for
    /// the paper's ε. Takes a few more passes; needs --coreset.
    #[arg(long, requires = "coreset")]
    pub epsilon_check: bool,

    /// With --epsilon-check: coreset that the posterior was fitted to.
    #[arg(long, value_name = "FILE", requires = "epsilon_check")]
    pub coreset: Option<PathBuf>,

    /// Continue even if this is not the data that the posterior was fitted to.
    #[arg(long)]
    pub force: bool,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// `tithe check`.
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.long("data").num_args(1..).help(LABELLED_DATA)))]
pub struct CheckArgs {
    /// Posterior file.
    pub posterior: PathBuf,

    #[command(flatten)]
    pub data: DataArgs,

    /// Number of draws that predictions are averaged over, evenly spaced.
    #[arg(long, value_name = "S", default_value_t = 400)]
    pub draws: usize,

    /// Number of rows, chosen at random, that are left out one by one for leave-one-out cross-validation; 0 skips it.
    #[arg(long, value_name = "M", default_value_t = 1000)]
    pub loo: usize,

    /// How to treat rows with a missing or infinite value, or an integer too large to be exact [default: as for the fit].
    #[arg(long, value_enum)]
    pub missing: Option<MissingArg>,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub show: OutputArgs,
}

const LABELLED_DATA: &str = "Rows with the label: files, globs or directories, as for build; preferably rows that the model was not fitted to";

/// `tithe certify`.
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.long("data").num_args(1..).help(FULL_DATA)))]
pub struct CertifyArgs {
    /// Coreset file.
    pub coreset: PathBuf,

    #[command(flatten)]
    pub data: DataArgs,

    #[command(flatten)]
    pub priors: PriorArgs,

    /// Continue even if this is not the data that the coreset was built from.
    #[arg(long)]
    pub force: bool,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub show: OutputArgs,
}

const FULL_DATA: &str =
    "The full data: files, globs or directories, as for build; the roles of the columns are known";
