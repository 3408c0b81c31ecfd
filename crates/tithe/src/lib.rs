//! Tithe.

pub mod block;
pub mod build;
pub mod clustering;
pub mod collapse;
pub mod coreset;
pub mod diagnostics;
pub mod draws;
pub mod encoding;
pub mod engine;
pub mod error;
pub mod files;
pub mod generate;
mod math;
pub mod mcmc;
pub mod model;
pub mod pass;
pub mod points;
pub mod progress;
pub mod psis;
pub mod rng;
pub mod selection;
pub mod sensitivity;
pub mod slots;
pub mod source;
pub mod survey;
pub mod table;
