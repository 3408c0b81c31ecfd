//! Posteriors for Python: draws, predictions, and the check against the full data.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict};
use serde_json::json;
use tithe::data::sink::Output;
use tithe::data::source::{Input, OpenOptions};
use tithe::encoding::full_data::open_with;
use tithe::engine::LocalEngine;
use tithe::mcmc::draws::{Chain, Stats};
use tithe::results::file::{
    posterior_bytes, posterior_table, prior_scale, read_posterior, read_posterior_from, write_posterior,
};
use tithe::results::fit::Fit;
use tithe::results::one_step::verify_and_correct;
use tithe::results::predict::{PredictSettings, Prediction, log_odds, probabilities};
use tithe::results::verify::{Verification, VerifySettings, verify as verify_against};

use crate::data::Data;
use crate::errors::{PythonWords, to_python};
use crate::options::{Options, Reading, parse};
use crate::shared::capsule_of;
use crate::work::run;

/// A posterior; a copy shares it.
#[pyclass(frozen, module = "tithe._native")]
pub struct Posterior(pub Arc<Fit>);

type Column<'py> = Bound<'py, PyArray1<f64>>;

#[pymethods]
impl Posterior {
    /// Reads a posterior's file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Posterior> {
        let read = py.detach(|| read_posterior(&path));
        Ok(Posterior(Arc::new(read.map_err(|error| to_python(py, &error))?)))
    }

    /// A posterior from the bytes of its file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Posterior> {
        let read = read_posterior_from(&Input::bytes("the pickled posterior", bytes.to_vec()));
        Ok(Posterior(Arc::new(read.map_err(|error| to_python(py, &error))?)))
    }

    /// The bytes of its file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = posterior_bytes(&self.0).map_err(|error| to_python(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes its file.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let written = py.detach(|| write_posterior(&self.0, Output::create(&path)?));
        written.map_err(|error| to_python(py, &error))
    }

    /// Its table as an Arrow stream.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule_of(py, posterior_table(&self.0).map_err(|error| to_python(py, &error))?)
    }

    /// All draws of all chains; the coefficients of a draw are adjacent.
    fn draws<'py>(&self, py: Python<'py>) -> Column<'py> {
        PyArray1::from_vec(
            py,
            self.0.draws.chains.iter().flat_map(|chain| chain.theta.iter().copied()).collect(),
        )
    }

    /// Sampler statistics under ArviZ's names, chain by chain.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = PyDict::new(py);
        let chains = &self.0.draws.chains;
        let numbers = |values: &dyn Fn(&Chain) -> Vec<f64>| {
            PyArray1::from_vec(py, chains.iter().flat_map(values).collect::<Vec<f64>>())
        };
        stats.set_item("lp", numbers(&|chain| chain.lp.clone()))?;
        let first = chains.first().map(|chain| &chain.stats);
        if matches!(first, None | Some(Stats::Independent)) {
            return Ok(stats);
        }
        stats.set_item(
            "acceptance_rate",
            numbers(&|chain| chain.stats.acceptance_rate().unwrap_or_default().to_vec()),
        )?;
        let step = |chain: &Chain| vec![chain.stats.step_size().unwrap_or(f64::NAN); chain.lp.len()];
        stats.set_item("step_size", numbers(&step))?;
        if !matches!(first, Some(Stats::Hamiltonian { .. })) {
            return Ok(stats);
        }
        let (mut energies, mut depths, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        let (mut divergent, mut cut) = (Vec::new(), Vec::new());
        for chain in chains {
            if let Stats::Hamiltonian {
                diverging, energy, tree_depth, n_steps, reached_max_treedepth, ..
            } = &chain.stats
            {
                energies.extend_from_slice(energy);
                depths.extend(tree_depth.iter().map(|&depth| i64::from(depth)));
                steps.extend(n_steps.iter().map(|&steps| i64::from(steps)));
                divergent.extend_from_slice(diverging);
                cut.extend_from_slice(reached_max_treedepth);
            }
        }
        stats.set_item("diverging", PyArray1::from_vec(py, divergent))?;
        stats.set_item("energy", PyArray1::from_vec(py, energies))?;
        stats.set_item("tree_depth", PyArray1::from_vec(py, depths))?;
        stats.set_item("n_steps", PyArray1::from_vec(py, steps))?;
        stats.set_item("reached_max_treedepth", PyArray1::from_vec(py, cut))?;
        Ok(stats)
    }

    /// Draws of scales and correlations, and of group effects; those of one draw are adjacent. `None` without group effects.
    fn group_draws<'py>(&self, py: Python<'py>) -> Option<(Column<'py>, Column<'py>)> {
        let groups = self.0.groups.as_ref()?;
        let scales = groups.scales.chains.iter().flat_map(|chain| chain.theta.iter().copied()).collect();
        let effects = groups.effects.concat();
        Some((PyArray1::from_vec(py, scales), PyArray1::from_vec(py, effects)))
    }

    /// The summaries of scales and correlations, and of group effects, as JSON.
    fn group_summaries(&self) -> String {
        let groups = self.0.groups.as_ref();
        let summaries = groups.map(|groups| (&groups.scale_summary, &groups.effect_summary));
        json!(summaries).to_string()
    }

    /// Everything but the draws, as JSON.
    fn facts(&self) -> String {
        let fit = &self.0;
        let priors: Vec<String> = fit.priors.coefficients.iter().map(ToString::to_string).collect();
        let findings: Vec<String> =
            fit.findings.iter().map(|finding| finding.message(&PythonWords)).collect();
        json!({
            "coefficients": fit.draws.names,
            "sampler": fit.sampler,
            "settings": fit.settings,
            "priors": priors,
            "prior_scale": prior_scale(&fit.encoding),
            "encoding": fit.encoding,
            "basis": fit.basis,
            "summary": fit.summary,
            "findings": findings,
            "verified": fit.verified,
            "factors": fit.groups.as_ref().map(|groups| &groups.factors),
            "scales": fit.groups.as_ref().map(|groups| &groups.scales.names),
        })
        .to_string()
    }

    /// Mean, sd and interval of the positive class's probability for every row.
    fn predict<'py>(
        &self,
        data: &Data,
        options: &Options<'_>,
        interval: f64,
        unseen: &str,
        missing: &str,
        watcher: &Bound<'py, PyAny>,
    ) -> PyResult<(Column<'py>, Column<'py>, Column<'py>, Column<'py>)> {
        let py = watcher.py();
        let reading = Reading::new(options)?;
        let (unseen, incomplete) = (parse(py, unseen)?, parse(py, missing)?);
        let settings = PredictSettings { interval, unseen, incomplete, threads: reading.threads };
        let (opener, fit) = (data.opener(), self.0.clone());
        let found = run(watcher, move |watch| {
            let budget = opener.budget(reading.memory);
            let options = reading.open_options(budget);
            probabilities(&fit, &options, |options| opener.open(options, budget, watch), &settings, watch)
        })?;
        let column = |fact: fn(&Prediction) -> f64| {
            PyArray1::from_vec(py, found.iter().map(fact).collect::<Vec<f64>>())
        };
        Ok((column(|p| p.mean), column(|p| p.sd), column(|p| p.lower), column(|p| p.upper)))
    }

    /// The log-odds of the positive class for every row, each under the draw with the given number.
    fn log_odds<'py>(
        &self,
        data: &Data,
        draws: Vec<usize>,
        unseen: &str,
        watcher: &Bound<'py, PyAny>,
    ) -> PyResult<Column<'py>> {
        let py = watcher.py();
        let (opener, fit, unseen) = (data.opener(), self.0.clone(), parse(py, unseen)?);
        let found = run(watcher, move |watch| {
            let budget = opener.budget(None);
            let options = OpenOptions::default();
            log_odds(&fit, &options, |options| opener.open(options, budget, watch), &draws, unseen, watch)
        })?;
        Ok(PyArray1::from_vec(py, found))
    }
}

