//! A reference point for the coordinates of a hierarchical posterior: the mode of fixed and group effects, with covariances near
//! their marginal mode.
//!
//! Newton steps in the fixed effects and the effects of one factor at a time alternate with steps of the EM algorithm for the
//! covariances, `Σ ← mean(u_g u_gᵀ + P_g⁻¹)`. The result need not be exact: the coordinates stay valid (see `hierarchical_posterior.rs`).

use faer::Mat;

use crate::base::error::{ErrorKind, Result};
use crate::base::linear::Cholesky;
use crate::base::math::{ln, softplus_and_slope};
use crate::data::grouped::GroupedPoints;
use crate::model::covariance::{Covariance, CovariancePrior};
use crate::model::gaussian::Gaussian;
use crate::model::hierarchical_posterior::{
    FactorReference, HierarchicalPosterior, HierarchicalPriors, Parameters, Reference, factor_small,
    solve_small, solve_small_transposed,
};

/// Alternations of Newton and EM steps. EM converges slowly where groups have little information, but there the likelihood of the
/// scales is flat, too.
const ROUNDS: usize = 40;
/// A relative change of all scales below this ends the search.
const NEAR_ENOUGH: f64 = 0.01;
/// The search for scales behaves as if there were this many more groups, with a scale of [`USUAL_SCALE`], so that none becomes 0.
const USUAL_GROUPS: f64 = 1.0;
const USUAL_SCALE: f64 = 0.5;
/// Halvings of a Newton step that does not increase the density.
const MOST_HALVINGS: usize = 30;

impl<'a> HierarchicalPosterior<'a> {
    /// The posterior of weighted rows that belong to groups, in coordinates about a reference point that is searched for here.
    pub fn new(
        points: &'a GroupedPoints,
        priors: &'a HierarchicalPriors,
    ) -> Result<HierarchicalPosterior<'a>> {
        priors.check(points)?;
        let (at, covariances) = search(points, priors)?;
        let mut factors = Vec::with_capacity(points.factors.len());
        let mut beta = None;
        for (f, prior) in priors.factors.iter().enumerate() {
            let sums = Sums::at(points, &at, f);
            let solved = sums.solve(&priors.fixed.normal_precisions(), &at, &covariances[f], f);
            let solved = solved.ok_or_else(not_finite)?;
            beta = beta.or_else(|| Gaussian::from_precision(at.beta.clone(), solved.precision.clone()));
            let q = prior.width();
            let mut pull = sums.effect_gradient;
            for (g, pull) in pull.chunks_exact_mut(q).enumerate() {
                let (d, u) = (&sums.blocks[g * q * q..], &at.effects[f][g * q..]);
                for (i, pull) in pull.iter_mut().enumerate() {
                    *pull += (0..q).map(|j| d[i * q + j] * u[j]).sum::<f64>();
                }
            }
            factors.push(FactorReference {
                unconstrained: at.unconstrained[f].clone(),
                spread: spread(prior, &covariances[f], &solved.variances),
                information: sums.blocks,
                border: sums.border,
                pull,
            });
        }
        let beta = beta.ok_or_else(not_finite)?;
        Ok(HierarchicalPosterior::with_reference(points, priors, Reference { beta, factors }))
    }
}

fn not_finite() -> crate::base::error::Error {
    ErrorKind::Numerical {
        what: "the mode of the fixed and group effects cannot be found".to_string(),
        help: Some("look for infinite values, or values beyond 1e150, in the data".into()),
    }
    .into()
}

