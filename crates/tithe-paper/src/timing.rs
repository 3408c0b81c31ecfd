//! Figure 1a: the time to build a coreset as a share of the time to build it and to run MCMC on it.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use tithe::base::error::Result;
use tithe::base::progress::Silent;
use tithe::base::rng::Seed;
use tithe::coreset::build::build_on;
use tithe::mcmc::{Sampler, Settings};
use tithe::results::fit::FitSettings;
use tithe::results::fit_grouped::fit_coreset;

use crate::approach::Approach;
use crate::data::{Set, prior};
use crate::posterior::Subset;
use crate::profile::Profile;
use crate::runner::{Cell, Context};

/// Number of MALA iterations in the paper's figure.
const ITERATIONS: usize = 10_000;

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The data set.
    pub set: Set,
    /// The method.
    pub approach: Approach,
    /// Number of rows of the coreset.
    pub size: usize,
    /// Number of MALA iterations that are timed.
    pub iterations: usize,
    /// Maximum number of times the work is repeated. The shortest time counts, because other programs may use the machine.
    #[serde(rename = "takes")]
    pub attempts: usize,
    /// Number of the repeat; also the seed.
    pub repeat: u64,
}

/// The measured times.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimingOutcome {
    /// Seconds to build.
    pub build_seconds: f64,
    /// Seconds for 10,000 iterations of MALA, extrapolated from the timed iterations.
    pub draw_seconds: f64,
}

impl TimingOutcome {
    /// Time to build as a percentage of the total.
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
        let few = Subset {
            clusters: 6,
            ..Subset::new(context.profile, self.set, self.approach, self.size, self.repeat)
        };
        let (built, build_seconds) =
            fastest(self.attempts, ENOUGH, || build_on(&data.train.engine()?, &few.build_settings(&data)))?;
        let half = self.iterations / 2;
        let settings = FitSettings {
            sampler: Sampler::Mala { preconditioned: false },
            priors: Some(prior()),
            group_prior: None,
            draws: Settings {
                chains: 1,
                warmup: self.iterations - half,
                draws: half,
                seed: Seed(self.repeat),
            },
            threads: Some(1),
        };
        let (_, seconds) =
            fastest(self.attempts, ENOUGH, || fit_coreset(&built.coreset, &settings, &Silent))?;
        let draw_seconds = seconds * ITERATIONS as f64 / self.iterations as f64;
        Ok(TimingOutcome { build_seconds, draw_seconds })
    }
}

/// Work is not repeated once it has taken this many seconds in total.
const ENOUGH: f64 = 5.0;

/// Does some work up to `attempts` times, until it has taken more than `enough` seconds in total. Returns the last result and the shortest time in seconds.
fn fastest<T>(attempts: usize, enough: f64, mut work: impl FnMut() -> Result<T>) -> Result<(T, f64)> {
    let mut once = || {
        let start = Instant::now();
        work().map(|result| (result, start.elapsed().as_secs_f64()))
    };
    let (mut result, mut seconds) = once()?;
    let mut total = seconds;
    for _ in 1..attempts {
        if total > enough {
            break;
        }
        let (again, took) = once()?;
        total += took;
        (result, seconds) = (again, seconds.min(took));
    }
    Ok((result, seconds))
}

/// The cells of Figure 1a, for the paper's coreset and the calibrated one.
pub fn cells(profile: Profile, sets: &[Set]) -> Vec<Timing> {
    let mut cells = Vec::new();
    for repeat in 0..profile.timings() as u64 {
        for approach in [Approach::Coreset, Approach::Calibrated] {
            for &set in sets {
                for &size in profile.sizes(set, approach) {
                    let iterations = profile.timed_iterations();
                    let attempts = profile.attempts();
                    cells.push(Timing { set, approach, size, iterations, attempts, repeat });
                }
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentage_is_that_of_the_total() {
        assert_eq!(TimingOutcome { build_seconds: 1.0, draw_seconds: 3.0 }.percent(), 25.0);
    }

    #[test]
    fn work_is_repeated_and_the_shortest_time_counts() {
        // The second attempt is the quickest; the result is that of the last.
        let pauses = [30, 1, 60].map(std::time::Duration::from_millis);
        let mut attempt = 0;
        let (result, seconds) = fastest(3, 60.0, || {
            std::thread::sleep(pauses[attempt]);
            attempt += 1;
            Ok(attempt)
        })
        .expect("a result");
        assert_eq!((attempt, result), (3, 3));
        assert!((0.001..0.030).contains(&seconds), "{seconds}");
    }

    #[test]
    fn long_work_is_not_repeated_and_errors_are_passed_on() {
        let mut attempts = 0;
        let work = || {
            attempts += 1;
            std::thread::sleep(std::time::Duration::from_millis(2));
            Ok(())
        };
        fastest(5, 0.001, work).expect("a result");
        assert_eq!(attempts, 1);
        let error = tithe::base::error::Error::from(tithe::base::error::ErrorKind::Cancelled);
        let mut error = Some(error);
        assert!(fastest::<()>(5, 1.0, || error.take().map_or(Ok(()), Err)).is_err());
    }

    #[test]
    fn cells_have_distinct_names_and_the_settings_of_the_profile() {
        let cells = cells(Profile::Full, &Set::ALL);
        assert_eq!(cells.len(), 5 * 2 * 6 * 7);
        let mut slugs: Vec<String> = cells.iter().map(Timing::slug).collect();
        slugs.sort_unstable();
        slugs.dedup();
        assert_eq!(slugs.len(), cells.len());
        assert!(cells.iter().all(|cell| cell.iterations == 10_000 && cell.attempts == 3));
        // Files of earlier runs must remain readable.
        assert_eq!(serde_json::to_value(&cells[0]).expect("JSON")["takes"], 3);
    }
}
