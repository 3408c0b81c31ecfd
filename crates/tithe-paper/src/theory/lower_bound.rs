//! Theorem 3.4 and Corollary 3.7: lower and upper bounds of sensitivities, tested on the vectors that the theorem constructs.
//!
//! `V_1 … V_N` are unit vectors in `D − 1` dimensions with `ε = 1 − max V_n·V_m`; `Z_n = (δV_n, √(1−δ²))` with `δ² = ε'/2`.
//! Then `N/(1+(N−1)e^{−Rε√ε'/4}) ≤ σ_n(B_R) ≤ N/(1+(N−1)e^{−R√(2ε')})`.

use serde::{Deserialize, Serialize};
use tithe::base::error::Result;
use tithe::base::rng::{Purpose, Rng, Seed};

use super::{direction, dot, softplus};
use crate::profile::Profile;
use crate::runner::{Cell, Context};

/// Maximum number of steps of gradient ascent.
const STEPS: usize = 400;
/// Number of random starting points, in addition to two constructed ones.
const STARTS: usize = 6;
/// Number of vectors whose sensitivity is computed.
const VECTORS_TRIED: usize = 5;

/// The bounds at one radius.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LowerBound {
    /// Dimension D.
    pub dim: usize,
    /// Number of vectors N.
    pub count: usize,
    /// `ε'`: inner products of the vectors are at least `1 − ε'`.
    pub closeness: f64,
    /// The radius R.
    pub radius: f64,
    /// The seed.
    pub seed: u64,
}

