//! Checks a coreset that was read from a file, before any command relies on it: its encoding, its columns, its weights and
//! the record of how it was made must fit each other.

use super::{Bound, Composition, Coreset, Provenance, points};
use crate::data::block::{Column, row_name};
use crate::data::points::Tile;
use crate::encoding::Coding;

/// Row numbers and counts of rows are exact up to here, also as `f64`, and their sums do not overflow.
pub(crate) const MOST_ROWS: u64 = 1 << 53;

impl Coreset {
    /// What is wrong with this coreset, as the rest of a sentence that begins with the file; `None` if nothing is.
    pub(crate) fn fault(&self) -> Option<String> {
        self.encoding
            .fault()
            .or_else(|| self.fault_of_columns())
            .or_else(|| self.fault_of_weights())
            .or_else(|| self.provenance.fault(self.encoding.dim()))
    }

    fn fault_of_columns(&self) -> Option<String> {
        let (encoding, rows) = (&self.encoding, &self.rows);
        let columns = &rows.segment.columns;
        if rows.is_empty() {
            return Some("has no rows".to_string());
        }
        let lengths = columns.iter().map(Column::len).chain([rows.segment.len, self.weights.len()]);
        let is_whole = columns.len() == encoding.features.len() + 1 && self.fields.len() == columns.len();
        if !is_whole || lengths.into_iter().any(|len| len != rows.len()) {
            return Some("has columns of different lengths".to_string());
        }
        for (feature, column) in encoding.features.iter().zip(columns) {
            let kinds = match (&feature.coding, column) {
                (Coding::Levels { .. } | Coding::Groups { .. }, Column::Number(_)) => ("numbers", "text"),
                (Coding::Number { .. } | Coding::Indicator { .. } | Coding::Boolean, Column::Text { .. }) => {
                    ("text", "numbers")
                }
                _ => continue,
            };
            let (found, expected) = kinds;
            let column = &feature.column;
            return Some(format!(
                "holds {found} in its column '{column}', where its encoding has {expected}"
            ));
        }
        let block = rows.block();
        if let Some((row, column)) = encoding.first_unusable(&block) {
            let name = &self.fields[column].name;
            return Some(format!("has no usable value of '{name}' in {}", row_name(row as u64)));
        }
        for (feature, column) in encoding.features.iter().zip(columns) {
            if let (Coding::Number { center, scale }, Column::Number(values)) = (&feature.coding, column) {
                let far = values.iter().fold(0.0, |far: f64, value| far.max((value - center).abs()));
                if !(far / scale).is_finite() {
                    return Some(format!("has values of '{}' that overflow when scaled", feature.column));
                }
            }
        }
        let labels = || encoding.check_labels(&block);
        let unknown = encoding.encoder(&block).map(|_| ()).and_then(|()| labels()).err();
        let unknown = unknown.map(|error| format!("has values that its encoding does not know ({error})"));
        unknown.or_else(|| {
            let is_finite =
                |tile: &Tile<'_>| tile.z.iter().flat_map(|lane| lane.iter()).all(|z| z.is_finite());
            let points = encoding.design.as_ref().and_then(|_| points(encoding, rows).ok())?;
            (!points.tiles().all(|tile| is_finite(&tile)))
                .then(|| "has values that overflow in the terms of its formula".to_string())
        })
    }

    fn fault_of_weights(&self) -> Option<String> {
        if let Some(row) = self.weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
            return Some(format!("has the weight {} in {}", self.weights[row], row_name(row as u64)));
        }
        let total: f64 = self.weights.iter().sum();
        if !(total * total).is_finite() {
            return Some("has weights that add up to a number too large to be squared".to_string());
        }
        let far = self.rows.positions.iter().position(|position| *position > MOST_ROWS);
        far.map(|row| format!("has no usable row number in {}", row_name(row as u64)))
    }
}

impl Provenance {
    /// What is wrong with the record of how a coreset was made, if it has `dim` coefficients, as the rest of a sentence that begins with the
    /// file; `None` if nothing is.
    pub(crate) fn fault(&self, dim: usize) -> Option<String> {
        let Provenance { rows_read, rows, rows_dropped, mass, draws, .. } = self;
        let counts = [*rows_read, *rows, *rows_dropped, *draws];
        if counts.iter().any(|count| *count > MOST_ROWS) || rows > rows_read || rows_dropped > rows_read {
            return Some(format!("records {rows} rows in use, of {rows_read} rows read"));
        }
        if !(mass.is_finite() && *mass > 0.0) {
            return Some(format!("records a total weight of {mass}"));
        }
        if self.size.check().is_err() {
            return Some("records an impossible size".to_string());
        }
        if self.composition.as_ref().is_some_and(|composition| !composition.is_sound()) {
            return Some("has an impossible record of the coresets it was merged from".to_string());
        }
        let theta = self.sensitivity.as_ref().and_then(|facts| facts.theta_star.as_ref());
        let certificate = self.calibration.as_ref().map(|facts| &facts.certificate);
        let normal = certificate.map(|certificate| &certificate.normal);
        let by_draws = certificate.and_then(|certificate| certificate.by_draws.as_ref());
        let lengths = theta.into_iter().map(Vec::len);
        let lengths = lengths
            .chain(normal.into_iter().flat_map(|normal| [normal.mean_shifts.len(), normal.sd_ratios.len()]));
        let lengths = lengths.chain(by_draws.into_iter().flat_map(|by_draws| {
            [by_draws.discrepancy.mean_errors.len(), by_draws.discrepancy.sd_ratios.len()]
        }));
        let named = |coefficient: &(usize, f64)| coefficient.0 < dim;
        let deficient = normal.into_iter().flat_map(|normal| &normal.deficiencies);
        let part_of = self.calibration.as_ref().and_then(|facts| facts.part_of.as_ref());
        if part_of.is_some_and(|part| part.mode.iter().chain([&part.share]).any(|value| !value.is_finite())) {
            return Some("has an impossible record of where it was matched".to_string());
        }
        let lengths = lengths.chain(part_of.map(|part| part.mode.len()));
        let is_of_other = lengths.into_iter().any(|len| len != dim)
            || !deficient.flat_map(|deficiency| &deficiency.coefficients).all(named);
        is_of_other.then(|| format!("has a certificate for another number of coefficients than its {dim}"))
    }
}

impl Composition {
    fn is_sound(&self) -> bool {
        let positive = |value: f64| value.is_finite() && value >= 0.0;
        let sound = |bound: &Bound| {
            positive(bound.epsilon) && positive(bound.delta) && bound.radius.is_none_or(positive)
        };
        self.parts <= MOST_ROWS
            && self.depth <= MOST_ROWS
            && self.bound.as_ref().is_none_or(sound)
            && self.half_life.is_none_or(|rows| rows.is_finite() && rows > 0.0)
    }
}
