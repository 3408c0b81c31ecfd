//! Draws from a hierarchical posterior at fixed Σ, to compare log-likelihoods at.
//!
//! Fixed effects and group effects are drawn from the normal approximation. Given the fixed effects the groups are independent, so
//! Metropolis steps group by group then turn the normal effects into effects of the posterior: with few rows or one class in a
//! group these are skewed, and normal draws would lie where the posterior has no mass.

use rayon::prelude::*;

use crate::base::math::{ln, softplus_and_slope};
use crate::base::rng::{Purpose, Rng, Seed, open_unit, standard_normal};
use crate::data::grouped::GroupedPoints;
use crate::mode::hierarchical::HierarchicalMode;
use crate::model::arrow::ArrowShape;

/// Metropolis steps per group.
const SWEEPS: usize = 30;
/// Lengths of proposals in conditional standard deviations, used in turn: the first is optimal for a normal density, and the others
/// suit narrower and wider ones.
const LENGTHS: [f64; 3] = [2.4, 0.6, 6.0];

/// Draws from the posterior of weighted points whose normal approximation is known; `index` distinguishes sets of draws.
pub(crate) fn posterior_draws(
    points: &GroupedPoints,
    mode: &HierarchicalMode,
    count: usize,
    seed: Seed,
    index: usize,
) -> Vec<Vec<f64>> {
    let Some((precision, _)) = mode.covariance.precision() else { return Vec::new() };
    let sampler = GroupSampler::new(points, mode, precision);
    (0..count)
        .into_par_iter()
        .map(|draw| {
            let mut rng = seed.stream(Purpose::CheckDraws, (index * count + draw) as u64);
            let xi: Vec<f64> = mode.gaussian.mean.iter().map(|_| standard_normal(&mut rng)).collect();
            let mut theta = mode.gaussian.unwhiten(&xi);
            sampler.move_effects(&mut theta, &mut rng);
            theta
        })
        .collect()
}

/// The rows of each group, and what the density of its effects depends on.
struct GroupSampler<'a> {
    points: &'a GroupedPoints,
    mode: &'a HierarchicalMode,
    shape: ArrowShape,
    /// `Σ⁻¹`.
    precision: Vec<f64>,
    rows: Vec<Vec<usize>>,
    /// `z`, row by row.
    fixed: Vec<f64>,
    weights: Vec<f64>,
}

impl<'a> GroupSampler<'a> {
    fn new(points: &'a GroupedPoints, mode: &'a HierarchicalMode, precision: Vec<f64>) -> GroupSampler<'a> {
        let shape = points.shape();
        let mut rows = vec![Vec::new(); shape.groups];
        for (row, &group) in points.factors.first().iter().flat_map(|factor| &factor.group).enumerate() {
            rows[group as usize].push(row);
        }
        let fixed = (0..points.fixed.len()).flat_map(|row| points.fixed.row(row)).collect();
        GroupSampler { points, mode, shape, precision, rows, fixed, weights: points.fixed.weights() }
    }

    /// Moves the effects of every group by Metropolis steps whose target is their density given the fixed effects.
    fn move_effects(&self, theta: &mut [f64], rng: &mut Rng) {
        let ArrowShape { width, dim, .. } = self.shape;
        let (effects, fixed) = theta.split_at_mut(self.shape.effects());
        let offsets: Vec<f64> = self
            .fixed
            .chunks_exact(dim.max(1))
            .map(|z| z.iter().zip(fixed.iter()).map(|(z, beta)| z * beta).sum())
            .collect();
        let mut step = vec![0.0; width];
        for g in 0..self.shape.groups {
            let u = &mut effects[g * width..(g + 1) * width];
            let mut here = self.log_density(g, &offsets, u);
            for sweep in 0..SWEEPS {
                step.iter_mut().for_each(|x| *x = standard_normal(rng));
                self.mode.gaussian.factor.unwhiten_group(g, &mut step);
                let length = LENGTHS[sweep % LENGTHS.len()] / (width as f64).sqrt();
                let proposal: Vec<f64> = u.iter().zip(&step).map(|(u, step)| u + length * step).collect();
                let there = self.log_density(g, &offsets, &proposal);
                if ln(open_unit(rng)) <= there - here {
                    u.copy_from_slice(&proposal);
                    here = there;
                }
            }
        }
    }

    /// The log-density of a group's effects given the fixed effects, up to a constant.
    fn log_density(&self, group: usize, offsets: &[f64], u: &[f64]) -> f64 {
        let width = self.shape.width;
        let mut sum = 0.0;
        for i in 0..width {
            let pull: f64 = (0..width).map(|j| self.precision[i * width + j] * u[j]).sum();
            sum -= 0.5 * u[i] * pull;
        }
        let Some(factor) = self.points.factors.first() else { return sum };
        for &row in &self.rows[group] {
            let margin = offsets[row] + factor.row(row).iter().zip(u).map(|(r, u)| r * u).sum::<f64>();
            sum -= self.weights[row] * softplus_and_slope(margin).0;
        }
        sum
    }
}
