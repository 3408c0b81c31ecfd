//! How far coresets' posteriors are from the full data's: a Markdown table of KL, time and passes by method.
//!
//! `cargo run --release -p tithe --example fidelity [-- [--seeds N] [--peers] [--only METHOD] [NAME[:SIZE]…]]`. Files are looked for in
//! `TITHE_DATA`, or beside the repository in `../shared/data`; those that are not there are left out. The data is in memory
//! before the clock starts. `--peers` adds two other methods, which take long.

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

/// Name and size of each line.
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

/// A way to a coreset.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Ours(Method),
    Gradients,
    QuasiNewton,
}

const WAYS: [(Way, &str); 5] = [
    (Way::Ours(Method::Calibrated), "calibrated"),
    (Way::Ours(Method::Sensitivity), "sensitivity"),
    (Way::Ours(Method::Uniform), "uniform"),
    (Way::Gradients, "gradients"),
    (Way::QuasiNewton, "quasi-newton"),
];

impl Way {
    fn coreset(self, engine: &impl Engine, settings: BuildSettings) -> Result<Coreset> {
        let method = match self {
            Way::Ours(method) => method,
            Way::Gradients | Way::QuasiNewton => Method::Uniform,
        };
        let seed = settings.seed;
        let coreset = build_on(engine, &BuildSettings { method, ..settings })?.coreset;
        match self {
            Way::Ours(_) => Ok(coreset),
            Way::Gradients => peers::match_gradients(engine, &coreset),
            Way::QuasiNewton => peers::quasi_newton(engine, &coreset, seed),
        }
    }
}

fn median_and_largest(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (0.5 * (values[(n - 1) / 2] + values[n / 2]), values[n - 1])
}

fn line(name: &str, size: usize, seeds: u64, ways: &[(Way, &str)]) -> Result<()> {
    let Some((engine, encoding)) = data::engine_of(name)? else { return Ok(()) };
    let rows = identity(&engine)?.rows;
    for (way, method_name) in ways {
        let (mut kl, mut seconds, mut passes, mut dim) = (Vec::new(), Vec::new(), 0, 0);
        let mut apart = 1.0f64;
        for seed in 0..seeds {
            let settings = BuildSettings {
                size: Size::Rows(size),
                collapse: false,
                seed: Seed(seed),
                encoding: encoding.clone(),
                ..BuildSettings::default()
            };
            let (start, before) = (Instant::now(), engine.passes());
            let coreset = way.coreset(&engine, settings)?;
            seconds.push(start.elapsed().as_secs_f64());
            passes = passes.max(engine.passes() - before);
            dim = coreset.encoding.dim();
            let found = certify(&engine, &coreset, &CertifySettings::default())?.certificate.kl;
            if let Some(facts) = &coreset.provenance.calibration
                && (1e-9..0.5).contains(&found)
            {
                let ratio = facts.certificate.kl / found;
                apart = apart.max(ratio).max(1.0 / ratio);
            }
            kl.push(found);
        }
        let (median, largest) = median_and_largest(kl);
        let (time, _) = median_and_largest(seconds);
        println!(
            "| {name} | {rows} × {dim} | {size} | {method_name} | {median:.1e} | {largest:.1e} | {time:.3} | {passes} |"
        );
        if apart > 1.01 {
            eprintln!("{name}, {size} rows: a certificate of a build is off by a factor {apart:.3}");
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let (mut seeds, mut with_peers, mut only) = (10, false, None);
    let mut lines = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => seeds = words.next().and_then(|count| count.parse().ok()).unwrap_or(seeds).max(1),
            "--peers" => with_peers = true,
            "--only" => only = words.next(),
            _ => match word.split_once(':') {
                Some((name, size)) => lines.push((name.to_string(), size.parse().unwrap_or(1000))),
                None => {
                    let named = LINES.iter().filter(|(name, _)| *name == word);
                    lines.extend(named.map(|(name, size)| (name.to_string(), *size)));
                }
            },
        }
    }
    if lines.is_empty() {
        lines = LINES.iter().map(|(name, size)| (name.to_string(), *size)).collect();
    }
    let wanted = |(way, name): &(Way, &str)| match &only {
        Some(only) => only == name,
        None => with_peers || matches!(way, Way::Ours(_)),
    };
    let ways: Vec<(Way, &str)> = WAYS.into_iter().filter(wanted).collect();
    println!("| data | rows × D | M | method | KL, median | KL, largest | seconds | passes |");
    println!("| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |");
    for (name, size) in lines {
        line(&name, size, seeds, &ways)?;
    }
    Ok(())
}
