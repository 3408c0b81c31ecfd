//! What the wrappers pass down as one dictionary of options, and the library's settings that they stand for.

use pyo3::prelude::*;
use tithe::base::error::{Error, Result};
use tithe::base::rng::Seed;
use tithe::coreset::Method;
use tithe::coreset::build::BuildSettings;
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::{CenterRule, Radius};
use tithe::data::source::{OpenOptions, Source};
use tithe::data::table::Roles;
use tithe::encoding::survey::EncodingSettings;
use tithe::encoding::{Encoding, Unseen};
use tithe::engine::{EngineSettings, Missing};
use tithe::mcmc::Settings;
use tithe::model::{Prior, PriorChoice};
use tithe::results::fit::FitSettings;
use tithe::stream::StreamSettings;

use crate::data::Budget;

/// How data is read.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Reading {
    format: Option<String>,
    header: bool,
    zero_based: bool,
    text: Vec<String>,
    pub threads: Option<usize>,
    pub memory: Option<u64>,
    pub block_rows: Option<usize>,
}

impl Reading {
    /// How files are opened.
    pub fn open_options(&self, budget: Budget) -> Result<OpenOptions> {
        Ok(OpenOptions {
            format: self.format.as_deref().map(str::parse).transpose()?,
            header: self.header,
            zero_based: self.zero_based.then_some(true),
            text: self.text.clone(),
            memory: budget.once,
            ..OpenOptions::default()
        })
    }

    /// How the engine works.
    pub fn engine(&self, budget: Budget, missing: Missing) -> EngineSettings {
        EngineSettings { threads: self.threads, memory: budget.decoded, missing, block_rows: self.block_rows }
    }
}

/// Which columns serve for what.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Columns {
    label: Option<String>,
    weight: Option<String>,
    features: Option<Vec<String>>,
    exclude: Vec<String>,
    positive: Option<String>,
    intercept: bool,
    standardize: bool,
    max_levels: usize,
    missing: String,
}

impl Columns {
    /// The columns' roles.
    pub fn roles(&self, source: &dyn Source) -> Result<Roles> {
        let label = match &self.label {
            Some(label) => label.clone(),
            None if source.is_sparse() => "label".to_string(),
            None => {
                let names: Vec<&str> =
                    source.fields().iter().take(20).map(|field| field.name.as_str()).collect();
                let what = format!(
                    "is needed: name the column with the two classes (there are {})",
                    names.join(", ")
                );
                return Err(Error::setting("--label", what));
            }
        };
        Ok(Roles {
            label,
            weight: self.weight.clone(),
            features: self.features.clone(),
            exclude: self.exclude.clone(),
        })
    }

    /// The same where label and weight may stand beside the data, by other names.
    pub fn beside(&self, label: Option<&String>, weight: Option<&String>) -> Columns {
        let (label, weight) = (label.or(self.label.as_ref()), weight.or(self.weight.as_ref()));
        Columns { label: label.cloned(), weight: weight.cloned(), ..self.clone() }
    }

    /// A known encoding with the weights of this data, where it has any; what contradicts it is refused.
    pub fn known(&self, known: Encoding) -> Result<Encoding> {
        self.encoding().check_against(&known, self.label(), self.features.as_deref(), &self.exclude)?;
        Ok(Encoding { weight: self.weight.clone().or(known.weight), ..known })
    }

    /// The label's name, where the user gave it.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// The weights' name, where the user gave it.
    pub fn weight(&self) -> Option<&str> {
        self.weight.as_deref()
    }

    /// How columns enter the model.
    pub fn encoding(&self) -> EncodingSettings {
        EncodingSettings {
            intercept: self.intercept,
            standardize: self.standardize,
            positive: self.positive.clone(),
            max_levels: self.max_levels,
            ..EncodingSettings::default()
        }
    }

    /// What to do with unusable rows.
    pub fn missing(&self) -> Result<Missing> {
        match self.missing.as_str() {
            "error" => Ok(Missing::Error),
            "drop" => Ok(Missing::Drop),
            other => Err(Error::setting("--missing", format!("'{other}' is neither error nor drop"))),
        }
    }
}

/// The encoding of a coreset, for others to take.
#[pyclass(frozen, name = "Encoding", module = "tithe._native")]
pub struct KnownEncoding(pub Encoding);

/// What coreset to build.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Building {
    size: Option<usize>,
    kl: Option<f64>,
    epsilon: Option<f64>,
    delta: f64,
    constant: f64,
    method: Option<String>,
    clusters: usize,
    radius: RadiusOption,
    theta_star: Vec<(String, f64)>,
    centers: String,
    collapse: bool,
    prior_scale: f64,
    seed: u64,
    encoding: Option<Py<KnownEncoding>>,
}

