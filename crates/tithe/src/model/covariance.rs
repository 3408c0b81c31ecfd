//! The covariance matrix of group effects, `Σ = diag(τ) R diag(τ)`, from unconstrained numbers, with prior and gradient.
//!
//! The scales are `τ_k = e^{s_k}`. The correlation matrix is `R = C Cᵀ` with a lower triangular `C`, whose rows have length 1:
//! `C_ij = z_ij √(1 − Σ_{k<j} C_ik²)` and `z_ij = tanh(t_ij)`, the canonical partial correlations (Lewandowski, Kurowicka and Joe
//! 2009), as in Stan. All of `s` and `t` are unconstrained.

use crate::base::error::{Error, Result, Setting};
use crate::base::math::{exp, ln};
use crate::model::group_prior::GroupPrior;

/// The largest number of effects per group: what fits into the arrays of the kernels.
pub const MOST_EFFECTS: usize = 64;

/// The prior of the covariance of one factor's group effects.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CovariancePrior {
    /// The prior of the scale of each of the q effects.
    pub scales: Vec<GroupPrior>,
    /// The shape η of the prior of the correlation matrix, whose density is proportional to `|R|^{η−1}` (LKJ); `None` if the effects
    /// are independent.
    pub correlation: Option<f64>,
}

impl CovariancePrior {
    /// The same prior for all scales, and uniform over correlation matrices if the effects are `correlated`.
    pub fn new(scale: GroupPrior, effects: usize, correlated: bool) -> CovariancePrior {
        CovariancePrior {
            scales: vec![scale; effects],
            correlation: (correlated && effects > 1).then_some(1.0),
        }
    }

    /// The number q of effects per group.
    pub fn width(&self) -> usize {
        self.scales.len()
    }

    /// The number of unconstrained parameters: q, and `q(q−1)/2` more if the effects are correlated.
    pub fn parameters(&self) -> usize {
        let q = self.width();
        q + if self.correlation.is_some() { q * (q - 1) / 2 } else { 0 }
    }

    /// Checks the parameters.
    pub fn check(&self) -> Result<()> {
        if self.scales.is_empty() || self.width() > MOST_EFFECTS {
            return Err(Error::setting(
                Setting::GroupPrior,
                format!("has {} scales; a group has 1 to {MOST_EFFECTS} effects", self.width()),
            ));
        }
        if let Some(eta) = self.correlation.filter(|eta| !(eta.is_finite() && *eta > 0.0)) {
            return Err(Error::setting(
                Setting::GroupPrior,
                format!("has a prior of the correlations with shape {eta}, which must be positive"),
            ));
        }
        self.scales.iter().try_for_each(GroupPrior::check)
    }
}

/// A covariance matrix, with what its density and gradient need. All matrices are `q × q`, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Covariance {
    /// The number q of effects per group.
    pub width: usize,
    /// The scales `τ`.
    pub tau: Vec<f64>,
    /// The canonical partial correlations below the diagonal.
    partial: Vec<f64>,
    /// `C`, the Cholesky factor of the correlation matrix.
    pub corr_factor: Vec<f64>,
    /// `Σ`.
    pub sigma: Vec<f64>,
    /// `Q = Σ⁻¹`.
    pub precision: Vec<f64>,
    /// `ln |Q|`.
    pub log_det_precision: f64,
    /// Log-density of the unconstrained parameters under the prior, without the normalising constant of LKJ's density.
    pub log_prior: f64,
    /// Derivatives of `log_prior` with respect to the logarithms of the scales.
    scale_slopes: Vec<f64>,
}

