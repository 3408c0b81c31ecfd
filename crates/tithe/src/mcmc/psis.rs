//! Pareto-smoothed importance weights (Vehtari et al. 2024), with ArviZ's conventions.

use crate::base::math::{exp, exp_m1, ln, ln_1p};

/// Smoothed importance weights and a measure of their reliability.
#[derive(Clone, Debug, PartialEq)]
pub struct Psis {
    /// Logarithms of the smoothed weights; the weights sum to 1.
    pub log_weights: Vec<f64>,
    /// Shape `k̂` of the generalised Pareto distribution fitted to the largest weights: below 0.7 estimates are reliable;
    /// infinite if the tail is too short to fit.
    pub k_hat: f64,
}

impl Psis {
    /// Smooths the weights whose logarithms, up to a constant, are `log_ratios`. `None` if there are none, or if one is NaN
    /// or `+∞`.
    pub fn of(log_ratios: &[f64]) -> Option<Psis> {
        let largest = log_ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !largest.is_finite() || log_ratios.iter().any(|x| x.is_nan()) {
            return None;
        }
        let mut x: Vec<f64> = log_ratios.iter().map(|x| x - largest).collect();
        let mut order: Vec<usize> = (0..x.len()).collect();
        order.sort_by(|&a, &b| x[a].total_cmp(&x[b]));
        let n = x.len() as f64;
        let tail = (n / 5.0).min(3.0 * n.sqrt()).ceil() as usize;
        let cutoff = x[order[x.len().saturating_sub(tail + 1)]].max(ln(f64::MIN_POSITIVE));
        let in_tail: Vec<usize> = order.into_iter().filter(|&i| x[i] > cutoff).collect();
        let mut k_hat = f64::INFINITY;
        if in_tail.len() > 4 {
            let exceedances: Vec<f64> = in_tail.iter().map(|&i| exp(x[i]) - exp(cutoff)).collect();
            let pareto = Pareto::fit(&exceedances);
            if pareto.shape.is_finite() {
                k_hat = pareto.shape;
                for (rank, &i) in in_tail.iter().enumerate() {
                    let p = (rank as f64 + 0.5) / in_tail.len() as f64;
                    // No smoothed weight exceeds the largest raw weight.
                    x[i] = ln(pareto.quantile(p) + exp(cutoff)).min(0.0);
                }
            }
        }
        let log_total = log_sum_exp(&x);
        Some(Psis { log_weights: x.into_iter().map(|x| x - log_total).collect(), k_hat })
    }

    /// Effective number of draws, `1/Σw²`.
    pub fn effective_draws(&self) -> f64 {
        1.0 / self.log_weights.iter().map(|x| exp(2.0 * x)).sum::<f64>()
    }
}

/// `ln Σ e^x` without overflow.
fn log_sum_exp(x: &[f64]) -> f64 {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + ln(x.iter().map(|x| exp(x - largest)).sum::<f64>())
}

/// A generalised Pareto distribution.
struct Pareto {
    shape: f64,
    scale: f64,
}

impl Pareto {
    /// The estimate of Zhang and Stephens (2009) with a weak prior towards ½; `x` ascending and positive.
    fn fit(x: &[f64]) -> Pareto {
        let n = x.len();
        let grid = 30 + (n as f64).sqrt() as usize;
        let quartile = x[((n as f64 / 4.0 + 0.5) as usize).saturating_sub(1)];
        let shape_at = |b: f64| x.iter().map(|x| ln_1p(-b * x)).sum::<f64>() / n as f64;
        let candidates: Vec<(f64, f64)> = (1..=grid)
            .map(|i| {
                let b = (1.0 - (grid as f64 / (i as f64 - 0.5)).sqrt()) / (3.0 * quartile) + 1.0 / x[n - 1];
                let k = shape_at(b);
                (b, n as f64 * (ln(-b / k) - k - 1.0))
            })
            .collect();
        let (mut total, mut sum) = (0.0, 0.0);
        for &(b, here) in &candidates {
            let weight = 1.0 / candidates.iter().map(|(_, there)| exp(there - here)).sum::<f64>();
            if weight >= 10.0 * f64::EPSILON {
                total += weight;
                sum += weight * b;
            }
        }
        let b = sum / total;
        let k = shape_at(b);
        Pareto { shape: (n as f64 * k + 5.0) / (n as f64 + 10.0), scale: -k / b }
    }

    fn quantile(&self, p: f64) -> f64 {
        let log_survival = ln_1p(-p);
        if self.shape.abs() < f64::EPSILON {
            -self.scale * log_survival
        } else {
            self.scale * exp_m1(-self.shape * log_survival) / self.shape
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_do_not_change() {
        let psis = Psis::of(&[3.0; 100]).unwrap();
        assert!(psis.log_weights.iter().all(|w| (w + 100f64.ln()).abs() < 1e-12));
        assert!((psis.effective_draws() - 100.0).abs() < 1e-9);
        assert_eq!(psis.k_hat, f64::INFINITY);
    }

    #[test]
    fn no_ratios_give_no_weights() {
        assert_eq!(Psis::of(&[]), None);
        assert_eq!(Psis::of(&[0.0, f64::NAN]), None);
        assert_eq!(Psis::of(&[f64::NEG_INFINITY; 3]), None);
        assert_eq!(Psis::of(&[0.0, f64::INFINITY]), None);
    }
}
