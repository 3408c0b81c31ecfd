//! Rows with their groups in all grouping factors, and the way of group effects to the user's scale.

use super::coding::{Coding, Encoding, Scratch, unseen_level};
use super::factor::GroupFactor;
use super::groups::not_text;
use crate::base::error::Result;
use crate::data::block::{Block, Column, row_name};
use crate::data::grouped::{GroupedPoints, Memberships};
use crate::data::points::{Lane, Points};

/// The rows of a block as the effects of one grouping factor need them.
pub(crate) struct GroupRows {
    /// The number of groups.
    pub groups: usize,
    /// The group of each row; `None` if the encoding does not have it.
    pub codes: Vec<Option<u32>>,
    intercept: bool,
    /// For each slope its position among the coefficients, and the center and scale of its column.
    slopes: Vec<(usize, f64, f64)>,
    /// Whether slopes refer to centred columns.
    centred: bool,
}

impl GroupRows {
    /// The number of effects per group.
    pub fn width(&self) -> usize {
        usize::from(self.intercept) + self.slopes.len()
    }

    /// On the user's scale, the values that the effects of row `r` of a tile without labels multiply.
    pub fn values(&self, x: &[Lane], r: usize, into: &mut Vec<f64>) {
        into.clear();
        into.extend(self.intercept.then_some(1.0));
        into.extend(self.slopes.iter().map(|(at, center, scale)| x[*at][r] * scale + center));
    }

    /// On the model's scale, `y` times the values that the effects of row `r` multiply.
    fn model_values(&self, y: &Lane, z: &[Lane], r: usize, into: &mut Vec<f64>) {
        into.clear();
        into.extend(self.intercept.then_some(y[r]));
        into.extend(
            self.slopes.iter().map(|(at, center, scale)| {
                z[*at][r] + if self.centred { 0.0 } else { y[r] * center / scale }
            }),
        );
    }
}

/// Whether slopes refer to centred columns. Centring only changes the covariance's parameters where intercept and slopes may be
/// correlated; otherwise it would change the model.
fn is_centred(factor: &GroupFactor) -> bool {
    factor.intercept && factor.correlated
}

impl Encoding {
    /// For each slope of a factor its position among the coefficients, and the center and scale of its column.
    fn slopes(&self, factor: &GroupFactor) -> Vec<(usize, f64, f64)> {
        let (names, (centers, scales)) = (self.coefficient_names(), self.transform());
        let effects = self.effect_names(factor);
        let slopes = effects.iter().skip(usize::from(factor.intercept));
        let at = slopes.filter_map(|slope| names.iter().position(|name| name == slope));
        at.map(|at| (at, centers[at], scales[at])).collect()
    }

    /// The matrix that converts the effects of a group to the user's scale, row by row. With `r = (1, (x − c)/s)` the effect of `x` is
    /// `u₁/s` and the intercept's `u₀ − u₁ c/s`.
    pub(crate) fn groups_to_user_scale(&self, factor: &GroupFactor) -> Vec<f64> {
        let (slopes, first) = (self.slopes(factor), usize::from(factor.intercept));
        let q = first + slopes.len();
        let mut matrix = vec![0.0; q * q];
        if factor.intercept {
            matrix[0] = 1.0;
        }
        for (k, (_, center, scale)) in slopes.into_iter().enumerate() {
            matrix[(first + k) * q + first + k] = 1.0 / scale;
            if is_centred(factor) {
                matrix[first + k] = -center / scale;
            }
        }
        matrix
    }

    /// Points of the model without rows.
    pub(crate) fn no_grouped_points(&self) -> GroupedPoints {
        let memberships = |factor: &GroupFactor| {
            let width = usize::from(factor.intercept) + self.slopes(factor).len();
            Memberships::new(self.group_levels(factor).len(), width)
        };
        GroupedPoints {
            fixed: Points::new(self.dim()),
            factors: self.groups.iter().map(memberships).collect(),
        }
    }

    /// Adds the rows of a block to points.
    ///
    /// # Errors
    /// If a row has a group that the encoding does not have.
    pub(crate) fn add_grouped(
        &self,
        block: &Block,
        scratch: &mut Scratch,
        points: &mut GroupedPoints,
    ) -> Result<()> {
        let encoder = self.encoder(block)?;
        let rows = self.group_rows(block)?;
        self.check_known(&rows, block)?;
        let (mut values, mut row) = (Vec::new(), 0);
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, scratch);
            points.fixed.push_tile(&tile);
            let len = tile.len;
            let (y, z) = scratch.signs_and_points();
            for r in 0..len {
                for (rows, factor) in rows.iter().zip(&mut points.factors) {
                    rows.model_values(y, z, r, &mut values);
                    factor.push(rows.codes[row].unwrap_or_default(), &values);
                }
                row += 1;
            }
        }
        Ok(())
    }

    /// The rows of a block in each grouping factor.
    pub(crate) fn group_rows(&self, block: &Block) -> Result<Vec<GroupRows>> {
        let rows = |factor: &GroupFactor| {
            Ok(GroupRows {
                groups: self.group_levels(factor).len(),
                codes: self.codes(factor, block)?,
                intercept: factor.intercept,
                slopes: self.slopes(factor),
                centred: is_centred(factor),
            })
        };
        self.groups.iter().map(rows).collect()
    }

    /// Returns an error if a row of a block has a group that the encoding does not have.
    pub(crate) fn check_known(&self, rows: &[GroupRows], block: &Block) -> Result<()> {
        for (factor, rows) in self.groups.iter().zip(rows) {
            if let Some(row) = rows.codes.iter().position(Option::is_none) {
                let level = match self.column(factor, block) {
                    Some(Column::Text { codes, levels }) => levels.get(codes[row] as usize),
                    _ => None,
                };
                let level = level.map_or("", String::as_str);
                return Err(unseen_level(&factor.column, level, &row_name(block.position(row))));
            }
        }
        Ok(())
    }

    /// The column of a factor's groups.
    fn column<'a>(&self, factor: &GroupFactor, block: &'a Block) -> Option<&'a Column> {
        let is_factor = |coding: &Coding| matches!(coding, Coding::Groups { .. });
        let at = self
            .features
            .iter()
            .position(|feature| feature.column == factor.column && is_factor(&feature.coding))?;
        block.columns.get(at)
    }

    /// The group of each row of a block; `None` if the encoding does not have it.
    fn codes(&self, factor: &GroupFactor, block: &Block) -> Result<Vec<Option<u32>>> {
        let Some(Column::Text { codes, levels }) = self.column(factor, block) else {
            return Err(not_text(&factor.column));
        };
        let groups = self.group_levels(factor);
        let known: Vec<Option<u32>> =
            levels.iter().map(|level| groups.binary_search(level).ok().map(|at| at as u32)).collect();
        Ok(codes.iter().map(|code| known.get(*code as usize).copied().flatten()).collect())
    }
}
