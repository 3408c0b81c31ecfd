//! Options as a user gives them, turned into checked settings.
//!
//! The command line and the Python package fill the same structs, so each default and each check of a combination
//! exists once. An option that is `None` has its default.

pub mod coefficients;
mod groups;

use std::str::FromStr;

use crate::base::error::{Error, Remedy, Result, Setting};
use crate::base::rng::Seed;
use crate::coreset::Method;
use crate::coreset::build::{BuildSettings, CertificateBy};
use crate::coreset::selection::Size;
use crate::coreset::sensitivity::{CenterRule, Radius};
use crate::data::source::{Decimal, Delimiter, Format, OpenOptions, Source};
use crate::data::table::Roles;
use crate::encoding::{Encoding, EncodingSettings, GroupFactor, Standardize, Unseen};
use crate::engine::Missing;
use crate::formula::Syntax;
use crate::mcmc::{Sampler, Settings};
use crate::model::{GroupPrior, PriorChoice};
use crate::options::groups::{group_factor, terms_of_groups};
use crate::results::fit::FitSettings;
use crate::results::one_step::{FittedRows, OneStepSettings};
use crate::results::predict::Incomplete;
use crate::stream::StreamSettings;

/// The probability δ that the guarantee of Theorem 3.2 fails, unless the user gives another.
const DELTA: f64 = 0.05;
/// The constant c of Theorem 3.2, unless the user gives another: the value in the authors' code.
const CONSTANT: f64 = 4.0;

/// How files are read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format, if it should not be detected.
    pub format: Option<Format>,
    /// CSV and TSV: whether the first row holds the column names (default: true).
    pub header: Option<bool>,
    /// LIBSVM: feature indices start at 0 even if index 0 does not occur.
    pub zero_based: bool,
    /// Columns to read as text.
    pub text: Vec<String>,
    /// CSV and TSV: columns to read as numbers although they have percent signs, currencies or separated thousands.
    pub numbers: Vec<String>,
    /// CSV and TSV: the character between fields (default: detected).
    pub delimiter: Option<Delimiter>,
    /// CSV and TSV: the decimal separator (default: detected).
    pub decimal: Option<Decimal>,
    /// CSV and TSV: words for missing values, besides the usual ones.
    pub null_values: Vec<String>,
}

impl ReadOptions {
    /// Options for opening files; `memory` is the number of bytes of standard input to hold in memory.
    pub fn open_options(&self, memory: u64) -> OpenOptions {
        let usual = OpenOptions::default();
        OpenOptions {
            format: self.format,
            header: self.header.unwrap_or(usual.header),
            delimiter: self.delimiter,
            decimal: self.decimal,
            null_values: self.null_values.clone(),
            numbers: self.numbers.clone(),
            zero_based: self.zero_based.then_some(true),
            text: self.text.clone(),
            memory,
            ..usual
        }
    }
}

impl FromStr for Delimiter {
    type Err = Error;

    /// The character itself, or its name.
    fn from_str(word: &str) -> Result<Delimiter> {
        const CHOICES: [(&str, Delimiter); 9] = [
            ("comma", Delimiter::Comma),
            ("semicolon", Delimiter::Semicolon),
            ("tab", Delimiter::Tab),
            ("pipe", Delimiter::Pipe),
            (",", Delimiter::Comma),
            (";", Delimiter::Semicolon),
            ("\t", Delimiter::Tab),
            ("\\t", Delimiter::Tab),
            ("|", Delimiter::Pipe),
        ];
        let found = CHOICES.iter().find(|(name, _)| *name == word).map(|(_, delimiter)| *delimiter);
        found.ok_or_else(|| {
            let what = format!("must be comma, semicolon, tab or pipe, but is '{word}'");
            Error::setting(Setting::Delimiter, what)
        })
    }
}

impl FromStr for Decimal {
    type Err = Error;

