//! What the provenance of a coreset says about its hierarchical model.

use serde::{Deserialize, Serialize};

use crate::coreset::hierarchical::certificate::ScaleCertificate;
use crate::encoding::GroupFactor;
use crate::model::PriorChoice;
use crate::model::hierarchical::EffectCovariance;

/// How the coreset of a hierarchical model was made, and how far its posterior is from the full data's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct HierarchicalFacts {
    /// The grouping factor.
    pub factor: GroupFactor,
    /// The number of groups.
    pub groups: usize,
    /// The names of the effects that vary by group.
    pub effects: Vec<String>,
    /// Σ, near the mode of its marginal likelihood, on the model's scale.
    pub covariance: EffectCovariance,
    /// The comparison with the full data's posterior at half, once and twice the scale Σ.
    pub scales: Vec<ScaleCertificate>,
    /// The priors of the fixed effects, on the model's scale.
    pub priors: PriorChoice,
    /// Rows from which the coreset's were chosen.
    pub pool: usize,
}

impl HierarchicalFacts {
    /// The largest KL at any of the scales.
    pub fn kl(&self) -> f64 {
        self.scales.iter().map(ScaleCertificate::largest_kl).fold(0.0, f64::max)
    }
}
