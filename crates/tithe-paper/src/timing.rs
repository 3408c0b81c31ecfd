//! Figure 1a: the share of the time that building the coreset takes of building and drawing.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use tithe::base::error::Result;
use tithe::base::progress::Silent;
use tithe::base::rng::Seed;
use tithe::coreset::build::build_on;
use tithe::mcmc::{Sampler, Settings};
use tithe::results::fit::{FitSettings, fit_coreset};

use crate::approach::Approach;
use crate::data::Set;
use crate::posterior::Few;
use crate::profile::Profile;
use crate::runner::{Cell, Context};

/// Iterations of MALA in the paper's figure.
const ITERATIONS: usize = 10_000;

/// One timing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The set.
    pub set: Set,
    /// How the rows are chosen.
    pub approach: Approach,
    /// How many.
    pub size: usize,
    /// Iterations that are timed.
    pub iterations: usize,
    /// How often each is timed at most; the least counts, for others may be using the machine.
    pub takes: usize,
    /// The repeat, which is the seed.
    pub repeat: u64,
}

/// What it took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimingOutcome {
    /// Seconds to build.
    pub build_seconds: f64,
    /// Seconds for 10,000 iterations of MALA, counted up from those that were timed.
    pub draw_seconds: f64,
}

impl TimingOutcome {
    /// The share of building, in percent.
    pub fn percent(&self) -> f64 {
        100.0 * self.build_seconds / (self.build_seconds + self.draw_seconds)
    }
}

impl Cell for Timing {
    type Outcome = TimingOutcome;
    const EXPERIMENT: &'static str = "timing";
    const ALONE: bool = true;

    fn slug(&self) -> String {
        format!("{}-{}-m{}-r{:02}", self.set.slug(), self.approach.slug(), self.size, self.repeat)
    }

    fn run(&self, context: &Context<'_>) -> Result<TimingOutcome> {
        let data = context.library.get(self.set)?;
        // k = 6 for every set, as in the paper's figure.
        let few =
            Few { clusters: 6, ..Few::new(context.profile, self.set, self.approach, self.size, self.repeat) };
        let (built, build_seconds) =
            least(self.takes, || build_on(&data.train.engine()?, &few.build_settings(&data)))?;
        let half = self.iterations / 2;
        let settings = FitSettings {
            sampler: Sampler::Mala { preconditioned: false },
            draws: Settings {
                chains: 1,
                warmup: self.iterations - half,
                draws: half,
                seed: Seed(self.repeat),
            },
            threads: Some(1),
            ..FitSettings::default()
        };
        let (_, seconds) = least(self.takes, || fit_coreset(&built.coreset, &settings, &Silent))?;
        let draw_seconds = seconds * ITERATIONS as f64 / self.iterations as f64;
        Ok(TimingOutcome { build_seconds, draw_seconds })
    }
}

/// Enough time for one measurement: what takes longer is not taken again.
const ENOUGH: f64 = 5.0;

/// Does some work a few times; the result, and the least seconds that it took.
fn least<T>(takes: usize, mut work: impl FnMut() -> Result<T>) -> Result<(T, f64)> {
    let mut once = || {
        let start = Instant::now();
        work().map(|result| (result, start.elapsed().as_secs_f64()))
    };
    let (mut result, mut seconds) = once()?;
    let mut total = seconds;
    for _ in 1..takes {
        if total > ENOUGH {
            break;
        }
        let (again, took) = once()?;
        total += took;
        (result, seconds) = (again, seconds.min(took));
    }
    Ok((result, seconds))
}

/// The cells of Figure 1a: the paper's coreset, and calibrated ones.
pub fn cells(profile: Profile, sets: &[Set]) -> Vec<Timing> {
    let mut cells = Vec::new();
    for repeat in 0..profile.timings() as u64 {
        for approach in [Approach::Coreset, Approach::Calibrated] {
            for &set in sets {
                for &size in profile.sizes(set, approach) {
                    let iterations = profile.timed_iterations();
                    let takes = profile.takes();
                    cells.push(Timing { set, approach, size, iterations, takes, repeat });
                }
            }
        }
    }
    cells
}