    fn from_str(word: &str) -> Result<Decimal> {
        const CHOICES: [(&str, Decimal); 4] = [
            (".", Decimal::Point),
            (",", Decimal::Comma),
            ("point", Decimal::Point),
            ("comma", Decimal::Comma),
        ];
        one_of(Setting::Decimal, word, &CHOICES)
    }
}

/// Without a size, the KL of a coreset for a model with groups, in nats.
const GROUPED_KL: f64 = 0.05;

/// Which columns are used, and how they enter the model.
#[derive(Clone, Debug, Default)]
pub struct ColumnOptions {
    /// The formula of the model, instead of features and an intercept.
    pub formula: Option<String>,
    /// The column with the two classes.
    pub label: Option<String>,
    /// The column with the weights of the rows.
    pub weight: Option<String>,
    /// The columns to use as features (default: all others).
    pub features: Option<Vec<String>>,
    /// Columns to exclude.
    pub exclude: Vec<String>,
    /// Columns of text that are dates, besides those that look like dates.
    pub dates: Vec<String>,
    /// The positive value of the label.
    pub positive: Option<String>,
    /// Whether the model has an intercept (default: true).
    pub intercept: Option<bool>,
    /// Which columns are centred and scaled (default: numeric).
    pub standardize: Option<Standardize>,
    /// Most levels that a text column may have.
    pub max_levels: Option<usize>,
    /// Effects that vary by group, such as `1 + price | shop`.
    pub groups: Option<String>,
    /// Levels in fewer rows than this are grouped into one (default: none are).
    pub min_level_rows: Option<u64>,
    /// What to do with missing values (default: report an error).
    pub missing: Option<Missing>,
    /// An encoding to use instead of learning one from the data.
    pub known: Option<Encoding>,
}

impl ColumnOptions {
    /// The formula, read; reports options that contradict it.
    fn formula(&self) -> Result<Option<Syntax>> {
        let Some(text) = &self.formula else { return Ok(None) };
        let syntax = Syntax::parse(text)?;
        let others = [
            (Setting::Features, self.features.is_some()),
            (Setting::Intercept, self.intercept == Some(false)),
        ];
        if let Some((setting, _)) = others.iter().find(|(_, is_given)| *is_given) {
            let help = match setting {
                Setting::Intercept => "write 0 + after the ~ for a model without intercept",
                _ => "name the columns in the formula",
            };
            return Err(Error::setting(*setting, "has no effect with a formula")
                .with_help([Remedy::Omit(*setting), help.into()]));
        }
        match (syntax.response(), &self.label) {
            (Some(response), Some(label)) if response != label => {
                let what = format!("is '{label}', but the formula has the label '{response}'");
                Err(Error::setting(Setting::Label, what).with_help(Remedy::Omit(Setting::Label)))
            }
            _ => Ok(Some(syntax)),
        }
    }

    /// The columns that the formula uses by their levels and those of groups, which are read as text.
    pub fn text_columns(&self) -> Result<Vec<String>> {
        let mut columns = self.formula()?.map_or(Vec::new(), |formula| formula.categorical_columns());
        columns.extend(self.group_factors()?.into_iter().map(|factor| factor.column));
        Ok(columns)
    }

    /// The roles of the columns of a source. LIBSVM files call their label `label`; otherwise the user must name it.
    pub fn roles(&self, source: &dyn Source) -> Result<Roles> {
        let formula = self.formula()?;
        let response = formula.as_ref().and_then(Syntax::response);
        let label = match self.label.as_deref().or(response) {
            Some(label) => label.to_string(),
            None if source.is_sparse() => "label".to_string(),
            None => {
                let names: Vec<&str> =
                    source.fields().iter().take(20).map(|field| field.name.as_str()).collect();
                let what = format!(
                    "is required: name the column with the two classes (columns: {})",
                    names.join(", ")
                );
                return Err(Error::setting(Setting::Label, what));
            }
        };
        let features = match formula {
            None => self.features_with_groups()?,
            Some(formula) => {
                let names: Vec<String> = source.fields().iter().map(|field| field.name.clone()).collect();
                let others: Vec<String> =
                    self.exclude.iter().chain(&self.weight).chain([&label]).cloned().collect();
                let mut columns = formula.expand(&names, &others)?.columns();
                if columns.is_empty() {
                    return Err(Error::setting(Setting::Formula, "must name a column besides the label"));
                }
                // As without a formula: whoever passes an array later passes its columns in this order.
                columns.sort_by_key(|column| names.iter().position(|name| name == column));
                Some(columns)
            }
        };
        Ok(Roles {
            label,
            weight: self.weight.clone(),
            features,
            exclude: self.exclude.clone(),
            dates: self.dates.clone(),
        })
    }

