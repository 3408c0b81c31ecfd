//! How accurate a coreset is expected to be under priors other than those of its certificate.
//!
//! The weighted rows match gradient and Hessian, so what they miss grows with the cube of the distance from where they were
//! matched. For a cubic error in one direction, let the other posterior's mode be `δ` standard deviations away and its spread
//! `s` times as large. Then `Var(e)` grows by `s²(0.6δ⁴ + 2.4δ²s² + s⁴) ≤ s²(s² + 1.2δ²)²`, and so does the KL. In other
//! directions it grows less.

use crate::base::error::{Help, Operation, Remedy, Result, Setting};
use crate::coreset::{CalibrationFacts, Provenance};
use crate::data::points::Points;
use crate::mcmc::findings::{Finding, Trouble};
use crate::model::divergence::Threshold;
use crate::model::{Gaussian, Posterior, Priors};

/// Without a KL to start from, a mode this many standard deviations away is too far.
const FAR: f64 = 2.0;

/// A finding if the coreset is expected to be inaccurate under these priors, whose posterior has this normal approximation.
pub(crate) fn harm_of_priors(
    points: &Points,
    provenance: &Provenance,
    priors: &Priors,
    approximation: &Gaussian,
    names: &[String],
    has_intercept: bool,
) -> Result<Option<Finding>> {
    let Some(CalibrationFacts { priors: choice, .. }) = &provenance.calibration else { return Ok(None) };
    let certified_priors = choice.priors(names, has_intercept)?;
    if *priors == certified_priors {
        return Ok(None);
    }
    let certified = Posterior::new(points, &certified_priors)?.laplace()?;
    let change = Change::between(&certified, approximation);
    let expected = certified_kl(provenance).map(|kl| kl * change.growth());
    let is_harmless = match expected {
        Some(kl) => kl <= Threshold::GOOD.kl,
        None => change.distance <= FAR,
    };
    if is_harmless {
        return Ok(None);
    }
    let lost = expected.map_or("is not known".to_string(), |kl| format!("may be {kl:.2} nats"));
    Ok(Some(Finding {
        what: Trouble::PriorMovesMode,
        how_much: format!(
            "the coreset was calibrated for priors {}, and these move the mode {:.1} standard deviations away, most for '{}': its \
             error there {lost}",
            choice.general, change.distance, names[change.coefficient]
        ),
        what_to_do: Help::from([
            Remedy::using("build it for these priors", Setting::Prior),
            Remedy::run("check the draws", Operation::Verify),
        ]),
    }))
}

/// The KL at draws from the certified posterior, two standard errors added; `None` if it was not measured.
fn certified_kl(provenance: &Provenance) -> Option<f64> {
    if provenance.exact {
        return Some(0.0);
    }
    if let Some(composition) = &provenance.composition {
        return composition
            .kl
            .filter(|_| !composition.movement.is_some_and(|movement| movement.is_outside()));
    }
    let found = &provenance.calibration.as_ref()?.certificate.by_draws.as_ref()?.discrepancy;
    Some(found.kl + 2.0 * found.kl_error)
}

/// From one posterior to another, in units of the first.
struct Change {
    /// The distance of the modes, in standard deviations.
    distance: f64,
    /// The coefficient that moves the most.
    coefficient: usize,
    /// The largest ratio of standard deviations; at least 1.
    widening: f64,
}

impl Change {
    fn between(from: &Gaussian, to: &Gaussian) -> Change {
        let dim = from.dim();
        let mut xi = vec![0.0; dim];
        from.whiten(to.mean(), &mut xi);
        let distance = xi.iter().map(|x| x * x).sum::<f64>().sqrt();
        let moved = |i: &usize| (to.mean()[*i] - from.mean()[*i]).abs() / from.sd(*i);
        let coefficient = (0..dim).max_by(|a, b| moved(a).total_cmp(&moved(b))).unwrap_or(0);
        let widening = (0..dim).map(|i| to.sd(i) / from.sd(i)).fold(1.0, f64::max);
        Change { distance, coefficient, widening }
    }

    /// The factor by which the KL may grow.
    fn growth(&self) -> f64 {
        let (squared_width, squared_distance) = (self.widening.powi(2), self.distance.powi(2));
        squared_width * (squared_width + 1.2 * squared_distance).powi(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;

    #[test]
    fn the_growth_is_that_of_a_cubic_error() {
        // Var((δ + sη)³)/Var(η³) by sums over a fine grid of normal η.
        let variance = |delta: f64, s: f64| {
            let (mut sums, mut total) = ([0.0; 2], 0.0);
            for k in -8000..=8000 {
                let eta = f64::from(k) * 1e-3;
                let weight = (-0.5 * eta * eta).exp();
                let e = (delta + s * eta).powi(3);
                sums = [sums[0] + weight * e, sums[1] + weight * e * e];
                total += weight;
            }
            sums[1] / total - (sums[0] / total).powi(2)
        };
        let from = Gaussian::standard(1);
        for (delta, s) in [(0.0, 1.0), (0.0, 2.0), (1.0, 1.0), (3.0, 1.0), (2.0, 1.5), (6.0, 1.0)] {
            let to = Gaussian::from_precision(vec![delta], Mat::from_fn(1, 1, |_, _| 1.0 / (s * s)))
                .expect("positive definite");
            let (bound, exact) =
                (Change::between(&from, &to).growth(), variance(delta, s) / variance(0.0, 1.0));
            assert!((0.999..3.0).contains(&(bound / exact)), "δ = {delta}, s = {s}: {bound} for {exact}");
        }
    }
}
