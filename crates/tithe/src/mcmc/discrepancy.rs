//! How far the posterior that draws come from is from another one, by the log-ratios of the two densities at the draws.
//!
//! Weighted draws `θ_s` represent a posterior `p̃`, and `e_s = ln p(θ_s) − ln p̃(θ_s)` is known up to a constant. To second
//! order in `e`, `KL(p̃‖p) = ½ Var(e)`. Weights in proportion to `exp(e_s)`, Pareto-smoothed, turn the draws into draws of
//! `p`; the difference between weighted and plain moments is the error of `p̃`.

use serde::{Deserialize, Serialize};

use crate::base::math::exp;
use crate::mcmc::psis::Psis;

/// How far one posterior is from another, measured at draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Discrepancy {
    /// Number of draws.
    pub draws: usize,
    /// `½ Var(e)`, in nats: to second order the KL divergence.
    pub kl: f64,
    /// The standard error of `kl`: because there are so many draws and, where `e` is an estimate, because of that.
    pub kl_error: f64,
    /// Pareto's `k̂` of the weights: below 0.7 the weights, and with them the errors below, are reliable. `None` if no tail can
    /// be fitted, because the weights are even or a few of them outnumber all others.
    pub k_hat: Option<f64>,
    /// Effective draws of the other posterior per draw.
    pub efficiency: f64,
    /// The error of each mean, in standard deviations of the other posterior.
    pub mean_errors: Vec<f64>,
    /// Each standard deviation, as a ratio to the other posterior's.
    pub sd_ratios: Vec<f64>,
}

/// Below this `k̂` importance weights are reliable (Vehtari et al. 2024).
pub(crate) const RELIABLE: f64 = 0.7;
/// Weights with this efficiency are even enough without a `k̂`. A few weights that outnumber all others have none either.
const EVEN: f64 = 0.5;
/// Beyond this KL, in nats, more draws do not make importance weights reliable.
pub(crate) const HOPELESS: f64 = 2.0;

impl Discrepancy {
    /// The discrepancy at draws with these log-weights (of any sum) and log-ratios; also the smoothed weights that turn the draws
    /// into draws of the other posterior. `None` without draws, or if a log-ratio is not finite.
    pub fn of(theta: &[Vec<f64>], log_weights: &[f64], log_ratios: &[f64]) -> Option<(Discrepancy, Psis)> {
        let finite = |values: &[f64]| values.len() == theta.len() && values.iter().all(|x| x.is_finite());
        if theta.is_empty() || !finite(log_ratios) || !finite(log_weights) {
            return None;
        }
        let both: Vec<f64> = log_weights.iter().zip(log_ratios).map(|(v, e)| v + e).collect();
        let psis = Psis::of(&both)?;
        let before = normalised(log_weights);
        let after: Vec<f64> = psis.log_weights.iter().map(|x| exp(*x)).collect();
        let (kl, kl_error) = half_variance(&before, log_ratios);
        let dim = theta.first().map_or(0, Vec::len);
        let moments = |weights: &[f64], i: usize| {
            let (mean, variance) = weighted_moments(weights, theta.iter().map(|theta| theta[i]));
            (mean, variance.sqrt())
        };
        let (mut mean_errors, mut sd_ratios) = (Vec::with_capacity(dim), Vec::with_capacity(dim));
        for i in 0..dim {
            let ((own, own_sd), (other, other_sd)) = (moments(&before, i), moments(&after, i));
            mean_errors.push(if other_sd > 0.0 { (own - other) / other_sd } else { 0.0 });
            sd_ratios.push(if other_sd > 0.0 { own_sd / other_sd } else { 1.0 });
        }
        let efficiency = psis.effective_draws() / theta.len() as f64;
        let k_hat = psis.k_hat.is_finite().then_some(psis.k_hat);
        let discrepancy =
            Discrepancy { draws: theta.len(), kl, kl_error, k_hat, efficiency, mean_errors, sd_ratios };
        Some((discrepancy, psis))
    }

    /// The largest error of a mean, in standard deviations.
    pub fn largest_mean_error(&self) -> f64 {
        self.mean_errors.iter().fold(0.0, |largest, error| error.abs().max(largest))
    }

    /// The smallest and largest ratio of standard deviations.
    pub fn sd_ratio_range(&self) -> (f64, f64) {
        self.sd_ratios
            .iter()
            .fold((f64::INFINITY, 0.0), |(low, high), &ratio| (ratio.min(low), ratio.max(high)))
    }

    /// Whether the importance weights are reliable: by `k̂`, or without one by whether they are even.
    pub fn is_reliable(&self) -> bool {
        self.k_hat.map_or(self.efficiency > EVEN, |k| k < RELIABLE)
    }

