//! The full data's posterior mode under a normal prior, by damped Newton steps: each is one pass over the data.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};

use crate::block::Block;
use crate::encoding::{Encoding, Scratch};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::model::likelihood::{Curvature, CurvatureSums};
use crate::pass::Pass;

/// The squared Newton decrement at which the mode is near enough: twice the nats by which a Gaussian there is off.
/// One more step, which costs no pass, then squares what is left.
const NEAR: f64 = 1e-6;
const MOST_STEPS: usize = 50;
/// A gain below this share of the log-posterior is lost in its rounding.
const SHOWN: f64 = 1e-11;
/// Where rounding stops the steps, this squared decrement is still a mode.
const NEAR_ENOUGH: f64 = 1e-3;

/// The pass: value, gradient and Hessian of the log-likelihood at one parameter.
pub(crate) struct Curving<'a> {
    pub encoding: &'a Encoding,
    pub theta: &'a [f64],
}

impl Pass for Curving<'_> {
    const NAME: &'static str = "a Newton step";
    type State = Curvature;
    type Worker = Scratch;

    fn worker(&self) -> Scratch {
        Scratch::new(self.encoding.dim())
    }

    fn visit(&self, scratch: &mut Scratch, block: &Block) -> Result<Curvature> {
        let encoder = self.encoding.encoder(block)?;
        let mut sums = CurvatureSums::new(self.encoding.dim());
        for t in 0..encoder.tiles() {
            sums.add_tile(&encoder.tile(t, scratch), self.theta);
        }
        Ok(sums.finish())
    }

    fn merge(&self, state: &mut Curvature, next: Curvature) {
        state.merge(&next);
    }
}

/// Where the Newton steps ended.
pub(crate) struct Mode {
    /// The last parameter at which the data was looked at.
    pub theta: Vec<f64>,
    /// The likelihood there.
    pub likelihood: Curvature,
    /// The negative log-posterior's Hessian there.
    pub precision: Mat<f64>,
    /// The mode: one more Newton step from `theta`.
    pub mode: Vec<f64>,
}

/// Finds the mode of `L(θ) − ½ Σ prior_precision_i θ_i²` over all rows, from a pilot's.
pub(crate) fn full_mode(
    engine: &impl Engine,
    encoding: &Encoding,
    prior_precision: &[f64],
    start: Vec<f64>,
) -> Result<Mode> {
    let look = |theta: &[f64]| -> Result<Local> {
        let likelihood =
            engine.run(&Curving { encoding, theta })?.unwrap_or_else(|| Curvature::new(theta.len()));
        Ok(Local::new(likelihood, prior_precision, theta))
    };
    let mut theta = start;
    let mut here = look(&theta)?;
    let mut last = f64::INFINITY;
    for _ in 0..MOST_STEPS {
        let step = here.step()?;
        let decrement: f64 = step.iter().zip(&here.gradient).map(|(step, gradient)| step * gradient).sum();
        let ahead = |length: f64| -> Vec<f64> {
            theta.iter().zip(&step).map(|(theta, step)| theta + length * step).collect()
        };
        let shown = decrement > SHOWN * here.value.abs();
        let stuck = !shown && decrement > 0.5 * last && decrement <= NEAR_ENOUGH;
        last = decrement;
        if decrement <= NEAR || stuck {
            let mode = ahead(1.0);
            return Ok(Mode { theta, likelihood: here.likelihood, precision: here.precision, mode });
        }
        // A full step nearly always gains; where it does not, a shorter one does.
        let mut length = 1.0;
        let (next, there) = loop {
            let next = ahead(length);
            let there = look(&next)?;
            // So near to the mode that the value cannot show the gain, a Newton step is right.
            if !shown || there.value >= here.value + 1e-4 * length * decrement {
                break (next, there);
            }
            if length * decrement < 1e-12 * here.value.abs() {
                return Err(no_mode(decrement));
            }
            length *= 0.25;
        };
        (theta, here) = (next, there);
    }
    Err(no_mode(f64::NAN))
}

/// The log-posterior's local form.
struct Local {
    value: f64,
    gradient: Vec<f64>,
    precision: Mat<f64>,
    likelihood: Curvature,
}

impl Local {
    fn new(likelihood: Curvature, prior_precision: &[f64], theta: &[f64]) -> Local {
        let dim = theta.len();
        let prior = |i: usize| prior_precision[i] * theta[i];
        let value = likelihood.value - 0.5 * (0..dim).map(|i| prior(i) * theta[i]).sum::<f64>();
        let gradient = (0..dim).map(|i| likelihood.gradient[i] - prior(i)).collect();
        let mut precision = Mat::from_fn(dim, dim, |i, j| likelihood.entry(i, j));
        for i in 0..dim {
            precision[(i, i)] += prior_precision[i];
        }
        Local { value, gradient, precision, likelihood }
    }

    /// The Newton step `H⁻¹ ∇`.
    fn step(&self) -> Result<Vec<f64>> {
        let factor = self.precision.llt(Side::Lower).map_err(|_| no_mode(f64::NAN))?;
        let gradient = Mat::from_fn(self.gradient.len(), 1, |i, _| self.gradient[i]);
        let step = factor.solve(&gradient);
        Ok((0..self.gradient.len()).map(|i| step[(i, 0)]).collect())
    }
}

fn no_mode(decrement: f64) -> Error {
    ErrorKind::Numerical {
        what: format!("the full data's posterior mode was not found (Newton decrement {decrement:e})"),
        help: Some(
            "look for columns of wildly different size or nearly equal to each other, or use --method sensitivity"
                .to_string(),
        ),
    }
    .into()
}
