//! How far coresets' posteriors are from the full data's: a Markdown table of KL, time and passes by method.
//!
//! `cargo run --release -p tithe --example fidelity [-- [--seeds N] [NAME…]]`. Files are looked for in `TITHE_DATA`, or beside the
//! repository in `../shared/data`; those that are not there are left out. The data is in memory before the clock starts.

use std::path::PathBuf;
use std::time::Instant;

use tithe::build::{BuildSettings, build_on};
use tithe::certify::{CertifySettings, certify};
use tithe::coreset::Method;
use tithe::engine::{Engine, EngineSettings, LocalEngine, Missing};
use tithe::error::Result;
use tithe::full_data::identity;
use tithe::generate::Recipe;
use tithe::progress::Silent;
use tithe::rng::Seed;
use tithe::selection::Size;
use tithe::source::memory::Columns;
use tithe::source::{OpenOptions, Source, open};
use tithe::survey::EncodingSettings;
use tithe::table::{Roles, Table};

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
const METHODS: [(Method, &str); 3] =
    [(Method::Calibrated, "calibrated"), (Method::Sensitivity, "sensitivity"), (Method::Uniform, "uniform")];
const GENERATED_ROWS: usize = 1_000_000;

fn source(name: &str) -> Result<Option<Box<dyn Source>>> {
    if let Ok(recipe) = name.parse::<Recipe>() {
        return Ok(Some(Box::new(Columns::new(recipe.data(Seed(0), GENERATED_ROWS).columns())?)));
    }
    let folder = match std::env::var_os("TITHE_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    let file = folder.join(format!("{name}.parquet"));
    if !file.is_file() {
        eprintln!("{} is not there", file.display());
        return Ok(None);
    }
    open(&[file.display().to_string()], &OpenOptions::default()).map(Some)
}

fn median_and_largest(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (0.5 * (values[(n - 1) / 2] + values[n / 2]), values[n - 1])
}

fn line(name: &str, size: usize, seeds: u64) -> Result<()> {
    let Some(source) = source(name)? else { return Ok(()) };
    let generated = name.parse::<Recipe>().is_ok();
    let label = if generated { "y" } else { "label" };
    let table = Table::new(source, &Roles { label: label.into(), ..Roles::default() })?;
    let engine = LocalEngine::new(table, &EngineSettings::default(), &Silent)?;
    let rows = identity(&engine)?.rows;
    for (method, method_name) in METHODS {
        let (mut kl, mut seconds, mut passes, mut dim) = (Vec::new(), Vec::new(), 0, 0);
        for seed in 0..seeds {
            let settings = BuildSettings {
                method,
                size: Size::Rows(size),
                collapse: false,
                seed: Seed(seed),
                encoding: EncodingSettings {
                    intercept: !generated,
                    standardize: !generated,
                    ..EncodingSettings::default()
                },
                ..BuildSettings::default()
            };
            let (start, before) = (Instant::now(), engine.passes());
            let coreset = build_on(&engine, Missing::Error, &settings)?.coreset;
            seconds.push(start.elapsed().as_secs_f64());
            passes = passes.max(engine.passes() - before);
            dim = coreset.encoding.dim();
            kl.push(certify(&engine, &coreset, &CertifySettings::default())?.certificate.kl);
        }
        let (median, largest) = median_and_largest(kl);
        let (time, _) = median_and_largest(seconds);
        println!(
            "| {name} | {rows} × {dim} | {size} | {method_name} | {median:.1e} | {largest:.1e} | {time:.3} | {passes} |"
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut seeds = 10;
    let mut names = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => seeds = words.next().and_then(|count| count.parse().ok()).unwrap_or(seeds).max(1),
            _ => names.push(word),
        }
    }
    println!("| data | rows × D | M | method | KL, median | KL, largest | seconds | passes |");
    println!("| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |");
    for (name, size) in LINES {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            line(name, size, seeds)?;
        }
    }
    Ok(())
}
