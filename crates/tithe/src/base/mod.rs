//! Foundations of all other folders: errors, progress reports, random numbers, vector arithmetic.

pub mod error;
pub mod faults;
pub(crate) mod linear;
pub mod machine;
pub(crate) mod math;
pub mod progress;
pub mod rng;
