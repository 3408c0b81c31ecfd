//! Fits a model: from weighted rows and priors to posterior draws on the user's scale, with diagnostics.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Help, Operation, Remedy, Result, Setting};
use crate::base::progress::{Event, Observer};
use crate::base::rng::Seed;
use crate::coreset::check::MOST_ROWS;
use crate::coreset::{Coreset, Provenance};
use crate::data::block::Block;
use crate::data::fingerprint::Fingerprint;
use crate::data::points::Points;
use crate::encoding::EncodingSettings;
use crate::encoding::survey::{Learnt, survey};
use crate::encoding::{Encoding, Scratch};
use crate::engine::pass::Pass;
use crate::engine::{Engine, Missing, thread_pool};
use crate::mcmc::diagnostics::{self, CoefficientSummary};
use crate::mcmc::draws::Draws;
use crate::mcmc::findings::{Finding, Trouble, findings};
use crate::mcmc::{self, Sampler};
use crate::mode::evaluation::least_margin;
use crate::mode::search::full_mode_from_afar;
use crate::model::{Gaussian, GroupPrior, LogDensity, Posterior, PriorChoice, Priors};
use crate::results::groups::GroupPosterior;
use crate::results::judgement::VerificationFacts;
use crate::results::other_priors::harm_of_priors;

/// How to fit.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct FitSettings {
    /// Which sampler draws.
    pub sampler: Sampler,
    /// The priors, on the model's scale; by default those that a coreset was built for, or normal:2.
    pub priors: Option<PriorChoice>,
    /// The prior of the standard deviations of group effects, on the model's scale; by default half-student:3:2.5.
    pub group_prior: Option<GroupPrior>,
    /// How many chains and draws.
    pub draws: mcmc::Settings,
    /// Number of threads; `None` is one per core.
    pub threads: Option<usize>,
}

impl Default for FitSettings {
    fn default() -> FitSettings {
        FitSettings {
            sampler: Sampler::Nuts,
            priors: None,
            group_prior: None,
            draws: mcmc::Settings { seed: Seed(0), ..mcmc::Settings::default() },
            threads: None,
        }
    }
}

/// A posterior: draws on the user's scale, with everything needed to use and to check them.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Fit {
    #[doc(hidden)]
    /// The draws, on the user's scale.
    pub draws: Draws,
    #[doc(hidden)]
    /// How rows become points; [`Encoding::from_user_scale`] converts a draw to the model's scale.
    pub encoding: Encoding,
    #[doc(hidden)]
    /// The priors, on the model's scale.
    pub priors: Priors,
    /// The sampler that drew.
    pub sampler: Sampler,
    /// How many chains and draws.
    pub settings: mcmc::Settings,
    #[doc(hidden)]
    /// The rows that were fitted.
    pub basis: Basis,
    /// A summary of each coefficient.
    pub summary: Vec<CoefficientSummary>,
    /// Problems with the draws; empty if there are none.
    pub findings: Vec<Finding>,
    /// What a comparison with all rows found; `None` if there was none.
    pub verified: Option<VerificationFacts>,
    #[doc(hidden)]
    /// Scales and group effects; `None` if the model has none.
    pub groups: Option<GroupPosterior>,
}

impl Fit {
    /// Returns an error if the model has group effects, for what does not take them into account.
    pub(crate) fn refuse_groups(&self, purpose: &str) -> Result<()> {
        match self.groups {
            None => Ok(()),
            Some(_) => Err(ErrorKind::Numerical {
                what: format!("a posterior with group effects cannot be {purpose}"),
                help: Some("fit a model without group terms for this".into()),
            }
            .into()),
        }
    }
}

/// The rows that a posterior was fitted to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Basis {
    /// A coreset.
    Coreset {
        /// Number of its rows.
        size: u64,
        /// How it was built.
        provenance: Box<Provenance>,
    },
    /// All rows of the data.
    Data {
        /// Number of rows used.
        rows: u64,
        /// Number of rows in the input.
        rows_read: u64,
        /// Number of rows dropped because of a missing, infinite or inexact value.
        rows_dropped: u64,
        /// Sum of the weights of the rows used.
        mass: f64,
        /// Fingerprint of the rows used.
        fingerprint: Fingerprint,
        /// How rows with missing values were treated.
        missing: Missing,
        /// Warnings for the user.
        warnings: Vec<String>,
    },
}

impl Basis {
    /// The record of a coreset.
    pub(super) fn of_coreset(coreset: &Coreset) -> Basis {
        Basis::Coreset { size: coreset.rows.len() as u64, provenance: Box::new(coreset.provenance.clone()) }
    }

