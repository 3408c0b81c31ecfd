//! Weighted mean and variance of each number column, summed strip by strip together with the fingerprint of the rows.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::base::math::vectorized;
use crate::data::block::{Block, Column};
use crate::data::fingerprint::{Fingerprint, RowHasher, STRIP};

/// Weighted mass, mean and sum of squared deviations.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Moments {
    pub mass: f64,
    pub mean: f64,
    pub squares: f64,
    /// A value other than 0 and 1 occurs.
    pub has_other_values: bool,
    /// A value that is not a number occurs; such values are left out.
    pub has_missing: bool,
}

impl Moments {
    /// Merges the moments of other rows, by the formula of Chan, Golub and LeVeque (1979).
    pub fn merge(&mut self, next: Moments) {
        let squares = self.squares + next.squares;
        let has_other_values = self.has_other_values || next.has_other_values;
        let has_missing = self.has_missing || next.has_missing;
        if self.mass == 0.0 || next.mass == 0.0 {
            // A part without mass does not change the sums, except that its squares may be NaN, which must be kept.
            let some = if self.mass == 0.0 { next } else { *self };
            *self = Moments { squares, has_other_values, has_missing, ..some };
            return;
        }
        let mass = self.mass + next.mass;
        let apart = next.mean - self.mean;
        let share = next.mass / mass;
        self.mean += apart * share;
        self.squares = squares + apart * apart * (self.mass * share);
        self.mass = mass;
        self.has_other_values = has_other_values;
        self.has_missing = has_missing;
    }
}

/// Partial sums per column: value `r` is added to sum `r % LANES`, so the order of additions does not depend on the processor.
const LANES: usize = 8;

/// Sums for the moments of a column. Values are taken relative to the first one, so that a large mean costs no accuracy.
#[derive(Clone, Copy, Default)]
pub(super) struct MomentSums {
    shift: Option<f64>,
    /// `Σ w`.
    mass: [f64; LANES],
    /// `Σ w (x − shift)`.
    sum: [f64; LANES],
    /// `Σ w (x − shift)²`.
    squares: [f64; LANES],
    /// A value other than 0 and 1 occurs.
    has_other_values: bool,
    /// A value that is not a number occurs.
    has_missing: bool,
}

impl MomentSums {
    /// The number that the sums are relative to: the first value.
    fn shift_from(&mut self, values: &[f64]) -> f64 {
        *self.shift.get_or_insert_with(|| values.first().copied().unwrap_or(0.0))
    }

    /// Records whether a value is neither 0 nor 1. Most columns of numbers have such a value among the first ones.
    fn look_for_other_values(&mut self, values: &[f64]) {
        self.has_other_values = self.has_other_values
            || vectorized(
                #[inline(always)]
                || {
                    let is_other = |value: &f64| *value != 0.0 && *value != 1.0;
                    values
                        .chunks(64)
                        .any(|chunk| chunk.iter().fold(false, |found, value| found | is_other(value)))
                },
            );
    }

    /// Adds rows, except those without a number.
    fn add_present(&mut self, values: &[f64], weights: Option<&[f64]>) {
        let has_missing = vectorized(
            #[inline(always)]
            || values.iter().fold(false, |found, value| found | value.is_nan()),
        );
        if !has_missing {
            return self.add_rows(values, weights);
        }
        self.has_missing = true;
        let is_there = |row: &usize| !values[*row].is_nan();
        let there: Vec<usize> = (0..values.len()).filter(is_there).collect();
        let pick = |from: &[f64]| there.iter().map(|&row| from[row]).collect::<Vec<f64>>();
        if !there.is_empty() {
            self.add_rows(&pick(values), weights.map(pick).as_deref());
        }
    }

    /// Adds rows of weight 1. The number of rows must be a multiple of [`LANES`], except in the last call.
    fn add(&mut self, values: &[f64]) {
        let shift = self.shift_from(values);
        vectorized(
            #[inline(always)]
            || {
                let (mut sum, mut squares) = (self.sum, self.squares);
                let (chunks, rest) = values.as_chunks::<LANES>();
                for values in chunks {
                    for l in 0..LANES {
                        let x = values[l] - shift;
                        sum[l] += x;
                        squares[l] = x.mul_add(x, squares[l]);
                    }
                }
                for (l, value) in rest.iter().enumerate() {
                    let x = value - shift;
                    sum[l] += x;
                    squares[l] = x.mul_add(x, squares[l]);
                }
                (self.sum, self.squares) = (sum, squares);
            },
        );
        self.mass[0] += values.len() as f64;
    }

    /// Adds weighted rows. The number of rows must be a multiple of [`LANES`], except in the last call.
    fn add_weighted(&mut self, values: &[f64], weights: &[f64]) {
        let shift = self.shift_from(values);
        vectorized(
            #[inline(always)]
            || {
                for (values, weights) in values.chunks(LANES).zip(weights.chunks(LANES)) {
                    for (l, (value, w)) in values.iter().zip(weights).enumerate() {
                        let x = value - shift;
                        self.mass[l] += w;
                        self.sum[l] = w.mul_add(x, self.sum[l]);
                        self.squares[l] = (w * x).mul_add(x, self.squares[l]);
                    }
                }
            },
        );
    }