impl Covariance {
    /// The covariance with these unconstrained parameters: the logarithms of the scales, then `t_ij` row by row.
    pub fn new(prior: &CovariancePrior, unconstrained: &[f64]) -> Covariance {
        let q = prior.width();
        let (logs, free) = unconstrained.split_at(q);
        let mut log_prior = 0.0;
        let mut scale_slopes = Vec::with_capacity(q);
        for (scale, &s) in prior.scales.iter().zip(logs) {
            let (value, slope) = scale.local_of_log(s);
            log_prior += value;
            scale_slopes.push(slope);
        }
        let tau: Vec<f64> = logs.iter().map(|&s| exp(s)).collect();
        let (mut partial, mut c) = (vec![0.0; q * q], vec![0.0; q * q]);
        let mut free = free.iter();
        for i in 0..q {
            let mut rest = 1.0;
            for j in 0..i {
                let z = free.next().map_or(0.0, |&t| tanh(t));
                partial[i * q + j] = z;
                c[i * q + j] = z * f64::sqrt(rest);
                if let Some(eta) = prior.correlation {
                    log_prior += entry_log_prior(eta, q, j, z);
                }
                rest *= 1.0 - z * z;
            }
            c[i * q + i] = rest.sqrt();
        }
        let mut covariance = Covariance {
            width: q,
            tau,
            partial,
            corr_factor: c,
            log_prior,
            scale_slopes,
            ..Covariance::default()
        };
        covariance.invert(logs);
        covariance
    }

    /// Computes `Σ`, `Q` and `ln |Q|`.
    fn invert(&mut self, logs: &[f64]) {
        let q = self.width;
        let c = &self.corr_factor;
        self.sigma = vec![0.0; q * q];
        // The inverse of the factor diag(τ) C of Σ: row i is Cᵢ⁻¹ with column j divided by τ_j.
        let mut inverse = vec![0.0; q * q];
        self.log_det_precision = 0.0;
        for i in 0..q {
            for j in 0..=i {
                let product: f64 = (0..=j).map(|k| c[i * q + k] * c[j * q + k]).sum();
                self.sigma[i * q + j] = self.tau[i] * self.tau[j] * product;
                self.sigma[j * q + i] = self.sigma[i * q + j];
                let sum: f64 = (j..i).map(|k| c[i * q + k] * inverse[k * q + j]).sum();
                inverse[i * q + j] = (f64::from(u8::from(i == j)) - sum) / c[i * q + i];
            }
            self.log_det_precision -= 2.0 * (logs[i] + ln(c[i * q + i]));
        }
        self.precision = vec![0.0; q * q];
        for i in 0..q {
            for j in 0..=i {
                let product: f64 = (i..q).map(|k| inverse[k * q + i] * inverse[k * q + j]).sum();
                self.precision[i * q + j] = product / (self.tau[i] * self.tau[j]);
                self.precision[j * q + i] = self.precision[i * q + j];
            }
        }
    }

    /// The correlation of effects `i` and `j`.
    pub fn correlation(&self, i: usize, j: usize) -> f64 {
        let q = self.width;
        (0..q).map(|k| self.corr_factor[i * q + k] * self.corr_factor[j * q + k]).sum()
    }

    /// The gradient with respect to the unconstrained parameters of `log_prior + f(Q)`, where `slope` has the derivatives of `f`
    /// with respect to the entries of `Q` (a symmetric matrix).
    pub fn gradient(&self, prior: &CovariancePrior, slope: &[f64], gradient: &mut [f64]) {
        let q = self.width;
        // dQ = −Q dΣ Q.
        let by_sigma = sandwich(&self.precision, slope, q);
        let (by_logs, by_free) = gradient.split_at_mut(q);
        for i in 0..q {
            let sum: f64 = (0..q).map(|j| by_sigma[i * q + j] * self.sigma[i * q + j]).sum();
            by_logs[i] = self.scale_slopes[i] - 2.0 * sum;
        }
        let Some(eta) = prior.correlation else { return };
        // Σ = diag(τ) C Cᵀ diag(τ): the derivatives with respect to C.
        let mut by_factor = vec![0.0; q * q];
        for i in 0..q {
            for j in 0..=i {
                let sum: f64 = (0..q)
                    .map(|k| by_sigma[i * q + k] * self.tau[i] * self.tau[k] * self.corr_factor[k * q + j])
                    .sum();
                by_factor[i * q + j] = -2.0 * sum;
            }
        }
        let mut next = by_free.iter_mut();
        for i in 1..q {
            // C_ij = z_j √r_j and r_{j+1} = r_j (1 − z_j²), with C_ii = √r_i: backwards through the row.
            let row = i * q;
            let mut rests = vec![1.0; i + 1];
            for j in 0..i {
                rests[j + 1] = rests[j] * (1.0 - self.partial[row + j].powi(2));
            }
            let mut by_rest = by_factor[row + i] * 0.5 / rests[i].sqrt();
            let mut slopes = vec![0.0; i];
            for j in (0..i).rev() {
                let z = self.partial[row + j];
                let by_z = by_factor[row + j] * rests[j].sqrt() - 2.0 * z * rests[j] * by_rest;
                by_rest = by_rest * (1.0 - z * z) + by_factor[row + j] * z * 0.5 / rests[j].sqrt();
                slopes[j] = by_z * (1.0 - z * z) - 2.0 * z * entry_exponent(eta, q, j);
            }
            for slope in slopes {
                if let Some(into) = next.next() {
                    *into = slope;
                }
            }
        }
    }
}

