//! The driver: from a table to a coreset, by any method.

use crate::base::error::{Error, Remedy, Result, Setting};
use crate::base::progress::{Event, Silent};
use crate::coreset::calibration::calibrated_coreset;
use crate::coreset::calibration::task::Task;
use crate::coreset::hierarchical::hierarchical_coreset;
use crate::coreset::paper_methods::{algorithm_1, select_uniformly};
use crate::coreset::selection::Size;
use crate::coreset::steps::{Build, Clock, Selected};
use crate::coreset::whole::Whole;
use crate::coreset::{Coreset, Method, Provenance};
use crate::data::source::Source;
use crate::data::table::{Roles, Table};
use crate::encoding::EncodingSettings;
use crate::encoding::survey::{Learnt, survey};
use crate::engine::{Engine, EngineSettings, LocalEngine};
use crate::model::Gaussian;
use crate::model::quadratic::Quadratic;

pub use crate::coreset::settings::{BuildSettings, CertificateBy};

/// A coreset, and how long the phases of its build took.
#[derive(Clone, Debug)]
pub struct Built {
    /// The coreset.
    pub coreset: Coreset,
    /// Seconds by phase, in order.
    pub seconds: Vec<(&'static str, f64)>,
    /// Mean and standard deviation of each numeric feature.
    pub moments: Vec<Option<(f64, f64)>>,
    /// What later steps of a stream have to compensate: the log-likelihood that neither this coreset nor those before it
    /// represent.
    pub(crate) residual: Option<Quadratic>,
    /// For a step of a stream: the KL of what neither the coreset nor the residual represents.
    pub(crate) step_kl: Option<f64>,
    /// The normal approximation of the posterior of everything that the task counts; only calibration finds it.
    pub(crate) held: Option<Gaussian>,
    /// True if the residual of earlier steps had to be discarded, so that the loss is unknown.
    pub(crate) discarded_residual: bool,
}

impl Built {
    /// The KL of all steps up to this one, of which the earlier ones had lost `before`; `None` if it is not known.
    pub(crate) fn composed_kl(&self, before: Option<f64>) -> Option<f64> {
        let own = self.step_kl.or_else(|| self.coreset.provenance.step_kl());
        before.zip(own).filter(|_| !self.discarded_residual).map(|(before, own)| before + own)
    }
}

/// Builds a coreset of a source on this machine, without progress messages.
pub fn build(source: Box<dyn Source>, roles: &Roles, settings: &BuildSettings) -> Result<Coreset> {
    let table = Table::new(source, roles)?;
    let engine = LocalEngine::new(table, &EngineSettings::default(), &Silent)?;
    build_on(&engine, settings).map(|built| built.coreset)
}

/// Builds a coreset of an engine's table.
pub fn build_on(engine: &impl Engine, settings: &BuildSettings) -> Result<Built> {
    build_task(engine, settings, &Task::all_rows())
}

/// Builds a coreset of a part of the data, matched at the posterior of `reference`, a coreset of all data. Both have the
/// reference's encoding.
///
/// # Errors
/// If a target KL is asked for, or the rows do not fit the encoding.
pub fn build_part(engine: &impl Engine, settings: &BuildSettings, reference: &Coreset) -> Result<Built> {
    if matches!(settings.size, Size::Kl { .. }) {
        return Err(Error::setting(Setting::Kl, "cannot be met by a part of the data alone")
            .with_help(Remedy::using("choose the number of rows", Setting::Size)));
    }
    if !reference.encoding.groups.is_empty() {
        return Err(Error::setting(Setting::Parts, "of models with groups cannot be matched at a reference"));
    }
    if settings.method != Method::Calibrated {
        return Err(Error::setting(Setting::Method, "has no use for a reference, only calibration has")
            .with_help(Remedy::set(Setting::Method, "calibrated")));
    }
    let encoding = EncodingSettings { known: Some(reference.encoding.clone()), ..settings.encoding.clone() };
    let settings = BuildSettings { encoding, ..settings.clone() };
    build_task(engine, &settings, &Task::part_of(&Whole::of(reference)?))
}

/// Builds a coreset of an engine's table as one task among others: only calibration depends on the task.
pub(crate) fn build_task(engine: &impl Engine, settings: &BuildSettings, task: &Task<'_>) -> Result<Built> {
    settings.check()?;
    engine.install(|| {
        let mut clock = Clock::start();
        let learnt = survey(engine, &settings.encoding, settings.clusters, settings.seed)?;
        clock.lap("survey");
        build_surveyed(engine, settings, task, learnt, clock)
    })
}

/// Builds a coreset of rows that were surveyed before, with the clusters and the seed of the settings.
pub(crate) fn build_surveyed(
    engine: &impl Engine,
    settings: &BuildSettings,
    task: &Task<'_>,
    learnt: Learnt,
    mut clock: Clock,
) -> Result<Built> {
    settings.check()?;
    engine.install(|| {
        let mut build = Build { engine, settings, learnt: &learnt, clock: &mut clock };
        let mut discarded_residual = false;
        let mut selected = match settings.method {
            Method::Calibrated if !learnt.encoding.groups.is_empty() => {
                hierarchical_coreset(&mut build, task)?
            }
            Method::Sensitivity | Method::Uniform if !learnt.encoding.groups.is_empty() => {
                return Err(Error::setting(Setting::Method, "does not support models with groups")
                    .with_help(Remedy::set(Setting::Method, "calibrated")));
            }
            Method::Calibrated => match calibrated_coreset(&mut build, task) {
                // The residual of earlier steps can outweigh these rows; the posterior then has no mode.
                Err(error) if error.is_numerical() && task.carried_residual.is_some() => {
                    discarded_residual = true;
                    calibrated_coreset(&mut build, &task.without_carried_residual())?
                }
                selected => selected?,
            },
            Method::Sensitivity => algorithm_1(&mut build)?,
            Method::Uniform => select_uniformly(&mut build)?,
        };
        selected.warning = selected.warning.filter(|_| task.warns_of_few_rows);
        // An exact coreset adds nothing to the residual of earlier steps.
        let residual = selected.residual.take().or_else(|| task.carried_residual.cloned());
        let (step_kl, held) = (selected.step_kl, selected.held.take());
        let moments = learnt.moments.clone();
        let coreset = assemble(engine, settings, learnt, selected);
        Ok(Built { coreset, seconds: clock.laps, moments, residual, step_kl, held, discarded_residual })
    })
}

/// The selected rows with their provenance; reports the warnings.
fn assemble(engine: &impl Engine, settings: &BuildSettings, learnt: Learnt, selected: Selected) -> Coreset {
    let warnings: Vec<String> = learnt.warnings.into_iter().chain(selected.warning).collect();
    for warning in &warnings {
        engine.observer().event(Event::Warning(warning.clone()));
    }
    let table = engine.table();
    Coreset {
        fields: table.features().iter().chain([table.label()]).cloned().collect(),
        rows: selected.rows.without_columns_from(table.features().len() + 1),
        weights: selected.weights,
        encoding: learnt.encoding,
        provenance: Provenance {
            method: settings.method,
            size: settings.size,
            draws: selected.draws,
            exact: selected.exact,
            rows_read: learnt.rows_read,
            rows: learnt.rows,
            rows_dropped: learnt.rows_read - learnt.rows,
            mass: learnt.mass,
            fingerprint: learnt.fingerprint,
            passes: engine.passes(),
            seed: settings.seed,
            missing: engine.missing(),
            sensitivity: selected.sensitivity,
            calibration: selected.calibration,
            hierarchical: selected.hierarchical,
            composition: None,
            warnings,
        },
    }
}
