//! Findings: problems with draws that the diagnostics show, each with a remedy.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::error::{Help, Neutral, Remedy, Setting, Wording};
use crate::mcmc::diagnostics::{CoefficientSummary, FEWEST_DRAWS, e_bfmi};
use crate::mcmc::draws::{Draws, Stats};

/// A problem with the draws that the user should know about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Finding {
    /// The kind of problem.
    pub what: Trouble,
    /// A description with numbers.
    pub how_much: String,
    /// The remedy.
    pub what_to_do: Help,
}

/// The kinds of problems with draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// R-hat above 1.01.
    ChainsDisagree,
    /// R-hat cannot be computed from one chain.
    OneChain,
    /// Fewer than 100 effective draws per chain.
    FewEffectiveDraws,
    /// Divergent trajectories.
    Divergences,
    /// Trajectories truncated at the maximum depth.
    LongTrajectories,
    /// The energies are explored slowly.
    SlowEnergy,
    /// The acceptance rate is far from the sampler's target.
    Acceptance,
    /// Draws that are not finite.
    NotFinite,
    /// Priors that move the mode away from the one that a coreset is calibrated for.
    PriorMovesMode,
    /// Draws from the posterior of a part of the data, whose rows were matched at the posterior of all data.
    PartOfData,
    /// Draws so far from the full data's posterior that weights do not correct them.
    TooFarFromData,
    /// Rows that some coefficients separate perfectly, so that only the prior bounds them.
    Separated,
}

impl Finding {
    /// The warning in the words of a front end.
    #[doc(hidden)]
    pub fn message(&self, wording: &dyn Wording) -> String {
        format!("{}; {}", self.how_much, self.what_to_do.words(wording))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message(&Neutral))
    }
}

/// R-hat above this is a problem (Vehtari et al. 2021).
const R_HAT_LIMIT: f64 = 1.01;
/// Effective draws that each chain should give (Vehtari et al. 2021).
const ESS_PER_CHAIN: f64 = 100.0;
/// E-BFMI below this is a problem (Betancourt 2016).
const E_BFMI_LIMIT: f64 = 0.3;

