//! Command-line arguments as the user types them. Only their syntax is checked here; `plan` checks their meaning.

mod examples;
mod paper;
mod posterior;
mod stream;
mod verify;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tithe::base::error::Setting;
use tithe::coreset::build::CertificateBy;
use tithe::coreset::sensitivity::Radius;
use tithe::data::source::{Decimal, Delimiter, Format};
use tithe::engine::Missing;

pub use paper::{CompareArgs, FigureArg, PaperArgs};
pub use posterior::{
    DemoArgs, ExportArgs, FitArgs, GenerateArgs, GroupOrder, GroupsArgs, IncompleteArg, PosteriorFormat,
    PredictArgs, PriorArgs, ReportArgs, ToolArg, UnseenArg,
};
pub use stream::{MergeArgs, StreamArgs};
pub use verify::{CertifyArgs, CheckArgs, VerifyArgs};

/// Bayesian logistic regression on large data, using a few hundred weighted rows (a coreset).
#[derive(Debug, Parser)]
#[command(name = "tithe", version, propagate_version = true, arg_required_else_help = true, after_help = examples::PROGRAM)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build a coreset: a few weighted rows that represent the full data.
    #[command(after_help = examples::BUILD)]
    Build(Box<BuildArgs>),
    /// Maintain a coreset of an endless stream; can be stopped, killed and resumed at any time.
    #[command(after_help = examples::STREAM)]
    Stream(Box<StreamArgs>),
    /// Merge coresets that were built separately, for example on different days or machines.
    #[command(after_help = examples::MERGE)]
    Merge(Box<MergeArgs>),
    /// Draw from the posterior, given a coreset or the data itself.
    #[command(after_help = examples::FIT)]
    Fit(Box<FitArgs>),
    /// Compare a posterior with the full data in one pass, and correct it.
    #[command(after_help = examples::VERIFY)]
    Verify(Box<VerifyArgs>),
    /// Check how well a posterior predicts labelled rows: AUC, log loss, Brier score and calibration.
    #[command(after_help = examples::CHECK)]
    Check(Box<CheckArgs>),
    /// Measure how far a coreset's posterior is from the full data's, for any build method.
    #[command(after_help = examples::CERTIFY)]
    Certify(Box<CertifyArgs>),
    /// Compare two posteriors: MMD, KL divergence, means, standard deviations and predictions.
    #[command(after_help = examples::COMPARE)]
    Compare(Box<CompareArgs>),
    /// Predict the probability of the positive class for new rows, with an interval.
    #[command(after_help = examples::PREDICT)]
    Predict(Box<PredictArgs>),
    /// Show the scales and group effects of a hierarchical model.
    Groups(GroupsArgs),
    /// Write an HTML report of a posterior.
    #[command(after_help = examples::REPORT)]
    Report(ReportArgs),
    /// Export a coreset and a matching model to Stan, PyMC or NumPyro.
    #[command(after_help = examples::EXPORT)]
    Export(ExportArgs),
    /// Generate the paper's synthetic data sets, with any number of rows.
    #[command(after_help = examples::GENERATE)]
    Generate(GenerateArgs),
    /// Compare a coreset with random rows and with the full data, on generated data.
    #[command(after_help = examples::DEMO)]
    Demo(DemoArgs),
    /// Reproduce the paper's experiments and figures.
    #[command(after_help = examples::PAPER)]
    Paper(PaperArgs),
    /// Show what a file contains and how it was made.
    #[command(after_help = examples::INSPECT)]
    Inspect(InspectArgs),
    /// Print a completion script for a shell.
    #[command(after_help = examples::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print the manual page, or write one page per command to a directory.
    #[command(after_help = examples::MAN)]
    Man(ManArgs),
}

/// The input data.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// Files, globs or directories of part files: Parquet, Arrow IPC, CSV, TSV, NDJSON or LIBSVM; text formats may be
    /// compressed with gzip or zstd. `-` reads standard input.
    #[arg(required = true, value_name = "DATA")]
    pub data: Vec<String>,

    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// How files are read.
