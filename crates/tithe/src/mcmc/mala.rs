//! The adaptive Metropolis-adjusted Langevin algorithm (MALA), the paper's sampler, in whitened or plain coordinates.

use super::{Watch, fill_normal, start};
use crate::base::error::Result;
use crate::base::math::{exp, ln, pow};
use crate::base::rng::{Rng, open_unit};
use crate::mcmc::Settings;
use crate::mcmc::draws::{Chain, Stats};
use crate::model::Target;

/// The optimal acceptance rate of Langevin proposals (Roberts and Rosenthal 1998).
const TARGET_ACCEPTANCE: f64 = 0.574;

/// Draws one chain. Proposals are `x + ½h²∇ + hξ`. During warm-up `ln h` adapts to the acceptance rate with step sizes
/// `t^{−0.6}`; afterwards `h` is fixed.
pub(super) fn chain(
    target: &mut dyn Target,
    mut position: Vec<f64>,
    settings: &Settings,
    rng: &mut Rng,
    watch: &Watch<'_>,
) -> Result<Chain> {
    let dim = target.dim();
    let mut gradient = vec![0.0; dim];
    let mut value = start(target, &position, &mut gradient)?;
    let (mut noise, mut proposal, mut new_gradient) = (vec![0.0; dim], vec![0.0; dim], vec![0.0; dim]);
    let mut log_step = -ln(dim.max(1) as f64) / 6.0;
    let mut kept = Chain::default();
    let mut acceptance_rate = Vec::with_capacity(settings.draws);
    let total = settings.warmup + settings.draws;
    for i in 0..total {
        let step = exp(log_step);
        let drift = 0.5 * step * step;
        fill_normal(&mut noise, rng);
        let mut forward = 0.0;
        for d in 0..dim {
            proposal[d] = position[d] + drift * gradient[d] + step * noise[d];
            forward += noise[d] * noise[d];
        }
        let new_value = target.value_and_gradient(&proposal, &mut new_gradient);
        let backward: f64 =
            (0..dim).map(|d| ((position[d] - proposal[d] - drift * new_gradient[d]) / step).powi(2)).sum();
        let log_ratio = new_value - value + 0.5 * (forward - backward);
        // A proposal without a density gives NaN here and is rejected.
        let acceptance = if log_ratio.is_nan() { 0.0 } else { exp(log_ratio.min(0.0)) };
        if open_unit(rng) <= acceptance {
            std::mem::swap(&mut position, &mut proposal);
            std::mem::swap(&mut gradient, &mut new_gradient);
            value = new_value;
        }
        if i < settings.warmup {
            log_step += (acceptance - TARGET_ACCEPTANCE) * pow((i + 1) as f64, -0.6);
        } else {
            target.keep(&position, &mut kept.theta);
            kept.lp.push(value);
            acceptance_rate.push(acceptance);
        }
        watch.iteration(i, total)?;
    }
    kept.stats = Stats::Metropolis { acceptance_rate, step_size: exp(log_step) };
    Ok(kept)
}