    /// The features, with the columns of groups and of varying slopes among them.
    fn features_with_groups(&self) -> Result<Option<Vec<String>>> {
        let Some(mut features) = self.features.clone() else { return Ok(None) };
        for factor in self.group_factors()? {
            let missing: Vec<String> = factor
                .slopes
                .into_iter()
                .chain([factor.column])
                .filter(|name| !features.contains(name))
                .collect();
            features.extend(missing);
        }
        Ok(Some(features))
    }

    /// The grouping factors: those of the formula, or the one that is given by itself.
    fn group_factors(&self) -> Result<Vec<GroupFactor>> {
        match (&self.formula, &self.groups) {
            (Some(_), Some(_)) => Err(Error::setting(Setting::Groups, "has no effect with a formula")
                .with_help("write the term in the formula: y ~ price + (1 + price | shop)")),
            (Some(formula), None) => terms_of_groups(formula).into_iter().map(group_factor).collect(),
            (None, Some(term)) => Ok(vec![group_factor(term)?]),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// How columns enter the model; reports options that contradict the known encoding.
    pub fn encoding(&self) -> Result<EncodingSettings> {
        let usual = EncodingSettings::default();
        let mut settings = EncodingSettings {
            intercept: self.intercept.unwrap_or(usual.intercept),
            standardize: self.standardize.unwrap_or(usual.standardize),
            positive: self.positive.clone(),
            max_levels: self.max_levels.unwrap_or(usual.max_levels),
            formula: self.formula()?.and(self.formula.clone()),
            groups: self.group_factors()?,
            min_level_rows: self.min_level_rows.unwrap_or(usual.min_level_rows),
            ..usual
        };
        if let Some(known) = &self.known {
            let (label, features) = (self.label.as_deref(), self.features.as_deref());
            settings.check_against(known, label, features, &self.exclude)?;
            // The new rows may have weights even if the rows that the encoding was learnt from had none.
            let weight = self.weight.clone().or(known.weight.clone());
            settings.known = Some(Encoding { weight, ..known.clone() });
        }
        Ok(settings)
    }

    /// What to do with missing values.
    pub fn missing(&self) -> Missing {
        self.missing.unwrap_or_default()
    }
}

/// Which coreset to build: its size and how its rows are selected.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// The number of rows (default: 1000).
    pub size: Option<usize>,
    /// Instead of a size: the largest KL divergence to the full posterior, in nats.
    pub kl: Option<f64>,
    /// Instead of a size: the relative error ε of Theorem 3.2.
    pub epsilon: Option<f64>,
    /// With ε: the probability δ that the guarantee fails.
    pub delta: Option<f64>,
    /// With ε: the constant c of Theorem 3.2.
    pub constant: Option<f64>,
    /// How rows are selected (default: calibrated; with ε, sensitivity).
    pub method: Option<Method>,
    /// The number of clusters for the sensitivity bounds.
    pub clusters: Option<usize>,
    /// The radius of the ball of parameters.
    pub radius: Option<Radius>,
    /// The centre of the ball: coefficients by name, in the data's own units.
    pub theta_star: Option<Vec<(String, f64)>>,
    /// Which point represents a cluster.
    pub centers: Option<CenterRule>,
    /// Whether equal rows are merged where that gives an exact coreset (default: true).
    pub collapse: Option<bool>,
    /// Calibration: the priors of the posterior that the coreset is for.
    pub priors: Option<PriorChoice>,
    /// Calibration: what the certificate compares (default: log-likelihoods at draws).
    pub certificate: Option<CertificateBy>,
    /// The seed.
    pub seed: u64,
}

impl BuildOptions {
    /// The checked settings of a coreset whose columns have the roles in `columns`.
    pub fn settings(&self, columns: &ColumnOptions) -> Result<BuildSettings> {
        let method = match self.method {
            Some(method) => method,
            None if self.epsilon.is_some() => Method::Sensitivity,
            None => Method::Calibrated,
        };
        let size = match (self.size()?, columns.group_factors()?.is_empty()) {
            // As few rows as the certificate needs.
            (size, false) if size == BuildSettings::default().size && self.size.is_none() => {
                Size::Kl { target: GROUPED_KL }
            }
            (size, _) => size,
        };
        self.check_effect(method)?;
        let usual = BuildSettings::default();
        let settings = BuildSettings {
            method,
            size,
            clusters: self.clusters.unwrap_or(usual.clusters),
            radius: self.radius.unwrap_or(usual.radius),
            theta_star: self.theta_star.clone().unwrap_or_default(),
            centers: self.centers.unwrap_or(usual.centers),
            collapse: self.collapse.unwrap_or(usual.collapse),
            seed: Seed(self.seed),
            encoding: columns.encoding()?,
            priors: self.priors.clone().unwrap_or(usual.priors),
            certificate: self.certificate.unwrap_or(usual.certificate),
        };
        settings.check()?;
        Ok(settings)
    }

