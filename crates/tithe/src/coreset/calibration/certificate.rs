//! The certificate: how far a coreset's posterior is from the full data's.
//!
//! The verdict goes by draws (module `check`) from the coreset's posterior. The comparison of the normal
//! approximations at the two modes costs nothing, and says which directions a coreset misses.
//!
//! The full data's maximum `θ̂` and Hessian `H` are known from the Newton passes; the coreset's own are a few Newton steps over
//! its few rows. So this is the KL of the two normal approximations itself, not a prediction of it:
//! `KL = ½[tr(H̃⁻¹H) − D + (θ̃−θ̂)ᵀH(θ̃−θ̂) + ln det H̃ − ln det H]`.
//! In the directions whitened by `H` the coreset's Hessian should be the identity: an eigenvalue far below 1 is a direction
//! about which the coreset has too little information, which a quadratic prediction can hide and this cannot.

use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::linear::{Cholesky, Eigen, solve_lower, solve_lower_transposed};
use crate::base::math::{ln_1p, log10, pow};
use crate::data::points::Points;
use crate::mcmc::discrepancy::Discrepancy;
use crate::model::Gaussian;
use crate::model::divergence::Threshold;
use crate::model::likelihood::Curvature;
use crate::model::newton::mode_of_points;

/// A whitened eigenvalue below this is a direction that the coreset misses: it retains less than half of the information.
const DEFICIENT: f64 = 0.5;

/// A direction about which the coreset has too little information.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Deficiency {
    /// The coreset's information about it, as a fraction of the full posterior's.
    pub information: f64,
    /// The coefficients with the largest loadings and their shares, which add up to nine tenths.
    pub coefficients: Vec<(usize, f64)>,
}

/// A verdict on a coreset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Verdict {
    /// At draws the KL is at most 0.01 and no mean is more than 0.05 standard deviations off.
    Indistinguishable,
    /// At draws the KL is at most 0.05 and no mean is more than 0.1 standard deviations off.
    Good,
    /// The normal approximations are close, but the posteriors were not compared at draws.
    NotVerified,
    /// More rows are needed.
    TooSmall {
        /// A size worth trying.
        try_size: usize,
    },
}

/// What the full data's log-likelihood at the draws is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Evidence {
    /// All rows, in a pass of its own.
    AllRows,
    /// Value, gradient and Hessian of all rows, and a probability sample of rows for the rest.
    SampledRows,
}

/// A comparison with the full data's posterior at draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct ByDraws {
    /// How far the posteriors are from each other.
    #[serde(flatten)]
    pub discrepancy: Discrepancy,
    /// What the full data's log-likelihood is known from.
    pub evidence: Evidence,
}

/// How far the coreset's posterior is from the full data's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Certificate {
    /// The comparison of the normal approximations at the two modes.
    #[serde(flatten)]
    pub normal: NormalComparison,
    /// The comparison at draws; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_draws: Option<ByDraws>,
    verdict: Verdict,
}

/// How far the normal approximations of two posteriors are from each other, at the modes of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct NormalComparison {
    /// KL from the coreset's posterior to the full data's, in nats, both Gaussian approximations.
    pub kl: f64,
    /// `‖Aw − b‖²`: the same to second order, before the coreset's own maximum is sought.
    pub predicted_kl: Option<f64>,
    /// The shift of each coefficient's mean, in posterior standard deviations.
    pub mean_shifts: Vec<f64>,
    /// Each coefficient's standard deviation, as a ratio to the full posterior's.
    pub sd_ratios: Vec<f64>,
    /// The smallest and largest eigenvalue of the coreset's Hessian in directions whitened by the full one.
    pub information: (f64, f64),
    /// The directions that the coreset misses.
    pub deficiencies: Vec<Deficiency>,
}

/// Which weights were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Guard {
    /// The calibrated weights: their certificate is better.
    Calibrated,
    /// The weights of the selection: calibration did not improve on them.
    Reference,
}

