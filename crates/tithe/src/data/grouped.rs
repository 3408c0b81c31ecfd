//! Weighted points whose rows belong to groups: the input of hierarchical models.

use serde::{Deserialize, Serialize};

use crate::data::points::{Points, TILE, Tile};

/// Weighted points `z_n = y_n x_n`, and the group of each row in one or more grouping factors.
///
/// The linear predictor of row `n` is `y_n η_n = z_n·β + Σ_f (y_n r_{nf})·u_{f,g_f(n)}`, where `β` are the fixed effects,
/// `r_{nf}` the values of the columns whose effects vary by factor `f`, and `u_{f,g}` the effects of group `g`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupedPoints {
    /// The fixed effects' part of each row, and the weights.
    pub fixed: Points,
    /// The grouping factors.
    pub factors: Vec<Memberships>,
}

/// The rows' groups in one grouping factor, and the values that their effects multiply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memberships {
    /// The number of groups G.
    pub groups: usize,
    /// The group of each row, from 0 to G − 1.
    pub group: Vec<u32>,
    /// The number q of effects per group: 1 for an intercept, 2 for an intercept and a slope.
    pub width: usize,
    /// `y_n r_n`, q numbers per row, one row after the other.
    pub z: Vec<f64>,
}

impl Memberships {
    /// A factor without rows.
    pub fn new(groups: usize, width: usize) -> Memberships {
        Memberships { groups, group: Vec::new(), width, z: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If `z` does not have `width` entries.
    pub fn push(&mut self, group: u32, z: &[f64]) {
        assert_eq!(z.len(), self.width, "a row of another number of effects");
        self.group.push(group);
        self.z.extend_from_slice(z);
    }

    /// `y_n r_n` of row `n`.
    pub fn row(&self, n: usize) -> &[f64] {
        &self.z[n * self.width..(n + 1) * self.width]
    }
}

/// A tile of rows that belong to groups of one factor.
#[derive(Clone, Copy, Debug)]
pub struct GroupedTile<'a> {
    /// The fixed effects' part, and the weights.
    pub fixed: Tile<'a>,
    /// The group of each row.
    pub group: &'a [u32],
    /// `y_n r_n`, q numbers per row.
    pub effects: &'a [f64],
}

impl GroupedPoints {
    /// Tile `t`, with the rows' groups in the first factor.
    pub fn tile(&self, t: usize) -> GroupedTile<'_> {
        let fixed = self.fixed.tile(t);
        let rows = t * TILE..t * TILE + fixed.len;
        match self.factors.first() {
            Some(factor) => GroupedTile {
                fixed,
                group: &factor.group[rows.clone()],
                effects: &factor.z[rows.start * factor.width..rows.end * factor.width],
            },
            None => GroupedTile { fixed, group: &[], effects: &[] },
        }
    }

    /// The number of tiles.
    pub fn tiles(&self) -> usize {
        self.fixed.len().div_ceil(TILE)
    }

    /// Adds the rows of a tile, whose groups are those of the first factor.
    pub fn push_tile(&mut self, tile: &GroupedTile<'_>) {
        self.fixed.push_tile(&tile.fixed);
        if let Some(factor) = self.factors.first_mut() {
            factor.group.extend_from_slice(tile.group);
            factor.z.extend_from_slice(tile.effects);
        }
    }

    /// Appends rows of the same model.
    pub fn append(&mut self, next: GroupedPoints) {
        next.fixed.tiles().for_each(|tile| self.fixed.push_tile(&tile));
        for (factor, mut next) in self.factors.iter_mut().zip(next.factors) {
            factor.group.append(&mut next.group);
            factor.z.append(&mut next.z);
        }
    }

    /// The rows at these indices, with their weights.
    pub fn rows_at(&self, rows: &[usize]) -> GroupedPoints {
        let mut fixed = Points::new(self.fixed.dim());
        rows.iter().for_each(|&n| fixed.push(&self.fixed.row(n), self.fixed.weight(n)));
        let factors = self.factors.iter().map(|factor| {
            let mut some = Memberships::new(factor.groups, factor.width);
            rows.iter().for_each(|&n| some.push(factor.group[n], factor.row(n)));
            some
        });
        GroupedPoints { factors: factors.collect(), fixed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_returned_unchanged() {
        let mut factor = Memberships::new(3, 2);
        factor.push(2, &[1.0, 0.5]);
        factor.push(0, &[-1.0, 0.25]);
        assert_eq!((factor.row(0), factor.row(1)), (&[1.0, 0.5][..], &[-1.0, 0.25][..]));
        assert_eq!(factor.group, [2, 0]);
    }
}
