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

use tithe::coreset::Coreset;
use tithe::error::Result;
use tithe::files::Output;
use tithe::fit::whole_fit_seconds;

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

/// Seconds that a fit of all the rows behind a coreset would take; nothing where the coreset is exact, which costs nothing.
fn whole_seconds(coreset: &Coreset, threads: Option<usize>) -> Result<Option<f64>> {
    if coreset.provenance.exact {
        return Ok(None);
    }
    whole_fit_seconds(&coreset.points()?, coreset.provenance.rows, threads).map(Some)
}

/// Removes the temporary files of outputs in the making.
pub fn forget_outputs() {
    if let Ok(files) = IN_THE_MAKING.lock() {
        for file in files.iter() {
            let _ = std::fs::remove_file(file);
        }
    }
}