/// The mode, and the covariances there.
fn search(points: &GroupedPoints, priors: &HierarchicalPriors) -> Result<(Parameters, Vec<Covariance>)> {
    let precisions = priors.fixed.normal_precisions();
    let mut at = Parameters::zeros(points, priors);
    let mut covariances: Vec<Covariance> =
        priors.factors.iter().zip(&at.unconstrained).map(|(prior, t)| Covariance::new(prior, t)).collect();
    let mut value = objective(points, &precisions, &covariances, &at);
    if !value.is_finite() {
        return Err(not_finite());
    }
    for _ in 0..ROUNDS {
        let mut change: f64 = 0.0;
        for (f, prior) in priors.factors.iter().enumerate() {
            let sums = Sums::at(points, &at, f);
            let solved = sums.solve(&precisions, &at, &covariances[f], f).ok_or_else(not_finite)?;
            let mut step = 1.0;
            for _ in 0..MOST_HALVINGS {
                let mut next = at.clone();
                add_multiple(&mut next.beta, step, &solved.beta_step);
                add_multiple(&mut next.effects[f], step, &solved.effect_step);
                let there = objective(points, &precisions, &covariances, &next);
                if there >= value {
                    change = change.max(there - value);
                    (at, value) = (next, there);
                    break;
                }
                step *= 0.5;
            }
            let before = covariances[f].tau.clone();
            at.unconstrained[f] = maximised(prior, &at.effects[f], &solved.variances);
            covariances[f] = Covariance::new(prior, &at.unconstrained[f]);
            let scales = before.iter().zip(&covariances[f].tau);
            change = scales.map(|(before, after)| (after / before - 1.0).abs()).fold(change, f64::max);
        }
        value = objective(points, &precisions, &covariances, &at);
        if change < NEAR_ENOUGH {
            break;
        }
    }
    Ok((at, covariances))
}

fn add_multiple(target: &mut [f64], factor: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target += factor * source;
    }
}

/// The log-density of the effects given the covariances, up to a constant, with normal priors of the fixed effects.
fn objective(points: &GroupedPoints, precisions: &[f64], covariances: &[Covariance], at: &Parameters) -> f64 {
    let mut value = 0.0;
    for_each_row(points, at, |n, _, margin| {
        value -= points.fixed.weight(n) * softplus_and_slope(margin).0;
    });
    value -= 0.5 * precisions.iter().zip(&at.beta).map(|(p, b)| p * b * b).sum::<f64>();
    for (covariance, effects) in covariances.iter().zip(&at.effects) {
        let q = covariance.width;
        for u in effects.chunks_exact(q) {
            value -= 0.5 * (0..q * q).map(|k| u[k / q] * covariance.precision[k] * u[k % q]).sum::<f64>();
        }
    }
    value
}

/// Calls a function with each row's number, its `z`, and its margin.
fn for_each_row(points: &GroupedPoints, at: &Parameters, mut call: impl FnMut(usize, &[f64], f64)) {
    let mut z = vec![0.0; points.fixed.dim()];
    let mut n = 0;
    for tile in points.fixed.tiles() {
        for r in 0..tile.len {
            tile.copy_row(r, &mut z);
            let mut margin: f64 = z.iter().zip(&at.beta).map(|(z, b)| z * b).sum();
            for (factor, effects) in points.factors.iter().zip(&at.effects) {
                let own = &effects[factor.group[n] as usize * factor.width..];
                margin += factor.row(n).iter().zip(own).map(|(z, u)| z * u).sum::<f64>();
            }
            call(n, &z, margin);
            n += 1;
        }
    }
}

/// Gradient and negative Hessian of the likelihood in the fixed effects and the effects of one factor.
struct Sums {
    width: usize,
    beta_gradient: Vec<f64>,
    effect_gradient: Vec<f64>,
    /// `A`, the lower triangle.
    corner: Mat<f64>,
    /// `B_g`, row by row.
    border: Vec<f64>,
    /// `d_g`, row by row.
    blocks: Vec<f64>,
}

/// A Newton step, and what follows from the factors computed for it.
struct Solved {
    beta_step: Vec<f64>,
    effect_step: Vec<f64>,
    /// The precision of the fixed effects with the factor's effects integrated out.
    precision: Mat<f64>,
    /// `P_g⁻¹`, q × q numbers per group.
    variances: Vec<f64>,
}

