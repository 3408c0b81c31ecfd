//! Data on a cluster: the driver, which asks Python to run a task on every partition, and the workers.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use tithe::base::error::{ErrorKind, Result};
use tithe::coreset::build::build_on;
use tithe::data::source::partition::Passing;
use tithe::data::source::{OpenOptions, Source, open};
use tithe::data::table::Table;
use tithe::distributed::{Cluster, ClusterEngine, do_task, empty_outcome, join_outcomes};
use tithe::encoding::full_data::open_with;
use tithe::options::ColumnOptions;
use tithe::results::verify::{VerifySettings, verify as verify_against};

use crate::coreset::Coreset;
use crate::data::{Data, Opener};
use crate::errors::to_python;
use crate::options::{Options, Reading, build_options, column_options};
use crate::posterior::{Posterior, Verified, verified};
use crate::shared::stream_of;
use crate::work::{Watch, run};

/// A Python function `run(name, task) -> [outcome]`, and the exception that it raised.
#[derive(Clone)]
struct Runner {
    function: Arc<Py<PyAny>>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Runner {
    fn new(function: Py<PyAny>) -> Runner {
        Runner { function: Arc::new(function), raised: Arc::default() }
    }

    /// The exception that the function raised, or else the one that reports that work stopped.
    fn reason(&self, py: Python<'_>, stopped: PyErr) -> PyErr {
        // Ctrl-C makes Spark's own work fail too.
        if !stopped.is_instance_of::<PyException>(py) {
            return stopped;
        }
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(stopped)
    }
}

impl Cluster for Runner {
    fn run(&self, name: &str, task: &[u8]) -> Result<Vec<Vec<u8>>> {
        let called = Python::attach(|py| {
            let outcomes = self.function.call1(py, (name, PyBytes::new(py, task)))?;
            let outcomes: Vec<PyBackedBytes> = outcomes.extract(py)?;
            Ok(outcomes.iter().map(|outcome| outcome.to_vec()).collect())
        });
        called.map_err(|raised: PyErr| {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
            ErrorKind::Cancelled.into()
        })
    }
}

/// Opens data to read only its columns' names and types.
fn columns(opener: &Opener, reading: &Reading, columns: &ColumnOptions, watch: &Watch) -> Result<Table> {
    let budget = opener.budget(reading.memory);
    let source = opener.open(&reading.open_options(budget), budget, watch)?;
    let roles = columns.roles(&*source)?;
    Table::new(source, &roles)
}

/// The same for the columns of a posterior.
fn known_columns(
    opener: &Opener,
    reading: &Reading,
    posterior: &tithe::results::fit::Fit,
    watch: &Watch,
) -> Result<Table> {
    let budget = opener.budget(reading.memory);
    let options = reading.open_options(budget);
    open_with(&posterior.encoding, &options, |options| opener.open(options, budget, watch))
}

fn names(py: Python<'_>, table: Result<Table>) -> PyResult<Vec<String>> {
    let table = table.map_err(|error| to_python(py, &error))?;
    Ok(table.columns_read())
}

/// The columns that a build reads.
#[pyfunction]
pub fn columns_to_build(data: &Data, options: &Options<'_>) -> PyResult<Vec<String>> {
    let (reading, roles) = (Reading::new(options)?, column_options(options)?);
    names(options.py(), columns(&data.opener(), &reading, &roles, &Watch::default()))
}

/// The columns that the check of a posterior reads.
#[pyfunction]
pub fn columns_to_verify(posterior: &Posterior, data: &Data, options: &Options<'_>) -> PyResult<Vec<String>> {
    let reading = Reading::new(options)?;
    names(options.py(), known_columns(&data.opener(), &reading, &posterior.0, &Watch::default()))
}

/// Builds a coreset of rows on a cluster; `data` has their columns.
#[pyfunction]
pub fn build_elsewhere(
    data: &Data,
    options: &Options<'_>,
    function: Py<PyAny>,
    watcher: &Bound<'_, PyAny>,
) -> PyResult<Coreset> {
    let (reading, roles) = (Reading::new(options)?, column_options(options)?);
    let building = build_options(options)?;
    let (opener, runner) = (data.opener(), Runner::new(function));
    let on_thread = runner.clone();
    let built = run(watcher, move |watch| {
        let settings = building.settings(&roles)?;
        let missing = roles.missing();
        let table = columns(&opener, &reading, &roles, watch)?;
        let engine = ClusterEngine::new(&on_thread, table, missing, reading.block_rows, watch)?;
        build_on(&engine, &settings)
    });
    let py = watcher.py();
    Ok(Coreset(Arc::new(built.map_err(|stopped| runner.reason(py, stopped))?.coreset)))
}

/// Checks a posterior against rows on a cluster.
#[pyfunction]
pub fn verify_elsewhere<'py>(
    posterior: &Posterior,
    data: &Data,
    options: &Options<'_>,
    draws: Option<usize>,
    force: bool,
    function: Py<PyAny>,
    watcher: &Bound<'py, PyAny>,
) -> PyResult<Verified<'py>> {
    let reading = Reading::new(options)?;
    let (opener, fit, runner) = (data.opener(), posterior.0.clone(), Runner::new(function));
    let on_thread = runner.clone();
    let found = run(watcher, move |watch| {
        let table = known_columns(&opener, &reading, &fit, watch)?;
        let engine = ClusterEngine::new(&on_thread, table, fit.basis.missing(), reading.block_rows, watch)?;
        verify_against(&engine, &fit, &VerifySettings { draws, force })
    });
    let py = watcher.py();
    Ok(verified(py, &found.map_err(|stopped| runner.reason(py, stopped))?))
}

