//! Names of settings, as the library knows them; a [`Wording`](super::Wording) turns them into flags or arguments.

use std::fmt;

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A setting that an error or a remedy can name.
        ///
        /// The command line shows `Setting::BlockRows` as `--block-rows`, Python as `block_rows`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Setting {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Setting {
            /// All settings.
            pub const ALL: &'static [Setting] = &[$(Setting::$variant),+];

            /// The name in snake case: `block_rows`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Setting::$variant => $name,)+
                }
            }
        }
    };
}

settings! {
    /// The data to read.
    Data = "data",
    /// The format of the data.
    Format = "format",
    /// Whether the first line of a CSV file names the columns.
    Header = "header",
    /// Columns to read as text.
    Text = "text",
    /// Whether the feature indices of a LIBSVM file begin at 0.
    ZeroBased = "zero_based",
    /// The names of an array's columns.
    Columns = "columns",
    /// The column with the two classes.
    Label = "label",
    /// The class that is counted as positive.
    Positive = "positive",
    /// The column with the weights.
    Weight = "weight",
    /// The columns to use as features.
    Features = "features",
    /// The columns to leave out.
    Exclude = "exclude",
    /// Whether the model has an intercept.
    Intercept = "intercept",
    /// Whether numeric columns are standardised.
    Standardize = "standardize",
    /// The largest number of levels of a text column.
    MaxLevels = "max_levels",
    /// What to do with missing values.
    Missing = "missing",
    /// What to do with levels that the encoding does not have.
    Unseen = "unseen",
    /// The file whose encoding is used.
    Encoding = "encoding",
    /// How the rows of the coreset are chosen.
    Method = "method",
    /// The number of rows of the coreset.
    Size = "size",
    /// The KL divergence that the coreset must reach.
    Kl = "kl",
    /// The relative error that the coreset guarantees.
    Epsilon = "epsilon",
    /// The probability with which the guarantee may fail.
    Delta = "delta",
    /// The constant of the guarantee.
    Constant = "constant",
    /// The number of clusters behind the sensitivity bounds.
    Clusters = "clusters",
    /// The radius of the ball of coefficients.
    Radius = "radius",
    /// The centre of the ball of coefficients.
    ThetaStar = "theta_star",
    /// How the cluster centres are found.
    Centers = "centers",
    /// The scale of the normal prior used for calibration.
    PriorScale = "prior_scale",
    /// Whether equal rows become one row.
    Collapse = "collapse",
    /// The coresets to merge.
    Parts = "parts",
    /// The seed of the random numbers.
    Seed = "seed",
    /// The number of threads.
    Threads = "threads",
    /// The number of rows per block.
    BlockRows = "block_rows",
    /// The memory for decoded rows.
    Memory = "memory",
    /// The number of rows per block of a stream.
    Block = "block",
    /// The number of rows from which a stream learns its encoding.
    WarmupRows = "warmup_rows",
    /// The directory with the state of a stream.
    State = "state",
    /// The stream itself.
    Stream = "stream",
    /// Whether rows that are already in the stream are fed again.
    Replay = "replay",
    /// The sampler.
    Sampler = "sampler",
    /// The number of chains.
    Chains = "chains",
    /// The number of draws per chain.
    Draws = "draws",
    /// The number of warm-up iterations per chain.
    Warmup = "warmup",
    /// The prior of all coefficients.
    Prior = "prior",
    /// The prior of the intercept.
    InterceptPrior = "intercept_prior",
    /// The priors of single coefficients.
    PriorFor = "prior_for",
    /// The names of the coefficients.
    Names = "names",
    /// The kernel with which posteriors are compared.
    Kernel = "kernel",
    /// The probability of the prediction interval.
    Interval = "interval",
    /// Whether the relative error of the coreset is searched for.
    EpsilonCheck = "epsilon_check",
    /// Whether to continue although the data is different.
    Force = "force",
    /// The file to write.
    Output = "output",
    /// The recipe for generated data.
    Recipe = "recipe",
    /// The number of rows to generate.
    Rows = "rows",
    /// The time after which a study stops.
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
