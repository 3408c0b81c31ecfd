//! The model: the weighted logistic likelihood, the priors, and the posterior.

pub mod arrow;
pub(crate) mod divergence;
mod gaussian;
pub mod grouped_likelihood;
pub mod hierarchical;
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
