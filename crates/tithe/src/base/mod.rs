//! What everything else stands on: errors, progress, random numbers, vector arithmetic.

pub mod error;
pub mod machine;
pub(crate) mod math;
pub mod progress;
pub mod rng;
