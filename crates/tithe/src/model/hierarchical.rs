//! The hierarchical model of one grouping factor: effects `u_g ~ N(0, Σ)` with fixed Σ, and normal approximations of arrow shape.

use faer::Mat;

use crate::base::linear::Cholesky;
use crate::base::math::ln;
use crate::model::arrow::{Arrow, ArrowFactor, ArrowShape};
use crate::model::grouped_likelihood::GroupedCurvature;
use crate::model::prior::Priors;

/// The covariance Σ of the q effects of a group, on the model's scale.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EffectCovariance {
    width: usize,
    /// Row by row.
    values: Vec<f64>,
    /// Whether effects of one group may be correlated; otherwise Σ is diagonal.
    pub correlated: bool,
}

/// The smallest standard deviation of an effect that a search for Σ returns: below it the posterior is that of no effects.
const LEAST_SD: f64 = 1e-2;

impl EffectCovariance {
    /// Independent effects of one standard deviation.
    pub fn isotropic(width: usize, sd: f64, correlated: bool) -> EffectCovariance {
        let entry = |at: usize| if at.is_multiple_of(width + 1) { sd * sd } else { 0.0 };
        EffectCovariance { width, values: (0..width * width).map(entry).collect(), correlated }
    }

    /// The covariance with these entries, row by row.
    pub fn new(width: usize, values: Vec<f64>, correlated: bool) -> EffectCovariance {
        EffectCovariance { width, values, correlated }
    }

    /// The number q of effects.
    pub fn width(&self) -> usize {
        self.width
    }

    /// An entry.
    pub fn entry(&self, i: usize, j: usize) -> f64 {
        self.values[i * self.width + j]
    }

    /// The standard deviation of an effect.
    pub fn sd(&self, i: usize) -> f64 {
        self.entry(i, i).sqrt()
    }

    /// The covariance of effects that are `factor` times as large.
    pub fn scaled(&self, factor: f64) -> EffectCovariance {
        let values = self.values.iter().map(|value| value * factor * factor).collect();
        EffectCovariance { values, ..self.clone() }
    }

    /// `Σ⁻¹`, row by row, and `ln det Σ`; `None` if Σ is not positive definite.
    pub fn precision(&self) -> Option<(Vec<f64>, f64)> {
        let width = self.width;
        let factor = Cholesky::new(Mat::from_fn(width, width, |i, j| self.entry(i, j)).as_ref())?;
        let inverse = factor.inverse();
        let determinant = (0..width).map(|i| 2.0 * ln(factor.lower()[(i, i)])).sum();
        let entries = (0..width * width).map(|at| {
            let (i, j) = (at / width, at % width);
            inverse[(i.max(j), i.min(j))]
        });
        Some((entries.collect(), determinant))
    }

    /// The mean over groups of `u uᵀ + Var(u)`, from a normal approximation of the effects (one step of EM for the marginal
    /// likelihood), with one more group of unit covariance, so that few groups cannot make it singular.
    fn updated(&self, mean: &[f64], inverse: &Arrow) -> EffectCovariance {
        let (width, groups) = (self.width, inverse.shape().groups);
        let mut sums = vec![0.0; width * width];
        for g in 0..groups {
            let u = &mean[g * width..(g + 1) * width];
            for i in 0..width {
                for j in 0..width {
                    sums[i * width + j] += u[i] * u[j] + inverse.block(g)[i * width + j];
                }
            }
        }
        for i in 0..width {
            for j in 0..width {
                let sum = &mut sums[i * width + j];
                *sum = match i == j {
                    true => ((*sum + 1.0) / (groups + 1) as f64).max(LEAST_SD * LEAST_SD),
                    false if self.correlated => *sum / (groups + 1) as f64,
                    false => 0.0,
                };
            }
        }
        EffectCovariance { values: sums, ..self.clone() }
    }

    /// The largest relative difference of the standard deviations.
    pub(crate) fn change_since(&self, other: &EffectCovariance) -> f64 {
        (0..self.width).map(|i| (self.sd(i) / other.sd(i) - 1.0).abs()).fold(0.0, f64::max)
    }
}

/// The log-posterior of effects and fixed effects at one vector, to second order; Σ is fixed.
pub struct LocalPosterior {
    /// The vector: the effects of all groups, then the fixed effects.
    pub at: Vec<f64>,
    /// The log-density, up to a constant that does not depend on Σ.
    pub value: f64,
    /// Its gradient.
    pub gradient: Vec<f64>,
    /// Its negative Hessian.
    pub precision: Arrow,
}

