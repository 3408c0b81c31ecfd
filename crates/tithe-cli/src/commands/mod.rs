//! The commands, one file each.

pub mod about;
pub mod build;
mod certificate;
pub mod certify;
pub mod check;
mod coefficients;
mod columns;
pub mod compare;
pub mod demo;
pub mod export;
pub mod fit;
pub mod generate;
pub mod groups;
pub mod inspect;
pub mod merge;
pub mod paper;
pub mod predict;
pub mod report;
pub mod stream;
mod table;
pub mod verify;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tithe::base::error::{ErrorKind, Result};
use tithe::coreset::Coreset;
use tithe::data::sink::Output;
use tithe::results::fit::{Basis, Fit, FitSettings, whole_fit_seconds};

use crate::show::{count, counted, number};
use crate::words::CommandLine;

/// Temporary files of unfinished outputs, removed if the program has to exit at once.
static TEMPORARY_FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Opens a file for writing under a temporary name, and registers that name for removal.
fn create_output(path: &Path) -> Result<Output> {
    let output = Output::create(path)?;
    if let Ok(mut files) = TEMPORARY_FILES.lock() {
        files.push(output.temporary_path().to_path_buf());
    }
    Ok(output)
}

/// File extensions of formats other than Parquet.
const OTHER_FORMATS: [&str; 11] =
    ["csv", "tsv", "txt", "json", "ndjson", "jsonl", "libsvm", "svm", "arrow", "feather", "html"];

/// Opens a Parquet file for writing; rejects a file extension of another format.
fn create_parquet(path: &Path) -> Result<Output> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    if ending.is_some_and(|ending| OTHER_FORMATS.contains(&&*ending)) {
        let what = "has the extension of another format, but the output is Parquet".to_string();
        let help = Some("use a file name that ends in .parquet".into());
        return Err(ErrorKind::WrongFile { path: path.to_path_buf(), what, help }.into());
    }
    create_output(path)
}

/// Estimated seconds for fitting all rows that a coreset represents; `None` if the coreset is exact, because its fit is
/// the fit of all rows.
fn full_fit_seconds(coreset: &Coreset, settings: &FitSettings) -> Option<f64> {
    let facts = &coreset.provenance;
    (!facts.exact).then(|| whole_fit_seconds(facts.rows, coreset.encoding.dim(), settings))
}

/// Says that a coreset is not needed, because fitting all rows takes about `seconds`.
fn no_coreset_needed(rows: u64, seconds: f64) -> String {
    format!(
        "no coreset needed: fitting all {} would take about {} s (tithe fit DATA with the same options)\n",
        counted(rows, "row"),
        number(seconds)
    )
}

/// The rows of data that was fitted directly, and how many were dropped.
fn rows_fitted(rows: u64, dropped: u64) -> String {
    match dropped {
        0 => format!("all {}", counted(rows, "row")),
        _ => format!("{} ({} more dropped because of missing values)", counted(rows, "row"), count(dropped)),
    }
}

/// Problems with a posterior. What is wrong with a coreset does not matter once its draws were compared with all rows.
fn problems(fit: &Fit) -> Vec<String> {
    let too_small = match &fit.basis {
        Basis::Coreset { provenance, .. } if fit.verified.is_none() => certificate::too_small(provenance),
        _ => None,
    };
    let findings = fit.findings.iter().map(|finding| finding.message(&CommandLine));
    too_small.into_iter().chain(findings).collect()
}

/// With --strict, an error if there were warnings.
fn fail_if_strict(strict: bool, warnings: usize) -> Result<()> {
    if !strict || warnings == 0 {
        return Ok(());
    }
    let what = format!(
        "{} treated as {} because of --strict",
        counted(warnings as u64, "warning"),
        if warnings == 1 { "an error" } else { "errors" }
    );
    Err(ErrorKind::Numerical { what, help: None }.into())
}

/// Removes the temporary files of unfinished outputs.
pub fn remove_temporary_files() {
    if let Ok(files) = TEMPORARY_FILES.lock() {
        for file in files.iter() {
            let _ = std::fs::remove_file(file);
        }
    }
}
