//! `tithe demo`: the whole story in one go, on the paper's synthetic data.

use std::time::Instant;

use serde_json::{Value, json};
use tithe::base::error::{Error, Result};
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::selection::Size;
use tithe::coreset::{Coreset, Method};
use tithe::data::generate::Recipe;
use tithe::data::source::memory::Columns;
use tithe::data::table::{Roles, Table};
use tithe::encoding::survey::EncodingSettings;
use tithe::engine::{EngineSettings, LocalEngine, Missing};
use tithe::mcmc::{Sampler, Settings};
use tithe::results::fit::{Fit, FitSettings, fit_coreset, fit_data};

use crate::args::DemoArgs;
use crate::show::{self, Watcher, count, number};

/// Rows of a coreset.
const SIZE: usize = 1000;

/// Both data sets, one after the other.
pub fn run(args: &DemoArgs) -> Result<()> {
    if args.rows < 2 * SIZE {
        return Err(Error::setting("--rows", format!("must be at least {}", 2 * SIZE)));
    }
    let mut records = Vec::new();
    if !args.show.json {
        show::print(&format!(
            "Two data sets of {} rows are generated. For each, the posterior of the full data is compared with what \
             {} weighted rows give:\na coreset (method {}) and a plain random choice of rows.\n\n",
            count(args.rows as u64),
            count(SIZE as u64),
            method_name(BuildSettings::default().method)
        ));
    }
    for recipe in [Recipe::Mixture, Recipe::Binary10] {
        let story = tell(recipe, args)?;
        if args.show.json {
            records.push(record(&story));
        } else {
            show::print(&report(&story));
        }
    }
    if args.show.json {
        show::print(&format!("{}\n", json!({"data": records})));
    } else {
        show::print(CLOSING);
    }
    Ok(())
}

const CLOSING: &str = "\
off by: the distance of a coefficient's posterior mean from that of the full data, in the full data's posterior standard
deviations, for the coefficient where it is largest. Below about 0.1 nobody would notice; above 2 the interval is in the
wrong place. widths: the standard deviations over those of the full data, smallest and largest.

On data of your own:
  tithe build DATA --label COLUMN --size 1000 -o core.parquet
  tithe fit core.parquet -o posterior.parquet
";

/// What was found for one data set.
struct Story {
    recipe: Recipe,
    rows: usize,
    truth: &'static str,
    lines: Vec<Line>,
}

/// One way to the posterior.
struct Line {
    name: String,
    rows: u64,
    seconds: f64,
    /// Worst error of a mean in standard deviations, and the range of the widths; nothing for the truth itself.
    error: Option<(f64, f64, f64)>,
}

fn tell(recipe: Recipe, args: &DemoArgs) -> Result<Story> {
    let watcher = Watcher::new(args.show.quiet);
    let seed = Seed(args.seed);
    let source = Columns::new(recipe.data(seed, args.rows).columns())?;
    let table = Table::new(Box::new(source), &Roles { label: "y".to_string(), ..Roles::default() })?;
    let settings = EngineSettings { threads: args.threads, ..EngineSettings::default() };
    let engine = LocalEngine::new(table, &settings, &watcher)?;

    // The paper's model: its data has a column of ones where it wants an intercept, and is not standardised.
    let encoding = EncodingSettings { intercept: false, standardize: false, ..EncodingSettings::default() };
    let build_settings = BuildSettings {
        size: Size::Rows(SIZE),
        seed,
        encoding: encoding.clone(),
        ..BuildSettings::default()
    };
    let build = |method| -> Result<(Coreset, f64)> {
        let start = Instant::now();
        let built = build_on(&engine, Missing::Error, &BuildSettings { method, ..build_settings.clone() })?;
        Ok((built.coreset, start.elapsed().as_secs_f64()))
    };
    let fit_settings = FitSettings {
        draws: Settings { seed, ..Settings::default() },
        threads: args.threads,
        ..FitSettings::default()
    };
    let (coreset, coreset_seconds) = build(build_settings.method)?;
    let (uniform, uniform_seconds) = build(Method::Uniform)?;

    // The truth: few distinct rows are the data themselves; else so many rows leave a posterior that is normal.
    let start = Instant::now();
    let (truth, how) = if coreset.provenance.exact {
        (
            fit_coreset(
                &coreset,
                &FitSettings {
                    draws: Settings { seed: Seed(args.seed + 1), ..fit_settings.draws },
                    ..fit_settings.clone()
                },
                &watcher,
            )?,
            "NUTS on all distinct rows",
        )
    } else {
        let laplace = FitSettings { sampler: Sampler::Laplace, ..fit_settings.clone() };
        (
            fit_data(&engine, Missing::Error, &encoding, &laplace, 0)?,
            "normal approximation at the mode of all rows",
        )
    };
    let truth_seconds = start.elapsed().as_secs_f64();

    let mut lines = vec![Line {
        name: "full data".to_string(),
        rows: args.rows as u64,
        seconds: truth_seconds,
        error: None,
    }];
    let kind = if coreset.provenance.exact { "coreset (exact)" } else { "coreset" };
    for (name, rows, seconds) in [(kind, coreset, coreset_seconds), ("random rows", uniform, uniform_seconds)]
    {
        let start = Instant::now();
        let fit = fit_coreset(&rows, &fit_settings, &watcher)?;
        lines.push(Line {
            name: name.to_string(),
            rows: rows.rows.len() as u64,
            seconds: seconds + start.elapsed().as_secs_f64(),
            error: Some(compare(&fit, &truth)),
        });
    }
    Ok(Story { recipe, rows: args.rows, truth: how, lines })
}

fn compare(fit: &Fit, truth: &Fit) -> (f64, f64, f64) {
    let mut worst = (0f64, f64::INFINITY, 0f64);
    for (ours, theirs) in fit.summary.iter().zip(&truth.summary) {
        let ratio = ours.sd / theirs.sd;
        worst = (
            worst.0.max((ours.mean - theirs.mean).abs() / theirs.sd),
            worst.1.min(ratio),
            worst.2.max(ratio),
        );
    }
    worst
}

fn method_name(method: Method) -> String {
    format!("{method:?}").to_lowercase()
}

fn title(recipe: Recipe) -> &'static str {
    match recipe {
        Recipe::Binary5 => "Binary5: five covariates of 0 and 1",
        Recipe::Binary10 => "Binary10: ten covariates of 0 and 1, some of them rare",
        Recipe::Mixture => "Mixture: ten normal covariates about one mean for each class",
    }
}

fn report(story: &Story) -> String {
    let mut text = format!("{}, {} rows\n", title(story.recipe), count(story.rows as u64));
    text += &format!("  {:<16} {:>9} {:>9} {:>10}  {}\n", "", "rows", "seconds", "off by", "widths");
    for line in &story.lines {
        let seconds = format!("{:.2}", line.seconds);
        text += &match line.error {
            Some((off, low, high)) => format!(
                "  {:<16} {:>9} {:>9} {:>7} sd  {} to {}\n",
                line.name,
                count(line.rows),
                seconds,
                number(off),
                number(low),
                number(high)
            ),
            None => format!(
                "  {:<16} {:>9} {:>9} {:>10}  {}\n",
                line.name,
                count(line.rows),
                seconds,
                "",
                story.truth
            ),
        };
    }
    text + "\n"
}

fn record(story: &Story) -> Value {
    let lines: Vec<Value> = story
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
    json!({"recipe": story.recipe.to_string(), "rows": story.rows, "truth": story.truth, "fits": lines})
}
