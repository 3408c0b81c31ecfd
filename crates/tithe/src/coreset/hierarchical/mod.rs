//! Calibrated coresets for hierarchical models: rows and weights whose posterior of all effects is the full data's, at any scale of
//! the group effects.
//!
//! `hierarchical_coreset` reads from top to bottom:
//!
//! 1. pilot: the rows that the survey picked give a starting point;
//! 2. mode: Newton's method finds the full data's mode, with Σ near its marginal mode ([`crate::mode::hierarchical`]);
//! 3. `pool`: one pass keeps candidates of every group;
//! 4. `features`, `weights`: the candidates' weights are solved for, so that gradient and Hessian are the full data's;
//! 5. `elimination`: most weights become zero without changing either;
//! 6. `certificate`: the posteriors are compared at half, once and twice the scale of the group effects.

pub mod certificate;
mod draws;
mod elimination;
pub mod facts;
mod features;
pub(crate) mod pool;
mod weights;

use std::borrow::Cow;

pub use certificate::{DrawsCertificate, ScaleCertificate};
pub use facts::HierarchicalFacts;

use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::coreset::calibration::task::{Matching, Task};
use crate::coreset::hierarchical::certificate::Comparison;
use crate::coreset::hierarchical::elimination::eliminate;
use crate::coreset::hierarchical::features::{ArrowMap, Order, SparseFeatures, feature_shape};
use crate::coreset::hierarchical::pool::PoolingGroups;
use crate::coreset::hierarchical::weights::nearest_weights;
use crate::coreset::selection::Size;
use crate::coreset::steps::{Build, Selected};
use crate::data::block::RowSet;
use crate::data::grouped::GroupedPoints;
use crate::encoding::{Encoding, GroupFactor};
use crate::engine::Engine;
use crate::mode::grouped_evaluation::AllRows;
use crate::mode::hierarchical::{HierarchicalMode, Scales, hierarchical_mode, mode_of_grouped_points};
use crate::model::arrow::ArrowShape;
use crate::model::prior::Priors;
use crate::reservoir::by_group::GroupCapacity;

/// The squared distance to the mode, in posterior standard deviations, at which the reference is near enough.
const NEAR: f64 = 1e-2;
/// The most candidates, unless a group would have too few.
const MOST_CANDIDATES: usize = 1_000_000;
/// A slope whose values vary less within groups than this fraction is constant in every group.
const CONSTANT: f64 = 1e-9;

/// Chooses rows of every group and weights them so that the full data's gradient and Hessian at its mode are kept, for the effects of
/// all groups as for the fixed effects.
pub(crate) fn hierarchical_coreset(build: &mut Build<'_, impl Engine>, task: &Task<'_>) -> Result<Selected> {
    let (learnt, settings) = (build.learnt, build.settings);
    let factor = check(&learnt.encoding, task)?;
    let names = learnt.encoding.distinct_names()?;
    let priors = settings.priors.priors(&names, learnt.encoding.intercept)?;

    let pilot = pilot_mode(build, factor, &priors)?;
    let shape = pilot.gaussian.factor.shape();
    let mut all_rows = AllRows { engine: build.engine, encoding: &learnt.encoding, shape };
    let HierarchicalMode { gaussian, covariance, .. } = pilot;
    let reference =
        hierarchical_mode(&mut all_rows, &priors, gaussian.mean, covariance, Scales::Sought, NEAR)?;
    check_slopes(&reference, shape, factor, &learnt.encoding)?;
    build.lap("mode");

    let candidates = Candidates::find(build, &reference, shape)?;
    build.lap("selection");
    if candidates.are_all_rows && is_at_least(settings.size, learnt.rows) {
        return Ok(exact(candidates));
    }
    let effects = learnt.encoding.effect_names(factor);
    let levels = learnt.encoding.group_levels(factor);
    let name = |at: usize| match at.checked_sub(shape.effects()) {
        Some(fixed) => names[fixed].clone(),
        None => format!("{}|{}[{}]", effects[at % shape.width], factor.column, levels[at / shape.width]),
    };
    let comparison =
        Comparison { all_rows, priors: &priors, reference: &reference, names: &name, seed: settings.seed };
    let chosen = choose(&candidates, &reference, settings.size, &comparison)?;
    build.lap("calibration");

    let positions: Vec<u64> = chosen.rows.iter().map(|&row| candidates.rows.positions[row]).collect();
    let facts = HierarchicalFacts {
        factor: factor.clone(),
        groups: shape.groups,
        effects,
        covariance: reference.covariance,
        scales: chosen.scales,
        priors: settings.priors.clone(),
        pool: candidates.points.fixed.len(),
    };
    Ok(Selected {
        draws: positions.len() as u64,
        rows: candidates.rows.take(&chosen.rows),
        weights: chosen.weights,
        exact: false,
        sensitivity: None,
        calibration: None,
        hierarchical: Some(facts),
        warning: None,
        residual: None,
        step_kl: None,
        held: None,
    })
}