impl Guard {
    /// Keeps calibrated weights only where the certificate improves.
    pub fn decide(calibrated: &Certificate, reference: &Certificate) -> Guard {
        if calibrated.normal.kl <= reference.normal.kl { Guard::Calibrated } else { Guard::Reference }
    }
}

impl Certificate {
    /// The verdict. Files of earlier versions have one by normal approximations, which is not enough to praise a coreset.
    pub fn verdict(&self) -> Verdict {
        match self.verdict {
            Verdict::Indistinguishable | Verdict::Good if self.by_draws.is_none() => Verdict::NotVerified,
            verdict => verdict,
        }
    }

    /// The KL, in nats: by draws if the posteriors were compared at draws, or else that of the normal approximations.
    pub fn kl(&self) -> f64 {
        self.by_draws.as_ref().map_or(self.normal.kl, |by_draws| by_draws.discrepancy.kl)
    }

    /// The largest error of a posterior mean, in standard deviations, by the same comparison.
    pub fn largest_mean_error(&self) -> f64 {
        match &self.by_draws {
            Some(by_draws) => by_draws.discrepancy.largest_mean_error(),
            None => self.normal.mean_shifts.iter().fold(0.0, |largest, shift| shift.abs().max(largest)),
        }
    }

    /// The smallest and largest ratio of standard deviations, by the same comparison.
    pub fn sd_ratio_range(&self) -> (f64, f64) {
        let ratios = match &self.by_draws {
            Some(by_draws) => &by_draws.discrepancy.sd_ratios,
            None => &self.normal.sd_ratios,
        };
        ratios.iter().fold((f64::INFINITY, 0.0), |(low, high), &ratio| (ratio.min(low), ratio.max(high)))
    }

    /// True if the KL is at most `kl` and the coreset misses no direction.
    pub fn meets(&self, kl: f64) -> bool {
        self.kl() <= kl && self.normal.deficiencies.is_empty()
    }

    /// The same with a comparison at draws, which decides the verdict; the coreset has `rows` rows.
    pub(crate) fn with_draws(self, by_draws: ByDraws, rows: usize) -> Certificate {
        let found = &by_draws.discrepancy;
        let verdict = verdict(
            found.kl,
            found.largest_mean_error(),
            found.is_reliable() && self.normal.deficiencies.is_empty(),
            self.normal.mean_shifts.len(),
            rows,
        );
        Certificate { by_draws: Some(by_draws), verdict, ..self }
    }

    #[doc(hidden)]
    /// Certifies weighted points against the full posterior. The prior is normal with mean 0 and the given precision for each
    /// coefficient; `predicted_kl` is copied into the certificate.
    ///
    /// # Errors
    /// If the coreset's log-posterior has no maximum that Newton's method can find.
    pub fn new(
        coreset: &Points,
        full: &Gaussian,
        prior_precision: &[f64],
        predicted_kl: Option<f64>,
    ) -> Result<Certificate> {
        let own = mode_of_points(coreset, prior_precision, full.mean().to_vec())?;
        let own = approximation(own.mode, own.precision, "the coreset's")?;
        compare(&own, full, coreset.len(), predicted_kl)
    }

    /// Certifies the `rows` rows of a part of the data, whose log-likelihood at the mode of all data is wrong by `change`.
    pub(crate) fn of_change(
        change: &Curvature,
        full: &Gaussian,
        rows: usize,
        predicted_kl: Option<f64>,
    ) -> Result<Certificate> {
        compare(&changed(full, change)?, full, rows, predicted_kl)
    }
}

