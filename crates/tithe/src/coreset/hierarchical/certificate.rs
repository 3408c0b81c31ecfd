//! The certificate of a coreset for a hierarchical model: how far its posterior is from the full data's at half, once and twice the
//! scale of the group effects.
//!
//! At each scale the coreset's mode is found, and one pass evaluates the full data there: gradient and Hessian give the full data's
//! normal approximation, whose mean is one Newton step away. The KL of the two normal approximations counts all effects and fixed
//! effects. The same pass evaluates the full data's log-likelihood at draws from the coreset's posterior.

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::rng::Seed;
use crate::coreset::hierarchical::draws::posterior_draws;
use crate::data::grouped::GroupedPoints;
use crate::engine::Engine;
use crate::mcmc::discrepancy::Discrepancy;
use crate::mode::grouped_evaluation::AllRows;
use crate::mode::hierarchical::{HierarchicalMode, Scales, hierarchical_mode};
use crate::model::grouped_likelihood::{GroupedCurvature, grouped_values};
use crate::model::hierarchical::{ArrowGaussian, LocalPosterior};
use crate::model::prior::Priors;

/// The scales of the group effects at which posteriors are compared, relative to their marginal mode.
const SCALES: [f64; 3] = [0.5, 1.0, 2.0];
/// Numbers in the draws of one scale, which all machines receive; there are at least [`FEWEST_DRAWS`] and at most [`MOST_DRAWS`].
const NUMBERS: usize = 1_000_000;
const FEWEST_DRAWS: usize = 10;
const MOST_DRAWS: usize = 50;

/// How far the coreset's posterior is from the full data's at one scale of the group effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct ScaleCertificate {
    /// The scale, relative to the marginal mode of the group scales.
    pub scale: f64,
    /// The KL of the joint normal approximations of all effects and fixed effects, in nats.
    pub kl: f64,
    /// The largest error of a mean, in posterior standard deviations, among effects and fixed effects.
    pub mean_error: f64,
    /// The parameter that has it.
    pub mean_error_of: String,
    /// The smallest and the largest ratio of standard deviations.
    pub sd_ratios: (f64, f64),
    /// `½ Var(L − L̃)` over draws, with its standard error, and `k̂` of the weights `exp(L − L̃)`.
    pub draws: Option<DrawsCertificate>,
}

/// What the log-likelihoods of full data and coreset at draws say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct DrawsCertificate {
    /// Number of draws.
    pub draws: usize,
    /// `½ Var(L − L̃)`, in nats: to second order the KL.
    pub kl: f64,
    /// Its standard error.
    pub kl_error: f64,
    /// Pareto's `k̂`; below 0.7 reweighting the draws is reliable.
    pub k_hat: Option<f64>,
}

impl ScaleCertificate {
    /// The larger of the KL of normal approximations and that at draws.
    pub fn largest_kl(&self) -> f64 {
        self.draws.as_ref().map_or(self.kl, |draws| draws.kl.max(self.kl))
    }
}

/// What the certificate of a coreset compares it with.
pub(crate) struct Comparison<'a, E> {
    pub all_rows: AllRows<'a, E>,
    pub priors: &'a Priors,
    /// The full data's mode, at scale 1.
    pub reference: &'a HierarchicalMode,
    /// The names of all parameters.
    pub names: &'a dyn Fn(usize) -> String,
    pub seed: Seed,
}

impl<E: Engine> Comparison<'_, E> {
    /// The certificate at every scale, in one pass.
    pub fn certify(&self, coreset: &GroupedPoints) -> Result<Vec<ScaleCertificate>> {
        let mut modes = Vec::with_capacity(SCALES.len());
        for scale in SCALES {
            let covariance = self.reference.covariance.scaled(scale);
            let start = self.reference.at.clone();
            modes.push(hierarchical_mode(
                &mut &*coreset,
                self.priors,
                start,
                covariance,
                Scales::Fixed,
                1e-12,
            )?);
        }
        let curvatures_at: Vec<Vec<f64>> = modes.iter().map(|mode| mode.gaussian.mean.clone()).collect();
        let each = (NUMBERS / self.all_rows.shape.len()).clamp(FEWEST_DRAWS, MOST_DRAWS);
        let draw = |(s, mode)| posterior_draws(coreset, mode, each, self.seed, s);
        let draws: Vec<Vec<f64>> = modes.iter().enumerate().flat_map(draw).collect();
        let found = self.all_rows.at(&curvatures_at, &draws)?;
        let represented = grouped_values(coreset, &draws);
        let mut certificates = Vec::with_capacity(SCALES.len());
        for (s, (mode, likelihood)) in modes.iter().zip(&found.curvatures).enumerate() {
            let of_scale = s * each..(s + 1) * each;
            let log_ratios: Vec<f64> = of_scale.map(|d| found.values[d] - represented[d]).collect();
            certificates.push(self.at_scale(SCALES[s], mode, likelihood, &log_ratios)?);
        }
        Ok(certificates)
    }

    fn at_scale(
        &self,
        scale: f64,
        mode: &HierarchicalMode,
        likelihood: &GroupedCurvature,
        log_ratios: &[f64],
    ) -> Result<ScaleCertificate> {
        let (coreset, groups) = (&mode.gaussian, self.all_rows.shape.groups);
        let full = LocalPosterior::new(&coreset.mean, likelihood, self.priors, &mode.covariance, groups)
            .and_then(|local| local.gaussian())
            .ok_or_else(no_approximation)?;
        let (mean_error, worst, sd_ratios) = differences(coreset, &full);
        let nothing = vec![Vec::new(); log_ratios.len()];
        let draws = Discrepancy::of(&nothing, &vec![0.0; log_ratios.len()], log_ratios).map(|(found, _)| {
            DrawsCertificate {
                draws: found.draws,
                kl: found.kl,
                kl_error: found.kl_error,
                k_hat: found.k_hat,
            }
        });
        Ok(ScaleCertificate {
            scale,
            kl: coreset.divergence_from(&full),
            mean_error,
            mean_error_of: (self.names)(worst),
            sd_ratios,
            draws,
        })
    }
}

/// The largest error of a mean in standard deviations, the parameter that has it, and the range of the ratios of standard deviations.
fn differences(coreset: &ArrowGaussian, full: &ArrowGaussian) -> (f64, usize, (f64, f64)) {
    let (of_coreset, of_full) = (coreset.factor.inverse().diagonal(), full.factor.inverse().diagonal());
    let (mut worst, mut ratios) = ((0.0, 0), (f64::INFINITY, 0.0f64));
    for (i, (variance, true_variance)) in of_coreset.iter().zip(&of_full).enumerate() {
        let error = (coreset.mean[i] - full.mean[i]).abs() / true_variance.sqrt();
        if error > worst.0 {
            worst = (error, i);
        }
        let ratio = (variance / true_variance).sqrt();
        ratios = (ratios.0.min(ratio), ratios.1.max(ratio));
    }
    (worst.0, worst.1, ratios)
}

fn no_approximation() -> Error {
    ErrorKind::Numerical {
        what: "the full data's posterior has no normal approximation near the coreset's mode".to_string(),
        help: None,
    }
    .into()
}
