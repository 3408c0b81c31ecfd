//! Calibration: from selected rows to weights whose posterior is practically the full data's, with a certificate.

pub mod features;
pub mod weights;
