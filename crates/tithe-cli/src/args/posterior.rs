//! Arguments of `fit`, `predict`, `report`, `export`, `generate` and `demo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tithe::data::generate::Recipe;
use tithe::mcmc::Sampler;
use tithe::model::{GroupPrior, Prior, PriorChoice};

use super::{ColumnArgs, DataArgs, EngineArgs, MissingArg, OutputArgs};

/// Priors of the coefficients.
#[derive(Debug, Args)]
pub struct PriorArgs {
    /// Prior of every coefficient: normal:SCALE, cauchy:SCALE, student:DEGREES:SCALE, laplace:SCALE,
    /// spike-slab:SPIKE:SLAB:INCLUSION or flat. It applies on the model's scale: per standard deviation of a numeric
    /// column, and between 0 and 1 for 0/1 columns and levels (see --standardize) [default: that of the coreset, or
    /// normal:2].
    #[arg(long, value_name = "PRIOR", help_heading = "Priors")]
    pub prior: Option<Prior>,

    /// Prior of the intercept, where all columns have their means [default: normal:10, or as --prior if that is wider].
    #[arg(long, value_name = "PRIOR", help_heading = "Priors")]
    pub intercept_prior: Option<Prior>,

    /// Prior of the standard deviations of group effects: half-normal:SCALE, half-student:DEGREES:SCALE, half-cauchy:SCALE
    /// or exponential:RATE [default: half-student:3:2.5].
    #[arg(long, value_name = "PRIOR", help_heading = "Priors")]
    pub group_prior: Option<GroupPrior>,

    /// Prior of one coefficient, such as age=normal:1 or city=Rome=normal:1. Can be given several times.
    #[arg(long, value_name = "NAME=PRIOR", value_parser = parse_named_prior, help_heading = "Priors")]
    pub prior_for: Vec<(String, Prior)>,
}

impl PriorArgs {
    /// The settings given by the user.
    pub fn choice(&self) -> Option<PriorChoice> {
        let is_given = self.prior.is_some() || self.intercept_prior.is_some() || !self.prior_for.is_empty();
        let usual = PriorChoice::default();
        is_given.then(|| PriorChoice {
            general: self.prior.unwrap_or(usual.general),
            intercept: self.intercept_prior,
            named: self.prior_for.clone(),
        })
    }
}

/// A number between 0 and 1, both excluded.
fn parse_probability(word: &str) -> Result<f64, String> {
    let number = word.parse().ok().filter(|number| *number > 0.0 && *number < 1.0);
    number.ok_or_else(|| "it must lie between 0 and 1, for example 0.95".to_string())
}

/// Splits at the last `=`: a name may contain `=` (`column=level`), a prior never does.
fn parse_named_prior(word: &str) -> Result<(String, Prior), String> {
    let (name, prior) = word.rsplit_once('=').ok_or("expected NAME=PRIOR, for example age=normal:1")?;
    Ok((name.to_string(), prior.parse().map_err(|error: tithe::base::error::Error| error.to_string())?))
}

/// `tithe fit`.
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.help(CORESET_OR_DATA)))]
pub struct FitArgs {
    #[command(flatten)]
    pub data: DataArgs,

    /// Posterior file to write. With --output-format stan-csv, one file per chain: NAME_1.csv, NAME_2.csv, ….
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Data: fit all rows, however long that takes [default: all rows if that takes at most about ten seconds on one core
    /// per chain, or else a coreset, whose draws are verified against all rows and corrected].
    #[arg(long)]
    pub whole: bool,

    /// Data: fit a coreset with this number of rows [default: 1000 or 20 per coefficient, and more if these are too few].
    #[arg(long, value_name = "M", conflicts_with = "whole", allow_negative_numbers = true)]
    pub size: Option<usize>,

    /// Data: fit a coreset with as few rows as needed for this KL divergence to the full data's posterior.
    #[arg(long, value_name = "NATS", conflicts_with_all = ["whole", "size"], allow_negative_numbers = true)]
    pub kl: Option<f64>,

    /// Data: fit a coreset, and write it to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "whole")]
    pub keep: Option<PathBuf>,

    /// Coreset: verify the draws against the data that the coreset was built from, and correct them if needed.
    #[arg(long, value_name = "DATA", num_args = 1..)]
    pub verify: Vec<String>,

    /// Format of the posterior file.
    #[arg(id = "posterior_format", long = "output-format", value_name = "FORMAT", value_enum, default_value_t = PosteriorFormat::Parquet)]
    pub posterior_format: PosteriorFormat,

    /// Sampler: nuts, mala (preconditioned), mala-plain (as in the paper) or laplace (draws from the normal
    /// approximation).
    #[arg(long, default_value = "nuts")]
    pub sampler: Sampler,

    /// Number of chains.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub chains: usize,

    /// Number of draws per chain, after warm-up.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub draws: usize,

    /// Number of warm-up iterations per chain.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub warmup: usize,

    /// Random seed. The same seed gives the same output, byte for byte.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Probability of the intervals of the odds ratios, between 0 and 1.
    #[arg(long, value_name = "P", default_value_t = 0.9, value_parser = parse_probability)]
    pub interval: f64,

    /// Treat warnings as errors (exit code 1).
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    pub priors: PriorArgs,

    #[command(flatten)]
    pub columns: ColumnArgs,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub show: OutputArgs,
}

const CORESET_OR_DATA: &str =
    "A coreset, or data: files, globs or directories, as for build; `-` reads standard input";

/// File format of a posterior.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PosteriorFormat {
    /// Parquet.
    Parquet,
    /// CmdStan's CSV format, one file per chain.
    StanCsv,
}

