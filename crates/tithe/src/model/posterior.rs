//! The posterior of the coefficients: log-density and gradient for samplers, its mode, and the normal
//! distribution that fits it there.

use faer::{Mat, Side};

use crate::base::error::{Error, Result};
use crate::base::math::{dot, vectorized};
use crate::data::points::Points;
use crate::model::likelihood;
use crate::model::newton::{EXACT, Mode, mode_from_afar, singular};
use crate::model::prior::{Prepared, Prior, Priors};
use crate::model::thin::ThinPoints;

/// A log-density with gradient; all that a sampler knows of a model.
pub trait LogDensity: Sync {
    /// Number of coefficients.
    fn dim(&self) -> usize;

    /// The log-density at `theta`; its gradient is written to `gradient`. `scratch` is memory kept between calls
    /// of one chain. A value that is not finite means that `theta` has no density.
    fn value_and_gradient(&self, theta: &[f64], gradient: &mut [f64], scratch: &mut Vec<[f64; 8]>) -> f64;
}

/// Under a flat prior: the smallest share of a coefficient's precision that others need not explain.
const LEAST_PIVOT: f64 = 1e-13;

/// Weighted rows and priors.
#[derive(Clone, Debug)]
pub struct Posterior<'a> {
    points: &'a Points,
    /// The same points, where most of their values need not be looked at.
    thin: Option<ThinPoints>,
    priors: &'a Priors,
    prepared: Vec<Prepared>,
}

/// A normal distribution, `N(mean, factor·factorᵀ)`, fitted to a posterior at its mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    mean: Vec<f64>,
    /// `C` with `C Cᵀ` the covariance, upper triangular, column by column.
    factor: Vec<f64>,
}

impl<'a> Posterior<'a> {
    /// The posterior of the weighted `points` under `priors`.
    pub fn new(points: &'a Points, priors: &'a Priors) -> Result<Posterior<'a>> {
        if points.dim() != priors.dim() {
            return Err(Error::setting(
                "prior",
                format!("{} priors for {} coefficients", priors.dim(), points.dim()),
            ));
        }
        for prior in &priors.coefficients {
            prior.check()?;
        }
        let prepared = priors.coefficients.iter().map(Prior::prepared).collect();
        Ok(Posterior { points, thin: ThinPoints::of(points), priors, prepared })
    }

    /// The weighted rows.
    pub fn points(&self) -> &'a Points {
        self.points
    }

    /// The priors.
    pub fn priors(&self) -> &'a Priors {
        self.priors
    }

    /// The normal approximation at the mode (Laplace's): mean the mode, covariance the inverse of the negative
    /// log-density's Hessian there. Under a Laplace prior, whose kink has no curvature, both are those of the
    /// density with the kink rounded off over a tenth of its scale.
    pub fn laplace(&self) -> Result<Gaussian> {
        let mut points = self.points;
        let mode = mode_from_afar(&mut points, self.priors, EXACT)?;
        Gaussian::of_mode(mode, self.priors)
    }
}

impl LogDensity for Posterior<'_> {
    fn dim(&self) -> usize {
        self.points.dim()
    }

    fn value_and_gradient(&self, theta: &[f64], gradient: &mut [f64], scratch: &mut Vec<[f64; 8]>) -> f64 {
        let mut value = match &self.thin {
            Some(thin) => thin.value_and_gradient(theta, gradient, scratch),
            None => likelihood::value_and_gradient(self.points, theta, gradient, scratch),
        };
        for ((prior, &x), gradient) in self.prepared.iter().zip(theta).zip(gradient) {
            let local = prior.local(x);
            value += local.value;
            *gradient += local.slope;
        }
        value
    }
}

impl Gaussian {
    /// The standard normal distribution.
    pub fn standard(dim: usize) -> Gaussian {
        let mut factor = vec![0.0; dim * dim];
        for i in 0..dim {
            factor[i * dim + i] = 1.0;
        }
        Gaussian { mean: vec![0.0; dim], factor }
    }

    /// The normal distribution that fits a posterior at its mode.
    pub(crate) fn of_mode(mode: Mode, priors: &Priors) -> Result<Gaussian> {
        let flat = priors.coefficients.iter().any(Prior::is_improper);
        // Columns that depend on each other, which only rounding tells apart.
        let least = if flat { LEAST_PIVOT } else { 0.0 };
        let settled = |gaussian: &Gaussian| {
            (0..mode.precision.nrows()).all(|i| gaussian.own_precision(i) >= least * mode.precision[(i, i)])
        };
        let gaussian = Gaussian::from_precision(mode.mode.clone(), &mode.precision).filter(settled);
        gaussian.ok_or_else(|| singular(flat))
    }

    /// From a mean and the inverse of the covariance; nothing if that is not positive definite.
    pub fn from_precision(mean: Vec<f64>, precision: &Mat<f64>) -> Option<Gaussian> {
        let dim = mean.len();
        let lower = precision.llt(Side::Lower).ok()?;
        let l = lower.L();
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
        factor.iter().all(|c| c.is_finite()).then_some(Gaussian { mean, factor })
    }

