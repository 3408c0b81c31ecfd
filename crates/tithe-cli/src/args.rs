//! What the user may type; nothing is checked here beyond the form of each word.

mod paper;
mod posterior;
mod stream;
mod verify;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tithe::coreset::sensitivity::Radius;
use tithe::data::source::Format;

pub use paper::{CompareArgs, FigureArg, PaperArgs};
pub use posterior::{
    DemoArgs, ExportArgs, FitArgs, GenerateArgs, PosteriorFormat, PredictArgs, PriorArgs, ReportArgs,
    ToolArg, UnseenArg,
};
pub use stream::{MergeArgs, StreamArgs};
pub use verify::{CertifyArgs, VerifyArgs};

/// Bayesian logistic regression on a few hundred weighted rows that stand for all of them.
#[derive(Debug, Parser)]
#[command(name = "tithe", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Turn data into a coreset: a few weighted rows that stand for all of them.
    Build(Box<BuildArgs>),
    /// Keep the coreset of data that comes without end; it can be stopped, killed and resumed at any moment.
    Stream(Box<StreamArgs>),
    /// Join coresets that were made apart: by other people, on other days, on other machines.
    Merge(Box<MergeArgs>),
    /// Turn a coreset, or data itself, into draws from the posterior.
    Fit(Box<FitArgs>),
    /// Check a posterior against the full data in one pass, and correct it.
    Verify(Box<VerifyArgs>),
    /// Tell how far the posterior of a coreset, of any method, is from the full data's.
    Certify(Box<CertifyArgs>),
    /// Compare two posteriors: discrepancy, KL, means and widths, predictions.
    Compare(Box<CompareArgs>),
    /// Give new rows the probability of the positive class, with its interval.
    Predict(Box<PredictArgs>),
    /// Write one page that shows a posterior, to look at in a browser.
    Report(ReportArgs),
    /// Write a coreset and a ready model for Stan, PyMC or NumPyro.
    Export(ExportArgs),
    /// Make the paper's synthetic data, of any size.
    Generate(GenerateArgs),
    /// The whole story in one go, on generated data.
    Demo(DemoArgs),
    /// Run the paper's experiments again, and draw them.
    Paper(PaperArgs),
    /// Tell what a file is and how it was made.
    Inspect(InspectArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Print the manual page, or write one page a command to a directory.
    Man(ManArgs),
}

/// Where rows come from.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// Files, globs and directories of part files: Parquet, CSV, TSV, NDJSON (plain, gzip, zstd), LIBSVM, Arrow IPC;
    /// `-` is standard input.
    #[arg(required = true, value_name = "DATA")]
    pub data: Vec<String>,

    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// How files are read.
#[derive(Debug, Args)]
pub struct ReadingArgs {
    /// The format, where it should not be told from the content: parquet, csv, tsv, ndjson,
    /// libsvm, arrow, arrow-stream.
    #[arg(long, value_name = "FORMAT", help_heading = "Reading")]
    pub format: Option<Format>,

    /// CSV and TSV: the first row is data; the columns are called x1, x2, ….
    #[arg(long, help_heading = "Reading")]
    pub no_header: bool,

    /// LIBSVM: feature indices begin at 0, even if 0 does not occur.
    #[arg(long, help_heading = "Reading")]
    pub zero_based: bool,

    /// Read these columns as text (categories), whatever they look like; names with commas stand in double quotes.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Reading")]
    pub text: Vec<String>,
}

/// Which columns serve for what, and how they enter the model.
#[derive(Debug, Args)]
pub struct ColumnArgs {
    /// The column with the two classes [LIBSVM: default label].
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    pub label: Option<String>,

    /// The label's positive value, where the label is text.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, help_heading = "Columns")]
    pub positive: Option<String>,

    /// Use only these columns as features; names with commas stand in double quotes.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Columns")]
    pub features: Option<Vec<String>>,

    /// Leave these columns out.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Columns")]
    pub exclude: Vec<String>,

    /// The column with the rows' weights, if the data is weighted already.
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    pub weight: Option<String>,

    /// What to do with rows that have a missing, infinite or inexact value.
    #[arg(long, value_enum, default_value_t = MissingArg::Error, help_heading = "Columns")]
    pub missing: MissingArg,

    /// Add no intercept; columns are then scaled, but not centred.
    #[arg(long, help_heading = "Columns")]
    pub no_intercept: bool,

    /// Take columns of numbers as they are.
    #[arg(long, help_heading = "Columns")]
    pub no_standardize: bool,

    /// Most levels that a column of text may have.
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Columns")]
    pub max_levels: usize,
}

impl ColumnArgs {
    /// The flags given that decide how columns enter the model.
    pub fn decisions(&self) -> Vec<&'static str> {
        let given = [
            ("--label", self.label.is_some()),
            ("--positive", self.positive.is_some()),
            ("--features", self.features.is_some()),
            ("--exclude", !self.exclude.is_empty()),
            ("--weight", self.weight.is_some()),
            ("--no-intercept", self.no_intercept),
            ("--no-standardize", self.no_standardize),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
    }
}

