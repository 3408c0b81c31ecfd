//! One file of the input, whatever its format, and the checks they share.

use std::io::Read;
use std::path::Path;

use crate::base::error::{Error, ErrorKind, Result};
use crate::data::block::{Field, Kind};

use super::Scan;

/// One file of the input.
pub(super) trait Part: Send + Sync {
    /// Its name in messages.
    fn file(&self) -> &Path;

    /// Its columns.
    fn fields(&self) -> &[Field];

    /// How many rows it has, where that is known; then the position of each unit is known too.
    fn rows(&self) -> Option<u64>;

    /// True if only values are missing where the kind of that column was looked for.
    fn is_undecided(&self, _column: usize) -> bool {
        false
    }

    /// Reads a column that [is undecided](Part::is_undecided) as another file has it.
    fn decide(&mut self, _column: usize, _kind: Kind) {}

    /// Reads a column as text, whatever it holds.
    fn read_as_text(&mut self, column: usize) -> Result<()>;

    /// True if zeros are left out.
    fn is_sparse(&self) -> bool {
        false
    }

    /// LIBSVM: the feature indices that occur.
    fn indices(&self) -> Option<Indices> {
        None
    }

    /// LIBSVM: has all these features.
    fn widen(&mut self, _indices: Indices) {}

    /// Makes units of no more than about as many rows as this says, where that can be chosen.
    fn divide(&mut self, _division: Division) {}

    /// Starts reading; `first_row` is the position of the first row in the whole input, where it is known.
    fn scan(&self, columns: &[usize], first_row: Option<u64>) -> Result<Box<dyn Scan>>;

    /// Starts reading plain bytes that come only once, and may come slowly; this part was opened on their beginning.
    fn scan_once(&self, _columns: &[usize], _reader: Box<dyn Read + Send>) -> Result<Box<dyn Scan>> {
        Err(ErrorKind::Malformed {
            path: self.file().to_path_buf(),
            what: "is in a format that cannot be read as it comes".to_string(),
            help: Some("feed CSV, TSV, LIBSVM, NDJSON or an Arrow stream".to_string()),
        }
        .into())
    }
}

/// How the rows of an input become units: each a share of what is still to come, so that there are few, and yet all
/// cores have work to the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// Rows of the whole input.
    pub rows: u64,
    /// A unit is one of so many parts of what is still to come.
    pub shares: u64,
}

impl Division {
    /// How many rows a unit may have that begins at this position of the input.
    pub fn unit_rows(self, position: u64) -> u64 {
        self.rows.saturating_sub(position).div_ceil(self.shares.max(1))
    }
}

/// Feature indices of a LIBSVM file, from the first to the last that may occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Indices {
    pub first: u32,
    pub last: u32,
}

/// Refuses columns of a kind that cannot be used, and positions that there are not.
pub(super) fn check_columns(fields: &[Field], columns: &[usize]) -> Result<()> {
    for &column in columns {
        let Some(field) = fields.get(column) else {
            return Err(Error::setting("columns", format!("there is no column at position {column}")));
        };
        if field.kind == Kind::Unsupported {
            return Err(ErrorKind::Column {
                column: field.name.clone(),
                what: format!("values of type {} cannot be used", field.data_type),
                help: Some(format!("leave it out with --exclude {}", field.name)),
            }
            .into());
        }
    }
    Ok(())
}

/// Refuses a name that occurs twice.
pub(super) fn check_names(path: &Path, names: &[String], help: Option<&str>) -> Result<()> {
    let mut seen = hashbrown::HashSet::with_hasher(std::hash::RandomState::new());
    for name in names {
        if !seen.insert(name) {
            return Err(ErrorKind::Malformed {
                path: path.to_path_buf(),
                what: format!("two columns are named '{name}'"),
                help: help.map(str::to_string),
            }
            .into());
        }
    }
    Ok(())
}