#[derive(Clone, Debug, Args)]
pub struct ReadingArgs {
    /// Format of the input: parquet, csv, tsv, ndjson, libsvm, arrow or arrow-stream [default: detected from the
    /// content].
    #[arg(long, value_name = "FORMAT", help_heading = "Reading")]
    pub format: Option<Format>,

    /// CSV and TSV: the first row is data, not a header; columns are named x1, x2, ….
    #[arg(long, help_heading = "Reading")]
    pub no_header: bool,

    /// LIBSVM: feature indices start at 0, even if index 0 does not occur.
    #[arg(long, help_heading = "Reading")]
    pub zero_based: bool,

    /// CSV and TSV: character between fields: comma, semicolon, tab or pipe, or the character itself [default: detected].
    #[arg(long, value_name = "CHARACTER", help_heading = "Reading")]
    pub delimiter: Option<Delimiter>,

    /// CSV and TSV: decimal separator: point or comma [default: detected].
    #[arg(long, value_name = "CHARACTER", help_heading = "Reading")]
    pub decimal: Option<Decimal>,

    /// CSV and TSV: words for missing values, besides NA, N/A, NaN, null and empty fields.
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ',',
        allow_hyphen_values = true,
        help_heading = "Reading"
    )]
    pub null_values: Vec<String>,

    /// CSV and TSV: read these columns as numbers although they have percent signs (8 % is 0.08), currencies or separated
    /// thousands.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Reading")]
    pub numbers: Vec<String>,

    /// Read these columns as text (categories) even if they contain numbers. Put names that contain commas in double
    /// quotes.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Reading")]
    pub text: Vec<String>,
}

/// The role of each column, and how it is encoded.
#[derive(Debug, Args)]
pub struct ColumnArgs {
    /// Formula of the model, as in R: 'y ~ age * city + bs(income, df=5) + log(visits + 1)'. It replaces --label, --features and
    /// --no-intercept.
    #[arg(long, value_name = "FORMULA", help_heading = "Columns")]
    pub formula: Option<String>,

    /// Column with the two classes [default: the left side of the formula; for LIBSVM label].
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    pub label: Option<String>,

    /// Value of the label that counts as positive; needed if the label is text.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, help_heading = "Columns")]
    pub positive: Option<String>,

    /// Use only these columns as features. Put names that contain commas in double quotes.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Columns")]
    pub features: Option<Vec<String>>,

    /// Do not use these columns as features.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Columns")]
    pub exclude: Vec<String>,

    /// Columns of text that are dates, if they are not detected. Dates enter the model as days (since 2000-01-01), month, weekday
    /// and hour; --features and --exclude name parts as COLUMN.month, and COLUMN.year. --text COLUMN keeps dates as text.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Columns")]
    pub dates: Vec<String>,

    /// Column with row weights, if the data is already weighted.
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    pub weight: Option<String>,

    /// How to treat missing values (drop: also infinite values and integers too large to be exact).
    #[arg(long, value_enum, default_value_t = MissingArg::Error, help_heading = "Columns")]
    pub missing: MissingArg,

    /// Fit no intercept. Columns are then scaled but not centred.
    #[arg(long, help_heading = "Columns")]
    pub no_intercept: bool,

    /// Which columns to standardise for the model. Coefficients are reported in the units of the data in any case.
    #[arg(long, value_enum, value_name = "COLUMNS", help_heading = "Columns")]
    pub standardize: Option<StandardizeArg>,

    /// Same as --standardize none.
    #[arg(long, hide = true, conflicts_with = "standardize")]
    pub no_standardize: bool,

    /// Maximum number of levels of a text column.
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Columns")]
    pub max_levels: usize,

    /// Effects that vary by group: "1 | shop", "1 + price | shop", or "1 + price || shop" without correlations.
    #[arg(long, value_name = "TERM", help_heading = "Columns")]
    pub groups: Option<String>,

