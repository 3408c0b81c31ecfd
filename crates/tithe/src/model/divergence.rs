//! How large the Kullback-Leibler divergence between two posteriors may be, in nats.

/// How far a posterior may be from another to deserve a verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threshold {
    /// The largest KL, in nats.
    pub kl: f64,
    /// The largest error of a mean, in posterior standard deviations.
    pub mean_error: f64,
}

impl Threshold {
    /// Thousands of draws cannot distinguish the two posteriors: the error of a mean is that of 400 independent draws.
    pub const INDISTINGUISHABLE: Threshold = Threshold { kl: 0.01, mean_error: 0.05 };
    /// Means and standard deviations are accurate enough for any practical purpose.
    pub const GOOD: Threshold = Threshold { kl: 0.05, mean_error: 0.1 };

    /// Whether these figures are within the threshold.
    pub fn admits(self, kl: f64, mean_error: f64) -> bool {
        kl <= self.kl && mean_error <= self.mean_error
    }
}
