//! `tithe demo`: compares a coreset with random rows and with the full data, on the paper's synthetic data.

use std::time::Instant;

use serde_json::{Value, json};
use tithe::base::error::{Error, Result, Setting};
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::selection::Size;
use tithe::coreset::{Coreset, Method};
use tithe::data::generate::Recipe;
use tithe::data::source::memory::Columns;
use tithe::data::table::{Roles, Table};
use tithe::encoding::{EncodingSettings, Standardize};
use tithe::engine::{EngineSettings, LocalEngine};
use tithe::mcmc::Settings;
use tithe::results::fit::{Fit, FitSettings};
use tithe::results::fit_grouped::fit_coreset;
use tithe::results::verify::{VerifySettings, verify};

use crate::args::DemoArgs;
use crate::show::{self, Watcher, count, number, range};

/// Number of rows to select.
const SIZE: usize = 1000;

/// Runs the comparison on two data sets.
pub fn run(args: &DemoArgs) -> Result<()> {
    if args.rows < 2 * SIZE {
        return Err(Error::setting(Setting::Rows, format!("must be at least {}", 2 * SIZE)));
    }
    let mut records = Vec::new();
    if !args.show.json {
        show::print(&format!(
            "Two data sets with {} rows each are generated. For each, the posterior of the full data is compared with\n\
             posteriors from {} weighted rows: a coreset (method {}) and rows selected at random.\n\n",
            count(args.rows as u64),
            count(SIZE as u64),
            method_name(BuildSettings::default().method)
        ));
    }
    for recipe in [Recipe::Mixture, Recipe::Binary10] {
        let comparison = compare_methods(recipe, args)?;
        if args.show.json {
            records.push(record(&comparison));
        } else {
            show::print(&table(&comparison));
        }
    }
    if args.show.json {
        show::print_record("demo", json!({"data": records}));
    } else {
        show::print(CLOSING);
    }
    Ok(())
}

const CLOSING: &str = "\
largest error: error of the posterior mean, in posterior standard deviations of the full data, for the coefficient where
it is largest; all rows' likelihood at the coreset's draws gives the full data's mean. An error below 0.1 makes no practical difference; above 2, the interval is in the wrong place.
sd ratios: posterior standard deviations divided by those of the full data, smallest to largest.

To use your own data:
  tithe fit DATA --label COLUMN -o posterior.parquet
";

/// The posteriors of one data set.
struct Comparison {
    recipe: Recipe,
    rows: usize,
    /// How the full data's posterior was computed.
    reference: &'static str,
    lines: Vec<Line>,
}

/// One way to compute the posterior.
struct Line {
    name: String,
    rows: u64,
    seconds: f64,
    /// Largest error of a posterior mean in standard deviations, and the smallest and largest ratio of standard
    /// deviations; `None` for the full data.
    error: Option<(f64, f64, f64)>,
}