    /// Number of rows in the full data that the posterior describes.
    pub fn rows(&self) -> u64 {
        match self {
            Basis::Coreset { provenance, .. } => provenance.rows,
            Basis::Data { rows, .. } => *rows,
        }
    }

    /// Fingerprint of these rows.
    pub fn fingerprint(&self) -> Fingerprint {
        match self {
            Basis::Coreset { provenance, .. } => provenance.fingerprint,
            Basis::Data { fingerprint, .. } => *fingerprint,
        }
    }

    /// Returns an error if rows of a stream have lost weight with age: the data itself then has another posterior.
    pub(crate) fn expect_full_weights(&self) -> Result<()> {
        match self {
            Basis::Coreset { provenance, .. } => provenance.expect_full_weights(),
            Basis::Data { .. } => Ok(()),
        }
    }

    /// What is wrong with this record for `dim` coefficients, as the rest of a sentence that begins with the file; `None` if
    /// nothing is.
    pub(crate) fn fault(&self, dim: usize) -> Option<String> {
        match self {
            Basis::Coreset { provenance, .. } => provenance.fault(dim),
            Basis::Data { rows, rows_read, mass, .. } => {
                let sound = rows <= rows_read && *rows_read <= MOST_ROWS && mass.is_finite() && *mass > 0.0;
                (!sound).then(|| format!("records {rows} rows in use, of {rows_read} rows read"))
            }
        }
    }

    /// How rows with missing values were treated.
    pub fn missing(&self) -> Missing {
        match self {
            Basis::Coreset { provenance, .. } => provenance.missing,
            Basis::Data { missing, .. } => *missing,
        }
    }
}

/// Fits the rows of a coreset whose model has no group effects.
pub(super) fn fit_ordinary_coreset(
    coreset: &Coreset,
    settings: &FitSettings,
    observer: &dyn Observer,
) -> Result<Fit> {
    let points = coreset.points()?;
    let basis = Basis::of_coreset(coreset);
    fit_points(&points, &coreset.encoding, basis, settings, observer)
}

/// Fits all rows of an engine's table. [`Sampler::Laplace`] reads them again for each step; the other samplers keep them
/// in memory as points, in at most `memory` bytes.
pub fn fit_data(
    engine: &impl Engine,
    encoding: &EncodingSettings,
    settings: &FitSettings,
    memory: u64,
) -> Result<Fit> {
    let learnt = survey(engine, encoding, 1, settings.draws.seed)?;
    fit_surveyed(engine, &learnt, settings, memory)
}

/// The record of the rows that a survey read; also reports the survey's warnings.
pub(super) fn basis_of(engine: &impl Engine, learnt: &Learnt) -> Basis {
    for warning in &learnt.warnings {
        engine.observer().event(Event::Warning(warning.clone()));
    }
    Basis::Data {
        rows: learnt.rows,
        rows_read: learnt.rows_read,
        rows_dropped: learnt.rows_read - learnt.rows,
        mass: learnt.mass,
        fingerprint: learnt.fingerprint,
        missing: engine.missing(),
        warnings: learnt.warnings.clone(),
    }
}

/// Fits all rows of a table that was surveyed before.
pub(crate) fn fit_surveyed(
    engine: &impl Engine,
    learnt: &Learnt,
    settings: &FitSettings,
    memory: u64,
) -> Result<Fit> {
    let basis = basis_of(engine, learnt);
    if let Some(term) = learnt.encoding.groups.first() {
        return Err(Error::setting(
            Setting::Features,
            format!("must not have effects that vary by '{}' in a fit without group effects", term.column),
        ));
    }
    if settings.sampler == Sampler::Laplace {
        return approximate(engine, &learnt.encoding, basis, settings);
    }
    let points = all_points(engine, learnt, memory)?;
    fit_points(&points, &learnt.encoding, basis, settings, engine.observer())
}

/// The priors of the settings, or else those that the rows were chosen for.
pub(super) fn chosen_priors(settings: &FitSettings, basis: &Basis) -> PriorChoice {
    match (&settings.priors, basis) {
        (Some(priors), _) => priors.clone(),
        (None, Basis::Coreset { provenance, .. }) => provenance.priors(),
        (None, Basis::Data { .. }) => PriorChoice::default(),
    }
}

