//! The choice of rows and weights from the pool, with a certificate of what it reached.

use std::ops::Range;

use crate::base::error::Result;
use crate::base::rng::Seed;
use crate::coreset::CalibrationFacts;
use crate::coreset::calibration::certificate::{Certificate, Guard};
use crate::coreset::calibration::pricing::{CalibrationSettings, approximate, calibrate, pool_capacity};
use crate::coreset::calibration::reference::Reference;
use crate::coreset::calibration::task::Matching;
use crate::data::points::Points;
use crate::reservoir::pool::Pool;

impl Matching {
    /// How many candidates each ranking of the pool keeps for a coreset of `size` rows.
    pub fn candidates(self, size: usize, dim: usize) -> usize {
        match self {
            Matching::Certified => pool_capacity(size, dim),
            Matching::Approximate => size,
        }
    }

    /// Rows of the pool and their weights.
    pub fn choose(self, pool: &Pool, reference: &Reference, size: usize, seed: Seed) -> Result<Choice> {
        match self {
            Matching::Certified => choose_certified(pool, reference, size, seed),
            Matching::Approximate => {
                let chosen = approximate(pool, &reference.map, &reference.target, size);
                Ok(Choice::new(pool, &chosen.rows, &chosen.weights, size, None))
            }
        }
    }
}

/// Rows chosen from a pool.
pub(crate) struct Choice {
    /// The size asked for.
    pub size: usize,
    /// Positions of the rows in the data, ascending.
    pub positions: Vec<u64>,
    /// The rows as points, with their weights.
    pub points: Points,
    /// What calibration reached; a step without a certificate has none.
    pub facts: Option<CalibrationFacts>,
}

impl Choice {
    fn new(
        pool: &Pool,
        rows: &[usize],
        weights: &[f64],
        size: usize,
        facts: Option<CalibrationFacts>,
    ) -> Choice {
        let positions = rows.iter().map(|&p| pool.candidates[p].position).collect();
        Choice { size, positions, points: pool_points(pool, rows, weights), facts }
    }

    /// True if the certificate shows at most this KL; what has no certificate is not asked.
    pub fn meets(&self, target_kl: f64) -> bool {
        self.facts.as_ref().is_none_or(|facts| facts.certificate.meets(target_kl))
    }
}

/// The rows whose weights, as near to the selection's as possible, match the reference best.
fn choose_certified(pool: &Pool, reference: &Reference, size: usize, seed: Seed) -> Result<Choice> {
    let settings = CalibrationSettings::default();
    let calibrated = calibrate(pool, &reference.map, &reference.target, size, seed, &settings);
    let certify = |rows: &[usize], weights: &[f64], predicted: Option<f64>| {
        let points = pool_points(pool, rows, weights);
        Certificate::new(&points, &reference.posterior, &reference.prior_precision, predicted)
    };
    let after = certify(&calibrated.rows, &calibrated.weights, Some(calibrated.predicted));

    // The guard: calibrated weights are kept only if they are better than the selection's own.
    let selected = pool.first(size);
    let selection_weights: Vec<f64> = {
        let weights = pool.reference_weights(size);
        selected.iter().map(|&p| weights[p]).collect()
    };
    let before = certify(&selected, &selection_weights, None);
    let (rows, weights, certificate, guard) = match (after, before) {
        (Ok(after), Ok(before)) if Guard::decide(&after, &before) == Guard::Reference => {
            (selected, selection_weights, before, Guard::Reference)
        }
        (Ok(after), _) => (calibrated.rows, calibrated.weights, after, Guard::Calibrated),
        (Err(_), before) => (selected, selection_weights, before?, Guard::Reference),
    };
    let facts = CalibrationFacts {
        certificate,
        guard,
        prior_scale: reference.prior_scale,
        pool: pool.len(),
        rounds: calibrated.rounds,
    };
    Ok(Choice::new(pool, &rows, &weights, size, Some(facts)))
}

/// The choice with the fewest rows that meets a target KL, to within a quarter; `None` if every size in the range misses it.
pub(crate) fn fewest_rows(
    pool: &Pool,
    reference: &Reference,
    sizes: Range<usize>,
    seed: Seed,
    target_kl: f64,
) -> Result<Option<Choice>> {
    // There must be at least as many rows as coefficients.
    let (mut missed, mut enough) = (sizes.start.max(reference.prior_precision.len()), sizes.end);
    let mut best = None;
    while enough > missed + 1 && 4 * enough > 5 * missed {
        let size = ((missed as f64 * enough as f64).sqrt() as usize).clamp(missed + 1, enough - 1);
        match choose_certified(pool, reference, size, seed) {
            Ok(choice) if choice.meets(target_kl) => (enough, best) = (size, Some(choice)),
            Err(error) if !error.is_numerical() => return Err(error),
            _ => missed = size,
        }
    }
    Ok(best)
}

fn pool_points(pool: &Pool, rows: &[usize], weights: &[f64]) -> Points {
    let dim = pool.candidates.first().map_or(0, |candidate| candidate.z.len());
    let rows = rows.iter().zip(weights).map(|(&p, &weight)| (pool.candidates[p].z.as_slice(), weight));
    Points::from_rows(dim, rows)
}
