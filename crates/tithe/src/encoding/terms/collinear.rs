//! Finds columns of a formula that are linear combinations of the columns before them.

use crate::base::error::Result;
use crate::data::block::Block;
use crate::encoding::coding::Encoding;

/// Columns are not examined beyond this number, because the time grows with its square.
const MOST_COLUMNS: usize = 500;
/// A column is a combination of others if they leave less than this share of its variance.
const TOLERANCE: f64 = 1e-10;
/// At most this many columns are named.
const NAMED: usize = 3;

/// A warning if columns of the formula are linear combinations of others in some rows of the data; `None` without a formula.
pub(crate) fn warning(encoding: &Encoding, rows: &Block) -> Result<Option<String>> {
    let (Some(design), Some(values)) = (&encoding.design, encoding.terms_of(rows)?) else { return Ok(None) };
    let dim = design.width();
    if dim > MOST_COLUMNS || rows.len < 2 * dim {
        return Ok(None);
    }
    let found = combinations(&values, dim, encoding.intercept);
    if found.is_empty() {
        return Ok(None);
    }
    let names = design.names();
    let mut named: Vec<String> =
        found.iter().take(NAMED).map(|&column| format!("'{}'", names[column])).collect();
    if found.len() > NAMED {
        named.push("…".to_string());
    }
    Ok(Some(format!(
        "linear combinations of other columns, in all of {} rows examined: {}; only the prior decides how they share an effect",
        rows.len,
        named.join(", ")
    )))
}

/// The columns that are combinations of earlier ones, by the Cholesky factor of their correlations. Columns that are constant are left
/// out.
fn combinations(values: &[f64], dim: usize, is_centred: bool) -> Vec<usize> {
    let mut columns: Vec<Vec<f64>> = vec![Vec::with_capacity(values.len() / dim.max(1)); dim];
    for row in values.chunks_exact(dim) {
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(*value));
    }
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for column in &mut columns {
        let before = dot(column, column).sqrt();
        if is_centred {
            let mean = column.iter().sum::<f64>() / column.len() as f64;
            column.iter_mut().for_each(|value| *value -= mean);
        }
        let norm = dot(column, column).sqrt();
        // What rounding leaves of a constant is not a column.
        let factor = if norm > 1e-9 * before { 1.0 / norm } else { 0.0 };
        column.iter_mut().for_each(|value| *value *= factor);
    }
    let mut factor: Vec<Vec<f64>> = Vec::with_capacity(dim);
    let mut found = Vec::new();
    for j in 0..dim {
        let mut row: Vec<f64> = Vec::with_capacity(j + 1);
        for k in 0..j {
            let other: &Vec<f64> = &factor[k];
            let rest = dot(&columns[j], &columns[k]) - dot(&row, &other[..k]);
            row.push(if other[k] > 0.0 { rest / other[k] } else { 0.0 });
        }
        let own = dot(&columns[j], &columns[j]);
        let left = own - dot(&row, &row);
        let is_combination = left < TOLERANCE;
        if is_combination && own > 0.0 {
            found.push(j);
        }
        row.push(if is_combination { 0.0 } else { left.sqrt() });
        factor.push(row);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_found() {
        let row = |n: usize| {
            let (a, b) = ((n as f64 * 0.7).sin(), (n * n % 17) as f64);
            [a, b, 3.0, 2.0 * a - b + 5.0, a * b]
        };
        let values: Vec<f64> = (0..60).flat_map(row).collect();
        assert_eq!(combinations(&values, 5, true), [3]);
        // Without an intercept, the constant is a column of its own.
        assert_eq!(combinations(&values, 5, false), [3]);
        let without: Vec<f64> = (0..60).flat_map(|n| [row(n)[0], row(n)[1], row(n)[3], row(n)[4]]).collect();
        assert!(combinations(&without, 4, false).is_empty());
    }
}
