//! Figure 1a: the share of the time that building the coreset takes of building and drawing.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use tithe::build::build_on;
use tithe::engine::Missing;
use tithe::error::Result;
use tithe::fit::{FitSettings, fit_coreset};
use tithe::mcmc::{Sampler, Settings};
use tithe::progress::Silent;
use tithe::rng::Seed;

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
        let engine = data.train.engine()?;
        let start = Instant::now();
        let built = build_on(&engine, Missing::Error, &few.build_settings(&data))?;
        let build_seconds = start.elapsed().as_secs_f64();
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
        let start = Instant::now();
        fit_coreset(&built.coreset, &settings, &Silent)?;
        let draw_seconds = start.elapsed().as_secs_f64() * ITERATIONS as f64 / self.iterations as f64;
        Ok(TimingOutcome { build_seconds, draw_seconds })
    }
}

/// The cells of Figure 1a: the paper's coreset, and calibrated ones.
pub fn cells(profile: Profile, sets: &[Set]) -> Vec<Timing> {
    let mut cells = Vec::new();
    for repeat in 0..profile.timings() as u64 {
        for approach in [Approach::Coreset, Approach::Calibrated] {
            for &set in sets {
                for &size in profile.sizes(set, approach) {
                    let iterations = profile.timed_iterations();
                    cells.push(Timing { set, approach, size, iterations, repeat });
                }
            }
        }
    }
    cells
}