/// The log-density of one canonical partial correlation `z` in column `j`, as a density of `t` with `z = tanh(t)`. Under LKJ's prior
/// the partial correlations are independent, `(1 + z)/2 ~ Beta(a, a)` with `a = η + (q − 2 − j)/2`.
fn entry_log_prior(eta: f64, q: usize, column: usize, z: f64) -> f64 {
    entry_exponent(eta, q, column) * ln(1.0 - z * z)
}

/// The exponent of `1 − z²`: `a − 1` of the density of `z`, and 1 of the derivative of `tanh`.
fn entry_exponent(eta: f64, q: usize, column: usize) -> f64 {
    eta + 0.5 * (q - 2 - column) as f64
}

/// `Q X Q` for symmetric matrices.
fn sandwich(q_matrix: &[f64], x: &[f64], q: usize) -> Vec<f64> {
    let mut half = vec![0.0; q * q];
    let mut result = vec![0.0; q * q];
    for i in 0..q {
        for j in 0..q {
            half[i * q + j] = (0..q).map(|k| q_matrix[i * q + k] * x[k * q + j]).sum();
        }
    }
    for i in 0..q {
        for j in 0..q {
            result[i * q + j] = (0..q).map(|k| half[i * q + k] * q_matrix[k * q + j]).sum();
        }
    }
    result
}

