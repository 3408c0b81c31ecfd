//! Certifies a coreset of any method: finds the full data's mode and compares the two posteriors.

use crate::base::error::{Error, Result, Setting};
use crate::coreset::Coreset;
use crate::coreset::calibration::certificate::{Certificate, approximation};
use crate::encoding::full_data::{Identity, identity_as};
use crate::engine::Engine;
use crate::mode::search::{Pilot, Search};

/// Settings of a certification.
#[derive(Clone, Copy, Debug)]
pub struct CertifySettings {
    /// Standard deviation of the normal prior of both posteriors, on the model's scale.
    pub prior_scale: f64,
    /// Continue with data that differs from the recorded data.
    pub force: bool,
}

impl Default for CertifySettings {
    fn default() -> CertifySettings {
        CertifySettings { prior_scale: 2.0, force: false }
    }
}

/// The result of a certification.
#[derive(Clone, Debug)]
pub struct Certified {
    /// How far the coreset's posterior is from the full data's.
    pub certificate: Certificate,
    /// Number of rows and fingerprint of the data.
    pub identity: Identity,
    /// True if the data is the recorded data.
    pub same_data: bool,
}

/// Certifies a coreset against an engine's rows, opened as the coreset's encoding says.
///
/// # Errors
/// If the rows are not those that the coreset represents (unless forced), or a posterior has no mode.
pub fn certify(engine: &impl Engine, coreset: &Coreset, settings: &CertifySettings) -> Result<Certified> {
    if !(settings.prior_scale > 0.0 && settings.prior_scale.is_finite()) {
        let what = format!("must be positive, but is {}", settings.prior_scale);
        return Err(Error::setting(Setting::PriorScale, what));
    }
    let identity = identity_as(engine, &coreset.encoding)?;
    let facts = &coreset.provenance;
    let recognised = identity.expect(Identity { rows: facts.rows, fingerprint: facts.fingerprint });
    let same_data = recognised.is_ok();
    if !settings.force {
        recognised?;
    }
    let points = coreset.points()?;
    let prior_precision = vec![settings.prior_scale.powi(-2); points.dim()];
    let pilot = match facts.calibration {
        Some(_) => Pilot::Calibrated(&points),
        None => Pilot::Random(&points),
    };
    let certificate = engine.install(|| {
        let search =
            Search::from_pilot(&coreset.encoding, None, &prior_precision, pilot, identity.rows, facts.seed)?;
        let mode = search.mode(engine, None)?;
        let full = approximation(mode.mode, mode.precision, "the full data's")?;
        Certificate::new(&points, &full, &prior_precision, None)
    })?;
    Ok(Certified { certificate, identity, same_data })
}
