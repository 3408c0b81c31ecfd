//! Nearest weights: the non-negative weights closest to the reference ones whose features add up to the target.

use faer::linalg::matmul::triangular::{BlockStructure, matmul as matmul_triangular};
use faer::linalg::solvers::Solve;
use faer::{Accum, Mat, Par, Side};

use super::features::{LocalFeatures, LocalSum};

/// How to solve for weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightSettings {
    /// What a change of all weights by their own size costs, in nats.
    pub nearness: f64,
    /// Stop when a step promises less than this share of the objective.
    pub relative: f64,
    /// Stop when a step promises less than this, in nats.
    pub absolute: f64,
    /// At most this many Newton steps.
    pub steps: usize,
}

impl Default for WeightSettings {
    fn default() -> WeightSettings {
        WeightSettings { nearness: 1e-6, relative: 1e-3, absolute: 1e-12, steps: 50 }
    }
}

/// Weights and how well they meet the target.
#[derive(Clone, Debug)]
pub struct Weights {
    /// The weights, none negative.
    pub weights: Vec<f64>,
    /// `b − Aw`.
    pub residual: LocalSum,
    /// Newton steps taken.
    pub steps: usize,
    /// Products with `A` and `Aᵀ`.
    pub products: usize,
}

/// Minimises `‖Aw − b‖² + ρ Σ (w_m − w⁰_m)²/w⁰_m` over `w ≥ 0`, `ρ = nearness / Σ w⁰`.
pub fn nearest_weights(
    features: &LocalFeatures,
    target: &LocalSum,
    reference: &[f64],
    start: &[f64],
    settings: &WeightSettings,
) -> Weights {
    if features.feature_count() <= features.len().min(600) {
        by_dual(features, target, reference, settings)
    } else {
        by_primal(features, target, reference, start, settings)
    }
}

fn by_dual(f: &LocalFeatures, target: &LocalSum, reference: &[f64], settings: &WeightSettings) -> Weights {
    let d = f.feature_count();
    let count = f.len();
    let rho = settings.nearness / reference.iter().sum::<f64>();
    let dense = f.dense();
    let b = target.to_vec();
    let mut lambda = vec![0.0; d];
    let mut mu = vec![0.0; count];
    let value = |lambda: &[f64], mu: &[f64]| {
        let penalty: f64 =
            reference.iter().zip(mu).map(|(w, m)| 0.5 * w * (1.0 + m).max(0.0).powi(2)).sum();
        let linear: f64 = lambda.iter().zip(&b).map(|(l, b)| l * b).sum();
        let square: f64 = lambda.iter().map(|l| l * l).sum();
        penalty - linear + 0.5 * rho * square
    };
    let mut now = value(&lambda, &mu);
    let mut steps = 0;
    let mut active: Vec<bool> = vec![true; count];
    while steps < settings.steps {
        steps += 1;
        // (ρI + A_S W_S A_Sᵀ) λ⁺ = b − A_S w⁰_S
        let mut scaled = Mat::zeros(d, count);
        let mut rhs = Mat::from_fn(d, 1, |i, _| b[i]);
        for m in 0..count {
            if active[m] {
                let column = dense.col_as_slice(m);
                let root = reference[m].sqrt();
                scaled.col_as_slice_mut(m).iter_mut().zip(column).for_each(|(s, a)| *s = root * a);
                rhs.col_as_slice_mut(0).iter_mut().zip(column).for_each(|(r, a)| *r -= reference[m] * a);
            }
        }
        let mut jacobian = Mat::zeros(d, d);
        matmul_triangular(
            jacobian.as_mut(),
            BlockStructure::TriangularLower,
            Accum::Replace,
            scaled.as_ref(),
            BlockStructure::Rectangular,
            scaled.transpose(),
            BlockStructure::Rectangular,
            1.0,
            Par::Seq,
        );
        for i in 0..d {
            jacobian[(i, i)] += rho;
        }
        let Ok(factor) = jacobian.llt(Side::Lower) else { break };
        factor.solve_in_place(rhs.as_mut());
        let step: Vec<f64> = (0..d).map(|i| rhs[(i, 0)] - lambda[i]).collect();
        let step_mu: Vec<f64> = (0..count)
            .map(|m| dense.col_as_slice(m).iter().zip(&step).map(|(a, s)| a * s).sum())
            .collect();
        let mut t = 1.0;
        let mut moved = false;
        for _ in 0..30 {
            let l: Vec<f64> = lambda.iter().zip(&step).map(|(a, s)| a + t * s).collect();
            let m: Vec<f64> = mu.iter().zip(&step_mu).map(|(a, s)| a + t * s).collect();
            let next = value(&l, &m);
            if next <= now {
                moved = next < now;
                now = next;
                lambda = l;
                mu = m;
                break;
            }
            t *= 0.5;
        }
        let next_active: Vec<bool> = mu.iter().map(|m| 1.0 + m > 0.0).collect();
        let same = next_active == active;
        active = next_active;
        if !moved || (same && t == 1.0) {
            break;
        }
    }
    let weights: Vec<f64> = reference.iter().zip(&mu).map(|(w, m)| w * (1.0 + m).max(0.0)).collect();
    let residual = target.minus(&f.sum(&weights));
    Weights { weights, residual, steps, products: 0 }
}