    /// Adds rows. Their number must be a multiple of [`LANES`], except in the last call.
    pub fn add_rows(&mut self, values: &[f64], weights: Option<&[f64]>) {
        self.look_for_other_values(values);
        match weights {
            Some(weights) => self.add_weighted(values, weights),
            None => self.add(values),
        }
    }

    pub fn moments(&self) -> Moments {
        let has_missing = self.has_missing;
        let Some(shift) = self.shift else { return Moments { has_missing, ..Moments::default() } };
        let [mass, sum, squares] = [self.mass, self.sum, self.squares].map(|sums| sums.iter().sum::<f64>());
        let mean = sum / mass;
        // `max` turns NaN into 0; adding 0·squares restores NaN if the sum is not finite.
        Moments {
            mass,
            mean: shift + mean,
            squares: (squares - sum * mean).max(0.0) + 0.0 * squares,
            has_other_values: self.has_other_values,
            has_missing,
        }
    }
}

/// Adds rows of a block to the sums of its number columns, and returns the fingerprint of these rows. Columns from `sums.len()` on are
/// hashed but not summed.
pub(super) fn sweep(
    block: &Block,
    rows: Range<usize>,
    weights: Option<&[f64]>,
    hasher: &RowHasher<'_>,
    sums: &mut [MomentSums],
) -> Fingerprint {
    let mut hashes = [0; STRIP];
    let hashes = &mut hashes[..rows.len()];
    for (c, column) in block.columns.iter().enumerate() {
        if let (Column::Number(values), Some(sums)) = (column, sums.get_mut(c)) {
            sums.add_present(&values[rows.clone()], weights.map(|weights| &weights[rows.clone()]));
        }
        hasher.add(c, rows.clone(), hashes);
    }
    Fingerprint::of_hashes(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::block::Segment;
    use crate::encoding::survey::tests::numbers;

    /// Sums of a column by a plain loop.
    fn plain_sums(values: &[f64]) -> MomentSums {
        let mut sums = MomentSums { shift: Some(values[0]), ..MomentSums::default() };
        for (row, value) in values.iter().enumerate() {
            let x = value - values[0];
            sums.mass[0] += 1.0;
            sums.sum[row % LANES] += x;
            sums.squares[row % LANES] = x.mul_add(x, sums.squares[row % LANES]);
        }
        sums
    }

    #[test]
    fn moments_of_parts_merge_to_those_of_all_rows() {
        let merged = |parts: &[Moments]| {
            let mut all = Moments::default();
            parts.iter().for_each(|part| all.merge(*part));
            (all.mass, all.mean, all.squares)
        };
        let part = |mass: f64, mean: f64, squares: f64| Moments { mass, mean, squares, ..Moments::default() };
        assert_eq!(merged(&[part(1.0, 0.0, 0.5), part(3.0, 4.0, 1.0)]), (4.0, 3.0, 13.5));
        // Large means, and weights whose products are too large or too small.
        assert_eq!(merged(&[part(100.0, 1e160, 0.0)]), (100.0, 1e160, 0.0));
        assert_eq!(merged(&[part(1e-170, 0.0, 0.0), part(1e-170, 1.0, 0.0)]), (2e-170, 0.5, 5e-171));
        assert_eq!(merged(&[part(1e160, 2.0, 0.0), part(1e160, 2.0, 0.0)]), (2e160, 2.0, 0.0));
        // A part without mass, but with a value that is NaN.
        assert!(merged(&[part(1.0, 2.0, 3.0), part(0.0, f64::NAN, f64::NAN)]).2.is_nan());
    }

    #[test]
    fn columns_have_the_bits_of_plain_sums_and_fingerprints() {
        for (width, len) in [1, 2, 7].into_iter().flat_map(|width| {
            [1, 7, 8, 39, 255, 256, 301, STRIP, STRIP + 1, 2 * STRIP + 13].map(|len| (width, len))
        }) {
            let columns: Vec<Vec<f64>> = (0..width).map(|seed| numbers(len, seed)).collect();
            let number_columns = columns.iter().map(|values| Column::Number(values.clone().into()));
            let block = Block::new(0, 0, Segment { columns: number_columns.collect(), len });
            let hasher = RowHasher::new(&block);
            let mut sums = vec![MomentSums::default(); columns.len()];
            let mut fingerprint = Fingerprint::default();
            for start in (0..len).step_by(STRIP) {
                let rows = start..len.min(start + STRIP);
                fingerprint.merge(sweep(&block, rows, None, &hasher, &mut sums));
            }
            for (sums, values) in sums.iter().zip(&columns) {
                let parts = |sums: &MomentSums| (sums.shift, sums.mass, sums.sum, sums.squares);
                assert_eq!(parts(sums), parts(&plain_sums(values)), "{width} columns, {len} rows");
            }
            assert_eq!(fingerprint, Fingerprint::of(&block), "{width} columns, {len} rows");
        }
    }

    #[test]
    fn weights_of_1_give_the_moments_of_unweighted_rows() {
        let values = numbers(301, 5);
        let (mut plain, mut weighted) = (MomentSums::default(), MomentSums::default());
        plain.add(&values);
        weighted.add_weighted(&values, &[1.0; 301]);
        let parts = |sums: MomentSums| {
            let Moments { mass, mean, squares, .. } = sums.moments();
            (mass, mean, squares)
        };
        assert_eq!(parts(weighted), parts(plain));
    }
}