/// `tithe predict`.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// Posterior file.
    pub posterior: PathBuf,

    #[command(flatten)]
    pub data: DataArgs,

    /// File to write (.parquet or .csv).
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    /// Coverage of the interval, between 0 and 1.
    #[arg(long, value_name = "P", default_value_t = 0.9)]
    pub interval: f64,

    /// How to treat a level of a text column that did not occur in the data that the model was fitted to.
    #[arg(long, value_enum, default_value_t = UnseenArg::Error)]
    pub unseen: UnseenArg,

    /// How to treat a row in which a feature is missing, infinite or an integer too large to be exact.
    #[arg(long, value_enum, default_value_t = IncompleteArg::Empty)]
    pub missing: IncompleteArg,

    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// How to treat a row without a usable value of every feature.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum IncompleteArg {
    /// Write it with an empty prediction.
    Empty,
    /// Leave it out.
    Drop,
    /// Stop and report where it is.
    Error,
}

/// How to treat an unseen level.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum UnseenArg {
    /// Stop and report where it is.
    Error,
    /// Treat it as the reference level.
    Reference,
}

/// `tithe groups`.
#[derive(Debug, Args)]
pub struct GroupsArgs {
    /// Posterior file.
    pub posterior: PathBuf,

    /// Only the effects of this term, such as '1|store'.
    #[arg(long, value_name = "TERM")]
    pub term: Option<String>,

    /// Order of the group effects.
    #[arg(long, value_enum, default_value_t = GroupOrder::Name)]
    pub sort: GroupOrder,

    /// Show only the first N.
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// An order of group effects.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum GroupOrder {
    /// By name.
    Name,
    /// The largest mean first.
    Mean,
    /// The mean farthest from 0 first.
    Size,
    /// The most uncertain first.
    Sd,
    /// The fewest effective draws first.
    Ess,
}

/// `tithe report`.
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.long("data").num_args(1..).required(false).help(CHECKED_DATA)))]
pub struct ReportArgs {
    /// Posterior file.
    pub posterior: PathBuf,

    #[command(flatten)]
    pub data: DataArgs,

    /// HTML file to write. It is self-contained.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    /// Probability of the intervals of the odds ratios, between 0 and 1.
    #[arg(long, value_name = "P", default_value_t = 0.9, value_parser = parse_probability)]
    pub interval: f64,

    /// How to treat missing values in the data [default: as for the fit].
    #[arg(long, value_enum)]
    pub missing: Option<MissingArg>,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub show: OutputArgs,
}

const CHECKED_DATA: &str =
    "Rows with the label, the fitted or other ones: adds how well the model fits them, as in `tithe check`";

/// `tithe export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Coreset file.
    pub coreset: PathBuf,

    /// Tool to export to.
    #[arg(long, value_enum)]
    pub to: ToolArg,

    /// Directory for data.json and the model. It is created if needed.
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,

    #[command(flatten)]
    pub priors: PriorArgs,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// The tools that a coreset can be exported to.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ToolArg {
    /// Stan.
    Stan,
    /// PyMC.
    Pymc,
    /// NumPyro.
    Numpyro,
}

/// `tithe generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Data set to generate: binary5, binary10 or mixture.
    pub recipe: Recipe,

    /// Number of rows.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub rows: u64,

    /// Random seed. The same seed gives the same output, byte for byte.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// File to write (.parquet, .csv or .libsvm).
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// `tithe demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Number of rows of each data set.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, hide = true)]
    pub rows: usize,

    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}
