//! The weights nearest to the sampled ones whose features add up to the target.
//!
//! Minimises `½‖Fᵀw − b‖²/ρ + ½ Σ (w_n − w⁰_n)²/w⁰_n` over `w ≥ 0`: the calibration estimator of survey sampling (Deville and Särndal
//! 1992). The dual has one variable per feature: `w = w⁰ max(0, 1 + F λ)`, and λ minimises the convex
//! `½ Σ w⁰ max(0, 1 + F λ)² − b·λ + ½ ρ ‖λ‖²`. Its Hessian `Fᵀ diag(w⁰) F + ρ` over the rows of positive weight has the shape of an
//! arrow, because rows of different groups share only the last features.

use rayon::prelude::*;

use crate::coreset::hierarchical::features::SparseFeatures;
use crate::model::arrow::{Arrow, ArrowShape};

/// ρ: the residual is ρ times the multipliers, which grow with the number of rows per group.
const RIDGE: f64 = 1e-9;
/// The search ends where `‖∇‖²` is below this: far below the KL of any coreset.
const ENOUGH: f64 = 1e-12;
const MOST_STEPS: usize = 60;
const MOST_HALVINGS: usize = 40;

/// The state of the dual at some multipliers.
struct Dual {
    value: f64,
    gradient: Vec<f64>,
    weights: Vec<f64>,
}

/// The weights nearest to `reference` whose features add up to `target`, as nearly as weights of at least 0 can.
pub(crate) fn nearest_weights(features: &SparseFeatures, target: &[f64], reference: &[f64]) -> Vec<f64> {
    let mut lambda = vec![0.0; target.len()];
    let mut here = Dual::at(features, target, reference, &lambda);
    for _ in 0..MOST_STEPS {
        if here.gradient.iter().map(|x| x * x).sum::<f64>() <= ENOUGH {
            break;
        }
        let Some(factor) = hessian(features, reference, &here.weights).factor() else { break };
        let step = factor.solve(&here.gradient);
        let slope: f64 = step.iter().zip(&here.gradient).map(|(s, g)| s * g).sum();
        let mut fraction = 1.0;
        let mut next = None;
        for _ in 0..MOST_HALVINGS {
            let ahead: Vec<f64> = lambda.iter().zip(&step).map(|(l, s)| l - fraction * s).collect();
            let there = Dual::at(features, target, reference, &ahead);
            if there.value <= here.value - 1e-4 * fraction * slope {
                next = Some((ahead, there));
                break;
            }
            fraction *= 0.5;
        }
        // Rounding hides any further gain.
        let Some((ahead, there)) = next else { break };
        (lambda, here) = (ahead, there);
    }
    here.weights
}

impl Dual {
    fn at(features: &SparseFeatures, target: &[f64], reference: &[f64], lambda: &[f64]) -> Dual {
        let ArrowShape { width, .. } = features.shape;
        let (own, shared) = lambda.split_at(features.shape.effects());
        let weights: Vec<f64> = (0..features.len())
            .into_par_iter()
            .map(|row| {
                let start = features.group[row] as usize * width;
                let of_own: f64 = features.own(row).iter().zip(&own[start..]).map(|(f, l)| f * l).sum();
                let of_shared: f64 = features.shared(row).iter().zip(shared).map(|(f, l)| f * l).sum();
                reference[row] * (1.0 + of_own + of_shared).max(0.0)
            })
            .collect();
        let mut gradient = features.weighted_sum(&weights);
        let mut value = 0.0;
        for ((gradient, b), l) in gradient.iter_mut().zip(target).zip(lambda) {
            *gradient += RIDGE * l - b;
            value += 0.5 * RIDGE * l * l - b * l;
        }
        let kept = weights.iter().zip(reference).filter(|(w, _)| **w > 0.0);
        value += 0.5 * kept.map(|(w, w0)| w * (w / w0)).sum::<f64>();
        Dual { value, gradient, weights }
    }
}

/// Rows whose products one thread sums.
const CHUNK: usize = 4096;

/// `Σ w⁰ F Fᵀ + ρ` over the rows of positive weight.
fn hessian(features: &SparseFeatures, reference: &[f64], weights: &[f64]) -> Arrow {
    let ArrowShape { width, dim, .. } = features.shape;
    let mut arrow = Arrow::zeros(features.shape);
    for row in (0..features.len()).filter(|&row| weights[row] > 0.0) {
        let (group, own, shared) = (features.group[row] as usize, features.own(row), features.shared(row));
        let block = arrow.block_mut(group);
        for (i, f) in own.iter().enumerate() {
            let scaled = reference[row] * f;
            add_multiple(&mut block[i * width..(i + 1) * width], scaled, own);
        }
        let border = arrow.border_mut(group);
        for (i, f) in own.iter().enumerate() {
            add_multiple(&mut border[i * dim..(i + 1) * dim], reference[row] * f, shared);
        }
    }
    let corner = |rows: &[usize]| {
        let mut sum = vec![0.0; dim * dim];
        for &row in rows.iter().filter(|&&row| weights[row] > 0.0) {
            let shared = features.shared(row);
            for (i, f) in shared.iter().enumerate() {
                add_multiple(&mut sum[i * dim..(i + 1) * dim], reference[row] * f, shared);
            }
        }
        sum
    };
    let rows: Vec<usize> = (0..features.len()).collect();
    for some in rows.chunks(16 * CHUNK) {
        for sum in some.par_chunks(CHUNK).map(corner).collect::<Vec<_>>() {
            for j in 0..dim {
                add_multiple(arrow.corner_mut().col_as_slice_mut(j), 1.0, &sum[j * dim..(j + 1) * dim]);
            }
        }
    }
    for group in 0..features.shape.groups {
        let block = arrow.block_mut(group);
        (0..width).for_each(|i| block[i * width + i] += RIDGE);
    }
    (0..dim).for_each(|i| arrow.corner_mut()[(i, i)] += RIDGE);
    arrow
}

fn add_multiple(target: &mut [f64], factor: f64, source: &[f64]) {
    target.iter_mut().zip(source).for_each(|(target, source)| *target += factor * source);
}
