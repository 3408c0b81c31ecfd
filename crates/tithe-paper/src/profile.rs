//! Profiles: how much of the experiments to run, from minutes to many hours.

use serde::{Deserialize, Serialize};
use tithe::base::rng::Seed;
use tithe::coreset::Method;
use tithe::mcmc::{Sampler, Settings};

use crate::approach::Approach;
use crate::data::Set;

/// The coreset sizes of the paper.
const SIZES: [usize; 7] = [156, 312, 625, 1250, 2500, 5000, 10_000];

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// A few minutes: small data, two sizes, two repeats. Checks that everything works; the results are not meaningful.
    Quick,
    /// A few hours on two cores: the paper's data and sizes, NUTS instead of long MALA runs, few repeats for wide data.
    Night,
    /// The paper's own settings: 20 repeats, 100,000 MALA iterations. Many hours.
    Full,
}

/// Sampler settings for posteriors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawing {
    /// The sampler.
    pub sampler: Sampler,
    /// Number of chains.
    pub chains: usize,
    /// Warm-up iterations per chain, which are discarded.
    pub warmup: usize,
    /// Draws per chain after warm-up.
    pub draws: usize,
    /// Number of draws, over all chains, that results are computed from: an evenly spaced selection.
    #[serde(rename = "looked_at")]
    pub thinned_draws: usize,
}

impl Drawing {
    /// The settings of the sampler with a seed.
    pub fn settings(&self, seed: Seed) -> Settings {
        Settings { chains: self.chains, draws: self.draws, warmup: self.warmup, seed }
    }
}

impl Profile {
    /// Number of training rows of generated data.
    pub fn generated_rows(self) -> usize {
        if self == Profile::Quick { 20_000 } else { 1_000_000 }
    }

    /// Maximum number of rows of a real data set.
    pub fn max_rows(self, set: Set) -> usize {
        match self {
            Profile::Quick if set.is_wide() => 2_500,
            Profile::Quick => 6_000,
            _ => usize::MAX,
        }
    }

    /// Sampler settings for the posteriors of a data set.
    pub fn drawing(self, set: Set) -> Drawing {
        let nuts = |chains, warmup, draws| Drawing {
            sampler: Sampler::Nuts,
            chains,
            warmup,
            draws,
            thinned_draws: chains * draws,
        };
        match self {
            Profile::Quick if set.is_wide() => nuts(2, 15, 30),
            Profile::Quick if set == Set::CovType => nuts(2, 25, 50),
            Profile::Quick => nuts(2, 50, 100),
            Profile::Night if set.is_wide() => nuts(2, 75, 150),
            Profile::Night if set == Set::CovType => nuts(2, 100, 400),
            Profile::Night => nuts(2, 200, 1000),
            Profile::Full => Drawing {
                sampler: Sampler::Mala { preconditioned: true },
                chains: 1,
                warmup: 50_000,
                draws: 50_000,
                thinned_draws: 5_000,
            },
        }
    }

    /// Number of repeats, with different seeds, of a method on a data set.
    pub fn repeats(self, set: Set, approach: Approach) -> usize {
        match self {
            Profile::Quick | Profile::Night if set.is_wide() => 1,
            Profile::Night if approach == Approach::Stream || set == Set::CovType => 3,
            Profile::Quick => 2,
            Profile::Night | Profile::Full => 20,
        }
    }

