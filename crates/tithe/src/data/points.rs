//! Weighted points `z_n = y_n x_n` in tiles of 128 rows, stored column by column: the input of every kernel.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

/// Rows per tile. A tile of ten columns (10 KiB) fits in the first-level cache together with a kernel's own data, and a column of a
/// tile is a whole number of vector registers on every processor.
pub const TILE: usize = 128;

/// A lane: one value per row of a tile. Aligned to cache lines, so that no vector load touches two of them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
pub struct Lane(pub [f64; TILE]);

impl Lane {
    /// All zeros.
    pub const ZERO: Lane = Lane::of(0.0);

    /// The same value for every row.
    pub const fn of(value: f64) -> Lane {
        Lane([value; TILE])
    }
}

impl Deref for Lane {
    type Target = [f64; TILE];

    #[inline(always)]
    fn deref(&self) -> &[f64; TILE] {
        &self.0
    }
}

impl DerefMut for Lane {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f64; TILE] {
        &mut self.0
    }
}

/// A tile: `TILE` weighted points of dimension D, stored column by column.
///
/// Rows from [`Tile::len`] on are padding: `z = 0` and weight 0, so that they do not change sums.
#[derive(Clone, Copy, Debug)]
pub struct Tile<'a> {
    /// The columns of `z`: D lanes.
    pub z: &'a [Lane],
    /// The weights `w_n`.
    pub w: &'a Lane,
    /// The number of rows without padding.
    pub len: usize,
}

/// Any number of weighted points, in tiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "PlainPoints", into = "PlainPoints")]
pub struct Points {
    dim: usize,
    len: usize,
    z: Vec<Lane>,
    w: Vec<Lane>,
}

/// The serialised form of [`Points`]: the dimension, the points one after the other, and their weights.
#[derive(Serialize, Deserialize)]
struct PlainPoints(usize, Vec<f64>, Vec<f64>);

impl From<Points> for PlainPoints {
    fn from(points: Points) -> PlainPoints {
        let mut z = vec![0.0; points.dim * points.len];
        let places = points.tiles().flat_map(|tile| (0..tile.len).map(move |r| (tile, r)));
        for ((tile, r), row) in places.zip(z.chunks_exact_mut(points.dim.max(1))) {
            tile.copy_row(r, row);
        }
        PlainPoints(points.dim, z, points.weights())
    }
}

impl From<PlainPoints> for Points {
    fn from(PlainPoints(dim, z, weights): PlainPoints) -> Points {
        Points::from_rows(dim, z.chunks_exact(dim.max(1)).zip(weights))
    }
}

impl Points {
    /// An empty set of points of dimension `dim`.
    pub fn new(dim: usize) -> Points {
        Points { dim, ..Points::default() }
    }

    /// Points from rows; every row must have `dim` entries.
    pub fn from_rows<'a>(dim: usize, rows: impl IntoIterator<Item = (&'a [f64], f64)>) -> Points {
        let mut points = Points::new(dim);
        for (z, w) in rows {
            points.push(z, w);
        }
        points
    }

    /// Adds one point.
    ///
    /// # Panics
    /// If `z` does not have `dim` entries.
    pub fn push(&mut self, z: &[f64], w: f64) {
        assert_eq!(z.len(), self.dim, "a point of a different dimension");
        let row = self.len % TILE;
        if row == 0 {
            self.z.resize(self.z.len() + self.dim, Lane::ZERO);
            self.w.push(Lane::ZERO);
        }
        let tile = self.len / TILE;
        for (lane, &value) in self.z[tile * self.dim..].iter_mut().zip(z) {
            lane[row] = value;
        }
        self.w[tile][row] = w;
        self.len += 1;
    }

    /// Adds the rows of a tile of the same dimension, without its padding.
    pub fn push_tile(&mut self, tile: &Tile<'_>) {
        if self.len.is_multiple_of(TILE) {
            self.z.extend_from_slice(tile.z);
            self.w.push(*tile.w);
            self.len += tile.len;
        } else {
            let mut row = vec![0.0; self.dim];
            for r in 0..tile.len {
                tile.copy_row(r, &mut row);
                self.push(&row, tile.w[r]);
            }
        }
    }

    /// The dimension D.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tiles, in order.
    pub fn tiles(&self) -> impl ExactSizeIterator<Item = Tile<'_>> {
        (0..self.w.len()).map(|t| self.tile(t))
    }

    /// Tile number `t`.
    pub fn tile(&self, t: usize) -> Tile<'_> {
        Tile {
            z: &self.z[t * self.dim..(t + 1) * self.dim],
            w: &self.w[t],
            len: (self.len - t * TILE).min(TILE),
        }
    }

    /// A copy of the point `z_n`.
    pub fn row(&self, n: usize) -> Vec<f64> {
        let mut row = vec![0.0; self.dim];
        self.tile(n / TILE).copy_row(n % TILE, &mut row);
        row
    }

    /// The weight `w_n`.
    pub fn weight(&self, n: usize) -> f64 {
        self.w[n / TILE][n % TILE]
    }

    /// All weights, in order.
    pub fn weights(&self) -> Vec<f64> {
        (0..self.len).map(|n| self.weight(n)).collect()
    }

    /// Replaces all weights.
    ///
    /// # Panics
    /// If there are not as many weights as points.
    pub fn set_weights(&mut self, weights: &[f64]) {
        assert_eq!(weights.len(), self.len, "one weight per point");
        for (lane, chunk) in self.w.iter_mut().zip(weights.chunks(TILE)) {
            lane[..chunk.len()].copy_from_slice(chunk);
        }
    }
}

impl Tile<'_> {
    /// Copies row `r` of the tile.
    pub fn copy_row(&self, r: usize, row: &mut [f64]) {
        for (value, lane) in row.iter_mut().zip(self.z) {
            *value = lane[r];
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rand_distr::{Distribution, StandardNormal};

    use super::*;
    use crate::base::rng::{Purpose, Seed};

    /// Normal points with weights between 1 and 2.
    pub(crate) fn some_points(dim: usize, rows: usize) -> Points {
        let mut rng = Seed(7).stream(Purpose::Generate, 0);
        let mut points = Points::new(dim);
        for n in 0..rows {
            let z: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(&mut rng)).collect();
            points.push(&z, 1.0 + n as f64 / rows as f64);
        }
        points
    }

    #[test]
    fn points_are_returned_unchanged() {
        let rows: Vec<Vec<f64>> = (0..300).map(|n| vec![f64::from(n), -f64::from(n)]).collect();
        let mut points = Points::from_rows(2, rows.iter().map(|row| (row.as_slice(), row[0] + 1.0)));
        assert_eq!(points.len(), 300);
        assert_eq!(points.tiles().map(|tile| tile.len).sum::<usize>(), 300);
        for (n, row) in rows.iter().enumerate() {
            assert_eq!(&points.row(n), row);
            assert_eq!(points.weight(n), row[0] + 1.0);
        }
        let copied = points.tiles().fold(Points::new(2), |mut all, tile| {
            all.push_tile(&tile);
            all
        });
        assert_eq!(copied, points);
        points.set_weights(&vec![2.0; 300]);
        assert_eq!(points.weights(), vec![2.0; 300]);
        assert_eq!(points.tile(2).w[300 - 2 * TILE..], [0.0; 3 * TILE - 300], "padding has weight 0");
    }
}
