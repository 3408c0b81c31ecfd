//! The model: a weighted logistic likelihood, priors, and the posterior they make.

pub mod likelihood;
pub mod local_features;
pub(crate) mod newton;
pub mod posterior;
pub mod prior;
pub mod quadratic;
mod thin;

pub use posterior::{Gaussian, LogDensity, Posterior};
pub use prior::{Prior, PriorChoice, Priors};
