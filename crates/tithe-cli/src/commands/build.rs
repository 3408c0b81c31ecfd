//! `tithe build`: data to coreset.

use serde_json::{Map, Value, json};
use tithe::base::error::Result;
use tithe::coreset::build::{Built, build_on};
use tithe::coreset::file::write_coreset;
use tithe::data::table::Table;
use tithe::engine::LocalEngine;
use tithe::results::fit::SHORT_FIT;

use crate::args::BuildArgs;
use crate::commands::{certificate, create_parquet, whole_seconds};
use crate::plan;
use crate::show::{self, Watcher, count, number, standing, they_were};

/// Builds a coreset and writes it.
pub fn run(args: &BuildArgs) -> Result<()> {
    let beside: Vec<_> = [&args.choice.theta_star, &args.encoding].into_iter().flatten().cloned().collect();
    plan::refuse_overwriting(&beside, &args.output)?;
    let settings = plan::build(args)?;
    let missing = plan::missing(&args.columns);
    let memory = plan::memory(&args.engine);
    let table = match &settings.encoding.known {
        Some(known) => plan::open_full_data(&args.data, known, memory, Some(&args.output), [])?,
        None => {
            let source = plan::open_data(&args.data, &args.columns, memory, Some(&args.output))?;
            let roles = plan::roles(&args.columns, &*source)?;
            Table::new(source, &roles)?
        }
    };
    plan::refuse_coresets(&table)?;
    let output = create_parquet(&args.output)?;

    let watcher = Watcher::new(args.show.quiet);
    let engine = LocalEngine::new(table, &plan::engine(&args.engine, missing), &watcher)?;
    let built = build_on(&engine, missing, &settings)?;
    write_coreset(&built.coreset, output)?;

    let whole = whole_seconds(&built.coreset, args.engine.threads)?;
    if args.show.json {
        show::print(&format!("{}\n", record(args, &built, whole)));
    } else {
        show::print(&summary(args, &built, whole));
    }
    Ok(())
}

/// The result as JSON.
fn record(args: &BuildArgs, built: &Built, whole: Option<f64>) -> Value {
    let (coreset, facts) = (&built.coreset, &built.coreset.provenance);
    let sensitivity = facts.sensitivity.as_ref();
    let seconds: Map<String, Value> =
        built.seconds.iter().map(|(phase, seconds)| (phase.to_string(), json!(seconds))).collect();
    json!({
        "output": show::path(&args.output),
        "method": facts.method,
        "rows": facts.rows,
        "rows_read": facts.rows_read,
        "rows_dropped": facts.rows_dropped,
        "dimension": coreset.encoding.dim(),
        "size": facts.draws,
        "distinct_rows": coreset.rows.len(),
        "exact": facts.exact,
        "radius": sensitivity.map(|facts| facts.radius),
        "score": sensitivity.map(|facts| facts.score),
        "mean_sensitivity": sensitivity.and_then(|facts| facts.mean_bound),
        "certificate": certificate::record(coreset),
        "passes": facts.passes,
        "seconds": seconds,
        "seed": facts.seed,
        "warnings": facts.warnings,
        "whole_fit_seconds": whole,
    })
}

/// The result in a few lines.
fn summary(args: &BuildArgs, built: &Built, whole: Option<f64>) -> String {
    let (coreset, facts) = (&built.coreset, &built.coreset.provenance);
    let seconds: f64 = built.seconds.iter().map(|(_, seconds)| seconds).sum();
    let mut text = format!(
        "{}: {} for {} (coefficients: {})\n",
        args.output.display(),
        standing(coreset.rows.len() as u64),
        count(facts.rows),
        coreset.encoding.dim()
    );
    if facts.exact {
        text += "  exact: the likelihood is the full data's own\n";
    }
    if facts.rows_dropped > 0 {
        text += &format!("  {} dropped for missing values\n", they_were(facts.rows_dropped, "row"));
    }
    if let Some(found) = &facts.sensitivity {
        text += &format!("  radius {}, score {}", number(found.radius), number(found.score));
        if let Some(bound) = found.mean_bound {
            text += &format!(", mean sensitivity bound {}", number(bound));
        }
        text += "\n";
    }
    text += &certificate::lines(coreset);
    text += &format!("  {} passes, {} s, seed {}\n", facts.passes, number(seconds), facts.seed.0);
    if let Some(whole) = whole.filter(|whole| *whole < SHORT_FIT) {
        text += &format!(
            "  all {} rows would fit in about {} s whole (tithe fit DATA, with the same options): no coreset needed\n",
            count(facts.rows),
            number(whole)
        );
    }
    text
}