fn by_primal(
    f: &LocalFeatures,
    target: &LocalSum,
    reference: &[f64],
    start: &[f64],
    settings: &WeightSettings,
) -> Weights {
    let count = f.len();
    let rho = settings.nearness / reference.iter().sum::<f64>();
    let norms = f.norms_squared();
    let scale: Vec<f64> = (0..count).map(|m| 1.0 / (norms[m] + rho / reference[m]).sqrt()).collect();
    let mut products = 0;
    let mut v: Vec<f64> = (0..count).map(|m| start[m] / scale[m]).collect();
    let to_weights = |v: &[f64]| -> Vec<f64> { v.iter().zip(&scale).map(|(v, s)| v * s).collect() };
    // Gradient of ½‖Aw−b‖² + ½ρ Σ(w−w⁰)²/w⁰ with respect to v, and its value.
    let evaluate = |v: &[f64]| {
        let w = to_weights(v);
        let residual = target.minus(&f.sum(&w));
        let scores = f.scores(&residual);
        let mut value = 0.5 * residual.norm_squared();
        let gradient: Vec<f64> = (0..count)
            .map(|m| {
                let change = w[m] - reference[m];
                value += 0.5 * rho * change * change / reference[m];
                scale[m] * (rho * change / reference[m] - scores[m])
            })
            .collect();
        (value, gradient, residual)
    };
    let (mut value, mut gradient, mut residual) = evaluate(&v);
    products += 1;
    let mut steps = 0;
    while steps < settings.steps {
        steps += 1;
        let free: Vec<bool> = (0..count).map(|m| v[m] > 0.0 || gradient[m] < 0.0).collect();
        // Conjugate gradients for Q_FF p = −g_F.
        let mut p = vec![0.0; count];
        let mut r: Vec<f64> = (0..count).map(|m| if free[m] { -gradient[m] } else { 0.0 }).collect();
        let mut q = r.clone();
        let norm0: f64 = r.iter().map(|x| x * x).sum();
        let mut norm = norm0;
        let mut promised = 0.0;
        for _ in 0..60 {
            if norm <= 1e-2 * norm0 || norm == 0.0 {
                break;
            }
            let w = to_weights(&q);
            let scores = f.scores(&f.sum(&w));
            products += 1;
            let image: Vec<f64> = (0..count)
                .map(|m| if free[m] { scale[m] * (scores[m] + rho * w[m] / reference[m]) } else { 0.0 })
                .collect();
            let curvature: f64 = q.iter().zip(&image).map(|(a, b)| a * b).sum();
            if curvature <= 0.0 {
                break;
            }
            let alpha = norm / curvature;
            let gain = 0.5 * alpha * norm;
            promised += gain;
            let mut next = 0.0;
            for m in 0..count {
                p[m] += alpha * q[m];
                r[m] -= alpha * image[m];
                next += r[m] * r[m];
            }
            let beta = next / norm;
            norm = next;
            for m in 0..count {
                q[m] = r[m] + beta * q[m];
            }
        }
        if promised <= settings.relative * value + settings.absolute {
            break;
        }
        let mut t = 1.0;
        let mut moved = false;
        for _ in 0..12 {
            let trial: Vec<f64> = v.iter().zip(&p).map(|(v, p)| (v + t * p).max(0.0)).collect();
            let (next, g, res) = evaluate(&trial);
            products += 1;
            let slope: f64 = (0..count).map(|m| gradient[m] * (trial[m] - v[m])).sum();
            if next <= value + 1e-4 * slope {
                moved = true;
                v = trial;
                value = next;
                gradient = g;
                residual = res;
                break;
            }
            t *= 0.5;
        }
        if !moved {
            break;
        }
    }
    Weights { weights: to_weights(&v), residual, steps, products }
}
