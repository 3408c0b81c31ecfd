//! What the user may type after `paper` and `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tithe::results::mmd::Kernel;
use tithe_paper::profile::Profile;

use super::{DataArgs, OutputArgs};

/// `tithe paper`.
#[derive(Debug, Args)]
pub struct PaperArgs {
    /// What to run [default: everything].
    #[arg(value_enum, value_name = "FIGURE")]
    pub figures: Vec<FigureArg>,

    /// A few minutes instead of many hours: small data, few repeats; shows that everything works.
    #[arg(long, conflicts_with = "profile")]
    pub quick: bool,

    /// How much to run: quick (minutes), night (a few hours of two cores) or full (the paper's settings; many hours)
    /// [default: full].
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<Profile>,

    /// The directory with the real data sets: covtype, ds1_100 or ds1_10, webspam or census_income, as .parquet, .csv or
    /// .libsvm with a column `label`; those that are not there are left out.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// The directory to write to; what is there already of a run that was stopped is used.
    #[arg(long, short, value_name = "DIR", default_value = "tithe-paper")]
    pub output: PathBuf,

    /// Begin nothing after so many minutes, and draw what is there.
    #[arg(long, value_name = "MINUTES")]
    pub stop_after: Option<f64>,

    /// Number of threads: cells at the same time [default: one a core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// What can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FigureArg {
    /// Share of the time spent building.
    Fig1a,
    /// Mean sensitivities of Binary10, by R and k.
    Fig1b,
    /// Mean sensitivities of a real set.
    Fig1c,
    /// MMD and test log-likelihood by size.
    Fig2,
    /// Results for other k and a.
    Robustness,
    /// The theorems, measured.
    Theory,
}

/// `tithe compare`.
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.long("test").num_args(1..).required(false).help(TEST_DATA)))]
pub struct CompareArgs {
    /// The posterior to look at.
    pub posterior: PathBuf,

    /// The posterior to compare it with, such as that of all rows.
    pub reference: PathBuf,

    #[command(flatten)]
    pub data: DataArgs,

    /// The kernel of the discrepancy: polynomial:DEGREE:OFFSET or gaussian:SCALE.
    #[arg(long, value_name = "KERNEL", default_value = "polynomial:3:0.2")]
    pub kernel: Kernel,

    /// With --test: how many draws to predict by, evenly spaced.
    #[arg(long, value_name = "S", default_value_t = 1000)]
    pub draws: usize,

    /// Draw means and 90 % intervals of both to this file: .svg or .png.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,

    /// Number of threads [default: one a core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}

const TEST_DATA: &str =
    "Labelled rows to score the predictions of both on: files, globs and directories, as for build";
