//! The verdict on draws whose log-likelihood was compared with that of all rows.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::divergence::Threshold;

/// The verdict on the draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Judgement {
    /// The KL is at most 0.01 and no mean is more than 0.05 standard deviations off.
    Indistinguishable,
    /// The KL is at most 0.05 and no mean is more than 0.1 standard deviations off.
    Good,
    /// The draws are inaccurate, but the weights correct them.
    Correctable,
    /// The draws are inaccurate, and too few of them are where the full posterior is for the weights to correct them.
    TooFar,
}

impl Judgement {
    /// The verdict by the KL, the largest error of a mean in standard deviations, and whether the weights are reliable.
    pub(crate) fn of(kl: f64, mean_error: f64, is_reliable: bool) -> Judgement {
        match is_reliable {
            true if Threshold::INDISTINGUISHABLE.admits(kl, mean_error) => Judgement::Indistinguishable,
            true if Threshold::GOOD.admits(kl, mean_error) => Judgement::Good,
            true => Judgement::Correctable,
            false => Judgement::TooFar,
        }
    }

    /// Whether the draws may be used as they are.
    pub fn is_accurate(self) -> bool {
        matches!(self, Judgement::Indistinguishable | Judgement::Good)
    }
}

/// What a comparison with all rows found: a part of the posterior's record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct VerificationFacts {
    /// The verdict on the draws as they were drawn.
    pub verdict: Judgement,
    /// Number of rows of the data.
    pub rows: u64,
    /// Number of draws that were compared.
    pub draws: usize,
    /// KL from the sampled posterior to that of all rows, in nats.
    pub kl: f64,
    /// The standard error of the KL.
    pub kl_error: f64,
    /// The largest error of a coefficient's mean, in posterior standard deviations.
    pub largest_mean_error: f64,
    /// Pareto's `k̂` of the importance weights; `None` if no tail can be fitted.
    pub k_hat: Option<f64>,
    /// Effective draws of the full data's posterior per draw.
    pub efficiency: f64,
    /// Whether the draws of the file were resampled in proportion to the weights, which corrects them.
    pub corrected: bool,
}

/// One line for users.
impl fmt::Display for VerificationFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match (self.verdict, self.corrected) {
            (_, true) => "the draws were inaccurate and are corrected",
            (Judgement::Indistinguishable, _) => "the draws are indistinguishable from those of all rows",
            (Judgement::Good, _) => "the draws are good",
            (Judgement::Correctable, _) => "the draws are inaccurate, but weights correct them",
            (Judgement::TooFar, _) => "the draws are inaccurate, and weights do not correct them",
        };
        write!(
            f,
            "verified against {} rows at {} draws: {words} (KL {:.2e} nats, largest error of a mean {:.3} sd)",
            self.rows, self.draws, self.kl, self.largest_mean_error
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_depends_on_the_errors_of_means() {
        assert_eq!(Judgement::of(0.001, 0.01, true), Judgement::Indistinguishable);
        assert_eq!(Judgement::of(0.001, 0.06, true), Judgement::Good);
        assert_eq!(Judgement::of(0.02, 0.01, true), Judgement::Good);
        assert_eq!(Judgement::of(0.001, 0.43, true), Judgement::Correctable);
        assert_eq!(Judgement::of(0.3, 0.01, true), Judgement::Correctable);
        assert_eq!(Judgement::of(0.001, 0.01, false), Judgement::TooFar);
        assert!(Judgement::Good.is_accurate() && !Judgement::Correctable.is_accurate());
    }
}
