//! What the survey records of each column: unusable values, moments, levels, and the numbers of the label.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::moments::Moments;
use crate::base::math::vectorized;
use crate::data::block::{Block, INEXACT, MISSING_CODE, RowSet, Segment};
use crate::data::fingerprint::Fingerprint;
use crate::reservoir::slots::Slots;

/// The state of the pass for some blocks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Found {
    pub(super) rows_read: u64,
    pub(super) rows: u64,
    pub(super) columns: Vec<ColumnFound>,
    pub(super) picks: Slots,
    pub(super) fingerprint: Fingerprint,
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct ColumnFound {
    pub(super) unusable: UnusableValues,
    pub(super) moments: Moments,
    pub(super) levels: Levels,
    pub(super) numbers: Numbers,
    pub(super) not_positive: Option<(u64, f64)>,
    /// The total weight of the rows in which text is missing.
    pub(super) missing_mass: f64,
}

/// The unusable values of a column.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct UnusableValues {
    pub(super) missing: u64,
    pub(super) infinite: u64,
    pub(super) inexact: u64,
    /// The first row with such a value; its values are there only for the first column that has any.
    pub(super) first: Option<RowSet>,
}

/// The total weight of the rows with a value, and the position of the first of them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Seen {
    pub(super) mass: f64,
    pub(super) first: u64,
}

/// The levels of a text column, up to a limit.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Levels {
    pub(super) seen: BTreeMap<String, Seen>,
    pub(super) too_many: bool,
}

/// The distinct numbers of the label, each with its number of rows. More than two are an error, so only [`NUMBERS_KEPT`] are stored.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Numbers(pub(super) Vec<(f64, Seen)>);

pub(super) const NUMBERS_KEPT: usize = 4;

/// A text column with its levels, of which at most `limit` are stored.
pub(super) fn text_column(
    block: &Block,
    codes: &[u32],
    levels: &[String],
    weights: Option<&[f64]>,
    limit: usize,
) -> ColumnFound {
    let mut found = ColumnFound::default();
    let mut by_code: Vec<(f64, Option<usize>)> = vec![(0.0, None); levels.len()];
    for (row, &code) in codes.iter().enumerate() {
        match by_code.get_mut(code as usize) {
            Some((mass, first)) => {
                *mass += weights.map_or(1.0, |weights| weights[row]);
                first.get_or_insert(row);
            }
            None => {
                found.missing_mass += weights.map_or(1.0, |weights| weights[row]);
                found.unusable.add(block, row, MISSING_CODE == code, false);
            }
        }
    }
    for (level, (mass, first)) in levels.iter().zip(by_code) {
        if let Some(row) = first {
            found.levels.add(level, Seen { mass, first: block.position(row) }, limit);
        }
    }
    found
}

pub(super) fn number_feature(block: &Block, values: &[f64], moments: Moments) -> ColumnFound {
    let unusable = if moments.squares.is_finite() && !moments.has_missing {
        UnusableValues::default()
    } else {
        UnusableValues::of(block, values)
    };
    ColumnFound { unusable, moments, ..ColumnFound::default() }
}

pub(super) fn number_label(block: &Block, values: &[f64]) -> ColumnFound {
    let mut numbers = Numbers::default();
    let mut unusable = UnusableValues::default();
    // Usually all rows have one of the first two values, so a vectorised count is enough.
    for (row, &value) in values.iter().enumerate() {
        if numbers.0.len() == 2 {
            break;
        }
        if !numbers.0.iter().any(|(known, _)| *known == value) && value.is_finite() {
            numbers.0.push((value, Seen { mass: 0.0, first: block.position(row) }));
        }
    }
    let value = |at: usize| numbers.0.get(at).map_or(f64::NAN, |(value, _)| *value);
    let (one, other) = (value(0), value(1));
    let (ones, others) = vectorized(
        #[inline(always)]
        || {
            let (mut ones, mut others) = (0u64, 0u64);
            for value in values {
                ones += u64::from(*value == one);
                others += u64::from(*value == other);
            }
            (ones, others)
        },
    );
    numbers.0.iter_mut().zip([ones, others]).for_each(|((_, seen), count)| seen.mass = count as f64);
    if ones + others != values.len() as u64 {
        unusable = UnusableValues::of(block, values);
        numbers = Numbers::default();
        for (row, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            numbers.add(*value, Seen { mass: 1.0, first: block.position(row) });
        }
    }
    ColumnFound { numbers, unusable, ..ColumnFound::default() }
}