    /// Group the levels of a text column that occur in fewer rows than this into the level "other".
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = "Columns")]
    pub min_level_rows: u64,
}

impl ColumnArgs {
    /// The settings given by the user that determine how columns are encoded.
    pub fn encoding_settings(&self) -> Vec<Setting> {
        let given = [
            (Setting::Formula, self.formula.is_some()),
            (Setting::Label, self.label.is_some()),
            (Setting::Positive, self.positive.is_some()),
            (Setting::Features, self.features.is_some()),
            (Setting::Exclude, !self.exclude.is_empty()),
            (Setting::Weight, self.weight.is_some()),
            (Setting::Intercept, self.no_intercept),
            (Setting::Standardize, self.standardize.is_some() || self.no_standardize),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(setting, _)| setting).collect()
    }
}

/// Threads and memory.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    /// Memory for decoded rows, such as 4GiB. Rows that do not fit are read again in each pass. Each thread needs additional
    /// memory: for decoding, and about 32 D² bytes for D coefficients [default: half of what the process may use].
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Running")]
    pub memory: Option<u64>,

    /// Rows per block [default: depends on the number of columns]. The result depends on it.
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub block_rows: Option<usize>,
}

/// How results and progress are shown.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// Print the result as JSON.
    #[arg(long, help_heading = "Running")]
    pub json: bool,

    /// Show only errors: no progress, warnings or notes, and no summary of what was written to a file.
    #[arg(long, short, help_heading = "Running")]
    pub quiet: bool,
}

/// How many rows a coreset has, and how they are chosen.
#[derive(Debug, Args)]
pub struct ChoiceArgs {
    /// Number of rows of the coreset. It can have slightly fewer, because rows selected more than once are stored once
    /// [default: 1000].
    #[arg(long, value_name = "M", conflicts_with = "epsilon", allow_negative_numbers = true)]
    pub size: Option<usize>,

    /// Select as many rows as guarantee this relative error of the log-likelihood everywhere in the parameter ball.
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    pub epsilon: Option<f64>,

    /// With --epsilon: probability that the guarantee fails [default: 0.05].
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true, requires = "epsilon")]
    pub delta: Option<f64>,

    /// With --epsilon: constant c in the size rule M = c m/ε² ((D+1) ln m + ln 1/δ), where m is the mean sensitivity
    /// [default: 4].
    #[arg(long, value_name = "C", allow_negative_numbers = true, requires = "epsilon")]
    pub constant: Option<f64>,

    /// How rows are selected and weighted [default: calibrated; with --epsilon, sensitivity].
    #[arg(long, value_enum)]
    pub method: Option<MethodArg>,

    /// Number of clusters for the sensitivity bounds [default: 6].
    #[arg(long, value_name = "K")]
    pub clusters: Option<usize>,

    /// Radius of the parameter ball: a number, or auto:A for A divided by the square root of the k-means score
    /// [default: auto:3].
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub radius: Option<Radius>,

    /// Centre of the parameter ball: a file with `coefficient,value` lines or a JSON object, in the units of the data
    /// [default: 0].
    #[arg(long, value_name = "FILE")]
    pub theta_star: Option<PathBuf>,

    /// Cluster centre in the sensitivity bound of a row: the cluster mean without that row (exact), or the k-means
    /// centre, as in the paper's experiments (quick) [default: exact].
    #[arg(long, value_enum)]
    pub centers: Option<CentersArg>,

    /// Do not merge equal rows, even if that would give an exact coreset.
    #[arg(long)]
    pub no_collapse: bool,

    /// What the certificate compares: log-likelihoods at draws from the coreset's posterior (draws), or only normal
    /// approximations (normal), which leaves the coreset unverified [default: draws].
    #[arg(long, value_name = "WHAT")]
    pub certificate: Option<CertificateBy>,

    #[command(flatten)]
    pub priors: PriorArgs,

    /// Random seed. The same seed gives the same output, byte for byte.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
}

