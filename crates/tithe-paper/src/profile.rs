//! How much of the experiments is run: three profiles, from minutes to many hours.

use serde::{Deserialize, Serialize};
use tithe::base::rng::Seed;
use tithe::coreset::Method;
use tithe::mcmc::{Sampler, Settings};

use crate::approach::Approach;
use crate::data::Set;

/// The paper's sizes of coresets.
const SIZES: [usize; 7] = [156, 312, 625, 1250, 2500, 5000, 10_000];

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// A few minutes: small data, two sizes, two repeats. Shows that everything works; its figures mean little.
    Quick,
    /// A few hours of two cores: the paper's data and sizes, NUTS in place of long MALA runs, few repeats where a set is wide.
    Night,
    /// The paper's own settings: 20 repeats, 100,000 MALA iterations. Many hours.
    Full,
}

/// How posteriors are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawing {
    /// The sampler.
    pub sampler: Sampler,
    /// Chains.
    pub chains: usize,
    /// Iterations of each chain that are not kept.
    pub warmup: usize,
    /// Draws of each chain.
    pub draws: usize,
    /// Draws of all chains that figures are computed from, evenly spaced.
    pub looked_at: usize,
}

impl Drawing {
    /// The sampler's settings with a seed.
    pub fn settings(&self, seed: Seed) -> Settings {
        Settings { chains: self.chains, draws: self.draws, warmup: self.warmup, seed }
    }
}

impl Profile {
    /// Rows of the generated data; test rows come on top.
    pub fn generated_rows(self) -> usize {
        if self == Profile::Quick { 20_000 } else { 1_000_000 }
    }

    /// The most rows of a real set that are used.
    pub fn most_rows(self, set: Set) -> usize {
        match self {
            Profile::Quick if set.is_wide() => 2_500,
            Profile::Quick => 6_000,
            _ => usize::MAX,
        }
    }

    /// How a set's posteriors are drawn from.
    pub fn drawing(self, set: Set) -> Drawing {
        let nuts = |chains, warmup, draws| Drawing {
            sampler: Sampler::Nuts,
            chains,
            warmup,
            draws,
            looked_at: chains * draws,
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
                looked_at: 5_000,
            },
        }
    }

    /// Repeats of an approach with a set.
    pub fn repeats(self, set: Set, approach: Approach) -> usize {
        match self {
            Profile::Quick | Profile::Night if set.is_wide() => 1,
            Profile::Night if approach == Approach::Stream || set == Set::CovType => 3,
            Profile::Quick => 2,
            Profile::Night | Profile::Full => 20,
        }
    }

    /// The sizes of an approach's coresets of a set.
    pub fn sizes(self, set: Set, approach: Approach) -> &'static [usize] {
        match self {
            Profile::Quick if set.is_wide() => &[312],
            Profile::Quick => &[312, 1250],
            // Calibration of thousands of features over many thousands of rows takes minutes.
            Profile::Night if approach.method() == Method::Calibrated && set.is_wide() => &[625, 2500],
            Profile::Night if approach.method() == Method::Calibrated && set == Set::CovType => &SIZES[..5],
            _ => &SIZES,
        }
    }

    /// Clusterings whose mean sensitivities are looked at.
    pub fn clusterings(self) -> u64 {
        match self {
            Profile::Quick => 1,
            Profile::Night => 3,
            Profile::Full => 20,
        }
    }

    /// Rows at which mean sensitivities are looked at.
    pub fn sensitivity_rows(self) -> &'static [usize] {
        match self {
            Profile::Quick => &[500, 2_000],
            _ => &[1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000],
        }
    }

    /// Iterations of MALA that are timed (the paper's figure has 10,000; fewer are counted up).
    pub fn timed_iterations(self) -> usize {
        match self {
            Profile::Quick => 100,
            Profile::Night => 2_000,
            Profile::Full => 10_000,
        }
    }

    /// Takes of each timing.
    pub fn takes(self) -> usize {
        if self == Profile::Quick { 1 } else { 3 }
    }

    /// Repeats of a timing, with other seeds.
    pub fn timings(self) -> usize {
        match self {
            Profile::Quick | Profile::Night => 1,
            Profile::Full => 5,
        }
    }

    /// Seeds with which the guarantee is tried, for each constant.
    pub fn guarantee_seeds(self) -> u64 {
        match self {
            Profile::Quick => 10,
            Profile::Night => 200,
            Profile::Full => 1_000,
        }
    }

    /// Repeats of small experiments.
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
            _ => Err(format!("'{name}' is none of quick, night, full")),
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
