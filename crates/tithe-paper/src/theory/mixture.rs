//! Proposition 3.8: an upper bound for the expected mean sensitivity bound of a Gaussian mixture, and its limit for many rows.
//!
//! In the paper's Mixture data the components are the classes: `π = ½`, `Σ = I`, `ȳ = ±1`, `‖μ‖² = 5`, and the two means are
//! orthogonal. Then `A_i = D` and `B_i = ½(D + 5 − 10 + 5) + ½(D + 5 + 5) = D + 5`.

use serde::{Deserialize, Serialize};
use tithe::base::error::{ErrorKind, Result};
use tithe::base::rng::Seed;
use tithe::coreset::Method;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::Radius;
use tithe::data::generate::Recipe;

use crate::data::{Part, plain_encoding};
use crate::profile::Profile;
use crate::runner::{Cell, Context};

const DIM: f64 = 10.0;
/// `‖μ_i‖²`.
const LENGTH: f64 = 5.0;
const COMPONENTS: usize = 2;

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixtureBound {
    /// Rows N.
    pub rows: usize,
    /// The radius R.
    pub radius: f64,
    /// The seed of the data.
    pub seed: u64,
}

/// The result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixtureBoundOutcome {
    /// The mean sensitivity bound with the components of the mixture as clusters, as in the proposition.
    pub by_components: f64,
    /// The mean sensitivity bound with the same number of k-means clusters.
    pub by_clustering: f64,
}

impl MixtureBound {
    /// The proposition's bound on the expectation, minimised over r.
    pub fn bound(&self) -> f64 {
        let n = self.rows as f64;
        let (a, b) = (DIM, DIM + LENGTH);
        (1..50)
            .map(|i| f64::from(i) / 100.0)
            .map(|r| {
                let eta = (0.5 - n.powf(-r)).max(0.0);
                let near =
                    if eta > 0.0 { eta * (-self.radius * (a / (n * eta) + b).sqrt()).exp() } else { 0.0 };
                let far = if eta > 0.0 {
                    COMPONENTS as f64 * n * (-2.0 * n.powf(1.0 - 2.0 * r)).exp()
                } else {
                    0.0
                };
                1.0 / (1.0 / n + COMPONENTS as f64 * near) + far
            })
            .fold(n, f64::min)
    }

    /// The limit of the bound for many rows, `exp(R√(D + ‖μ‖²))`.
    pub fn limit(&self) -> f64 {
        (self.radius * (DIM + LENGTH).sqrt()).exp()
    }
}

impl Cell for MixtureBound {
    type Outcome = MixtureBoundOutcome;
    const EXPERIMENT: &'static str = "mixture-bound";

    fn slug(&self) -> String {
        format!("n{}-radius{}-s{:02}", self.rows, self.radius, self.seed)
    }

    fn run(&self, _context: &Context<'_>) -> Result<MixtureBoundOutcome> {
        let data = Recipe::Mixture.data(Seed(self.seed), self.rows);
        let by_components = by_components(&data.x, &data.y, self.radius);
        let engine = Part::new(data.columns())?.engine()?;
        let settings = BuildSettings {
            method: Method::Sensitivity,
            size: Size::Rows(self.rows / 10),
            clusters: COMPONENTS,
            radius: Radius::Fixed(self.radius),
            collapse: false,
            seed: Seed(self.seed),
            encoding: plain_encoding(),
            ..BuildSettings::default()
        };
        let facts = build_on(&engine, &settings)?.coreset.provenance.sensitivity;
        let by_clustering = facts.and_then(|facts| facts.mean_bound).ok_or_else(|| ErrorKind::Numerical {
            what: "the coreset is exact, so it has no mean sensitivity bound".to_string(),
            help: None,
        })?;
        Ok(MixtureBoundOutcome { by_components, by_clustering })
    }
}

/// The mean sensitivity bound of Lemma 3.1 with the classes as clusters.
fn by_components(x: &[Vec<f64>], y: &[f64], radius: f64) -> f64 {
    let class = |row: usize| usize::from(y[row] > 0.0);
    let (mut mass, mut sums) = ([0.0; COMPONENTS], vec![vec![0.0; x.len()]; COMPONENTS]);
    for row in 0..y.len() {
        mass[class(row)] += 1.0;
        for (sum, column) in sums[class(row)].iter_mut().zip(x) {
            *sum += y[row] * column[row];
        }
    }
    let total: f64 = (0..y.len())
        .map(|row| {
            let mut below = 1.0;
            for (i, sum) in sums.iter().enumerate() {
                // The mean without the row itself.
                let own = if class(row) == i { 1.0 } else { 0.0 };
                let others = mass[i] - own;
                if others > 0.0 {
                    let square: f64 = sum
                        .iter()
                        .zip(x)
                        .map(|(sum, column)| {
                            let z = y[row] * column[row];
                            ((sum - own * z) / others - z).powi(2)
                        })
                        .sum();
                    below += others * (-radius * square.sqrt()).exp();
                }
            }
            1.0 / below
        })
        .sum();
    total
}