/// `tithe build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    #[command(flatten)]
    pub data: DataArgs,

    /// Coreset file to write.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    /// Select as few rows as needed for this KL divergence to the full data's posterior, according to the certificate.
    #[arg(long, value_name = "NATS", allow_negative_numbers = true, conflicts_with_all = ["size", "epsilon"])]
    pub kl: Option<f64>,

    /// Treat a coreset that is too small as an error (exit code 1). The file is still written.
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    pub choice: ChoiceArgs,

    /// The data is a part of what this coreset represents: match it where the posterior of all data is, with the encoding of
    /// this coreset. Merged, such parts are as accurate as a coreset of all data.
    #[arg(long, value_name = "CORESET", conflicts_with_all = ["encoding", "kl", "epsilon"])]
    pub reference: Option<PathBuf>,

    /// Use the encoding of this coreset (levels, means and scales) instead of learning one, so that the two can be
    /// merged.
    #[arg(long, value_name = "CORESET", help_heading = "Columns")]
    pub encoding: Option<PathBuf>,

    #[command(flatten)]
    pub columns: ColumnArgs,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub show: OutputArgs,
}

/// `tithe inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// A coreset, a posterior, or data: a file, a glob or a directory, as for build.
    pub file: PathBuf,

    /// Data: column with the two classes; levels that occur with one class only are then reported.
    #[arg(long, value_name = "COLUMN")]
    pub label: Option<String>,

    /// Print all metadata as JSON.
    #[arg(long)]
    pub json: bool,

    /// Show only errors and the result: no progress or warnings.
    #[arg(long, short)]
    pub quiet: bool,

    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// `tithe completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to generate the script for.
    pub shell: clap_complete::Shell,
}

/// `tithe man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write `tithe.1`, `tithe-build.1`, … here instead of printing the main page.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// How rows are selected and weighted.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MethodArg {
    /// By sensitivity and leverage, then reweighted until the posterior matches the full data's.
    Calibrated,
    /// With probability proportional to sensitivity bounds: Algorithm 1 of Huggins, Campbell and Broderick (2016).
    Sensitivity,
    /// Uniformly at random: the baseline.
    Uniform,
}

/// The cluster centre used in sensitivity bounds.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CentersArg {
    /// The cluster mean without the row itself.
    Exact,
    /// The k-means centre.
    Quick,
}

/// Which columns are standardised.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum StandardizeArg {
    /// Centre and scale numbers; centre 0/1 columns and levels (the default).
    Numeric,
    /// Centre and scale numbers and 0/1 columns.
    All,
    /// Use every column as it is.
    None,
}

/// How to treat missing values.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MissingArg {
    /// Stop and report where they are.
    Error,
    /// Drop and count such rows.
    Drop,
    /// Use the mean of numbers and a coefficient for "missing"; missing text is a level. Rows without a label are dropped.
    Indicator,
    /// Use the mean of numbers and the reference level of text. Rows without a label are dropped.
    Mean,
}

impl MissingArg {
    /// The setting of the library.
    pub fn missing(self) -> Missing {
        match self {
            MissingArg::Error => Missing::Error,
            MissingArg::Drop => Missing::Drop,
            MissingArg::Indicator => Missing::Indicator,
            MissingArg::Mean => Missing::Mean,
        }
    }
}

/// `4GiB`, `512MB`, `1.5G`, or plain bytes.
fn parse_bytes(word: &str) -> Result<u64, String> {
    let split = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(split);
    let factor: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024f64.powi(2),
        "g" | "gib" => 1024f64.powi(3),
        "t" | "tib" => 1024f64.powi(4),
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(format!("unknown unit '{unit}'; use for example 4GiB, 512MB or a number of bytes")),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{word}' is not a size; use for example 4GiB"))?;
    Ok((number * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn argument_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_are_parsed() {
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes("1.5k"), Ok(1536));
        assert_eq!(parse_bytes("12"), Ok(12));
        assert!(parse_bytes("4 apples").is_err());
    }
}
