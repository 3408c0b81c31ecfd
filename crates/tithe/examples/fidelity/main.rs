//! Compares coresets with the full data: a Markdown table of the KL divergence of posteriors, time and passes by method.
//!
//! `cargo run --release -p tithe --example fidelity [-- [--seeds N] [--peers] [--only METHOD] [NAME[:SIZE]…]]`. Files are read
//! from the directory in `TITHE_DATA`, or from `../shared/data` next to the repository; missing files are skipped. The data are in
//! memory before timing starts. `--peers` adds two methods from the literature, which are slow.

mod data;
mod peers;

use std::time::Instant;

use tithe::base::error::Result;
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::certify::{CertifySettings, certify};
use tithe::coreset::selection::Size;
use tithe::coreset::{Coreset, Method};
use tithe::encoding::full_data::identity;
use tithe::engine::Engine;

/// Data set and coreset size of each line of the table.
const LINES: [(&str, usize); 9] = [
    ("mixture", 500),
    ("binary10", 500),
    ("ds1_10", 500),
    ("skin_nonskin", 300),
    ("bank_marketing", 1000),
    ("covtype", 1000),
    ("covtype", 2000),
    ("a9a", 2000),
    ("census_income", 3000),
];

/// A method to construct a coreset.
#[derive(Clone, Copy, PartialEq)]
enum Construction {
    Ours(Method),
    Gradients,
    QuasiNewton,
}

const CONSTRUCTIONS: [(Construction, &str); 5] = [
    (Construction::Ours(Method::Calibrated), "calibrated"),
    (Construction::Ours(Method::Sensitivity), "sensitivity"),
    (Construction::Ours(Method::Uniform), "uniform"),
    (Construction::Gradients, "gradients"),
    (Construction::QuasiNewton, "quasi-newton"),
];

impl Construction {
    fn coreset(self, engine: &impl Engine, settings: BuildSettings) -> Result<Coreset> {
        let method = match self {
            Construction::Ours(method) => method,
            Construction::Gradients | Construction::QuasiNewton => Method::Uniform,
        };
        let seed = settings.seed;
        let coreset = build_on(engine, &BuildSettings { method, ..settings })?.coreset;
        match self {
            Construction::Ours(_) => Ok(coreset),
            Construction::Gradients => peers::match_gradients(engine, &coreset),
            Construction::QuasiNewton => peers::quasi_newton(engine, &coreset, seed),
        }
    }
}

fn median_and_largest(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (0.5 * (values[(n - 1) / 2] + values[n / 2]), values[n - 1])
}

fn line(name: &str, size: usize, seeds: u64, constructions: &[(Construction, &str)]) -> Result<()> {
    let Some((engine, encoding)) = data::engine_of(name)? else { return Ok(()) };
    let rows = identity(&engine)?.rows;
    for (construction, method_name) in constructions {
        let (mut kl, mut seconds, mut passes, mut dim) = (Vec::new(), Vec::new(), 0, 0);
        let mut factor = 1.0f64;
        for seed in 0..seeds {
            let settings = BuildSettings {
                size: Size::Rows(size),
                collapse: false,
                seed: Seed(seed),
                encoding: encoding.clone(),
                priors: data::prior(),
                ..BuildSettings::default()
            };
            let (start, before) = (Instant::now(), engine.passes());
            let coreset = construction.coreset(&engine, settings)?;
            seconds.push(start.elapsed().as_secs_f64());
            passes = passes.max(engine.passes() - before);
            dim = coreset.encoding.dim();
            let certified = CertifySettings { priors: Some(data::prior()), ..CertifySettings::default() };
            let found = certify(&engine, &coreset, &certified)?.certificate.normal.kl;
            if let Some(facts) = &coreset.provenance.calibration
                && (1e-9..0.5).contains(&found)
            {
                let ratio = facts.certificate.normal.kl / found;
                factor = factor.max(ratio).max(1.0 / ratio);
            }
            kl.push(found);
        }
        let (median, largest) = median_and_largest(kl);
        let (time, _) = median_and_largest(seconds);
        println!(
            "| {name} | {rows} × {dim} | {size} | {method_name} | {median:.1e} | {largest:.1e} | {time:.3} | {passes} |"
        );
        if factor > 1.01 {
            eprintln!("{name}, {size} rows: a certificate is wrong by a factor of {factor:.3}");
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let (mut seeds, mut with_peers, mut only) = (10, false, None);
    let mut lines = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seeds" => {
                seeds = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(seeds).max(1)
            }
            "--peers" => with_peers = true,
            "--only" => only = arguments.next(),
            _ => match argument.split_once(':') {
                Some((name, size)) => lines.push((name.to_string(), size.parse().unwrap_or(1000))),
                None => {
                    let named = LINES.iter().filter(|(name, _)| *name == argument);
                    lines.extend(named.map(|(name, size)| (name.to_string(), *size)));
                }
            },
        }
    }
    if lines.is_empty() {
        lines = LINES.iter().map(|(name, size)| (name.to_string(), *size)).collect();
    }
    let wanted = |(construction, name): &(Construction, &str)| match &only {
        Some(only) => only == name,
        None => with_peers || matches!(construction, Construction::Ours(_)),
    };
    let constructions: Vec<(Construction, &str)> = CONSTRUCTIONS.into_iter().filter(wanted).collect();
    println!("| data | rows × D | M | method | KL, median | KL, largest | seconds | passes |");
    println!("| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |");
    for (name, size) in lines {
        line(&name, size, seeds, &constructions)?;
    }
    Ok(())
}
