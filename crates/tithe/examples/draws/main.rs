//! Compares posterior draws of a coreset, before and after correction by `verify`, with those of the full data: NUTS on the
//! coreset, one pass over the data to verify, and a long run of NUTS on all rows.
//!
//! `cargo run --release -p tithe --example draws [-- NAME:SIZE…]`; the default is ds1_10:500 and bank_marketing:1000.

#[path = "../fidelity/data.rs"]
mod data;

use tithe::base::error::Result;
use tithe::base::progress::Silent;
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::selection::Size;
use tithe::mcmc::{Sampler, Settings};
use tithe::results::fit::{FitSettings, fit_data};
use tithe::results::fit_grouped::fit_coreset;
use tithe::results::verify::{VerifySettings, verify};

fn line(name: &str, size: usize) -> Result<()> {
    let Some((engine, encoding)) = data::engine_of(name)? else { return Ok(()) };
    let settings = |draws: usize, seed: u64| FitSettings {
        priors: Some(data::prior()),
        draws: Settings { draws, seed: Seed(seed), ..FitSettings::default().draws },
        ..FitSettings::default()
    };
    let built = BuildSettings {
        size: Size::Rows(size),
        encoding: encoding.clone(),
        priors: data::prior(),
        ..BuildSettings::default()
    };
    let coreset = build_on(&engine, &built)?.coreset;
    let fit = fit_coreset(&coreset, &settings(1000, 1), &Silent)?;
    let laplace = FitSettings { sampler: Sampler::Laplace, ..settings(1000, 2) };
    let laplace = fit_data(&engine, &encoding, &laplace, 0)?;
    let all = VerifySettings { draws: Some(4000), force: false };
    let approximate = verify(&engine, &laplace, &all)?;
    let found = verify(&engine, &fit, &all)?;
    let truth = fit_data(&engine, &encoding, &settings(2500, 3), 8 << 30)?;
    // Differences of means in units of their standard error. Importance weights multiply the number of effective draws by
    // their efficiency, so the standard error of the corrected mean is that of the draws divided by √efficiency.
    let mut scores: Vec<f64> = found
        .corrected
        .iter()
        .zip(&fit.summary)
        .zip(&truth.summary)
        .map(|((corrected, own), truth)| {
            let error = (own.mcse_mean / found.efficiency().sqrt()).hypot(truth.mcse_mean);
            (corrected.mean - truth.mean).abs() / error
        })
        .collect();
    scores.sort_by(f64::total_cmp);
    let within = scores.iter().filter(|score| **score < 1.96).count();
    println!(
        "| {name} | {size} | {:.1e} | {:.2} | {:.1} % | {:.1e} | {within} of {} | {:.2} |",
        found.kl(),
        found.psis.k_hat,
        100.0 * found.efficiency(),
        approximate.kl(),
        scores.len(),
        scores[scores.len() - 1],
    );
    Ok(())
}

fn main() -> Result<()> {
    let mut lines: Vec<String> = std::env::args().skip(1).collect();
    if lines.is_empty() {
        lines = vec!["ds1_10:500".to_string(), "bank_marketing:1000".to_string()];
    }
    println!(
        "| data | M | half the variance of L − L̃ | k̂ | efficiency | half the variance for Laplace | corrected means within 1.96 standard errors | largest difference |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for argument in lines {
        let (name, size) = argument.split_once(':').unwrap_or((&argument, "1000"));
        line(name, size.parse().unwrap_or(1000))?;
    }
    Ok(())
}
