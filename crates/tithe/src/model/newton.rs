//! The one search for a mode: damped Newton steps up a log-posterior, whether its likelihood is that of a few points
//! or costs a pass over all data for every look.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::machine::physical_memory;
use crate::data::points::Points;
use crate::model::likelihood::Curvature;
use crate::model::prior::{Prior, Priors};

/// A search gives up after so many steps, if not before.
const MOST_STEPS: usize = 200;
/// The squared decrement at which a mode is exact to the last digits, where a look costs next to nothing.
pub(crate) const EXACT: f64 = 1e-20;
/// A gain below this share of the log-posterior is lost in its rounding.
const SHOWN: f64 = 1e-11;
/// Where rounding stops the steps, this squared decrement is still a mode.
const NEAR_ENOUGH: f64 = 1e-3;
/// Beyond this squared decrement nothing is said of how steady the curvature is: the way left may lead where the last step did not.
const NEAR_AND_STEADY: f64 = 1e-6;
/// Damping at which Newton's method is taken up again.
const LITTLE_DAMPING: f64 = 1e-3;

/// A log-likelihood that can be looked at.
pub(crate) trait Likelihood {
    /// Its value, gradient and curvature at a parameter.
    fn look(&mut self, theta: &[f64]) -> Result<Curvature>;

    /// The least weight of a row, among those looked at.
    fn least_weight(&self) -> f64;

    /// The search gives up after so many steps.
    fn most_steps(&self) -> usize {
        MOST_STEPS
    }

    /// The search also ends where the curvature should change by no more than this share of itself on the way that is left. Where a
    /// look costs next to nothing, that is no reason to stop.
    fn steady(&self) -> f64 {
        0.0
    }

    /// The last guess brought little: it should not be made again in the same way, if there is another.
    fn discourage(&mut self) {}

    /// Where the mode might be, from what was `seen` at `theta` (and the squared Newton `decrement` there), if more is known
    /// than Newton's method knows.
    fn guess(&mut self, _theta: &[f64], _seen: &Curvature, _decrement: f64) -> Option<Vec<f64>> {
        None
    }
}

impl Likelihood for &Points {
    fn look(&mut self, theta: &[f64]) -> Result<Curvature> {
        Ok(Curvature::of_points(self, theta))
    }

    fn least_weight(&self) -> f64 {
        self.weights().into_iter().filter(|w| *w > 0.0).fold(f64::INFINITY, f64::min)
    }
}

/// Where a search ended.
pub(crate) struct Mode {
    /// The last parameter that was looked at.
    pub theta: Vec<f64>,
    /// The likelihood there.
    pub likelihood: Curvature,
    /// The negative log-posterior's Hessian there.
    pub precision: Mat<f64>,
    /// The mode: one more Newton step from `theta`, which costs no look and squares what was left of the way.
    pub mode: Vec<f64>,
}

/// The mode from 0, or for spike-and-slab priors from the mode under the slabs alone, since from 0 the spikes would
/// hold every coefficient.
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

/// Refuses models whose Hessians the machine cannot hold, if so many threads sum one each.
pub(crate) fn check_memory(dim: usize, threads: usize) -> Result<()> {
    // Every thread's sums for half a Hessian, 64 bytes an entry, and a few whole ones: of a look, a factor, a map.
    let bytes = (dim as u64).saturating_pow(2).saturating_mul(32 * threads as u64 + 64);
    if bytes <= physical_memory().unwrap_or(isize::MAX as u64) {
        return Ok(());
    }
    let gigabytes = bytes as f64 / (1u64 << 30) as f64;
    Err(numerical(
        format!("the Hessian of {dim} coefficients needs {gigabytes:.0} GiB of memory, more than there is"),
        "leave columns out with --exclude; --method sensitivity and --method uniform build without it",
    ))
}

