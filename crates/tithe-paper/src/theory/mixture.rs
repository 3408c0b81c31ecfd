//! Proposition 3.8: the expected mean sensitivity bound of a Gaussian mixture, its bound and that bound's limit.
//!
//! For the paper's Mixture the components are the classes: `π = ½`, `Σ = I`, `ȳ = ±1`, `‖μ‖² = 5`, and the two means are
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

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixtureBoundOutcome {
    /// The mean bound with the mixture's components as clusters, as the proposition has it.
    pub by_components: f64,
    /// The mean bound with as many clusters by k-means.
    pub by_clustering: f64,
}

impl MixtureBound {
    /// The proposition's bound on the expectation, the least over r.
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

    /// Its limit for many rows.
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
        let by_clustering = facts
            .and_then(|facts| facts.mean_bound)
            .ok_or_else(|| ErrorKind::Numerical { what: "there is no mean bound".to_string(), help: None })?;
        Ok(MixtureBoundOutcome { by_components, by_clustering })
    }
}

/// The mean bound of Lemma 3.1 with the classes as clusters.
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

/// The cells: rows from a hundred to a hundred thousand, for some radii.
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
