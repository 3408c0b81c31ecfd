//! Samplers: draw chains from any log-density, with the same draws for any number of threads.

pub mod diagnostics;
pub mod discrepancy;
pub mod draws;
pub mod findings;
mod laplace;
mod mala;
mod nuts;
pub mod psis;

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Result, Setting};
use crate::base::machine::memory_limit;
use crate::base::progress::{Event, Observer};
use crate::base::rng::{Purpose, Rng, Seed, open_unit, standard_normal};
use crate::mcmc::draws::{Chain, Draws};
use crate::model::{Gaussian, LogDensity, Target};

/// A sampler. As text: `nuts`, `mala`, `mala-plain`, `laplace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Sampler {
    /// The no-U-turn sampler, in coordinates whitened by the normal approximation.
    Nuts,
    /// The adaptive Metropolis-adjusted Langevin algorithm.
    Mala {
        /// Whether proposals use the covariance of the normal approximation. If not, the algorithm is the paper's: it
        /// starts at 0 and does not use the shape of the posterior.
        preconditioned: bool,
    },
    /// Independent draws from the normal approximation.
    Laplace,
}

impl fmt::Display for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sampler::Nuts => "nuts",
            Sampler::Mala { preconditioned: true } => "mala",
            Sampler::Mala { preconditioned: false } => "mala-plain",
            Sampler::Laplace => "laplace",
        })
    }
}

impl FromStr for Sampler {
    type Err = Error;

    fn from_str(text: &str) -> Result<Sampler> {
        match text {
            "nuts" => Ok(Sampler::Nuts),
            "mala" => Ok(Sampler::Mala { preconditioned: true }),
            "mala-plain" => Ok(Sampler::Mala { preconditioned: false }),
            "laplace" => Ok(Sampler::Laplace),
            _ => Err(Error::setting(
                Setting::Sampler,
                format!("must be one of nuts, mala, mala-plain, laplace, but is '{text}'"),
            )),
        }
    }
}

impl TryFrom<String> for Sampler {
    type Error = Error;

    fn try_from(text: String) -> Result<Sampler> {
        text.parse()
    }
}

impl From<Sampler> for String {
    fn from(sampler: Sampler) -> String {
        sampler.to_string()
    }
}

/// How many chains and draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Settings {
    /// Number of chains.
    pub chains: usize,
    /// Number of draws kept per chain.
    pub draws: usize,
    /// Number of warm-up iterations per chain, in which the sampler adapts; they are discarded.
    pub warmup: usize,
    /// Seed.
    pub seed: Seed,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { chains: 4, draws: 1000, warmup: 1000, seed: Seed(1) }
    }
}

impl Settings {
    /// Checks the settings.
    pub fn check(&self) -> Result<()> {
        for (setting, value) in [(Setting::Chains, self.chains), (Setting::Draws, self.draws)] {
            if value == 0 {
                return Err(Error::setting(setting, "must be at least 1"));
            }
        }
        if self.warmup > isize::MAX as usize {
            return Err(Error::setting(Setting::Warmup, "is too large"));
        }
        Ok(())
    }

    /// Returns an error if the draws need more memory than the machine has.
    fn check_memory(&self, dim: usize) -> Result<()> {
        // The coefficients of a draw, its density and its statistics.
        let bytes =
            (8 * dim as u64 + 64).saturating_mul(self.chains as u64).saturating_mul(self.draws as u64);
        if bytes > memory_limit().unwrap_or(isize::MAX as u64) {
            let what =
                format!("needs {:.0} GiB of memory, more than there is", bytes as f64 / (1u64 << 30) as f64);
            return Err(Error::setting(Setting::Draws, what));
        }
        Ok(())
    }
}

/// Draws from `density`. `approximation` is a normal approximation of it (see
/// [`Posterior::laplace`](crate::model::Posterior::laplace)): the other samplers use it only to be fast, and
/// [`Sampler::Laplace`] draws from it.
///
/// Chains run on the threads of the current rayon pool. Each chain has its own stream of random numbers, so the number of
/// threads does not change the draws.
pub fn run(
    density: &dyn LogDensity,
    names: &[String],
    approximation: &Gaussian,
    sampler: Sampler,
    settings: &Settings,
    observer: &dyn Observer,
) -> Result<Draws> {
    settings.check()?;
    if names.len() != density.dim() || approximation.dim() != density.dim() {
        return Err(Error::setting(
            Setting::Names,
            format!(
                "has {} names, and the approximation has dimension {}, for {} coefficients",
                names.len(),
                approximation.dim(),
                density.dim()
            ),
        ));
    }
    settings.check_memory(density.dim())?;
    let chains = run_chains(settings, observer, |chain, watch| {
        let mut rng = settings.seed.stream(Purpose::Chain, chain as u64);
        let whitened = &mut Whitened::new(density, approximation);
        match sampler {
            Sampler::Nuts => nuts::chain(whitened, settings, &mut rng, watch),
            Sampler::Mala { preconditioned: true } => {
                let start = dispersed(approximation.dim(), &mut rng);
                mala::chain(whitened, start, settings, &mut rng, watch)
            }
            Sampler::Mala { preconditioned: false } => {
                let identity = Gaussian::standard(density.dim());
                let plain = &mut Whitened::new(density, &identity);
                mala::chain(plain, vec![0.0; density.dim()], settings, &mut rng, watch)
            }
            Sampler::Laplace => laplace::chain(whitened, settings, &mut rng, watch),
        }
    })?;
    Ok(Draws { names: names.to_vec(), chains })
}

