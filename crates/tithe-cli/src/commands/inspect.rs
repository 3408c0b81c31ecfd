//! `tithe inspect`: shows what a file contains and how it was made.

use serde_json::{Value, json};
use tithe::base::error::{ErrorKind, Result};
use tithe::coreset::Coreset;
use tithe::coreset::file::read_coreset;
use tithe::data::sink::find_metadata;
use tithe::data::source::open;
use tithe::encoding::EncodingSettings;
use tithe::results::file::{prior_scale, read_posterior};
use tithe::results::fit::{Basis, Fit};
use tithe::results::profile::profile;

use crate::args::InspectArgs;
use crate::commands::{certificate, columns, rows_fitted, table};
use crate::plan;
use crate::show::{self, Watcher, count, counted, number, printable, represented};
use crate::words::CommandLine;

/// Maximum number of bytes of standard input held in memory.
const MEMORY: u64 = 1 << 29;

/// Prints a description of a file.
pub fn run(args: &InspectArgs) -> Result<()> {
    if ["manifest.json", "lock"].iter().all(|name| args.file.join(name).is_file()) {
        let (path, what) = (args.file.clone(), "is the state of a stream".to_string());
        let state = path.display();
        let help = format!(
            "write a coreset with `tithe stream --state {state} --snapshot -o FILE` and inspect that"
        );
        return Err(ErrorKind::WrongFile { path, what, help: Some(help.into()) }.into());
    }
    match find_metadata(&args.file)? {
        Some(metadata) if metadata.kind == "posterior" => {
            let fit = read_posterior(&args.file)?;
            if args.json {
                show::print_record("inspect", metadata.json);
            } else {
                show::print(&describe_posterior(args, &fit));
            }
        }
        Some(metadata) if metadata.kind == "corrected posterior" => {
            if args.json {
                show::print_record("inspect", metadata.json);
            } else {
                show::print(&describe_corrected(args, &metadata.json));
            }
        }
        Some(metadata) => {
            let coreset = read_coreset(&args.file)?;
            if args.json {
                let mut json = metadata.json;
                json["rows"] = json!(coreset.rows.len());
                json["certificate"] = certificate::record(&coreset);
                json["total_weight"] = json!(coreset.weights.iter().sum::<f64>());
                show::print_record("inspect", json);
            } else {
                show::print(&describe_coreset(args, &coreset));
            }
        }
        None => {
            let options = plan::open_options(&args.reading, MEMORY);
            let source = open(&[args.file.display().to_string()], &options)?;
            let max_levels = EncodingSettings::default().max_levels;
            let found = profile(&*source, args.label.as_deref(), max_levels, &Watcher::new(args.quiet))?;
            if args.json {
                show::print_record("inspect", table::record(&found));
            } else {
                show::print(&table::describe(args, &found));
            }
        }
    }
    Ok(())
}

fn describe_coreset(args: &InspectArgs, coreset: &Coreset) -> String {
    let facts = &coreset.provenance;
    let mut lines = vec![format!("{}: a coreset", args.file.display())];
    let mut line = |name: &str, value: String| lines.push(format!("  {name:<22}{}", printable(&value)));
    line("rows", format!("{} (data: {})", count(coreset.rows.len() as u64), count(facts.rows)));
    if facts.rows_dropped > 0 {
        line("rows dropped", count(facts.rows_dropped));
    }
    line("total weight", format!("{} (data: {})", number(coreset.weights.iter().sum()), number(facts.mass)));
    line("method", format!("{:?}", facts.method).to_lowercase());
    line("exact", if facts.exact { "yes: the likelihood equals the full data's" } else { "no" }.to_string());
    line("rows selected", count(facts.draws));
    if let Some(found) = &facts.sensitivity {
        line("clusters", found.clusters.to_string());
        line("radius", number(found.radius));
        line("k-means score", number(found.score));
        if let Some(bound) = found.mean_bound {
            line("mean sensitivity", number(bound));
        }
    }
    line("passes over the data", facts.passes.to_string());
    line("seed", facts.seed.0.to_string());
    let label = &coreset.encoding.label;
    line("label", format!("{} (positive: {}, negative: {})", label.column, label.positive, label.negative));
    if let Some(weight) = &coreset.encoding.weight {
        line("weights from", weight.clone());
    }
    line("coefficients", coreset.encoding.dim().to_string());
    if coreset.encoding.intercept {
        line("", "intercept".to_string());
    }
    if let Some(design) = &coreset.encoding.design {
        line("formula", printable(&design.formula).into_owned());
        for (term, columns) in design.outline() {
            line("", format!("{}: {}", printable(&term), counted(columns as u64, "coefficient")));
        }
        line("columns", String::new());
    }
    for (column, treatment) in columns::treatments(&coreset.encoding) {
        line("", format!("{column}: {treatment}"));
    }
    for warning in &facts.warnings {
        line("warning", warning.clone());
    }
    lines.join("\n") + "\n" + &certificate::lines(coreset)
}

fn describe_posterior(args: &InspectArgs, fit: &Fit) -> String {
    let mut lines = vec![format!("{}: a posterior", args.file.display())];
    let mut line = |name: &str, value: String| lines.push(format!("  {name:<22}{}", printable(&value)));
    let settings = &fit.settings;
    line(
        "draws",
        format!("{} of {}", counted(settings.chains as u64, "chain"), counted(settings.draws as u64, "draw")),
    );
    line("sampler", format!("{}, {} warm-up iterations", fit.sampler, count(settings.warmup as u64)));
    line("seed", settings.seed.0.to_string());
    match &fit.basis {
        Basis::Coreset { size, provenance } => {
            line("fitted to", format!("a coreset: {}", represented(*size, provenance.rows)));
        }
        Basis::Data { rows, rows_dropped, .. } => line("fitted to", rows_fitted(*rows, *rows_dropped)),
    }
    let verified = match &fit.verified {
        Some(found) => format!("against all rows: {}", certificate::verified(found)),
        None if matches!(fit.basis, Basis::Data { .. }) => "fitted to all rows".to_string(),
        None => "no".to_string(),
    };
    line("verified", verified);
    let label = &fit.encoding.label;
    line("label", format!("{} (positive: {}, negative: {})", label.column, label.positive, label.negative));
    line("columns", String::new());
    for (column, treatment) in columns::treatments(&fit.encoding) {
        line("", format!("{column}: {treatment}"));
    }
    line("priors", format!("on the {} scale", prior_scale(&fit.encoding)));
    for (c, prior) in fit.summary.iter().zip(&fit.priors.coefficients) {
        line("", format!("{}: mean {}, sd {}, prior {prior}", c.name, number(c.mean), number(c.sd)));
    }
    for finding in &fit.findings {
        line("warning", finding.message(&CommandLine));
    }
    let certificate = match &fit.basis {
        Basis::Coreset { provenance, .. } => {
            certificate::lines_for_posterior(provenance, &fit.encoding.coefficient_names())
        }
        Basis::Data { .. } => String::new(),
    };
    lines.join("\n") + "\n" + &certificate
}

fn describe_corrected(args: &InspectArgs, metadata: &Value) -> String {
    let figure = |key: &str| metadata[key].as_f64().map_or("unknown".to_string(), number);
    format!(
        "{}: draws with importance weights (column {})\n  before correction: KL {} nats, Pareto k {}, efficiency {}\n",
        args.file.display(),
        printable(metadata["weight_column"].as_str().unwrap_or("weight")),
        figure("kl"),
        figure("k_hat"),
        figure("efficiency"),
    )
}
