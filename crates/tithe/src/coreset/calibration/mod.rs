//! The default method: rows and weights whose posterior is practically the full data's, with a certificate.
//!
//! Gradient and Hessian of the log-likelihood at the full data's mode determine the posterior to second order. For each
//! row they are a vector of local features `F(z)` ([`local_features`](crate::model::local_features)); calibration chooses
//! rows and weights with `Σ_m w_m F(z_m) ≈ b = Σ_n F(z_n)`. The steps of `calibrated_coreset`, one file each:
//!
//! 1. [`mode`](crate::mode): the full data's mode, gradient and Hessian, in a few passes;
//! 2. `reference`: the features' map and the target `b`;
//! 3. `candidates`: one pass that keeps a pool of rows to choose from;
//! 4. `choice`: rows and weights by `pricing` and `nearest_weights`;
//! 5. `check`: the coreset's log-likelihood is compared with the full data's at posterior draws (`panel`); where they differ,
//!    weights are solved for again with more to match;
//! 6. `certificate`: what was found, and the verdict.
//!
//! A stream or merge passes in a `task::Task` that says what is to be matched besides the rows.

pub(crate) mod candidates;
pub mod certificate;
pub(crate) mod check;
pub(crate) mod choice;
mod cholesky;
mod fewest_rows;
pub mod nearest_weights;
pub(crate) mod panel;
pub mod pricing;
pub(crate) mod reference;
pub(crate) mod task;

use std::borrow::Cow;

use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::coreset::calibration::candidates::{Candidates, Ranking, group_and_evaluate};
use crate::coreset::calibration::check::Checker;
use crate::coreset::calibration::choice::{Choice, Chooser};
use crate::coreset::calibration::fewest_rows::fewest_rows;
use crate::coreset::calibration::reference::Reference;
use crate::coreset::calibration::task::{Matching, Task};
use crate::coreset::selection::Size;
use crate::coreset::steps::{Bounds, Build, Selected, picked_points};
use crate::coreset::{CalibrationFacts, PartOf};
use crate::data::points::Points;
use crate::encoding::survey::Learnt;
use crate::engine::Engine;
use crate::mode::search::{Pilot, Search};
use crate::model::likelihood::Curvature;
use crate::model::newton::check_memory;
use crate::model::quadratic::Quadratic;

/// A target KL is sought with at most so many rows.
const MOST_ROWS: usize = 20_000;

/// Chooses rows by sensitivity and by what matters near the mode, and weights them so that gradient and Hessian of the
/// log-likelihood at the full data's mode are the full data's own.
pub(crate) fn calibrated_coreset(build: &mut Build<'_, impl Engine>, task: &Task<'_>) -> Result<Selected> {
    let (learnt, settings) = (build.learnt, build.settings);
    let sizes = Sizes::new(settings.size, learnt)?;

    // The rows that the survey picked are a pilot: the search for the full data's mode starts from theirs.
    let pilot = pilot_points(learnt)?;
    let priors = settings.priors.priors(&learnt.encoding.distinct_names()?, learnt.encoding.intercept)?;
    let prior_precision = priors.normal_precisions();
    let start = with_others(&pilot, task);
    let search = mode_search(build, task, &start, &prior_precision);
    build.lap("mode");

    // The first evaluation of the likelihood shares its pass with the clusters, which give the sensitivity bounds.
    let centers = build.cluster()?;
    let to_evaluate = search.as_ref().ok().filter(|_| task.whole.is_none());
    let (grouped, evaluation) = group_and_evaluate(build, &centers, to_evaluate, sizes.first)?;
    let mut bounds = build.sensitivity_bounds(centers, grouped)?;
    if task.may_be_exact
        && let Some(exact) = build.exact_coreset(sizes.first as u64, &mut bounds)?
    {
        return Ok(exact);
    }
    let mode = match task.whole {
        Some(whole) => whole.mode(&prior_precision)?,
        None => search?.mode(build.engine, evaluation)?,
    };
    build.lap("mode");

    let reference = Reference::new(build, task, priors, mode)?;
    let ranking = Ranking::new(task, &bounds.bound, &reference, &pilot);

    let (chosen, step_kl) = match choose_rows(build, task, &sizes, &ranking, &reference, &mut bounds)? {
        Outcome::Chosen(chosen, step_kl) => (chosen, step_kl),
        Outcome::Exact(exact) => return Ok(*exact),
    };
    let (candidates, choice) = *chosen;
    build.lap("calibration");

    let theta = reference.map.theta();
    let mode = build.learnt.encoding.to_user_scale(theta);
    let part_of = task.whole.map(|_| PartOf { mode, share: reference.share });
    let represented = Curvature::of_points(&choice.points, theta);
    let residual = Quadratic { curvature: reference.likelihood.minus(&represented), theta: theta.to_vec() };
    Ok(Selected {
        rows: candidates.rows_at(&choice.positions),
        weights: choice.points.weights(),
        draws: choice.size as u64,
        exact: false,
        sensitivity: Some(bounds.facts),
        calibration: choice.facts.map(|facts| CalibrationFacts { part_of, ..facts }),
        hierarchical: None,
        warning: None,
        residual: Some(residual),
        step_kl,
        held: Some(reference.posterior),
    })
}

/// Rows and weights from the pool, or a coreset that is exact after all.
enum Outcome {
    /// With the KL that a step of a stream lost.
    Chosen(Box<(Candidates, Choice)>, Option<f64>),
    Exact(Box<Selected>),
}

