//! The model: the weighted logistic likelihood, the priors, and the posterior.

pub mod arrow;
pub mod covariance;
pub(crate) mod divergence;
mod gaussian;
pub mod group_prior;
pub mod grouped_likelihood;
pub mod hierarchical;
pub mod hierarchical_posterior;
mod hierarchical_reference;
pub mod likelihood;
pub mod local_features;
pub(crate) mod newton;
pub mod posterior;
pub mod prior;
pub mod quadratic;
mod thin;

pub use gaussian::Gaussian;
pub use group_prior::GroupPrior;
pub use posterior::{LogDensity, Posterior, Target};
pub use prior::{Prior, PriorChoice, Priors};
