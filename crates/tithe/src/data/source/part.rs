//! One file of the input in any format, and checks that all formats share.

use std::io::Read;
use std::path::Path;

use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::data::block::{Field, Kind};

use super::Scan;

/// One file of the input.
pub(super) trait Part: Send + Sync {
    /// The name in messages.
    fn file(&self) -> &Path;

    /// The columns.
    fn fields(&self) -> &[Field];

    /// The number of rows, if it is known; then the position of each unit is known as well.
    fn rows(&self) -> Option<u64>;

    /// True if the kind of this column could not be guessed, because all values in the first rows are missing.
    fn is_undecided(&self, _column: usize) -> bool {
        false
    }

    /// Sets the kind of a column that [is undecided](Part::is_undecided) to the kind it has in another file.
    fn decide(&mut self, _column: usize, _kind: Kind) {}

    /// Reads a column as text, even if it contains numbers.
    fn read_as_text(&mut self, column: usize) -> Result<()>;

    /// Reads a column of text as numbers written for readers, such as `8 %` or `$1,200`.
    fn read_as_numbers(&mut self, column: usize) -> Result<()> {
        let Some(Field { name, kind, .. }) = self.fields().get(column) else { return Ok(()) };
        if *kind == Kind::Number {
            return Ok(());
        }
        Err(not_delimited(name))
    }

    /// A value of a column of text whose values are all numbers written for readers.
    fn looks_numeric(&self, _column: usize) -> Option<&str> {
        None
    }

    /// For a column of text whose first values are all dates: whether they have times of day.
    fn looks_like_dates(&self, _column: usize) -> Option<bool> {
        None
    }

    /// True if zeros are not stored.
    fn is_sparse(&self) -> bool {
        false
    }

    /// LIBSVM: the feature indices that occur.
    fn indices(&self) -> Option<Indices> {
        None
    }

    /// LIBSVM: sets the range of feature indices.
    fn widen(&mut self, _indices: Indices) {}

    /// Limits the number of rows per unit, if the format allows.
    fn divide(&mut self, _division: Division) {}

    /// Starts reading; `first_row` is the position of the first row in the input, if it is known.
    fn scan(&self, columns: &[usize], first_row: Option<u64>) -> Result<Box<dyn Scan>>;

    /// Starts reading uncompressed bytes that can be read once and may arrive slowly; this part was opened from their
    /// beginning.
    fn scan_once(&self, _columns: &[usize], _reader: Box<dyn Read + Send>) -> Result<Box<dyn Scan>> {
        Err(ErrorKind::Malformed {
            path: self.file().to_path_buf(),
            what: "has a format that cannot be read as a stream".to_string(),
            help: Some("feed CSV, TSV, LIBSVM, NDJSON or an Arrow stream".into()),
        }
        .into())
    }
}

/// How the rows of an input are divided into units: each is a fraction of the rows that remain, so that there are few
/// units and all cores have work until the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// Number of rows of the input.
    pub rows: u64,
    /// A unit has this fraction of the remaining rows: 1/`shares`.
    pub shares: u64,
}

impl Division {
    /// The largest number of rows of a unit that begins at this position of the input.
    pub fn unit_rows(self, position: u64) -> u64 {
        self.rows.saturating_sub(position).div_ceil(self.shares.max(1))
    }
}

/// The range of feature indices of a LIBSVM file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Indices {
    pub first: u32,
    pub last: u32,
}

/// Returns an error for columns that cannot be used and for positions that do not exist.
pub(super) fn check_columns(fields: &[Field], columns: &[usize]) -> Result<()> {
    for &column in columns {
        let Some(field) = fields.get(column) else {
            return Err(Error::setting(Setting::Columns, format!("has no position {column}")));
        };
        if field.kind == Kind::Unsupported {
            return Err(ErrorKind::Column {
                column: field.name.clone(),
                what: format!("values of type {} cannot be used", field.data_type),
                help: Some(Remedy::ExcludeColumn(Some(field.name.clone())).into()),
            }
            .into());
        }
    }
    Ok(())
}

/// The error for a column that cannot be read as numbers written for readers.
pub(super) fn not_delimited(column: &str) -> Error {
    let what = "can be read as numbers only in CSV and TSV".to_string();
    ErrorKind::Column { column: column.to_string(), what, help: None }.into()
}

/// Returns an error if a name occurs twice.
pub(super) fn check_names(path: &Path, names: &[String], help: Option<Help>) -> Result<()> {
    let mut seen = hashbrown::HashSet::with_hasher(std::hash::RandomState::new());
    for name in names {
        if !seen.insert(name) {
            return Err(ErrorKind::Malformed {
                path: path.to_path_buf(),
                what: format!("two columns are named '{name}'"),
                help,
            }
            .into());
        }
    }
    Ok(())
}