    fn size(&self) -> Result<Size> {
        match (self.size, self.kl, self.epsilon) {
            (None, None, None) => Ok(BuildSettings::default().size),
            (Some(rows), None, None) => Ok(Size::Rows(rows)),
            (None, Some(target), None) => Ok(Size::Kl { target }),
            (None, None, Some(epsilon)) => Ok(Size::Guarantee {
                epsilon,
                delta: self.delta.unwrap_or(DELTA),
                constant: self.constant.unwrap_or(CONSTANT),
            }),
            _ => Err(Error::setting(Setting::Size, "excludes kl and epsilon: give only one of the three")),
        }
    }

    /// Reports an option that would have no effect.
    fn check_effect(&self, method: Method) -> Result<()> {
        let is_sensitivity_based = method != Method::Uniform;
        let method_is = |name: &str| Remedy::set(Setting::Method, name);
        let calibrated = ("with this method", vec![method_is("calibrated")]);
        let bounds = ("with this method", vec![method_is("calibrated"), method_is("sensitivity")]);
        let guarantee = ("without a guarantee", vec![Remedy::using("ask for one", Setting::Epsilon)]);
        let options = [
            (Setting::Delta, self.delta.is_some(), self.epsilon.is_some(), &guarantee),
            (Setting::Constant, self.constant.is_some(), self.epsilon.is_some(), &guarantee),
            (Setting::Prior, self.priors.is_some(), method == Method::Calibrated, &calibrated),
            (Setting::Certificate, self.certificate.is_some(), method == Method::Calibrated, &calibrated),
            (Setting::Clusters, self.clusters.is_some(), is_sensitivity_based, &bounds),
            (Setting::Radius, self.radius.is_some(), is_sensitivity_based, &bounds),
            (Setting::ThetaStar, self.theta_star.is_some(), is_sensitivity_based, &bounds),
            (Setting::Centers, self.centers.is_some(), is_sensitivity_based, &bounds),
        ];
        match options.into_iter().find(|(_, is_given, has_effect, _)| *is_given && !*has_effect) {
            Some((setting, _, _, (reason, others))) => {
                let remedies: Vec<Remedy> =
                    [Remedy::Omit(setting)].into_iter().chain(others.iter().cloned()).collect();
                Err(Error::setting(setting, format!("has no effect {reason}")).with_help(remedies))
            }
            None => Ok(()),
        }
    }
}

/// How a stream is divided into blocks, and how it treats new levels.
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// Rows per block.
    pub block: Option<usize>,
    /// Rows from which the encoding is learnt (default: those of the first block).
    pub warmup_rows: Option<usize>,
    /// What to do with a level that the encoding does not contain (default: report an error).
    pub unseen: Option<Unseen>,
    /// Rows after which weights have halved (default: weights stay as they are).
    pub half_life: Option<f64>,
}

