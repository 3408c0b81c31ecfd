//! Certifies a coreset of any method: finds the full data's mode and compares the two posteriors.

use crate::base::error::Result;
use crate::coreset::Coreset;
use crate::coreset::calibration::certificate::{Certificate, approximation};
use crate::coreset::calibration::check::certify_by_draws;
use crate::encoding::full_data::{Identity, identity_as};
use crate::engine::Engine;
use crate::mode::search::{Pilot, Search};
use crate::model::PriorChoice;

/// Settings of a certification.
#[derive(Clone, Debug, Default)]
pub struct CertifySettings {
    /// The priors of both posteriors, on the model's scale; by default those that the coreset was built for.
    pub priors: Option<PriorChoice>,
    /// Continue with data that differs from the recorded data.
    pub force: bool,
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
    /// The priors of both posteriors.
    pub priors: PriorChoice,
}

/// Certifies a coreset against an engine's rows, opened as the coreset's encoding says.
///
/// # Errors
/// If the rows are not those that the coreset represents (unless forced), or a posterior has no mode.
pub fn certify(engine: &impl Engine, coreset: &Coreset, settings: &CertifySettings) -> Result<Certified> {
    coreset.refuse_groups("certified again")?;
    let facts = &coreset.provenance;
    let names = coreset.encoding.distinct_names()?;
    let choice = settings.priors.clone().unwrap_or_else(|| facts.priors());
    let priors = choice.priors(&names, coreset.encoding.intercept)?;
    let identity = identity_as(engine, &coreset.encoding)?;
    let recognised = identity
        .expect(Identity { rows: facts.rows, fingerprint: facts.fingerprint })
        .and_then(|()| facts.expect_full_weights());
    let same_data = recognised.is_ok();
    if !settings.force {
        recognised?;
    }
    let points = coreset.points()?;
    let prior_precision = priors.normal_precisions();
    let pilot = match facts.calibration {
        Some(_) => Pilot::Calibrated(&points),
        None => Pilot::Random(&points),
    };
    let certificate = engine.install(|| {
        let search =
            Search::from_pilot(&coreset.encoding, None, &prior_precision, pilot, identity.rows, facts.seed)?;
        let mode = search.mode(engine, None)?;
        let full = approximation(mode.mode, mode.precision, "the full data's")?;
        let certificate = Certificate::new(&points, &full, &prior_precision, None)?;
        certify_by_draws(engine, coreset, &points, &priors, certificate)
    })?;
    Ok(Certified { certificate, identity, same_data, priors: choice })
}
