//! Coresets for Python: building, reading, writing and fitting them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use serde_json::json;
use tithe::base::error::{Error, Setting};
use tithe::base::machine::memory_limit;
use tithe::base::rng::Seed;
use tithe::coreset::build::build_on;
use tithe::coreset::file::{coreset_bytes, coreset_table, read_coreset, read_coreset_from, write_coreset};
use tithe::data::generate::{Recipe, write_generated};
use tithe::data::sink::{Output, RowFormat};
use tithe::data::source::{Input, OpenOptions};
use tithe::data::table::Table;
use tithe::encoding::full_data::open_with;
use tithe::engine::LocalEngine;
use tithe::results::fit_grouped::fit_coreset;
use tithe::results::one_step::fit_in_one_step;

use crate::data::Data;
use crate::errors::to_python;
use crate::options::{
    KnownEncoding, Options, Reading, build_options, column_options, data_fit_options, fit_options,
};
use crate::posterior::Posterior;
use crate::shared::capsule_of;
use crate::work::run;

type Numbers<'py> = Bound<'py, PyArray1<f64>>;

/// A coreset; a copy shares it.
#[pyclass(frozen, module = "tithe._native")]
pub struct Coreset(pub Arc<tithe::coreset::Coreset>);

/// Builds a coreset.
#[pyfunction]
pub fn build(data: &Data, options: &Options<'_>, watcher: &Bound<'_, PyAny>) -> PyResult<Coreset> {
    let (reading, columns) = (Reading::new(options)?, column_options(options)?);
    let (building, opener) = (build_options(options)?, data.opener());
    let built = run(watcher, move |watch| {
        let settings = building.settings(&columns)?;
        let missing = columns.missing();
        let budget = opener.budget(reading.memory);
        let options = reading.open_options(budget);
        let open = |options: &OpenOptions| opener.open(options, budget, watch);
        let table = match &settings.encoding.known {
            Some(known) => open_with(known, &options, open)?,
            None => {
                let source = open(&options)?;
                let roles = columns.roles(&*source)?;
                Table::new(source, &roles)?
            }
        };
        let engine = LocalEngine::new(table, &reading.engine(budget, missing), watch)?;
        build_on(&engine, &settings)
    })?;
    Ok(Coreset(Arc::new(built.coreset)))
}

/// Fits data of any size: the posterior, and the coreset that it was fitted to if there is one.
#[pyfunction]
pub fn fit(
    data: &Data,
    options: &Options<'_>,
    watcher: &Bound<'_, PyAny>,
) -> PyResult<(Posterior, Option<Coreset>)> {
    let (reading, columns) = (Reading::new(options)?, column_options(options)?);
    let (fitting, opener) = (data_fit_options(options)?, data.opener());
    let found = run(watcher, move |watch| {
        // Rows that are fitted at once are held as points.
        let points = reading.memory.or_else(memory_limit).unwrap_or(4 << 30) / 2;
        let settings = fitting.settings(&columns, points)?;
        let missing = columns.missing();
        let budget = opener.budget(reading.memory);
        let source = opener.open(&reading.open_options(budget), budget, watch)?;
        let roles = columns.roles(&*source)?;
        let engine = LocalEngine::new(Table::new(source, &roles)?, &reading.engine(budget, missing), watch)?;
        fit_in_one_step(&engine, &settings)
    })?;
    let coreset = found.by_coreset.map(|found| Coreset(Arc::new(found.built.coreset)));
    Ok((Posterior(Arc::new(found.fit)), coreset))
}

#[pymethods]
impl Coreset {
    /// Reads a coreset's file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Coreset> {
        let read = py.detach(|| read_coreset(&path));
        Ok(Coreset(Arc::new(read.map_err(|error| to_python(py, &error))?)))
    }

    /// A coreset from the bytes of its file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Coreset> {
        let read = read_coreset_from(&Input::bytes("the pickled coreset", bytes.to_vec()));
        Ok(Coreset(Arc::new(read.map_err(|error| to_python(py, &error))?)))
    }

    /// The bytes of its file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = coreset_bytes(&self.0).map_err(|error| to_python(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes its file.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let written = py.detach(|| write_coreset(&self.0, Output::create(&path)?));
        written.map_err(|error| to_python(py, &error))
    }

    /// Its table as an Arrow stream.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule_of(py, coreset_table(&self.0).map_err(|error| to_python(py, &error))?)
    }

    /// The features in the data's own units (text one-hot), row by row, without the intercept.
    fn x<'py>(&self, py: Python<'py>) -> PyResult<Numbers<'py>> {
        let x = self.0.own_units().map_err(|error| to_python(py, &error))?;
        Ok(PyArray1::from_vec(py, x))
    }

    /// The labels, 0 and 1.
    fn y<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let labels = self.0.labels().map_err(|error| to_python(py, &error))?;
        Ok(PyArray1::from_vec(py, labels.into_iter().map(i64::from).collect()))
    }

    fn weights<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_vec(py, self.0.weights.clone())
    }

    /// Positions of the rows in the data.
    fn rows<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_vec(py, self.0.rows.positions.iter().map(|&row| row as i64).collect())
    }

    fn len(&self) -> usize {
        self.0.rows.len()
    }

    /// How its columns enter the model.
    fn encoding(&self) -> KnownEncoding {
        KnownEncoding(self.0.encoding.clone())
    }

    /// How it was made, as JSON.
    fn facts(&self) -> String {
        let encoding = &self.0.encoding;
        let (center, scale) = encoding.transform();
        json!({
            "provenance": self.0.provenance,
            "encoding": encoding,
            "coefficients": encoding.coefficient_names(),
            "center": center,
            "scale": scale,
        })
        .to_string()
    }

    /// Draws from its posterior.
    fn fit(&self, options: &Options<'_>, watcher: &Bound<'_, PyAny>) -> PyResult<Posterior> {
        let (options, coreset) = (fit_options(options)?, self.0.clone());
        let fit = run(watcher, move |watch| fit_coreset(&coreset, &options.settings()?, watch))?;
        Ok(Posterior(Arc::new(fit)))
    }
}

/// Generates the paper's synthetic data: writes a file, or returns its columns one after the other and the labels.
#[pyfunction]
pub fn generate<'py>(
    recipe: &str,
    rows: u64,
    seed: u64,
    path: Option<PathBuf>,
    watcher: &Bound<'py, PyAny>,
) -> PyResult<Option<(Numbers<'py>, Numbers<'py>)>> {
    let py = watcher.py();
    let recipe: Recipe =
        recipe.parse().map_err(|what| to_python(py, &Error::setting(Setting::Recipe, what)))?;
    if let Some(path) = path {
        run(watcher, move |watch| {
            let format =
                RowFormat::of(Path::new(&path), &[RowFormat::Parquet, RowFormat::Csv, RowFormat::Libsvm])?;
            write_generated(recipe, Seed(seed), rows, Output::create(&path)?, format, watch)
        })?;
        return Ok(None);
    }
    // The columns, and a copy of all of them in one vector.
    let bytes = rows.saturating_mul(16 * (recipe.dim() as u64 + 1));
    if bytes > memory_limit().unwrap_or(u64::MAX) {
        let what = "needs more memory than this machine has: give a path to write them to a file".to_string();
        return Err(to_python(py, &Error::setting(Setting::Rows, what)));
    }
    let made = run(watcher, move |_| Ok(recipe.data(Seed(seed), rows as usize)))?;
    Ok(Some((PyArray1::from_vec(py, made.x.concat()), PyArray1::from_vec(py, made.y))))
}
