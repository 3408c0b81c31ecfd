//! One file for each command.

pub mod about;
pub mod build;
mod certificate;
pub mod certify;
pub mod compare;
pub mod demo;
pub mod export;
pub mod fit;
pub mod generate;
pub mod inspect;
pub mod merge;
pub mod paper;
pub mod predict;
pub mod report;
pub mod stream;
pub mod verify;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tithe::base::error::{ErrorKind, Result};
use tithe::coreset::Coreset;
use tithe::data::sink::Output;
use tithe::results::fit::whole_fit_seconds;

use crate::show::{counted, they_were};

/// Temporary files of outputs in the making, to be removed if the program has to end at once.
static IN_THE_MAKING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Makes sure that a file can be written, and remembers its temporary name.
fn create_output(path: &Path) -> Result<Output> {
    let output = Output::create(path)?;
    if let Ok(mut files) = IN_THE_MAKING.lock() {
        files.push(output.temporary_path().to_path_buf());
    }
    Ok(output)
}

/// Endings of names that promise another format.
const OTHER_FORMATS: [&str; 11] =
    ["csv", "tsv", "txt", "json", "ndjson", "jsonl", "libsvm", "svm", "arrow", "feather", "html"];

/// The same for a file of Parquet; refuses a name that promises something else.
fn create_parquet(path: &Path) -> Result<Output> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    if ending.is_some_and(|ending| OTHER_FORMATS.contains(&&*ending)) {
        let what = "has the ending of another format, and what is written is Parquet".to_string();
        let help = Some("end its name in .parquet".to_string());
        return Err(ErrorKind::WrongFile { path: path.to_path_buf(), what, help }.into());
    }
    create_output(path)
}

/// Seconds that a fit of all the rows behind a coreset would take; nothing where the coreset is exact, which costs nothing.
fn whole_seconds(coreset: &Coreset, threads: Option<usize>) -> Result<Option<f64>> {
    if coreset.provenance.exact {
        return Ok(None);
    }
    whole_fit_seconds(&coreset.points()?, coreset.provenance.rows, threads).map(Some)
}

/// What was fitted to, where it was data itself: all its rows, or those that could be used.
fn rows_fitted(rows: u64, dropped: u64) -> String {
    match dropped {
        0 => format!("all {}", counted(rows, "row")),
        _ => format!("{} ({} dropped for missing values)", counted(rows, "row"), they_were(dropped, "other")),
    }
}

/// Removes the temporary files of outputs in the making.
pub fn forget_outputs() {
    if let Ok(files) = IN_THE_MAKING.lock() {
        for file in files.iter() {
            let _ = std::fs::remove_file(file);
        }
    }
}