/// The one grouping factor, if the model and the task are supported.
fn check<'a>(encoding: &'a Encoding, task: &Task<'_>) -> Result<&'a GroupFactor> {
    let unsupported = |what: &str| Err(Error::setting(Setting::Method, what));
    if task.matching != Matching::Certified || task.others.is_some() || task.carried_residual.is_some() {
        return unsupported("does not support streams and merges of models with groups");
    }
    match &encoding.groups[..] {
        [factor] => Ok(factor),
        _ => unsupported("supports one grouping factor"),
    }
}

/// The mode of the rows that the survey picked. They are not scaled up to all rows: effects of few rows would then look certain, and
/// Σ too large.
fn pilot_mode(
    build: &Build<'_, impl Engine>,
    factor: &GroupFactor,
    priors: &Priors,
) -> Result<HierarchicalMode> {
    let picks = &build.learnt.picks;
    let mut points = build.learnt.encoding.grouped_encoder(&picks.rows.block())?.points();
    points.fixed.set_weights(&picks.counts.iter().map(|&count| f64::from(count)).collect::<Vec<_>>());
    mode_of_grouped_points(&points, priors, factor.correlated)
}

/// Reports a slope that is constant within every group: its effect cannot be told from that of the intercept.
fn check_slopes(
    reference: &HierarchicalMode,
    shape: ArrowShape,
    factor: &GroupFactor,
    encoding: &Encoding,
) -> Result<()> {
    if !factor.intercept {
        return Ok(());
    }
    let hessian = reference.likelihood.hessian(shape.groups);
    let width = shape.width;
    let names = encoding.effect_names(factor);
    for i in 1..width {
        let varies = (0..shape.groups).any(|g| {
            let block = hessian.block(g);
            let (own, cross, intercept) = (block[i * width + i], block[i * width], block[0]);
            own * intercept - cross * cross > CONSTANT * own * intercept
        });
        if !varies {
            return Err(ErrorKind::Column {
                column: names[i].clone(),
                what: format!(
                    "is constant within every group of '{}', so its slope cannot vary by group",
                    factor.column
                ),
                help: Some("leave the slope out of the group's effects".into()),
            }
            .into());
        }
    }
    Ok(())
}

fn is_at_least(size: Size, rows: u64) -> bool {
    matches!(size, Size::Rows(size) if size as u64 >= rows)
}

/// Rows from which the coreset's are chosen.
struct Candidates {
    rows: RowSet,
    points: GroupedPoints,
    /// The weights of the probability sample, `w/π`.
    reference_weights: Vec<f64>,
    are_all_rows: bool,
}

impl Candidates {
    /// One pass that keeps candidates of every group.
    fn find(
        build: &Build<'_, impl Engine>,
        reference: &HierarchicalMode,
        shape: ArrowShape,
    ) -> Result<Candidates> {
        let (learnt, settings) = (build.learnt, build.settings);
        let mut pooled = build.run(PoolingGroups {
            encoding: Cow::Borrowed(&learnt.encoding),
            precision: Cow::Borrowed(&reference.gaussian.precision),
            at: reference.at[..].into(),
            capacity: capacity(settings.size, shape, learnt.rows),
            seed: settings.seed,
        })?;
        let rows = pooled.take_rows();
        let kept = pooled.race.finish();
        let at: Vec<usize> =
            kept.iter().filter_map(|row| rows.positions.binary_search(&row.position).ok()).collect();
        let rows = rows.take(&at);
        let points = learnt.encoding.grouped_encoder(&rows.block())?.points();
        let weight = |(n, probability): (usize, f64)| points.fixed.weight(n) / probability;
        let reference_weights = kept.iter().map(|row| row.inclusion).enumerate().map(weight).collect();
        let are_all_rows = kept.len() as u64 == learnt.rows && kept.iter().all(|row| row.inclusion == 1.0);
        Ok(Candidates { rows, points, reference_weights, are_all_rows })
    }
}

/// How many candidates to keep: several times as many of each group as features that they have to match.
fn capacity(size: Size, shape: ArrowShape, rows: u64) -> GroupCapacity {
    let features = feature_shape(shape);
    let of_size = match size {
        Size::Rows(size) if size as u64 >= rows => {
            return GroupCapacity { per_group: 1, overall: rows as usize };
        }
        Size::Rows(size) => 2 * size / shape.groups,
        Size::Kl { .. } | Size::Guarantee { .. } => 0,
    };
    let most = (MOST_CANDIDATES / shape.groups).max(2 * features.width);
    let per_group = (6 * features.width).max(60).min(most).max(of_size);
    GroupCapacity { per_group, overall: (per_group * shape.groups / 8).max(40 * features.dim) }
}

