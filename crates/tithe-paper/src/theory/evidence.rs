//! Proposition 2.1: the error of the log marginal likelihood (evidence) `ln E` is at most `ε|ln E|`. It is tested on data with
//! two coefficients, for which the evidence can be integrated numerically.

use serde::{Deserialize, Serialize};
use tithe::base::error::Result;
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::Radius;
use tithe::data::points::Points;
use tithe::model::{Posterior, Prior, Priors};

use super::guarantee::log_likelihoods;
use super::{disc_grid, points_of, two_feature_data};
use crate::approach::Approach;
use crate::data::{Part, plain_encoding};
use crate::profile::Profile;
use crate::runner::{Cell, Context};

/// The ball `B_R` to which the prior N(0, 4I) is restricted.
const RADIUS: f64 = 4.0;
const PRIOR_SCALE: f64 = 2.0;
const ROWS: usize = 5_000;
/// The grid extends this many posterior standard deviations from the mode in each direction.
const EXTENT: f64 = 8.0;
/// Number of grid points from the mode to each edge.
const POINTS: i32 = 40;

/// The evidence of one coreset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The method.
    pub approach: Approach,
    /// Number of rows of the coreset.
    pub size: usize,
    /// The seed.
    pub seed: u64,
}

/// The result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EvidenceOutcome {
    /// `ln E` of the full data.
    pub full: f64,
    /// `ln E` of the coreset.
    pub coreset: f64,
    /// The largest relative error of the log-likelihood on a grid over the ball.
    pub epsilon: f64,
}

impl EvidenceOutcome {
    /// `|ln E − ln Ẽ|`.
    pub fn error(&self) -> f64 {
        (self.full - self.coreset).abs()
    }

    /// The bound of the proposition, `ε|ln E|`.
    pub fn bound(&self) -> f64 {
        self.epsilon * self.full.abs()
    }
}

impl Cell for Evidence {
    type Outcome = EvidenceOutcome;
    const EXPERIMENT: &'static str = "evidence";

    fn slug(&self) -> String {
        format!("{}-m{}-s{:02}", self.approach.slug(), self.size, self.seed)
    }

    fn run(&self, _context: &Context<'_>) -> Result<EvidenceOutcome> {
        let columns = two_feature_data(ROWS, 1.0);
        let full = points_of(&columns);
        let engine = Part::new(columns)?.engine()?;
        let settings = BuildSettings {
            method: self.approach.method(),
            size: Size::Rows(self.size),
            clusters: 4,
            radius: Radius::Fixed(RADIUS),
            collapse: false,
            seed: Seed(self.seed),
            encoding: plain_encoding(),
            ..BuildSettings::default()
        };
        let own = build_on(&engine, &settings)?.coreset.points()?;
        let theta = disc_grid(RADIUS, 24, 96);
        let epsilon = log_likelihoods(&full, &theta)
            .iter()
            .zip(log_likelihoods(&own, &theta))
            .map(|(full, own)| ((full - own) / full).abs())
            .fold(0.0, f64::max);
        Ok(EvidenceOutcome { full: log_evidence(&full)?, coreset: log_evidence(&own)?, epsilon })
    }
}

/// `ln ∫ exp(L(θ)) π₀(θ) dθ` over the ball, by a grid along the principal axes of the Laplace approximation. The integrand
/// outside the grid is negligible (about `e^{−EXTENT²/2}` of its maximum).
fn log_evidence(points: &Points) -> Result<f64> {
    let priors = Priors::same(Prior::Normal { scale: PRIOR_SCALE }, 2);
    let normal = Posterior::new(points, &priors)?.laplace()?;
    let step = EXTENT / f64::from(POINTS);
    let mut theta = Vec::new();
    for i in -POINTS..=POINTS {
        for j in -POINTS..=POINTS {
            let mut at = vec![0.0; 2];
            normal.unwhiten(&[f64::from(i) * step, f64::from(j) * step], &mut at);
            theta.push(at);
        }
    }
    // The area of a grid cell: |det C| step².
    let (mut origin, mut right, mut up) = (vec![0.0; 2], vec![0.0; 2], vec![0.0; 2]);
    normal.unwhiten(&[0.0, 0.0], &mut origin);
    normal.unwhiten(&[step, 0.0], &mut right);
    normal.unwhiten(&[0.0, step], &mut up);
    let side = |end: &[f64]| [end[0] - origin[0], end[1] - origin[1]];
    let (a, b) = (side(&right), side(&up));
    let area = (a[0] * b[1] - a[1] * b[0]).abs();
    // The density of the prior, which is 0 outside the ball.
    let variance = PRIOR_SCALE * PRIOR_SCALE;
    let inside = 1.0 - (-RADIUS * RADIUS / (2.0 * variance)).exp();
    let log_prior = |theta: &[f64]| {
        let square = theta[0] * theta[0] + theta[1] * theta[1];
        if square > RADIUS * RADIUS {
            return f64::NEG_INFINITY;
        }
        -0.5 * square / variance - (std::f64::consts::TAU * variance * inside).ln()
    };
    let terms: Vec<f64> = log_likelihoods(points, &theta)
        .iter()
        .zip(&theta)
        .map(|(value, theta)| value + log_prior(theta))
        .collect();
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Ok(largest + (terms.iter().map(|term| (term - largest).exp()).sum::<f64>() * area).ln())
}

