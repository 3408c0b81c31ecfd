//! `tithe build`: builds a coreset from data.

use serde_json::{Map, Value, json};
use tithe::base::error::Result;
use tithe::coreset::build::{Built, build_on, build_part};
use tithe::coreset::file::{read_coreset, write_coreset};
use tithe::data::table::Table;
use tithe::engine::LocalEngine;
use tithe::results::fit::{FitSettings, SHORT_FIT};

use crate::args::BuildArgs;
use crate::commands::{certificate, create_parquet, fail_if_strict, full_fit_seconds, no_coreset_needed};
use crate::plan;
use crate::show::{self, Watcher, counted, number, represented, they_were};

/// Builds a coreset and writes it.
pub fn run(args: &BuildArgs) -> Result<()> {
    let other_inputs: Vec<_> =
        [&args.choice.theta_star, &args.encoding, &args.reference].into_iter().flatten().cloned().collect();
    plan::refuse_overwriting(&other_inputs, &args.output)?;
    let reference = args.reference.as_deref().map(read_coreset).transpose()?;
    let mut columns = plan::columns(&args.columns, args.encoding.as_deref())?;
    if let Some(reference) = &reference {
        columns.known = Some(reference.encoding.clone());
    }
    let settings = plan::build(args, &columns)?;
    let missing = columns.missing();
    let memory = plan::memory(&args.engine);
    let table = match &settings.encoding.known {
        Some(known) => plan::open_full_data(&args.data, known, memory, Some(&args.output), [])?,
        None => {
            let source = plan::open_data(&args.data, &columns, memory, Some(&args.output))?;
            let roles = columns.roles(&*source)?;
            Table::new(source, &roles)?
        }
    };
    plan::refuse_coresets(&table)?;
    let output = create_parquet(&args.output)?;

    let watcher = Watcher::new(args.show.quiet);
    let engine = LocalEngine::new(table, &plan::engine(&args.engine, missing), &watcher)?;
    let built = match &reference {
        Some(reference) => build_part(&engine, &settings, reference)?,
        None => build_on(&engine, &settings)?,
    };
    write_coreset(&built.coreset, output)?;

    let full_fit = full_fit_seconds(&built.coreset, &FitSettings::default());
    if args.show.json {
        show::print_record("build", record(args, &built, full_fit));
    } else {
        show::summary(&summary(args, &built, full_fit));
    }
    let too_small = certificate::too_small(&built.coreset.provenance);
    if let Some(warning) = &too_small {
        show::remark(&format!("warning: {warning}"));
    }
    let warnings = built.coreset.provenance.warnings.len() + usize::from(too_small.is_some());
    fail_if_strict(args.strict, warnings)
}

/// The result as JSON.
fn record(args: &BuildArgs, built: &Built, full_fit: Option<f64>) -> Value {
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
        "whole_fit_seconds": full_fit,
    })
}

/// The result as text.
fn summary(args: &BuildArgs, built: &Built, full_fit: Option<f64>) -> String {
    let (coreset, facts) = (&built.coreset, &built.coreset.provenance);
    let seconds: f64 = built.seconds.iter().map(|(_, seconds)| seconds).sum();
    let mut text = format!(
        "{}: {} ({})\n",
        args.output.display(),
        represented(coreset.rows.len() as u64, facts.rows),
        counted(coreset.encoding.dim() as u64, "coefficient")
    );
    if facts.exact {
        text += "  exact: the likelihood equals the full data's\n";
    }
    if facts.rows_dropped > 0 {
        text += &format!("  {} dropped because of missing values\n", they_were(facts.rows_dropped, "row"));
    }
    if let Some(found) = &facts.sensitivity {
        text += &format!("  radius {}, k-means score {}", number(found.radius), number(found.score));
        if let Some(bound) = found.mean_bound {
            text += &format!(", mean sensitivity bound {}", number(bound));
        }
        text += "\n";
    }
    text += &certificate::lines(coreset);
    text += &format!(
        "  {} over the data, {} s, seed {}\n",
        if facts.passes == 1 { "1 pass".to_string() } else { format!("{} passes", facts.passes) },
        number(seconds),
        facts.seed.0
    );
    if let Some(seconds) = full_fit.filter(|seconds| *seconds < SHORT_FIT) {
        text += &format!("  {}", no_coreset_needed(facts.rows, seconds));
    }
    text
}