/// The hyperbolic tangent, from our own exponential so that every processor gives the same bits.
pub(crate) fn tanh(t: f64) -> f64 {
    let e = exp(-2.0 * t.abs());
    ((1.0 - e) / (1.0 + e)).copysign(t)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prior(q: usize, eta: f64) -> CovariancePrior {
        CovariancePrior { correlation: Some(eta), ..CovariancePrior::new(GroupPrior::default(), q, true) }
    }

    /// A smooth function of Q and its derivatives.
    fn some_function(precision: &[f64], q: usize) -> (f64, Vec<f64>) {
        let weight = |i: usize, j: usize| 0.3 + ((i + 1) * (j + 1)) as f64 * 0.1;
        let slope: Vec<f64> = (0..q * q).map(|k| weight(k / q, k % q)).collect();
        (slope.iter().zip(precision).map(|(w, p)| w * p).sum(), slope)
    }

    #[test]
    fn the_gradient_is_that_of_the_value() {
        for q in 1..=4 {
            let prior = prior(q, 1.7);
            let at: Vec<f64> = (0..prior.parameters()).map(|k| 0.3 * (k as f64 * 1.7 + 0.4).sin()).collect();
            let value = |x: &[f64]| {
                let covariance = Covariance::new(&prior, x);
                covariance.log_prior + some_function(&covariance.precision, q).0
            };
            let covariance = Covariance::new(&prior, &at);
            let mut gradient = vec![0.0; at.len()];
            covariance.gradient(&prior, &some_function(&covariance.precision, q).1, &mut gradient);
            for k in 0..at.len() {
                let (mut up, mut down) = (at.clone(), at.clone());
                up[k] += 1e-6;
                down[k] -= 1e-6;
                let slope = (value(&up) - value(&down)) / 2e-6;
                assert!(
                    (slope - gradient[k]).abs() < 1e-6 * (1.0 + slope.abs()),
                    "q = {q}, {k}: {slope} {gradient:?}"
                );
            }
        }
    }

    #[test]
    fn precision_is_the_inverse_and_its_determinant_is_right() {
        let covariance = Covariance::new(&prior(3, 1.0), &[0.2, -0.7, 1.1, 0.4, -0.9, 0.3]);
        for i in 0..3 {
            for j in 0..3 {
                let product: f64 =
                    (0..3).map(|k| covariance.sigma[i * 3 + k] * covariance.precision[k * 3 + j]).sum();
                assert!((product - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
            assert!((covariance.correlation(i, i) - 1.0).abs() < 1e-14);
            assert!((covariance.sigma[i * 4].sqrt() - covariance.tau[i]).abs() < 1e-12);
        }
        let s = &covariance.sigma;
        let determinant = s[0] * (s[4] * s[8] - s[5] * s[7]) - s[1] * (s[3] * s[8] - s[5] * s[6])
            + s[2] * (s[3] * s[7] - s[4] * s[6]);
        assert!((covariance.log_det_precision + determinant.ln()).abs() < 1e-12);
    }

    /// LKJ's density of a 3×3 correlation matrix is `|R|^{η−1}`. The density of the unconstrained parameters has to be this times the
    /// Jacobian of `t ↦ (R_21, R_31, R_32)`, here by finite differences.
    #[test]
    fn the_prior_of_correlations_is_that_of_lewandowski_and_others() {
        let prior = prior(3, 2.5);
        let entries = |t: &[f64; 3]| {
            let all = [0.0, 0.0, 0.0, t[0], t[1], t[2]];
            let covariance = Covariance::new(&prior, &all);
            [covariance.correlation(1, 0), covariance.correlation(2, 0), covariance.correlation(2, 1)]
        };
        let by_definition = |t: &[f64; 3]| {
            let mut columns = [[0.0; 3]; 3];
            for k in 0..3 {
                let (mut up, mut down) = (*t, *t);
                up[k] += 1e-5;
                down[k] -= 1e-5;
                let (up, down) = (entries(&up), entries(&down));
                (0..3).for_each(|i| columns[k][i] = (up[i] - down[i]) / 2e-5);
            }
            let [a, b, c] = columns;
            let jacobian = a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
                + a[2] * (b[0] * c[1] - b[1] * c[0]);
            let [x, y, z] = entries(t);
            let determinant = 1.0 + 2.0 * x * y * z - x * x - y * y - z * z;
            1.5 * determinant.ln() + jacobian.abs().ln()
        };
        let ours = |t: &[f64; 3]| Covariance::new(&prior, &[0.0, 0.0, 0.0, t[0], t[1], t[2]]).log_prior;
        let (one, two) = ([0.3, -0.5, 0.8], [-0.9, 0.1, 0.2]);
        let (difference, expected) = (ours(&one) - ours(&two), by_definition(&one) - by_definition(&two));
        assert!((difference - expected).abs() < 1e-7, "{difference} {expected}");
    }

    #[test]
    fn independent_effects_have_no_correlation() {
        let prior = CovariancePrior::new(GroupPrior::HalfNormal { scale: 1.0 }, 2, false);
        assert_eq!(prior.parameters(), 2);
        let covariance = Covariance::new(&prior, &[0.5, -0.5]);
        assert_eq!(covariance.correlation(1, 0), 0.0);
        assert!((covariance.precision[3] - 1.0f64.exp()).abs() < 1e-12);
        assert!(CovariancePrior { scales: Vec::new(), correlation: None }.check().is_err());
        assert!(CovariancePrior { correlation: Some(0.0), ..prior }.check().is_err());
    }
}
