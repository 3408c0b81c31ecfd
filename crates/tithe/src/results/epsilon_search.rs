//! Searches for the paper's ε: the largest relative error of the log-likelihood over the ball, `|L − L̃|/|L|`.
//!
//! The result is a lower bound of the true supremum. Each round is one pass that evaluates many parameters.

use crate::base::error::{Error, Result, Setting};
use crate::base::rng::{Purpose, Rng, Seed, open_unit, standard_normal};
use crate::coreset::Coreset;
use crate::engine::Engine;
use crate::mode::values::log_likelihoods;
use crate::model::likelihood::ValueSums;

/// Number of parameters per pass.
const PARAMETERS_PER_PASS: usize = 256;
/// Number of passes: the first searches the whole ball, the others search around the best parameters so far.
const ROUNDS: usize = 5;
/// Number of best parameters that later passes search around.
const STARTS_KEPT: usize = 16;

/// The worst parameter found.
#[derive(Clone, Debug)]
pub struct Worst {
    /// `|L − L̃|/|L|` there: a lower bound of ε.
    pub relative_error: f64,
    /// The parameter, on the model's scale.
    pub theta: Vec<f64>,
    /// The ball's radius.
    pub radius: f64,
    /// Number of parameters that were evaluated.
    pub tried: usize,
}

/// Searches the ball of a coreset's guarantee for the largest relative error on the rows of an engine.
///
/// # Errors
/// If the coreset has no ball, as uniform coresets do not.
pub fn largest_relative_error(engine: &impl Engine, coreset: &Coreset, seed: Seed) -> Result<Worst> {
    let facts = coreset.provenance.sensitivity.as_ref().ok_or_else(|| {
        Error::setting(Setting::EpsilonCheck, "needs a ball, and this coreset was built without one")
    })?;
    let dim = coreset.encoding.dim();
    let center = facts.theta_star.clone().unwrap_or_else(|| vec![0.0; dim]);
    let points = coreset.points()?;
    let mut rng = seed.stream(Purpose::Search, 0);
    // Offsets from the centre: everywhere in the ball first, half of them on its edge.
    let mut offsets: Vec<Vec<f64>> = (0..PARAMETERS_PER_PASS)
        .map(|i| {
            let share = if i % 2 == 0 { 1.0 } else { open_unit(&mut rng) };
            direction(dim, facts.radius * share, &mut rng)
        })
        .collect();
    let mut best: Vec<(f64, Vec<f64>)> = Vec::new();
    for round in 0..ROUNDS {
        let theta: Vec<Vec<f64>> = offsets
            .iter()
            .map(|offset| offset.iter().zip(&center).map(|(offset, center)| offset + center).collect())
            .collect();
        let (full, _) = log_likelihoods(engine, &coreset.encoding, &theta)?;
        let mut sums = ValueSums::new(theta.len());
        points.tiles().for_each(|tile| sums.add_tile(&tile, &theta));
        let errors = full.iter().zip(sums.finish()).map(|(full, own)| ((full - own) / full).abs());
        best.extend(errors.zip(offsets).filter(|(error, _)| error.is_finite()));
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(STARTS_KEPT);
        let reach = facts.radius * 0.5f64.powi(round as i32 + 1);
        offsets = (0..PARAMETERS_PER_PASS)
            .filter_map(|i| best.get(i % best.len().max(1)))
            .map(|(_, offset)| {
                let step = direction(dim, reach, &mut rng);
                let moved: Vec<f64> = offset.iter().zip(step).map(|(offset, step)| offset + step).collect();
                let norm = moved.iter().map(|x| x * x).sum::<f64>().sqrt();
                let shrink = if norm > facts.radius { facts.radius / norm } else { 1.0 };
                moved.iter().map(|x| x * shrink).collect()
            })
            .collect();
    }
    let (relative_error, offset) = best.into_iter().next().unwrap_or_else(|| (0.0, vec![0.0; dim]));
    let theta = offset.iter().zip(&center).map(|(offset, center)| offset + center).collect();
    Ok(Worst { relative_error, theta, radius: facts.radius, tried: PARAMETERS_PER_PASS * ROUNDS })
}

/// A vector of the given length in a random direction.
fn direction(dim: usize, length: f64, rng: &mut Rng) -> Vec<f64> {
    let step: Vec<f64> = (0..dim).map(|_| standard_normal(rng)).collect();
    let norm = step.iter().map(|x: &f64| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    step.iter().map(|x| x * length / norm).collect()
}