    /// Dimension.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// The mean: the mode of what was approximated.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The precision of coefficient `i` given those before it: a pivot of the precision's Cholesky factor.
    fn own_precision(&self, i: usize) -> f64 {
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

    /// The gradient with respect to coefficients of one with respect to whitened coordinates, `C⁻ᵀ g`.
    pub fn unwhiten_gradient(&self, whitened: &[f64], gradient: &mut [f64]) {
        let dim = self.dim();
        for j in 0..dim {
            let known: f64 = (0..j).map(|i| self.factor[j * dim + i] * gradient[i]).sum();
            gradient[j] = (whitened[j] - known) / self.factor[j * dim + j];
        }
    }

    /// The gradient in whitened coordinates, `Cᵀ g`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Seed, open_unit};
    use crate::model::likelihood::Curvature;

    fn random_points(dim: usize, len: usize, seed: u64) -> Points {
        let mut rng = Seed(seed).stream(Purpose::Generate, 0);
        let mut points = Points::new(dim);
        for _ in 0..len {
            let z: Vec<f64> = (0..dim).map(|_| 2.0 * open_unit(&mut rng) - 1.0).collect();
            points.push(&z, 0.5 + open_unit(&mut rng));
        }
        points
    }

    fn posterior_of(text: &str, points: &Points) -> Result<Gaussian> {
        Posterior::new(points, &Priors::same(text.parse()?, points.dim()))?.laplace()
    }

    #[test]
    fn the_gradient_vanishes_at_the_mode_of_every_smooth_prior() {
        let points = random_points(4, 300, 5);
        for text in ["flat", "normal:2", "cauchy:2.5", "student:4:2.5", "spike-slab:0.1:10:0.5"] {
            let priors = Priors::same(text.parse().unwrap(), 4);
            let posterior = Posterior::new(&points, &priors).unwrap();
            let laplace = posterior.laplace().unwrap();
            let mut gradient = [0.0; 4];
            posterior.value_and_gradient(laplace.mean(), &mut gradient, &mut Vec::new());
            assert!(gradient.iter().all(|g| g.abs() < 1e-9), "{text}: {gradient:?}");
        }
    }

    #[test]
    fn whitening_takes_the_covariance_apart() {
        let points = random_points(3, 100, 6);
        let laplace = posterior_of("normal:1", &points).unwrap();
        // H · covariance = 1.
        let curvature = Curvature::of_points(&points, laplace.mean());
        for i in 0..3 {
            for j in 0..3 {
                let product: f64 = (0..3)
                    .map(|k| (curvature.entry(i, k) + f64::from(u8::from(i == k))) * laplace.covariance(k, j))
                    .sum();
                assert!((product - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
        let (xi, mut theta, mut back) = ([0.3, -1.0, 2.0], [0.0; 3], [0.0; 3]);
        laplace.unwhiten(&xi, &mut theta);
        // The gradient of ξ ↦ a·θ(ξ) is Cᵀa.
        laplace.whiten_gradient(&[1.0, -2.0, 0.5], &mut back);
        let direct: f64 = (0..3).map(|i| [1.0, -2.0, 0.5][i] * (theta[i] - laplace.mean()[i])).sum();
        assert!((direct - (0..3).map(|j| back[j] * xi[j]).sum::<f64>()).abs() < 1e-13);
        let (mut same, mut gradient) = ([0.0; 3], [0.0; 3]);
        laplace.whiten(&theta, &mut same);
        laplace.unwhiten_gradient(&back, &mut gradient);
        for i in 0..3 {
            assert!((same[i] - xi[i]).abs() < 1e-12);
            assert!((gradient[i] - [1.0, -2.0, 0.5][i]).abs() < 1e-12);
        }
    }

    #[test]
    fn separated_rows_have_no_mode_under_a_flat_prior_and_one_under_others() {
        let mut points = Points::new(2);
        for n in 0..50 {
            points.push(&[1.0 + f64::from(n % 5), f64::from(n % 7) - 3.0], 2.0);
        }
        let error = posterior_of("flat", &points).unwrap_err();
        assert!(error.to_string().contains("separate the classes perfectly"), "{error}");
        assert!(error.help().unwrap().contains("--prior normal:2"));
        for text in ["normal:2", "cauchy:2.5", "laplace:1", "spike-slab:0.1:10:0.5"] {
            assert!(posterior_of(text, &points).is_ok(), "{text}");
        }
        // Only the intercept is flat, and only one class is there: nothing holds the intercept.
        let mut one_class = Points::new(2);
        for n in 0..50 {
            one_class.push(&[1.0, f64::from(n % 7) - 3.0], 1.0);
        }
        let mut priors = Priors::same(Prior::Normal { scale: 1.0 }, 2);
        priors.coefficients[0] = Prior::Flat;
        let error = Posterior::new(&one_class, &priors).unwrap().laplace().unwrap_err();
        assert!(error.to_string().contains("one class is missing"), "{error}");
    }

    #[test]
    fn dependent_columns_have_no_mode_under_a_flat_prior() {
        let mut points = Points::new(2);
        for n in 0..60 {
            let x = f64::from(n % 5) - 2.2;
            points.push(&[x, 0.0], 1.0);
        }
        let error = posterior_of("flat", &points).unwrap_err();
        assert!(error.to_string().contains("columns depend on each other"), "{error}");
        assert!(posterior_of("normal:2", &points).is_ok());
        // Twice the same column: rounding alone makes its Hessian regular.
        let mut twins = Points::new(3);
        let once = random_points(2, 400, 8);
        for z in (0..400).map(|n| once.row(n)) {
            twins.push(&[z[0], z[1], z[0]], 1.0);
        }
        let error = posterior_of("flat", &twins).unwrap_err();
        assert!(error.to_string().contains("columns depend on each other"), "{error}");
        assert!(posterior_of("normal:100", &twins).is_ok());
    }

    #[test]
    fn rows_that_are_not_finite_are_refused() {
        let points = Points::from_rows(1, [([f64::INFINITY].as_slice(), 1.0)]);
        assert!(posterior_of("normal:1", &points).unwrap_err().to_string().contains("not finite"));
    }

    #[test]
    fn no_rows_leave_the_prior() {
        let laplace = posterior_of("normal:3", &Points::new(2)).unwrap();
        assert!((laplace.sd(0) - 3.0).abs() < 1e-12 && laplace.mean() == [0.0, 0.0]);
    }
}
