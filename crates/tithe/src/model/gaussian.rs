//! The normal distribution, as the approximation of a posterior and as the coordinates in which samplers move.

use faer::Mat;

use crate::base::error::Result;
use crate::base::linear::Cholesky;
use crate::base::math::{dot, vectorized};
use crate::model::newton::{Mode, singular};
use crate::model::prior::{Prior, Priors};

/// Under a flat prior: the smallest share of a coefficient's precision that the other coefficients may leave it.
const LEAST_PIVOT: f64 = 1e-13;

/// A normal distribution `N(mean, C Cᵀ)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    mean: Vec<f64>,
    /// The inverse of the covariance; symmetric.
    precision: Mat<f64>,
    /// `C` with `C Cᵀ` the covariance: upper triangular, column by column.
    factor: Vec<f64>,
}

impl Gaussian {
    /// The standard normal distribution.
    pub fn standard(dim: usize) -> Gaussian {
        let mut factor = vec![0.0; dim * dim];
        for i in 0..dim {
            factor[i * dim + i] = 1.0;
        }
        Gaussian { mean: vec![0.0; dim], precision: Mat::identity(dim, dim), factor }
    }

    /// The normal approximation of a posterior at its mode.
    ///
    /// # Errors
    /// If the curvature there is singular: under a flat prior, dependent columns leave some coefficients undetermined.
    pub(crate) fn of_mode(mode: Mode, priors: &Priors) -> Result<Gaussian> {
        let flat = priors.coefficients.iter().any(Prior::is_improper);
        // Rounding can make the precision of dependent columns regular.
        let least = if flat { LEAST_PIVOT } else { 0.0 };
        let determined = |gaussian: &Gaussian| {
            (0..gaussian.dim()).all(|i| gaussian.pivot(i) >= least * gaussian.precision[(i, i)])
        };
        let gaussian = Gaussian::from_precision(mode.mode, mode.precision).filter(determined);
        gaussian.ok_or_else(|| singular(flat))
    }

    /// From a mean and the inverse of the covariance; `None` if that is not positive definite.
    pub(crate) fn from_precision(mean: Vec<f64>, precision: Mat<f64>) -> Option<Gaussian> {
        let dim = mean.len();
        let lower = Cholesky::new(precision.as_ref())?;
        let l = lower.lower();
        // C = L⁻ᵀ, column by column: Lᵀ c_j = e_j by back substitution.
        let mut factor = vec![0.0; dim * dim];
        for j in 0..dim {
            let column = &mut factor[j * dim..(j + 1) * dim];
            for i in (0..=j).rev() {
                let mut sum = if i == j { 1.0 } else { 0.0 };
                for k in i + 1..=j {
                    sum -= l[(k, i)] * column[k];
                }
                column[i] = sum / l[(i, i)];
            }
        }
        factor.iter().all(|c| c.is_finite()).then_some(Gaussian { mean, precision, factor })
    }

    /// Dimension.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// The mean: the mode of the approximated density.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The inverse of the covariance.
    pub(crate) fn precision(&self) -> &Mat<f64> {
        &self.precision
    }

    /// The precision of coefficient `i` given those before it: the square of a pivot of the precision's Cholesky factor.
    fn pivot(&self, i: usize) -> f64 {
        self.factor[i * self.dim() + i].powi(-2)
    }

    /// Entry `(i, j)` of the covariance.
    pub fn covariance(&self, i: usize, j: usize) -> f64 {
        let dim = self.dim();
        (i.max(j)..dim).map(|k| self.factor[k * dim + i] * self.factor[k * dim + j]).sum()
    }

    /// Standard deviation of coefficient `i`.
    pub fn sd(&self, i: usize) -> f64 {
        self.covariance(i, i).sqrt()
    }

    /// `θ = mean + C ξ`: from whitened coordinates to coefficients.
    pub fn unwhiten(&self, xi: &[f64], theta: &mut [f64]) {
        theta.copy_from_slice(&self.mean);
        vectorized(
            #[inline(always)]
            || {
                for ((j, &x), column) in xi.iter().enumerate().zip(self.factor.chunks_exact(self.dim())) {
                    for (theta, c) in theta.iter_mut().zip(&column[..=j]) {
                        *theta += c * x;
                    }
                }
            },
        );
    }

    /// The whitened coordinates of coefficients, `ξ = C⁻¹ (θ − mean)`.
    pub fn whiten(&self, theta: &[f64], xi: &mut [f64]) {
        let dim = self.dim();
        for i in (0..dim).rev() {
            let known: f64 = (i + 1..dim).map(|j| self.factor[j * dim + i] * xi[j]).sum();
            xi[i] = (theta[i] - self.mean[i] - known) / self.factor[i * dim + i];
        }
    }

    /// Converts a gradient in whitened coordinates to one in coefficients, `C⁻ᵀ g`.
    pub fn unwhiten_gradient(&self, whitened: &[f64], gradient: &mut [f64]) {
        let dim = self.dim();
        for j in 0..dim {
            let known: f64 = (0..j).map(|i| self.factor[j * dim + i] * gradient[i]).sum();
            gradient[j] = (whitened[j] - known) / self.factor[j * dim + j];
        }
    }

    /// Converts a gradient in coefficients to one in whitened coordinates, `Cᵀ g`.
    pub fn whiten_gradient(&self, gradient: &[f64], whitened: &mut [f64]) {
        vectorized(
            #[inline(always)]
            || {
                let columns = self.factor.chunks_exact(self.dim());
                for ((j, into), column) in whitened.iter_mut().enumerate().zip(columns) {
                    *into = dot(&column[..=j], &gradient[..=j]);
                }
            },
        );
    }
}