/// Pool, weights and certificate; with a target KL, twice as many rows until it is met, and then as few as meet it.
fn choose_rows(
    build: &mut Build<'_, impl Engine>,
    task: &Task<'_>,
    sizes: &Sizes,
    ranking: &Ranking,
    reference: &Reference,
    bounds: &mut Bounds,
) -> Result<Outcome> {
    let settings = build.settings;
    let (mut size, mut missed) = (sizes.first, 0);
    loop {
        // The fewest rows are found among many.
        let to_choose_from = if sizes.target_kl.is_finite() { 2 * size } else { size };
        let candidates = Candidates::find(build, ranking, reference, task.matching, to_choose_from)?;
        build.lap("selection");
        bounds.facts.mean_bound = candidates.mean_bound;
        let (sample, target_kl) = (&candidates.sample, sizes.target_kl);
        let checker = Checker { build, task, reference, sample, target_kl };
        if task.matching == Matching::Approximate {
            let (choice, kl) = checker.check_step(&candidates.pool, size)?;
            return Ok(Outcome::Chosen(Box::new((candidates, choice)), Some(kl)));
        }
        let chooser = Chooser { pool: &candidates.pool, reference, settings, is_part: task.whole.is_some() };
        let checked = checker.check(&chooser, size)?;
        if sizes.are_met_by(&checked.choice) {
            let choice = match sizes.target_kl.is_finite() {
                true => fewest_rows(&chooser, &checker, checked, missed..size, sizes.target_kl)?.choice,
                false => checked.choice,
            };
            return Ok(Outcome::Chosen(Box::new((candidates, choice)), None));
        }
        build.lap("calibration");
        (missed, size) = (size, sizes.after(&checked.choice)?);
        if let Some(exact) = build.exact_coreset(size as u64, bounds)? {
            return Ok(Outcome::Exact(Box::new(exact)));
        }
    }
}

/// The sizes to try: the one asked for, or doubled ones until a target KL is met.
struct Sizes {
    first: usize,
    most: usize,
    /// Infinite where the size is given.
    target_kl: f64,
}

impl Sizes {
    fn new(size: Size, learnt: &Learnt) -> Result<Sizes> {
        match size {
            Size::Rows(rows) => Ok(Sizes { first: rows, most: rows, target_kl: f64::INFINITY }),
            Size::Kl { target } => {
                let first = (20 * learnt.encoding.dim()).clamp(200, 2000);
                let most = MOST_ROWS.min(learnt.rows as usize / 2).max(first);
                Ok(Sizes { first, most, target_kl: target })
            }
            Size::Guarantee { .. } => {
                let what = "needs sensitivity bounds, which a calibrated coreset does not use";
                Err(Error::setting(Setting::Epsilon, what).with_help([
                    Remedy::set(Setting::Method, "sensitivity"),
                    Remedy::using("choose the number of rows", Setting::Size),
                ]))
            }
        }
    }

    fn are_met_by(&self, choice: &Choice) -> bool {
        self.target_kl.is_infinite() || choice.kl() <= self.target_kl
    }

    /// The size to try after one that missed the target.
    fn after(&self, missed: &Choice) -> Result<usize> {
        match &missed.facts {
            Some(facts) if missed.size >= self.most => {
                let (size, target, best) = (missed.size, self.target_kl, &facts.certificate);
                let missing = match best.normal.deficiencies.len() {
                    0 => String::new(),
                    count => format!(", with too little information about {count} directions"),
                };
                Err(ErrorKind::Numerical {
                    what: format!(
                        "a KL of {target} was not reached: {size} rows reach {:.3e}{missing}",
                        best.kl()
                    ),
                    help: Some(Help::from([
                        Remedy::choose("a larger", Setting::Kl),
                        Remedy::set(Setting::Size, size as u64),
                    ])),
                }
                .into())
            }
            _ => Ok((2 * missed.size).min(self.most)),
        }
    }
}

/// The search for the mode of everything that a task counts: from the carried residual, whose mode was found before, or else
/// from the mode of `start`. Its failure only matters if the rows are not their own coreset.
fn mode_search<'a>(
    build: &Build<'a, impl Engine>,
    task: &Task<'a>,
    start: &'a Points,
    prior_precision: &[f64],
) -> Result<Search<'a>> {
    let encoding = &build.learnt.encoding;
    if let Some(residual) = task.carried_residual {
        return Ok(Search::from_residual(encoding, task.others, residual, prior_precision, task.near));
    }
    check_memory(encoding.dim(), rayon::current_num_threads())?;
    let rows = build.learnt.rows + task.others.map_or(0, |others| others.len() as u64);
    Search::from_pilot(
        encoding,
        task.others,
        prior_precision,
        Pilot::Random(start),
        rows,
        build.settings.seed,
    )
}

/// The pilot together with the other points that count for the mode; with a carried residual the search does not use it.
fn with_others<'a>(pilot: &'a Points, task: &Task<'_>) -> Cow<'a, Points> {
    match task.others {
        Some(others) if task.carried_residual.is_none() => {
            let mut all = pilot.clone();
            others.tiles().for_each(|tile| all.push_tile(&tile));
            Cow::Owned(all)
        }
        _ => Cow::Borrowed(pilot),
    }
}

/// The rows that the survey picked, with weights that add up to the mass of all rows.
fn pilot_points(learnt: &Learnt) -> Result<Points> {
    let mut points = picked_points(&learnt.encoding, &learnt.picks)?;
    let counts = points.weights();
    let each = learnt.mass / counts.iter().sum::<f64>();
    points.set_weights(&counts.iter().map(|count| count * each).collect::<Vec<_>>());
    Ok(points)
}
