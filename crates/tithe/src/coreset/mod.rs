//! A coreset: a few weighted rows of the user's, the encoding, and how it was made.

pub mod build;
pub mod calibration;
pub mod certify;
pub(crate) mod check;
pub mod collapse;
pub mod file;
pub mod hierarchical;
pub mod kmeans;
pub mod merge;
mod movement;
mod paper_methods;
pub mod provenance;
pub mod selection;
pub mod sensitivity;
pub(crate) mod settings;
pub(crate) mod steps;
pub(crate) mod whole;

pub use movement::Movement;
pub use provenance::*;
pub use whole::PartOf;

use crate::base::error::{Error, ErrorKind, Result};
use crate::data::block::{Column, Field, RowSet};
use crate::data::points::Points;
use crate::encoding::{Coding, Encoding, Feature, LabelValue, Scratch};

/// A few weighted rows that represent all rows of the data.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Coreset {
    #[doc(hidden)]
    /// The columns: the features', then the label's.
    pub fields: Vec<Field>,
    #[doc(hidden)]
    /// The rows, in the user's own units, in the order of the input.
    pub rows: RowSet,
    /// Their weights `γ_n`.
    pub weights: Vec<f64>,
    #[doc(hidden)]
    /// How the rows become points.
    pub encoding: Encoding,
    #[doc(hidden)]
    /// How the coreset was made.
    pub provenance: Provenance,
}

impl Coreset {
    /// The same rows with all weights multiplied by a number.
    pub(crate) fn scaled(&self, factor: f64) -> Coreset {
        let mut scaled = self.clone();
        scaled.weights.iter_mut().for_each(|weight| *weight *= factor);
        scaled.provenance.mass *= factor;
        scaled
    }

    #[doc(hidden)]
    /// The rows as weighted points.
    pub fn points(&self) -> Result<Points> {
        let mut points = points(&self.encoding, &self.rows)?;
        points.set_weights(&self.weights);
        Ok(points)
    }

    /// Returns an error if the model has group effects, for what does not take them into account.
    pub(crate) fn refuse_groups(&self, purpose: &str) -> Result<()> {
        match self.encoding.groups.first() {
            None => Ok(()),
            Some(factor) => Err(ErrorKind::Numerical {
                what: format!("a coreset with effects that vary by '{}' cannot be {purpose}", factor.column),
                help: Some("leave the group term out of the formula for this".into()),
            }
            .into()),
        }
    }

    #[doc(hidden)]
    /// The rows in the user's own units, row by row: one number for each coefficient but the intercept (text one-hot, substitutes in
    /// place of missing values, or the terms of the formula).
    pub fn own_units(&self) -> Result<Vec<f64>> {
        if let Some(values) = self.encoding.terms_of(&self.rows.block())? {
            return Ok(values);
        }
        let features = &self.encoding.features;
        let width = features.iter().map(Feature::width).sum::<usize>();
        let mut x = vec![0.0; width * self.rows.len()];
        let mut first = 0;
        for (feature, column) in features.iter().zip(&self.rows.segment.columns) {
            if feature.substitutes.indicator().is_some() {
                for row in (0..column.len()).filter(|&row| column.is_missing(row)) {
                    x[row * width + first + 1] = 1.0;
                }
            }
            match (&feature.coding, &feature.substituted(column)) {
                (Coding::Levels { levels, .. }, Column::Text { codes, levels: own }) => {
                    for (row, &code) in codes.iter().enumerate() {
                        let level = own.get(code as usize).map(|level| levels.binary_search(level));
                        if let Some(Ok(level)) = level {
                            x[row * width + first + level] = 1.0;
                        }
                    }
                }
                (Coding::Groups { .. }, Column::Text { .. }) => {}
                (
                    Coding::Number { .. } | Coding::Indicator { .. } | Coding::Boolean,
                    Column::Number(values),
                ) => {
                    values.iter().enumerate().for_each(|(row, value)| x[row * width + first] = *value);
                }
                _ => return Err(not_of_its_kind(&feature.column)),
            }
            first += feature.width();
        }
        Ok(x)
    }

    #[doc(hidden)]
    /// For each row, whether its label is the positive one.
    pub fn labels(&self) -> Result<Vec<bool>> {
        let label = &self.encoding.label;
        match (&label.positive, self.rows.segment.columns.get(self.encoding.features.len())) {
            (LabelValue::Number(positive), Some(Column::Number(values))) => {
                Ok(values.iter().map(|value| value == positive).collect())
            }
            (LabelValue::Boolean(positive), Some(Column::Number(values))) => {
                Ok(values.iter().map(|value| (*value != 0.0) == *positive).collect())
            }
            (LabelValue::Text(positive), Some(Column::Text { codes, levels })) => {
                Ok(codes.iter().map(|&code| levels.get(code as usize) == Some(positive)).collect())
            }
            _ => Err(not_of_its_kind(&label.column)),
        }
    }
}

fn not_of_its_kind(column: &str) -> Error {
    let what = "does not match its encoding".to_string();
    ErrorKind::Column { column: column.to_string(), what, help: None }.into()
}

/// Rows as points, with the weights that they came with.
pub(crate) fn points(encoding: &Encoding, rows: &RowSet) -> Result<Points> {
    let block = rows.block();
    let encoder = encoding.encoder(&block)?;
    let mut scratch = Scratch::new(encoding.dim());
    let mut points = Points::new(encoding.dim());
    for t in 0..encoder.tiles() {
        points.push_tile(&encoder.tile(t, &mut scratch));
    }
    Ok(points)
}
