//! Newton's method, damped: finds the mode of a log-posterior, whether its likelihood is that of a few points or costs a
//! pass over all data per evaluation.

use faer::Mat;

use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::base::linear::{Cholesky, product};
use crate::base::machine::memory_limit;
use crate::base::math::dot;
use crate::data::points::Points;
use crate::model::likelihood::Curvature;
use crate::model::prior::{Prior, Priors};

/// Maximum number of steps of a search.
const MOST_STEPS: usize = 200;
/// The squared decrement at which a mode is exact to the last digits, for likelihoods that are cheap to evaluate.
pub(crate) const EXACT: f64 = 1e-20;
/// A gain below this fraction of the log-posterior is lost in its rounding.
const VISIBLE: f64 = 1e-11;
/// Where rounding stops the steps, this squared decrement still counts as a mode.
const NEAR_ENOUGH: f64 = 1e-3;
/// Beyond this squared decrement the last step does not predict how the curvature changes on the rest of the way.
const NEAR_AND_STEADY: f64 = 1e-6;
/// Damping at or below which plain Newton steps are tried again.
const LITTLE_DAMPING: f64 = 1e-3;

/// A log-likelihood that can be evaluated.
pub(crate) trait Likelihood {
    /// Value, gradient and negative Hessian at a parameter.
    fn evaluate(&mut self, theta: &[f64]) -> Result<Curvature>;

    /// The smallest weight of a row, among those evaluated.
    fn least_weight(&self) -> f64;

    /// Maximum number of steps.
    fn most_steps(&self) -> usize {
        MOST_STEPS
    }

    /// The search also ends where the curvature is expected to change by no more than this fraction until the mode. For
    /// likelihoods that are cheap to evaluate it is 0.
    fn steady(&self) -> f64 {
        0.0
    }

    /// The last prediction gained little and should not be made again in the same way.
    fn discourage(&mut self) {}

    /// Predicts the mode better than a Newton step does, if it can, from the likelihood as `evaluated` at `theta` and the
    /// squared Newton `decrement` there.
    fn predict(&mut self, _theta: &[f64], _evaluated: &Curvature, _decrement: f64) -> Option<Vec<f64>> {
        None
    }
}

impl Likelihood for &Points {
    fn evaluate(&mut self, theta: &[f64]) -> Result<Curvature> {
        Ok(Curvature::of_points(self, theta))
    }

    fn least_weight(&self) -> f64 {
        self.weights().into_iter().filter(|w| *w > 0.0).fold(f64::INFINITY, f64::min)
    }
}

/// Where a search ended.
pub(crate) struct Mode {
    /// The last parameter that was evaluated.
    pub theta: Vec<f64>,
    /// The likelihood there.
    pub likelihood: Curvature,
    /// The negative log-posterior's Hessian there.
    pub precision: Mat<f64>,
    /// The mode: one more Newton step from `theta`, which costs no evaluation and squares the remaining distance.
    pub mode: Vec<f64>,
}

/// The mode from 0, or for spike-and-slab priors from the mode under the slabs alone: from 0 the spikes would hold every
/// coefficient there.
pub(crate) fn mode_from_afar(likelihood: &mut impl Likelihood, priors: &Priors, near: f64) -> Result<Mode> {
    let slab = |prior: &Prior| match *prior {
        Prior::SpikeSlab { slab, .. } => Prior::Normal { scale: slab },
        other => other,
    };
    let slabs = Priors { coefficients: priors.coefficients.iter().map(slab).collect() };
    let origin = vec![0.0; priors.dim()];
    let first = mode(likelihood, &slabs, origin, near)?;
    if slabs == *priors { Ok(first) } else { mode(likelihood, priors, first.mode, near) }
}

/// The mode of a few points under a normal prior, to the last digits.
pub(crate) fn mode_of_points(mut points: &Points, prior_precision: &[f64], start: Vec<f64>) -> Result<Mode> {
    mode(&mut points, &normal_priors(prior_precision), start, EXACT)
}

/// Normal priors with these precisions.
pub(crate) fn normal_priors(precision: &[f64]) -> Priors {
    Priors { coefficients: precision.iter().map(|p| Prior::Normal { scale: p.sqrt().recip() }).collect() }
}

