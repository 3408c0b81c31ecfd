//! Scales and group effects of a hierarchical model, on the user's scale.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::mcmc::diagnostics::{self, CoefficientSummary};
use crate::mcmc::draws::Draws;
use crate::model::covariance::{Covariance, CovariancePrior};

/// All draws are kept if their group effects are at most so many numbers; beyond that, evenly spaced ones.
const MOST_NUMBERS: usize = 50_000_000;

/// A grouping factor of a fitted model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FittedFactor {
    /// The name of the column whose values are the groups.
    pub name: String,
    /// The names of the q effects of each group: `1` for the intercept, or a column.
    pub effects: Vec<String>,
    /// The names of the groups.
    pub levels: Vec<String>,
    /// The prior of the covariance of the effects, on the model's scale.
    pub prior: CovariancePrior,
    /// The matrix `T` of the change to the user's scale, q × q numbers row by row: effects become `T u`, and their covariance `T Σ Tᵀ`.
    pub to_user: Vec<f64>,
}

impl FittedFactor {
    /// The number q of effects per group.
    pub fn width(&self) -> usize {
        self.effects.len()
    }

    /// The number of effects of all groups.
    pub fn total(&self) -> usize {
        self.width() * self.levels.len()
    }

    /// True if the effects of a group are correlated on the user's scale.
    pub fn is_correlated(&self) -> bool {
        let q = self.width();
        let mixes = (0..q * q).any(|k| k / q != k % q && self.to_user[k] != 0.0);
        q > 1 && (self.prior.correlation.is_some() || mixes)
    }

    /// `sd(1|g)`, `sd(x|g)`, and `cor(1,x|g)` if the effects are correlated.
    pub fn scale_names(&self) -> Vec<String> {
        let (name, q) = (&self.name, self.width());
        let sds = self.effects.iter().map(|effect| format!("sd({effect}|{name})"));
        let pairs = (0..q).flat_map(|i| (0..i).map(move |j| (i, j)));
        let correlations = pairs.map(|(i, j)| format!("cor({},{}|{name})", self.effects[j], self.effects[i]));
        let correlations = correlations.filter(|_| self.is_correlated());
        sds.chain(correlations).collect()
    }

    /// `1|g[level]`, group by group.
    pub fn effect_names(&self) -> impl Iterator<Item = String> {
        self.levels.iter().flat_map(move |level| {
            self.effects.iter().map(move |effect| format!("{effect}|{}[{level}]", self.name))
        })
    }

    /// The scales and correlations on the user's scale, in the order of their names.
    pub(super) fn scales(&self, covariance: &Covariance, into: &mut Vec<f64>) {
        let (q, t) = (self.width(), &self.to_user);
        let entry = |i: usize, j: usize| -> f64 {
            let pairs = (0..q).flat_map(|k| (0..q).map(move |l| (k, l)));
            pairs.map(|(k, l)| t[i * q + k] * covariance.sigma[k * q + l] * t[j * q + l]).sum()
        };
        let sd: Vec<f64> = (0..q).map(|i| entry(i, i).sqrt()).collect();
        into.extend_from_slice(&sd);
        if self.is_correlated() {
            for i in 0..q {
                into.extend((0..i).map(|j| (entry(i, j) / (sd[i] * sd[j])).clamp(-1.0, 1.0)));
            }
        }
    }

    /// `T u` for each group.
    pub(super) fn to_user_scale(&self, effects: &[f64], into: &mut Vec<f64>) {
        let q = self.width();
        for u in effects.chunks_exact(q) {
            for row in self.to_user.chunks_exact(q) {
                into.push(row.iter().zip(u).map(|(t, u)| t * u).sum());
            }
        }
    }

    /// What is wrong with this description, as the rest of a sentence that begins with the file; `None` if nothing is.
    pub(crate) fn fault(&self) -> Option<String> {
        let q = self.width();
        let sound = q > 0
            && self.prior.width() == q
            && self.to_user.len() == q * q
            && self.to_user.iter().all(|t| t.is_finite())
            && !self.levels.is_empty();
        if !sound {
            return Some(format!("describes the groups of '{}' wrongly", self.name));
        }
        self.prior.check().err().map(|error| format!("has a prior that cannot be ({error})"))
    }
}

/// The part of a posterior that a hierarchical model has more: scales, correlations and group effects, on the user's scale.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupPosterior {
    /// The grouping factors.
    pub factors: Vec<FittedFactor>,
    /// The draws of scales and correlations, factor by factor.
    pub scales: Draws,
    /// The log-likelihood of the fitted rows at each draw, one vector per chain.
    pub log_likelihood: Vec<Vec<f64>>,
    /// The group effects of each chain: all effects of one draw after the other, in the order of their names.
    pub effects: Vec<Vec<f64>>,
    /// A summary of each scale and correlation.
    pub scale_summary: Vec<CoefficientSummary>,
    /// A summary of each group effect.
    pub effect_summary: Vec<CoefficientSummary>,
}

impl GroupPosterior {
    /// The number of group effects of all factors.
    pub fn total(&self) -> usize {
        self.factors.iter().map(FittedFactor::total).sum()
    }

    /// The names of all group effects.
    pub fn effect_names(&self) -> impl Iterator<Item = String> {
        self.factors.iter().flat_map(FittedFactor::effect_names)
    }

    /// The draws of group effect `i`, one vector per chain.
    pub fn effect(&self, i: usize) -> Vec<Vec<f64>> {
        effect_draws(&self.effects, self.total(), i)
    }

    /// The group effects of every draw of every chain, in order.
    pub fn effect_rows(&self) -> impl Iterator<Item = &[f64]> {
        let total = self.total().max(1);
        self.effects.iter().flat_map(move |chain| chain.chunks_exact(total))
    }

    /// The names of scales and correlations, then those of the group effects.
    pub fn names(&self) -> Vec<String> {
        group_names(&self.factors)
    }
}

/// The names of scales and correlations of all factors, then those of the group effects.
pub(crate) fn group_names(factors: &[FittedFactor]) -> Vec<String> {
    let scales = factors.iter().flat_map(FittedFactor::scale_names);
    scales.chain(factors.iter().flat_map(FittedFactor::effect_names)).collect()
}

/// One of every so many draws is kept.
pub(crate) fn stride(effects: usize, chains: usize, draws: usize) -> usize {
    let most = (MOST_NUMBERS / effects.max(1) / chains.max(1)).max(1);
    draws.div_ceil(most).max(1)
}

fn effect_draws(effects: &[Vec<f64>], total: usize, i: usize) -> Vec<Vec<f64>> {
    effects.iter().map(|chain| chain[i..].iter().step_by(total).copied().collect()).collect()
}

/// The summaries of all group effects.
pub(crate) fn effect_summaries(factors: &[FittedFactor], effects: &[Vec<f64>]) -> Vec<CoefficientSummary> {
    let names: Vec<String> = factors.iter().flat_map(FittedFactor::effect_names).collect();
    let summary =
        |(i, name): (usize, &String)| diagnostics::summarise(name, &effect_draws(effects, names.len(), i));
    names.par_iter().enumerate().map(summary).collect()
}
