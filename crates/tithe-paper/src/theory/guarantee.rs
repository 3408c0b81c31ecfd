//! Theorem 3.2: with probability 1 − δ the relative error of the log-likelihood is at most ε. The experiment measures how often
//! that holds, and how small the constant c in the coreset size can be.

use serde::{Deserialize, Serialize};
use tithe::base::error::Result;
use tithe::base::rng::Seed;
use tithe::coreset::Method;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::Radius;
use tithe::data::points::Points;
use tithe::model::likelihood::ValueSums;

use super::{disc_grid, points_of, two_feature_data};
use crate::data::{Part, plain_encoding};
use crate::profile::Profile;
use crate::runner::{Cell, Context};

/// The requested relative error ε.
pub const EPSILON: f64 = 0.1;
/// The allowed probability δ of a larger error.
pub const DELTA: f64 = 0.05;
/// The constant c in the authors' code.
pub const AUTHORS: f64 = 4.0;

/// Many coresets with the same constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guarantee {
    /// Rows N.
    pub rows: usize,
    /// The radius R.
    pub radius: f64,
    /// The constant c.
    pub constant: f64,
    /// Number of seeds, starting with 0.
    pub seeds: u64,
}

/// The result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuaranteeOutcome {
    /// The coreset size M that the theorem requires.
    pub size: u64,
    /// The mean bound `m̄`.
    pub mean_bound: f64,
    /// The largest relative error over the ball, for each seed.
    pub errors: Vec<f64>,
}

impl GuaranteeOutcome {
    /// The fraction of seeds whose error exceeds ε.
    pub fn failures(&self) -> f64 {
        self.errors.iter().filter(|error| **error > EPSILON).count() as f64 / self.errors.len() as f64
    }

    /// A quantile of the errors.
    pub fn quantile(&self, p: f64) -> f64 {
        let mut sorted = self.errors.clone();
        sorted.sort_by(f64::total_cmp);
        tithe::mcmc::diagnostics::quantile(&sorted, p)
    }
}

impl Cell for Guarantee {
    type Outcome = GuaranteeOutcome;
    const EXPERIMENT: &'static str = "guarantee";

    fn slug(&self) -> String {
        format!("n{}-radius{}-c{}", self.rows, self.radius, self.constant)
    }

    fn run(&self, _context: &Context<'_>) -> Result<GuaranteeOutcome> {
        let columns = two_feature_data(self.rows, 0.5);
        let theta = disc_grid(self.radius, 8, 48);
        let full = log_likelihoods(&points_of(&columns), &theta);
        let engine = Part::new(columns)?.engine()?;
        let mut outcome = GuaranteeOutcome { size: 0, mean_bound: f64::NAN, errors: Vec::new() };
        for seed in 0..self.seeds {
            let settings = BuildSettings {
                method: Method::Sensitivity,
                size: Size::Guarantee { epsilon: EPSILON, delta: DELTA, constant: self.constant },
                clusters: 4,
                radius: Radius::Fixed(self.radius),
                collapse: false,
                seed: Seed(seed),
                encoding: plain_encoding(),
                ..BuildSettings::default()
            };
            let coreset = build_on(&engine, &settings)?.coreset;
            let own = log_likelihoods(&coreset.points()?, &theta);
            let error =
                full.iter().zip(&own).map(|(full, own)| ((full - own) / full).abs()).fold(0.0, f64::max);
            outcome.errors.push(error);
            outcome.size = coreset.provenance.draws;
            let facts = coreset.provenance.sensitivity;
            outcome.mean_bound = facts.and_then(|facts| facts.mean_bound).unwrap_or(outcome.mean_bound);
        }
        Ok(outcome)
    }
}

/// The log-likelihood at each of several parameters.
pub(super) fn log_likelihoods(points: &Points, theta: &[Vec<f64>]) -> Vec<f64> {
    let mut sums = ValueSums::new(theta.len());
    points.tiles().for_each(|tile| sums.add_tile(&tile, theta));
    sums.finish()
}

/// The cells: constants from the authors' 4 down to values for which the guarantee fails.
pub fn cells(profile: Profile) -> Vec<Guarantee> {
    let seeds = profile.guarantee_seeds();
    let constants: &[f64] = match profile {
        Profile::Quick => &[4.0, 0.03125],
        _ => &[4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125],
    };
    constants.iter().map(|&constant| Guarantee { rows: 20_000, radius: 1.0, constant, seeds }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::dot;
    use crate::theory::softplus;

    #[test]
    fn failures_and_quantiles_of_known_errors() {
        let errors = vec![0.3, 0.05, 0.1, 0.2];
        let outcome = GuaranteeOutcome { size: 1, mean_bound: 1.0, errors };
        // An error of exactly ε is allowed.
        assert_eq!(outcome.failures(), 0.5);
        assert!((outcome.quantile(0.5) - 0.15).abs() < 1e-15);
        assert_eq!((outcome.quantile(0.0), outcome.quantile(1.0)), (0.05, 0.3));
    }

    #[test]
    fn log_likelihoods_are_sums_over_rows() {
        let points = points_of(&two_feature_data(300, 2.0));
        let theta = disc_grid(4.0, 2, 3);
        for (found, theta) in log_likelihoods(&points, &theta).iter().zip(&theta) {
            let expected: f64 = (0..300).map(|row| -softplus(dot(&points.row(row), theta))).sum();
            assert!((found / expected - 1.0).abs() < 1e-12, "{found} and {expected}");
        }
    }

    #[test]
    fn the_size_is_that_of_the_theorem_and_the_guarantee_holds() {
        // With the authors' constant errors are about a fifth of ε; a failure of one of four seeds, which the theorem allows with
        // probability 0.19, was never seen in 200 seeds.
        let cell = Guarantee { rows: 20_000, radius: 1.0, constant: AUTHORS, seeds: 4 };
        let log = crate::runner::testing::Log::default();
        let context = Context {
            profile: Profile::Quick,
            library: crate::data::Library::new(None, Profile::Quick),
            folder: "out".into(),
            threads: 1,
            deadline: None,
            watch: &log,
        };
        let outcome = cell.run(&context).expect("an outcome");
        assert_eq!((outcome.errors.len(), outcome.failures()), (4, 0.0));
        assert!(
            outcome.errors.iter().all(|error| *error > 1e-4),
            "coresets are not exact: {:?}",
            outcome.errors
        );
        // Algorithm 1: M = ⌈c m̄/ε² ((D + 1) ln m̄ + ln(1/δ))⌉ with D = 2.
        let m = outcome.mean_bound;
        let expected = 4.0 * m / 0.01 * (3.0 * m.ln() + 20f64.ln());
        assert_eq!(outcome.size, expected.ceil() as u64);
    }
}