    /// Whether the importance weights are not reliable, but may be with more draws.
    pub(crate) fn may_become_reliable(&self) -> bool {
        !self.is_reliable() && self.kl < HOPELESS
    }
}

/// Weights with these logarithms that sum to 1.
pub(crate) fn normalised(log_weights: &[f64]) -> Vec<f64> {
    let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = log_weights.iter().map(|x| exp(x - largest)).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|w| w / total).collect()
}

/// Mean and variance of weighted values; the weights sum to 1.
pub(crate) fn weighted_moments(weights: &[f64], values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let mean: f64 = weights.iter().zip(values.clone()).map(|(w, x)| w * x).sum();
    let squares: f64 = weights.iter().zip(values).map(|(w, x)| w * (x - mean).powi(2)).sum();
    let effective = 1.0 / weights.iter().map(|w| w * w).sum::<f64>();
    (mean, squares * effective / (effective - 1.0).max(1.0))
}

/// `½ Var(e)` and its standard error.
fn half_variance(weights: &[f64], e: &[f64]) -> (f64, f64) {
    let (mean, variance) = weighted_moments(weights, e.iter().copied());
    let fourth: f64 = weights.iter().zip(e).map(|(w, x)| w * (x - mean).powi(4)).sum();
    let effective = 1.0 / weights.iter().map(|w| w * w).sum::<f64>();
    (0.5 * variance, 0.5 * ((fourth - variance * variance).max(0.0) / effective).sqrt())
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, StandardNormal};

    use super::*;
    use crate::base::rng::{Purpose, Seed};

    /// Standard normal draws against a normal with another mean and standard deviation: the KL is known.
    #[test]
    fn the_discrepancy_of_two_normals_is_what_the_formulas_say() {
        let mut rng = Seed(3).stream(Purpose::Chain, 0);
        let theta: Vec<Vec<f64>> = (0..4000)
            .map(|_| vec![StandardNormal.sample(&mut rng), StandardNormal.sample(&mut rng)])
            .collect();
        let (mean, sd) = (0.2, 1.05);
        let e: Vec<f64> =
            theta.iter().map(|x: &Vec<f64>| 0.5 * x[0] * x[0] - 0.5 * ((x[0] - mean) / sd).powi(2)).collect();
        let (found, _) = Discrepancy::of(&theta, &vec![0.0; 4000], &e).expect("finite");
        let kl = f64::ln(sd) + (1.0 + mean * mean) / (2.0 * sd * sd) - 0.5;
        // Both figures are within four standard errors, except once in 16,000 cases.
        assert!((found.kl - kl).abs() < 4.0 * found.kl_error + 0.1 * kl, "{} against {kl}", found.kl);
        assert!((found.mean_errors[0] + mean / sd).abs() < 0.02, "{:?}", found.mean_errors);
        assert!((found.sd_ratios[0] - 1.0 / sd).abs() < 0.02, "{:?}", found.sd_ratios);
        assert!(found.mean_errors[1].abs() < 0.02 && (found.sd_ratios[1] - 1.0).abs() < 0.02);
        assert!(found.is_reliable() && found.efficiency > 0.9);
    }

    #[test]
    fn equal_densities_have_no_discrepancy() {
        let theta: Vec<Vec<f64>> = (0..50).map(|s| vec![f64::from(s)]).collect();
        let (found, _) = Discrepancy::of(&theta, &[0.0; 50], &[7.0; 50]).expect("finite");
        assert!(found.kl < 1e-20 && found.kl_error < 1e-20 && found.k_hat.is_none(), "{found:?}");
        assert!(found.largest_mean_error() < 1e-12 && found.is_reliable());
    }

    #[test]
    fn a_few_weights_that_outnumber_all_others_are_not_reliable() {
        let theta: Vec<Vec<f64>> = (0..50).map(|s| vec![f64::from(s)]).collect();
        let ratios: Vec<f64> = (0..50).map(|s| -1000.0 * f64::from(s)).collect();
        let (found, _) = Discrepancy::of(&theta, &[0.0; 50], &ratios).expect("finite");
        assert!(found.k_hat.is_none() && !found.is_reliable() && !found.may_become_reliable(), "{found:?}");
    }

    #[test]
    fn ratios_that_are_not_finite_have_no_discrepancy() {
        let theta = vec![vec![0.0]; 2];
        assert!(Discrepancy::of(&theta, &[0.0; 2], &[0.0, f64::NAN]).is_none());
        assert!(Discrepancy::of(&theta, &[0.0; 2], &[0.0, f64::NEG_INFINITY]).is_none());
        assert!(Discrepancy::of(&[], &[], &[]).is_none());
    }
}
