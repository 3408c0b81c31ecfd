//! A quadratic approximation of a log-likelihood: value, gradient and Hessian at one parameter, evaluated anywhere.

use faer::Mat;
use serde::{Deserialize, Serialize};

use crate::base::linear::{Cholesky, Eigen, product, solve_lower};
use crate::model::likelihood::Curvature;

/// `L(θ₀) + ∇L·(θ − θ₀) + ½(θ − θ₀)ᵀ∇²L(θ − θ₀)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quadratic {
    /// `θ₀`.
    pub theta: Vec<f64>,
    /// Value, gradient and negative Hessian at `θ₀`.
    pub curvature: Curvature,
}

impl Quadratic {
    /// Value, gradient and Hessian at another parameter.
    pub fn at(&self, theta: &[f64]) -> Curvature {
        let step: Vec<f64> = theta.iter().zip(&self.theta).map(|(there, here)| there - here).collect();
        let mut there = self.curvature.clone();
        for i in 0..step.len() {
            let bend: f64 = step.iter().enumerate().map(|(j, step)| self.curvature.entry(i, j) * step).sum();
            there.value += step[i] * (self.curvature.gradient[i] - 0.5 * bend);
            there.gradient[i] -= bend;
        }
        there
    }

    /// The same with all values multiplied by a number.
    pub fn scaled(&self, factor: f64) -> Quadratic {
        let mut scaled = self.clone();
        let curvature = &mut scaled.curvature;
        curvature.value *= factor;
        curvature.gradient.iter_mut().chain(&mut curvature.hessian).for_each(|value| *value *= factor);
        scaled
    }

    /// Its value at another parameter.
    pub fn value(&self, theta: &[f64]) -> f64 {
        let step: Vec<f64> = theta.iter().zip(&self.theta).map(|(there, here)| there - here).collect();
        let dim = step.len();
        let mut value = self.curvature.value;
        for i in 0..dim {
            let row = &self.curvature.hessian[i * dim..i * dim + i];
            let bend: f64 = row.iter().zip(&step).map(|(entry, step)| entry * step).sum();
            let own = self.curvature.hessian[i * dim + i] * step[i];
            value += step[i] * (self.curvature.gradient[i] - bend - 0.5 * own);
        }
        value
    }

    /// The same without the directions in which it reduces the curvature of the log-likelihood `own` that it is added to: the
    /// sum of the two then has a mode, however far away. `None` if the sum is far from concave.
    pub(crate) fn concave_beside(&self, own: &Curvature) -> Option<Quadratic> {
        let dim = self.theta.len();
        // In directions whitened by the mean of the curvature without this and with it.
        let mut both = Mat::from_fn(dim, dim, |i, j| own.entry(i, j) + 0.5 * self.curvature.entry(i, j));
        add_ridge(&mut both);
        let lower = Cholesky::new(both.as_ref())?;
        let mut half = Mat::from_fn(dim, dim, |i, j| self.curvature.entry(i, j));
        solve_lower(lower.lower(), half.as_mut());
        let mut whitened = half.transpose().to_owned();
        solve_lower(lower.lower(), whitened.as_mut());
        let eigen = Eigen::new(whitened.as_ref())?;
        let directions = product(lower.lower(), eigen.vectors.as_ref());
        let scaled = Mat::from_fn(dim, dim, |i, j| directions[(i, j)] * eigen.values[j].max(0.0));
        let kept = product(scaled.as_ref(), directions.transpose());
        let mut concave = self.clone();
        for i in 0..dim {
            for j in 0..=i {
                concave.curvature.hessian[i * dim + j] = kept[(i, j)];
            }
        }
        Some(concave)
    }
}

/// Adds a small ridge, so that a matrix that may be singular is positive definite.
pub(crate) fn add_ridge(matrix: &mut Mat<f64>) {
    for i in 0..matrix.nrows() {
        matrix[(i, i)] = matrix[(i, i)] * (1.0 + 1e-10) + 1e-10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_steps_give_the_same_as_one() {
        let here = Quadratic {
            theta: vec![1.0, -2.0],
            curvature: Curvature {
                value: 3.0,
                gradient: vec![0.5, 4.0],
                // Only the lower triangle counts: −∇²L = [[2, 1], [1, −3]].
                hessian: vec![2.0, f64::NAN, 1.0, -3.0],
                misfit: 0.0,
            },
        };
        assert_eq!(here.value(&[2.0, 0.0]), here.at(&[2.0, 0.0]).value);
        // By hand at (2, 0), a step of (1, 2): 3 + 8.5 − ½(2 + 4 − 12), gradient (0.5, 4) − (4, −5).
        let there = here.at(&[2.0, 0.0]);
        assert_eq!((there.value, &there.gradient[..]), (14.5, &[-3.5, 9.0][..]));
        let again = Quadratic { theta: vec![2.0, 0.0], curvature: there }.at(&[-1.0, 1.0]);
        let at_once = here.at(&[-1.0, 1.0]);
        assert!((again.value - at_once.value).abs() < 1e-12);
        assert_eq!(again.gradient, at_once.gradient);
    }
}