/// Draws from the posterior of weighted points.
fn fit_points(
    points: &Points,
    encoding: &Encoding,
    basis: Basis,
    settings: &FitSettings,
    observer: &dyn Observer,
) -> Result<Fit> {
    let names = encoding.distinct_names()?;
    let priors = chosen_priors(settings, &basis).priors(&names, encoding.intercept)?;
    let posterior = Posterior::new(points, &priors)?;
    let pool = thread_pool(settings.threads)?;
    let approximation = posterior.laplace()?;
    let (mut gradient, mut scratch) = (vec![0.0; points.dim()], Vec::new());
    let peak = posterior.value_and_gradient(approximation.mean(), &mut gradient, &mut scratch);
    let expansion = Expansion { gaussian: &approximation, peak };
    // `lp` is the log-density of the distribution that was sampled.
    let density: &dyn LogDensity = if settings.sampler == Sampler::Laplace { &expansion } else { &posterior };
    let draws = pool.install(|| {
        mcmc::run(density, &names, &approximation, settings.sampler, &settings.draws, observer)
    })?;
    let separated = points.tiles().all(|tile| least_margin(&tile, approximation.mean()) > 0.0);
    let moved = match &basis {
        // If the other mode cannot be found, there is no finding.
        Basis::Coreset { provenance, .. } => {
            harm_of_priors(points, provenance, &priors, &approximation, &names, encoding.intercept)
                .unwrap_or_default()
        }
        Basis::Data { .. } => None,
    };
    let part = match &basis {
        Basis::Coreset { provenance, .. } => part_of_data(provenance),
        Basis::Data { .. } => None,
    };
    let more = separated.then(separation).into_iter().chain(moved).chain(part).collect();
    Ok(finish(draws, encoding, priors, basis, settings, more))
}

/// A finding if the coreset is of a part of the data and was matched at the posterior of all data, not at its own.
fn part_of_data(provenance: &Provenance) -> Option<Finding> {
    let facts = provenance.calibration.as_ref().filter(|_| provenance.composition.is_none())?;
    let part = facts.part_of.as_ref()?;
    Some(Finding {
        what: Trouble::PartOfData,
        how_much: format!(
            "the coreset is of a part of the data ({:.3} %) and was matched at the posterior of all data, not at its own",
            100.0 * part.share
        ),
        what_to_do: "merge it with the coresets of the other parts".into(),
    })
}

/// Laplace's approximation for all rows, with one pass per Newton step. The `lp` of a draw is the second-order expansion
/// of the log-posterior about its mode: the exact value would need a pass per draw.
fn approximate(
    engine: &impl Engine,
    encoding: &Encoding,
    basis: Basis,
    settings: &FitSettings,
) -> Result<Fit> {
    let names = encoding.distinct_names()?;
    let priors = chosen_priors(settings, &basis).priors(&names, encoding.intercept)?;
    let (gaussian, peak, separated) = full_data_laplace(engine, encoding, &priors)?;
    let density = Expansion { gaussian: &gaussian, peak };
    let pool = thread_pool(settings.threads)?;
    let observer = engine.observer();
    let draws =
        pool.install(|| mcmc::run(&density, &names, &gaussian, Sampler::Laplace, &settings.draws, observer))?;
    Ok(finish(draws, encoding, priors, basis, settings, separated.then(separation).into_iter().collect()))
}

/// The normal approximation of the full data's posterior, on the model's scale: one pass per Newton step.
pub fn laplace_of_data(engine: &impl Engine, encoding: &Encoding, priors: &Priors) -> Result<Gaussian> {
    full_data_laplace(engine, encoding, priors).map(|(gaussian, ..)| gaussian)
}

/// The approximation, the log-posterior at its mode, and whether the rows are separated.
fn full_data_laplace(
    engine: &impl Engine,
    encoding: &Encoding,
    priors: &Priors,
) -> Result<(Gaussian, f64, bool)> {
    let (mode, separated) = full_mode_from_afar(engine, encoding, priors)?;
    let peak = mode.likelihood.value + priors.log_density(&mode.theta);
    Ok((Gaussian::of_mode(mode, priors)?, peak, separated))
}

fn separation() -> Finding {
    Finding {
        what: Trouble::Separated,
        how_much: "the coefficients separate the two classes of these rows perfectly (or there is only one class), so the prior alone bounds their size".to_string(),
        what_to_do: Help::from([
            "look for a column that determines the label".into(),
            Remedy::choose("an informative", Setting::Prior),
        ]),
    }
}

