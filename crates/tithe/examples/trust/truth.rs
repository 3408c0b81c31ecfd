//! The truth about a data set: draws from the posterior of all rows, and how far a coreset's posterior is from it.

use std::fs;
use std::path::PathBuf;

use tithe::base::error::Result;
use tithe::base::progress::Silent;
use tithe::base::rng::Seed;
use tithe::coreset::Coreset;
use tithe::encoding::EncodingSettings;
use tithe::encoding::survey::survey;
use tithe::engine::LocalEngine;
use tithe::mcmc::Settings;
use tithe::mcmc::discrepancy::Discrepancy;
use tithe::mode::values::log_likelihoods;
use tithe::model::{PriorChoice, likelihood};
use tithe::results::fit::{Fit, FitSettings, fit_data, laplace_of_data};
use tithe::results::fit_grouped::fit_coreset;

/// Draws with NUTS on all rows, on the user's scale.
pub struct Truth {
    beta: Vec<Vec<f64>>,
    /// The log-likelihood of all rows at each draw.
    full: Vec<f64>,
    /// The log-density of the priors at each draw, on the scale of the encoding learnt from all rows.
    log_prior: Vec<f64>,
    priors: Option<PriorChoice>,
}

/// How far a coreset's posterior is from that of all rows.
pub struct Distance {
    /// `½ Var(L − L̃)` over the posterior of all rows, in nats.
    pub kl: f64,
    /// The largest error of a mean in standard deviations, less two standard errors.
    pub mean_error: f64,
}

impl Truth {
    /// Draws from the posterior of all rows. It takes minutes for large data, so the draws are kept in the temporary directory
    /// under a name.
    pub fn of(name: &str, engine: &LocalEngine<'_>, priors: Option<PriorChoice>) -> Result<Truth> {
        let file = cache_of(name);
        if let Some(rows) = fs::read(&file).ok().and_then(|bytes| rows_of(&bytes)) {
            let column = |at: usize| rows.iter().map(|row| row[at]).collect();
            let beta = rows.iter().map(|row| row[2..].to_vec()).collect();
            return Ok(Truth { beta, full: column(0), log_prior: column(1), priors });
        }
        let draws = Settings { warmup: 400, ..FitSettings::default().draws };
        let settings = FitSettings { draws, priors: priors.clone(), ..FitSettings::default() };
        let fit = fit_data(engine, &EncodingSettings::default(), &settings, 8 << 30)?;
        if let Some(finding) = fit.findings.first() {
            eprintln!("{name}: {:?}: {}", finding.what, finding.how_much);
        }
        let beta: Vec<Vec<f64>> = fit.draws.rows().map(<[f64]>::to_vec).collect();
        let theta: Vec<Vec<f64>> = beta.iter().map(|beta| fit.encoding.from_user_scale(beta)).collect();
        let (full, _) = log_likelihoods(engine, &fit.encoding, &theta)?;
        let log_prior: Vec<f64> = theta.iter().map(|theta| fit.priors.log_density(theta)).collect();
        let numbers = beta.iter().zip(full.iter().zip(&log_prior));
        let row = |(beta, (full, prior)): (&Vec<f64>, (&f64, &f64))| -> Vec<u8> {
            [*full, *prior].iter().chain(beta).flat_map(|x| x.to_le_bytes()).collect()
        };
        let mut bytes = (beta.first().map_or(0, Vec::len) as u64 + 2).to_le_bytes().to_vec();
        numbers.for_each(|numbers| bytes.extend(row(numbers)));
        // Without the file the draws are made again.
        let _ = fs::write(file, bytes);
        Ok(Truth { beta, full, log_prior, priors })
    }

    /// `½ Var` of the difference between the log-posterior of all rows and its normal approximation at the mode, in nats.
    pub fn kl_of_laplace(&self, engine: &LocalEngine<'_>) -> Result<f64> {
        let learnt = survey(engine, &EncodingSettings::default(), 1, Seed(0))?;
        let encoding = &learnt.encoding;
        let priors = self.priors.clone().unwrap_or_default();
        let priors = priors.priors(&encoding.distinct_names()?, encoding.intercept)?;
        let normal = laplace_of_data(engine, encoding, &priors)?;
        let mut xi = vec![0.0; normal.dim()];
        let differences =
            self.beta.iter().zip(self.full.iter().zip(&self.log_prior)).map(|(beta, (full, prior))| {
                normal.whiten(&encoding.from_user_scale(beta), &mut xi);
                full + prior + 0.5 * xi.iter().map(|x| x * x).sum::<f64>()
            });
        Ok(0.5 * variance(&differences.collect::<Vec<_>>()))
    }