/// Problems with the draws; empty if there are none.
pub fn findings(draws: &Draws, summary: &[CoefficientSummary]) -> Vec<Finding> {
    if let Some(finding) = not_finite(draws) {
        return vec![finding];
    }
    [
        one_chain(draws),
        chains_disagree(summary),
        too_few_draws(draws),
        few_effective_draws(draws, summary),
        divergences(draws),
        long_trajectories(draws),
        slow_energy(draws),
        acceptance(draws),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn finding(what: Trouble, how_much: String, what_to_do: impl Into<Help>) -> Option<Finding> {
    Some(Finding { what, how_much, what_to_do: what_to_do.into() })
}

fn not_finite(draws: &Draws) -> Option<Finding> {
    let bad = draws.rows().filter(|theta| theta.iter().any(|x| !x.is_finite())).count();
    if bad == 0 {
        return None;
    }
    finding(
        Trouble::NotFinite,
        format!("{bad} of {} draws are not finite", draws.len()),
        ["look for extreme values in the data".into(), Remedy::choose("a narrower", Setting::Prior)],
    )
}

fn one_chain(draws: &Draws) -> Option<Finding> {
    let independent = draws.chains.iter().all(|chain| chain.stats == Stats::Independent);
    if draws.chains.len() != 1 || independent {
        return None;
    }
    finding(
        Trouble::OneChain,
        "one chain cannot be compared with others, so R-hat is not known".to_string(),
        Remedy::set(Setting::Chains, 4),
    )
}

fn chains_disagree(summary: &[CoefficientSummary]) -> Option<Finding> {
    let apart: Vec<_> = summary.iter().filter(|c| c.r_hat > R_HAT_LIMIT).collect();
    let worst = apart.iter().max_by(|a, b| a.r_hat.total_cmp(&b.r_hat))?;
    finding(
        Trouble::ChainsDisagree,
        format!(
            "the chains disagree: R-hat is above {R_HAT_LIMIT} for {} of {} coefficients, {:.3} for '{}'",
            apart.len(),
            summary.len(),
            worst.r_hat,
            worst.name
        ),
        [
            Remedy::choose("twice the", Setting::Warmup),
            Remedy::choose("twice the", Setting::Draws),
            "check whether the posterior has several modes".into(),
        ],
    )
}

fn too_few_draws(draws: &Draws) -> Option<Finding> {
    if draws.draws_per_chain() >= FEWEST_DRAWS {
        return None;
    }
    finding(
        Trouble::FewEffectiveDraws,
        format!("{} draws per chain are too few for diagnostics", draws.draws_per_chain()),
        Remedy::set(Setting::Draws, 1000),
    )
}

fn few_effective_draws(draws: &Draws, summary: &[CoefficientSummary]) -> Option<Finding> {
    let effective = |c: &CoefficientSummary| c.ess_bulk.min(c.ess_tail);
    let wanted = ESS_PER_CHAIN * draws.chains.len() as f64;
    let few: Vec<_> = summary.iter().filter(|c| effective(c) < wanted).collect();
    let worst = few.iter().min_by(|a, b| effective(a).total_cmp(&effective(b)))?;
    let least = effective(worst);
    let factor = (wanted / least.max(1.0)).ceil().max(2.0);
    finding(
        Trouble::FewEffectiveDraws,
        format!(
            "too few effective draws: below {wanted:.0} for {} of {} coefficients, {least:.0} for '{}'",
            few.len(),
            summary.len(),
            worst.name
        ),
        Remedy::set(Setting::Draws, (draws.draws_per_chain() as f64 * factor) as u64),
    )
}

fn divergences(draws: &Draws) -> Option<Finding> {
    let diverging: usize = draws
        .chains
        .iter()
        .map(|chain| match &chain.stats {
            Stats::Hamiltonian { diverging, .. } => count(diverging),
            _ => 0,
        })
        .sum();
    if diverging == 0 {
        return None;
    }
    finding(
        Trouble::Divergences,
        format!(
            "{diverging} of {} trajectories diverged, so the draws may miss a narrow part of the posterior",
            draws.len()
        ),
        [Remedy::choose("a larger", Setting::Warmup), Remedy::choose("a lighter-tailed", Setting::Prior)],
    )
}

fn long_trajectories(draws: &Draws) -> Option<Finding> {
    let truncated: usize = draws
        .chains
        .iter()
        .map(|chain| match &chain.stats {
            Stats::Hamiltonian { reached_max_treedepth, .. } => count(reached_max_treedepth),
            _ => 0,
        })
        .sum();
    if truncated == 0 {
        return None;
    }
    finding(
        Trouble::LongTrajectories,
        format!(
            "{truncated} of {} trajectories reached the maximum tree depth: the draws are valid but slow",
            draws.len()
        ),
        Remedy::choose("a larger", Setting::Warmup),
    )
}

fn count(flags: &[bool]) -> usize {
    flags.iter().filter(|flag| **flag).count()
}

fn slow_energy(draws: &Draws) -> Option<Finding> {
    let slow: Vec<f64> = draws
        .chains
        .iter()
        .filter_map(|chain| match &chain.stats {
            Stats::Hamiltonian { energy, .. } if energy.len() >= FEWEST_DRAWS => Some(e_bfmi(energy)),
            _ => None,
        })
        .filter(|e_bfmi| *e_bfmi < E_BFMI_LIMIT)
        .collect();
    let least = slow.iter().copied().min_by(f64::total_cmp)?;
    finding(
        Trouble::SlowEnergy,
        format!(
            "E-BFMI is below {E_BFMI_LIMIT} in {} of {} chains (lowest {least:.2})",
            slow.len(),
            draws.chains.len()
        ),
        [Remedy::choose("a lighter-tailed", Setting::Prior), Remedy::choose("a larger", Setting::Draws)],
    )
}

fn acceptance(draws: &Draws) -> Option<Finding> {
    let rates: Vec<f64> = draws
        .chains
        .iter()
        .filter_map(|chain| match &chain.stats {
            Stats::Metropolis { acceptance_rate, .. } => {
                Some(acceptance_rate.iter().sum::<f64>() / acceptance_rate.len() as f64)
            }
            _ => None,
        })
        .collect();
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low >= 0.3 && high <= 0.9 {
        return None;
    }
    finding(
        Trouble::Acceptance,
        format!("the chains accept {low:.2} to {high:.2} of their proposals; the target is 0.57"),
        [Remedy::choose("a larger", Setting::Warmup), Remedy::set(Setting::Sampler, "nuts")],
    )
}
