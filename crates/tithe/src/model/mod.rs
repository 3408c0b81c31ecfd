//! The model: a weighted logistic likelihood, priors, and the posterior they make.

pub(crate) mod divergence;
mod gaussian;
pub mod likelihood;
pub mod local_features;
pub(crate) mod newton;
pub mod posterior;
pub mod prior;
pub mod quadratic;
mod thin;

pub use gaussian::Gaussian;
pub use posterior::{LogDensity, Posterior};
pub use prior::{Prior, PriorChoice, Priors};
