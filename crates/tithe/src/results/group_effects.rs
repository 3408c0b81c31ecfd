//! Group effects in predictions: those of known groups by their draws, those of new groups drawn from the population.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::math::softplus_and_slope;
use crate::base::rng::{Purpose, Seed, standard_normal};
use crate::data::block::Block;
use crate::data::points::{Lane, TILE};
use crate::encoding::full_data::Identity;
use crate::encoding::group_rows::GroupRows;
use crate::encoding::{Encoding, Scratch};
use crate::engine::Engine;
use crate::engine::pass::Pass;
use crate::model::likelihood::margins;
use crate::results::fit::Fit;
use crate::results::groups::{FittedFactor, GroupPosterior};

/// The group effects of every draw.
pub(super) struct GroupEffects<'a> {
    /// The effects of each draw.
    rows: Vec<&'a [f64]>,
    /// The effects of a new group in each draw: one draw from `N(0, Σ)` per factor.
    new: Vec<Vec<f64>>,
}

impl<'a> GroupEffects<'a> {
    pub fn new(groups: &'a GroupPosterior, seed: Seed) -> GroupEffects<'a> {
        let scales: Vec<&[f64]> = groups.scales.rows().collect();
        let new = scales
            .iter()
            .enumerate()
            .map(|(s, scales)| {
                let mut rng = seed.stream(Purpose::NewGroups, s as u64);
                let mut scales = *scales;
                let mut effects = Vec::new();
                for factor in &groups.factors {
                    let (own, rest) = scales.split_at(factor.scale_names().len());
                    let noise: Vec<f64> = (0..factor.width()).map(|_| standard_normal(&mut rng)).collect();
                    effects.extend(population_effects(factor, own, &noise));
                    scales = rest;
                }
                effects
            })
            .collect();
        GroupEffects { rows: groups.effect_rows().collect(), new }
    }

    /// Adds the group effects of draw `s` to the margins of a tile's rows without labels.
    pub fn add(&self, s: usize, inputs: &TileGroups, margin: &mut Lane) {
        inputs.add(self.rows[s], &self.new[s], &Lane::of(1.0), margin);
    }
}

/// The groups of a tile's rows in each factor, and the values that their effects multiply.
pub(super) struct TileGroups {
    factors: Vec<TileFactor>,
}

struct TileFactor {
    /// The number of groups, and of effects per group.
    groups: usize,
    width: usize,
    codes: Vec<Option<u32>>,
    values: Vec<f64>,
}

impl TileGroups {
    /// Those of tile `t`, from its rows `x` on the model's scale.
    pub fn new(rows: &[GroupRows], t: usize, len: usize, x: &[Lane]) -> TileGroups {
        let mut one = Vec::new();
        let factor = |rows: &GroupRows| {
            let mut values = Vec::with_capacity(len * rows.width());
            for r in 0..len {
                rows.values(x, r, &mut one);
                values.extend_from_slice(&one);
            }
            let codes = rows.codes[t * TILE..t * TILE + len].to_vec();
            TileFactor { groups: rows.groups, width: rows.width(), codes, values }
        };
        TileGroups { factors: rows.iter().map(factor).collect() }
    }

    /// Adds `y` times the effects of the rows' groups to margins: `effects` has those of all groups of each factor, `new` those of a
    /// group that the encoding does not have.
    fn add(&self, effects: &[f64], new: &[f64], y: &Lane, margin: &mut Lane) {
        let (mut first, mut first_new) = (0, 0);
        for TileFactor { groups, width, codes, values } in &self.factors {
            let rows = margin.iter_mut().zip(y.iter()).zip(codes).zip(values.chunks_exact(*width));
            for (((margin, y), code), values) in rows {
                let own = match code {
                    Some(group) => &effects[first + *group as usize * width..],
                    None => &new[first_new..],
                };
                let sum: f64 = values.iter().zip(own).map(|(value, effect)| value * effect).sum();
                *margin = y.mul_add(sum, *margin);
            }
            first += groups * width;
            first_new += width;
        }
    }
}

/// The log-likelihood of all rows at some draws, given their fixed effects on the model's scale and their group effects on the user's
/// scale, and the identity of the rows: one pass.
pub(super) fn log_likelihoods_with_groups(
    engine: &impl Engine,
    fit: &Fit,
    theta: &[Vec<f64>],
    effects: Vec<Vec<f64>>,
) -> Result<(Vec<f64>, Identity)> {
    let pass = EvaluatingGroupDraws { encoding: Cow::Borrowed(&fit.encoding), theta: theta.into(), effects };
    Ok(engine.run(&pass)?.unwrap_or_else(|| (vec![0.0; theta.len()], Identity::default())))
}

/// The pass that computes the log-likelihood at many draws of a model with group effects.
#[derive(Serialize, Deserialize)]
pub(crate) struct EvaluatingGroupDraws<'a> {
    encoding: Cow<'a, Encoding>,
    /// The fixed effects of each draw.
    theta: Cow<'a, [Vec<f64>]>,
    /// The group effects of each draw, factor by factor, on the user's scale.
    effects: Vec<Vec<f64>>,
}

