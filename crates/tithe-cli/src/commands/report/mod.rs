//! `tithe report`: writes a self-contained HTML report of a posterior.

mod coefficients;
mod diagnostics;
mod facts;
mod fitness;
mod forest;
mod opening;
mod style;

use serde_json::json;
use tithe::base::error::{ErrorKind, Result};
use tithe::data::sink::find_metadata;
use tithe::engine::LocalEngine;
use tithe::results::check::{Check, CheckSettings, check};
use tithe::results::file::read_posterior;
use tithe::results::fit::Fit;
use tithe_plot::escaped;

use crate::args::{MissingArg, ReportArgs};
use crate::commands::create_output;
use crate::plan;
use crate::show::{self, Watcher};

/// What the report is about.
pub struct Subject<'a> {
    fit: &'a Fit,
    /// How well the posterior predicts labelled rows, if it was compared with some.
    check: Option<&'a Check>,
    /// The probability of the intervals of odds ratios.
    interval: f64,
}

/// The sections, from top to bottom. Each returns its HTML, or nothing where it has nothing to say.
const SECTIONS: [fn(&Subject<'_>) -> String; 12] = [
    opening::sentences,
    forest::section,
    opening::warnings,
    fitness::section,
    fitness::levels,
    facts::verification,
    coefficients::section,
    coefficients::effects,
    facts::columns,
    diagnostics::section,
    facts::priors,
    facts::provenance,
];

/// Writes the report.
pub fn run(args: &ReportArgs) -> Result<()> {
    show::be_quiet(args.show.quiet);
    let fit = read_posterior(&args.posterior)?;
    plan::refuse_overwriting(std::slice::from_ref(&args.posterior), &args.output)?;
    if args.output.is_file()
        && let Some(metadata) = find_metadata(&args.output)?
    {
        let what = format!("is a {}, which the report would overwrite", metadata.kind);
        let help = Some("use a file name that ends in .html".into());
        return Err(ErrorKind::WrongFile { path: args.output.clone(), what, help }.into());
    }
    let output = create_output(&args.output)?;
    let found = checked(args, &fit)?;
    let subject = Subject { fit: &fit, check: found.as_ref(), interval: args.interval };
    output.write(page(&subject).as_bytes())?;
    if args.show.json {
        let record = json!({"output": show::path(&args.output), "findings": fit.findings, "check": found});
        show::print_record("report", record);
    } else {
        show::summary(&format!("report written to {}\n", args.output.display()));
    }
    Ok(())
}

/// The check on the rows that were named, if any were.
fn checked(args: &ReportArgs, fit: &Fit) -> Result<Option<Check>> {
    if args.data.data.is_empty() {
        return Ok(None);
    }
    let memory = plan::memory(&args.engine);
    let table = plan::open_full_data(
        &args.data,
        &fit.encoding,
        memory,
        Some(&args.output),
        [Some(args.posterior.clone())],
    )?;
    let missing = args.missing.map_or(fit.basis.missing(), MissingArg::missing);
    let watcher = Watcher::new(args.show.quiet);
    let engine = LocalEngine::new(table, &plan::engine(&args.engine, missing), &watcher)?;
    check(&engine, fit, &CheckSettings::default()).map(Some)
}

fn page(subject: &Subject<'_>) -> String {
    let label = &subject.fit.encoding.label;
    let title = format!("What {} = {} depends on", label.column, label.positive);
    let sections: String = SECTIONS.iter().map(|section| section(subject)).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{sections}</body>\n</html>\n",
        style::STYLE,
        title = escaped(&title),
    )
}

/// A section that is folded until it is opened; on paper it is always open.
fn folded(title: &str, is_open: bool, content: &str) -> String {
    let open = if is_open { " open" } else { "" };
    format!("<details{open}>\n<summary>{}</summary>\n{content}</details>\n", escaped(title))
}

fn fact(name: &str, value: &str) -> String {
    format!("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), escaped(value))
}
