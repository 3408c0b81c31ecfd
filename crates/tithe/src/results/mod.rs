//! What a user does with a model: fit it, check it, compare it, predict with it, hand it on.

pub mod compare;
mod corrected;
pub mod epsilon_search;
pub mod export;
pub mod file;
pub mod fit;
pub mod mmd;
pub mod predict;
pub mod psis;
mod stan;
pub mod verify;

pub use corrected::{write_corrected, write_resampled};
pub use stan::write_stan_csv;
