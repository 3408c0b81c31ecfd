//! The posterior mode under a normal prior by damped Newton steps; over the full data each is one pass.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};

use crate::block::Block;
use crate::encoding::{Encoding, Scratch};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::model::likelihood::{Curvature, CurvatureSums};
use crate::pass::Pass;
use crate::points::Points;

/// The squared Newton decrement at which the mode is near enough: twice the nats by which a Gaussian there is off.
/// One more step, which costs no pass, then squares what is left.
const NEAR: f64 = 1e-6;
/// The same where a step costs next to nothing: far below any KL that is told.
const EXACT: f64 = 1e-14;
const MOST_STEPS: usize = 100;
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

/// Finds the mode of `L(θ) − ½ Σ prior_precision_i θ_i²` over all rows and the points of a `rest` that is not among
/// them, from a pilot's.
pub(crate) fn full_mode(
    engine: &impl Engine,
    encoding: &Encoding,
    rest: Option<&Points>,
    prior_precision: &[f64],
    start: Vec<f64>,
) -> Result<Mode> {
    let look = |theta: &[f64]| {
        let curvature = engine.run(&Curving { encoding, theta })?;
        let mut curvature = curvature.unwrap_or_else(|| Curvature::new(theta.len()));
        if let Some(rest) = rest {
            curvature.merge(&Curvature::of_points(rest, theta));
        }
        Ok(curvature)
    };
    mode(look, prior_precision, start, NEAR)
}

/// Finds the mode of a few points, to the last digits.
pub(crate) fn mode_of_points(points: &Points, prior_precision: &[f64], start: Vec<f64>) -> Result<Mode> {
    mode(|theta| Ok(Curvature::of_points(points, theta)), prior_precision, start, EXACT)
}

/// Damped Newton steps until the squared decrement is `near`.
fn mode(
    mut look: impl FnMut(&[f64]) -> Result<Curvature>,
    prior_precision: &[f64],
    start: Vec<f64>,
    near: f64,
) -> Result<Mode> {
    let mut theta = start;
    let mut here = Local::new(look(&theta)?, prior_precision, &theta);
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
        if decrement <= near || stuck {
            let mode = ahead(1.0);
            return Ok(Mode { theta, likelihood: here.likelihood, precision: here.precision, mode });
        }
        // A full step nearly always gains; where it does not, a shorter one does. Rounding hides a smaller gain.
        let noise = 1e-13 * here.value.abs();
        let mut length = 1.0;
        let (next, there) = loop {
            let next = ahead(length);
            let there = Local::new(look(&next)?, prior_precision, &next);
            // So near to the mode that the value cannot show the gain, a Newton step is right.
            if !shown || there.value >= here.value + 1e-4 * length * decrement - noise {
                break (next, there);
            }
            if length * decrement < noise {
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
        what: format!("the posterior mode was not found (Newton decrement {decrement:e})"),
        help: Some(
            "look for columns of wildly different size or nearly equal to each other, or use --method sensitivity"
                .to_string(),
        ),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_has_no_gradient_even_from_afar() {
        let rows: Vec<([f64; 2], f64)> = (0..500)
            .map(|n| {
                let x = f64::from(n % 17) - 8.0;
                let y = if (n * 7) % 10 < 5 + n % 3 { 1.0 } else { -1.0 };
                ([y, y * x], 1.0 + f64::from(n % 4))
            })
            .collect();
        let points = Points::from_rows(2, rows.iter().map(|(z, w)| (&z[..], *w)));
        for start in [[0.0, 0.0], [5.0, -3.0], [-20.0, 8.0]] {
            let mode = mode_of_points(&points, &[0.25, 0.25], start.to_vec()).expect("a mode").mode;
            for d in 0..2 {
                let pull =
                    |(z, w): &([f64; 2], f64)| w * z[d] / (1.0 + (z[0] * mode[0] + z[1] * mode[1]).exp());
                let gradient: f64 = rows.iter().map(pull).sum::<f64>() - 0.25 * mode[d];
                assert!(gradient.abs() < 1e-9, "{start:?}: {gradient}");
            }
        }
    }
}
