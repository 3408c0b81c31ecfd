//! The mode of a hierarchical model: Newton's method for effects and fixed effects, with Σ near its marginal mode.

use crate::base::error::{ErrorKind, Result};
use crate::data::grouped::GroupedPoints;
use crate::model::arrow::ArrowShape;
use crate::model::grouped_likelihood::GroupedCurvature;
use crate::model::hierarchical::{
    ArrowGaussian, EffectCovariance, LocalPosterior, STEADY_SCALE, update_covariance,
};
use crate::model::newton::singular;
use crate::model::prior::{Prior, Priors};

/// Maximum number of Newton steps, and of halvings of one step.
const MOST_STEPS: usize = 100;
const MOST_HALVINGS: usize = 30;
/// Steps during which Σ is updated at most: with little information about it EM is slow, and it only has to be near.
const MOST_UPDATES: usize = 12;
/// The squared decrement below which a steady Σ is not updated any more.
const NEAR_ENOUGH: f64 = 1.0;

/// A log-likelihood of rows in groups that can be evaluated.
pub(crate) trait GroupedLikelihood {
    /// The sizes of the model.
    fn shape(&self) -> ArrowShape;

    /// Value, gradient and negative Hessian at a vector of effects and fixed effects.
    fn evaluate(&mut self, at: &[f64]) -> Result<GroupedCurvature>;
}

impl GroupedLikelihood for &GroupedPoints {
    fn shape(&self) -> ArrowShape {
        GroupedPoints::shape(self)
    }

    fn evaluate(&mut self, at: &[f64]) -> Result<GroupedCurvature> {
        Ok(GroupedCurvature::of_points(self, at))
    }
}

/// How Σ is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scales {
    /// It is found together with the mode.
    Sought,
    /// It stays as it is.
    Fixed,
}

/// The mode of effects and fixed effects.
pub struct HierarchicalMode {
    /// The last vector at which the likelihood was evaluated, within the requested distance of the mode.
    pub at: Vec<f64>,
    /// The likelihood there.
    pub likelihood: GroupedCurvature,
    /// Σ: near the mode of its marginal likelihood if it was sought.
    pub covariance: EffectCovariance,
    /// The normal approximation: its mean is the mode, which is one more Newton step from `at`.
    pub gaussian: ArrowGaussian,
}

/// The mode of points in memory, to the last digits, and Σ near its marginal mode.
///
/// # Errors
/// If the posterior has no mode: under a flat prior the rows may not determine every coefficient.
pub fn mode_of_grouped_points(
    points: &GroupedPoints,
    priors: &Priors,
    correlated: bool,
) -> Result<HierarchicalMode> {
    let shape = points.shape();
    let start = EffectCovariance::isotropic(shape.width, 0.5, correlated);
    hierarchical_mode(&mut &*points, priors, vec![0.0; shape.len()], start, Scales::Sought, 1e-16)
}

