//! Priors of the scales of group effects: log-density on the logarithmic scale with its derivative, and their text form such as
//! `half-normal:1`.

use std::f64::consts::LN_2;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result, Setting};
use crate::base::math::{exp, ln};
use crate::model::prior::Prior;

/// The prior of the standard deviation `τ > 0` of group effects.
///
/// As text: `half-normal:SCALE`, `half-student:DEGREES:SCALE`, `half-cauchy:SCALE`, `exponential:RATE`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum GroupPrior {
    /// A normal distribution centred at 0, restricted to positive numbers.
    HalfNormal {
        /// Standard deviation of the unrestricted normal.
        scale: f64,
    },
    /// Student's t centred at 0, restricted to positive numbers.
    HalfStudent {
        /// Degrees of freedom.
        degrees: f64,
        /// Scale.
        scale: f64,
    },
    /// The Cauchy distribution centred at 0, restricted to positive numbers (Gelman 2006).
    HalfCauchy {
        /// The median of τ.
        scale: f64,
    },
    /// The exponential distribution.
    Exponential {
        /// The reciprocal of the mean of τ.
        rate: f64,
    },
}

impl Default for GroupPrior {
    /// Student's t with 3 degrees of freedom and scale 2.5, restricted to positive numbers: the default of brms for logistic
    /// models (Bürkner 2017). A τ of 2.5 makes the odds of two groups typically differ by a factor of more than 10.
    fn default() -> GroupPrior {
        GroupPrior::HalfStudent { degrees: 3.0, scale: 2.5 }
    }
}

/// The forms of text, for error messages.
const FORMS: &str = "half-normal:SCALE, half-student:DEGREES:SCALE, half-cauchy:SCALE, exponential:RATE";

impl GroupPrior {
    /// The prior of a real number whose restriction to positive numbers this is; `None` for the exponential.
    fn unrestricted(&self) -> Option<Prior> {
        match *self {
            GroupPrior::HalfNormal { scale } => Some(Prior::Normal { scale }),
            GroupPrior::HalfStudent { degrees, scale } => Some(Prior::StudentT { degrees, scale }),
            GroupPrior::HalfCauchy { scale } => Some(Prior::Cauchy { scale }),
            GroupPrior::Exponential { .. } => None,
        }
    }

    /// `ln p(τ)`, and its derivative with respect to `τ`.
    pub(crate) fn local(&self, tau: f64) -> (f64, f64) {
        match (self.unrestricted(), *self) {
            (Some(prior), _) => {
                let local = prior.local(tau);
                (local.value + LN_2, local.slope)
            }
            (None, GroupPrior::Exponential { rate }) => (ln(rate) - rate * tau, -rate),
            (None, _) => (f64::NAN, f64::NAN),
        }
    }

    /// The log-density of `s = ln τ`, which is `ln p(τ) + s`, and its derivative.
    pub(crate) fn local_of_log(&self, s: f64) -> (f64, f64) {
        let tau = exp(s);
        let (value, slope) = self.local(tau);
        (value + s, slope * tau + 1.0)
    }

    /// Checks the parameters.
    pub fn check(&self) -> Result<()> {
        match self.unrestricted() {
            Some(prior) => prior.check().map_err(|_| wrong(self, "its numbers must be positive".to_string())),
            None => match *self {
                GroupPrior::Exponential { rate } if !(rate.is_finite() && rate > 0.0) => {
                    Err(wrong(self, format!("the rate must be a positive number, not {rate}")))
                }
                _ => Ok(()),
            },
        }
    }
}

fn wrong(prior: impl fmt::Display, what: String) -> Error {
    Error::setting(Setting::GroupPrior, format!("'{prior}': {what}"))
}

impl fmt::Display for GroupPrior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupPrior::HalfNormal { scale } => write!(f, "half-normal:{scale}"),
            GroupPrior::HalfStudent { degrees, scale } => write!(f, "half-student:{degrees}:{scale}"),
            GroupPrior::HalfCauchy { scale } => write!(f, "half-cauchy:{scale}"),
            GroupPrior::Exponential { rate } => write!(f, "exponential:{rate}"),
        }
    }
}

impl FromStr for GroupPrior {
    type Err = Error;

    fn from_str(text: &str) -> Result<GroupPrior> {
        let mut parts = text.trim().split(':');
        let name = parts.next().unwrap_or_default();
        let numbers = parts
            .map(|part| {
                let number = part.trim().parse::<f64>();
                number.map_err(|_| wrong(text, format!("'{part}' is not a number; the forms are {FORMS}")))
            })
            .collect::<Result<Vec<f64>>>()?;
        let prior = match (name, &numbers[..]) {
            ("half-normal", &[scale]) => GroupPrior::HalfNormal { scale },
            ("half-student", &[degrees, scale]) => GroupPrior::HalfStudent { degrees, scale },
            ("half-cauchy", &[scale]) => GroupPrior::HalfCauchy { scale },
            ("exponential", &[rate]) => GroupPrior::Exponential { rate },
            _ => return Err(wrong(text, format!("expected one of {FORMS}"))),
        };
        prior.check()?;
        Ok(prior)
    }
}

impl TryFrom<String> for GroupPrior {
    type Error = Error;

    fn try_from(text: String) -> Result<GroupPrior> {
        text.parse()
    }
}

impl From<GroupPrior> for String {
    fn from(prior: GroupPrior) -> String {
        prior.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 5] =
        ["half-normal:1", "half-student:3:2.5", "half-cauchy:1", "exponential:2", "half-normal:0.3"];

    #[test]
    fn densities_have_mass_one_and_slopes_are_those_of_the_values() {
        for text in ALL {
            let prior: GroupPrior = text.parse().unwrap();
            assert_eq!(prior.to_string(), text);
            // The trapezoidal rule on the logarithmic scale, where the tails of all fall off exponentially.
            let step = 1e-3;
            let mass: f64 =
                (-40_000..40_000).map(|i| prior.local_of_log(f64::from(i) * step).0.exp()).sum::<f64>()
                    * step;
            assert!((mass - 1.0).abs() < 1e-6, "{text}: {mass}");
            for s in [-3.0, -0.4, 0.0, 1.3, 4.0] {
                let (_, slope) = prior.local_of_log(s);
                let change = (prior.local_of_log(s + 1e-6).0 - prior.local_of_log(s - 1e-6).0) / 2e-6;
                assert!((change - slope).abs() < 1e-6 * (1.0 + slope.abs()), "{text} at {s}");
            }
        }
    }

    #[test]
    fn invalid_priors_are_explained() {
        let message = |text: &str| text.parse::<GroupPrior>().unwrap_err().to_string();
        assert!(message("half-normal:0").contains("must be positive"), "{}", message("half-normal:0"));
        assert!(message("exponential:-1").contains("the rate must be a positive number"));
        assert!(message("half-normal:x").contains("'x' is not a number"));
        assert!(message("normal:1").contains("expected one of half-normal:SCALE"));
        assert!(message("half-student:3").contains("half-student:DEGREES:SCALE"));
    }
}
