//! How a coreset was made, and what is known about its quality.

use serde::{Deserialize, Serialize};

use crate::base::error::{ErrorKind, Result};
use crate::base::rng::Seed;
use crate::coreset::calibration::certificate::{Certificate, Guard};
use crate::coreset::hierarchical::facts::HierarchicalFacts;
use crate::coreset::movement::Movement;
use crate::coreset::selection::Size;
use crate::coreset::sensitivity::{CenterRule, Radius};
use crate::coreset::whole::PartOf;
use crate::data::fingerprint::Fingerprint;
use crate::engine::Missing;
use crate::model::PriorChoice;
use crate::model::prior::choice_or_scale;

/// How rows are chosen, from the best method to the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Method {
    /// By sensitivity and by what matters near the mode, then weighted so that the posterior is the full data's.
    Calibrated,
    /// The paper's Algorithm 1: in proportion to the sensitivity bounds.
    Sensitivity,
    /// In proportion to their weights: the baseline.
    Uniform,
}

/// How a coreset was made: the request, and the results of each step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// How rows were chosen.
    pub method: Method,
    /// The requested size.
    pub size: Size,
    /// Number of draws M; the number of rows where the coreset is exact.
    pub draws: u64,
    /// True if the coreset's likelihood is the data's own: all rows, or all distinct rows with their counts.
    pub exact: bool,
    /// Rows of the input.
    pub rows_read: u64,
    /// Rows in use.
    pub rows: u64,
    /// Rows dropped because of a missing, infinite or inexact value.
    pub rows_dropped: u64,
    /// The sum of the weights of the rows in use: their number, if they were not weighted.
    pub mass: f64,
    /// A fingerprint of the rows in use, independent of their order.
    pub fingerprint: Fingerprint,
    /// Passes over the data.
    pub passes: usize,
    /// The seed.
    pub seed: Seed,
    /// What was done with missing values.
    pub missing: Missing,
    /// The clustering and the bounds it gave; none for the uniform baseline.
    pub sensitivity: Option<SensitivityFacts>,
    /// What calibration reached; only for that method, and not where the coreset is exact.
    pub calibration: Option<CalibrationFacts>,
    /// For models with groups: what calibration reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchical: Option<HierarchicalFacts>,
    /// How it was composed of other coresets: the blocks of a stream, or those that were merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composition: Option<Composition>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// How a coreset was composed of others, and how their errors add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Composition {
    /// Coresets of rows (not of coresets) that went into it.
    pub parts: u64,
    /// The most coresets of coresets between a row and this one, itself included.
    pub depth: u64,
    /// The composed bound, if every step had one.
    pub bound: Option<Bound>,
    /// An estimate of the KL of all steps together, in nats: errors are taken as independent, `Σ KL_i·W_i/W`, each in units of
    /// the posterior of its own mass `W_i`. A step of a stream counts what neither its coreset nor the residual that it passes on
    /// represents. `None` if a step had no certificate.
    pub kl: Option<f64>,
    /// How far the posterior has moved from where the parts were matched; the largest movement in relation to its trust
    /// radius. Outside of it, `kl` says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub movement: Option<Movement>,
    /// The number of rows after which weights had halved, if rows lost weight with age; the shortest of all parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_life: Option<f64>,
}

/// The paper's guarantee, through any number of steps: `1 + ε'' = (1+ε)(1+ε')`, and failures add up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The relative error of the log-likelihood is at most this, anywhere in the ball.
    pub epsilon: f64,
    /// The probability that the error is larger.
    pub delta: f64,
    /// The ball's radius, the smallest of all steps; `None` where it holds everywhere.
    pub radius: Option<f64>,
}

impl Bound {
    /// The bound of the likelihood itself.
    pub const EXACT: Bound = Bound { epsilon: 0.0, delta: 0.0, radius: None };

    /// Of a union: the worst part (observation 1 of the paper).
    pub fn combined_with(self, other: Bound) -> Bound {
        Bound {
            epsilon: self.epsilon.max(other.epsilon),
            delta: self.delta + other.delta,
            radius: smaller(self.radius, other.radius),
        }
    }

    /// Of a coreset of a coreset: `ε'' = (1+ε)(1+ε') − 1` (observation 2).
    pub fn then(self, next: Bound) -> Bound {
        Bound {
            epsilon: (1.0 + self.epsilon) * (1.0 + next.epsilon) - 1.0,
            delta: self.delta + next.delta,
            radius: smaller(self.radius, next.radius),
        }
    }
}

fn smaller(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::min)
}

impl Provenance {
    /// The priors of the posterior that the coreset was built for; the default ones if it was built for none.
    pub fn priors(&self) -> PriorChoice {
        self.calibration.as_ref().map_or_else(PriorChoice::default, |facts| facts.priors.clone())
    }

    /// How it was composed; a coreset of rows is its own only part.
    pub fn composed(&self) -> Composition {
        self.composition.clone().unwrap_or_else(|| Composition {
            parts: 1,
            depth: 0,
            bound: self.step_bound(),
            kl: self.step_kl(),
            movement: None,
            half_life: None,
        })
    }

    /// Returns an error if rows have lost weight with age: the posterior is then not that of the data as it is.
    pub(crate) fn expect_full_weights(&self) -> Result<()> {
        match self.composition.as_ref().and_then(|composition| composition.half_life) {
            None => Ok(()),
            Some(rows) => Err(ErrorKind::OtherData {
                what: format!(
                    "its rows count fully, and in the stream they lost weight with a half-life of {rows} rows"
                ),
            }
            .into()),
        }
    }

    /// The guarantee of the last step, relative to its input.
    pub(crate) fn step_bound(&self) -> Option<Bound> {
        match (self.exact, self.size, &self.sensitivity) {
            (true, ..) => Some(Bound::EXACT),
            (false, Size::Guarantee { epsilon, delta, .. }, Some(facts)) => {
                Some(Bound { epsilon, delta, radius: Some(facts.radius) })
            }
            _ => None,
        }
    }

    /// The KL of the last step, by its certificate.
    pub(crate) fn step_kl(&self) -> Option<f64> {
        if self.exact {
            return Some(0.0);
        }
        self.calibration.as_ref().map(|facts| facts.certificate.kl())
    }
}

/// What calibration did, and what it reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationFacts {
    /// How far the coreset's posterior is from the full data's.
    pub certificate: Certificate,
    /// Which weights were kept.
    pub guard: Guard,
    /// The priors of the certificate, on the model's scale.
    #[serde(alias = "prior_scale", deserialize_with = "choice_or_scale")]
    pub priors: PriorChoice,
    /// Where the rows were matched, if they are a part of data whose posterior was known. Certificate and verdict then say how
    /// far the posterior of all data would be if every part were represented as well as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<PartOf>,
    /// Rows from which the coreset's were chosen.
    pub pool: usize,
    /// Pricing rounds.
    pub rounds: usize,
}

/// What the sensitivity bounds were made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SensitivityFacts {
    /// Number of clusters k.
    pub clusters: usize,
    /// Which points represented the groups.
    pub centers: CenterRule,
    /// The requested radius.
    pub radius_rule: Radius,
    /// The radius R.
    pub radius: f64,
    /// The ball's centre on the model's scale, where it is not 0.
    pub theta_star: Option<Vec<f64>>,
    /// The normalised k-means score I.
    pub score: f64,
    /// The mean sensitivity bound `m̄`; not computed where the coreset is exact.
    pub mean_bound: Option<f64>,
}
