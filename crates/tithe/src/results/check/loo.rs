//! Leave-one-out cross-validation by Pareto-smoothed importance sampling, on a random sample of the rows.
//!
//! For a row `i` with log-likelihoods `l_s` at the draws, PSIS with the log-ratios `−l_s` estimates `π_i = ln p(y_i | y_−i)` (Vehtari, Gelman
//! and Gabry 2017). For the other rows `π̃_i = ln p(y_i | y)` is known from the pass. The difference estimator of Magnusson et al. (2020)
//! adds to `Σ π̃_i` over all N rows the mean of `e_i = π_i − π̃_i` over m sampled rows, times N.

use serde::{Deserialize, Serialize};

use crate::base::math::{exp, ln, softplus_and_slope};
use crate::base::rng::mix64;
use crate::data::points::Tile;
use crate::mcmc::psis::Psis;

/// Rows with a Pareto shape above this have unreliable weights.
const LARGEST_K: f64 = 0.7;

/// The expected log predictive density for rows that were left out, one by one.
#[derive(Clone, Debug, Serialize)]
pub struct Loo {
    /// Its estimate, summed over all rows, in nats.
    pub elpd: f64,
    /// Its standard error, as an estimate for new data.
    pub se: f64,
    /// The part of the error that comes from looking at a sample of the rows only.
    pub sampling_error: f64,
    /// The effective number of parameters: how much better the rows were predicted by a posterior that knew them.
    pub effective_parameters: f64,
    /// Number of rows whose weights were computed.
    pub sampled: usize,
    /// Number of these with a Pareto shape above 0.7, for which the estimate is unreliable.
    pub unreliable: usize,
    #[serde(skip)]
    /// Number of all rows.
    rows: f64,
    #[serde(skip)]
    /// Position, `π_i` and `π̃_i` of the sampled rows, by position.
    pointwise: Vec<(u64, f64, f64)>,
}

/// Two models compared by leave-one-out cross-validation on the same rows.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LooDifference {
    /// The expected log predictive density of the first model minus that of the second.
    pub elpd: f64,
    /// Its standard error, including that of the sample.
    pub se: f64,
}

impl Loo {
    /// The difference of two models that were checked on the same rows; `None` if the sampled rows differ.
    pub fn minus(&self, other: &Loo) -> Option<LooDifference> {
        let same = self.rows == other.rows
            && self.pointwise.len() == other.pointwise.len()
            && self.pointwise.iter().zip(&other.pointwise).all(|(a, b)| a.0 == b.0);
        if !same || self.pointwise.len() < 2 {
            return None;
        }
        let pairs = || self.pointwise.iter().zip(&other.pointwise);
        let of_rows: Vec<f64> = pairs().map(|(a, b)| a.1 - b.1).collect();
        let of_errors: Vec<f64> = pairs().map(|(a, b)| (a.1 - a.2) - (b.1 - b.2)).collect();
        let (n, m) = (self.rows, self.pointwise.len() as f64);
        let by_sample = n * n * (1.0 - m / n).max(0.0) * variance(&of_errors) / m;
        Some(LooDifference { elpd: self.elpd - other.elpd, se: (n * variance(&of_rows) + by_sample).sqrt() })
    }
}

fn variance(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)
}

/// A row of the sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SampledRow {
    /// The rows with the smallest keys are the sample.
    key: u64,
    position: u64,
    /// The point `z = y·x`.
    z: Vec<f64>,
    /// `π̃`.
    log_density: f64,
}

/// A uniform sample of the rows without replacement, which does not depend on the order in which they are seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sample {
    size: usize,
    rows: Vec<SampledRow>,
    /// The largest key of a row that can still belong to the sample.
    bound: Option<u64>,
}

impl Sample {
    pub fn new(size: usize) -> Sample {
        Sample { size, rows: Vec::new(), bound: None }
    }

    /// Adds a row `x` of a tile with its sign and log-density.
    pub fn add(&mut self, tile: &Tile<'_>, r: usize, sign: f64, position: u64, log_density: f64) {
        let key = mix64(mix64(position) ^ 0x5ee3_a11e_57ad_0b5e);
        if self.rows.len() >= 2 * self.size.max(1) {
            self.shrink();
        }
        if self.bound.is_some_and(|bound| key > bound) {
            return;
        }
        let z = tile.z.iter().map(|column| sign * column[r]).collect();
        self.rows.push(SampledRow { key, position, z, log_density });
    }