/// The normal approximation that a full posterior would have if its log-likelihood changed by as much at its mode.
fn changed(full: &Gaussian, change: &Curvature) -> Result<Gaussian> {
    let dim = full.dim();
    let precision = full.precision() + Mat::from_fn(dim, dim, |i, j| change.entry(i, j));
    let Some(factor) = Cholesky::new(precision.as_ref()) else {
        return Err(not_positive_definite("the coreset's"));
    };
    let step = factor.solve(Mat::from_fn(dim, 1, |i, _| change.gradient[i]));
    let mean = full.mean().iter().enumerate().map(|(i, mean)| mean + step[(i, 0)]).collect();
    approximation(mean, precision, "the coreset's")
}

/// The normal approximation of a posterior at its mode; `whose` names the posterior in an error.
pub(crate) fn approximation(mode: Vec<f64>, precision: Mat<f64>, whose: &str) -> Result<Gaussian> {
    Gaussian::from_precision(mode, precision).ok_or_else(|| not_positive_definite(whose))
}

fn not_positive_definite(whose: &str) -> Error {
    ErrorKind::Numerical {
        what: format!("the Hessian of {whose} log-posterior is not positive definite"),
        help: Some("give the prior a smaller scale, so that every coefficient has some information".into()),
    }
    .into()
}

/// The certificate for two Gaussian approximations.
fn compare(own: &Gaussian, full: &Gaussian, rows: usize, predicted_kl: Option<f64>) -> Result<Certificate> {
    let dim = full.dim();
    let factor_of = |gaussian: &Gaussian, whose| {
        Cholesky::new(gaussian.precision().as_ref()).ok_or_else(|| not_positive_definite(whose))
    };
    let (factor, own_factor) = (factor_of(full, "the full data's")?, factor_of(own, "the coreset's")?);
    // The coreset's Hessian whitened by the full one: L⁻¹ H̃ L⁻ᵀ.
    let mut half = own.precision().clone();
    solve_lower(factor.lower(), half.as_mut());
    let mut whitened = half.transpose().to_owned();
    solve_lower(factor.lower(), whitened.as_mut());
    let eigen = Eigen::new(whitened.as_ref()).ok_or_else(|| {
        Error::from(ErrorKind::Numerical {
            what: "no eigenvalues of the coreset's Hessian".to_string(),
            help: None,
        })
    })?;
    // Smaller eigenvalues are rounding errors, and may be negative.
    let values: Vec<f64> = eigen.values.iter().map(|value| value.max(f64::EPSILON)).collect();
    let shift: Vec<f64> = own.mean().iter().zip(full.mean()).map(|(a, b)| a - b).collect();
    let mut kl = 0.5 * quadratic(full.precision().as_ref(), &shift);
    // ½(1/e − 1 + ln e) without cancellation where e is near 1.
    kl += values.iter().map(|&e| 0.5 * ((1.0 - e) / e + ln_1p(e - 1.0))).sum::<f64>();
    let (covariance, own_covariance) = (factor.inverse(), own_factor.inverse());
    let sd: Vec<f64> = (0..dim).map(|i| covariance[(i, i)].sqrt()).collect();
    let mean_shifts = (0..dim).map(|i| shift[i] / sd[i]).collect();
    let sd_ratios = (0..dim).map(|i| own_covariance[(i, i)].sqrt() / sd[i]).collect();
    let mut deficiencies: Vec<Deficiency> = (0..dim)
        .filter(|&i| values[i] < DEFICIENT)
        .map(|i| {
            // The direction in parameter space, L⁻ᵀv, each coefficient in units of its standard deviation.
            let mut direction = Mat::from_fn(dim, 1, |j, _| eigen.vectors[(j, i)]);
            solve_lower_transposed(factor.lower(), direction.as_mut());
            Deficiency {
                information: values[i],
                coefficients: loadings((0..dim).map(|j| direction[(j, 0)] / sd[j])),
            }
        })
        .collect();
    deficiencies.sort_by(|a, b| a.information.total_cmp(&b.information));
    let information =
        values.iter().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), &e| (e.min(low), e.max(high)));
    let normal = NormalComparison { kl, predicted_kl, mean_shifts, sd_ratios, information, deficiencies };
    let largest = normal.mean_shifts.iter().fold(0.0, |largest: f64, shift| shift.abs().max(largest));
    let verdict = verdict(kl, largest, normal.deficiencies.is_empty(), dim, rows);
    Ok(Certificate { normal, by_draws: None, verdict })
}