/// Damped Newton steps from `start` until the squared decrement `∇ᵀH⁻¹∇`, the squared distance to the mode in posterior
/// standard deviations, is `near` 0, or the curvature is [steady](Likelihood::steady) from here on.
pub(crate) fn mode(
    likelihood: &mut impl Likelihood,
    priors: &Priors,
    start: Vec<f64>,
    near: f64,
) -> Result<Mode> {
    check_memory(start.len(), 1)?;
    let flat = priors.coefficients.iter().any(Prior::is_improper);
    let mut theta = start;
    let mut here = Local::new(likelihood.look(&theta)?, priors, &theta);
    // Levenberg's damping, in units of the Hessian's diagonal: 0 while plain Newton steps succeed.
    let mut damping = 0.0;
    // The last decrement, and whether a guess led here.
    let (mut last, mut guessed) = (f64::INFINITY, false);
    let mut decrement = f64::NAN;
    // By which share the curvature changes over a standard deviation, going by the last step.
    let mut bending = f64::INFINITY;
    for _ in 0..likelihood.most_steps() {
        if !here.value.is_finite() {
            return Err(not_finite());
        }
        // With a row on the wrong side σ(−s) is ½ or more; all of them far below that means that θ separates them.
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
        let shown = decrement > SHOWN * here.value.abs();
        let stuck = !shown && decrement > 0.5 * last && decrement <= NEAR_ENOUGH;
        let steady = decrement <= NEAR_AND_STEADY && bending * decrement.sqrt() <= likelihood.steady();
        if damping == 0.0 && (decrement <= near || steady || stuck) {
            return Ok(Mode { theta, likelihood: here.likelihood, precision: here.precision, mode: ahead });
        }
        // A guess that brought little is not made twice in a row.
        let worth_guessing = !(guessed && decrement > 0.5 * last);
        if !worth_guessing {
            likelihood.discourage();
        }
        let guess = if worth_guessing { likelihood.guess(&theta, &here.likelihood, decrement) } else { None };
        let is_guess = guess.is_some();
        let next = guess.unwrap_or(ahead);
        let there = Local::new(likelihood.look(&next)?, priors, &next);
        // Rounding hides a smaller gain; so near to the mode that the value cannot show it, a Newton step is right.
        let noise = 1e-13 * here.value.abs();
        let enough = if is_guess { 0.0 } else { 1e-4 * decrement };
        let trusted = !shown && damping == 0.0;
        if there.value.is_finite() && (trusted || there.value >= here.value + enough - noise) {
            if likelihood.steady() > 0.0 && near < NEAR_AND_STEADY {
                bending = there.bending_since(&here, &theta, &next);
            }
            (theta, here) = (next, there);
            (last, guessed) = (decrement, is_guess);
            damping = if is_guess || damping <= LITTLE_DAMPING { 0.0 } else { damping * 0.1 };
        } else if is_guess {
            (last, guessed) = (0.0, true);
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

    /// The change `‖H^{-½} ΔH H^{-½}‖` of the curvature from `earlier` on, for each standard deviation on the way from `theta` to here.
    fn bending_since(&self, earlier: &Local, theta: &[f64], here: &[f64]) -> f64 {
        let Ok(factor) = self.precision.llt(Side::Lower) else { return f64::INFINITY };
        let change = factor.solve(&self.precision - &earlier.precision);
        let way = Mat::from_fn(theta.len(), 1, |i, _| here[i] - theta[i]);
        // The trace of (H⁻¹ΔH)², which is that of (H^{-½} ΔH H^{-½})².
        let squared_change = (0..theta.len()).map(|i| change.row(i) * change.col(i)).sum::<f64>();
        let squared_way = (way.transpose() * &self.precision * &way)[(0, 0)];
        (squared_change / squared_way).sqrt()
    }

    /// The Newton step `H⁻¹ ∇` with `damping` times its diagonal's size added to `H`; nothing if that is not positive definite.
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
        let factor = damped.llt(Side::Lower).ok()?;
        let step = factor.solve(Mat::from_fn(dim, 1, |i, _| self.gradient[i]));
        Some((0..dim).map(|i| step[(i, 0)]).collect())
    }
}

fn separated() -> Error {
    numerical(
        "under a flat prior these rows have no posterior: some coefficients separate the classes perfectly, or one class is missing, and ever larger values fit ever better",
        "give every coefficient a proper prior, for example --prior normal:2 or --prior cauchy:2.5",
    )
}

/// The error for a curvature that has no inverse.
pub(crate) fn singular(flat: bool) -> Error {
    if flat {
        numerical(
            "under a flat prior these rows do not settle every coefficient: some columns depend on each other",
            "leave a column out with --exclude, or give every coefficient a proper prior, for example --prior normal:2",
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
        "standardise the columns, look for columns nearly equal to each other, or use a narrower prior",
    )
}

fn not_finite() -> Error {
    numerical(
        "the posterior density is not finite at the start: a value or a weight of the rows is not finite",
        "look for infinite values, or values beyond 1e150, in the data",
    )
}

fn numerical(what: impl Into<String>, help: &str) -> Error {
    ErrorKind::Numerical { what: what.into(), help: Some(help.to_string()) }.into()
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