    /// Keeps the rows with the smallest keys, in their order.
    fn shrink(&mut self) {
        self.rows.sort_by_key(|row| (row.key, row.position));
        self.rows.truncate(self.size);
        if self.rows.len() == self.size {
            self.bound = self.rows.last().map(|last| last.key);
        }
    }

    pub fn merge(&mut self, next: Sample) {
        self.rows.extend(next.rows);
        self.shrink();
    }

    /// The estimate for `rows` rows with these sums of `π̃` and `π̃²`, from draws on the model's scale.
    pub fn estimate(mut self, theta: &[Vec<f64>], rows: u64, sum: f64, squares: f64) -> Option<Loo> {
        self.shrink();
        self.rows.sort_by_key(|row| row.position);
        let found: Option<Vec<Found>> = self.rows.iter().map(|row| left_out(&row.z, theta)).collect();
        let found = found.filter(|found| found.len() > 1)?;
        let (n, m) = (rows as f64, found.len() as f64);
        let pairs = || self.rows.iter().zip(&found);
        let errors: Vec<f64> = pairs().map(|(row, found)| found.elpd - row.log_density).collect();
        let total_error = n / m * errors.iter().sum::<f64>();
        let elpd = sum + total_error;
        let by_sample = n * n * (1.0 - m / n).max(0.0) * variance(&errors) / m;
        // Equations (8) and (9) of Magnusson et al. (2020), with the sign of their program in the first term.
        let square_error =
            n / m * pairs().map(|(row, found)| found.elpd.powi(2) - row.log_density.powi(2)).sum::<f64>();
        let spread =
            squares + square_error - (total_error.powi(2) - by_sample + 2.0 * sum * elpd - sum * sum) / n;
        Some(Loo {
            elpd,
            se: spread.max(0.0).sqrt(),
            sampling_error: by_sample.sqrt(),
            effective_parameters: n / m * found.iter().map(|found| found.lpd - found.elpd).sum::<f64>(),
            sampled: found.len(),
            unreliable: found
                .iter()
                .filter(|found| found.k_hat > LARGEST_K && found.k_hat.is_finite())
                .count(),
            rows: n,
            pointwise: pairs().map(|(row, found)| (row.position, found.elpd, row.log_density)).collect(),
        })
    }
}

struct Found {
    elpd: f64,
    lpd: f64,
    k_hat: f64,
}

/// The log predictive density of a row `z`, without and with its own contribution to the posterior.
fn left_out(z: &[f64], theta: &[Vec<f64>]) -> Option<Found> {
    let values: Vec<f64> = theta
        .iter()
        .map(|theta| -softplus_and_slope(z.iter().zip(theta).map(|(z, theta)| z * theta).sum::<f64>()).0)
        .collect();
    let ratios: Vec<f64> = values.iter().map(|value| -value).collect();
    let psis = Psis::of(&ratios)?;
    let weighted: Vec<f64> =
        psis.log_weights.iter().zip(&values).map(|(weight, value)| weight + value).collect();
    let lpd = log_sum_exp(&values) - ln(values.len() as f64);
    Some(Found { elpd: log_sum_exp(&weighted), lpd, k_hat: psis.k_hat })
}

