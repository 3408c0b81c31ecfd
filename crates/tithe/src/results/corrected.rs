//! Writes a verified posterior: its draws with importance weights, or resampled in proportion to them.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array};
use serde_json::json;

use super::file::own_name;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::rng::{Purpose, Seed, open_unit};
use crate::data::sink::Output;
use crate::data::sink::parquet::write_table;
use crate::mcmc::Settings;
use crate::mcmc::diagnostics::summary;
use crate::mcmc::draws::{Chain, Draws};
use crate::mcmc::findings::{Finding, Trouble};
use crate::results::fit::Fit;
use crate::results::judgement::Judgement;
use crate::results::verify::Verification;

pub(super) const CORRECTED: &str = "corrected posterior";

/// Writes the draws that were evaluated, with a column `weight` of importance weights, which sum to 1.
pub fn write_corrected(fit: &Fit, verification: &Verification, mut output: Output) -> Result<()> {
    fit.refuse_groups("corrected")?;
    let names = &fit.draws.names;
    let own = |name: &str| own_name(name, names);
    let per_chain = fit.draws.draws_per_chain().max(1);
    let (center, scale) = fit.encoding.transform();
    let metadata = json!({
        "file": CORRECTED,
        "version": fit.encoding.file_version(),
        "weight_column": own("weight"),
        "kl": verification.kl(),
        "k_hat": verification.psis.k_hat,
        "efficiency": verification.efficiency(),
        "encoding": fit.encoding,
        "transform": {"coefficients": names, "center": center, "scale": scale},
        "basis": fit.basis,
    });
    let chosen = &verification.chosen;
    let counts = |count: fn(usize, usize) -> usize| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(chosen.iter().map(|&s| count(s, per_chain) as u32)))
    };
    let all: Vec<&[f64]> = fit.draws.rows().collect();
    let mut columns: Vec<(String, ArrayRef)> = vec![
        (own("chain"), counts(|s, per_chain| s / per_chain)),
        (own("draw"), counts(|s, per_chain| s % per_chain)),
    ];
    for (i, name) in names.iter().enumerate() {
        let values = Float64Array::from_iter_values(chosen.iter().map(|&s| all[s][i]));
        columns.push((name.clone(), Arc::new(values)));
    }
    columns.push((own("lp"), Arc::new(Float64Array::from(verification.log_posterior.clone()))));
    columns.push((own("weight"), Arc::new(Float64Array::from(verification.weights()))));
    let written = write_table(columns, &metadata, output.writer());
    written.map_err(|error| Error::io("write", output.path(), error))?;
    output.commit()
}

/// If the effective draws are a smaller share of all draws, the resampled draws have a warning.
const LOW_EFFICIENCY: f64 = 0.5;

/// The posterior of the full data: as many draws, resampled in proportion to their weights.
///
/// # Errors
/// If the weights are unreliable, because users of the draws could not see that.
pub fn resampled(fit: &Fit, verification: &Verification, seed: Seed) -> Result<Fit> {
    fit.refuse_groups("resampled")?;
    let effective = verification.psis.effective_draws();
    if verification.judgement == Judgement::TooFar {
        return Err(ErrorKind::Numerical {
            what: format!(
                "the draws are too far from the full data's posterior to be resampled: they have {effective:.0} effective draws"
            ),
            help: Some("build a larger coreset; without resampling, the weighted draws are written".into()),
        }
        .into());
    }
    let picked = resample(&verification.weights(), seed);
    let places: Vec<usize> = picked.iter().map(|&s| verification.chosen[s]).collect();
    // Places ascend, so that draws stay in about the chain that they come from.
    let chains = if picked.len().is_multiple_of(fit.settings.chains) { fit.settings.chains } else { 1 };
    let per_chain = picked.len() / chains;
    let chain = |(picked, places): (&[usize], &[usize])| Chain {
        lp: picked.iter().map(|&s| verification.log_posterior[s]).collect(),
        ..fit.draws.pick(places)
    };
    let chains = picked.chunks(per_chain).zip(places.chunks(per_chain)).map(chain).collect::<Vec<_>>();
    let settings = Settings { chains: chains.len(), draws: per_chain, ..fit.settings };
    let draws = Draws { names: fit.draws.names.clone(), chains };
    let mut findings = fit.findings.clone();
    if effective < LOW_EFFICIENCY * picked.len() as f64 {
        findings.push(Finding {
            what: Trouble::FewEffectiveDraws,
            how_much: format!(
                "the draws were resampled from weighted draws with only {effective:.0} effective draws"
            ),
            what_to_do: "build a larger coreset, or draw more".into(),
        });
    }
    let verified = Some(verification.facts(true));
    Ok(Fit { summary: summary(&draws), draws, settings, findings, verified, ..fit.clone() })
}

/// Systematic resampling: as many positions as there are weights, each repeated about in proportion to its weight.
fn resample(weights: &[f64], seed: Seed) -> Vec<usize> {
    let n = weights.len();
    let start = open_unit(&mut seed.stream(Purpose::Resample, 0));
    let mut picked = Vec::with_capacity(n);
    let mut above = 0.0;
    for (s, weight) in weights.iter().enumerate() {
        above += weight * n as f64;
        while picked.len() < n && picked.len() as f64 + start <= above {
            picked.push(s);
        }
    }
    // Rounding can leave the last position without a value.
    picked.resize(n, n.saturating_sub(1));
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_resampled_in_proportion() {
        let picked = resample(&[0.5, 0.0, 0.25, 0.25], Seed(3));
        assert_eq!(picked, [0, 0, 2, 3]);
        assert!(resample(&[], Seed(1)).is_empty());
    }
}