    /// Coreset sizes of a method on a data set.
    pub fn sizes(self, set: Set, approach: Approach) -> &'static [usize] {
        match self {
            Profile::Quick if set.is_wide() => &[312],
            Profile::Quick => &[312, 1250],
            // Calibrating thousands of features over many thousands of rows takes minutes.
            Profile::Night if approach.method() == Method::Calibrated && set.is_wide() => &[625, 2500],
            Profile::Night if approach.method() == Method::Calibrated && set == Set::CovType => &SIZES[..5],
            _ => &SIZES,
        }
    }

    /// Number of clusterings for which the mean sensitivity is computed.
    pub fn clusterings(self) -> u64 {
        match self {
            Profile::Quick => 1,
            Profile::Night => 3,
            Profile::Full => 20,
        }
    }

    /// Numbers of rows at which the mean sensitivity is computed.
    pub fn sensitivity_rows(self) -> &'static [usize] {
        match self {
            Profile::Quick => &[500, 2_000],
            _ => &[1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000],
        }
    }

    /// Number of MALA iterations that are timed; the time is extrapolated to the paper's 10,000.
    pub fn timed_iterations(self) -> usize {
        match self {
            Profile::Quick => 100,
            Profile::Night => 2_000,
            Profile::Full => 10_000,
        }
    }

    /// Number of attempts per timing, of which the fastest counts.
    pub fn attempts(self) -> usize {
        if self == Profile::Quick { 1 } else { 3 }
    }

    /// Number of repeats of a timing, with different seeds.
    pub fn timings(self) -> usize {
        match self {
            Profile::Quick | Profile::Night => 1,
            Profile::Full => 5,
        }
    }

    /// Number of seeds per constant for the test of the guarantee.
    pub fn guarantee_seeds(self) -> u64 {
        match self {
            Profile::Quick => 10,
            Profile::Night => 200,
            Profile::Full => 1_000,
        }
    }

    /// Number of repeats of small experiments.
    pub fn theory_repeats(self) -> usize {
        match self {
            Profile::Quick => 2,
            Profile::Night => 10,
            Profile::Full => 20,
        }
    }
}

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Profile, String> {
        match name {
            "quick" => Ok(Profile::Quick),
            "night" => Ok(Profile::Night),
            "full" => Ok(Profile::Full),
            _ => Err(format!("unknown profile '{name}'; expected quick, night or full")),
        }
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Profile::Quick => "quick",
            Profile::Night => "night",
            Profile::Full => "full",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILES: [Profile; 3] = [Profile::Quick, Profile::Night, Profile::Full];

    #[test]
    fn names_are_read_as_they_are_written() {
        for profile in PROFILES {
            assert_eq!(profile.to_string().parse(), Ok(profile));
            assert_eq!(serde_json::to_value(profile).ok(), Some(profile.to_string().into()));
        }
        let error = "day".parse::<Profile>().expect_err("an unknown name");
        assert!(error.contains("'day'") && error.contains("night"), "{error}");
    }

    #[test]
    fn the_full_profile_has_the_settings_of_the_paper() {
        let full = Profile::Full;
        assert_eq!(full.generated_rows(), 1_000_000);
        for set in Set::ALL {
            let drawing = full.drawing(set);
            // 100,000 iterations of MALA, of which the first half is discarded.
            assert_eq!(
                (drawing.chains * (drawing.warmup + drawing.draws), drawing.warmup),
                (100_000, 50_000)
            );
            assert_eq!(full.max_rows(set), usize::MAX);
            for approach in Approach::ALL {
                assert_eq!(full.repeats(set, approach), 20);
                assert_eq!(full.sizes(set, approach), [156, 312, 625, 1250, 2500, 5000, 10_000]);
            }
        }
        assert_eq!(full.timed_iterations(), 10_000);
    }

    #[test]
    fn every_profile_runs_something_of_everything_and_longer_ones_run_more() {
        for set in Set::ALL {
            for approach in Approach::ALL {
                for profile in PROFILES {
                    let sizes = profile.sizes(set, approach);
                    assert!(!sizes.is_empty() && sizes.windows(2).all(|pair| pair[0] < pair[1]));
                    assert!(sizes[sizes.len() - 1] < profile.generated_rows().min(profile.max_rows(set)));
                }
                let cells = PROFILES.map(|p| p.repeats(set, approach) * p.sizes(set, approach).len());
                assert!(cells[0] > 0 && cells[0] <= cells[1] && cells[1] <= cells[2], "{cells:?}");
            }
            let draws = PROFILES.map(|p| p.drawing(set).chains * p.drawing(set).draws);
            assert!(draws[0] < draws[1] && draws[1] < draws[2]);
            for profile in PROFILES {
                let drawing = profile.drawing(set);
                assert!(drawing.thinned_draws <= drawing.chains * drawing.draws);
            }
        }
    }

    #[test]
    fn settings_in_saved_cells_keep_their_names() {
        // Files of earlier runs must remain readable.
        let drawing = serde_json::to_value(Profile::Quick.drawing(Set::Binary5)).expect("JSON");
        let mut names: Vec<&str> =
            drawing.as_object().expect("an object").keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["chains", "draws", "looked_at", "sampler", "warmup"]);
    }
}
