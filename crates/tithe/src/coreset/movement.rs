//! How far the mode of a posterior has moved since a coreset was matched to its rows, and how far it should have moved.
//!
//! A coreset represents its rows near their posterior. If the rows that come later are like those before, the mode of all
//! rows is normally distributed about the earlier mode: `(θ − θ₀)ᵀ P₀ (θ − θ₀)/(1 − W₀/W)` has a chi-squared distribution with
//! D degrees of freedom, where `P₀` is the earlier posterior's precision, `W₀` the mass of its rows and `W` that of all rows. A
//! mode much farther away means that the rows differ; what the coreset represents there was not measured.

use serde::{Deserialize, Serialize};

use crate::model::Gaussian;

/// The mode of rows that are all alike moves farther than expected with probability 10⁻⁶; this is the normal quantile.
const QUANTILE: f64 = 4.753;

/// How far a mode has moved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Movement {
    /// The distance, in standard deviations of the earlier posterior.
    pub distance: f64,
    /// The trust radius: the mode of rows that are all alike lies farther away with probability 10⁻⁶.
    pub radius: f64,
}

impl Movement {
    /// The movement to `mode` since rows that are a `share` of all rows had this posterior.
    pub(crate) fn since(earlier: &Gaussian, share: f64, mode: &[f64]) -> Movement {
        let dim = mode.len();
        let mut xi = vec![0.0; dim];
        earlier.whiten(mode, &mut xi);
        let distance = xi.iter().map(|x| x * x).sum::<f64>().sqrt();
        Movement { distance, radius: (chi_squared(dim as f64) * (1.0 - share).max(0.0)).sqrt() }
    }

    /// The movement from the mode of a reference, at whose posterior parts were matched, to that of all parts. Within the radius lie
    /// the reference's draws, where the parts were checked; its rows have `relative_mass` times the mass of all.
    pub(crate) fn from_reference(mode: &[f64], relative_mass: f64, all: &Gaussian) -> Movement {
        let mut xi = vec![0.0; mode.len()];
        all.whiten(mode, &mut xi);
        let distance = (relative_mass * xi.iter().map(|x| x * x).sum::<f64>()).sqrt();
        Movement { distance, radius: chi_squared(mode.len() as f64).sqrt() }
    }

    /// Whether the mode is outside the trust radius.
    pub fn is_outside(&self) -> bool {
        self.distance > self.radius
    }

    /// The movement that is the larger in relation to its radius.
    pub(crate) fn larger(self, other: Movement) -> Movement {
        if other.distance * self.radius > self.distance * other.radius { other } else { self }
    }
}

/// A high quantile of the chi-squared distribution, after Wilson and Hilferty (1931).
fn chi_squared(degrees: f64) -> f64 {
    let part = 2.0 / (9.0 * degrees);
    degrees * (1.0 - part + QUANTILE * part.sqrt()).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_is_that_of_tables() {
        // For 2 degrees of freedom −2 ln 10⁻⁶. The approximation is too large, most for 1 degree.
        for (degrees, exact) in [(1.0, 23.93), (2.0, 27.63), (10.0, 46.86)] {
            let ratio = chi_squared(degrees) / exact;
            assert!((1.0..1.16).contains(&ratio), "{degrees}: {ratio}");
        }
    }

    #[test]
    fn a_movement_is_judged_by_the_share_of_new_rows() {
        let earlier = Gaussian::standard(4);
        let near = Movement::since(&earlier, 0.5, &[1.0, -1.0, 1.0, 1.0]);
        assert!((near.distance - 2.0).abs() < 1e-12 && !near.is_outside());
        assert!(Movement::since(&earlier, 0.99, &[1.0, -1.0, 1.0, 1.0]).is_outside());
        let far = Movement::since(&earlier, 0.5, &[9.0, 0.0, 0.0, 0.0]);
        assert!(far.is_outside());
        assert_eq!(near.larger(far), far);
        assert_eq!(far.larger(near), far);
    }
}
