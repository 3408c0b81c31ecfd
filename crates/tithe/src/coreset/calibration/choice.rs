//! The choice of rows and weights from the pool, with a certificate of what it reached.

use std::ops::Range;

use faer::Mat;

use crate::base::error::Result;
use crate::coreset::CalibrationFacts;
use crate::coreset::calibration::certificate::{ByDraws, Certificate, Guard};
use crate::coreset::calibration::check::Checked;
use crate::coreset::calibration::pricing::{CalibrationSettings, approximate, calibrate};
use crate::coreset::calibration::reference::Reference;
use crate::coreset::settings::BuildSettings;
use crate::data::points::Points;
use crate::model::local_features::{LocalFeatures, LocalSum};
use crate::reservoir::pool::Pool;

/// What the weights of rows from a pool have to match.
#[derive(Clone)]
pub(crate) struct Targets {
    /// The rows of the pool.
    pub points: Points,
    /// Their features.
    pub features: LocalFeatures,
    /// The sum of features that the weighted rows should have.
    pub sum: LocalSum,
}

impl Targets {
    /// Gradient and Hessian at the reference parameter.
    pub fn second_order(pool: &Pool, reference: &Reference) -> Targets {
        let points = pool.points();
        Targets { features: reference.map.features(&points), points, sum: reference.target.clone() }
    }

    /// The same with further features of every row, and their sums.
    pub fn with_panel(self, features: Mat<f64>, sum: Vec<f64>) -> Targets {
        Targets {
            features: self.features.with_panel(features),
            sum: self.sum.with_panel(sum),
            points: self.points,
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

    /// The KL of the certificate; infinite without one, or if the rows miss a direction.
    pub fn kl(&self) -> f64 {
        let complete = self.facts.as_ref().filter(|facts| facts.certificate.normal.deficiencies.is_empty());
        complete.map_or(f64::INFINITY, |facts| facts.certificate.kl())
    }

    /// Adds a comparison at draws to the certificate.
    pub fn certify(&mut self, by_draws: ByDraws) {
        let rows = self.points.len();
        if let Some(facts) = &mut self.facts {
            facts.certificate = facts.certificate.clone().with_draws(by_draws, rows);
        }
    }
}

/// The first rows of the pool, with weights that come near to the targets: for one of many steps, each of which compensates
/// the residual of those before it.
pub(crate) fn choose_approximately(pool: &Pool, targets: &Targets, size: usize) -> Choice {
    let chosen = approximate(pool, &targets.features, &targets.sum, size);
    Choice::new(pool, &chosen.rows, &chosen.weights, size, None)
}

/// Chooses rows from a pool.
pub(crate) struct Chooser<'a> {
    pub pool: &'a Pool,
    pub reference: &'a Reference,
    pub settings: &'a BuildSettings,
}

impl Chooser<'_> {
    /// At most `size` rows whose weights, as near to the selection's as possible, match the targets best.
    pub fn choose(&self, targets: &Targets, size: usize) -> Result<Choice> {
        let Chooser { pool, reference, .. } = *self;
        let settings = CalibrationSettings::default();
        let calibrated =
            calibrate(pool, &targets.features, &targets.sum, size, self.settings.seed, &settings);
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
            priors: self.settings.priors.clone(),
            pool: pool.len(),
            rounds: calibrated.rounds,
        };
        Ok(Choice::new(pool, &rows, &weights, size, Some(facts)))
    }

    /// The choice with the fewest rows that meets a target KL, to within a twentieth; `enough`, which meets it, if every other
    /// size in the range misses it.
    pub fn fewest_rows(&self, enough: Checked, sizes: Range<usize>, target_kl: f64) -> Result<Checked> {
        // There must be at least as many rows as coefficients.
        let (mut missed, mut size) = (sizes.start.max(self.reference.prior_precision.len()), sizes.end);
        let mut best = None;
        while size > missed + 1 && 20 * size > 21 * missed {
            let fewer = ((missed as f64 * size as f64).sqrt() as usize).clamp(missed + 1, size - 1);
            match self.choose(&enough.targets, fewer) {
                Ok(choice) if enough.kl_of(&choice)? <= target_kl => (size, best) = (fewer, Some(choice)),
                Err(error) if !error.is_numerical() => return Err(error),
                _ => missed = fewer,
            }
        }
        match best {
            Some(choice) => enough.with_choice(choice),
            None => Ok(enough),
        }
    }
}

fn pool_points(pool: &Pool, rows: &[usize], weights: &[f64]) -> Points {
    let dim = pool.candidates.first().map_or(0, |candidate| candidate.z.len());
    let rows = rows.iter().zip(weights).map(|(&p, &weight)| (pool.candidates[p].z.as_slice(), weight));
    Points::from_rows(dim, rows)
}