/// Rejects models whose Hessians do not fit into memory, if each thread sums one.
pub(crate) fn check_memory(dim: usize, threads: usize) -> Result<()> {
    // Every thread sums half a Hessian, 64 bytes per entry, and there are a few whole ones: an evaluation, a factor, a map.
    let bytes = (dim as u64).saturating_pow(2).saturating_mul(32 * threads as u64 + 64);
    if bytes <= memory_limit().unwrap_or(isize::MAX as u64) {
        return Ok(());
    }
    let gigabytes = bytes as f64 / (1u64 << 30) as f64;
    Err(numerical(
        format!("the Hessian of {dim} coefficients needs {gigabytes:.0} GiB of memory, more than there is"),
        [
            Remedy::using("leave columns out", Setting::Exclude),
            Remedy::set(Setting::Method, "sensitivity"),
            Remedy::set(Setting::Method, "uniform"),
        ],
    ))
}

/// Damped Newton steps from `start` until the squared decrement `∇ᵀH⁻¹∇`, which is the squared distance to the mode in
/// posterior standard deviations, is at most `near`, or the curvature is [steady](Likelihood::steady) from here on.
pub(crate) fn mode(
    likelihood: &mut impl Likelihood,
    priors: &Priors,
    start: Vec<f64>,
    near: f64,
) -> Result<Mode> {
    check_memory(start.len(), 1)?;
    let flat = priors.coefficients.iter().any(Prior::is_improper);
    let mut theta = start;
    let mut here = Local::new(likelihood.evaluate(&theta)?, priors, &theta);
    // Levenberg's damping, in units of the Hessian's diagonal: 0 while plain Newton steps succeed.
    let mut damping = 0.0;
    // The last decrement, and whether a prediction led here.
    let (mut last, mut predicted) = (f64::INFINITY, false);
    let mut decrement = f64::NAN;
    // By which fraction the curvature changes per standard deviation, measured on the last step.
    let mut bending = f64::INFINITY;
    for _ in 0..likelihood.most_steps() {
        if !here.value.is_finite() {
            return Err(not_finite());
        }
        // A misclassified row has σ(−s) ≥ ½; if all rows are far below that, θ separates the classes.
        if flat && here.likelihood.misfit < 1e-3 * likelihood.least_weight() {
            return Err(separated());
        }
        let Some(step) = here.step(damping) else {
            if damping > 1e12 {
                return Err(singular(flat));
            }
            damping = (damping * 10.0).max(1e-8);
            continue;
        };
        decrement = step.iter().zip(&here.gradient).map(|(step, slope)| step * slope).sum::<f64>().max(0.0);
        let ahead: Vec<f64> = theta.iter().zip(&step).map(|(theta, step)| theta + step).collect();
        let visible = decrement > VISIBLE * here.value.abs();
        let stuck = !visible && decrement > 0.5 * last && decrement <= NEAR_ENOUGH;
        let steady = decrement <= NEAR_AND_STEADY && bending * decrement.sqrt() <= likelihood.steady();
        if damping == 0.0 && (decrement <= near || steady || stuck) {
            return Ok(Mode { theta, likelihood: here.likelihood, precision: here.precision, mode: ahead });
        }
        // A prediction that gained little is not made twice in a row.
        let gained_little = predicted && decrement > 0.5 * last;
        let prediction = if gained_little {
            likelihood.discourage();
            None
        } else {
            likelihood.predict(&theta, &here.likelihood, decrement)
        };
        let is_prediction = prediction.is_some();
        let next = prediction.unwrap_or(ahead);
        let there = Local::new(likelihood.evaluate(&next)?, priors, &next);
        // Rounding hides smaller gains; where no gain would be visible, a plain Newton step is accepted.
        let noise = 1e-13 * here.value.abs();
        let enough = if is_prediction { 0.0 } else { 1e-4 * decrement };
        let trusted = !visible && damping == 0.0;
        if there.value.is_finite() && (trusted || there.value >= here.value + enough - noise) {
            if likelihood.steady() > 0.0 && near < NEAR_AND_STEADY {
                bending = there.bending_since(&here, &theta, &next);
            }
            (theta, here) = (next, there);
            (last, predicted) = (decrement, is_prediction);
            damping = if is_prediction || damping <= LITTLE_DAMPING { 0.0 } else { damping * 0.1 };
        } else if is_prediction {
            (last, predicted) = (0.0, true);
        } else if damping > 1e12 {
            return Err(not_converged(decrement));
        } else {
            damping = (damping * 10.0).max(LITTLE_DAMPING);
        }
    }
    Err(if flat { separated() } else { not_converged(decrement) })
}