    /// How far a coreset is. The draws of all rows, reweighted to the coreset's posterior, have its means; where too few of them
    /// are there, NUTS draws from it. The coreset's priors are on the scale of its own encoding, and count for both.
    pub fn distance(&self, coreset: &Coreset) -> Result<Distance> {
        let points = coreset.points()?;
        let encoding = &coreset.encoding;
        let choice = self.priors.clone().unwrap_or_else(|| coreset.provenance.priors());
        let priors = choice.priors(&encoding.distinct_names()?, encoding.intercept)?;
        let theta: Vec<Vec<f64>> = self.beta.iter().map(|beta| encoding.from_user_scale(beta)).collect();
        let log_weights: Vec<f64> = theta
            .iter()
            .zip(&self.log_prior)
            .map(|(theta, prior)| priors.log_density(theta) - prior)
            .collect();
        let log_ratios: Vec<f64> = theta
            .iter()
            .zip(&self.full)
            .map(|(theta, full)| likelihood::value(&points, theta) - full)
            .collect();
        let Some((found, psis)) = Discrepancy::of(&self.beta, &log_weights, &log_ratios) else {
            return Ok(Distance { kl: f64::INFINITY, mean_error: f64::INFINITY });
        };
        if !found.is_reliable() || found.efficiency < 0.1 {
            let settings = FitSettings { priors: self.priors.clone(), ..FitSettings::default() };
            let fit = fit_coreset(coreset, &settings, &Silent)?;
            return Ok(Distance { kl: found.kl, mean_error: self.mean_error_of(&fit) });
        }
        let before = softmax(&log_weights);
        let moved: Vec<f64> =
            psis.log_weights.iter().zip(&before).map(|(after, before)| after.exp() - before).collect();
        let error = |(i, error): (usize, &f64)| {
            let mean: f64 = self.beta.iter().zip(&before).map(|(beta, w)| w * beta[i]).sum();
            let squares = |weights: &dyn Fn(usize) -> f64| -> f64 {
                self.beta.iter().enumerate().map(|(s, beta)| weights(s) * (beta[i] - mean).powi(2)).sum()
            };
            let (sd, noise) = (squares(&|s| before[s]).sqrt(), squares(&|s| moved[s] * moved[s]).sqrt());
            (error.abs() - 2.0 * noise / sd).max(0.0)
        };
        let mean_error = found.mean_errors.iter().enumerate().map(error).fold(0.0, f64::max);
        Ok(Distance { kl: found.kl, mean_error })
    }

    /// The largest error of a mean of other draws in standard deviations, less two standard errors.
    pub fn mean_error_of(&self, fit: &Fit) -> f64 {
        let errors = fit.summary.iter().enumerate().map(|(i, own)| {
            let (mean, sd) = self.moments(i);
            let noise = own.mcse_mean.hypot(sd / (self.beta.len() as f64).sqrt());
            ((own.mean - mean).abs() - 2.0 * noise).max(0.0) / sd
        });
        errors.fold(0.0, f64::max)
    }

    fn moments(&self, i: usize) -> (f64, f64) {
        let count = self.beta.len() as f64;
        let mean = self.beta.iter().map(|beta| beta[i]).sum::<f64>() / count;
        let squares: f64 = self.beta.iter().map(|beta| (beta[i] - mean).powi(2)).sum();
        (mean, (squares / (count - 1.0)).sqrt())
    }
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

fn softmax(log_weights: &[f64]) -> Vec<f64> {
    let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = log_weights.iter().map(|x| (x - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|w| w / total).collect()
}

fn cache_of(name: &str) -> PathBuf {
    let word: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    std::env::temp_dir().join(format!("tithe-truth-{word}.bin"))
}

/// Rows of numbers; the first number of the file is how many a row has.
fn rows_of(bytes: &[u8]) -> Option<Vec<Vec<f64>>> {
    let (head, body) = bytes.split_first_chunk::<8>()?;
    let width = usize::try_from(u64::from_le_bytes(*head)).ok().filter(|width| *width > 2)?;
    let (numbers, _) = body.as_chunks::<8>();
    let numbers: Vec<f64> = numbers.iter().map(|number| f64::from_le_bytes(*number)).collect();
    (numbers.len() >= 100 * width).then(|| numbers.chunks_exact(width).map(<[f64]>::to_vec).collect())
}
