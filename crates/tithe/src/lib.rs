//! Tithe.

pub mod block;
pub mod calibration;
pub mod error;
mod math;
pub mod points;
pub mod progress;
pub mod rng;
pub mod source;