/// Draws by NUTS, with a target per chain that `target` makes; returns the chains with their targets, which may have recorded more.
pub(crate) fn run_nuts<T: Target + Send>(
    target: impl Fn() -> T + Sync,
    settings: &Settings,
    observer: &dyn Observer,
) -> Result<Vec<(Chain, T)>> {
    settings.check()?;
    run_chains(settings, observer, |chain, watch| {
        let mut rng = settings.seed.stream(Purpose::Chain, chain as u64);
        let mut target = target();
        let chain = nuts::chain(&mut target, settings, &mut rng, watch)?;
        Ok((chain, target))
    })
}

/// Runs each chain on a thread of the current pool.
fn run_chains<T: Send>(
    settings: &Settings,
    observer: &dyn Observer,
    chain: impl Fn(usize, &Watch<'_>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let iterations =
        (settings.warmup as u64).saturating_add(settings.draws as u64).saturating_mul(settings.chains as u64);
    observer.event(Event::ChainsStarted { chains: settings.chains, iterations });
    let chains = (0..settings.chains)
        .into_par_iter()
        .map(|number| chain(number, &Watch { observer }))
        .collect::<Result<Vec<T>>>()?;
    observer.event(Event::ChainsFinished);
    Ok(chains)
}

/// Reports progress to the observer, and asks it whether to stop.
struct Watch<'a> {
    observer: &'a dyn Observer,
}

impl Watch<'_> {
    /// Called after every iteration, counted from 0 to `total`.
    fn iteration(&self, i: usize, total: usize) -> Result<()> {
        const EVERY: usize = 50;
        let done = i + 1;
        if done.is_multiple_of(EVERY) || done == total {
            let since = if done.is_multiple_of(EVERY) { EVERY } else { done % EVERY };
            self.observer.event(Event::IterationsDone(since as u64));
            if self.observer.cancelled() {
                return Err(ErrorKind::Cancelled.into());
            }
        }
        Ok(())
    }
}

/// A density in the whitened coordinates `ξ` of a normal distribution, `θ = mean + C ξ`.
struct Whitened<'a> {
    density: &'a dyn LogDensity,
    gaussian: &'a Gaussian,
    theta: Vec<f64>,
    gradient: Vec<f64>,
    scratch: Vec<[f64; 8]>,
}

impl<'a> Whitened<'a> {
    fn new(density: &'a dyn LogDensity, gaussian: &'a Gaussian) -> Whitened<'a> {
        let dim = density.dim();
        Whitened { density, gaussian, theta: vec![0.0; dim], gradient: vec![0.0; dim], scratch: Vec::new() }
    }
}

impl Target for Whitened<'_> {
    fn dim(&self) -> usize {
        self.density.dim()
    }

    /// The density of `θ(ξ)`, and its gradient with respect to `ξ`.
    fn value_and_gradient(&mut self, xi: &[f64], gradient: &mut [f64]) -> f64 {
        self.gaussian.unwhiten(xi, &mut self.theta);
        let value = self.density.value_and_gradient(&self.theta, &mut self.gradient, &mut self.scratch);
        self.gaussian.whiten_gradient(&self.gradient, gradient);
        value
    }

    /// Appends the coefficients of `ξ`.
    fn keep(&mut self, xi: &[f64], theta: &mut Vec<f64>) {
        self.gaussian.unwhiten(xi, &mut self.theta);
        theta.extend_from_slice(&self.theta);
    }
}

/// The value at the start of a chain, which must be finite.
fn start(target: &mut dyn Target, xi: &[f64], gradient: &mut [f64]) -> Result<f64> {
    let value = target.value_and_gradient(xi, gradient);
    if value.is_finite() && gradient.iter().all(|g| g.is_finite()) {
        return Ok(value);
    }
    Err(ErrorKind::Numerical {
        what: format!("a chain cannot start: at its first point the log-density is {value}"),
        help: Some("look for infinite values, or values beyond 1e150, in the data".into()),
    }
    .into())
}

/// The start of a chain in whitened coordinates: uniform within two standard deviations. Starts are more dispersed than
/// the posterior, so that R-hat can detect chains that do not converge.
fn dispersed(dim: usize, rng: &mut Rng) -> Vec<f64> {
    (0..dim).map(|_| 4.0 * open_unit(rng) - 2.0).collect()
}

/// Standard normal numbers.
pub(crate) fn fill_normal(values: &mut [f64], rng: &mut Rng) {
    for value in values {
        *value = standard_normal(rng);
    }
}