/// All rows with their own weights.
fn exact(candidates: Candidates) -> Selected {
    Selected {
        draws: candidates.rows.len() as u64,
        rows: candidates.rows,
        weights: candidates.reference_weights,
        exact: true,
        sensitivity: None,
        calibration: None,
        hierarchical: None,
        warning: None,
        residual: None,
        step_kl: None,
        held: None,
    }
}

/// The rows of a coreset, as indices of candidates, their weights and their certificate.
struct Chosen {
    rows: Vec<usize>,
    weights: Vec<f64>,
    scales: Vec<ScaleCertificate>,
}

impl Chosen {
    fn kl(&self) -> f64 {
        self.scales.iter().map(ScaleCertificate::largest_kl).fold(0.0, f64::max)
    }
}

/// Calibrates the candidates and eliminates as many of them as the size asks for: all that can be, or fewer until the certificate meets
/// the target.
fn choose(
    candidates: &Candidates,
    reference: &HierarchicalMode,
    size: Size,
    comparison: &Comparison<'_, impl Engine>,
) -> Result<Chosen> {
    let map = ArrowMap { factor: &reference.gaussian.factor, at: &reference.at };
    let features = map.features(&candidates.points, Order::Second);
    let target = map.target(&reference.likelihood);
    let calibrated = nearest_weights(&features, &target, &candidates.reference_weights);
    let certify = |features: &SparseFeatures, spare: usize| {
        let (rows, weights) = fewest(features, &calibrated, spare);
        let mut points = candidates.points.rows_at(&rows);
        points.fixed.set_weights(&weights);
        comparison.certify(&points).map(|scales| Chosen { rows, weights, scales })
    };
    let groups = features.shape.groups;
    match size {
        Size::Rows(size) => {
            let (rows, _) = fewest(&features, &calibrated, 0);
            if rows.len() > size {
                return Err(too_small(size, rows.len(), groups));
            }
            let third = map.features(&candidates.points, Order::Third);
            let (more, _) = fewest(&third, &calibrated, 0);
            match size.checked_sub(more.len()) {
                Some(spare) => certify(&third, spare / groups),
                None => certify(&features, (size - rows.len()) / groups),
            }
        }
        Size::Kl { target } => {
            let fewest = certify(&features, 0)?;
            if fewest.kl() <= target {
                return Ok(fewest);
            }
            // The third order of the candidates' log-likelihood costs few rows per group and saves many.
            let third = map.features(&candidates.points, Order::Third);
            let mut spare = 0;
            loop {
                let chosen = certify(&third, spare)?;
                if chosen.kl() <= target {
                    return Ok(chosen);
                }
                if chosen.rows.len() * 10 >= 9 * calibrated.len() {
                    return Err(missed(target, &chosen));
                }
                spare = (2 * spare).max(2);
            }
        }
        Size::Guarantee { .. } => {
            let what = "needs sensitivity bounds, which do not exist for models with groups";
            Err(Error::setting(Setting::Epsilon, what).with_help(Remedy::choose("instead a", Setting::Kl)))
        }
    }
}

/// The rows that are left after elimination, except for `spare` more per group, and their weights.
fn fewest(features: &SparseFeatures, calibrated: &[f64], spare: usize) -> (Vec<usize>, Vec<f64>) {
    let mut weights = calibrated.to_vec();
    eliminate(features, &mut weights, spare);
    let rows: Vec<usize> = (0..weights.len()).filter(|&row| weights[row] > 0.0).collect();
    let weights = rows.iter().map(|&row| weights[row]).collect();
    (rows, weights)
}

fn too_small(size: usize, least: usize, groups: usize) -> Error {
    let each = least as f64 / groups as f64;
    let what = format!(
        "{size} rows are too few for {groups} groups: a calibrated coreset needs {least}, {each:.1} per group"
    );
    Error::setting(Setting::Size, what).with_help([Remedy::set(Setting::Size, least as u64)])
}

fn missed(target: f64, chosen: &Chosen) -> Error {
    ErrorKind::Numerical {
        what: format!(
            "a KL of {target} was not reached: {} rows reach {:.3e}",
            chosen.rows.len(),
            chosen.kl()
        ),
        help: Some(Help::from([Remedy::choose("a larger", Setting::Kl)])),
    }
    .into()
}
