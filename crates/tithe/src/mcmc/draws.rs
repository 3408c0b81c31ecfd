//! Draws from a posterior: chains of coefficients, with the sampler's statistics of each draw.

/// Draws of several chains, all of the same length.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    /// Names of the coefficients.
    pub names: Vec<String>,
    /// The chains.
    pub chains: Vec<Chain>,
}

/// One chain: the draws after warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain {
    /// The coefficients of one draw after the other.
    pub theta: Vec<f64>,
    /// Log-density of each draw (`lp`).
    pub lp: Vec<f64>,
    /// The sampler's statistics of each draw.
    pub stats: Stats,
}

/// A sampler's statistics of each draw, with ArviZ's names.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Stats {
    /// From a Metropolis sampler with a fixed proposal.
    Metropolis {
        /// Probability of acceptance of each proposal.
        acceptance_rate: Vec<f64>,
        /// The step size, fixed after warm-up.
        step_size: f64,
    },
    /// From a Hamiltonian sampler.
    Hamiltonian {
        /// Mean probability of acceptance over the trajectory of each draw.
        acceptance_rate: Vec<f64>,
        /// True if the trajectory diverged.
        diverging: Vec<bool>,
        /// Energy (negative log of the joint density of position and momentum).
        energy: Vec<f64>,
        /// Number of doublings of the trajectory.
        tree_depth: Vec<u32>,
        /// Number of leapfrog steps.
        n_steps: Vec<u32>,
        /// The step size, fixed after warm-up.
        step_size: f64,
        /// True if the trajectory was truncated at the maximum depth.
        reached_max_treedepth: Vec<bool>,
    },
    /// Independent draws from an approximation.
    #[default]
    Independent,
}

impl Stats {
    /// Probabilities of acceptance, if the sampler has them.
    pub fn acceptance_rate(&self) -> Option<&[f64]> {
        match self {
            Stats::Metropolis { acceptance_rate, .. } | Stats::Hamiltonian { acceptance_rate, .. } => {
                Some(acceptance_rate)
            }
            Stats::Independent => None,
        }
    }

    /// Empty statistics of the same kind.
    fn emptied(&self) -> Stats {
        match self {
            Stats::Metropolis { step_size, .. } => {
                Stats::Metropolis { acceptance_rate: Vec::new(), step_size: *step_size }
            }
            Stats::Hamiltonian { step_size, .. } => Stats::Hamiltonian {
                acceptance_rate: Vec::new(),
                diverging: Vec::new(),
                energy: Vec::new(),
                tree_depth: Vec::new(),
                n_steps: Vec::new(),
                step_size: *step_size,
                reached_max_treedepth: Vec::new(),
            },
            Stats::Independent => Stats::Independent,
        }
    }

    /// Appends the statistics of draw `i` of another chain of the same sampler.
    fn push(&mut self, other: &Stats, i: usize) {
        match (self, other) {
            (Stats::Metropolis { acceptance_rate, .. }, Stats::Metropolis { acceptance_rate: from, .. }) => {
                acceptance_rate.push(from[i]);
            }
            (
                Stats::Hamiltonian {
                    acceptance_rate,
                    diverging,
                    energy,
                    tree_depth,
                    n_steps,
                    reached_max_treedepth,
                    ..
                },
                Stats::Hamiltonian {
                    acceptance_rate: rates,
                    diverging: divergent,
                    energy: energies,
                    tree_depth: depths,
                    n_steps: steps,
                    reached_max_treedepth: cut,
                    ..
                },
            ) => {
                acceptance_rate.push(rates[i]);
                diverging.push(divergent[i]);
                energy.push(energies[i]);
                tree_depth.push(depths[i]);
                n_steps.push(steps[i]);
                reached_max_treedepth.push(cut[i]);
            }
            _ => {}
        }
    }

    /// The step size after warm-up, if the sampler has one.
    pub fn step_size(&self) -> Option<f64> {
        match self {
            Stats::Metropolis { step_size, .. } | Stats::Hamiltonian { step_size, .. } => Some(*step_size),
            Stats::Independent => None,
        }
    }
}

impl Draws {
    /// Number of coefficients.
    pub fn dim(&self) -> usize {
        self.names.len()
    }

    /// Number of draws per chain.
    pub fn draws_per_chain(&self) -> usize {
        self.chains.first().map_or(0, |chain| chain.lp.len())
    }

    /// Number of draws of all chains.
    pub fn len(&self) -> usize {
        self.chains.iter().map(|chain| chain.lp.len()).sum()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The draws at some positions among all draws of all chains, as one chain. Its step size is the first chain's.
    pub(crate) fn pick(&self, picks: &[usize]) -> Chain {
        let (dim, per_chain) = (self.dim(), self.draws_per_chain().max(1));
        let places = || picks.iter().map(|&s| (&self.chains[s / per_chain], s % per_chain));
        let mut stats = self.chains.first().map_or(Stats::Independent, |chain| chain.stats.emptied());
        for (chain, i) in places() {
            stats.push(&chain.stats, i);
        }
        Chain {
            theta: places()
                .flat_map(|(chain, i)| chain.theta[i * dim..(i + 1) * dim].iter().copied())
                .collect(),
            lp: places().map(|(chain, i)| chain.lp[i]).collect(),
            stats,
        }
    }

    /// The coefficients of every draw of every chain, in order.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        let dim = self.dim().max(1);
        self.chains.iter().flat_map(move |chain| chain.theta.chunks_exact(dim))
    }

    /// The draws of coefficient `i`, one vector per chain.
    pub fn coefficient(&self, i: usize) -> Vec<Vec<f64>> {
        self.map(|theta| theta[i])
    }

    /// The values of a function of the coefficients, one vector per chain.
    pub fn map(&self, f: impl Fn(&[f64]) -> f64) -> Vec<Vec<f64>> {
        let dim = self.dim().max(1);
        self.chains.iter().map(|chain| chain.theta.chunks_exact(dim).map(&f).collect()).collect()
    }
}
