//! Diagnostics and smoothed importance weights against values computed with ArviZ 0.23.

use serde::Deserialize;
use tithe::mcmc::diagnostics::{ess_bulk, ess_mean, ess_tail, mcse_mean, mcse_sd, r_hat};
use tithe::mcmc::psis::Psis;

#[derive(Deserialize)]
struct Oracle {
    chains: Vec<Chains>,
    psis: Vec<Smoothed>,
}

#[derive(Deserialize)]
struct Chains {
    name: String,
    draws: Vec<Vec<f64>>,
    rhat: Option<f64>,
    ess_bulk: f64,
    ess_tail: f64,
    ess_mean: f64,
    mcse_mean: f64,
    mcse_sd: f64,
}

#[derive(Deserialize)]
struct Smoothed {
    name: String,
    log_ratios: Vec<f64>,
    k_hat: f64,
    smoothed_log_weights: Vec<f64>,
}

fn oracle() -> Oracle {
    serde_json::from_str(include_str!("fixtures/diagnostics.json")).expect("a fixture of the expected form")
}

#[track_caller]
fn same(what: &str, ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 1e-6 * theirs.abs().max(1.0), "{what}: {ours} against {theirs}");
}

#[test]
fn chains_agree_with_arviz() {
    for chains in oracle().chains {
        let name = &chains.name;
        let ours = r_hat(&chains.draws);
        match chains.rhat {
            Some(theirs) => same(&format!("{name}: R-hat"), ours, theirs),
            None => assert!(ours.is_nan()),
        }
        same(&format!("{name}: bulk ESS"), ess_bulk(&chains.draws), chains.ess_bulk);
        same(&format!("{name}: tail ESS"), ess_tail(&chains.draws), chains.ess_tail);
        same(&format!("{name}: ESS of the mean"), ess_mean(&chains.draws), chains.ess_mean);
        same(&format!("{name}: MCSE of the mean"), mcse_mean(&chains.draws), chains.mcse_mean);
        same(&format!("{name}: MCSE of the sd"), mcse_sd(&chains.draws), chains.mcse_sd);
    }
}

#[test]
fn smoothed_weights_agree_with_arviz() {
    for smoothed in oracle().psis {
        let ours = Psis::of(&smoothed.log_ratios).expect("finite log-ratios");
        same(&format!("{}: k-hat", smoothed.name), ours.k_hat, smoothed.k_hat);
        for (n, (ours, theirs)) in ours.log_weights.iter().zip(&smoothed.smoothed_log_weights).enumerate() {
            same(&format!("{}: weight {n}", smoothed.name), *ours, *theirs);
        }
    }
}