impl Pass for EvaluatingGroupDraws<'_> {
    const ID: &'static str = "evaluate-draws-of-groups";
    const LABEL: &'static str = "evaluating the draws";
    type State = (Vec<f64>, Identity);
    type Worker = Scratch;

    fn worker(&self) -> Scratch {
        Scratch::new(self.encoding.dim())
    }

    fn visit(&self, scratch: &mut Scratch, block: &Block) -> Result<Self::State> {
        self.encoding.check_labels(block)?;
        let encoder = self.encoding.encoder(block)?;
        let groups = self.encoding.group_rows(block)?;
        self.encoding.check_known(&groups, block)?;
        let mut sums = vec![0.0; self.theta.len()];
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, scratch);
            let (w, len) = (*tile.w, tile.len);
            let mut margin = vec![Lane::ZERO; self.theta.len()];
            for (theta, margin) in self.theta.iter().zip(&mut margin) {
                margins(&tile, theta, margin);
            }
            let (y, z) = scratch.signs_and_points();
            // A sign is its own reciprocal, so `x = y z`.
            let mut x = z.to_vec();
            x.iter_mut().for_each(|x| x.iter_mut().zip(y.iter()).for_each(|(x, y)| *x *= y));
            let inputs = TileGroups::new(&groups, t, len, &x);
            for ((sum, margin), effects) in sums.iter_mut().zip(&mut margin).zip(&self.effects) {
                inputs.add(effects, &[], y, margin);
                *sum -= (0..len).map(|r| w[r] * softplus_and_slope(margin[r]).0).sum::<f64>();
            }
        }
        Ok((sums, Identity::of(block)))
    }

    fn merge(&self, (values, identity): &mut Self::State, (more, next): Self::State) {
        identity.merge(next);
        values.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
}

/// `C ε` with `C Cᵀ = Σ`, from the standard deviations and correlations of a factor.
fn population_effects(factor: &FittedFactor, scales: &[f64], noise: &[f64]) -> Vec<f64> {
    let q = factor.width();
    let (sd, correlations) = scales.split_at(q);
    let mut correlations = correlations.iter();
    let mut c = vec![0.0; q * q];
    for i in 0..q {
        let mut rest: f64 = 1.0;
        for j in 0..i {
            let known: f64 = (0..j).map(|k| c[i * q + k] * c[j * q + k]).sum();
            let correlation = correlations.next().copied().unwrap_or(0.0);
            let diagonal: f64 = c[j * q + j];
            // Rounding can make a correlation of nearly 1 exceed what is left.
            let entry = if diagonal > 0.0 { (correlation - known) / diagonal } else { 0.0 };
            let entry = entry.clamp(-rest.sqrt(), rest.sqrt());
            c[i * q + j] = entry;
            rest = (rest - entry * entry).max(0.0);
        }
        c[i * q + i] = rest.sqrt();
    }
    (0..q).map(|i| sd[i] * (0..=i).map(|k| c[i * q + k] * noise[k]).sum::<f64>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GroupPrior;
    use crate::model::covariance::CovariancePrior;

    /// The covariances of 20,000 draws have relative standard errors of about 1 %; 0.06 is four of the largest.
    #[test]
    fn new_groups_have_the_covariance_of_the_population() {
        let factor = FittedFactor {
            name: "g".into(),
            effects: ["1", "x", "w"].map(String::from).to_vec(),
            levels: vec!["a".into(), "b".into()],
            prior: CovariancePrior::new(GroupPrior::default(), 3, true),
            to_user: vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        };
        let scales = [1.0, 0.5, 2.0, 0.3, -0.6, 0.2];
        let mut rng = Seed(4).stream(Purpose::NewGroups, 0);
        let mut sums = [0.0; 9];
        let count = 20_000;
        for _ in 0..count {
            let noise: Vec<f64> = (0..3).map(|_| standard_normal(&mut rng)).collect();
            let u = population_effects(&factor, &scales, &noise);
            (0..9).for_each(|k| sums[k] += u[k / 3] * u[k % 3] / f64::from(count));
        }
        let expected = [1.0, 0.15, -1.2, 0.15, 0.25, 0.2, -1.2, 0.2, 4.0];
        for (sum, expected) in sums.iter().zip(expected) {
            assert!((sum - expected).abs() < 0.06 * (1.0f64 + expected.abs()), "{sums:?}");
        }
    }
}
