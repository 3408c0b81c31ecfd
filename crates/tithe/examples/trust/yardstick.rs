//! The fewest rows that a greedy search over all rows finds for a KL, at any cost: what `--kl` is compared with.

use tithe::base::error::Result;
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::encoding::{Coding, Encoding};
use tithe::engine::LocalEngine;
use tithe::model::Gaussian;
use tithe::results::fit::laplace_of_data;

/// The number of rows of all those in `data` (columns by name, the label last) that greedy non-negative least squares needs for a
/// predicted KL of `goal`: it adds the row with the largest gain and solves again. Features are computed here from their
/// definition, and the solver is Lawson and Hanson's (1974).
pub fn greedy_rows(data: &[(String, Vec<f64>)], engine: &LocalEngine<'_>, goal: f64) -> Result<usize> {
    // The encoding and the priors are those of any build.
    let settings = BuildSettings { seed: Seed(0), ..BuildSettings::with_rows(50) };
    let encoding = build_on(engine, &settings)?.coreset.encoding;
    let priors = settings.priors.priors(&encoding.distinct_names()?, encoding.intercept)?;
    let normal = laplace_of_data(engine, &encoding, &priors)?;
    let features = features_of(data, &encoding, &normal);
    let d = features[0].len();
    let mut residual: Vec<f64> = vec![0.0; d];
    features.iter().for_each(|f| residual.iter_mut().zip(f).for_each(|(r, f)| *r += f));
    let target = residual.clone();
    let norms: Vec<f64> = features.iter().map(|f| dot(f, f).sqrt()).collect();
    let (mut rows, mut weights): (Vec<usize>, Vec<f64>) = (Vec::new(), Vec::new());
    while dot(&residual, &residual) > goal {
        let gain = |n: usize| if norms[n] > 0.0 { dot(&features[n], &residual) / norms[n] } else { 0.0 };
        let best = (0..features.len()).map(|n| (gain(n), n)).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, best)) = best.filter(|(gain, n)| *gain > 0.0 && !rows.contains(n)) else { break };
        rows.push(best);
        weights.push(0.0);
        solve(&features, &target, &mut rows, &mut weights);
        residual.clone_from(&target);
        for (row, weight) in rows.iter().zip(&weights) {
            residual.iter_mut().zip(&features[*row]).for_each(|(r, f)| *r -= weight * f);
        }
    }
    Ok(rows.len())
}

/// Least squares on the rows; while a weight would be negative, the step towards the solution ends where the first weight is zero,
/// and that row is dropped.
fn solve(features: &[Vec<f64>], target: &[f64], rows: &mut Vec<usize>, weights: &mut Vec<f64>) {
    loop {
        let next = least_squares(features, target, rows);
        let ratio = |m: usize| weights[m] / (weights[m] - next[m]);
        let first =
            (0..rows.len()).filter(|&m| next[m] <= 0.0).min_by(|&a, &b| ratio(a).total_cmp(&ratio(b)));
        let Some(first) = first else {
            *weights = next;
            return;
        };
        let length = ratio(first).clamp(0.0, 1.0);
        weights.iter_mut().zip(&next).for_each(|(w, next)| *w += length * (next - *w));
        rows.remove(first);
        weights.remove(first);
    }
}

/// By the normal equations and Cholesky's factorization.
fn least_squares(features: &[Vec<f64>], target: &[f64], rows: &[usize]) -> Vec<f64> {
    let count = rows.len();
    let mut lower = vec![vec![0.0; count]; count];
    for i in 0..count {
        for j in 0..=i {
            let mut sum =
                dot(&features[rows[i]], &features[rows[j]]) * if i == j { 1.0 + 1e-12 } else { 1.0 };
            sum -= (0..j).map(|k| lower[i][k] * lower[j][k]).sum::<f64>();
            lower[i][j] = if i == j { sum.max(1e-300).sqrt() } else { sum / lower[j][j] };
        }
    }
    let mut x: Vec<f64> = rows.iter().map(|&row| dot(&features[row], target)).collect();
    for i in 0..count {
        x[i] = (x[i] - (0..i).map(|k| lower[i][k] * x[k]).sum::<f64>()) / lower[i][i];
    }
    for i in (0..count).rev() {
        x[i] = (x[i] - (i + 1..count).map(|k| lower[k][i] * x[k]).sum::<f64>()) / lower[i][i];
    }
    x
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `[g·u/√2; (h/2)·svec(u uᵀ)]` of every row.
fn features_of(data: &[(String, Vec<f64>)], encoding: &Encoding, normal: &Gaussian) -> Vec<Vec<f64>> {
    let dim = normal.dim();
    let columns = &data[..data.len() - 1];
    let labels = &data[data.len() - 1].1;
    let row_of = |n: usize| -> Vec<f64> {
        let y = if labels[n] > 0.0 { 1.0 } else { -1.0 };
        let raw = |c: usize| columns[c].1[n];
        let encoded = encoding.features.iter().enumerate().map(|(c, feature)| match &feature.coding {
            Coding::Number { center, scale } => (raw(c) - center) / scale,
            Coding::Indicator { center } => raw(c) - center,
            _ => raw(c),
        });
        std::iter::once(1.0).chain(encoded).map(|x| x * y).collect()
    };
    (0..labels.len())
        .map(|n| {
            let z = row_of(n);
            let s = dot(&z, normal.mean());
            let g = -1.0 / (1.0 + s.exp());
            let h = -g * (1.0 + g);
            let mut u = vec![0.0; dim];
            normal.whiten_gradient(&z, &mut u);
            let linear: Vec<f64> = u.iter().map(|u| g * u / 2f64.sqrt()).collect();
            let squares = (0..dim).flat_map(|i| {
                let u = &u;
                (0..=i).map(move |j| 0.5 * h * u[i] * u[j] * if i == j { 1.0 } else { 2f64.sqrt() })
            });
            linear.into_iter().chain(squares.collect::<Vec<_>>()).collect()
        })
        .collect()
}
