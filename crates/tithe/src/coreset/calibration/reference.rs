//! The reference: what the weighted rows of a coreset have to match near the mode.

use faer::Mat;

use crate::base::error::Result;
use crate::coreset::calibration::certificate::approximation;
use crate::coreset::calibration::task::Task;
use crate::coreset::steps::Build;
use crate::engine::Engine;
use crate::mode::evaluation::full_curvature;
use crate::model::likelihood::Curvature;
use crate::model::local_features::{LocalMap, LocalSum};
use crate::model::newton::Mode;
use crate::model::{Gaussian, Priors};

/// The full data's posterior near its mode, and the sums of local features that the coreset has to reach.
pub(crate) struct Reference {
    /// The normal approximation of the full posterior, at its mode.
    pub posterior: Gaussian,
    /// The priors.
    pub priors: Priors,
    /// The precisions of normal priors of similar width, with which the mode was sought.
    pub prior_precision: Vec<f64>,
    /// From points to local features at the reference parameter, whitened by the posterior.
    pub map: LocalMap,
    /// The log-likelihood that the coreset represents: value, gradient and Hessian at the reference parameter, the
    /// carried residual included.
    pub likelihood: Curvature,
    /// The target `b`: the sum of local features that the weighted rows should have.
    pub target: LocalSum,
    /// The rows' share of the mass of everything that counts for the posterior.
    pub share: f64,
    /// The factor of errors: 1, or for a part of the data what makes them those of all parts together, each as wrong as this one.
    /// Errors of parts are independent, so that their variances add up.
    pub error_scale: f64,
}

impl Reference {
    /// The reference of a task whose posterior has this mode; a fixed reference parameter costs one more pass.
    pub fn new(
        build: &Build<'_, impl Engine>,
        task: &Task<'_>,
        priors: Priors,
        mode: Mode,
    ) -> Result<Reference> {
        let mass = build.learnt.mass;
        let share = match task.whole {
            Some(whole) => whole.share(mass),
            None => mass / (mass + task.other_mass()),
        };
        let error_scale = if task.whole.is_some() { share.sqrt().recip() } else { 1.0 };
        let (map, likelihood) = match task.fixed_reference {
            // The likelihood at the mode of all data is the rows' own.
            _ if task.whole.is_some() => {
                let likelihood = full_curvature(build.engine, &build.learnt.encoding, &mode.mode)?;
                (LocalMap::new(mode.mode.clone(), (&mode.precision * share).as_ref())?, likelihood)
            }
            Some(theta) => {
                let likelihood = full_curvature(build.engine, &build.learnt.encoding, theta)?;
                (LocalMap::new(theta.to_vec(), mode.precision.as_ref())?, likelihood)
            }
            None => {
                let likelihood = match task.others {
                    Some(others) => mode.likelihood.minus(&Curvature::of_points(others, &mode.theta)),
                    None => mode.likelihood,
                };
                // The shape of the full posterior at the scale of the rows' share: features are then as large as
                // they would be for these rows alone.
                (LocalMap::new(mode.theta, (&mode.precision * share).as_ref())?, likelihood)
            }
        };
        // The other coresets keep their part of the residual of earlier steps.
        let asked = match task.carried_residual {
            Some(residual) => likelihood.minus(&residual.at(map.theta()).times(1.0 - share)),
            None => likelihood.clone(),
        };
        Ok(Reference {
            posterior: approximation(mode.mode, mode.precision, "the full data's")?,
            prior_precision: priors.normal_precisions(),
            priors,
            target: sum_of_features(&map, &asked),
            map,
            likelihood,
            share,
            error_scale,
        })
    }
}

/// The sum of local features whose log-likelihood has this gradient and Hessian.
fn sum_of_features(map: &LocalMap, likelihood: &Curvature) -> LocalSum {
    let gradient: Vec<f64> = likelihood.gradient.iter().map(|g| -g).collect();
    let curvature = Mat::from_fn(map.dim(), map.dim(), |i, j| likelihood.entry(i, j));
    map.sum_of(&gradient, curvature.as_ref())
}
