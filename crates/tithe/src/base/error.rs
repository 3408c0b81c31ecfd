//! One error type for the whole library: what went wrong, where (file, row, column), and the way out.

use std::fmt;
use std::path::{Path, PathBuf};

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Anything that can go wrong in this library; [`Error::kind`] tells which, [`Error::help`] the remedy.
#[derive(Debug)]
pub struct Error(Box<ErrorKind>);

/// The kinds of error, each with the facts it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused something.
    #[error("cannot {action} '{}': {source}", path.display())]
    Io {
        /// What was tried, as a verb: "read", "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file, glob or directory that names nothing to read.
    #[error("'{pattern}': {what}")]
    NoInput {
        /// What the user named.
        pattern: String,
        /// Why there is nothing to read.
        what: &'static str,
    },
    /// A file that is not what it should be as a whole.
    #[error("'{}': {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What to do.
        help: Option<String>,
    },
    /// One value, or one row, that cannot be read.
    #[error("'{}', row {}{}: {what}", path.display(), row + 1, in_column(column))]
    Cell {
        /// The file.
        path: PathBuf,
        /// 0-based row within the file, the header not counted (shown from 1).
        row: u64,
        /// The column, where there is one.
        column: Option<String>,
        /// What is wrong there.
        what: String,
        /// What to do.
        help: Option<String>,
    },
    /// Part files whose columns differ.
    #[error("'{}' and '{}' differ: {what}", first.display(), second.display())]
    SchemaMismatch {
        /// The file that set the schema.
        first: PathBuf,
        /// The file that disagrees.
        second: PathBuf,
        /// The column and how it differs.
        what: String,
    },
    /// Coresets whose encodings do not agree.
    #[error("'{}' and '{}' do not go together: {what}", first.display(), second.display())]
    EncodingMismatch {
        /// The first coreset.
        first: PathBuf,
        /// The one that disagrees.
        second: PathBuf,
        /// The first difference.
        what: String,
        /// Whether the second has all levels of the first, and more.
        first_knows_less: bool,
    },
    /// A column that the data does not have.
    #[error("there is no column '{column}' {purpose}{}", did_you_mean(nearest))]
    UnknownColumn {
        /// The name asked for.
        column: String,
        /// What it was wanted for: "to use as label", "to exclude".
        purpose: &'static str,
        /// The nearest name there is.
        nearest: Option<String>,
        /// All the names, for the remedy.
        available: Vec<String>,
    },
    /// A column whose content cannot serve its purpose.
    #[error("column '{column}': {what}")]
    Column {
        /// The column.
        column: String,
        /// What is wrong with it.
        what: String,
        /// What to do.
        help: Option<String>,
    },
    /// Values that are missing, infinite or not exactly representable.
    #[error("{what}")]
    Missing {
        /// How many, and where the first of each column stands.
        what: String,
    },
    /// Data that holds no usable row.
    #[error("{what}")]
    NoRows {
        /// Why.
        what: String,
    },
    /// A setting that makes no sense.
    #[error("{setting}: {what}")]
    Setting {
        /// The setting, as the command line names it.
        setting: String,
        /// What is wrong with it.
        what: String,
    },
    /// A file of this program's that it cannot use.
    #[error("'{}' {what}", path.display())]
    WrongFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        what: String,
        /// What to do.
        help: Option<String>,
    },
    /// A stream's state that cannot be used as it is.
    #[error("the state in '{}' {what}", path.display())]
    State {
        /// Its directory.
        path: PathBuf,
        /// Why not.
        what: String,
        /// What to do.
        help: Option<String>,
    },
    /// Data that is not what a file of this program's was made from.
    #[error("this is not the data that it was made from: {what}")]
    OtherData {
        /// How it differs.
        what: String,
    },
    /// Data that is not the same each time it is read.
    #[error("the data changed between two passes: {what}")]
    Changed {
        /// How.
        what: String,
    },
    /// Work on other machines that cannot be used.
    #[error("{what}")]
    Cluster {
        /// What happened there.
        what: String,
        /// What to do.
        help: Option<String>,
    },
    /// A computation that did not reach a usable answer.
    #[error("{what}")]
    Numerical {
        /// What failed, with its figures.
        what: String,
        /// What to do.
        help: Option<String>,
    },
    /// Stopped by the observer.
    #[error("stopped before the end; nothing was written")]
    Cancelled,
    /// Stopped by the observer, with something done that stays.
    #[error("stopped before the end; {what}")]
    Stopped {
        /// What stays, and how to go on.
        what: String,
    },
}

fn in_column(column: &Option<String>) -> String {
    column.as_ref().map_or(String::new(), |name| format!(", column '{name}'"))
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |name| format!(" (did you mean '{name}'?)"))
}

impl Error {
    /// What kind of error this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// True if arithmetic came to no end, which other rows or settings may change.
    pub(crate) fn is_numerical(&self) -> bool {
        matches!(self.kind(), ErrorKind::Numerical { .. })
    }

    /// The remedy, in words that a user of the command line or the library can act on.
    pub fn help(&self) -> Option<String> {
        match &*self.0 {
            ErrorKind::Malformed { help, .. }
            | ErrorKind::Cell { help, .. }
            | ErrorKind::Column { help, .. }
            | ErrorKind::WrongFile { help, .. }
            | ErrorKind::State { help, .. }
            | ErrorKind::Cluster { help, .. }
            | ErrorKind::Numerical { help, .. } => help.clone(),
            ErrorKind::SchemaMismatch { .. } => Some(
                "part files must have the same columns, in the same order, of the same kind"
                    .to_string(),
            ),
            ErrorKind::EncodingMismatch { first, second, first_knows_less, .. } => {
                let (which, known) = if *first_knows_less { ("first", second) } else { ("second", first) };
                Some(format!("build the {which} again from its data with --encoding {}", known.display()))
            }
            ErrorKind::UnknownColumn { available, .. } => Some(columns_there_are(available)),
            ErrorKind::OtherData { .. } => Some(
                "name the same data, in any order and format, with the same reading flags; or go on all the same with --force"
                    .to_string(),
            ),
            ErrorKind::Changed { .. } => Some(
                "see that nothing changes it meanwhile, or copy or persist it first: each pass must see the same rows in the same order"
                    .to_string(),
            ),
            ErrorKind::Missing { .. } => Some(
                "repair the data, leave the column out with --exclude, or leave the rows out with --missing drop"
                    .to_string(),
            ),
            _ => None,
        }
    }

    #[doc(hidden)]
    /// The operating system refused to `action` the file.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Error {
        ErrorKind::Io { action, path: path.into(), source }.into()
    }

    #[doc(hidden)]
    /// A setting that makes no sense.
    pub fn setting(setting: impl Into<String>, what: impl Into<String>) -> Error {
        ErrorKind::Setting { setting: setting.into(), what: what.into() }.into()
    }

    #[doc(hidden)]
    /// A file that is not what it should be as a whole.
    pub fn malformed(path: &Path, what: impl Into<String>) -> Error {
        ErrorKind::Malformed { path: path.to_path_buf(), what: what.into(), help: None }.into()
    }

    #[doc(hidden)]
    /// A column that is not there; the nearest name is found among `available`.
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

    /// The same error with `rows` added to its row: a reader counts from where it began.
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

fn columns_there_are(available: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut text = format!("the columns are: {}", available[..available.len().min(SHOWN)].join(", "));
    if available.len() > SHOWN {
        text += &format!(" and {} more", available.len() - SHOWN);
    }
    text
}

/// The candidate with the smallest edit distance, if that is small enough to be a slip of the hand.
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
}
