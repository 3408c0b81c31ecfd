//! Draws from a posterior: chains of coefficients, with what the sampler noted beside each draw.

/// Draws of several chains, all of the same length.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    /// Names of the coefficients.
    pub names: Vec<String>,
    /// The chains.
    pub chains: Vec<Chain>,
}

/// One chain: the kept draws, warm-up left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain {
    /// Coefficients, draw by draw.
    pub theta: Vec<f64>,
    /// Log-density of each draw (`lp`).
    pub lp: Vec<f64>,
    /// What the sampler noted of each draw.
    pub stats: Stats,
}

/// What a sampler notes of each draw, under ArviZ's names.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Stats {
    /// From a Metropolis sampler with a fixed proposal.
    Metropolis {
        /// Probability of acceptance of each proposal.
        acceptance_rate: Vec<f64>,
        /// The step, fixed after warm-up.
        step_size: f64,
    },
    /// From a Hamiltonian sampler.
    Hamiltonian {
        /// Mean probability of acceptance over a draw's trajectory.
        acceptance_rate: Vec<f64>,
        /// True where the trajectory's energy went wrong.
        diverging: Vec<bool>,
        /// Energy (negative log of the joint density of position and momentum).
        energy: Vec<f64>,
        /// Doublings of the trajectory.
        tree_depth: Vec<u32>,
        /// Leapfrog steps.
        n_steps: Vec<u32>,
        /// The step, fixed after warm-up.
        step_size: f64,
        /// Draws whose trajectory was cut at the greatest depth.
        reached_max_treedepth: Vec<bool>,
    },
    /// Independent draws from an approximation.
    #[default]
    Independent,
}

impl Stats {
    /// Probabilities of acceptance, where the sampler has them.
    pub fn acceptance_rate(&self) -> Option<&[f64]> {
        match self {
            Stats::Metropolis { acceptance_rate, .. } | Stats::Hamiltonian { acceptance_rate, .. } => {
                Some(acceptance_rate)
            }
            Stats::Independent => None,
        }
    }

    /// The same kind of notes, of no draw yet.
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

    /// Adds what another chain of the same sampler noted of its draw `i`.
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

    /// The step after warm-up, where the sampler has one.
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

    /// Draws of each chain.
    pub fn draws_per_chain(&self) -> usize {
        self.chains.first().map_or(0, |chain| chain.lp.len())
    }

    /// Draws of all chains.
    pub fn len(&self) -> usize {
        self.chains.iter().map(|chain| chain.lp.len()).sum()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some draws, by their positions among all draws of all chains, as one chain. The step is the first chain's.
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

    /// Every draw of every chain, in order: one slice of coefficients each.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        let dim = self.dim().max(1);
        self.chains.iter().flat_map(move |chain| chain.theta.chunks_exact(dim))
    }

    /// The draws of coefficient `i`, chain by chain.
    pub fn coefficient(&self, i: usize) -> Vec<Vec<f64>> {
        self.map(|theta| theta[i])
    }

    /// A function of the coefficients, chain by chain.
    pub fn map(&self, f: impl Fn(&[f64]) -> f64) -> Vec<Vec<f64>> {
        let dim = self.dim().max(1);
        self.chains.iter().map(|chain| chain.theta.chunks_exact(dim).map(&f).collect()).collect()
    }
}
