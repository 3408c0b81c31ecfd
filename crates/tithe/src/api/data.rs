//! A labelled table: files, the label, and which other columns to use.

use std::path::Path;

use crate::base::error::Result;
use crate::base::progress::{Observer, Silent};
use crate::coreset::Coreset;
use crate::coreset::build::{BuildSettings, build_on};
use crate::data::source::{OpenOptions, Source, find_inputs, open_inputs};
use crate::data::table::{Roles, Table};
use crate::encoding::Encoding;
use crate::encoding::full_data::open_as;
use crate::engine::{EngineSettings, LocalEngine, Missing};
use crate::results::fit::{Fit, FitSettings};
use crate::results::one_step::{FittedRows, OneStepSettings, fit_in_one_step};

/// A labelled table in files: Parquet, CSV, TSV, NDJSON, LIBSVM or Arrow IPC, plain or compressed.
///
/// The files are read when a coreset is built, once per pass, and need not fit into memory.
#[derive(Clone, Debug)]
pub struct Data {
    paths: Vec<String>,
    roles: Roles,
    engine: EngineSettings,
}

impl Data {
    /// A file, directory or glob whose column `label` holds the two classes. All other columns are features.
    pub fn new(path: impl AsRef<Path>, label: impl Into<String>) -> Data {
        let roles = Roles { label: label.into(), ..Roles::default() };
        Data { paths: Vec::new(), roles, engine: EngineSettings::default() }.and(path)
    }

    /// Adds another file, directory or glob.
    pub fn and(mut self, path: impl AsRef<Path>) -> Data {
        self.paths.push(path.as_ref().display().to_string());
        self
    }

    /// Uses only these columns as features.
    pub fn features<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Data {
        self.roles.features = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Excludes these columns from the features.
    pub fn exclude<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Data {
        self.roles.exclude.extend(columns.into_iter().map(Into::into));
        self
    }

    /// Weights each row by this column.
    pub fn weight(mut self, column: impl Into<String>) -> Data {
        self.roles.weight = Some(column.into());
        self
    }

    /// Chooses what to do with rows that have missing values; the default is an error that says where they are.
    pub fn missing(mut self, missing: Missing) -> Data {
        self.engine.missing = missing;
        self
    }

    /// Uses this many threads; the default is one per core. The result does not depend on it.
    pub fn threads(mut self, threads: usize) -> Data {
        self.engine.threads = Some(threads);
        self
    }

    /// Keeps at most this many bytes of decoded rows in memory; other rows are read again in each pass. The result does not
    /// depend on it.
    pub fn memory(mut self, bytes: u64) -> Data {
        self.engine.memory = bytes;
        self
    }

    /// Builds a coreset.
    ///
    /// # Errors
    /// If the files cannot be read, or a setting does not make sense.
    pub fn build(&self, settings: &BuildSettings) -> Result<Coreset> {
        self.build_observed(settings, &Silent)
    }

    /// Builds a coreset and reports progress and warnings to an observer, which may also stop the work.
    ///
    /// # Errors
    /// As for [`Data::build`].
    pub fn build_observed(&self, settings: &BuildSettings, observer: &dyn Observer) -> Result<Coreset> {
        let engine = LocalEngine::new(self.table()?, &self.engine, observer)?;
        build_on(&engine, settings).map(|built| built.coreset)
    }

    /// Fits the data, whatever its size: all rows where that takes about ten seconds or less, or else a coreset, whose draws are
    /// compared with all rows and corrected where that is needed ([`Fit::verified`]).
    ///
    /// # Errors
    /// If the files cannot be read, or a setting does not make sense.
    pub fn fit(&self, settings: &FitSettings) -> Result<Fit> {
        self.fit_rows(settings, FittedRows::ByTime)
    }

    /// Fits all rows, however long that takes.
    ///
    /// # Errors
    /// As for [`Data::fit`], and if the rows do not fit into memory.
    pub fn fit_whole(&self, settings: &FitSettings) -> Result<Fit> {
        self.fit_rows(settings, FittedRows::All)
    }

    fn fit_rows(&self, settings: &FitSettings, rows: FittedRows) -> Result<Fit> {
        let engine = LocalEngine::new(self.table()?, &self.engine, &Silent)?;
        let memory = self.engine.memory;
        let settings = OneStepSettings { fit: settings.clone(), rows, memory, ..OneStepSettings::default() };
        fit_in_one_step(&engine, &settings).map(|found| found.fit)
    }

    /// The table with the columns that the user chose.
    fn table(&self) -> Result<Table> {
        let options = self.options();
        Table::new(open_inputs(find_inputs(&self.paths, options.memory)?, &options)?, &self.roles)
    }

    /// An engine for the table with the columns of an encoding that was learnt before.
    pub(super) fn engine_as<'a>(
        &self,
        encoding: &Encoding,
        observer: &'a dyn Observer,
    ) -> Result<LocalEngine<'a>> {
        let options = self.options();
        let table = open_as(encoding, find_inputs(&self.paths, options.memory)?, &options)?;
        LocalEngine::new(table, &self.engine, observer)
    }

    /// The source of the rows, with these columns read as text.
    pub(super) fn source(&self, text: Vec<String>) -> Result<Box<dyn Source>> {
        let options = OpenOptions { text, ..OpenOptions::default() };
        open_inputs(find_inputs(&self.paths, options.memory)?, &options)
    }

    pub(super) fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The number of threads that decode the rows.
    pub(super) fn reading_threads(&self) -> usize {
        self.engine.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn options(&self) -> OpenOptions {
        OpenOptions { lenient: self.engine.missing == Missing::Drop, ..OpenOptions::default() }
    }
}