/// The cells: several numbers of rows and radii.
pub fn cells(profile: Profile) -> Vec<MixtureBound> {
    let rows: &[usize] = match profile {
        Profile::Quick => &[1_000, 4_000],
        _ => &[100, 1_000, 10_000, 100_000, 1_000_000],
    };
    let mut cells = Vec::new();
    for seed in 0..profile.theory_repeats().min(5) as u64 {
        for &rows in rows {
            cells.extend([0.25, 0.5, 1.0].map(|radius| MixtureBound { rows, radius, seed }));
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_follow_from_the_means_of_the_paper() {
        // A_i = tr Σ_i + (1 − ȳ_i²)‖μ_i‖² and B_i = Σ_j π_j (tr Σ_j + ȳ_j²‖μ_i‖² − 2ȳ_iȳ_j μ_i·μ_j + ‖μ_j‖²).
        let mu = [[0., 0., 0., 0., 0., 1., 1., 1., 1., 1.], [1., 1., 1., 1., 1., 0., 0., 0., 0., 0.]];
        let y = [-1.0, 1.0];
        let dot =
            |i: usize, j: usize| -> f64 { mu[i].iter().zip(&mu[j]).map(|(a, b): (&f64, &f64)| a * b).sum() };
        for i in 0..2 {
            let a = 10.0 + (1.0 - y[i] * y[i]) * dot(i, i);
            let b: f64 = (0..2)
                .map(|j| 0.5 * (10.0 + y[j] * y[j] * dot(i, i) - 2.0 * y[i] * y[j] * dot(i, j) + dot(j, j)))
                .sum();
            assert_eq!((a, b), (DIM, DIM + LENGTH));
        }
    }

    #[test]
    fn the_bound_is_that_of_the_proposition() {
        // Computed by a separate program.
        for (rows, radius, bound) in [
            (100, 0.25, 4.262_349_441_751_119),
            (1000, 0.5, 8.111_420_593_731_259),
            (100_000, 1.0, 48.960_850_123_258_13),
        ] {
            let cell = MixtureBound { rows, radius, seed: 0 };
            assert!((cell.bound() / bound - 1.0).abs() < 1e-12, "{}", cell.bound());
            assert!(cell.bound() > cell.limit() && cell.bound() <= rows as f64);
        }
        let large = MixtureBound { rows: 1_000_000_000_000, radius: 0.5, seed: 0 };
        assert!((large.limit() - 6.934_380_172_802_191).abs() < 1e-12);
        assert!((large.bound() / large.limit() - 1.0).abs() < 1e-3);
        // Without a radius every row is as sensitive as any other.
        assert!((MixtureBound { radius: 0.0, ..large }.limit() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn the_mean_bound_by_components_is_that_of_the_lemma() {
        // Lemma 3.1 written out; the last case has a class with a single row.
        for labels in [[1.0, 1.0, -1.0, -1.0, 1.0], [1.0, 1.0, 1.0, 1.0, -1.0]] {
            let x = vec![vec![0.5, 1.5, -0.5, 0.0, 2.0], vec![1.0, -1.0, 0.3, 0.7, 0.0]];
            let z: Vec<[f64; 2]> = (0..5).map(|n| [labels[n] * x[0][n], labels[n] * x[1][n]]).collect();
            let radius = 0.8;
            let mut expected = 0.0;
            for n in 0..5 {
                let mut denominator = 1.0;
                for class in [-1.0, 1.0] {
                    let others: Vec<[f64; 2]> =
                        (0..5).filter(|&m| m != n && labels[m] == class).map(|m| z[m]).collect();
                    let count = others.len() as f64;
                    if count > 0.0 {
                        let mean = [0, 1].map(|d| others.iter().map(|z| z[d]).sum::<f64>() / count);
                        let distance = (mean[0] - z[n][0]).hypot(mean[1] - z[n][1]);
                        denominator += count * (-radius * distance).exp();
                    }
                }
                expected += 5.0 / denominator / 5.0;
            }
            let found = by_components(&x, &labels, radius);
            assert!((found - expected).abs() < 1e-12, "{found} and {expected}");
        }
    }
}
