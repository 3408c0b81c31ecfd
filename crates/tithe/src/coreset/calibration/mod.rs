//! Calibration: from selected rows to weights whose posterior is practically the full data's, with a certificate.

mod calibrate;
pub mod certificate;
mod cholesky;
pub(crate) mod driver;
pub mod weights;

pub use calibrate::{Calibrated, CalibrationSettings, calibrate, nudge, pool_capacity};