/// Damped Newton steps from `start` until the squared decrement, which is the squared distance to the mode in posterior standard
/// deviations, is at most `near`. Where Σ is sought, it is updated by EM before each step.
pub(crate) fn hierarchical_mode(
    likelihood: &mut impl GroupedLikelihood,
    priors: &Priors,
    start: Vec<f64>,
    covariance: EffectCovariance,
    scales: Scales,
    near: f64,
) -> Result<HierarchicalMode> {
    let flat = priors.coefficients.iter().any(Prior::is_improper);
    let groups = likelihood.shape().groups;
    let (mut at, mut covariance) = (start, covariance);
    let mut evaluated = likelihood.evaluate(&at)?;
    let mut last = f64::INFINITY;
    let mut is_sought = scales == Scales::Sought;
    for step in 0..MOST_STEPS {
        if !evaluated.value().is_finite() {
            return Err(not_reached("the likelihood is not finite"));
        }
        if is_sought {
            let next = update_covariance(&at, &evaluated, priors, &covariance, groups)
                .ok_or_else(|| singular(flat))?;
            // Near the mode a steady Σ is kept: the rest of the way is Newton's method.
            let is_steady = next.change_since(&covariance) < 5.0 * STEADY_SCALE;
            is_sought = step + 1 < MOST_UPDATES && !(is_steady && last <= NEAR_ENOUGH);
            covariance = next;
        }
        let here = LocalPosterior::new(&at, &evaluated, priors, &covariance, groups)
            .ok_or_else(|| singular(flat))?;
        let gaussian = here.gaussian().ok_or_else(|| singular(flat))?;
        let step: Vec<f64> = gaussian.mean.iter().zip(&at).map(|(mean, at)| mean - at).collect();
        let decrement = step.iter().zip(&here.gradient).map(|(s, g)| s * g).sum::<f64>().max(0.0);
        // Rounding ends the gain of further steps.
        let stuck = decrement <= 1e-11 * here.value.abs() && decrement > 0.5 * last;
        if (decrement <= near || stuck) && !is_sought {
            return Ok(HierarchicalMode { at, likelihood: evaluated, covariance, gaussian });
        }
        last = decrement;
        (at, evaluated) = line_search(likelihood, &here, &step, decrement, priors, &covariance)?;
    }
    Err(not_reached("the search did not end"))
}

/// The vector a step or a fraction of it ahead at which the log-posterior is large enough.
fn line_search(
    likelihood: &mut impl GroupedLikelihood,
    here: &LocalPosterior,
    step: &[f64],
    decrement: f64,
    priors: &Priors,
    covariance: &EffectCovariance,
) -> Result<(Vec<f64>, GroupedCurvature)> {
    let groups = likelihood.shape().groups;
    let noise = 1e-12 * here.value.abs();
    let mut fraction = 1.0;
    for _ in 0..MOST_HALVINGS {
        let ahead: Vec<f64> = here.at.iter().zip(step).map(|(at, step)| at + fraction * step).collect();
        let there = likelihood.evaluate(&ahead)?;
        let value = LocalPosterior::new(&ahead, &there, priors, covariance, groups).map(|there| there.value);
        if value.is_some_and(|value| value >= here.value + 1e-4 * fraction * decrement - noise) {
            return Ok((ahead, there));
        }
        fraction *= 0.5;
    }
    Err(not_reached("no step increases the posterior density"))
}