/// Runs a task on a partition whose rows come from an `__arrow_c_stream__`.
#[pyfunction]
pub fn task_on_stream<'py>(
    py: Python<'py>,
    task: &[u8],
    partition: u64,
    capsule: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let reader = stream_of(capsule)?;
    let done = py.detach(|| {
        do_task(task, partition, |text| {
            let mut rows = Passing::new(Box::new(reader))?;
            text.iter().try_for_each(|name| rows.read_as_text(name))?;
            Ok(Box::new(rows) as Box<dyn Source>)
        })
    });
    bytes(py, done)
}

/// Runs a task on a partition that is a file.
#[pyfunction]
pub fn task_on_file<'py>(
    py: Python<'py>,
    task: &[u8],
    partition: u64,
    path: String,
    options: &Options<'py>,
) -> PyResult<Bound<'py, PyBytes>> {
    let reading = Reading::new(options)?;
    let done = py.detach(|| {
        do_task(task, partition, |text| {
            let options = reading.open_options(crate::data::Budget { once: 0, decoded: 0 });
            open(&[path], &OpenOptions { text: text.to_vec(), ..options })
        })
    });
    bytes(py, done)
}

/// The outcome of any task on a partition without rows.
#[pyfunction]
pub fn task_on_nothing(py: Python<'_>, partition: u64) -> PyResult<Bound<'_, PyBytes>> {
    bytes(py, empty_outcome(partition))
}

/// Joins outcomes of a task.
#[pyfunction]
pub fn joined<'py>(
    py: Python<'py>,
    task: &[u8],
    outcomes: Vec<PyBackedBytes>,
) -> PyResult<Bound<'py, PyBytes>> {
    let outcomes: Vec<Vec<u8>> = outcomes.iter().map(|outcome| outcome.to_vec()).collect();
    bytes(py, py.detach(|| join_outcomes(task, &outcomes)))
}

fn bytes(py: Python<'_>, made: Result<Vec<u8>>) -> PyResult<Bound<'_, PyBytes>> {
    made.map(|made| PyBytes::new(py, &made)).map_err(|error| to_python(py, &error))
}