impl StreamOptions {
    /// The checked settings of a stream.
    pub fn settings(&self, build: &BuildOptions, columns: &ColumnOptions) -> Result<StreamSettings> {
        if self.warmup_rows.is_some() && columns.known.is_some() {
            return Err(Error::setting(Setting::WarmupRows, "has no effect with a known encoding")
                .with_help(Remedy::Omit(Setting::WarmupRows)));
        }
        let block = self.block.unwrap_or(StreamSettings::default().block);
        let mut build = build.settings(columns)?;
        build.encoding.unseen = self.unseen.unwrap_or_default();
        let warmup_rows = self.warmup_rows.unwrap_or(block);
        Ok(StreamSettings {
            build,
            missing: columns.missing(),
            block,
            warmup_rows,
            half_life: self.half_life,
        })
    }
}

/// How to draw from a posterior.
#[derive(Clone, Debug, Default)]
pub struct FitOptions {
    /// The sampler (default: NUTS).
    pub sampler: Option<Sampler>,
    /// The priors, on the model's scale (default: those that a coreset was built for, or the default ones).
    pub priors: Option<PriorChoice>,
    /// The prior of the standard deviations of group effects (default: half-student:3:2.5).
    pub group_prior: Option<GroupPrior>,
    /// The number of chains.
    pub chains: Option<usize>,
    /// Draws kept per chain.
    pub draws: Option<usize>,
    /// Iterations per chain before the first draw is kept.
    pub warmup: Option<usize>,
    /// The seed.
    pub seed: u64,
    /// The number of threads (default: one per core).
    pub threads: Option<usize>,
}

impl FitOptions {
    /// The checked settings.
    pub fn settings(&self) -> Result<FitSettings> {
        let usual = FitSettings::default();
        let draws = Settings {
            chains: self.chains.unwrap_or(usual.draws.chains),
            draws: self.draws.unwrap_or(usual.draws.draws),
            warmup: self.warmup.unwrap_or(usual.draws.warmup),
            seed: Seed(self.seed),
        };
        draws.check()?;
        Ok(FitSettings {
            sampler: self.sampler.unwrap_or(usual.sampler),
            priors: self.priors.clone(),
            group_prior: self.group_prior,
            draws,
            threads: self.threads,
        })
    }
}

/// How to fit data of any size in one step.
#[derive(Clone, Debug, Default)]
pub struct DataFitOptions {
    /// How to draw.
    pub fit: FitOptions,
    /// Whether to fit all rows, however many there are (default: where that takes at most about ten seconds).
    pub whole: bool,
    /// The number of rows of the coreset (default: 1,000 or 20 per coefficient, and more where these are too few).
    pub size: Option<usize>,
    /// Instead of a size: the largest KL divergence to the full posterior, in nats.
    pub kl: Option<f64>,
    /// Whether the coreset is wanted as well.
    pub keep: bool,
}

impl DataFitOptions {
    /// Whether a coreset is wanted even where all rows are quick to fit.
    pub fn wants_coreset(&self) -> Option<Setting> {
        let given = [
            (Setting::Size, self.size.is_some()),
            (Setting::Kl, self.kl.is_some()),
            (Setting::Keep, self.keep),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(setting, _)| setting)
    }

