//! Tithe.

pub mod block;
pub mod diagnostics;
pub mod draws;
pub mod error;
mod math;
pub mod mcmc;
pub mod model;
pub mod points;
pub mod progress;
pub mod psis;
pub mod rng;
pub mod source;
