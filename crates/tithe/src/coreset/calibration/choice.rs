//! The choice of rows and weights from the pool, with a certificate of what it reached.

use faer::Mat;

use crate::base::error::Result;
use crate::coreset::CalibrationFacts;
use crate::coreset::calibration::certificate::{ByDraws, Certificate, Guard};
use crate::coreset::calibration::pricing::{Calibrated, CalibrationSettings, approximate, calibrate};
use crate::coreset::calibration::reference::Reference;
use crate::coreset::settings::BuildSettings;
use crate::data::points::Points;
use crate::model::likelihood::Curvature;
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
    /// Whether the rows are a part of data whose posterior is the reference's.
    pub is_part: bool,
}

impl Chooser<'_> {
    /// At most `size` rows whose weights, as near to the selection's as possible, match the targets best.
    pub fn choose(&self, targets: &Targets, size: usize) -> Result<Choice> {
        let (pool, seed) = (self.pool, self.settings.seed);
        let found =
            calibrate(pool, &targets.features, &targets.sum, size, seed, &CalibrationSettings::default());
        let after = self.certificate(&found.rows, &found.weights, Some(found.predicted));

        // The guard: calibrated weights are kept only if they are better than the selection's own.
        let mut selected = pool.first(size);
        if selected.is_empty() {
            // Two races cannot select a single row: the one that matters most near the mode.
            let by_norm =
                |a: &usize, b: &usize| pool.candidates[*a].norm.total_cmp(&pool.candidates[*b].norm);
            selected.extend((0..pool.len()).max_by(by_norm));
        }
        let all = pool.reference_weights(size);
        let weights: Vec<f64> = selected.iter().map(|&p| all[p]).collect();
        let before = self.certificate(&selected, &weights, None);
        // No rows at all would leave the posterior to the prior.
        let calibrated_is_better = match (&after, &before) {
            _ if found.rows.is_empty() => false,
            (Ok(after), Ok(before)) => Guard::decide(after, before) == Guard::Calibrated,
            (after, _) => after.is_ok(),
        };
        match calibrated_is_better {
            true => Ok(self.choice(&found, size, after?, Guard::Calibrated)),
            false => {
                let found = Calibrated { rows: selected, weights, ..found };
                Ok(self.choice(&found, size, before?, Guard::Reference))
            }
        }
    }

    /// The comparison of the normal approximations for rows of the pool with these weights.
    pub fn certificate(
        &self,
        rows: &[usize],
        weights: &[f64],
        predicted: Option<f64>,
    ) -> Result<Certificate> {
        let (points, reference) = (pool_points(self.pool, rows, weights), self.reference);
        if self.is_part {
            let theta = reference.map.theta();
            let change = Curvature::of_points(&points, theta).minus(&reference.likelihood);
            let change = change.times(reference.error_scale);
            return Certificate::of_change(&change, &reference.posterior, points.len(), predicted);
        }
        Certificate::new(&points, &reference.posterior, &reference.prior_precision, predicted)
    }

    /// Rows and weights with their certificate.
    pub fn choice(&self, found: &Calibrated, size: usize, certificate: Certificate, guard: Guard) -> Choice {
        let facts = CalibrationFacts {
            certificate,
            guard,
            priors: self.settings.priors.clone(),
            part_of: None,
            pool: self.pool.len(),
            rounds: found.rounds,
        };
        Choice::new(self.pool, &found.rows, &found.weights, size, Some(facts))
    }
}

fn pool_points(pool: &Pool, rows: &[usize], weights: &[f64]) -> Points {
    let dim = pool.candidates.first().map_or(0, |candidate| candidate.z.len());
    let rows = rows.iter().zip(weights).map(|(&p, &weight)| (pool.candidates[p].z.as_slice(), weight));
    Points::from_rows(dim, rows)
}
