//! Checks that all values can be used: none is missing, infinite, inexact or too large, and weights are positive.

use super::found::Found;
use super::moments::Moments;
use crate::base::error::{Error, ErrorKind, Result};
use crate::data::block::{Field, Kind, RowSet};
use crate::data::table::Table;
use crate::encoding::Encoding;
use crate::engine::Missing;

/// The number of columns that a message shows of a row with an unusable value.
const ROW_SHOWN: usize = 8;

/// Returns an error if the data has unusable values; one message lists all columns that have any. A known encoding may have substitutes
/// for missing values.
pub(super) fn check(
    table: &Table,
    found: &Found,
    missing: Missing,
    known: Option<&Encoding>,
    row_name: &dyn Fn(u64) -> String,
) -> Result<()> {
    if found.rows == 0 && found.rows_read > 0 {
        return Err(no_rows(format!(
            "all {} rows were dropped: {}",
            found.rows_read,
            match missing.is_substituted() {
                true => "none has a label",
                false => "each has a missing, infinite or inexact value",
            }
        )));
    }
    let is_substituted = |column: usize| match known {
        Some(known) => {
            known.features.get(column).is_some_and(|feature| feature.substitutes.missing.is_some())
        }
        None => missing.is_substituted() && column < table.features().len(),
    };
    let unusable: Vec<String> = table
        .fields()
        .iter()
        .zip(&found.columns)
        .enumerate()
        .filter_map(|(c, (field, column))| {
            column.unusable.not_substituted(is_substituted(c)).describe(&field.name, row_name)
        })
        .collect();
    if missing != Missing::Drop && !unusable.is_empty() {
        let mut what = format!("values that cannot be used in {}", unusable.join(", "));
        // A row that is not in a file is identified by its values.
        if table.source().files().is_empty()
            && let Some((at, row)) =
                found.columns.iter().zip(0..).find_map(|(c, at)| Some((at, c.unusable.first.as_ref()?)))
        {
            what = format!("{what}; {}", shown(table.fields(), row, at));
        }
        return Err(ErrorKind::Missing { what }.into());
    }
    for (field, column) in table.features().iter().zip(&found.columns) {
        let Moments { mass, squares, .. } = column.moments;
        if field.kind == Kind::Number && mass > 0.0 && !(squares / mass).is_finite() {
            return Err(too_large(field.name.clone()));
        }
    }
    for (field, column) in table.fields().iter().zip(&found.columns) {
        if let Some((position, value)) = column.not_positive {
            return Err(ErrorKind::Column {
                column: field.name.clone(),
                what: format!(
                    "the weight in {} is {value}, but weights must be positive",
                    row_name(position)
                ),
                help: Some("leave such rows out of the data".into()),
            }
            .into());
        }
    }
    if let Some(weight) = table.weight()
        && !(found.picks.total * found.picks.total).is_finite()
    {
        return Err(ErrorKind::Column {
            column: weight.name.clone(),
            what: "the sum of the weights is too large to be squared".to_string(),
            help: Some("use smaller weights".into()),
        }
        .into());
    }
    Ok(())
}

/// The values of a row as text, for the columns near column `at`.
fn shown(fields: &[Field], row: &RowSet, at: usize) -> String {
    let start = at.saturating_sub(ROW_SHOWN / 2).min(fields.len().saturating_sub(ROW_SHOWN));
    let shown = (start..fields.len().min(start + ROW_SHOWN))
        .filter_map(|c| Some(format!("{} = {}", fields[c].name, row.segment.columns.get(c)?.show(0))));
    format!(
        "row {} has {}",
        row.positions.first().map_or(0, |row| row + 1),
        shown.collect::<Vec<_>>().join(", ")
    )
}

pub(super) fn too_large(column: String) -> Error {
    ErrorKind::Column {
        column,
        what: "has values too large to be squared".to_string(),
        help: Some("use a larger unit".into()),
    }
    .into()
}

pub(super) fn no_rows(what: impl Into<String>) -> Error {
    ErrorKind::NoRows { what: what.into() }.into()
}

pub(super) fn nothing_in(table: &Table) -> String {
    match &table.source().files()[..] {
        [file] => format!("'{}' has no rows", file.display()),
        _ => "the data has no rows".to_string(),
    }
}