impl Sums {
    fn at(points: &GroupedPoints, at: &Parameters, f: usize) -> Sums {
        let (dim, factor) = (points.fixed.dim(), &points.factors[f]);
        let (q, effects) = (factor.width, factor.groups * factor.width);
        let mut sums = Sums {
            width: q,
            beta_gradient: vec![0.0; dim],
            effect_gradient: vec![0.0; effects],
            corner: Mat::zeros(dim, dim),
            border: vec![0.0; effects * dim],
            blocks: vec![0.0; effects * q],
        };
        for_each_row(points, at, |n, z, margin| {
            let slope = softplus_and_slope(margin).1;
            let pull = points.fixed.weight(n) * slope;
            let stiffness = pull * (1.0 - slope);
            let (group, row) = (factor.group[n] as usize, factor.row(n));
            for (j, &zj) in z.iter().enumerate() {
                sums.beta_gradient[j] += pull * zj;
                add_multiple(&mut sums.corner.col_as_slice_mut(j)[j..], stiffness * zj, &z[j..]);
            }
            for (i, &r) in row.iter().enumerate() {
                let at = group * q + i;
                sums.effect_gradient[at] += pull * r;
                add_multiple(&mut sums.border[at * dim..(at + 1) * dim], stiffness * r, z);
                add_multiple(&mut sums.blocks[at * q..(at + 1) * q], stiffness * r, row);
            }
        });
        sums
    }

    /// The Newton step from `at`; `None` if a matrix is not positive definite.
    fn solve(
        &self,
        precisions: &[f64],
        at: &Parameters,
        covariance: &Covariance,
        f: usize,
    ) -> Option<Solved> {
        let (q, dim, effects) = (self.width, self.beta_gradient.len(), &at.effects[f]);
        let mut precision = self.corner.clone();
        let mut right: Vec<f64> = self.beta_gradient.clone();
        for (i, p) in precisions.iter().enumerate() {
            precision[(i, i)] += p;
            right[i] -= p * at.beta[i];
        }
        let groups = effects.len() / q;
        let mut factors = vec![0.0; groups * q * q];
        let mut variances = vec![0.0; groups * q * q];
        let mut whitened = vec![0.0; q * dim];
        let mut slopes = vec![0.0; effects.len()];
        for g in 0..groups {
            let k = &mut factors[g * q * q..(g + 1) * q * q];
            let block = &self.blocks[g * q * q..];
            k.iter_mut().zip(block.iter().zip(&covariance.precision)).for_each(|(k, (d, p))| *k = d + p);
            factor_small(k, q);
            let slope = &mut slopes[g * q..(g + 1) * q];
            for (i, slope) in slope.iter_mut().enumerate() {
                let prior: f64 = (0..q).map(|j| covariance.precision[i * q + j] * effects[g * q + j]).sum();
                *slope = self.effect_gradient[g * q + i] - prior;
            }
            let variance = &mut variances[g * q * q..(g + 1) * q * q];
            for i in 0..q {
                let row = &mut variance[i * q..(i + 1) * q];
                row[i] = 1.0;
                solve_small(k, q, row);
                solve_small_transposed(k, q, row);
            }
            // W = K⁻¹ B and K⁻¹ of the slope: S −= Wᵀ W, right −= Wᵀ K⁻¹ slope.
            whitened.copy_from_slice(&self.border[g * q * dim..(g + 1) * q * dim]);
            let mut column = vec![0.0; q];
            for j in 0..dim {
                (0..q).for_each(|i| column[i] = whitened[i * dim + j]);
                solve_small(k, q, &mut column);
                (0..q).for_each(|i| whitened[i * dim + j] = column[i]);
            }
            column.copy_from_slice(slope);
            solve_small(k, q, &mut column);
            for (i, row) in whitened.chunks_exact(dim.max(1)).enumerate() {
                add_multiple(&mut right, -column[i], row);
                for (j, w) in row.iter().enumerate() {
                    add_multiple(&mut precision.col_as_slice_mut(j)[j..], -w, &row[j..]);
                }
            }
        }
        for j in 0..dim {
            (0..j).for_each(|i| precision[(i, j)] = precision[(j, i)]);
        }
        let right = Mat::from_fn(dim, 1, |i, _| right[i]);
        let step = Cholesky::new(precision.as_ref())?.solve(right);
        let beta_step: Vec<f64> = step.col_as_slice(0).to_vec();
        let mut effect_step = slopes;
        for (g, step) in effect_step.chunks_exact_mut(q).enumerate() {
            for (i, step) in step.iter_mut().enumerate() {
                let row = &self.border[(g * q + i) * dim..(g * q + i + 1) * dim];
                *step -= row.iter().zip(&beta_step).map(|(b, s)| b * s).sum::<f64>();
            }
            let k = &factors[g * q * q..(g + 1) * q * q];
            solve_small(k, q, step);
            solve_small_transposed(k, q, step);
        }
        let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        (finite(&beta_step) && finite(&effect_step)).then_some(Solved {
            beta_step,
            effect_step,
            precision,
            variances,
        })
    }
}

