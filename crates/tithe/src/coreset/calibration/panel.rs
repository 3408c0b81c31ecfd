//! Draws from a coreset's posterior, at which its log-likelihood is compared with the full data's.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::math::hypot;
use crate::base::progress::Silent;
use crate::base::rng::{Purpose, Seed};
use crate::coreset::calibration::certificate::{ByDraws, Evidence};
use crate::data::points::Points;
use crate::mcmc::discrepancy::{Discrepancy, normalised};
use crate::mcmc::psis::Psis;
use crate::mcmc::{self, Sampler, fill_normal};
use crate::model::likelihood::values;
use crate::model::{Gaussian, LogDensity, Posterior, Priors};

/// Draws from the normal approximation represent the posterior if this fraction of them is effective and the weights' `k̂` is
/// no larger.
const NEARLY_NORMAL: f64 = 0.8;
const EVEN: f64 = 0.5;
/// Draws represent the posterior of other points if this fraction of them remains effective.
const REPRESENTATIVE: f64 = 0.5;
/// Chains and warm-up iterations of the sampler where the posterior is not nearly normal.
const CHAINS: usize = 4;
const WARMUP: usize = 200;

/// Draws from the posterior of weighted points.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// The draws.
    pub theta: Vec<Vec<f64>>,
    /// The logarithms of the weights with which the draws represent the posterior.
    pub log_weights: Vec<f64>,
    /// The log-likelihood of the points at each draw.
    pub own: Vec<f64>,
    /// The factor of errors where the draws are from the posterior of all data, of which the points represent a part; `None` if
    /// they are from the posterior of the points.
    pub error_scale: Option<f64>,
}

/// The full data's log-likelihood at the draws of a panel, up to a constant.
#[derive(Clone, Debug)]
pub(crate) struct FullValues {
    pub values: Vec<f64>,
    pub evidence: Evidence,
    /// The standard error of the KL because the values are estimates.
    pub error: f64,
}

impl Panel {
    /// Draws `count` times: from the normal approximation with importance weights where these are nearly even, or else with
    /// NUTS. Panels with different `index` are independent.
    pub fn draw(points: &Points, priors: &Priors, count: usize, seed: Seed, index: u64) -> Result<Panel> {
        let posterior = Posterior::new(points, priors)?;
        let normal = posterior.laplace()?;
        let mut rng = seed.stream(Purpose::CheckDraws, index);
        let (mut xi, mut theta) = (vec![0.0; points.dim()], Vec::with_capacity(count));
        let mut log_normal = Vec::with_capacity(count);
        for _ in 0..count {
            fill_normal(&mut xi, &mut rng);
            let mut draw = vec![0.0; points.dim()];
            normal.unwhiten(&xi, &mut draw);
            theta.push(draw);
            log_normal.push(-0.5 * xi.iter().map(|x| x * x).sum::<f64>());
        }
        let own = values(points, &theta);
        let log_ratios: Vec<f64> = theta
            .iter()
            .zip(own.iter().zip(&log_normal))
            .map(|(theta, (own, normal))| own + priors.log_density(theta) - normal)
            .collect();
        if let Some(psis) = Psis::of(&log_ratios)
            && psis.effective_draws() >= NEARLY_NORMAL * count as f64
            && (psis.k_hat < EVEN || !psis.k_hat.is_finite())
        {
            return Ok(Panel { theta, log_weights: psis.log_weights, own, error_scale: None });
        }
        let seed = Seed(rand::Rng::next_u64(&mut rng));
        let settings = mcmc::Settings { chains: CHAINS, draws: count.div_ceil(CHAINS), warmup: WARMUP, seed };
        let names: Vec<String> = (0..posterior.dim()).map(|i| i.to_string()).collect();
        let drawn = mcmc::run(&posterior, &names, &normal, Sampler::Nuts, &settings, &Silent)?;
        let theta: Vec<Vec<f64>> = drawn.rows().map(<[f64]>::to_vec).collect();
        let own = values(points, &theta);
        Ok(Panel { log_weights: vec![0.0; theta.len()], theta, own, error_scale: None })
    }

