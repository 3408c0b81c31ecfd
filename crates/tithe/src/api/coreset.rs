//! What a user does with a coreset: read, write, merge and fit it, and see how good it is.

use std::path::Path;

use crate::base::error::Result;
use crate::base::progress::Silent;
use crate::coreset::Coreset;
use crate::coreset::build::BuildSettings;
use crate::coreset::calibration::certificate::Certificate;
use crate::coreset::file::{read_coreset, write_coreset};
use crate::coreset::merge::merge;
use crate::data::sink::Output;
use crate::results::fit::{Fit, FitSettings};
use crate::results::fit_grouped::fit_coreset;

impl Coreset {
    /// Reads a coreset file.
    ///
    /// # Errors
    /// If the file is not a coreset, or is damaged.
    pub fn read(path: impl AsRef<Path>) -> Result<Coreset> {
        read_coreset(path.as_ref())
    }

    /// Writes a coreset file: a Parquet table of the rows in the user's units, with label and weight. The file appears only
    /// when it is complete.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        write_coreset(self, Output::create(path.as_ref())?)
    }

    /// Merges coresets of different rows into one, as if all rows had been read one after the other.
    ///
    /// # Errors
    /// If their columns or levels do not agree.
    pub fn merge(parts: &[Coreset], settings: &BuildSettings) -> Result<Coreset> {
        let named: Vec<(String, Coreset)> =
            parts.iter().enumerate().map(|(n, part)| (format!("part {}", n + 1), part.clone())).collect();
        merge(&named, settings, None, &Silent)
    }

    /// Draws from the posterior that the weighted rows have.
    ///
    /// # Errors
    /// If the posterior has no mode, or a setting does not make sense.
    pub fn fit(&self, settings: &FitSettings) -> Result<Fit> {
        fit_coreset(self, settings, &Silent)
    }

    /// The number of weighted rows.
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// The number of rows of the data that the coreset represents.
    pub fn rows_represented(&self) -> u64 {
        self.provenance.rows
    }

    /// True if the coreset's likelihood is the data's own: all rows, or all distinct rows with their counts.
    pub fn is_exact(&self) -> bool {
        self.provenance.exact
    }

    /// How far the coreset's posterior is from the full data's; only calibrated coresets have a certificate.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.provenance.calibration.as_ref().map(|facts| &facts.certificate)
    }

    /// The names of the model's coefficients, the intercept first.
    pub fn coefficient_names(&self) -> Vec<String> {
        self.encoding.coefficient_names()
    }
}
