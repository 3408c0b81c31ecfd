//! Everything done with a model: fit it, verify it, compare it, predict with it, save and export it.

pub mod check;
pub mod compare;
mod corrected;
pub mod epsilon_search;
pub mod export;
pub mod file;
pub mod fit;
pub mod mmd;
pub mod predict;
pub mod profile;
mod stan;
pub mod verify;

pub use corrected::{write_corrected, write_resampled};
pub use stan::write_stan_csv;
