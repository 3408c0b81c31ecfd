//! What a user does with a posterior: read, write and print it, verify it, and predict with it.

use std::fmt;
use std::path::Path;

use crate::api::Data;
use crate::base::error::Result;
use crate::base::progress::Silent;
use crate::data::sink::Output;
use crate::data::source::{OpenOptions, find_inputs, open_inputs};
use crate::results::file::{read_posterior, write_posterior};
use crate::results::fit::Fit;
use crate::results::predict::{PredictSettings, Prediction, probabilities};
use crate::results::verify::{Verification, VerifySettings, verify};

impl Fit {
    /// Reads a posterior file.
    ///
    /// # Errors
    /// If the file is not a posterior, or is damaged.
    pub fn read(path: impl AsRef<Path>) -> Result<Fit> {
        read_posterior(path.as_ref())
    }

    /// Writes a posterior file: a Parquet table of draws on the user's own scale. The file appears only when it is complete.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        write_posterior(self, Output::create(path.as_ref())?)
    }

    /// All draws of one coefficient, chain after chain; `None` if there is no coefficient of this name.
    pub fn draws_of(&self, coefficient: &str) -> Option<Vec<f64>> {
        let position = self.draws.names.iter().position(|name| name == coefficient)?;
        Some(self.draws.coefficient(position).concat())
    }

    /// Compares the posterior with the one of all rows, in one pass over the data it was built from.
    ///
    /// # Errors
    /// If the data is not what the posterior was made from.
    pub fn verify(&self, data: &Data, settings: &VerifySettings) -> Result<Verification> {
        verify(&data.engine_as(&self.encoding, &Silent)?, self, settings)
    }

    /// The probability of the positive class for every row of a file that has the features' columns.
    ///
    /// # Errors
    /// If a column is missing, or a row has a value that the model cannot use.
    pub fn predict(&self, path: impl AsRef<Path>, settings: &PredictSettings) -> Result<Vec<Prediction>> {
        let options = OpenOptions::default();
        let inputs = find_inputs(&[path.as_ref().display().to_string()], options.memory)?;
        probabilities(self, &options, |options| open_inputs(inputs.clone(), options), settings, &Silent)
    }
}

/// A table of the coefficients on the user's own scale: mean, standard deviation and 90 % interval.
impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.summary.iter().map(|summary| summary.name.chars().count()).max().unwrap_or(0);
        writeln!(f, "{:width$} {:>10} {:>10} {:>10} {:>10} {:>7}", "", "mean", "sd", "5 %", "95 %", "R-hat")?;
        for summary in &self.summary {
            writeln!(
                f,
                "{:width$} {:>10.4} {:>10.4} {:>10.4} {:>10.4} {:>7.3}",
                summary.name, summary.mean, summary.sd, summary.q05, summary.q95, summary.r_hat
            )?;
        }
        if let Some(found) = &self.verified {
            writeln!(f, "{found}")?;
        }
        self.findings.iter().try_for_each(|finding| writeln!(f, "warning: {finding}"))
    }
}