#[derive(FromPyObject)]
enum RadiusOption {
    Fixed(f64),
    Words(String),
}

impl Building {
    /// The encoding to take, if none is to be learnt.
    pub fn known(&self) -> Option<Encoding> {
        self.encoding.as_ref().map(|encoding| encoding.get().0.clone())
    }

    /// The settings, checked.
    pub fn settings(&self, encoding: EncodingSettings) -> Result<BuildSettings> {
        let given = [self.size.is_some(), self.kl.is_some(), self.epsilon.is_some()];
        if given.iter().filter(|given| **given).count() > 1 {
            return Err(Error::setting("--size", "is one of size, kl and epsilon; give only one of them"));
        }
        let size = match (self.epsilon, self.kl) {
            (Some(epsilon), _) => Size::Guarantee { epsilon, delta: self.delta, constant: self.constant },
            (None, Some(target)) => Size::Kl { target },
            (None, None) => Size::Rows(self.size.unwrap_or(1000)),
        };
        let method = match self.method.as_deref() {
            None if self.epsilon.is_some() => Method::Sensitivity,
            None | Some("calibrated") => Method::Calibrated,
            Some("sensitivity") => Method::Sensitivity,
            Some("uniform") => Method::Uniform,
            Some(other) => {
                let what = format!("'{other}' is none of calibrated, sensitivity, uniform");
                return Err(Error::setting("--method", what));
            }
        };
        let settings = BuildSettings {
            method,
            size,
            clusters: self.clusters,
            radius: self.radius.value()?,
            theta_star: self.theta_star.clone(),
            centers: match self.centers.as_str() {
                "exact" => CenterRule::Exact,
                "quick" => CenterRule::Quick,
                other => {
                    return Err(Error::setting("--centers", format!("'{other}' is neither exact nor quick")));
                }
            },
            collapse: self.collapse,
            seed: Seed(self.seed),
            encoding: EncodingSettings { known: self.known(), ..encoding },
            prior_scale: self.prior_scale,
        };
        settings.check()?;
        Ok(settings)
    }
}

impl RadiusOption {
    fn value(&self) -> Result<Radius> {
        match self {
            RadiusOption::Fixed(radius) => Ok(Radius::Fixed(*radius)),
            RadiusOption::Words(word) if word == "auto" => Ok(Radius::Auto(3.0)),
            RadiusOption::Words(word) => {
                let number = word.strip_prefix("auto:").and_then(|number| number.parse().ok());
                let wrong = || Error::setting("--radius", format!("'{word}' is neither a number nor auto:A"));
                number.map(Radius::Auto).ok_or_else(wrong)
            }
        }
    }
}

/// How a stream flows.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Flowing {
    block: usize,
    warmup_rows: Option<usize>,
    unseen: String,
    pub skip_bad: Option<u64>,
    pub replay: bool,
}

impl Flowing {
    /// The settings, checked.
    pub fn settings(&self, building: &Building, columns: &Columns) -> Result<StreamSettings> {
        if let Some(known) = building.known() {
            columns.known(known)?;
        }
        let unseen = match self.unseen.as_str() {
            "error" => Unseen::Error,
            "reference" => Unseen::Reference,
            other => {
                return Err(Error::setting("--unseen", format!("'{other}' is neither error nor reference")));
            }
        };
        if self.warmup_rows.is_some() && building.known().is_some() {
            return Err(Error::setting("--warmup-rows", "is of no use where the encoding is known"));
        }
        Ok(StreamSettings {
            build: building.settings(EncodingSettings { unseen, ..columns.encoding() })?,
            missing: columns.missing()?,
            block: self.block,
            warmup_rows: self.warmup_rows.unwrap_or(self.block),
        })
    }
}

/// How to fit.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Fitting {
    sampler: String,
    prior: String,
    intercept_prior: Option<String>,
    prior_for: Vec<(String, String)>,
    chains: usize,
    draws: usize,
    warmup: usize,
    seed: u64,
    threads: Option<usize>,
}

impl Fitting {
    /// The settings, checked.
    pub fn settings(&self) -> Result<FitSettings> {
        let draws =
            Settings { chains: self.chains, draws: self.draws, warmup: self.warmup, seed: Seed(self.seed) };
        draws.check()?;
        let named = |(name, prior): &(String, String)| Ok((name.clone(), prior.parse::<Prior>()?));
        Ok(FitSettings {
            sampler: self.sampler.parse()?,
            priors: PriorChoice {
                general: self.prior.parse()?,
                intercept: self.intercept_prior.as_deref().map(str::parse).transpose()?,
                named: self.prior_for.iter().map(named).collect::<Result<_>>()?,
            },
            draws,
            threads: self.threads,
        })
    }
}
