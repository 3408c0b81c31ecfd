//! Fills the library's options from the dictionary that the Python code passes with each call.

use std::str::FromStr;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tithe::base::error::Error;
use tithe::coreset::sensitivity::Radius;
use tithe::data::source::OpenOptions;
use tithe::encoding::Encoding;
use tithe::engine::{EngineSettings, Missing};
use tithe::model::{Prior, PriorChoice};
use tithe::options::{BuildOptions, ColumnOptions, DataFitOptions, FitOptions, ReadOptions, StreamOptions};

use crate::data::Budget;
use crate::errors::to_python;

/// The options of one call, by name. An option that is absent or `None` has its default.
pub type Options<'py> = Bound<'py, PyDict>;

/// The value of an option; `None` if it is absent or `None`.
pub fn given<'py, T: FromPyObjectOwned<'py>>(options: &Options<'py>, name: &str) -> PyResult<Option<T>> {
    match options.get_item(name)? {
        Some(value) if !value.is_none() => value.extract().map(Some).map_err(Into::into),
        _ => Ok(None),
    }
}

/// The encoding of a coreset, to build another one with.
#[pyclass(frozen, name = "Encoding", module = "tithe._native")]
pub struct KnownEncoding(pub Encoding);

/// How data is read.
pub struct Reading {
    files: ReadOptions,
    pub threads: Option<usize>,
    pub memory: Option<u64>,
    pub block_rows: Option<usize>,
}

impl Reading {
    /// The options of everything that reads data.
    pub fn new(options: &Options<'_>) -> PyResult<Reading> {
        // Columns in C() and columns of groups are used by their levels.
        let mut text: Vec<String> = given(options, "text")?.unwrap_or_default();
        text.extend(
            column_options(options)?.text_columns().map_err(|error| to_python(options.py(), &error))?,
        );
        let files = ReadOptions {
            format: parsed(options, "format")?,
            header: given(options, "header")?,
            zero_based: given(options, "zero_based")?.unwrap_or(false),
            text,
            numbers: given(options, "numbers")?.unwrap_or_default(),
            delimiter: parsed(options, "delimiter")?,
            decimal: parsed(options, "decimal")?,
            null_values: given(options, "null_values")?.unwrap_or_default(),
        };
        Ok(Reading {
            files,
            threads: given(options, "threads")?,
            memory: given(options, "memory")?,
            block_rows: given(options, "block_rows")?,
        })
    }

    /// How files are opened.
    pub fn open_options(&self, budget: Budget) -> OpenOptions {
        self.files.open_options(budget.once)
    }

    /// How the engine works.
    pub fn engine(&self, budget: Budget, missing: Missing) -> EngineSettings {
        EngineSettings { threads: self.threads, memory: budget.decoded, missing, block_rows: self.block_rows }
    }
}

/// Which columns are used, and how they enter the model.
pub fn column_options(options: &Options<'_>) -> PyResult<ColumnOptions> {
    let known: Option<Py<KnownEncoding>> = given(options, "encoding")?;
    Ok(ColumnOptions {
        formula: given(options, "formula")?,
        label: given(options, "label")?,
        weight: given(options, "weight")?,
        features: given(options, "features")?,
        exclude: given(options, "exclude")?.unwrap_or_default(),
        dates: given(options, "dates")?.unwrap_or_default(),
        positive: given(options, "positive")?,
        intercept: given(options, "intercept")?,
        standardize: parsed(options, "standardize")?,
        max_levels: given(options, "max_levels")?,
        groups: given(options, "groups")?,
        min_level_rows: given(options, "min_level_rows")?,
        missing: parsed(options, "missing")?,
        known: known.map(|known| known.get().0.clone()),
    })
}

/// Which coreset to build.
pub fn build_options(options: &Options<'_>) -> PyResult<BuildOptions> {
    Ok(BuildOptions {
        size: given(options, "size")?,
        kl: given(options, "kl")?,
        epsilon: given(options, "epsilon")?,
        delta: given(options, "delta")?,
        constant: given(options, "constant")?,
        method: parsed(options, "method")?,
        clusters: given(options, "clusters")?,
        radius: match options.get_item("radius")? {
            Some(radius) if radius.extract::<f64>().is_ok() => Some(Radius::Fixed(radius.extract()?)),
            _ => parsed(options, "radius")?,
        },
        theta_star: given(options, "theta_star")?,
        centers: parsed(options, "centers")?,
        collapse: given(options, "collapse")?,
        priors: priors(options)?,
        certificate: parsed(options, "certificate")?,
        seed: given(options, "seed")?.unwrap_or_default(),
    })
}

/// How a stream works.
pub fn stream_options(options: &Options<'_>) -> PyResult<StreamOptions> {
    Ok(StreamOptions {
        block: given(options, "block")?,
        warmup_rows: given(options, "warmup_rows")?,
        half_life: given(options, "half_life")?,
        unseen: parsed(options, "unseen")?,
    })
}

/// The priors; `None` if none is given.
fn priors(options: &Options<'_>) -> PyResult<Option<PriorChoice>> {
    let (general, intercept) = (parsed(options, "prior")?, parsed(options, "intercept_prior")?);
    let named: Vec<(String, String)> = given(options, "prior_for")?.unwrap_or_default();
    if general.is_none() && intercept.is_none() && named.is_empty() {
        return Ok(None);
    }
    let usual = PriorChoice::default();
    let named = named.into_iter().map(|(name, prior)| Ok((name, parse::<Prior>(options.py(), &prior)?)));
    Ok(Some(PriorChoice {
        general: general.unwrap_or(usual.general),
        intercept,
        named: named.collect::<PyResult<_>>()?,
    }))
}

/// How to draw from a posterior.
pub fn fit_options(options: &Options<'_>) -> PyResult<FitOptions> {
    Ok(FitOptions {
        sampler: parsed(options, "sampler")?,
        priors: priors(options)?,
        group_prior: parsed(options, "group_prior")?,
        chains: given(options, "chains")?,
        draws: given(options, "draws")?,
        warmup: given(options, "warmup")?,
        seed: given(options, "seed")?.unwrap_or_default(),
        threads: given(options, "threads")?,
    })
}

/// How to fit data of any size.
pub fn data_fit_options(options: &Options<'_>) -> PyResult<DataFitOptions> {
    Ok(DataFitOptions {
        fit: fit_options(options)?,
        whole: given(options, "whole")?.unwrap_or_default(),
        size: given(options, "size")?,
        kl: given(options, "kl")?,
        keep: given(options, "keep")?.unwrap_or_default(),
    })
}

/// An option that is one of several words.
fn parsed<T: FromStr<Err = Error>>(options: &Options<'_>, name: &str) -> PyResult<Option<T>> {
    let word: Option<String> = given(options, name)?;
    word.map(|word| parse(options.py(), &word)).transpose()
}

/// What a word means.
pub fn parse<T: FromStr<Err = Error>>(py: Python<'_>, word: &str) -> PyResult<T> {
    word.parse().map_err(|error| to_python(py, &error))
}
