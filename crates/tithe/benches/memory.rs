//! Building a coreset of data in memory, as a multiple of a bare multi-threaded sum over the same values.
//!
//! `cargo bench -p tithe --bench memory`

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;
use tithe::build::{BuildSettings, build_on};
use tithe::engine::{EngineSettings, LocalEngine, Missing};
use tithe::generate::Recipe;
use tithe::progress::Silent;
use tithe::rng::Seed;
use tithe::source::memory::Columns;
use tithe::survey::EncodingSettings;
use tithe::table::{Roles, Table};

const REPEATS: usize = 15;

/// The fastest of several runs, in seconds: the one that other work on the machine disturbed least.
fn fastest(mut work: impl FnMut() -> f64) -> f64 {
    (0..REPEATS).map(|_| work()).fold(f64::INFINITY, f64::min)
}

fn bare_sum(columns: &[(String, Vec<f64>)]) -> f64 {
    let start = Instant::now();
    let total: f64 = columns
        .iter()
        .take(columns.len() - 1)
        .flat_map(|(_, values)| values.chunks(1 << 16))
        .collect::<Vec<_>>()
        .par_iter()
        .map(|chunk| {
            let mut lanes = [0.0; 32];
            for values in chunk.as_chunks::<32>().0 {
                for l in 0..32 {
                    lanes[l] += values[l];
                }
            }
            lanes.iter().sum::<f64>()
        })
        .sum();
    black_box(total);
    start.elapsed().as_secs_f64()
}

fn one_build(columns: &[(String, Vec<f64>)], settings: &BuildSettings, show: bool) -> f64 {
    let source = Box::new(Columns::new(columns.to_vec()).expect("columns"));
    let roles = Roles { label: "y".into(), ..Roles::default() };
    let table = Table::new(source, &roles).expect("a table");
    let engine = LocalEngine::new(table, &EngineSettings::default(), &Silent).expect("an engine");
    let start = Instant::now();
    let built = build_on(&engine, Missing::Error, settings).expect("a coreset");
    let seconds = start.elapsed().as_secs_f64();
    if show {
        let phases: Vec<String> =
            built.seconds.iter().map(|(phase, s)| format!("{phase} {:.1} ms", s * 1e3)).collect();
        println!("    {}", phases.join(", "));
    }
    seconds
}

fn main() {
    println!("In memory, k = 4, M = 1000, method sensitivity; fastest of {REPEATS} runs");
    let encoding = EncodingSettings { intercept: false, standardize: false, ..EncodingSettings::default() };
    for rows in [1_000_000, 2_000_000] {
        let columns = Recipe::Mixture.data(Seed(1), rows).columns();
        let sum = fastest(|| bare_sum(&columns));
        println!("Mixture {rows} x 10: bare sum {:.2} ms", sum * 1e3);
        for (name, encoding) in
            [("as the paper", encoding.clone()), ("standardised, intercept", Default::default())]
        {
            let settings = BuildSettings { clusters: 4, encoding, ..BuildSettings::default() };
            one_build(&columns, &settings, true);
            let build = fastest(|| one_build(&columns, &settings, false));
            println!("  {name}: {:.2} ms, {:.2} times the bare sum", build * 1e3, build / sum);
        }
    }
}