    /// The checked settings for data whose columns have the roles in `columns`; all rows may use `memory` bytes as points.
    pub fn settings(&self, columns: &ColumnOptions, memory: u64) -> Result<OneStepSettings> {
        let rows = match (self.whole, self.wants_coreset()) {
            (true, Some(setting)) => {
                return Err(Error::setting(setting, "has no effect where all rows are fitted")
                    .with_help(Remedy::Omit(setting)));
            }
            (true, None) => FittedRows::All,
            (false, Some(_)) => FittedRows::Coreset,
            (false, None) => FittedRows::ByTime,
        };
        let size = match (self.size, self.kl) {
            (None, None) => None,
            (size, kl) => Some(BuildOptions { size, kl, ..BuildOptions::default() }.size()?.check()?),
        };
        Ok(OneStepSettings { fit: self.fit.settings()?, size, rows, encoding: columns.encoding()?, memory })
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(word: &str) -> Result<Method> {
        const METHODS: [(&str, Method); 3] = [
            ("calibrated", Method::Calibrated),
            ("sensitivity", Method::Sensitivity),
            ("uniform", Method::Uniform),
        ];
        one_of(Setting::Method, word, &METHODS)
    }
}

impl FromStr for CertificateBy {
    type Err = Error;

    fn from_str(word: &str) -> Result<CertificateBy> {
        const CHOICES: [(&str, CertificateBy); 2] =
            [("draws", CertificateBy::Draws), ("normal", CertificateBy::Normal)];
        one_of(Setting::Certificate, word, &CHOICES)
    }
}

impl FromStr for CenterRule {
    type Err = Error;

    fn from_str(word: &str) -> Result<CenterRule> {
        one_of(Setting::Centers, word, &[("exact", CenterRule::Exact), ("quick", CenterRule::Quick)])
    }
}

impl FromStr for Missing {
    type Err = Error;

    fn from_str(word: &str) -> Result<Missing> {
        const CHOICES: [(&str, Missing); 4] = [
            ("error", Missing::Error),
            ("drop", Missing::Drop),
            ("indicator", Missing::Indicator),
            ("mean", Missing::Mean),
        ];
        one_of(Setting::Missing, word, &CHOICES)
    }
}

impl FromStr for Standardize {
    type Err = Error;

    fn from_str(word: &str) -> Result<Standardize> {
        const CHOICES: [(&str, Standardize); 3] =
            [("numeric", Standardize::Numeric), ("all", Standardize::All), ("none", Standardize::None)];
        one_of(Setting::Standardize, word, &CHOICES)
    }
}

impl FromStr for Incomplete {
    type Err = Error;

    fn from_str(word: &str) -> Result<Incomplete> {
        const CHOICES: [(&str, Incomplete); 3] =
            [("empty", Incomplete::Empty), ("drop", Incomplete::Drop), ("error", Incomplete::Error)];
        one_of(Setting::Missing, word, &CHOICES)
    }
}

impl FromStr for Unseen {
    type Err = Error;

    fn from_str(word: &str) -> Result<Unseen> {
        one_of(Setting::Unseen, word, &[("error", Unseen::Error), ("reference", Unseen::Reference)])
    }
}

impl FromStr for Radius {
    type Err = Error;

