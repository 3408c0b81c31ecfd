//! Guides: a few weighted rows whose likelihood predicts the full data's, which saves passes in the search for its mode.
//!
//! With their weights they have a likelihood `L̃`. Corrected to the full data's gradient and Hessian at the last evaluated
//! parameter `θ_k`, `L̃(θ) + (∇L − ∇L̃)(θ − θ_k) + ½(θ − θ_k)ᵀ(∇²L − ∇²L̃)(θ − θ_k)`, it is exact to second order and takes
//! all higher orders from the guides (compare the surrogate likelihood of Jordan, Lee and Yang 2019). Its mode is the next
//! parameter to evaluate.

use std::borrow::Cow;

use faer::Mat;
use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::linear::{Cholesky, product};
use crate::base::rng::{Rng, Seed};
use crate::data::points::{Lane, Points, Tile};
use crate::model::likelihood::Curvature;
use crate::model::local_features::{LocalMap, slope_and_curvature};
use crate::model::newton::{Likelihood, Mode};
use crate::model::quadratic::{Quadratic, add_ridge};
use crate::reservoir::pool::Race;

/// The largest number of floats that guides may take.
const MOST_NUMBERS: usize = 1 << 24;
/// A pilot is uninformative if one of its rows, or the prior, has more than this share of the information about a direction.
const MOST_SHARE: f64 = 0.1;
/// A corrected likelihood need not have a mode; where it has one, a search needs fewer steps than this.
const MOST_STEPS: usize = 30;

/// How rows become guides: half of them by their leverage as the pilot measures it, `‖F‖² ≈ ‖u‖²/8`, which is enormous where
/// the pilot is uninformative; half by `‖F‖`, so that the many other rows are well represented.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct GuideSelection {
    map: LocalMap,
    capacity: usize,
    /// `Σ w‖F‖²` and `Σ w‖F‖` of all rows, roughly.
    leverages: f64,
    norms: f64,
    seed: Seed,
}

impl GuideSelection {
    /// The features are those at `θ = 0`, where rows matter whatever their label is: near a mode, those of nearly separated
    /// levels hardly do.
    pub fn new(pilot: &Points, prior_precision: &[f64], seed: Seed) -> Result<GuideSelection> {
        let dim = pilot.dim();
        let origin = Curvature::of_points(pilot, &vec![0.0; dim]);
        let precision =
            Mat::from_fn(dim, dim, |i, j| origin.entry(i, j) + if i == j { prior_precision[i] } else { 0.0 });
        let map = LocalMap::new(vec![0.0; dim], precision.as_ref())?;
        let squares = map.features(pilot).norms_squared();
        let weights = pilot.weights();
        let leverages = squares.iter().zip(&weights).map(|(square, w)| w * square).sum();
        let norms = squares.iter().zip(&weights).map(|(square, w)| w * square.sqrt()).sum();
        let capacity = (20 * dim).max(3000).min((MOST_NUMBERS / dim.max(1)).max(1000));
        Ok(GuideSelection { map, capacity, leverages, norms, seed })
    }

    /// The seed of the random keys.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// An empty race.
    pub fn race(&self) -> Race {
        Race::with_totals(self.capacity, self.leverages, self.norms)
    }

    /// Enters the rows of a tile.
    pub fn enter(
        &self,
        race: &mut Race,
        tile: &Tile<'_>,
        directions: &mut [Lane],
        position: impl Fn(usize) -> u64,
        rng: &mut Rng,
    ) {
        let norms = self.map.norms(tile, directions);
        let mut leverages = norms;
        leverages.iter_mut().zip(tile.w.iter()).for_each(|(norm, w)| *norm = w * norm.powi(2));
        race.enter(tile, &leverages, &norms, position, rng);
    }
}

/// The rows that won a race, with weights that make them represent all rows.
pub(crate) fn guides_of(race: Race) -> Points {
    let pool = race.finish();
    let mut points = pool.points();
    points.set_weights(&pool.reference_weights(pool.len()));
    points
}