/// The log-posterior's local form.
struct Local {
    value: f64,
    gradient: Vec<f64>,
    /// Of the negative log-posterior.
    precision: Mat<f64>,
    likelihood: Curvature,
}

impl Local {
    fn new(likelihood: Curvature, priors: &Priors, theta: &[f64]) -> Local {
        let dim = theta.len();
        let mut value = likelihood.value;
        let mut gradient = likelihood.gradient.clone();
        let mut precision = Mat::from_fn(dim, dim, |i, j| likelihood.entry(i, j));
        for (i, (prior, &x)) in priors.coefficients.iter().zip(theta).enumerate() {
            let local = prior.smooth_local(x);
            value += local.value;
            gradient[i] += local.slope;
            precision[(i, i)] -= local.bend;
        }
        Local { value, gradient, precision, likelihood }
    }

    /// The change `‖H^{-½} ΔH H^{-½}‖` of the curvature since `earlier`, per standard deviation of the way from `theta` to here.
    fn bending_since(&self, earlier: &Local, theta: &[f64], here: &[f64]) -> f64 {
        let Some(factor) = Cholesky::new(self.precision.as_ref()) else { return f64::INFINITY };
        let change = factor.solve(&self.precision - &earlier.precision);
        let way = Mat::from_fn(theta.len(), 1, |i, _| here[i] - theta[i]);
        // The trace of (H⁻¹ΔH)², which is that of (H^{-½} ΔH H^{-½})².
        let turned = change.transpose().to_owned();
        let squared_change =
            (0..theta.len()).map(|i| dot(turned.col_as_slice(i), change.col_as_slice(i))).sum::<f64>();
        let bent = product(self.precision.as_ref(), way.as_ref());
        let squared_way = dot(way.col_as_slice(0), bent.col_as_slice(0));
        (squared_change / squared_way).sqrt()
    }

    /// The Newton step `H⁻¹ ∇` with `damping` times its diagonal's size added to `H`; `None` if that is not positive definite.
    fn step(&self, damping: f64) -> Option<Vec<f64>> {
        let dim = self.gradient.len();
        let mut damped = self.precision.clone();
        for i in 0..dim {
            // No damping can help a diagonal of 0.
            if self.precision[(i, i)] == 0.0 {
                return None;
            }
            damped[(i, i)] += damping * self.precision[(i, i)].abs();
        }
        let factor = Cholesky::new(damped.as_ref())?;
        let step = factor.solve(Mat::from_fn(dim, 1, |i, _| self.gradient[i]));
        Some((0..dim).map(|i| step[(i, 0)]).collect())
    }
}

fn separated() -> Error {
    numerical(
        "with a flat prior these rows have no posterior: some coefficients separate the classes perfectly, or one class is missing, so the likelihood has no maximum",
        proper_prior(),
    )
}

fn proper_prior() -> Remedy {
    Remedy::example("give every coefficient a proper prior", Setting::Prior, "normal:2")
}

/// The error for a curvature that has no inverse.
pub(crate) fn singular(flat: bool) -> Error {
    if flat {
        numerical(
            "with a flat prior these rows do not determine every coefficient: some columns are linearly dependent",
            [Remedy::using("leave a column out", Setting::Exclude), proper_prior()],
        )
    } else {
        numerical(
            "the posterior's curvature at its mode is not positive definite, so it has no normal approximation",
            "use a prior with a wider spike, or a log-concave one such as normal:2",
        )
    }
}

fn not_converged(decrement: f64) -> Error {
    let apart = decrement.sqrt();
    numerical(
        format!(
            "the posterior's mode was not reached: the search ended {apart:.1e} standard deviations away from it"
        ),
        "standardise the columns, look for nearly equal columns, or use a narrower prior",
    )
}

fn not_finite() -> Error {
    numerical(
        "the posterior density is not finite at the start: a value or a weight of the rows is not finite",
        "look for infinite values, or values beyond 1e150, in the data",
    )
}

fn numerical(what: impl Into<String>, help: impl Into<Help>) -> Error {
    ErrorKind::Numerical { what: what.into(), help: Some(help.into()) }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_cannot_hold_is_refused() {
        assert!(check_memory(1_000, 64).is_ok());
        let error = check_memory(10_000_000, 1).expect_err("too large").to_string();
        assert!(error.starts_with("the Hessian of 10000000 coefficients needs "), "{error}");
    }
}