/// The unconstrained parameters of the covariance that maximises the expected density of the effects: the M step.
fn maximised(prior: &CovariancePrior, effects: &[f64], variances: &[f64]) -> Vec<f64> {
    let q = prior.width();
    let mut sigma = vec![0.0; q * q];
    for i in 0..q {
        sigma[i * q + i] = USUAL_GROUPS * USUAL_SCALE * USUAL_SCALE;
    }
    for (u, variance) in effects.chunks_exact(q).zip(variances.chunks_exact(q * q)) {
        for (k, sigma) in sigma.iter_mut().enumerate() {
            *sigma += u[k / q] * u[k % q] + variance[k];
        }
    }
    let count = (effects.len() / q) as f64 + USUAL_GROUPS;
    let scales: Vec<f64> = (0..q).map(|i| (sigma[i * q + i] / count).sqrt()).collect();
    let mut unconstrained: Vec<f64> = scales.iter().map(|tau| ln(*tau)).collect();
    if prior.correlation.is_none() {
        return unconstrained;
    }
    // Row i of the correlations' Cholesky factor is z_j √rest.
    let mut c = vec![0.0; q * q];
    for i in 0..q {
        let mut rest: f64 = 1.0;
        for j in 0..i {
            let correlation = sigma[i * q + j] / (count * scales[i] * scales[j]);
            let known: f64 = (0..j).map(|k| c[i * q + k] * c[j * q + k]).sum();
            let z = ((correlation - known) / (c[j * q + j] * rest.sqrt())).clamp(-0.99, 0.99);
            unconstrained.push(0.5 * ln((1.0 + z) / (1.0 - z)));
            c[i * q + j] = z * rest.sqrt();
            rest *= 1.0 - z * z;
        }
        c[i * q + i] = rest.sqrt();
    }
    unconstrained
}

