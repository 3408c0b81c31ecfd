//! Theorem 3.4 and Corollary 3.7: sensitivities on the theorem's own vectors, between its two bounds.
//!
//! `V_1 … V_N` are unit vectors in `D − 1` dimensions with `ε = 1 − max V_n·V_m`; `Z_n = (δV_n, √(1−δ²))` with `δ² = ε'/2`.
//! Then `N/(1+(N−1)e^{−Rε√ε'/4}) ≤ σ_n(B_R) ≤ N/(1+(N−1)e^{−R√(2ε')})`.

use serde::{Deserialize, Serialize};
use tithe::base::error::Result;
use tithe::base::rng::{Purpose, Rng, Seed};

use super::{direction, dot, softplus};
use crate::profile::Profile;
use crate::runner::{Cell, Context};

/// Steps of the ascent.
const STEPS: usize = 400;
/// Random starts beside the construction's own.
const STARTS: usize = 6;
/// Of how many vectors the sensitivity is sought.
const LOOKED_AT: usize = 5;

/// The bounds at one radius.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LowerBound {
    /// Dimension D.
    pub dim: usize,
    /// Number of vectors N.
    pub count: usize,
    /// `ε'`: the vectors' products are at least `1 − ε'`.
    pub closeness: f64,
    /// The radius R.
    pub radius: f64,
    /// The seed.
    pub seed: u64,
}

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LowerBoundOutcome {
    /// The theorem's lower bound.
    pub lower: f64,
    /// The largest ratio found, the mean over some vectors: what the sensitivity is at least.
    pub found: f64,
    /// Lemma 3.1 with every vector its own cluster, the mean over the same vectors.
    pub lemma: f64,
    /// The corollary's upper bound.
    pub upper: f64,
    /// `ε` of the vectors.
    pub epsilon: f64,
}

impl Cell for LowerBound {
    type Outcome = LowerBoundOutcome;
    const EXPERIMENT: &'static str = "lower-bound";

    fn slug(&self) -> String {
        format!("d{}-n{}-c{}-radius{}", self.dim, self.count, self.closeness, self.radius)
    }

    fn run(&self, _context: &Context<'_>) -> Result<LowerBoundOutcome> {
        let mut rng = Seed(self.seed).stream(Purpose::Search, 0);
        let v: Vec<Vec<f64>> = (0..self.count).map(|_| direction(self.dim - 1, &mut rng)).collect();
        let mut largest = f64::NEG_INFINITY;
        for (i, a) in v.iter().enumerate() {
            largest = v[..i].iter().map(|b| dot(a, b)).fold(largest, f64::max);
        }
        let epsilon = 1.0 - largest;
        let delta = (self.closeness / 2.0).sqrt();
        let last = (1.0 - delta * delta).sqrt();
        let z: Vec<Vec<f64>> =
            v.iter().map(|v| v.iter().map(|x| delta * x).chain([last]).collect()).collect();
        let bound =
            |rate: f64| self.count as f64 / (1.0 + (self.count - 1) as f64 * (-self.radius * rate).exp());
        let looked_at = LOOKED_AT.min(self.count);
        let (mut found, mut lemma) = (0.0, 0.0);
        for n in 0..looked_at {
            found += self.sensitivity(&z, n, epsilon, delta, &mut rng) / looked_at as f64;
            let others: f64 = (0..self.count)
                .filter(|&m| m != n)
                .map(|m| (-self.radius * distance(&z[m], &z[n])).exp())
                .sum();
            lemma += self.count as f64 / (1.0 + others) / looked_at as f64;
        }
        Ok(LowerBoundOutcome {
            lower: bound(epsilon * self.closeness.sqrt() / 4.0),
            found,
            lemma,
            upper: bound((2.0 * self.closeness).sqrt()),
            epsilon,
        })
    }
}

impl LowerBound {
    /// `sup N φ(z_n·θ)/Σ φ(z_m·θ)` over the ball by projected gradient ascent, from the proof's parameter and from others.
    fn sensitivity(&self, z: &[Vec<f64>], n: usize, epsilon: f64, delta: f64, rng: &mut Rng) -> f64 {
        let d = self.dim;
        // The proof's: −αδV_n in the first coordinates, αδ²(1−ε/2)/√(1−δ²) in the last.
        let proof: Vec<f64> = (0..d)
            .map(|i| if i + 1 < d { -z[n][i] } else { delta * delta * (1.0 - epsilon / 2.0) / z[n][i] })
            .collect();
        let away: Vec<f64> = z[n].iter().map(|x| -x).collect();
        let mut best = 1.0f64;
        for start in [proof, away].into_iter().chain((0..STARTS).map(|_| direction(d, rng))) {
            best = best.max(self.ascend(z, n, start));
        }
        best
    }

    fn ascend(&self, z: &[Vec<f64>], n: usize, start: Vec<f64>) -> f64 {
        let mut theta = on_ball(start, self.radius, true);
        let mut value = self.log_ratio(z, n, &theta);
        let mut step = 0.5 * self.radius;
        for _ in 0..STEPS {
            let gradient = self.gradient(z, n, &theta);
            let length = dot(&gradient, &gradient).sqrt();
            if length == 0.0 || step < 1e-9 * self.radius {
                break;
            }
            let moved =
                theta.iter().zip(&gradient).map(|(theta, g)| theta + step * g / length).collect::<Vec<_>>();
            let moved = on_ball(moved, self.radius, false);
            let there = self.log_ratio(z, n, &moved);
            if there > value {
                (theta, value) = (moved, there);
                step *= 1.5;
            } else {
                step *= 0.5;
            }
        }
        value.exp()
    }

    fn log_ratio(&self, z: &[Vec<f64>], n: usize, theta: &[f64]) -> f64 {
        let own = softplus(dot(&z[n], theta));
        let all: f64 = z.iter().map(|z| softplus(dot(z, theta))).sum();
        (self.count as f64 * own / all).ln()
    }

    fn gradient(&self, z: &[Vec<f64>], n: usize, theta: &[f64]) -> Vec<f64> {
        let slope = |s: f64| -1.0 / (1.0 + s.exp());
        let margins: Vec<f64> = z.iter().map(|z| dot(z, theta)).collect();
        let all: f64 = margins.iter().map(|s| softplus(*s)).sum();
        let own = slope(margins[n]) / softplus(margins[n]);
        let mut gradient: Vec<f64> = z[n].iter().map(|x| own * x).collect();
        for (z, s) in z.iter().zip(&margins) {
            let pull = slope(*s) / all;
            gradient.iter_mut().zip(z).for_each(|(g, x)| *g -= pull * x);
        }
        gradient
    }
}

/// Brought back into the ball; or, where asked for, out to its edge.
fn on_ball(theta: Vec<f64>, radius: f64, to_edge: bool) -> Vec<f64> {
    let length = dot(&theta, &theta).sqrt();
    if length > 0.0 && (to_edge || length > radius) {
        return theta.iter().map(|x| x * radius / length).collect();
    }
    theta
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// The cells: N = 100 vectors in 10 dimensions, over radii from 1 to 1,000.
pub fn cells(profile: Profile) -> Vec<LowerBound> {
    let radii: &[f64] = match profile {
        Profile::Quick => &[1.0, 10.0, 100.0],
        _ => &[0.3, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0, 200.0, 300.0, 1000.0],
    };
    let cell = |radius: &f64| LowerBound { dim: 10, count: 100, closeness: 0.5, radius: *radius, seed: 1 };
    radii.iter().map(cell).collect()
}