/// Converts draws on the model's scale to a posterior on the user's scale.
fn finish(
    mut draws: Draws,
    encoding: &Encoding,
    priors: Priors,
    basis: Basis,
    settings: &FitSettings,
    more: Vec<Finding>,
) -> Fit {
    let dim = draws.dim().max(1);
    for chain in &mut draws.chains {
        for theta in chain.theta.chunks_exact_mut(dim) {
            let beta = encoding.to_user_scale(theta);
            theta.copy_from_slice(&beta);
        }
    }
    let summary = diagnostics::summary(&draws);
    let mut findings = findings(&draws, &summary);
    findings.extend(more);
    Fit {
        draws,
        encoding: encoding.clone(),
        priors,
        sampler: settings.sampler,
        settings: settings.draws,
        basis,
        summary,
        findings,
        verified: None,
        groups: None,
    }
}

/// All rows as points.
fn all_points(engine: &impl Engine, learnt: &Learnt, memory: u64) -> Result<Points> {
    let dim = learnt.encoding.dim();
    check_memory(learnt, 8 * (dim as u64 + 1), memory)?;
    Ok(engine
        .run(&Gathering { encoding: Cow::Borrowed(&learnt.encoding) })?
        .unwrap_or_else(|| Points::new(dim)))
}

/// Returns an error if all rows at so many bytes per row need more than `memory` bytes.
pub(super) fn check_memory(learnt: &Learnt, bytes_per_row: u64, memory: u64) -> Result<()> {
    let bytes = learnt.rows.saturating_mul(bytes_per_row);
    if bytes > memory {
        let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        return Err(ErrorKind::Numerical {
            what: format!(
                "all {} rows need {:.3} GiB of memory, but the limit is {:.3} GiB",
                learnt.rows,
                gib(bytes),
                gib(memory)
            ),
            help: Some(Help::from([
                Remedy::run("make a coreset first", Operation::Build),
                Remedy::set(Setting::Sampler, "laplace"),
                Remedy::RaiseLimit(Setting::Memory),
            ])),
        }
        .into());
    }
    Ok(())
}

/// The pass that encodes all rows and collects them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Gathering<'a> {
    encoding: Cow<'a, Encoding>,
}

impl Pass for Gathering<'_> {
    const ID: &'static str = "collect-rows";
    const LABEL: &'static str = "collecting all rows";
    type State = Points;
    type Worker = Scratch;

    fn worker(&self) -> Scratch {
        Scratch::new(self.encoding.dim())
    }

    fn visit(&self, scratch: &mut Scratch, block: &Block) -> Result<Points> {
        let encoder = self.encoding.encoder(block)?;
        let mut points = Points::new(self.encoding.dim());
        for t in 0..encoder.tiles() {
            points.push_tile(&encoder.tile(t, scratch));
        }
        Ok(points)
    }

    fn merge(&self, points: &mut Points, next: Points) {
        next.tiles().for_each(|tile| points.push_tile(&tile));
    }
}

/// The second-order expansion of a log-density about its mode.
struct Expansion<'a> {
    gaussian: &'a Gaussian,
    peak: f64,
}

impl LogDensity for Expansion<'_> {
    fn dim(&self) -> usize {
        self.gaussian.dim()
    }

    fn value_and_gradient(&self, theta: &[f64], gradient: &mut [f64], _scratch: &mut Vec<[f64; 8]>) -> f64 {
        let mut xi = vec![0.0; theta.len()];
        self.gaussian.whiten(theta, &mut xi);
        xi.iter_mut().for_each(|x| *x = -*x);
        self.gaussian.unwhiten_gradient(&xi, gradient);
        self.peak - 0.5 * xi.iter().map(|x| x * x).sum::<f64>()
    }
}

/// Seconds; if fitting all rows takes less, no coreset is needed.
pub const SHORT_FIT: f64 = 10.0;

/// The estimated seconds of a fit of all rows, with one core per chain. The estimate is the same on every machine, because it
/// decides whether all rows are fitted, and results must not depend on the machine.
pub fn whole_fit_seconds(rows: u64, dim: usize, settings: &FitSettings) -> f64 {
    let mcmc::Settings { draws, warmup, .. } = settings.draws;
    let gradients = match settings.sampler {
        // Three to seven gradients per draw for a typical posterior, and a few more during warm-up.
        Sampler::Nuts => 7.0 * (warmup + draws) as f64,
        Sampler::Mala { .. } => (warmup + draws) as f64,
        // Newton steps.
        Sampler::Laplace => 10.0,
    };
    // Nanoseconds of one row's gradient on a core with vectors of four numbers.
    let row = 10.0 + 0.6 * dim as f64;
    1e-9 * gradients * rows as f64 * row
}