/// The coefficients that make up nine tenths of a direction's square, the largest first.
fn loadings(direction: impl Iterator<Item = f64>) -> Vec<(usize, f64)> {
    let mut squares: Vec<(usize, f64)> = direction.map(|x| x * x).enumerate().collect();
    let total: f64 = squares.iter().map(|(_, square)| square).sum();
    squares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut covered = 0.0;
    let mut loadings = Vec::new();
    for (coefficient, square) in squares {
        if covered >= 0.9 * total {
            break;
        }
        covered += square;
        loadings.push((coefficient, square / total));
    }
    loadings
}

fn verdict(kl: f64, mean_error: f64, is_reliable: bool, dim: usize, rows: usize) -> Verdict {
    if is_reliable && Threshold::INDISTINGUISHABLE.admits(kl, mean_error) {
        Verdict::Indistinguishable
    } else if is_reliable && Threshold::GOOD.admits(kl, mean_error) {
        Verdict::Good
    } else {
        // A rule of thumb: half as many rows again, doubled for every factor of 10 that the KL is too large, and never fewer
        // than ten for each coefficient.
        let decades = log10(kl / Threshold::GOOD.kl).clamp(0.0, 2.0);
        let wanted = rows as f64 * 1.5 * pow(2.0, decades);
        let wanted = wanted.max(10.0 * dim as f64);
        let unit = pow(10.0, log10(wanted).floor() - 1.0).max(1.0);
        Verdict::TooSmall { try_size: ((wanted / unit).ceil() * unit) as usize }
    }
}

