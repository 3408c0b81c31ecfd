//! The posterior of the coefficients: log-density and gradient for the samplers, and its normal approximation.

use crate::base::error::{Error, Result, Setting};
use crate::data::points::Points;
use crate::model::gaussian::Gaussian;
use crate::model::likelihood;
use crate::model::newton::{EXACT, mode_from_afar};
use crate::model::prior::{Prepared, Prior, Priors};
use crate::model::thin::ThinPoints;

/// A log-density with its gradient: what a sampler needs of a model.
pub trait LogDensity: Sync {
    /// Number of coefficients.
    fn dim(&self) -> usize;

    /// The log-density at `theta`; its gradient is written to `gradient`. `scratch` is memory kept between calls
    /// of one chain. A value that is not finite means that `theta` has no density.
    fn value_and_gradient(&self, theta: &[f64], gradient: &mut [f64], scratch: &mut Vec<[f64; 8]>) -> f64;
}

/// A log-density in coordinates `ξ` in which it is nearly standard normal, with working memory: what a chain moves in.
pub trait Target {
    /// Number of coordinates.
    fn dim(&self) -> usize;

    /// The log-density at `ξ`; its gradient is written to `gradient`. A value that is not finite means that `ξ` has no density.
    fn value_and_gradient(&mut self, xi: &[f64], gradient: &mut [f64]) -> f64;

    /// Appends the parameters at `ξ`, a draw, to `theta`.
    fn keep(&mut self, xi: &[f64], theta: &mut Vec<f64>);
}

/// The posterior of weighted rows under independent priors.
#[derive(Clone, Debug)]
pub struct Posterior<'a> {
    points: &'a Points,
    /// The same points without their zeros, if most values are zero.
    thin: Option<ThinPoints>,
    priors: &'a Priors,
    prepared: Vec<Prepared>,
}

impl<'a> Posterior<'a> {
    /// The posterior of the weighted `points` under `priors`.
    pub fn new(points: &'a Points, priors: &'a Priors) -> Result<Posterior<'a>> {
        if points.dim() != priors.dim() {
            return Err(Error::setting(
                Setting::Prior,
                format!("has {} values for {} coefficients", priors.dim(), points.dim()),
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
    /// log-density's Hessian there. The density of a Laplace prior has a kink without curvature; it is replaced by a
    /// smooth one whose kink is rounded over a tenth of its scale.
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
    fn whitening_factors_the_covariance() {
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
        assert!(error.help().unwrap().to_string().contains("prior=normal:2"));
        for text in ["normal:2", "cauchy:2.5", "laplace:1", "spike-slab:0.1:10:0.5"] {
            assert!(posterior_of(text, &points).is_ok(), "{text}");
        }
        // Only the intercept is flat, and there is only one class: the intercept is not bounded.
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
        assert!(error.to_string().contains("columns are linearly dependent"), "{error}");
        assert!(posterior_of("normal:2", &points).is_ok());
        // Twice the same column: rounding alone makes its Hessian regular.
        let mut twins = Points::new(3);
        let once = random_points(2, 400, 8);
        for z in (0..400).map(|n| once.row(n)) {
            twins.push(&[z[0], z[1], z[0]], 1.0);
        }
        let error = posterior_of("flat", &twins).unwrap_err();
        assert!(error.to_string().contains("columns are linearly dependent"), "{error}");
        assert!(posterior_of("normal:100", &twins).is_ok());
    }

    #[test]
    fn rows_that_are_not_finite_are_rejected() {
        let points = Points::from_rows(1, [([f64::INFINITY].as_slice(), 1.0)]);
        assert!(posterior_of("normal:1", &points).unwrap_err().to_string().contains("not finite"));
    }

    #[test]
    fn without_rows_the_posterior_is_the_prior() {
        let laplace = posterior_of("normal:3", &Points::new(2)).unwrap();
        assert!((laplace.sd(0) - 3.0).abs() < 1e-12 && laplace.mean() == [0.0, 0.0]);
    }
}
