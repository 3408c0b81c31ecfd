//! The description of a table by `tithe inspect`, with a command line to start from.

use serde_json::{Value, json};
use tithe::results::profile::{ColumnFinding, ColumnProfile, DateUse, Profile};

use crate::args::InspectArgs;
use crate::show::{self, count, counted, number, printable, range};
use crate::words::quoted;

/// The profile as JSON.
pub fn record(profile: &Profile) -> Value {
    json!({
        "file": "data",
        "rows": profile.rows,
        "incomplete_rows": profile.incomplete_rows,
        "columns": profile.columns,
        "collinear": profile.collinear,
    })
}

/// The profile as text.
pub fn describe(args: &InspectArgs, profile: &Profile) -> String {
    let rows = counted(profile.rows, "row");
    let columns = counted(profile.columns.len() as u64, "column");
    let mut text = format!("{}: data, {rows}, {columns}\n", args.file.display());
    let width = profile.columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0).min(40);
    for column in &profile.columns {
        text += &format!(
            "  {:<width$}  {:<12}{}\n",
            printable(&column.name),
            column.kind,
            printable(&contents(column, profile.rows))
        );
        for finding in &column.findings {
            text += &format!("  {:<width$}  - {}\n", "", printable(&words(finding)));
        }
    }
    for pair in &profile.collinear {
        text += &format!(
            "  '{}' and '{}' are almost linear functions of each other (correlation {:.4}): the data cannot tell their\n  \
             coefficients apart\n",
            printable(&pair.first),
            printable(&pair.second),
            pair.correlation
        );
    }
    if profile.incomplete_rows > 0 {
        let rows = counted(profile.incomplete_rows, "row");
        text += &format!("  {rows} with a missing or unusable value in some column\n");
    }
    text + &format!("to start with:\n  {}\n", printable(&command(args, profile)))
}

/// Range, distinct values and missing values of a column.
fn contents(column: &ColumnProfile, rows: u64) -> String {
    let mut parts = Vec::new();
    if let Some(numbers) = &column.numbers {
        parts.push(range(numbers.min, numbers.max));
        parts.push(format!("mean {}, sd {}", number(numbers.mean), number(numbers.sd)));
    }
    match (column.kind.as_str(), column.distinct) {
        ("text", Some(distinct)) => {
            let shown: Vec<&str> = column.levels.iter().take(3).map(|(level, _)| level.as_str()).collect();
            let more = if column.levels.len() > shown.len() { ", …" } else { "" };
            parts.push(format!("{}: {}{more}", counted(distinct as u64, "level"), shown.join(", ")));
        }
        ("text", None) => parts.push("more than 10,000 levels".to_string()),
        _ => {}
    }
    if column.missing > 0 {
        let share = 100.0 * column.missing as f64 / rows.max(1) as f64;
        parts.push(format!("{} missing ({share:.1} %)", count(column.missing)));
    }
    if column.unusable > 0 {
        parts.push(format!("{} infinite or not exact", count(column.unusable)));
    }
    parts.join("; ")
}

fn words(finding: &ColumnFinding) -> String {
    match finding {
        ColumnFinding::Unsupported => "values of this type cannot be used".to_string(),
        ColumnFinding::Empty => "all values are missing".to_string(),
        ColumnFinding::Constant => "constant: it carries no information".to_string(),
        ColumnFinding::Copy { of } => format!("a copy of '{of}'"),
        ColumnFinding::Index => "counts the rows: an index, not a measurement".to_string(),
        ColumnFinding::Identifier => "almost every row has its own value: an identifier".to_string(),
        ColumnFinding::Dates { example, used } => {
            let how = match used {
                DateUse::Detected => "used as days, month, weekday and, for times, hour",
                DateUse::Named => "used as days, month, weekday and hour with --dates",
                DateUse::Unreadable => "in a form that cannot be read: write them as 2024-02-29",
            };
            format!("dates or times such as '{example}', {how}")
        }
        ColumnFinding::LooksNumeric { example } => {
            format!("numbers with signs or separators such as '{example}', read as text")
        }
        ColumnFinding::ManyLevels { least: Some(least) } => {
            format!("too many levels: group those in fewer than {least} rows with --min-level-rows {least}")
        }
        ColumnFinding::ManyLevels { least: None } => {
            "too many levels for a text column, and none is frequent: leave it out".to_string()
        }
        ColumnFinding::Codes => {
            "whole numbers with few values, perhaps codes such as postcodes: their order may mean nothing"
                .to_string()
        }
        ColumnFinding::Skewed => "a few values lie far out: consider the logarithm".to_string(),
        ColumnFinding::Separates { level, rows, label } => {
            format!(
                "level '{level}': all {} have the label {label}, so only the prior bounds its coefficient",
                counted(*rows, "row")
            )
        }
    }
}

