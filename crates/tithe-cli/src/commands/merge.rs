//! `tithe merge`: merges coresets into one.

use serde_json::{Value, json};
use tithe::base::error::Result;
use tithe::coreset::Coreset;
use tithe::coreset::file::{read_coreset, write_coreset};
use tithe::coreset::merge::merge;

use crate::args::MergeArgs;
use crate::commands::{certificate, create_parquet};
use crate::plan;
use crate::show::{self, Watcher, counted, represented};

/// Merges coresets and writes the result.
pub fn run(args: &MergeArgs) -> Result<()> {
    let settings = plan::merge(&args.choice)?;
    plan::refuse_overwriting(&args.coresets, &args.output)?;
    let parts = args
        .coresets
        .iter()
        .map(|path| Ok((path.display().to_string(), read_coreset(path)?)))
        .collect::<Result<Vec<_>>>()?;
    let output = create_parquet(&args.output)?;
    let merged = merge(&parts, &settings, args.threads, &Watcher::new(args.show.quiet))?;
    write_coreset(&merged, output)?;
    if args.show.json {
        show::print_record("merge", record(args, &merged));
    } else {
        show::summary(&summary(args, &parts, &merged));
    }
    Ok(())
}

fn record(args: &MergeArgs, merged: &Coreset) -> Value {
    let facts = &merged.provenance;
    json!({
        "output": show::path(&args.output),
        "method": facts.method,
        "rows": facts.rows,
        "rows_read": facts.rows_read,
        "rows_dropped": facts.rows_dropped,
        "dimension": merged.encoding.dim(),
        "distinct_rows": merged.rows.len(),
        "exact": facts.exact,
        "composition": facts.composition,
        "certificate": certificate::record(merged),
        "seed": facts.seed,
        "warnings": facts.warnings,
    })
}

fn summary(args: &MergeArgs, parts: &[(String, Coreset)], merged: &Coreset) -> String {
    let rows = merged.rows.len() as u64;
    let mut text = format!(
        "{}: {}, from {}\n",
        args.output.display(),
        represented(rows, merged.provenance.rows),
        counted(parts.len() as u64, "input file"),
    );
    if merged.provenance.exact {
        text += "  exact: the likelihood equals the full data's\n";
    } else if rows == parts.iter().map(|(_, part)| part.rows.len() as u64).sum::<u64>() {
        text += "  all rows of the input coresets are kept, because they fit the size\n";
    }
    text + &certificate::lines(merged)
}