    /// A number, `auto` or `auto:A`.
    fn from_str(word: &str) -> Result<Radius> {
        let radius = match word.strip_prefix("auto:") {
            Some(factor) => factor.parse().ok().map(Radius::Auto),
            None if word == "auto" => Some(BuildSettings::default().radius),
            None => word.parse().ok().map(Radius::Fixed),
        };
        let what = || format!("must be a number, auto or auto:A, but is '{word}'");
        radius.ok_or_else(|| Error::setting(Setting::Radius, what()))
    }
}

fn one_of<T: Copy>(setting: Setting, word: &str, choices: &[(&str, T)]) -> Result<T> {
    let what = || {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!("must be {}, but is '{word}'", names.join(" or "))
    };
    let found = choices.iter().find(|(name, _)| *name == word);
    found.map(|(_, choice)| *choice).ok_or_else(|| Error::setting(setting, what()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(options: &BuildOptions) -> std::result::Result<BuildSettings, String> {
        options.settings(&ColumnOptions::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn without_options_the_settings_are_the_defaults() {
        let (build, columns) = (BuildOptions::default(), ColumnOptions::default());
        assert_eq!(settings(&build), Ok(BuildSettings::default()));
        let stream = StreamOptions::default().settings(&build, &columns).expect("settings");
        assert_eq!(stream, StreamSettings::default());
        let fit = FitOptions::default().settings().expect("settings");
        assert_eq!(format!("{fit:?}"), format!("{:?}", FitSettings::default()));
        let (read, open) = (ReadOptions::default(), OpenOptions::default());
        assert_eq!(format!("{:?}", read.open_options(open.memory)), format!("{open:?}"));
    }

    #[test]
    fn the_method_follows_from_the_size_unless_it_is_given() {
        let guarantee = BuildOptions { epsilon: Some(0.5), ..BuildOptions::default() };
        let found = settings(&guarantee).expect("settings");
        assert_eq!(found.method, Method::Sensitivity);
        assert_eq!(found.size, Size::Guarantee { epsilon: 0.5, delta: 0.05, constant: 4.0 });
        let kl = settings(&BuildOptions { kl: Some(0.1), ..BuildOptions::default() }).expect("settings");
        assert_eq!((kl.method, kl.size), (Method::Calibrated, Size::Kl { target: 0.1 }));
    }

    #[test]
    fn options_that_exclude_each_other_or_have_no_effect_are_reported() {
        let usual = BuildOptions::default;
        let uniform = || BuildOptions { method: Some(Method::Uniform), ..usual() };
        for (options, option) in [
            (BuildOptions { size: Some(10), kl: Some(0.1), ..usual() }, "size excludes kl and epsilon"),
            (BuildOptions { delta: Some(0.1), ..usual() }, "delta has no effect"),
            (BuildOptions { constant: Some(1.0), ..usual() }, "constant has no effect"),
            (BuildOptions { clusters: Some(6), ..uniform() }, "clusters has no effect"),
            (BuildOptions { priors: Some(PriorChoice::default()), ..uniform() }, "prior has no effect"),
            (BuildOptions { size: Some(0), ..usual() }, "size must be at least 1"),
        ] {
            let message = settings(&options).expect_err(option);
            assert!(message.starts_with(option), "{message}");
        }
    }

    #[test]
    fn words_are_read_as_what_they_name() {
        assert_eq!("uniform".parse::<Method>().ok(), Some(Method::Uniform));
        assert_eq!("quick".parse::<CenterRule>().ok(), Some(CenterRule::Quick));
        assert_eq!("drop".parse::<Missing>().ok(), Some(Missing::Drop));
        let read = |word: &str| word.parse::<Delimiter>().map_err(|error| error.to_string());
        assert_eq!((read(";"), read("tab")), (Ok(Delimiter::Semicolon), Ok(Delimiter::Tab)));
        let message = "delimiter must be comma, semicolon, tab or pipe, but is 'x'";
        assert_eq!(read("x"), Err(message.to_string()));
        assert_eq!(",".parse::<Decimal>().ok(), Some(Decimal::Comma));
        assert_eq!("empty".parse::<Incomplete>().ok(), Some(Incomplete::Empty));
        assert_eq!("all".parse::<Standardize>().ok(), Some(Standardize::All));
        assert_eq!("reference".parse::<Unseen>().ok(), Some(Unseen::Reference));
        assert_eq!("2.5".parse::<Radius>().ok(), Some(Radius::Fixed(2.5)));
        assert_eq!("auto".parse::<Radius>().ok(), Some(Radius::Auto(3.0)));
        assert_eq!("auto:2".parse::<Radius>().ok(), Some(Radius::Auto(2.0)));
        let message = "drpo".parse::<Missing>().expect_err("no such word").to_string();
        assert_eq!(message, "missing must be error or drop or indicator or mean, but is 'drpo'");
        let message = "auto:x".parse::<Radius>().expect_err("no number").to_string();
        assert_eq!(message, "radius must be a number, auto or auto:A, but is 'auto:x'");
    }
}