    /// Draws from a normal distribution, for a step of a stream: the posterior that it is for is nearly normal.
    pub fn of_normal(normal: &Gaussian, count: usize, seed: Seed) -> Panel {
        let mut rng = seed.stream(Purpose::CheckDraws, 0);
        let mut xi = vec![0.0; normal.dim()];
        let draw = |_| {
            fill_normal(&mut xi, &mut rng);
            let mut draw = vec![0.0; xi.len()];
            normal.unwhiten(&xi, &mut draw);
            draw
        };
        let theta: Vec<Vec<f64>> = (0..count).map(draw).collect();
        Panel { log_weights: vec![0.0; count], own: vec![0.0; count], theta, error_scale: None }
    }

    /// The same draws for points that represent a part of the data.
    pub fn for_part(self, points: &Points, error_scale: f64) -> Panel {
        Panel { own: values(points, &self.theta), error_scale: Some(error_scale), ..self }
    }

    /// These draws.
    fn pick(&self, chosen: &[usize]) -> Panel {
        let pick = |values: &[f64]| chosen.iter().map(|&s| values[s]).collect();
        Panel {
            theta: chosen.iter().map(|&s| self.theta[s].clone()).collect(),
            log_weights: pick(&self.log_weights),
            own: pick(&self.own),
            error_scale: self.error_scale,
        }
    }

    /// Evenly spaced draws, at most `count`.
    pub fn thinned(&self, count: usize) -> Panel {
        let all = self.theta.len();
        let count = count.min(all);
        self.pick(&(0..count).map(|s| s * all / count).collect::<Vec<_>>())
    }

    /// The positions of two thirds of the draws, and of the others. Every third draw is one of the others, so that both parts have
    /// draws of all chains.
    fn parts(&self) -> [Vec<usize>; 2] {
        [false, true].map(|is_third| (0..self.theta.len()).filter(|s| (s % 3 == 2) == is_third).collect())
    }

    /// Two thirds of the draws, and the others.
    pub fn in_two(&self) -> [Panel; 2] {
        self.parts().map(|chosen| self.pick(&chosen))
    }

    /// The same, each with the log-likelihoods at them.
    pub fn split(&self, full: &FullValues) -> [(Panel, FullValues); 2] {
        self.parts().map(|chosen| {
            let values = chosen.iter().map(|&s| full.values[s]).collect();
            (self.pick(&chosen), FullValues { values, ..*full })
        })
    }

    /// The same draws with weights that make them represent the posterior of other points; `None` if too few of them do.
    pub fn reweighted(&self, points: &Points) -> Option<Panel> {
        let own = values(points, &self.theta);
        // A part hardly changes the posterior of all data.
        if self.error_scale.is_some() {
            return Some(Panel { own, ..self.clone() });
        }
        let changes = own.iter().zip(&self.own).map(|(new, old)| new - old);
        let log_weights: Vec<f64> =
            self.log_weights.iter().zip(changes).map(|(v, change)| v + change).collect();
        let effective = 1.0 / normalised(&log_weights).iter().map(|w| w * w).sum::<f64>();
        let is_enough = effective >= REPRESENTATIVE * self.theta.len() as f64;
        is_enough.then(|| Panel { log_weights, own, ..self.clone() })
    }

    /// How far the posterior of the points is from the full data's, whose log-likelihood at the draws is `full`.
    pub fn discrepancy(&self, full: &FullValues) -> Result<ByDraws> {
        let scale = self.error_scale.unwrap_or(1.0);
        let log_ratios: Vec<f64> =
            full.values.iter().zip(&self.own).map(|(full, own)| scale * (full - own)).collect();
        let found = Discrepancy::of(&self.theta, &self.log_weights, &log_ratios);
        let (mut discrepancy, _) = found.ok_or_else(|| -> Error {
            let what = "the log-likelihood is not finite at some draws".to_string();
            ErrorKind::Numerical { what, help: Some("look for extreme values in the data".into()) }.into()
        })?;
        discrepancy.kl_error = hypot(discrepancy.kl_error, full.error);
        Ok(ByDraws { discrepancy, evidence: full.evidence })
    }
}
