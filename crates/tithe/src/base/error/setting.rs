//! Names of settings, as the library knows them; a [`Wording`](super::Wording) turns them into flags or arguments.

use std::fmt;

/// A setting that an error or a remedy can name.
///
/// The command line shows `Setting::BlockRows` as `--block-rows`, Python as `block_rows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Setting {
    /// The data to read.
    Data,
    /// The format of the data.
    Format,
    /// The format of the output.
    OutputFormat,
    /// Whether the first line of a CSV file names the columns.
    Header,
    /// Columns to read as text.
    Text,
    /// The columns that are read as numbers although they are written for readers.
    Numbers,
    /// The character between fields of delimited text.
    Delimiter,
    /// The decimal separator of delimited text.
    Decimal,
    /// The words for missing values.
    NullValues,
    /// Whether the feature indices of a LIBSVM file begin at 0.
    ZeroBased,
    /// The names of an array's columns.
    Columns,
    /// The formula of the model.
    Formula,
    /// The column with the two classes.
    Label,
    /// The class that is counted as positive.
    Positive,
    /// The column with the weights.
    Weight,
    /// The columns to use as features.
    Features,
    /// The columns to exclude.
    Exclude,
    /// Whether the model has an intercept.
    Intercept,
    /// Whether numeric columns are standardised.
    Standardize,
    /// The largest number of levels of a text column.
    MaxLevels,
    /// The effects that vary by group.
    Groups,
    /// Least number of rows of a level.
    MinLevelRows,
    /// What to do with missing values.
    Missing,
    /// What to do with levels that the encoding does not have.
    Unseen,
    /// The file whose encoding is used.
    Encoding,
    /// How the rows of the coreset are chosen.
    Method,
    /// The number of rows of the coreset.
    Size,
    /// The KL divergence that the coreset must reach.
    Kl,
    /// The relative error that the coreset guarantees.
    Epsilon,
    /// The probability with which the guarantee may fail.
    Delta,
    /// The constant of the guarantee.
    Constant,
    /// The number of clusters behind the sensitivity bounds.
    Clusters,
    /// The radius of the ball of coefficients.
    Radius,
    /// The centre of the ball of coefficients.
    ThetaStar,
    /// How the cluster centres are found.
    Centers,
    /// What a certificate compares.
    Certificate,
    /// Whether equal rows become one row.
    Collapse,
    /// The coresets to merge.
    Parts,
    /// The seed of the random numbers.
    Seed,
    /// The number of threads.
    Threads,
    /// The number of rows per block.
    BlockRows,
    /// The memory for decoded rows.
    Memory,
    /// The number of rows per block of a stream.
    Block,
    /// The number of rows from which a stream learns its encoding.
    WarmupRows,
    /// The number of rows after which the weights in a stream have halved.
    HalfLife,
    /// The directory with the state of a stream.
    State,
    /// The stream itself.
    Stream,
    /// Whether rows that are already in the stream are fed again.
    Replay,
    /// The sampler.
    Sampler,
    /// The number of chains.
    Chains,
    /// The number of draws per chain.
    Draws,
    /// The number of warm-up iterations per chain.
    Warmup,
    /// The prior of all coefficients.
    Prior,
    /// The prior of the intercept.
    InterceptPrior,
    /// The priors of single coefficients.
    PriorFor,
    /// The prior of the scales of group effects.
    GroupPrior,
    /// Whether all rows are fitted, however many there are.
    Whole,
    /// The file for the coreset behind a fit.
    Keep,
    /// The data that a posterior is compared with.
    Verify,
    /// The names of the coefficients.
    Names,
    /// The kernel with which posteriors are compared.
    Kernel,
    /// The probability of the prediction interval.
    Interval,
    /// Whether the relative error of the coreset is searched for.
    EpsilonCheck,
    /// Whether to continue although the data is different.
    Force,
    /// The file to write.
    Output,
    /// The recipe for generated data.
    Recipe,
    /// The number of rows to generate.
    Rows,
    /// The time after which a study stops.
    StopAfter,
}

/// Defines `ALL` and `name` from one list; a setting missing from it does not compile.
macro_rules! names {
    ($($setting:ident = $name:literal,)+) => {
        impl Setting {
            /// All settings.
            #[doc(hidden)]
            pub const ALL: &'static [Setting] = &[$(Setting::$setting),+];

            /// The name in snake case: `block_rows`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Setting::$setting => $name,)+
                }
            }
        }
    };
}

names! {
    Data = "data",
    Format = "format",
    OutputFormat = "output_format",
    Header = "header",
    Text = "text",
    Numbers = "numbers",
    Delimiter = "delimiter",
    Decimal = "decimal",
    NullValues = "null_values",
    ZeroBased = "zero_based",
    Columns = "columns",
    Formula = "formula",
    Label = "label",
    Positive = "positive",
    Weight = "weight",
    Features = "features",
    Exclude = "exclude",
    Intercept = "intercept",
    Standardize = "standardize",
    MaxLevels = "max_levels",
    Groups = "groups",
    MinLevelRows = "min_level_rows",
    Missing = "missing",
    Unseen = "unseen",
    Encoding = "encoding",
    Method = "method",
    Size = "size",
    Kl = "kl",
    Epsilon = "epsilon",
    Delta = "delta",
    Constant = "constant",
    Clusters = "clusters",
    Radius = "radius",
    ThetaStar = "theta_star",
    Centers = "centers",
    Certificate = "certificate",
    Collapse = "collapse",
    Parts = "parts",
    Seed = "seed",
    Threads = "threads",
    BlockRows = "block_rows",
    Memory = "memory",
    Block = "block",
    WarmupRows = "warmup_rows",
    HalfLife = "half_life",
    State = "state",
    Stream = "stream",
    Replay = "replay",
    Sampler = "sampler",
    Chains = "chains",
    Draws = "draws",
    Warmup = "warmup",
    Prior = "prior",
    InterceptPrior = "intercept_prior",
    PriorFor = "prior_for",
    GroupPrior = "group_prior",
    Whole = "whole",
    Keep = "keep",
    Verify = "verify",
    Names = "names",
    Kernel = "kernel",
    Interval = "interval",
    EpsilonCheck = "epsilon_check",
    Force = "force",
    Output = "output",
    Recipe = "recipe",
    Rows = "rows",
    StopAfter = "stop_after",
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The value of a setting in a remedy.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// On or off: `--zero-based` or `--no-intercept`, `zero_based=True` or `intercept=False`.
    Switch(bool),
    /// A whole number.
    Count(u64),
    /// A word, a name or a path.
    Text(String),
}

impl From<bool> for Value {
    fn from(on: bool) -> Value {
        Value::Switch(on)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_string())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(on) => on.fmt(f),
            Value::Count(count) => count.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_in_snake_case() {
        let mut names: Vec<&str> = Setting::ALL.iter().map(|setting| setting.name()).collect();
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Setting::ALL.len());
    }
}
