//! The posterior of all data, known from a coreset of it, at which the coresets of parts are matched.
//!
//! A part is much less certain about the parameters than all data are. A coreset matched at the part's own mode is
//! accurate over the part's own posterior, which is wide, and its error there is of third order. At the posterior of all data,
//! which is narrow, the same rows can be matched much better, and that is where the union of all parts needs them.

use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::coreset::Coreset;
use crate::data::points::Points;
use crate::model::newton::{Mode, mode_of_points};

/// A coreset of all data, as points.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    /// Its weighted rows.
    pub points: Points,
    /// The sum of the weights of all rows.
    pub mass: f64,
}

impl Whole {
    /// The whole that a coreset represents.
    pub fn of(coreset: &Coreset) -> Result<Whole> {
        Ok(Whole { points: coreset.points()?, mass: coreset.provenance.mass })
    }

    /// Its mode under normal priors with these precisions.
    pub fn mode(&self, prior_precision: &[f64]) -> Result<Mode> {
        mode_of_points(&self.points, prior_precision, vec![0.0; self.points.dim()])
    }

    /// The share of a part with this mass.
    pub fn share(&self, mass: f64) -> f64 {
        (mass / self.mass).min(1.0)
    }
}

/// Where the coreset of a part of the data was matched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct PartOf {
    /// The mode of all data, on the user's scale.
    pub mode: Vec<f64>,
    /// The part's share of all data.
    pub share: f64,
}
