//! Theorem 3.2's (ε, δ) guarantee: how often it holds, and how small its constant c could be.

use serde::{Deserialize, Serialize};
use tithe::base::error::Result;
use tithe::base::rng::Seed;
use tithe::coreset::Method;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::Radius;
use tithe::data::points::Points;
use tithe::model::likelihood::ValueSums;

use super::{disc, plane, points_of};
use crate::data::{Part, plain_encoding};
use crate::profile::Profile;
use crate::runner::{Cell, Context};

/// The largest relative error asked for.
pub const EPSILON: f64 = 0.1;
/// The probability that it is exceeded.
pub const DELTA: f64 = 0.05;
/// The authors' constant.
pub const AUTHORS: f64 = 4.0;

/// Many coresets with one constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guarantee {
    /// Rows N.
    pub rows: usize,
    /// The radius R.
    pub radius: f64,
    /// The constant c.
    pub constant: f64,
    /// Seeds, from 0 on.
    pub seeds: u64,
}

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuaranteeOutcome {
    /// Draws M that the theorem asks for.
    pub size: u64,
    /// The mean bound `m̄`.
    pub mean_bound: f64,
    /// The largest relative error over the disc, for each seed.
    pub errors: Vec<f64>,
}

impl GuaranteeOutcome {
    /// The share of seeds whose error exceeds ε.
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
        let columns = plane(self.rows, 0.5);
        let theta = disc(self.radius, 8, 48);
        let full = values(&points_of(&columns), &theta);
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
            let own = values(&coreset.points()?, &theta);
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

/// The log-likelihood at many parameters.
pub(super) fn values(points: &Points, theta: &[Vec<f64>]) -> Vec<f64> {
    let mut sums = ValueSums::new(theta.len());
    points.tiles().for_each(|tile| sums.add_tile(&tile, theta));
    sums.finish()
}

/// The cells: constants from the authors' 4 down to where the guarantee fails.
pub fn cells(profile: Profile) -> Vec<Guarantee> {
    let seeds = profile.guarantee_seeds();
    let constants: &[f64] = match profile {
        Profile::Quick => &[4.0, 0.03125],
        _ => &[4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125],
    };
    constants.iter().map(|&constant| Guarantee { rows: 20_000, radius: 1.0, constant, seeds }).collect()
}