/// How the work is done.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// Number of threads [default: one a core].
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    /// Memory for decoded rows, such as 4GiB; rows beyond it are read again for each pass [default: half of RAM].
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Running")]
    pub memory: Option<u64>,

    /// Rows in a block [default: by the number of columns]; part of what the result depends on.
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub block_rows: Option<usize>,
}

/// How results and messages are shown.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// Print the result as JSON.
    #[arg(long, help_heading = "Running")]
    pub json: bool,

    /// Show no progress.
    #[arg(long, short, help_heading = "Running")]
    pub quiet: bool,
}

/// How many rows a coreset has, and how they are chosen.
#[derive(Debug, Args)]
pub struct ChoiceArgs {
    /// Number of draws; rows drawn twice are kept once [default: 1000].
    #[arg(long, value_name = "M", conflicts_with = "epsilon", allow_negative_numbers = true)]
    pub size: Option<usize>,

    /// As many draws as keep the log-likelihood within this share of the truth, anywhere in the ball.
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    pub epsilon: Option<f64>,

    /// With --epsilon: the probability that the guarantee fails.
    #[arg(
        long,
        value_name = "DELTA",
        allow_negative_numbers = true,
        default_value_t = 0.05,
        requires = "epsilon"
    )]
    pub delta: f64,

    /// With --epsilon: the constant c of the size rule M = c m/ε² ((D+1) ln m + ln 1/δ).
    #[arg(
        long,
        value_name = "C",
        allow_negative_numbers = true,
        default_value_t = 4.0,
        requires = "epsilon"
    )]
    pub constant: f64,

    /// How rows are chosen [default: calibrated; with --epsilon, sensitivity].
    #[arg(long, value_enum)]
    pub method: Option<MethodArg>,

    /// Number of clusters that the sensitivity bounds are made from [default: 6].
    #[arg(long, value_name = "K")]
    pub clusters: Option<usize>,

    /// Radius of the ball of parameters: a number, or auto:A for A over the root of the clustering's score [default:
    /// auto:3].
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = parse_radius)]
    pub radius: Option<Radius>,

    /// Centre of the ball: a file of `coefficient,value` lines or a JSON object, on the data's own scale.
    #[arg(long, value_name = "FILE")]
    pub theta_star: Option<PathBuf>,

    /// What stands for a cluster: its mean without the row itself (exact), or its centre, as the paper's
    /// experiments had it (quick) [default: exact].
    #[arg(long, value_enum)]
    pub centers: Option<CentersArg>,

    /// Keep equal rows apart, even where merging them would give an exact coreset.
    #[arg(long)]
    pub no_collapse: bool,

    /// Calibration: standard deviation of the normal prior under which the full data's mode is sought, on the
    /// standardised scale; the result hardly depends on it [default: 2].
    #[arg(long, value_name = "SD")]
    pub prior_scale: Option<f64>,

    /// The seed: the same seed gives the same bytes.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
}

/// `tithe build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    #[command(flatten)]
    pub data: DataArgs,

    /// The coreset file to write.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    /// As few rows as bring the KL to the full data's posterior down to this, by the certificate.
    #[arg(long, value_name = "NATS", allow_negative_numbers = true, conflicts_with_all = ["size", "epsilon"])]
    pub kl: Option<f64>,

    #[command(flatten)]
    pub choice: ChoiceArgs,

    /// Take the encoding of this coreset (levels, means and scales) in place of learning one, so that both can be merged.
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
    /// A coreset, a posterior, or any data file.
    pub file: PathBuf,

    /// Print everything as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `tithe completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// `tithe man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write `tithe.1`, `tithe-build.1`, … here instead of printing the main page.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// How rows are chosen.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MethodArg {
    /// By sensitivity and by what matters near the mode, then weighed until the posterior is the full data's.
    Calibrated,
    /// In proportion to sensitivity bounds: Algorithm 1 of Huggins, Campbell and Broderick (2016).
    Sensitivity,
    /// All rows alike: the baseline.
    Uniform,
}

/// What stands for a cluster.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CentersArg {
    /// Its mean without the row itself.
    Exact,
    /// Its centre.
    Quick,
}

/// What to do with unusable rows.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MissingArg {
    /// Stop, and say where they are.
    Error,
    /// Leave such rows out, and count them.
    Drop,
}

fn parse_radius(word: &str) -> Result<Radius, String> {
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("'{text}' is not a number"));
    match word.strip_prefix("auto:") {
        Some(a) => number(a).map(Radius::Auto),
        None if word == "auto" => Ok(Radius::Auto(3.0)),
        None => number(word).map(Radius::Fixed),
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
        _ => return Err(format!("'{unit}' is no unit; say 4GiB, 512MB or a number of bytes")),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{word}' is not a size such as 4GiB"))?;
    Ok((number * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_and_radii_are_read() {
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes("1.5k"), Ok(1536));
        assert_eq!(parse_bytes("12"), Ok(12));
        assert!(parse_bytes("4 apples").is_err());
        assert_eq!(parse_radius("2.5"), Ok(Radius::Fixed(2.5)));
        assert_eq!(parse_radius("auto:3"), Ok(Radius::Auto(3.0)));
        assert!(parse_radius("auto:x").is_err());
    }
}