/// Whether a pilot's mode is unreliable in some direction: one row, or the prior, has a large share of the information
/// about it.
pub(crate) fn is_uninformative(pilot: &Points, start: &Mode, prior_precision: &[f64]) -> Result<bool> {
    let dim = pilot.dim();
    let features = LocalMap::new(start.theta.clone(), start.precision.as_ref())?.features(pilot);
    let one_row = features.leverages().iter().zip(pilot.weights()).any(|(share, w)| share * w > MOST_SHARE);
    let the_prior = Cholesky::new(start.precision.as_ref()).is_some_and(|factor| {
        let covariance = factor.inverse();
        (0..dim).any(|i| covariance[(i, i)] * prior_precision[i] > MOST_SHARE)
    });
    Ok(one_row || the_prior)
}

/// The guides' log-likelihood, corrected to the full data's gradient and Hessian at one parameter.
pub(crate) struct CorrectedLikelihood<'a> {
    guides: Cow<'a, Points>,
    /// The guides' own likelihood at that parameter.
    own: Curvature,
    /// The full data's minus the guides' own.
    correction: Quadratic,
    most_steps: usize,
}

impl<'a> CorrectedLikelihood<'a> {
    /// Corrects the guides to the full data's `evaluated` likelihood at `theta`.
    pub fn new(guides: Cow<'a, Points>, theta: &[f64], evaluated: &Curvature) -> CorrectedLikelihood<'a> {
        let own = Curvature::of_points(&guides, theta);
        let curvature = Curvature { value: 0.0, misfit: 0.0, ..evaluated.minus(&own) };
        let correction = Quadratic { theta: theta.to_vec(), curvature };
        CorrectedLikelihood { guides, own, correction, most_steps: MOST_STEPS }
    }

    /// The same with only that part of the Hessian's correction which adds curvature, so that there is a mode, however far
    /// away it is.
    pub fn concave(self) -> Option<CorrectedLikelihood<'a>> {
        let correction = self.correction.concave_beside(&self.own)?;
        Some(CorrectedLikelihood { correction, most_steps: 10 * MOST_STEPS, ..self })
    }
}

impl Likelihood for CorrectedLikelihood<'_> {
    fn evaluate(&mut self, theta: &[f64]) -> Result<Curvature> {
        let mut curvature = Curvature::of_points(&self.guides, theta);
        curvature.merge(&self.correction.at(theta));
        Ok(curvature)
    }

    fn least_weight(&self) -> f64 {
        0.0
    }

    fn most_steps(&self) -> usize {
        self.most_steps
    }
}

/// The guides with weights changed as little as gives them the full data's gradient. The likelihood of a nearly separated
/// level is `Σ w e^{−s}`, so its gradient determines its weight at any distance, as no correction by a polynomial could.
pub(crate) fn reweighted(guides: &Points, theta: &[f64], evaluated: &Curvature) -> Option<Points> {
    let dim = theta.len();
    let weights = guides.weights();
    // Columns √w σ z, so that the change of the gradient by a tilt λ, Σ w σ² z zᵀ λ, is a product.
    let mut pulls = Mat::zeros(dim, weights.len());
    let mut missing = Mat::from_fn(dim, 1, |i, _| evaluated.gradient[i]);
    for (m, weight) in weights.iter().enumerate() {
        let z = guides.row(m);
        let margin: f64 = z.iter().zip(theta).map(|(z, theta)| z * theta).sum();
        let pull = -slope_and_curvature(margin).0;
        for i in 0..dim {
            pulls[(i, m)] = weight.sqrt() * pull * z[i];
            missing[(i, 0)] -= weight * pull * z[i];
        }
    }
    let mut system = product(pulls.as_ref(), pulls.transpose());
    add_ridge(&mut system);
    let tilt = Cholesky::new(system.as_ref())?.solve(missing);
    let changes = product(pulls.transpose(), tilt.as_ref());
    let new =
        weights.iter().enumerate().map(|(m, w)| w * (1.0 + changes[(m, 0)] / w.sqrt()).clamp(0.1, 10.0));
    let mut guides = guides.clone();
    guides.set_weights(&new.collect::<Vec<_>>());
    Some(guides)
}
