//! The library's error type: what happened, where (file, row, column), and what the user can do about it.
//!
//! Errors are data. The library names no flag and no argument: a setting is a [`Setting`], a way out is a [`Remedy`], and
//! a front end turns both into its own words with a [`Wording`].

mod remedy;
mod setting;
mod wording;

use std::fmt;
use std::path::{Path, PathBuf};

pub use remedy::{Help, Remedy};
pub use setting::{Setting, Value};
pub use wording::{Neutral, Operation, Wording};

/// The result of a function of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// Any error of this library.
///
/// [`Error::kind`] has the facts, [`Error::help`] the remedies. As text it is in the [`Neutral`] wording; see
/// [`Error::message`] for others.
#[derive(Debug)]
pub struct Error(Box<ErrorKind>);

/// The place of an error in the data, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place<'a> {
    /// The file.
    pub file: Option<&'a Path>,
    /// The row within the file, counted from 0 without the header.
    pub row: Option<u64>,
    /// The column.
    pub column: Option<&'a str>,
}

/// The kinds of error, each with its facts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system reported an error.
    #[error("cannot {action} '{}': {source}", path.display())]
    Io {
        /// What was tried, as a verb: "read", "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason that the system gave.
        source: std::io::Error,
    },
    /// A file, glob or directory without anything to read.
    #[error("'{pattern}': {what}")]
    NoInput {
        /// What the user named.
        pattern: String,
        /// Why there is nothing to read.
        what: &'static str,
    },
    /// A file with the wrong content.
    #[error("'{}': {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What to do.
        help: Option<Help>,
    },
    /// One value or one row that cannot be read.
    #[error("'{}', row {}{}: {what}", path.display(), row + 1, in_column(column))]
    Cell {
        /// The file.
        path: PathBuf,
        /// The row within the file, counted from 0 without the header (the message counts from 1).
        row: u64,
        /// The column, if the error is about one.
        column: Option<String>,
        /// What is wrong there.
        what: String,
        /// What to do.
        help: Option<Help>,
    },
    /// Part files with different columns.
    #[error("'{}' and '{}' differ: {what}", first.display(), second.display())]
    SchemaMismatch {
        /// The file whose columns count.
        first: PathBuf,
        /// The file with other columns.
        second: PathBuf,
        /// The column, and how it differs.
        what: String,
    },
    /// Coresets with different encodings.
    #[error("'{}' and '{}' have different encodings: {what}", first.display(), second.display())]
    EncodingMismatch {
        /// The first coreset.
        first: PathBuf,
        /// The coreset that differs from it.
        second: PathBuf,
        /// The first difference.
        what: String,
        /// Whether the second has all levels of the first, and more.
        first_knows_less: bool,
    },
    /// A column that the data does not have.
    #[error("there is no column '{column}' {purpose}{}", did_you_mean(nearest))]
    UnknownColumn {
        /// The requested name.
        column: String,
        /// What the column is needed for: "to use as label", "to exclude".
        purpose: &'static str,
        /// The most similar name in the data.
        nearest: Option<String>,
        /// All names in the data.
        available: Vec<String>,
    },
    /// A column whose values cannot be used for their purpose.
    #[error("column '{column}': {what}")]
    Column {
        /// The column.
        column: String,
        /// What is wrong with it.
        what: String,
        /// What to do.
        help: Option<Help>,
    },
    /// Several problems of the same data, each with its own remedies.
    #[error("{} problems{}", errors.len(), listed(errors))]
    Several {
        /// The problems.
        errors: Vec<Error>,
    },
    /// A formula that cannot be used.
    #[error("the formula, character {}: {what}{}", at + 1, pointed_at(formula, *at))]
    Formula {
        /// The formula.
        formula: String,
        /// The character that the error is about, counted from 0 (the message counts from 1).
        at: usize,
        /// What is wrong there.
        what: String,
        /// What to do.
        help: Option<Help>,
    },
    /// Values that are missing, infinite or integers beyond 2^53.
    #[error("{what}")]
    Missing {
        /// How many, and where the first of each column is.
        what: String,
    },
    /// Data without a usable row.
    #[error("{what}")]
    NoRows {
        /// Why there is none.
        what: String,
    },
    /// A setting with a value that cannot be used.
    #[error("{setting} {what}")]
    Setting {
        /// The setting.
        setting: Setting,
        /// What is wrong with it, as the rest of a sentence that begins with the setting: "must be at least 1".
        what: String,
        /// What to do.
        help: Option<Help>,
    },
    /// A file written by this program that cannot be used here.
    #[error("'{}' {what}", path.display())]
    WrongFile {
        /// The file.
        path: PathBuf,
        /// Why not, as the rest of a sentence that begins with the file.
        what: String,
        /// What to do.
        help: Option<Help>,
    },
    /// A file or state written by a newer version of this program.
    #[error("'{}' has format version {version}; this program reads versions up to {known}", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its version of the format.
        version: u64,
        /// The newest version that this program reads.
        known: u64,
    },
    /// The state of a stream that cannot be used as it is.
    #[error("the state in '{}' {what}", path.display())]
    State {
        /// The directory of the state.
        path: PathBuf,
        /// Why not, as the rest of a sentence that begins with the state.
        what: String,
        /// What to do.
        help: Option<Help>,
    },
    /// Data other than the data that a coreset or posterior was made from.
    #[error("this is not the data that it was made from: {what}")]
    OtherData {
        /// How it differs.
        what: String,
    },
    /// Data that changed while it was being read.
    #[error("the data changed between two passes: {what}")]
    Changed {
        /// How it changed.
        what: String,
    },
    /// Work on other machines that cannot be used.
    #[error("{what}")]
    Cluster {
        /// What happened there.
        what: String,
        /// What to do.
        help: Option<Help>,
    },
    /// A computation without a usable result.
    #[error("{what}")]
    Numerical {
        /// What failed, with figures.
        what: String,
        /// What to do.
        help: Option<Help>,
    },
    /// Stopped by the observer.
    #[error("stopped before the end; nothing was written")]
    Cancelled,
    /// Stopped by the observer after a part of the work was saved.
    #[error("stopped before the end; {what}")]
    Stopped {
        /// What was saved, and how to resume.
        what: String,
    },
}

