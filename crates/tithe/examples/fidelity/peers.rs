//! Two methods from the literature to weight uniformly selected rows, for comparison.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use rand_distr::{Distribution, StandardNormal};
use tithe::base::error::Result;
use tithe::base::rng::{Purpose, Seed};
use tithe::coreset::Coreset;
use tithe::data::block::{Column, RowSet, Segment};
use tithe::engine::Engine;
use tithe::mode::values::log_likelihoods;
use tithe::model::{Gaussian, Posterior, Prior, Priors};
use tithe::results::fit::laplace_of_data;

/// Number of draws per step of the quasi-Newton refinement.
const DRAWS: usize = 300;
/// Number of steps of the quasi-Newton refinement.
const STEPS: usize = 8;

fn priors(dim: usize) -> Priors {
    Priors::same(Prior::Normal { scale: 2.0 }, dim)
}

/// `1/(1+eˢ)` and `ln(1+e⁻ˢ)`.
fn pull_and_loss(s: f64) -> (f64, f64) {
    let e = (-s.abs()).exp();
    (if s > 0.0 { e } else { 1.0 } / (1.0 + e), (-s).max(0.0) + e.ln_1p())
}

/// Gradient matching: the weights closest to uniform ones for which the coreset has the same gradient as the full data at the
/// mode of the full data, in whitened coordinates. `w = w⁰ ∘ max(0, 1 + Vᵀλ)`; semismooth Newton steps find `λ`.
pub fn match_gradients(engine: &impl Engine, uniform: &Coreset) -> Result<Coreset> {
    let points = uniform.points()?;
    let (dim, count) = (points.dim(), points.len());
    let full = laplace_of_data(engine, &uniform.encoding, &priors(dim))?;
    // V: the whitened gradients of the rows. At the mode, the gradient of the full data is minus the gradient of the prior.
    let whitened = |gradient: &[f64]| {
        let mut into = vec![0.0; dim];
        full.whiten_gradient(gradient, &mut into);
        into
    };
    let mut columns = Mat::zeros(dim, count);
    for m in 0..count {
        let z = points.row(m);
        let (pull, _) = pull_and_loss(z.iter().zip(full.mean()).map(|(z, t)| z * t).sum());
        let column = whitened(&z.iter().map(|z| pull * z).collect::<Vec<_>>());
        (0..dim).for_each(|i| columns[(i, m)] = column[i]);
    }
    let target = whitened(&full.mean().iter().map(|t| 0.25 * t).collect::<Vec<_>>());
    let reference = points.weights();
    let mut lambda = Mat::<f64>::zeros(dim, 1);
    let mut weights = reference.clone();
    for _ in 0..50 {
        let mut system = Mat::<f64>::identity(dim, dim) * 1e-9;
        let mut residual = Mat::from_fn(dim, 1, |i, _| target[i]);
        for m in 0..count {
            let column = columns.col(m);
            (0..dim).for_each(|i| residual[(i, 0)] -= weights[m] * column[i]);
            if weights[m] > 0.0 {
                for i in 0..dim {
                    (0..dim).for_each(|j| system[(i, j)] += reference[m] * column[i] * column[j]);
                }
            }
        }
        if residual.norm_l2() < 1e-9 {
            break;
        }
        let Ok(factor) = system.llt(Side::Lower) else { break };
        lambda += factor.solve(residual);
        let tilts = columns.transpose() * &lambda;
        weights = (0..count).map(|m| reference[m] * (1.0 + tilts[(m, 0)]).max(0.0)).collect();
    }
    Ok(with_weights(uniform, &weights))
}

/// Quasi-Newton refinement (Naik, Rousseau and Campbell 2022): steps `w ← max(0, w + (G + τI)⁻¹ Cov[g, f − gᵀw])` with
/// `G = Cov[g, g]`, `g` the log-likelihoods of the rows and `f` that of the full data, at draws from the coreset's posterior. Here the draws
/// are from its Laplace approximation, and `f` is exact, which takes one pass per step.
pub fn quasi_newton(engine: &impl Engine, uniform: &Coreset, seed: Seed) -> Result<Coreset> {
    let mut points = uniform.points()?;
    let (dim, count) = (points.dim(), points.len());
    let priors = priors(dim);
    for step in 0..STEPS {
        let own = Posterior::new(&points, &priors)?.laplace()?;
        let draws = draws_of(&own, seed, step as u64);
        let (full, _) = log_likelihoods(engine, &uniform.encoding, &draws)?;
        // One column per draw and one row per coreset row; each row is centred and divided by √S.
        let mut g = Mat::zeros(count, DRAWS);
        for m in 0..count {
            let z = points.row(m);
            for (s, theta) in draws.iter().enumerate() {
                g[(m, s)] = -pull_and_loss(z.iter().zip(theta).map(|(z, t)| z * t).sum()).1;
            }
            let mean = (0..DRAWS).map(|s| g[(m, s)]).sum::<f64>() / DRAWS as f64;
            (0..DRAWS).for_each(|s| g[(m, s)] = (g[(m, s)] - mean) / (DRAWS as f64).sqrt());
        }
        let mean = full.iter().sum::<f64>() / DRAWS as f64;
        let weights = points.weights();
        let current = g.transpose() * Mat::from_fn(count, 1, |m, _| weights[m]);
        let residual =
            Mat::from_fn(DRAWS, 1, |s, _| (full[s] - mean) / (DRAWS as f64).sqrt() - current[(s, 0)]);
        // (τI + BBᵀ)⁻¹B e = B(τI + BᵀB)⁻¹e, of dimension S.
        let mut inner = g.transpose() * &g;
        let tau = 1e-4 * (0..DRAWS).map(|s| inner[(s, s)]).sum::<f64>() / DRAWS as f64;
        (0..DRAWS).for_each(|s| inner[(s, s)] += tau);
        let Ok(factor) = inner.llt(Side::Lower) else { break };
        let change = &g * factor.solve(residual);
        let new: Vec<f64> = (0..count).map(|m| (weights[m] + change[(m, 0)]).max(0.0)).collect();
        points.set_weights(&new);
    }
    Ok(with_weights(uniform, &points.weights()))
}

fn draws_of(gaussian: &Gaussian, seed: Seed, index: u64) -> Vec<Vec<f64>> {
    let mut rng = seed.stream(Purpose::Search, index);
    let mut draw = || {
        let xi: Vec<f64> = (0..gaussian.dim()).map(|_| StandardNormal.sample(&mut rng)).collect();
        let mut theta = vec![0.0; xi.len()];
        gaussian.unwhiten(&xi, &mut theta);
        theta
    };
    (0..DRAWS).map(|_| draw()).collect()
}

/// The coreset with new weights; rows with weight 0 are removed.
fn with_weights(coreset: &Coreset, weights: &[f64]) -> Coreset {
    let kept: Vec<usize> = (0..weights.len()).filter(|&m| weights[m] > 0.0).collect();
    let columns = coreset.rows.segment.columns.iter().map(|column| match column {
        Column::Number(values) => Column::Number(kept.iter().map(|&row| values[row]).collect()),
        Column::Text { codes, levels } => {
            Column::Text { codes: kept.iter().map(|&row| codes[row]).collect(), levels: levels.clone() }
        }
    });
    Coreset {
        rows: RowSet {
            segment: Segment { columns: columns.collect(), len: kept.len() },
            positions: kept.iter().map(|&row| coreset.rows.positions[row]).collect(),
        },
        weights: kept.iter().map(|&row| weights[row]).collect(),
        ..coreset.clone()
    }
}