fn log_sum_exp(x: &[f64]) -> f64 {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + ln(x.iter().map(|x| exp(x - largest)).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::points::{Lane, TILE};
    use crate::encoding::survey::tests::numbers;

    /// Rows `x` with labels, draws around (0.5, −1), and the log predictive densities of the rows.
    fn model(rows: usize) -> (Vec<[f64; 2]>, Vec<Vec<f64>>, Vec<f64>) {
        let (x, u, noise) = (numbers(rows, 1), numbers(rows, 2), numbers(2000, 3));
        let points: Vec<[f64; 2]> = x
            .iter()
            .zip(&u)
            .map(|(x, u)| {
                let sign = if (u + 1.0) / 3.0 < 1.0 / (1.0 + (-0.5 + x).exp()) { 1.0 } else { -1.0 };
                [sign, sign * x]
            })
            .collect();
        let theta: Vec<Vec<f64>> = noise
            .chunks(2)
            .map(|pair| vec![0.5 + 0.1 * (pair[0] - 0.5), -1.0 + 0.1 * (pair[1] - 0.5)])
            .collect();
        let lpd = points.iter().map(|z| left_out(z, &theta).expect("densities").lpd).collect();
        (points, theta, lpd)
    }

    fn sample(points: &[[f64; 2]], lpd: &[f64], size: usize) -> Sample {
        let mut sample = Sample::new(size);
        for (start, chunk) in points.chunks(TILE).enumerate() {
            let mut z = vec![Lane::ZERO; 2];
            for (r, point) in chunk.iter().enumerate() {
                (z[0][r], z[1][r]) = (point[0], point[1]);
            }
            let tile = Tile { z: &z, w: &Lane::of(1.0), len: chunk.len() };
            for r in 0..chunk.len() {
                let row = start * TILE + r;
                sample.add(&tile, r, 1.0, row as u64, lpd[row]);
            }
        }
        sample
    }

    #[test]
    fn all_rows_give_the_plain_sums() {
        let (points, theta, lpd) = model(400);
        let (sum, squares) = (lpd.iter().sum(), lpd.iter().map(|x| x * x).sum());
        let loo = sample(&points, &lpd, 1000).estimate(&theta, 400, sum, squares).expect("an estimate");
        let elpd: Vec<f64> = points.iter().map(|z| left_out(z, &theta).expect("densities").elpd).collect();
        let total: f64 = elpd.iter().sum();
        assert!((loo.elpd - total).abs() < 1e-9 && loo.sampling_error == 0.0 && loo.sampled == 400);
        let mean = total / 400.0;
        let se = elpd.iter().map(|x| (x - mean).powi(2)).sum::<f64>().sqrt();
        assert!((loo.se - se).abs() < 1e-6, "{} {se}", loo.se);
        assert!((loo.effective_parameters - (sum - total)).abs() < 1e-9);
    }

    #[test]
    fn a_sample_is_within_its_error() {
        let (points, theta, lpd) = model(4000);
        let (sum, squares) = (lpd.iter().sum(), lpd.iter().map(|x| x * x).sum());
        let all = sample(&points, &lpd, 4000).estimate(&theta, 4000, sum, squares).expect("an estimate");
        let some = sample(&points, &lpd, 200).estimate(&theta, 4000, sum, squares).expect("an estimate");
        // Fixed rows; four standard errors are exceeded in 6e-5 of all samples.
        assert!((some.elpd - all.elpd).abs() < 4.0 * some.sampling_error, "{some:?}");
        assert!(some.sampled == 200 && some.sampling_error > 0.0 && (some.se / all.se - 1.0).abs() < 0.05);
        // Parts merge to the same sample.
        let mut parts = sample(&points[..1280], &lpd, 200);
        let mut rest = Sample::new(200);
        for (row, point) in points.iter().enumerate().skip(1280) {
            let z = [point[0], point[1]].map(Lane::of);
            rest.add(&Tile { z: &z, w: &Lane::of(1.0), len: 1 }, 0, 1.0, row as u64, lpd[row]);
        }
        parts.merge(rest);
        let merged = parts.estimate(&theta, 4000, sum, squares).expect("an estimate");
        assert_eq!(merged.elpd.to_bits(), some.elpd.to_bits());
    }

    #[test]
    fn a_model_differs_from_a_worse_one_by_more_than_the_error() {
        let (points, theta, lpd) = model(3000);
        let (sum, squares) = (lpd.iter().sum(), lpd.iter().map(|x| x * x).sum());
        let loo = sample(&points, &lpd, 500).estimate(&theta, 3000, sum, squares).expect("an estimate");
        let flat: Vec<Vec<f64>> = theta.iter().map(|theta| vec![theta[0], 0.0]).collect();
        let lpd: Vec<f64> = points.iter().map(|z| left_out(z, &flat).expect("densities").lpd).collect();
        let (sum, squares) = (lpd.iter().sum(), lpd.iter().map(|x| x * x).sum());
        let worse = sample(&points, &lpd, 500).estimate(&flat, 3000, sum, squares).expect("an estimate");
        let difference = loo.minus(&worse).expect("the same rows");
        assert!(difference.elpd > 5.0 * difference.se, "{difference:?}");
        let none = loo.minus(&loo).expect("the same rows");
        assert_eq!((none.elpd, none.se), (0.0, 0.0));
    }
}