fn in_column(column: &Option<String>) -> String {
    column.as_ref().map_or(String::new(), |name| format!(", column '{name}'"))
}

/// The formula on a line of its own, and below it a caret under the character. Only the part around it of a long formula is shown.
fn pointed_at(formula: &str, at: usize) -> String {
    const SHOWN: usize = 70;
    let characters: Vec<char> = formula.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let start = if characters.len() <= SHOWN { 0 } else { at.saturating_sub(SHOWN / 2) };
    let end = characters.len().min(start + SHOWN);
    let shown: String = characters[start.min(end)..end].iter().collect();
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < characters.len() { "…" } else { "" });
    let indent = " ".repeat(at.saturating_sub(start) + before.chars().count());
    format!("\n  {before}{shown}{after}\n  {indent}^")
}

fn listed(errors: &[Error]) -> String {
    errors.iter().map(|error| format!("\n  {error}")).collect()
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |name| format!(" (did you mean '{name}'?)"))
}

impl Error {
    /// The kind of this error, with its facts.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// The place in the data that the error is about.
    pub fn place(&self) -> Place<'_> {
        match &*self.0 {
            ErrorKind::Cell { path, row, column, .. } => {
                Place { file: Some(path), row: Some(*row), column: column.as_deref() }
            }
            ErrorKind::Io { path, .. }
            | ErrorKind::Malformed { path, .. }
            | ErrorKind::WrongFile { path, .. }
            | ErrorKind::NewerFormat { path, .. }
            | ErrorKind::State { path, .. } => Place { file: Some(path), ..Place::default() },
            ErrorKind::SchemaMismatch { second, .. } | ErrorKind::EncodingMismatch { second, .. } => {
                Place { file: Some(second), ..Place::default() }
            }
            ErrorKind::Column { column, .. } | ErrorKind::UnknownColumn { column, .. } => {
                Place { column: Some(column), ..Place::default() }
            }
            ErrorKind::Several { errors } => errors.first().map_or_else(Place::default, Error::place),
            _ => Place::default(),
        }
    }

    /// Whether a computation failed, which other rows or settings may change.
    pub(crate) fn is_numerical(&self) -> bool {
        matches!(self.kind(), ErrorKind::Numerical { .. })
    }

    #[doc(hidden)]
    /// What happened, in the words of a front end.
    pub fn message(&self, wording: &dyn Wording) -> String {
        match &*self.0 {
            ErrorKind::Setting { setting, what, .. } => format!("{} {what}", wording.subject(*setting)),
            ErrorKind::Several { errors } => {
                let mut text = format!("{} problems", errors.len());
                for error in errors {
                    text += &format!("\n  {}", error.message(wording));
                    if let Some(help) = error.help() {
                        text += &format!("\n    help: {}", help.words(wording));
                    }
                }
                text
            }
            kind => kind.to_string(),
        }
    }

    /// What the user can do about it, if anything is known.
    pub fn help(&self) -> Option<Help> {
        match &*self.0 {
            ErrorKind::Malformed { help, .. }
            | ErrorKind::Cell { help, .. }
            | ErrorKind::Column { help, .. }
            | ErrorKind::Formula { help, .. }
            | ErrorKind::Setting { help, .. }
            | ErrorKind::WrongFile { help, .. }
            | ErrorKind::State { help, .. }
            | ErrorKind::Cluster { help, .. }
            | ErrorKind::Numerical { help, .. } => help.clone(),
            ErrorKind::SchemaMismatch { .. } => {
                Some("part files must have the same columns, in the same order and of the same kind".into())
            }
            ErrorKind::EncodingMismatch { first, second, first_knows_less, .. } => {
                let (which, encoding) = if *first_knows_less { ("first", second) } else { ("second", first) };
                Some(Remedy::BuildAgain { which, encoding: encoding.clone() }.into())
            }
            ErrorKind::NewerFormat { .. } => Some("use a newer tithe".into()),
            ErrorKind::UnknownColumn { available, .. } => Some(list_columns(available).into()),
            ErrorKind::OtherData { .. } => Some(Help::from([
                "name the same data, in any order and format, with the same settings for reading it".into(),
                Remedy::Force,
            ])),
            ErrorKind::Changed { .. } => Some(
                "make sure that nothing changes the data during the run, or copy or persist it first: each pass must read the same rows in the same order"
                    .into(),
            ),
            ErrorKind::Missing { .. } => Some(Help::from([
                "repair the data".into(),
                Remedy::ExcludeColumn(None),
                Remedy::DropMissing,
                Remedy::example("replace missing values", Setting::Missing, "indicator"),
            ])),
            ErrorKind::Io { .. }
            | ErrorKind::NoInput { .. }
            | ErrorKind::NoRows { .. }
            | ErrorKind::Several { .. }
            | ErrorKind::Cancelled
            | ErrorKind::Stopped { .. } => None,
        }
    }

    #[doc(hidden)]
    /// An error of the operating system when trying to `action` the file.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Error {
        ErrorKind::Io { action, path: path.into(), source }.into()
    }

    #[doc(hidden)]
    /// A setting with a value that cannot be used; `what` continues a sentence that begins with the setting.
    pub fn setting(setting: Setting, what: impl Into<String>) -> Error {
        ErrorKind::Setting { setting, what: what.into(), help: None }.into()
    }

    #[doc(hidden)]
    /// The same error with these remedies, if its kind has remedies.
    pub fn with_help(mut self, remedies: impl Into<Help>) -> Error {
        if let ErrorKind::Malformed { help, .. }
        | ErrorKind::Cell { help, .. }
        | ErrorKind::Column { help, .. }
        | ErrorKind::Formula { help, .. }
        | ErrorKind::Setting { help, .. }
        | ErrorKind::WrongFile { help, .. }
        | ErrorKind::State { help, .. }
        | ErrorKind::Cluster { help, .. }
        | ErrorKind::Numerical { help, .. } = &mut *self.0
        {
            *help = Some(remedies.into());
        }
        self
    }

    /// One error for all problems; `None` if there are none.
    pub(crate) fn of_all(mut problems: Vec<Error>) -> Option<Error> {
        match problems.len() {
            0 | 1 => problems.pop(),
            _ => Some(ErrorKind::Several { errors: problems }.into()),
        }
    }

    #[doc(hidden)]
    /// A file with the wrong content.
    pub fn malformed(path: &Path, what: impl Into<String>) -> Error {
        ErrorKind::Malformed { path: path.to_path_buf(), what: what.into(), help: None }.into()
    }

    #[doc(hidden)]
    /// A column that the data does not have; the most similar name is searched for in `available`.
    pub fn unknown_column<'a>(
        purpose: &'static str,
        column: &str,
        available: impl IntoIterator<Item = &'a str>,
    ) -> Error {
        let available: Vec<String> = available.into_iter().map(str::to_string).collect();
        ErrorKind::UnknownColumn {
            column: column.to_string(),
            purpose,
            nearest: nearest_name(column, &available),
            available,
        }
        .into()
    }

    /// The same error with `rows` added to its row, for a reader that did not begin at the first row of the file.
    pub(crate) fn moved_down(mut self, rows: u64) -> Error {
        if let ErrorKind::Cell { row, .. } = &mut *self.0 {
            *row += rows;
        }
        self
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error(Box::new(kind))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

fn list_columns(available: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut text = format!("the columns are: {}", available[..available.len().min(SHOWN)].join(", "));
    if available.len() > SHOWN {
        text += &format!(" and {} more", available.len() - SHOWN);
    }
    text
}

/// The candidate with the smallest edit distance, if that is small enough to be a typing error.
pub(crate) fn nearest_name(name: &str, candidates: &[String]) -> Option<String> {
    candidates
        .iter()
        .map(|candidate| (edit_distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance < name.chars().count().min(2 + name.chars().count() / 4))
        .map(|(_, candidate)| candidate.clone())
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_single_changes() {
        assert_eq!(edit_distance("label", "label"), 0);
        assert_eq!(edit_distance("lable", "label"), 2);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }

    #[test]
    fn a_far_name_is_not_suggested() {
        let names = ["label".to_string(), "age".to_string()];
        assert_eq!(nearest_name("lable", &names), Some("label".to_string()));
        assert_eq!(nearest_name("outcome", &names), None);
        assert_eq!(nearest_name("x", &["y".to_string()]), None);
        assert_eq!(nearest_name("Y", &["y".to_string()]), Some("y".to_string()));
    }

    #[test]
    fn rows_are_shown_from_one() {
        let error: Error = ErrorKind::Cell {
            path: "a.csv".into(),
            row: 16,
            column: Some("age".into()),
            what: "'x' is not a number".into(),
            help: None,
        }
        .into();
        assert_eq!(error.to_string(), "'a.csv', row 17, column 'age': 'x' is not a number");
    }

    #[test]
    fn a_setting_is_the_subject_of_its_error() {
        let error = Error::setting(Setting::BlockRows, "must be at least 1")
            .with_help(Remedy::set(Setting::BlockRows, 1000));
        assert_eq!(error.to_string(), "block_rows must be at least 1");
        assert_eq!(error.help().expect("help").to_string(), "use block_rows=1000");
    }

    #[test]
    fn errors_have_their_place() {
        let kind = ErrorKind::Column { column: "age".into(), what: "is odd".into(), help: None };
        assert_eq!(Error::from(kind).place(), Place { column: Some("age"), ..Place::default() });
        let error = Error::malformed(Path::new("a.csv"), "is empty");
        assert_eq!(error.place().file, Some(Path::new("a.csv")));
    }
}
