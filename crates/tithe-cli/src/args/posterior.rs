//! What the user may type after `fit`, `predict`, `export`, `generate` and `demo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tithe::data::generate::Recipe;
use tithe::mcmc::Sampler;
use tithe::model::Prior;

use super::{ColumnArgs, DataArgs, EngineArgs, OutputArgs};

/// What is believed of the coefficients beforehand.
#[derive(Debug, Args)]
pub struct PriorArgs {
    /// The prior of every coefficient, on the model's scale, on which columns of numbers have mean 0 and standard
    /// deviation 1: normal:SCALE, cauchy:SCALE, student:DEGREES:SCALE, laplace:SCALE, spike-slab:SPIKE:SLAB:INCLUSION or
    /// flat.
    #[arg(long, value_name = "PRIOR", default_value = "normal:2", help_heading = "Priors")]
    pub prior: Prior,

    /// The intercept's prior [default: as --prior].
    #[arg(long, value_name = "PRIOR", help_heading = "Priors")]
    pub intercept_prior: Option<Prior>,

    /// The prior of one coefficient, such as age=normal:1 or city=Rome=normal:1; may be given often.
    #[arg(long, value_name = "NAME=PRIOR", value_parser = parse_named_prior, help_heading = "Priors")]
    pub prior_for: Vec<(String, Prior)>,
}

/// A name may hold `=` itself (`column=level`), a prior never does.
fn parse_named_prior(word: &str) -> Result<(String, Prior), String> {
    let (name, prior) = word.rsplit_once('=').ok_or("say NAME=PRIOR, for example age=normal:1")?;
    Ok((name.to_string(), prior.parse().map_err(|error: tithe::base::error::Error| error.to_string())?))
}

/// `tithe fit`.
#[derive(Debug, Args)]
// The data's format has another name here, where --format is that of the posterior.
#[command(mut_arg("format", |format| format.long("input-format")))]
pub struct FitArgs {
    #[command(flatten)]
    pub data: DataArgs,

    /// The posterior file to write; with --format stan-csv, one file a chain: NAME_1.csv, NAME_2.csv, ….
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// What to write.
    #[arg(id = "posterior_format", long = "format", value_enum, default_value_t = PosteriorFormat::Parquet)]
    pub posterior_format: PosteriorFormat,

    /// How to draw: nuts, mala (preconditioned), mala-plain (the paper's), or laplace (the normal approximation).
    #[arg(long, default_value = "nuts")]
    pub sampler: Sampler,

    /// Number of chains.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub chains: usize,

    /// Draws kept of each chain.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub draws: usize,

    /// Iterations of each chain before the first draw is kept.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub warmup: usize,

    /// The seed: the same seed gives the same bytes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Fail (exit code 1) if there is anything to warn of.
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

/// How a posterior is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PosteriorFormat {
    /// A Parquet table.
    Parquet,
    /// CmdStan's CSV, one file a chain.
    StanCsv,
}

/// `tithe predict`.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// The posterior file.
    pub posterior: PathBuf,

    #[command(flatten)]
    pub data: DataArgs,

    /// The file to write: .parquet or .csv.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    /// The probability that the interval holds.
    #[arg(long, value_name = "P", default_value_t = 0.9)]
    pub interval: f64,

    /// What to do with a level of text that was not there when the model was fitted.
    #[arg(long, value_enum, default_value_t = UnseenArg::Error)]
    pub unseen: UnseenArg,

    /// Number of threads [default: one a core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// What to do with an unseen level.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum UnseenArg {
    /// Stop, and say where it is.
    Error,
    /// Take it for the reference level.
    Reference,
}

/// `tithe report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The posterior file.
    pub posterior: PathBuf,

    /// The page to write; it needs no other file.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// `tithe export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The coreset file.
    pub coreset: PathBuf,

    /// The tool to write for.
    #[arg(long, value_enum)]
    pub to: ToolArg,

    /// The directory to write data.json and the model to; it is made if need be.
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,

    #[command(flatten)]
    pub priors: PriorArgs,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// The tools there are models for.
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
    /// What to make: binary5, binary10 or mixture.
    pub recipe: Recipe,

    /// Number of rows.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub rows: u64,

    /// The seed: the same seed gives the same bytes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// The file to write: .parquet, .csv or .libsvm.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// `tithe demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Rows of each data set.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, hide = true)]
    pub rows: usize,

    /// The seed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Number of threads [default: one a core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub show: OutputArgs,
}