/// `xᵀAx`.
fn quadratic(matrix: MatRef<'_, f64>, x: &[f64]) -> f64 {
    (0..x.len()).map(|j| x[j] * (0..x.len()).map(|i| matrix[(i, j)] * x[i]).sum::<f64>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Seed, open_unit};

    /// Three columns: an intercept, a uniform one, and a rare indicator that occurs in every fiftieth row.
    fn data(count: usize) -> Points {
        let mut rng = Seed(8).stream(Purpose::Generate, 0);
        let mut points = Points::new(3);
        for n in 0..count {
            let x = [1.0, 2.0 * open_unit(&mut rng) - 1.0, if n % 50 == 0 { 1.0 } else { 0.0 }];
            let s = 0.3 + x[1] - 0.5 * x[2];
            let y = if open_unit(&mut rng) < 1.0 / (1.0 + (-s).exp()) { 1.0 } else { -1.0 };
            points.push(&x.map(|x| x * y), 1.0);
        }
        points
    }

    fn gaussian(mean: Vec<f64>, precision: Mat<f64>) -> Gaussian {
        Gaussian::from_precision(mean, precision).expect("positive definite")
    }

    const PRIOR: [f64; 3] = [0.25; 3];

    fn full(points: &Points) -> Gaussian {
        let mode = mode_of_points(points, &PRIOR, vec![0.0; 3]).expect("a mode");
        approximation(mode.mode, mode.precision, "the full data's").expect("positive definite")
    }

    #[test]
    fn the_data_themselves_are_indistinguishable_from_themselves() {
        let points = data(2000);
        let certificate = Certificate::new(&points, &full(&points), &PRIOR, None).expect("a certificate");
        assert!(certificate.normal.kl.abs() < 1e-12, "{}", certificate.normal.kl);
        assert_eq!(certificate.verdict(), Verdict::NotVerified);
        assert!(certificate.normal.deficiencies.is_empty());
    }

    #[test]
    fn the_divergence_agrees_with_the_dense_formula() {
        // Two dimensions, by hand: Σ⁻¹ = precision, KL = ½[tr(P_f Σ_o) − 2 + δᵀP_fδ + ln(det P_o/det P_f)].
        let own = gaussian(vec![0.3, -0.2], faer::mat![[2.0, 0.5], [0.5, 1.0]]);
        let full = gaussian(vec![0.1, 0.1], faer::mat![[3.0, -0.4], [-0.4, 0.7]]);
        let det_own: f64 = 2.0 * 1.0 - 0.25;
        let det_full: f64 = 3.0 * 0.7 - 0.16;
        let trace = (3.0 * 1.0 - (-0.4) * 0.5 - (-0.4) * 0.5 + 0.7 * 2.0) / det_own;
        let shift = [0.2, -0.3];
        let square = 3.0 * shift[0] * shift[0] - 0.8 * shift[0] * shift[1] + 0.7 * shift[1] * shift[1];
        let expected = 0.5 * (trace - 2.0 + square + (det_own / det_full).ln());
        let certificate = compare(&own, &full, 10, None).expect("a certificate");
        assert!(
            (certificate.normal.kl - expected).abs() < 1e-13,
            "{} against {expected}",
            certificate.normal.kl
        );
        let sd = (0.7 / det_full).sqrt();
        assert!((certificate.normal.mean_shifts[0] - 0.2 / sd).abs() < 1e-13);
        assert!((certificate.normal.sd_ratios[0] - (1.0 / det_own).sqrt() / sd).abs() < 1e-13);
    }

    #[test]
    fn a_coreset_robbed_of_a_rare_level_says_so() {
        let points = data(5000);
        let mut robbed = Points::new(3);
        for n in (0..points.len()).filter(|n| n % 50 != 0) {
            robbed.push(&points.row(n), 5000.0 / 4900.0);
        }
        let certificate = Certificate::new(&robbed, &full(&points), &PRIOR, None).expect("a certificate");
        assert_eq!(certificate.normal.deficiencies.len(), 1);
        let (coefficient, loading) = certificate.normal.deficiencies[0].coefficients[0];
        assert_eq!(coefficient, 2);
        assert!(loading > 0.8, "{loading}");
        assert!(certificate.normal.kl > 1.0, "{}", certificate.normal.kl);
        assert!(matches!(certificate.verdict(), Verdict::TooSmall { try_size } if try_size > robbed.len()));
    }

    /// A direction with almost no information, down to the level of rounding.
    #[test]
    fn a_direction_without_information_is_no_good_sign() {
        let full = Gaussian::standard(3);
        for least in [1e-14, 1e-17, 1e-40, 1e-300] {
            let diagonal = [1.0, least, 1.0];
            let precision = Mat::from_fn(3, 3, |i, j| if i == j { diagonal[i] } else { 0.0 });
            let certificate =
                compare(&gaussian(vec![0.0; 3], precision), &full, 100, None).expect("a certificate");
            assert!(
                certificate.normal.kl > 1e12 && certificate.normal.kl.is_finite(),
                "{least}: {}",
                certificate.normal.kl
            );
            assert!(matches!(certificate.verdict(), Verdict::TooSmall { .. }), "{least}");
            assert_eq!(certificate.normal.deficiencies.len(), 1);
        }
    }

    #[test]
    fn the_guard_keeps_the_better() {
        let points = data(1000);
        let gaussian = full(&points);
        let good = Certificate::new(&points, &gaussian, &PRIOR, None).expect("a certificate");
        let half =
            Points::from_rows(3, [(points.row(1).as_slice(), 500.0), (points.row(2).as_slice(), 500.0)]);
        let bad = Certificate::new(&half, &gaussian, &PRIOR, None).expect("a certificate");
        assert_eq!(Guard::decide(&good, &bad), Guard::Calibrated);
        assert_eq!(Guard::decide(&bad, &good), Guard::Reference);
    }
}
