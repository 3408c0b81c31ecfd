//! Verifies a posterior with one pass over the full data: measures how far its draws are from the full data's posterior,
//! and computes importance weights that correct them.
//!
//! For draws `θ_s` the log-ratio of the full data's posterior to the sampled density is `L(θ_s) + ln p(θ_s) − lp_s`.
//! Half its variance estimates the KL; Pareto smoothing turns it into importance weights with a measure of reliability.

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Remedy, Result, Setting};
use crate::base::math::exp;
use crate::encoding::full_data::Identity;
use crate::engine::Engine;
use crate::mcmc::discrepancy::Discrepancy;
use crate::mcmc::psis::Psis;
use crate::mode::values::log_likelihoods;
use crate::results::fit::Fit;
use crate::results::group_effects::log_likelihoods_with_groups;
use crate::results::judgement::{Judgement, VerificationFacts};

/// Number of draws that are compared first.
const FIRST_DRAWS: usize = 400;
/// Where these do not suffice, this many times as many are compared.
const GROWTH: usize = 4;

/// How to verify.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct VerifySettings {
    /// Number of draws that are evaluated, evenly spaced; `None` is as many as the verdict needs: 400, or more where the
    /// weights are not reliable yet or the verdict is within two standard errors of another one.
    pub draws: Option<usize>,
    /// Continue if the data is not the data that was recorded.
    pub force: bool,
}

/// Summary of a coefficient on the user's scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Figures {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// 5 % quantile: with `q95` the 90 % interval.
    pub q05: f64,
    /// 95 % quantile.
    pub q95: f64,
}

/// The result of a verification.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Verification {
    /// The draws that were evaluated, as positions among all draws of all chains.
    pub chosen: Vec<usize>,
    /// The log-ratio of the full data's posterior to the sampled density at each of them, up to a constant.
    pub log_ratios: Vec<f64>,
    /// The full data's log-posterior at each of them, unnormalised.
    pub log_posterior: Vec<f64>,
    /// How far the sampled posterior is from the full data's, for the coefficients on the user's scale.
    pub discrepancy: Discrepancy,
    #[doc(hidden)]
    /// The importance weights and `k̂`.
    pub psis: Psis,
    /// The coefficients by the evaluated draws, without weights.
    pub drawn: Vec<Figures>,
    /// The coefficients by the weighted draws: the full data's posterior.
    pub corrected: Vec<Figures>,
    /// The verdict.
    pub judgement: Judgement,
    #[doc(hidden)]
    /// Number of rows and fingerprint of the data.
    pub identity: Identity,
    /// Whether the data is the data that was recorded.
    pub same_data: bool,
}

impl Verification {
    /// KL from the sampled posterior to the full data's, in nats: half the variance of the log-ratios.
    pub fn kl(&self) -> f64 {
        self.discrepancy.kl
    }

    /// Effective draws per draw.
    pub fn efficiency(&self) -> f64 {
        self.discrepancy.efficiency
    }

    /// The importance weights; they sum to 1.
    pub fn weights(&self) -> Vec<f64> {
        self.psis.log_weights.iter().map(|x| exp(*x)).collect()
    }

    /// What a posterior's record keeps of it; `corrected` says that its draws were resampled.
    pub(crate) fn facts(&self, corrected: bool) -> VerificationFacts {
        let Discrepancy { draws, kl, kl_error, k_hat, efficiency, .. } = self.discrepancy;
        VerificationFacts {
            verdict: self.judgement,
            rows: self.identity.rows,
            draws,
            kl,
            kl_error,
            largest_mean_error: self.discrepancy.largest_mean_error(),
            k_hat,
            efficiency,
            corrected,
        }
    }

    /// Whether more draws may change the verdict.
    fn is_unsure(&self) -> bool {
        let found = &self.discrepancy;
        if !found.is_reliable() {
            return found.may_become_reliable();
        }
        // To first order the error of a mean is the covariance of a coefficient with the log-ratio, whose variance is 2 KL.
        let mean_error_error = (2.0 * found.kl / found.draws as f64).sqrt();
        let verdict_at = |errors: f64| {
            Judgement::of(
                found.kl + errors * found.kl_error,
                found.largest_mean_error() + errors * mean_error_error,
                true,
            )
        };
        verdict_at(-2.0) != verdict_at(2.0)
    }
}

/// Verifies a posterior against the rows of an engine whose table was opened with the posterior's encoding.
///
/// # Errors
/// If the rows are not the recorded ones (unless forced), or their likelihood is not finite.
pub fn verify(engine: &impl Engine, fit: &Fit, settings: &VerifySettings) -> Result<Verification> {
    let count = fit.draws.len();
    if settings.draws.is_some_and(|draws| draws < 10) {
        return Err(Error::setting(Setting::Draws, "must be at least 10 to estimate a variance"));
    }
    if count < 10 {
        return Err(ErrorKind::Numerical {
            what: format!("the posterior has {count} draws, and a variance is estimated from at least 10"),
            help: Some(Remedy::using("fit again with more draws", Setting::Draws).into()),
        }
        .into());
    }
    let mut wanted = settings.draws.unwrap_or(FIRST_DRAWS).min(count);
    loop {
        let found = verify_at(engine, fit, wanted, settings.force)?;
        if settings.draws.is_some() || wanted == count || !found.is_unsure() {
            return Ok(found);
        }
        wanted = (GROWTH * wanted).min(count);
    }
}

