//! Arguments of `paper` and `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tithe::results::mmd::Kernel;
use tithe_paper::profile::Profile;

use super::{DataArgs, OutputArgs};

/// `tithe paper`.
#[derive(Debug, Args)]
pub struct PaperArgs {
    /// Experiments to run [default: all].
    #[arg(value_enum, value_name = "FIGURE")]
    pub figures: Vec<FigureArg>,

    /// Run small data sets with few repeats, in minutes instead of hours. Same as --profile quick.
    #[arg(long, conflicts_with = "profile")]
    pub quick: bool,

    /// How much to run: quick (minutes), night (a few hours on two cores) or full (the paper's settings; many hours)
    /// [default: full].
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<Profile>,

    /// Directory with the real data sets: covtype, ds1_100 or ds1_10, webspam or census_income, as .parquet, .csv or
    /// .libsvm files with a column `label`. Missing data sets are skipped.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Output directory. Results of an interrupted run in it are reused.
    #[arg(long, short, value_name = "DIR", default_value = "tithe-paper")]
    pub output: PathBuf,

    /// Start no experiment after this many minutes, and draw the figures from what is finished.
    #[arg(long, value_name = "MINUTES")]
    pub stop_after: Option<f64>,

    /// Number of threads, each running one cell of an experiment at a time [default: one per core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// The experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FigureArg {
    /// Fraction of the time spent on building the coreset.
    Fig1a,
    /// Mean sensitivities of Binary10, by R and k.
    Fig1b,
    /// Mean sensitivities of a real data set.
    Fig1c,
    /// MMD and test log-likelihood by size.
    Fig2,
    /// Results for other k and a.
    Robustness,
    /// Measurements of the quantities in the theorems.
    Theory,
}

/// `tithe compare`.
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.long("test").num_args(1..).required(false).help(TEST_DATA)))]
pub struct CompareArgs {
    /// Posterior to evaluate.
    pub posterior: PathBuf,

    /// Reference posterior, such as one fitted to all rows.
    pub reference: PathBuf,

    #[command(flatten)]
    pub data: DataArgs,

    /// Kernel of the maximum mean discrepancy (MMD): polynomial:DEGREE:OFFSET or gaussian:SCALE.
    #[arg(long, value_name = "KERNEL", default_value = "polynomial:3:0.2")]
    pub kernel: Kernel,

    /// With --test: number of draws used for the predictions, evenly spaced.
    #[arg(long, value_name = "S", default_value_t = 1000)]
    pub draws: usize,

    /// Data that both posteriors were fitted to: compare their predictions by leave-one-out cross-validation. The posteriors may
    /// have different columns; nothing else is then compared.
    #[arg(long, value_name = "DATA", num_args = 1.., conflicts_with_all = ["data", "plot"])]
    pub loo: Vec<String>,

    /// With --loo: number of rows, chosen at random, that are left out one by one.
    #[arg(long, value_name = "M", default_value_t = 1000, requires = "loo")]
    pub loo_rows: usize,

    /// Plot the means and 90 % intervals of both posteriors to this file (.svg or .png).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,

    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}

const TEST_DATA: &str = "Labelled test data on which to score the predictions of both posteriors: files, globs or directories, as for build";