pub(super) fn weight_column(block: &Block, values: &[f64]) -> ColumnFound {
    let row = values.iter().position(|value| *value <= 0.0);
    ColumnFound {
        unusable: UnusableValues::of(block, values),
        not_positive: row.map(|row| (block.position(row), values[row])),
        ..ColumnFound::default()
    }
}

impl UnusableValues {
    pub(super) fn of(block: &Block, values: &[f64]) -> UnusableValues {
        let mut unusable = UnusableValues::default();
        for (row, value) in values.iter().enumerate().filter(|(_, value)| !value.is_finite()) {
            let inexact = value.to_bits() == INEXACT.to_bits();
            unusable.add(block, row, value.is_nan() && !inexact, inexact);
        }
        unusable
    }

    pub(super) fn add(&mut self, block: &Block, row: usize, missing: bool, inexact: bool) {
        self.missing += u64::from(missing);
        self.inexact += u64::from(inexact);
        self.infinite += u64::from(!missing && !inexact);
        let position = || vec![block.position(row)];
        let nothing = || Segment { columns: Vec::new(), len: 1 };
        self.first.get_or_insert_with(|| RowSet { segment: nothing(), positions: position() });
    }

    pub(super) fn merge(&mut self, next: UnusableValues) {
        self.missing += next.missing;
        self.infinite += next.infinite;
        self.inexact += next.inexact;
        self.first = self.first.take().or(next.first);
    }

    /// The same without missing values, if these are replaced.
    pub(super) fn not_substituted(&self, is_substituted: bool) -> UnusableValues {
        UnusableValues {
            missing: if is_substituted { 0 } else { self.missing },
            first: self.first.clone(),
            ..*self
        }
    }

    pub(super) fn describe(&self, column: &str, row_name: impl Fn(u64) -> String) -> Option<String> {
        let kinds = [
            (self.missing, "missing"),
            (self.infinite, "infinite"),
            (self.inexact, "integers beyond 2^53, which are not exact"),
        ];
        let counts: Vec<String> = kinds
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        if counts.is_empty() {
            return None;
        }
        let row = row_name(*self.first.as_ref()?.positions.first()?);
        Some(format!("'{column}' ({}, the first in {row})", counts.join(", ")))
    }
}

impl Seen {
    pub(super) fn merge(&mut self, other: Seen) {
        self.mass += other.mass;
        self.first = self.first.min(other.first);
    }
}

impl Levels {
    pub(super) fn add(&mut self, level: &str, seen: Seen, limit: usize) {
        if let Some(known) = self.seen.get_mut(level) {
            known.merge(seen);
        } else if self.seen.len() < limit {
            self.seen.insert(level.to_string(), seen);
        } else {
            self.too_many = true;
        }
    }

    pub(super) fn merge(&mut self, next: Levels, limit: usize) {
        self.too_many |= next.too_many;
        next.seen.into_iter().for_each(|(level, seen)| self.add(&level, seen, limit));
    }
}

impl Numbers {
    pub(super) fn add(&mut self, value: f64, seen: Seen) {
        if let Some((_, known)) = self.0.iter_mut().find(|(known, _)| *known == value) {
            known.merge(seen);
        } else if self.0.len() < NUMBERS_KEPT {
            self.0.push((value, seen));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::block::Column;

    #[test]
    fn labels_are_counted_as_by_a_plain_loop() {
        let (nan, infinite) = (f64::NAN, f64::INFINITY);
        for values in [
            &[][..],
            &[1.0; 5],
            &[0.0, 1.0, 1.0, -0.0],
            &[2.0, 1.0, 3.0, 1.0],
            &[nan, 1.0, 0.0, 0.0],
            &[1.0, 1.0, infinite],
            &[nan, nan],
        ] {
            let column = Column::Number(values.to_vec().into());
            let block = Block::new(0, 10, Segment { columns: vec![column], len: values.len() });
            let found = number_label(&block, values);
            let mut plain = Numbers::default();
            for (row, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                plain.add(*value, Seen { mass: 1.0, first: block.position(row) });
            }
            let as_tuples = |numbers: &Numbers| -> Vec<(f64, f64, u64)> {
                numbers.0.iter().map(|(value, seen)| (*value, seen.mass, seen.first)).collect()
            };
            assert_eq!(as_tuples(&found.numbers), as_tuples(&plain), "{values:?}");
            assert_eq!(found.unusable.missing, values.iter().filter(|value| value.is_nan()).count() as u64);
            assert_eq!(
                found.unusable.infinite,
                values.iter().filter(|value| value.is_infinite()).count() as u64
            );
        }
    }
}