/// The cells: each method at several sizes.
pub fn cells(profile: Profile) -> Vec<Evidence> {
    let sizes: &[usize] = match profile {
        Profile::Quick => &[100, 400],
        _ => &[50, 100, 200, 400, 800, 1600],
    };
    let mut cells = Vec::new();
    for seed in 0..profile.theory_repeats() as u64 {
        for approach in Approach::IN_MEMORY {
            cells.extend(sizes.iter().map(|&size| Evidence { approach, size, seed }));
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evidence_without_data_is_1() {
        // The only row has almost no weight, so the posterior is the prior, which integrates to 1 over the ball. The tolerance
        // is for the edge of the ball, where the integrand jumps.
        let points = Points::from_rows(2, [(&[1.0, 0.0][..], 1e-12)]);
        let found = log_evidence(&points).expect("an integral");
        assert!(found.abs() < 0.02, "{found}");
    }

    #[test]
    fn with_many_rows_the_evidence_is_the_laplace_approximation() {
        // 1,000 rows with weight 20 are as informative as 20,000 rows, and quicker.
        let mut points = points_of(&two_feature_data(1_000, 1.0));
        points.set_weights(&[20.0; 1_000]);
        let found = log_evidence(&points).expect("an integral");
        let priors = Priors::same(Prior::Normal { scale: PRIOR_SCALE }, 2);
        let posterior = Posterior::new(&points, &priors).expect("a posterior");
        let normal = posterior.laplace().expect("a mode");
        let curvature = tithe::model::likelihood::Curvature::of_points(&points, normal.mean());
        let precision = |i: usize| curvature.entry(i, i) + 0.25;
        let det = precision(0) * precision(1) - curvature.entry(0, 1).powi(2);
        let inside = 1.0 - (-RADIUS * RADIUS / 8.0f64).exp();
        let peak = curvature.value + priors.log_density(normal.mean());
        let laplace = peak + std::f64::consts::TAU.ln() - 0.5 * det.ln() - inside.ln();
        assert!((found - laplace).abs() < 1e-3, "{found} against {laplace}");
    }

    #[test]
    fn few_rows_are_integrated_as_on_a_plain_grid() {
        // A fine grid over the whole ball, without any approximation of the posterior.
        let points = points_of(&two_feature_data(60, 1.0));
        let step = 0.04;
        let mut sum = 0.0;
        for i in -100..=100 {
            for j in -100..=100 {
                let theta = [f64::from(i) * step, f64::from(j) * step];
                let square = theta[0] * theta[0] + theta[1] * theta[1];
                if square <= 16.0 {
                    let value = &log_likelihoods(&points, &[theta.to_vec()])[0];
                    sum += (value - square / 8.0).exp();
                }
            }
        }
        // N(0, 4I) has 1 − e^{−2} of its mass in the ball of radius 4.
        let density = 1.0 / (std::f64::consts::TAU * 4.0 * (1.0 - f64::exp(-2.0)));
        let expected = (sum * step * step * density).ln();
        let found = log_evidence(&points).expect("an integral");
        assert!((found - expected).abs() < 1e-4, "{found} and {expected}");
    }

    #[test]
    fn error_and_bound_are_in_nats() {
        let outcome = EvidenceOutcome { full: -200.0, coreset: -198.5, epsilon: 0.01 };
        assert_eq!((outcome.error(), outcome.bound()), (1.5, 2.0));
    }

    #[test]
    fn every_method_is_tried_at_every_size() {
        let cells = cells(Profile::Full);
        assert_eq!(cells.len(), 20 * 3 * 6);
        let mut slugs: Vec<String> = cells.iter().map(Evidence::slug).collect();
        slugs.sort_unstable();
        slugs.dedup();
        assert_eq!(slugs.len(), cells.len());
    }
}
