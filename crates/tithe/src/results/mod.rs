//! Everything done with a model: fit it, verify it, compare it, predict with it, save and export it.

pub mod check;
pub mod compare;
mod corrected;
pub mod epsilon_search;
pub mod export;
pub mod file;
pub mod fit;
pub mod fit_grouped;
pub(crate) mod group_effects;
pub mod groups;
pub mod judgement;
pub mod mmd;
pub mod one_step;
mod other_priors;
pub mod predict;
pub mod profile;
mod stan;
pub mod verify;

pub use corrected::{resampled, write_corrected};
pub use stan::write_stan_csv;