impl LocalPosterior {
    /// The posterior of rows whose likelihood was evaluated `at` a vector; `None` if Σ is not positive definite.
    pub fn new(
        at: &[f64],
        likelihood: &GroupedCurvature,
        priors: &Priors,
        covariance: &EffectCovariance,
        groups: usize,
    ) -> Option<LocalPosterior> {
        let (gradient, hessian) = (likelihood.gradient(groups), likelihood.hessian(groups));
        LocalPosterior { at: at.to_vec(), value: likelihood.value(), gradient, precision: hessian }
            .with_priors(priors, covariance)
    }

    /// Adds the priors to a likelihood.
    fn with_priors(mut self, priors: &Priors, covariance: &EffectCovariance) -> Option<LocalPosterior> {
        let ArrowShape { groups, width, .. } = self.precision.shape();
        let effects = groups * width;
        let (inverse, determinant) = covariance.precision()?;
        self.value -= 0.5 * groups as f64 * determinant;
        for g in 0..groups {
            let u = &self.at[g * width..(g + 1) * width];
            for i in 0..width {
                let pull: f64 = (0..width).map(|j| inverse[i * width + j] * u[j]).sum();
                self.value -= 0.5 * u[i] * pull;
                self.gradient[g * width + i] -= pull;
            }
            let block = self.precision.block_mut(g);
            block.iter_mut().zip(&inverse).for_each(|(block, inverse)| *block += inverse);
        }
        for (i, (prior, &x)) in priors.coefficients.iter().zip(&self.at[effects..]).enumerate() {
            let local = prior.smooth_local(x);
            self.value += local.value;
            self.gradient[effects + i] += local.slope;
            self.precision.corner_mut()[(i, i)] -= local.bend;
        }
        Some(self)
    }

    /// The normal approximation: its mean is one Newton step from here. `None` where the precision is not positive definite.
    pub fn gaussian(&self) -> Option<ArrowGaussian> {
        let factor = self.precision.factor()?;
        let step = factor.solve(&self.gradient);
        let mean = self.at.iter().zip(&step).map(|(at, step)| at + step).collect();
        Some(ArrowGaussian { mean, precision: self.precision.clone(), factor })
    }
}

/// A normal distribution of effects and fixed effects whose precision is an arrow.
pub struct ArrowGaussian {
    /// The mean: the effects of all groups, then the fixed effects.
    pub mean: Vec<f64>,
    /// The inverse of the covariance.
    pub precision: Arrow,
    /// Its Cholesky factor.
    pub factor: ArrowFactor,
}

impl ArrowGaussian {
    /// `KL(self ‖ other) = ½ (tr(H' H⁻¹) − k + δᵀ H' δ + ln det H − ln det H')`, where `H` and `H'` are the precisions of self and
    /// other and `δ` is the difference of the means.
    pub fn divergence_from(&self, other: &ArrowGaussian) -> f64 {
        let covariance = self.factor.inverse();
        let trace = other.precision.inner_product(&covariance) - self.mean.len() as f64;
        let distance: Vec<f64> = self.mean.iter().zip(&other.mean).map(|(a, b)| a - b).collect();
        let square: f64 = other.precision.times(&distance).iter().zip(&distance).map(|(a, b)| a * b).sum();
        0.5 * (trace + square + self.factor.log_determinant() - other.factor.log_determinant())
    }

    /// The vector of whitened coordinates: `mean + L⁻ᵀ ξ`.
    pub fn unwhiten(&self, xi: &[f64]) -> Vec<f64> {
        let mut x = xi.to_vec();
        self.factor.solve_lower_transposed(&mut x);
        x.iter_mut().zip(&self.mean).for_each(|(x, mean)| *x += mean);
        x
    }
}

/// Steps of EM on one quadratic approximation of the likelihood.
const MOST_UPDATES: usize = 40;
/// Relative change of a standard deviation below which Σ counts as found: it has to be near its marginal mode, not at it.
pub(crate) const STEADY_SCALE: f64 = 2e-3;

/// Σ near the mode of its marginal likelihood, by EM (Laplace's approximation of the effects) on the quadratic approximation of the
/// likelihood at one vector.
pub(crate) fn update_covariance(
    at: &[f64],
    likelihood: &GroupedCurvature,
    priors: &Priors,
    start: &EffectCovariance,
    groups: usize,
) -> Option<EffectCovariance> {
    let mut covariance = start.clone();
    for _ in 0..MOST_UPDATES {
        let gaussian = LocalPosterior::new(at, likelihood, priors, &covariance, groups)?.gaussian()?;
        let next = covariance.updated(&gaussian.mean, &gaussian.factor.inverse());
        let change = next.change_since(&covariance);
        covariance = next;
        if change < STEADY_SCALE {
            break;
        }
    }
    Some(covariance)
}