fn not_reached(why: &str) -> crate::base::error::Error {
    ErrorKind::Numerical {
        what: format!("the mode of the hierarchical model was not reached: {why}"),
        help: Some("standardise the columns, look for nearly equal columns, or use a narrower prior".into()),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Rng, Seed, open_unit, standard_normal};
    use crate::data::grouped::Memberships;
    use crate::data::points::Points;
    use crate::model::newton::mode_of_points;

    /// Rows from the model with effects of these standard deviations, and the effects.
    fn rows_of(shape: ArrowShape, per_group: usize, sd: &[f64], rng: &mut Rng) -> GroupedPoints {
        let mut points = GroupedPoints {
            fixed: Points::new(shape.dim),
            factors: vec![Memberships::new(shape.groups, shape.width)],
        };
        for group in 0..shape.groups {
            let u: Vec<f64> = sd.iter().map(|sd| sd * standard_normal(rng)).collect();
            for _ in 0..per_group {
                let x: Vec<f64> =
                    (0..shape.dim).map(|d| if d == 0 { 1.0 } else { standard_normal(rng) }).collect();
                let eta: f64 = x.iter().enumerate().map(|(d, x)| x * (-0.5 + 0.3 * d as f64)).sum::<f64>()
                    + x.iter().zip(&u).map(|(x, u)| x * u).sum::<f64>();
                let y = if open_unit(rng) < 1.0 / (1.0 + (-eta).exp()) { 1.0 } else { -1.0 };
                let z: Vec<f64> = x.iter().map(|x| x * y).collect();
                points.fixed.push(&z, 1.0);
                points.factors[0].push(group as u32, &z[..shape.width]);
            }
        }
        points
    }

    fn dense(points: &GroupedPoints) -> Points {
        let shape = points.shape();
        let mut dense = Points::new(shape.len());
        for n in 0..points.fixed.len() {
            let mut row = vec![0.0; shape.effects()];
            let start = points.factors[0].group[n] as usize * shape.width;
            row[start..start + shape.width].copy_from_slice(points.factors[0].row(n));
            row.extend(points.fixed.row(n));
            dense.push(&row, points.fixed.weight(n));
        }
        dense
    }

    fn normal(dim: usize) -> Priors {
        Priors { coefficients: vec![Prior::Normal { scale: 2.0 }; dim] }
    }

    #[test]
    fn the_mode_is_that_of_effects_as_ordinary_coefficients() {
        let shape = ArrowShape { groups: 12, width: 2, dim: 3 };
        let points = rows_of(shape, 40, &[0.8, 0.4], &mut Seed(1).stream(Purpose::Generate, 0));
        let covariance = EffectCovariance::new(2, vec![0.64, 0.0, 0.0, 0.16], false);
        let (start, fixed) = (vec![0.0; shape.len()], Scales::Fixed);
        let ours =
            hierarchical_mode(&mut &points, &normal(3), start.clone(), covariance, fixed, 1e-18).unwrap();
        let mut precision = [1.0 / 0.64, 1.0 / 0.16].repeat(12);
        precision.extend([0.25; 3]);
        let theirs = mode_of_points(&dense(&points), &precision, start).unwrap();
        for (a, b) in ours.gaussian.mean.iter().zip(&theirs.mode) {
            assert!((a - b).abs() < 1e-8, "{a} {b}");
        }
        let gaussian = crate::model::Gaussian::from_precision(theirs.mode, theirs.precision).unwrap();
        let variances = ours.gaussian.factor.inverse().diagonal();
        for (i, variance) in variances.iter().enumerate() {
            assert!((variance / gaussian.covariance(i, i) - 1.0).abs() < 1e-6);
        }
    }

    /// The standard deviation of 150 effects from 60 rows each has a relative standard error of about 7 %; 0.25 is 3.5 of them.
    #[test]
    fn scales_are_near_those_of_the_population() {
        for (seed, sd) in [(2, [0.8, 0.5]), (3, [0.3, 1.2])] {
            let shape = ArrowShape { groups: 150, width: 2, dim: 3 };
            let points = rows_of(shape, 60, &sd, &mut Seed(seed).stream(Purpose::Generate, 0));
            let mode = mode_of_grouped_points(&points, &normal(3), true).unwrap();
            for (i, sd) in sd.iter().enumerate() {
                let found = mode.covariance.sd(i);
                assert!((found / sd - 1.0).abs() < 0.25, "seed {seed}: {found} instead of {sd}");
            }
            assert_eq!(
                mode_of_grouped_points(&points, &normal(3), false).unwrap().covariance.entry(0, 1),
                0.0
            );
        }
    }

    #[test]
    fn groups_of_one_class_and_of_one_row_have_a_mode() {
        let mut points = rows_of(
            ArrowShape { groups: 5, width: 1, dim: 2 },
            30,
            &[0.5],
            &mut Seed(4).stream(Purpose::Generate, 0),
        );
        points.factors[0].groups = 8;
        for _ in 0..500 {
            points.fixed.push(&[1.0, 0.3], 1.0);
            points.factors[0].push(6, &[1.0]);
        }
        points.fixed.push(&[-1.0, 0.3], 1.0);
        points.factors[0].push(7, &[-1.0]);
        let mode = mode_of_grouped_points(&points, &normal(2), true).unwrap();
        let u = &mode.gaussian.mean;
        assert!(u[6] > 1.0 && u[7] < 0.0 && u[5].abs() < 1e-9, "{u:?}");
        assert!(mode.covariance.sd(0) < 10.0);
    }
}