/// The same at this many evenly spaced draws.
fn verify_at(engine: &impl Engine, fit: &Fit, wanted: usize, force: bool) -> Result<Verification> {
    let count = fit.draws.len();
    let chosen: Vec<usize> = (0..wanted).map(|s| s * count / wanted).collect();
    let all: Vec<&[f64]> = fit.draws.rows().collect();
    let lp: Vec<f64> = fit.draws.chains.iter().flat_map(|chain| chain.lp.iter().copied()).collect();
    let theta: Vec<Vec<f64>> = chosen.iter().map(|&s| fit.encoding.from_user_scale(all[s])).collect();

    let (values, identity) = match &fit.groups {
        None => log_likelihoods(engine, &fit.encoding, &theta)?,
        Some(groups) => {
            let effects: Vec<&[f64]> = groups.effect_rows().collect();
            log_likelihoods_with_groups(
                engine,
                fit,
                &theta,
                chosen.iter().map(|&s| effects[s].to_vec()).collect(),
            )?
        }
    };
    let recorded = Identity { rows: fit.basis.rows(), fingerprint: fit.basis.fingerprint() };
    let recognised = identity.expect(recorded).and_then(|()| fit.basis.expect_full_weights());
    let same_data = recognised.is_ok();
    if !force {
        recognised?;
    }
    let log_posterior: Vec<f64> = match &fit.groups {
        None => {
            theta.iter().zip(&values).map(|(theta, value)| value + fit.priors.log_density(theta)).collect()
        }
        // The priors are the same for all rows and for those that were fitted.
        Some(groups) => {
            let fitted: Vec<f64> = groups.log_likelihood.iter().flatten().copied().collect();
            chosen.iter().zip(&values).map(|(&s, value)| lp[s] + (value - fitted[s])).collect()
        }
    };
    let log_ratios: Vec<f64> = chosen.iter().zip(&log_posterior).map(|(&s, full)| full - lp[s]).collect();
    let beta: Vec<Vec<f64>> = chosen.iter().map(|&s| all[s].to_vec()).collect();
    let found = Discrepancy::of(&beta, &vec![0.0; wanted], &log_ratios);
    let (discrepancy, psis) = found.ok_or_else(|| -> Error {
        ErrorKind::Numerical {
            what: "the full data's log-likelihood is not finite at some draws".to_string(),
            help: Some("look for missing or extreme values in the data".into()),
        }
        .into()
    })?;
    let figures = |weights: &[f64]| -> Vec<Figures> {
        (0..fit.draws.dim())
            .map(|i| weighted_figures(beta.iter().map(|beta| beta[i]).zip(weights.iter().copied())))
            .collect()
    };
    let drawn = figures(&vec![1.0 / wanted as f64; wanted]);
    let corrected = figures(&psis.log_weights.iter().map(|x| exp(*x)).collect::<Vec<_>>());
    let judgement =
        Judgement::of(discrepancy.kl, discrepancy.largest_mean_error(), discrepancy.is_reliable());
    Ok(Verification {
        chosen,
        log_ratios,
        log_posterior,
        discrepancy,
        psis,
        drawn,
        corrected,
        judgement,
        identity,
        same_data,
    })
}

/// Summary of weighted values; the weights sum to 1.
fn weighted_figures(values: impl Iterator<Item = (f64, f64)>) -> Figures {
    let mut values: Vec<(f64, f64)> = values.collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean: f64 = values.iter().map(|(x, w)| w * x).sum();
    let squares: f64 = values.iter().map(|(x, w)| w * (x - mean).powi(2)).sum();
    let effective = 1.0 / values.iter().map(|(_, w)| w * w).sum::<f64>();
    let sd = (squares * effective / (effective - 1.0).max(1.0)).sqrt();
    Figures { mean, sd, q05: weighted_quantile(&values, 0.05), q95: weighted_quantile(&values, 0.95) }
}

/// The quantile of ascending weighted values, interpolated between the midpoints of the two nearest values' shares.
fn weighted_quantile(sorted: &[(f64, f64)], p: f64) -> f64 {
    let mut below = 0.0;
    let mut last: Option<(f64, f64)> = None;
    for &(x, w) in sorted {
        let middle = below + 0.5 * w;
        if middle >= p {
            return match last {
                Some((x0, middle0)) if middle > middle0 => {
                    x0 + (x - x0) * ((p - middle0) / (middle - middle0)).clamp(0.0, 1.0)
                }
                _ => x,
            };
        }
        last = Some((x, middle));
        below += w;
    }
    last.map_or(f64::NAN, |(x, _)| x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_give_the_plain_figures() {
        let values: Vec<f64> = (0..101).map(f64::from).collect();
        let figures = weighted_figures(values.iter().map(|&x| (x, 1.0 / 101.0)));
        assert!((figures.mean - 50.0).abs() < 1e-12);
        // The sample variance of 0, …, 100 is 101·102/12.
        assert!((figures.sd - (101.0f64 * 102.0 / 12.0).sqrt()).abs() < 1e-10);
        assert!((figures.q05 - 5.0).abs() < 0.6 && (figures.q95 - 95.0).abs() < 0.6);
    }

    #[test]
    fn weights_count_as_repetitions() {
        let repeated = weighted_figures([(1.0, 0.25), (1.0, 0.25), (1.0, 0.25), (5.0, 0.25)].into_iter());
        let weighted = weighted_figures([(1.0, 0.75), (5.0, 0.25)].into_iter());
        assert!((repeated.mean - weighted.mean).abs() < 1e-12);
        assert_eq!(weighted.q05, 1.0);
        assert_eq!(weighted.q95, 5.0);
    }
}
