//! What coreset to build: the settings of every method, checked in one place.

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result, Setting};
use crate::base::rng::Seed;
use crate::coreset::Method;
use crate::coreset::selection::Size;
use crate::coreset::sensitivity::{CenterRule, Radius};
use crate::encoding::EncodingSettings;
use crate::model::PriorChoice;
use crate::model::prior::choice_or_scale;

/// What the certificate of a calibrated coreset compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum CertificateBy {
    /// The log-likelihoods of coreset and full data at draws from the coreset's posterior.
    #[default]
    Draws,
    /// The normal approximations of the two posteriors only.
    Normal,
}

/// What coreset to build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct BuildSettings {
    /// How rows are chosen.
    pub method: Method,
    /// How many rows.
    pub size: Size,
    /// Number of clusters k.
    pub clusters: usize,
    /// The radius of the ball.
    pub radius: Radius,
    /// The ball's centre: coefficients by name, on the user's own scale; those not named are 0.
    pub theta_star: Vec<(String, f64)>,
    /// Which points represent the groups in the sensitivity bounds.
    pub centers: CenterRule,
    /// Whether data with few distinct rows is returned as those rows with their counts.
    pub collapse: bool,
    /// The seed.
    pub seed: Seed,
    /// The encoding.
    pub encoding: EncodingSettings,
    /// Calibration: the priors of the posterior that the coreset is for, on the model's scale.
    #[serde(alias = "prior_scale", deserialize_with = "choice_or_scale")]
    pub priors: PriorChoice,
    /// Calibration: what the certificate compares.
    #[serde(default)]
    pub certificate: CertificateBy,
}

impl Default for BuildSettings {
    fn default() -> BuildSettings {
        BuildSettings {
            method: Method::Calibrated,
            size: Size::Rows(1000),
            clusters: 6,
            radius: Radius::Auto(3.0),
            theta_star: Vec::new(),
            centers: CenterRule::Exact,
            collapse: true,
            seed: Seed(0),
            encoding: EncodingSettings::default(),
            priors: PriorChoice::default(),
            certificate: CertificateBy::Draws,
        }
    }
}

impl BuildSettings {
    /// The default settings with this number of rows.
    pub fn with_rows(rows: usize) -> BuildSettings {
        BuildSettings { size: Size::Rows(rows), ..BuildSettings::default() }
    }

    /// The default settings with as few rows as reach this KL to the full data's posterior, in nats.
    pub fn with_kl(target: f64) -> BuildSettings {
        BuildSettings { size: Size::Kl { target }, ..BuildSettings::default() }
    }

    /// Checks that the settings make sense.
    pub fn check(&self) -> Result<()> {
        self.size.check()?;
        if self.clusters == 0 || self.clusters > 1000 {
            return Err(Error::setting(Setting::Clusters, "must be between 1 and 1000"));
        }
        self.priors.check()?;
        let (Radius::Fixed(radius) | Radius::Auto(radius)) = self.radius;
        if !(radius >= 0.0 && radius.is_finite()) {
            return Err(Error::setting(
                Setting::Radius,
                format!("must be finite and not negative, but is {radius}"),
            ));
        }
        Ok(())
    }
}