/// The approximate standard deviations of a covariance's unconstrained parameters: a group whose data determine the share `λ` of an
/// effect counts as `λ²` groups whose effect is known.
fn spread(prior: &CovariancePrior, covariance: &Covariance, variances: &[f64]) -> Vec<f64> {
    let q = prior.width();
    // The share of effect i that the data of a group determine.
    let share = |variance: &[f64], i: usize| {
        let remaining: f64 = (0..q).map(|j| variance[i * q + j] * covariance.precision[j * q + i]).sum();
        (1.0 - remaining).clamp(0.0, 1.0)
    };
    let known = |i: usize, j: usize| -> f64 {
        variances.chunks_exact(q * q).map(|variance| share(variance, i) * share(variance, j)).sum()
    };
    let mut spread: Vec<f64> = (0..q).map(|i| (2.0 * known(i, i) + 1.0).sqrt().recip()).collect();
    if prior.correlation.is_some() {
        for i in 0..q {
            spread.extend((0..i).map(|j| (known(i, j) + 1.0).sqrt().recip()));
        }
    }
    spread
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Seed, open_unit, standard_normal};
    use crate::data::grouped::Memberships;
    use crate::data::points::Points;
    use crate::model::GroupPrior;
    use crate::model::posterior::Target;
    use crate::model::prior::{Prior, Priors};

    /// Rows of a model with an intercept and slopes, and effects of the first q columns in each factor.
    pub(crate) fn grouped_points(
        rows: usize,
        dim: usize,
        factors: &[(usize, usize)],
        seed: u64,
    ) -> GroupedPoints {
        let mut rng = Seed(seed).stream(Purpose::Generate, 0);
        let mut points = GroupedPoints { fixed: Points::new(dim), factors: Vec::new() };
        let effects: Vec<Vec<f64>> = factors
            .iter()
            .map(|(groups, width)| (0..groups * width).map(|_| 0.8 * standard_normal(&mut rng)).collect())
            .collect();
        points.factors = factors.iter().map(|&(groups, width)| Memberships::new(groups, width)).collect();
        for _ in 0..rows {
            let x: Vec<f64> =
                (0..dim).map(|j| if j == 0 { 1.0 } else { standard_normal(&mut rng) }).collect();
            let mut eta: f64 = x.iter().enumerate().map(|(j, x)| x * (0.5 - 0.3 * j as f64)).sum();
            // Some groups have many more rows than others.
            let picks: Vec<usize> = factors
                .iter()
                .map(|(groups, _)| (open_unit(&mut rng).powi(2) * (*groups as f64 - 1e-9)) as usize)
                .collect();
            for ((&(groups, width), effects), pick) in factors.iter().zip(&effects).zip(&picks) {
                let own = &effects[(*pick).min(groups - 1) * width..];
                eta += x.iter().zip(&own[..width]).map(|(x, u)| x * u).sum::<f64>();
            }
            let y = if open_unit(&mut rng) * (1.0 + (-eta).exp()) <= 1.0 { 1.0 } else { -1.0 };
            let z: Vec<f64> = x.iter().map(|x| y * x).collect();
            points.fixed.push(&z, 0.5 + open_unit(&mut rng));
            for (factor, (pick, (groups, width))) in points.factors.iter_mut().zip(picks.iter().zip(factors))
            {
                factor.push((*pick).min(groups - 1) as u32, &z[..*width]);
            }
        }
        points
    }

    pub(crate) fn priors_of(points: &GroupedPoints, correlated: bool) -> HierarchicalPriors {
        HierarchicalPriors {
            fixed: Priors::same(Prior::Normal { scale: 2.0 }, points.fixed.dim()),
            factors: points
                .factors
                .iter()
                .map(|factor| CovariancePrior::new(GroupPrior::default(), factor.width, correlated))
                .collect(),
        }
    }

    #[test]
    fn the_density_is_the_definition_times_the_jacobian_and_the_gradient_is_its_own() {
        for (shape, correlated) in [
            (vec![(5, 1)], true),
            (vec![(4, 2)], true),
            (vec![(3, 3)], true),
            (vec![(4, 2)], false),
            (vec![(4, 2), (3, 1)], true),
        ] {
            let points = grouped_points(300, 3, &shape, 11);
            let priors = priors_of(&points, correlated);
            let posterior = HierarchicalPosterior::new(&points, &priors).unwrap();
            let mut target = posterior.target();
            let dim = target.dim();
            let at = |salt: f64| -> Vec<f64> { (0..dim).map(|k| (k as f64 * 1.3 + salt).sin()).collect() };
            let (one, two) = (at(0.3), at(2.0));
            let mut gradient = vec![0.0; dim];
            // Densities in coordinates differ as densities of parameters and log-Jacobians do.
            let mut parts = |xi: &[f64]| {
                let value = target.value_and_gradient(xi, &mut gradient);
                (value, posterior.log_density(&target.parameters(xi)), log_jacobian(&mut target, xi))
            };
            let ((v1, d1, j1), (v2, d2, j2)) = (parts(&one), parts(&two));
            let (found, expected) = (v1 - v2, d1 + j1 - d2 - j2);
            assert!((found - expected).abs() < 1e-5, "{shape:?}: {found} {expected}");
            target.value_and_gradient(&one, &mut gradient);
            let mut other = vec![0.0; dim];
            for k in 0..dim {
                let (mut up, mut down) = (one.clone(), one.clone());
                up[k] += 1e-5;
                down[k] -= 1e-5;
                let slope = (target.value_and_gradient(&up, &mut other)
                    - target.value_and_gradient(&down, &mut other))
                    / 2e-5;
                assert!(
                    (slope - gradient[k]).abs() < 1e-5 * (1.0 + slope.abs()),
                    "{shape:?} {k}: {slope} {}",
                    gradient[k]
                );
            }
        }
    }

    /// The logarithm of the Jacobian determinant of the coordinates, by finite differences.
    fn log_jacobian(
        target: &mut crate::model::hierarchical_posterior::HierarchicalTarget<'_>,
        xi: &[f64],
    ) -> f64 {
        let dim = xi.len();
        let flat = |target: &mut crate::model::hierarchical_posterior::HierarchicalTarget<'_>, xi: &[f64]| {
            let mut theta = Vec::new();
            target.keep(xi, &mut theta);
            theta
        };
        let mut matrix = Mat::zeros(dim, dim);
        for j in 0..dim {
            let (mut up, mut down) = (xi.to_vec(), xi.to_vec());
            up[j] += 1e-5;
            down[j] -= 1e-5;
            let (up, down) = (flat(target, &up), flat(target, &down));
            (0..dim).for_each(|i| matrix[(i, j)] = (up[i] - down[i]) / 2e-5);
        }
        matrix.determinant().abs().ln()
    }

    #[test]
    fn the_coordinates_are_nearly_standard_normal() {
        // At the reference, and for smaller and larger scales, the gradient at v = 0 nearly vanishes in the group effects of many rows.
        let points = grouped_points(20_000, 3, &[(20, 2)], 3);
        let priors = priors_of(&points, true);
        let posterior = HierarchicalPosterior::new(&points, &priors).unwrap();
        let mut target = posterior.target();
        let mut xi = vec![0.0; target.dim()];
        let mut gradient = xi.clone();
        for scale in [-1.0, 0.0, 1.0] {
            xi[3] = scale;
            xi[4] = scale;
            target.value_and_gradient(&xi, &mut gradient);
            let largest = gradient[6..].iter().fold(0.0f64, |most, g| most.max(g.abs()));
            assert!(largest < 0.3, "{largest}");
        }
        xi[3] = 0.0;
        xi[4] = 0.0;
        // At the reference all gradients in effects vanish, and the curvature along a coordinate is 1.
        target.value_and_gradient(&xi, &mut gradient);
        assert!(gradient[..3].iter().chain(&gradient[6..]).all(|g| g.abs() < 0.05), "{gradient:?}");
        for k in [0, 1, 2, 6, 20, 45] {
            let mut there = xi.clone();
            there[k] = 0.01;
            let mut bent = gradient.clone();
            target.value_and_gradient(&there, &mut bent);
            let curvature = (gradient[k] - bent[k]) / 0.01;
            assert!((curvature - 1.0).abs() < 0.1, "{k}: {curvature}");
        }
    }

    #[test]
    fn priors_of_other_models_and_rows_of_unknown_groups_are_rejected() {
        let mut points = grouped_points(50, 2, &[(4, 1)], 5);
        let priors = priors_of(&points, true);
        let two = HierarchicalPriors { factors: vec![priors.factors[0].clone(); 2], ..priors.clone() };
        assert!(HierarchicalPosterior::new(&points, &two).is_err());
        let wide = HierarchicalPriors {
            factors: vec![CovariancePrior::new(GroupPrior::default(), 2, true)],
            ..priors.clone()
        };
        assert!(HierarchicalPosterior::new(&points, &wide).is_err());
        points.factors[0].group[7] = 4;
        assert!(HierarchicalPosterior::new(&points, &priors).is_err());
        points.factors[0].group[7] = 0;
        points.factors[0].z[3] = f64::INFINITY;
        assert!(HierarchicalPosterior::new(&points, &priors).is_err());
    }
}