/// A command line that leaves out what cannot be used.
fn command(args: &InspectArgs, profile: &Profile) -> String {
    let label = args.label.clone().or_else(|| likely_label(profile));
    let is_feature = |column: &&ColumnProfile| Some(&column.name) != label.as_ref();
    let columns = || profile.columns.iter().filter(is_feature);
    let named = |flag: &str, is_meant: &dyn Fn(&ColumnProfile) -> bool| -> String {
        let names: Vec<String> =
            columns().filter(|column| is_meant(column)).map(|column| in_list(&column.name)).collect();
        if names.is_empty() { String::new() } else { format!(" {flag} {}", quoted(&names.join(","))) }
    };
    let has =
        |column: &ColumnProfile, wanted: &dyn Fn(&ColumnFinding) -> bool| column.findings.iter().any(wanted);
    let is_left_out = |column: &ColumnProfile| {
        has(column, &|finding| {
            matches!(
                finding,
                ColumnFinding::Unsupported
                    | ColumnFinding::Empty
                    | ColumnFinding::Constant
                    | ColumnFinding::Copy { .. }
                    | ColumnFinding::Index
                    | ColumnFinding::Identifier
                    | ColumnFinding::Dates { used: DateUse::Unreadable, .. }
                    | ColumnFinding::ManyLevels { least: None }
            )
        })
    };
    let looks_numeric = |column: &ColumnProfile| {
        !is_left_out(column) && has(column, &|finding| matches!(finding, ColumnFinding::LooksNumeric { .. }))
    };
    let is_named_date = |column: &ColumnProfile| {
        has(column, &|finding| matches!(finding, ColumnFinding::Dates { used: DateUse::Named, .. }))
    };
    let least = columns().flat_map(|column| &column.findings).filter_map(|finding| match finding {
        ColumnFinding::ManyLevels { least } => *least,
        _ => None,
    });
    let grouped = least.max().map_or(String::new(), |least| format!(" --min-level-rows {least}"));
    let is_incomplete = columns().any(|column| !is_left_out(column) && column.missing + column.unusable > 0);
    let label = label.as_deref().map_or("COLUMN".to_string(), quoted);
    format!(
        "tithe fit {} --label {label}{}{}{}{grouped}{} -o posterior.parquet",
        quoted(&show::path(&args.file)),
        named("--exclude", &is_left_out),
        named("--numbers", &looks_numeric),
        named("--dates", &is_named_date),
        if is_incomplete { " --missing indicator" } else { "" },
    )
}

/// The last column with two values and one of the usual names, or the only column with two values.
fn likely_label(profile: &Profile) -> Option<String> {
    const USUAL: [&str; 10] =
        ["y", "label", "target", "class", "churn", "default", "fraud", "outcome", "response", "clicked"];
    let binary = || profile.columns.iter().filter(|column| column.distinct == Some(2) && column.missing == 0);
    let usual = binary().rfind(|column| USUAL.contains(&column.name.to_lowercase().as_str()));
    let only = || if binary().count() == 1 { binary().next() } else { None };
    usual.or_else(only).map(|column| column.name.clone())
}

/// A name in a list of names.
fn in_list(name: &str) -> String {
    if name.contains(',') { format!("\"{name}\"") } else { name.to_string() }
}