/// The result of a check: a record as JSON, the importance weights, and the indices of their draws.
pub type Verified<'py> = (String, Column<'py>, Bound<'py, PyArray1<i64>>);

/// Checks a posterior against the full data.
#[pyfunction]
pub fn verify<'py>(
    posterior: &Posterior,
    data: &Data,
    options: &Options<'_>,
    draws: Option<usize>,
    force: bool,
    watcher: &Bound<'py, PyAny>,
) -> PyResult<Verified<'py>> {
    let reading = Reading::new(options)?;
    let (opener, fit) = (data.opener(), posterior.0.clone());
    let found = run(watcher, move |watch| {
        let budget = opener.budget(reading.memory);
        let options = reading.open_options(budget);
        let table = open_with(&fit.encoding, &options, |options| opener.open(options, budget, watch))?;
        let engine = LocalEngine::new(table, &reading.engine(budget, fit.basis.missing()), watch)?;
        verify_against(&engine, &fit, &VerifySettings { draws, force })
    })?;
    Ok(verified(watcher.py(), &found))
}

/// Checks a posterior against the full data, and corrects it if needed: a new posterior.
#[pyfunction]
pub fn corrected(
    posterior: &Posterior,
    data: &Data,
    options: &Options<'_>,
    force: bool,
    watcher: &Bound<'_, PyAny>,
) -> PyResult<Posterior> {
    let reading = Reading::new(options)?;
    let (opener, fit) = (data.opener(), posterior.0.clone());
    let fit = run(watcher, move |watch| {
        let budget = opener.budget(reading.memory);
        let options = reading.open_options(budget);
        let table = open_with(&fit.encoding, &options, |options| opener.open(options, budget, watch))?;
        let engine = LocalEngine::new(table, &reading.engine(budget, fit.basis.missing()), watch)?;
        verify_and_correct(&engine, Fit::clone(&fit), force)
    })?;
    Ok(Posterior(Arc::new(fit.0)))
}

/// The result of a check as Python objects.
pub fn verified<'py>(py: Python<'py>, found: &Verification) -> Verified<'py> {
    let record = json!({
        "rows": found.identity.rows,
        "same_data": found.same_data,
        "draws": found.chosen.len(),
        "kl": found.kl(),
        "max_mean_error": found.discrepancy.largest_mean_error(),
        "k_hat": found.psis.k_hat,
        "effective_draws": found.psis.effective_draws(),
        "efficiency": found.efficiency(),
        "verdict": found.judgement,
        "drawn": found.drawn,
        "corrected": found.corrected,
    });
    let chosen = found.chosen.iter().map(|&draw| draw as i64).collect();
    (record.to_string(), PyArray1::from_vec(py, found.weights()), PyArray1::from_vec(py, chosen))
}