fn compare_methods(recipe: Recipe, args: &DemoArgs) -> Result<Comparison> {
    let watcher = Watcher::new(args.show.quiet);
    let seed = Seed(args.seed);
    let source = Columns::new(recipe.data(seed, args.rows).columns())?;
    let table = Table::new(Box::new(source), &Roles { label: "y".to_string(), ..Roles::default() })?;
    let settings = EngineSettings { threads: args.threads, ..EngineSettings::default() };
    let engine = LocalEngine::new(table, &settings, &watcher)?;

    // The paper's model: the data is not standardised, and contains a column of ones if an intercept is needed.
    let encoding =
        EncodingSettings { intercept: false, standardize: Standardize::None, ..EncodingSettings::default() };
    let build_settings = BuildSettings {
        size: Size::Rows(SIZE),
        seed,
        encoding: encoding.clone(),
        ..BuildSettings::default()
    };
    let build = |method| -> Result<(Coreset, f64)> {
        let start = Instant::now();
        let built = build_on(&engine, &BuildSettings { method, ..build_settings.clone() })?;
        Ok((built.coreset, start.elapsed().as_secs_f64()))
    };
    let fit_settings = FitSettings {
        draws: Settings { seed, ..Settings::default() },
        threads: args.threads,
        ..FitSettings::default()
    };
    let (coreset, coreset_seconds) = build(build_settings.method)?;
    let (uniform, uniform_seconds) = build(Method::Uniform)?;

    let watcher = &watcher;
    let fit = |rows: &Coreset, seed: u64| {
        let draws = Settings { seed: Seed(seed), ..fit_settings.draws };
        fit_coreset(rows, &FitSettings { draws, ..fit_settings.clone() }, watcher)
    };
    let start = Instant::now();
    let drawn = fit(&coreset, args.seed)?;
    let coreset_seconds = coreset_seconds + start.elapsed().as_secs_f64();
    let start = Instant::now();
    let random = fit(&uniform, args.seed)?;
    let uniform_seconds = uniform_seconds + start.elapsed().as_secs_f64();

    // A coreset of all distinct rows is exact. Otherwise all rows' likelihood at the draws says how far they are off.
    let start = Instant::now();
    let (reference, how, own_error) = if coreset.provenance.exact {
        let reference = fit(&coreset, args.seed + 1)?.summary.iter().map(|c| (c.mean, c.sd)).collect();
        let error = errors(&drawn, &reference);
        (reference, "NUTS on all distinct rows", error)
    } else {
        let found = verify(&engine, &drawn, &VerifySettings::default())?;
        let (low, high) = found.discrepancy.sd_ratio_range();
        let error = (found.discrepancy.largest_mean_error(), low, high);
        let reference = found.corrected.iter().map(|c| (c.mean, c.sd)).collect();
        (reference, "all rows' likelihood at the coreset's draws", error)
    };
    let reference_seconds = start.elapsed().as_secs_f64();

    let kind = if coreset.provenance.exact { "coreset (exact)" } else { "coreset" };
    let line = |name: &str, rows: u64, seconds, error| Line { name: name.to_string(), rows, seconds, error };
    let lines = vec![
        line("full data", args.rows as u64, reference_seconds, None),
        line(kind, coreset.rows.len() as u64, coreset_seconds, Some(own_error)),
        line("random rows", uniform.rows.len() as u64, uniform_seconds, Some(errors(&random, &reference))),
    ];
    Ok(Comparison { recipe, rows: args.rows, reference: how, lines })
}

/// Mean and standard deviation of each coefficient.
type Moments = Vec<(f64, f64)>;

/// The largest error of a posterior mean, and the smallest and largest ratio of standard deviations.
fn errors(fit: &Fit, reference: &Moments) -> (f64, f64, f64) {
    let mut worst = (0f64, f64::INFINITY, 0f64);
    for (ours, (mean, sd)) in fit.summary.iter().zip(reference) {
        let ratio = ours.sd / sd;
        worst = (worst.0.max((ours.mean - mean).abs() / sd), worst.1.min(ratio), worst.2.max(ratio));
    }
    worst
}

fn method_name(method: Method) -> String {
    format!("{method:?}").to_lowercase()
}

fn title(recipe: Recipe) -> &'static str {
    match recipe {
        Recipe::Binary5 => "Binary5: five binary covariates",
        Recipe::Binary10 => "Binary10: ten binary covariates, some of them rare",
        Recipe::Mixture => "Mixture: ten normal covariates with one mean per class",
    }
}

fn table(comparison: &Comparison) -> String {
    let mut text = format!("{}, {} rows\n", title(comparison.recipe), count(comparison.rows as u64));
    text +=
        &format!("  {:<16} {:>9} {:>9} {:>14}  {}\n", "", "rows", "seconds", "largest error", "sd ratios");
    for line in &comparison.lines {
        let seconds = format!("{:.2}", line.seconds);
        text += &match line.error {
            Some((error, low, high)) => format!(
                "  {:<16} {:>9} {:>9} {:>11} sd  {}\n",
                line.name,
                count(line.rows),
                seconds,
                number(error),
                range(low, high)
            ),
            None => format!(
                "  {:<16} {:>9} {:>9} {:>14}  ({})\n",
                line.name,
                count(line.rows),
                seconds,
                "",
                comparison.reference
            ),
        };
    }
    text + "\n"
}

fn record(comparison: &Comparison) -> Value {
    let lines: Vec<Value> = comparison
        .lines
        .iter()
        .map(|line| {
            json!({
                "name": line.name,
                "rows": line.rows,
                "seconds": line.seconds,
                "worst_mean_error": line.error.map(|error| error.0),
                "smallest_sd_ratio": line.error.map(|error| error.1),
                "largest_sd_ratio": line.error.map(|error| error.2),
            })
        })
        .collect();
    json!({
        "recipe": comparison.recipe.to_string(),
        "rows": comparison.rows,
        "truth": comparison.reference,
        "fits": lines,
    })
}