/// The result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LowerBoundOutcome {
    /// The lower bound of Theorem 3.4.
    pub lower: f64,
    /// The largest ratio found by optimisation, averaged over some vectors. The sensitivity is at least this large.
    pub found: f64,
    /// The upper bound of Lemma 3.1 with one cluster per vector, averaged over the same vectors.
    pub lemma: f64,
    /// The upper bound of Corollary 3.7.
    pub upper: f64,
    /// `ε = 1 − max V_n·V_m`.
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
        let (z, epsilon) = self.vectors(&mut rng);
        let delta = self.delta();
        let bound =
            |rate: f64| self.count as f64 / (1.0 + (self.count - 1) as f64 * (-self.radius * rate).exp());
        let tried = VECTORS_TRIED.min(self.count);
        let (mut found, mut lemma) = (0.0, 0.0);
        for n in 0..tried {
            found += self.sensitivity(&z, n, epsilon, delta, &mut rng) / tried as f64;
            let others: f64 = (0..self.count)
                .filter(|&m| m != n)
                .map(|m| (-self.radius * distance(&z[m], &z[n])).exp())
                .sum();
            lemma += self.count as f64 / (1.0 + others) / tried as f64;
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
    fn delta(&self) -> f64 {
        (self.closeness / 2.0).sqrt()
    }

    /// The vectors `Z_n` of the theorem, and their `ε`.
    fn vectors(&self, rng: &mut Rng) -> (Vec<Vec<f64>>, f64) {
        let v: Vec<Vec<f64>> = (0..self.count).map(|_| direction(self.dim - 1, rng)).collect();
        let mut largest = f64::NEG_INFINITY;
        for (i, a) in v.iter().enumerate() {
            largest = v[..i].iter().map(|b| dot(a, b)).fold(largest, f64::max);
        }
        let delta = self.delta();
        let last = (1.0 - delta * delta).sqrt();
        let z = v.iter().map(|v| v.iter().map(|x| delta * x).chain([last]).collect()).collect();
        (z, 1.0 - largest)
    }

    /// `sup N φ(z_n·θ)/Σ φ(z_m·θ)` over the ball, by projected gradient ascent from the parameter used in the proof, from `−z_n`
    /// and from random directions.
    fn sensitivity(&self, z: &[Vec<f64>], n: usize, epsilon: f64, delta: f64, rng: &mut Rng) -> f64 {
        let d = self.dim;
        // The parameter in the proof: −αδV_n in the first coordinates, αδ²(1−ε/2)/√(1−δ²) in the last.
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
        let mut theta = project(start, self.radius, true);
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
            let moved = project(moved, self.radius, false);
            let moved_value = self.log_ratio(z, n, &moved);
            if moved_value > value {
                (theta, value) = (moved, moved_value);
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

/// Scales a vector into the ball, or onto its surface if `to_edge`.
fn project(theta: Vec<f64>, radius: f64, to_edge: bool) -> Vec<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: LowerBound = LowerBound { dim: 3, count: 6, closeness: 0.5, radius: 4.0, seed: 3 };

    fn vectors(cell: &LowerBound) -> (Vec<Vec<f64>>, f64, Rng) {
        let mut rng = Seed(cell.seed).stream(Purpose::Search, 0);
        let (z, epsilon) = cell.vectors(&mut rng);
        (z, epsilon, rng)
    }

    fn run(cell: &LowerBound) -> LowerBoundOutcome {
        let log = crate::runner::testing::Log::default();
        let context = Context {
            profile: Profile::Quick,
            library: crate::data::Library::new(None, Profile::Quick),
            folder: "out".into(),
            threads: 1,
            deadline: None,
            watch: &log,
        };
        cell.run(&context).expect("an outcome")
    }

    #[test]
    fn the_vectors_satisfy_the_theorem() {
        let cell = LowerBound { dim: 5, count: 40, ..CELL };
        let (z, epsilon, _) = vectors(&cell);
        let mut largest = f64::NEG_INFINITY;
        for (n, a) in z.iter().enumerate() {
            assert!((dot(a, a) - 1.0).abs() < 1e-12, "unit vectors");
            for b in &z[..n] {
                assert!(dot(a, b) >= 1.0 - cell.closeness - 1e-12, "Z_n·Z_m ≥ 1 − ε'");
                largest = largest.max(dot(a, b));
            }
        }
        // Z_n·Z_m = δ² V_n·V_m + 1 − δ², so the largest product is 1 − δ²ε.
        assert!((largest - (1.0 - 0.25 * epsilon)).abs() < 1e-12);
    }

    #[test]
    fn bounds_are_those_of_the_paper() {
        // Computed separately: 100/(1 + 99 e^{−R√(2ε')}) with √(2ε') = 1.
        for (radius, upper) in [(1.0, 2.672_363_098_939_522_6), (10.0, 99.552_551_792_951_48)] {
            let outcome = run(&LowerBound { dim: 10, count: 100, closeness: 0.5, radius, seed: 1 });
            assert!((outcome.upper - upper).abs() < 1e-9, "{}", outcome.upper);
            let rate = outcome.epsilon * 0.5f64.sqrt() / 4.0;
            let lower = 100.0 / (1.0 + 99.0 * (-radius * rate).exp());
            assert!((outcome.lower - lower).abs() < 1e-9, "{} and {lower}", outcome.lower);
        }
        let outcome = run(&CELL);
        assert!(
            outcome.lower <= outcome.found
                && outcome.found <= outcome.lemma
                && outcome.lemma <= outcome.upper
        );
    }

    #[test]
    fn the_gradient_is_the_derivative_of_the_logarithm_of_the_ratio() {
        let (z, _, mut rng) = vectors(&CELL);
        let theta: Vec<f64> = direction(3, &mut rng).iter().map(|x| 2.5 * x).collect();
        let gradient = CELL.gradient(&z, 2, &theta);
        for d in 0..3 {
            let shifted = |step: f64| {
                let mut theta = theta.clone();
                theta[d] += step;
                CELL.log_ratio(&z, 2, &theta)
            };
            let numeric = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            assert!((gradient[d] - numeric).abs() < 1e-8, "{} and {numeric}", gradient[d]);
        }
    }

    #[test]
    fn optimisation_finds_more_than_a_search_of_the_ball() {
        let (z, epsilon, mut rng) = vectors(&CELL);
        for n in 0..CELL.count {
            let found = CELL.sensitivity(&z, n, epsilon, CELL.delta(), &mut rng);
            // Points in the ball in 3000 directions, at three distances.
            let mut searched = 0.0f64;
            for _ in 0..3000 {
                let direction = direction(3, &mut rng);
                for length in [1.0, 2.5, 4.0] {
                    let theta: Vec<f64> = direction.iter().map(|x| length * x).collect();
                    searched = searched.max(CELL.log_ratio(&z, n, &theta).exp());
                }
            }
            assert!(found >= searched * (1.0 - 1e-9), "{found} is less than {searched}");
            assert!(found <= 1.02 * searched, "{found} is far more than {searched}");
        }
    }

    #[test]
    fn projection_keeps_the_direction() {
        assert_eq!(project(vec![3.0, 4.0], 10.0, false), [3.0, 4.0]);
        assert_eq!(project(vec![3.0, 4.0], 10.0, true), [6.0, 8.0]);
        assert_eq!(project(vec![3.0, 4.0], 2.5, false), [1.5, 2.0]);
        assert_eq!(project(vec![0.0, 0.0], 2.5, true), [0.0, 0.0]);
    }
}
