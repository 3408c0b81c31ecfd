//! How large the Kullback-Leibler divergence between two posteriors may be, in nats.

/// Up to this KL, even thousands of draws cannot distinguish the two posteriors.
pub(crate) const INDISTINGUISHABLE: f64 = 0.01;

/// Up to this KL, means and standard deviations are accurate enough for any practical purpose.
pub(crate) const GOOD: f64 = 0.5;
