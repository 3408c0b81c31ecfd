//! Moments of columns: running sums over some rows at a time, of several columns together and with the hashes of the rows.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use serde::{Deserialize, Serialize};

use crate::base::math::{few, few_mut, vectorized, with_vectors};
use crate::data::block::{Block, Column};
use crate::data::fingerprint::{ColumnKey, Fingerprint, RowHasher, STRIP};

/// Weighted mass, mean and sum of squared deviations.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
pub(super) struct Moments {
    pub mass: f64,
    pub mean: f64,
    pub squares: f64,
}

impl Moments {
    /// Chan, Golub and LeVeque's rule for joining two groups.
    pub fn merge(&mut self, next: Moments) {
        let squares = self.squares + next.squares;
        if self.mass == 0.0 || next.mass == 0.0 {
            // Nothing weighs nothing; but squares that are no number must not be lost with it.
            let some = if self.mass == 0.0 { next } else { *self };
            *self = Moments { squares, ..some };
            return;
        }
        let mass = self.mass + next.mass;
        let apart = next.mean - self.mean;
        let share = next.mass / mass;
        self.mean += apart * share;
        self.squares = squares + apart * apart * (self.mass * share);
        self.mass = mass;
    }
}

/// Running sums side by side: their order never changes, whatever the processor's vectors hold.
const LANES: usize = 8;
/// Rows for which the sums are fetched and put back once.
const STRETCH: usize = 256;

/// Sums for the moments of a column, about its first value so that a large mean costs no accuracy.
#[derive(Clone, Copy, Default)]
pub(super) struct MomentSums {
    shift: Option<f64>,
    /// `Σ w`.
    mass: [f64; LANES],
    /// `Σ w (x − shift)`.
    sum: [f64; LANES],
    /// `Σ w (x − shift)²`.
    squares: [f64; LANES],
}

impl MomentSums {
    /// The number that the sums are about: the first there is.
    #[inline(always)]
    fn shift_from(&mut self, values: &[f64]) -> f64 {
        *self.shift.get_or_insert_with(|| values.first().copied().unwrap_or(0.0))
    }

    /// Adds some rows, fewer than [`LANES`].
    #[inline(always)]
    fn add_last(&mut self, values: &[f64]) {
        let shift = self.shift_from(values);
        for (l, value) in values.iter().enumerate() {
            let x = value - shift;
            self.sum[l] += x;
            self.squares[l] = x.mul_add(x, self.squares[l]);
        }
        self.mass[0] += values.len() as f64;
    }

    /// Adds some rows: a multiple of [`LANES`], but for the last time.
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

    pub fn moments(&self) -> Moments {
        let Some(shift) = self.shift else { return Moments::default() };
        let [mass, sum, squares] = [self.mass, self.sum, self.squares].map(|sums| sums.iter().sum::<f64>());
        let mean = sum / mass;
        // `max` would turn a NaN into 0; adding 0·squares keeps what is not finite so.
        Moments { mass, mean: shift + mean, squares: (squares - sum * mean).max(0.0) + 0.0 * squares }
    }
}

/// Adds some rows to the sums of the columns, the first or all of them, that hold numbers; the fingerprint of these rows.
pub(super) fn sweep(
    block: &Block,
    rows: Range<usize>,
    weights: Option<&[f64]>,
    hasher: &RowHasher<'_>,
    sums: &mut [MomentSums],
) -> Fingerprint {
    let mut hashes = [0; STRIP];
    let hashes = &mut hashes[..rows.len()];
    let weights = weights.map(|weights| &weights[rows.clone()]);
    let numbers = |column: usize| match &block.columns[column] {
        Column::Number(values) => Some(&values[rows.clone()]),
        Column::Text { .. } => None,
    };
    let mut c = 0;
    while c < block.columns.len() {
        let run: Vec<&[f64]> = (c..block.columns.len()).map_while(numbers).collect();
        let end = c + run.len().max(1);
        match (weights, &run[..]) {
            (_, []) => hasher.add(c, rows.clone(), hashes),
            (None, run) => {
                let (keys, sums) = (hasher.keys(c..end), &mut sums[c..end]);
                with_vectors(Sweeping { columns: run, keys, sums, hashes });
            }
            (Some(weights), run) => {
                for (c, values) in (c..).zip(run) {
                    if let Some(sums) = sums.get_mut(c) {
                        sums.add_weighted(values, weights);
                    }
                    hasher.add(c, rows.clone(), hashes);
                }
            }
        }
        c = end;
    }
    Fingerprint::of_hashes(hashes)
}

/// The most columns that are read at once, in gangs about as large as each other: memory is quicker at a few stretches than at one,
/// and the hashes are fetched and put back less often. The sums of so many have room in the registers of the widest vectors;
/// with narrower ones four are quicker, though not all have.
#[inline(always)]
fn most_at_once<S: Simd>() -> usize {
    if S::F64_LANES < LANES { 4 } else { 6 }
}

/// Adds some rows without weights to the sums and to the hashes of the rows: a multiple of [`LANES`], but for the last time.
struct Sweeping<'a> {
    columns: &'a [&'a [f64]],
    keys: &'a [ColumnKey],
    sums: &'a mut [MomentSums],
    hashes: &'a mut [u64],
}

impl WithSimd for Sweeping<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Sweeping { columns, keys, sums, hashes } = self;
        let gangs = columns.len().div_ceil(most_at_once::<S>()).max(1);
        let size = columns.len().div_ceil(gangs).max(1);
        let gangs = columns.chunks(size).zip(keys.chunks(size)).zip(sums.chunks_mut(size));
        for ((columns, keys), sums) in gangs {
            match columns.len() {
                6 => sweep_gang::<S, 6>(simd, columns, keys, sums, hashes),
                5 => sweep_gang::<S, 5>(simd, columns, keys, sums, hashes),
                4 => sweep_gang::<S, 4>(simd, columns, keys, sums, hashes),
                3 => sweep_gang::<S, 3>(simd, columns, keys, sums, hashes),
                2 => sweep_gang::<S, 2>(simd, columns, keys, sums, hashes),
                _ => sweep_gang::<S, 1>(simd, columns, keys, sums, hashes),
            }
        }
    }
}

/// Adds some rows of so many columns to their sums and to the hashes of the rows.
#[inline(always)]
fn sweep_gang<S: Simd, const GANG: usize>(
    simd: S,
    columns: &[&[f64]],
    keys: &[ColumnKey],
    sums: &mut [MomentSums],
    hashes: &mut [u64],
) {
    debug_assert_eq!([columns.len(), keys.len(), sums.len()], [GANG; 3]);
    let (Some(columns), Some(keys), Some(sums)) =
        (columns.first_chunk::<GANG>(), keys.first_chunk::<GANG>(), sums.first_chunk_mut::<GANG>())
    else {
        return;
    };
    let done = sweep_stretches::<S, GANG, STRETCH>(simd, *columns, *keys, sums, hashes);
    let (columns, hashes) = (columns.map(|values| &values[done..]), &mut hashes[done..]);
    let done = sweep_stretches::<S, GANG, LANES>(simd, columns, *keys, sums, hashes);
    for c in 0..GANG {
        let last = &columns[c][done..];
        sums[c].add_last(last);
        for (hash, value) in hashes[done..].iter_mut().zip(last) {
            *hash = keys[c].add_number(*hash, *value);
        }
    }
}

/// Adds as many whole stretches of so many rows as there are, and tells how many rows that are.
#[inline(always)]
fn sweep_stretches<S: Simd, const GANG: usize, const ROWS: usize>(
    simd: S,
    columns: [&[f64]; GANG],
    keys: [ColumnKey; GANG],
    sums: &mut [MomentSums; GANG],
    hashes: &mut [u64],
) -> usize {
    let columns = columns.map(|values| values.as_chunks::<ROWS>().0);
    let stretches = hashes.as_chunks_mut::<ROWS>().0;
    let done = stretches.len() * ROWS;
    for (at, hashes) in stretches.iter_mut().enumerate() {
        let columns = columns.map(|stretches| &stretches[at]);
        match LANES / S::F64_LANES {
            1 => sweep_stretch::<S, GANG, ROWS, 1>(simd, columns, keys, sums, hashes),
            2 => sweep_stretch::<S, GANG, ROWS, 2>(simd, columns, keys, sums, hashes),
            4 => sweep_stretch::<S, GANG, ROWS, 4>(simd, columns, keys, sums, hashes),
            _ => sweep_stretch::<S, GANG, ROWS, LANES>(simd, columns, keys, sums, hashes),
        }
    }
    done
}

/// Adds one stretch; a column's [`LANES`] sums are so many vectors. All lengths are known when this is compiled, or the sums would be
/// put down and fetched again for every vector of rows.
#[inline(always)]
fn sweep_stretch<S: Simd, const GANG: usize, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    columns: [&[f64; ROWS]; GANG],
    keys: [ColumnKey; GANG],
    sums: &mut [MomentSums; GANG],
    hashes: &mut [u64; ROWS],
) {
    debug_assert_eq!(VECTORS * S::F64_LANES, LANES);
    let zero = simd.splat_f64s(0.0);
    let (mut shifts, mut sum, mut squares) = ([zero; GANG], [[zero; VECTORS]; GANG], [[zero; VECTORS]; GANG]);
    for c in 0..GANG {
        shifts[c] = simd.splat_f64s(sums[c].shift_from(columns[c]));
        sum[c] = few::<S, VECTORS>(&sums[c].sum)[0];
        squares[c] = few::<S, VECTORS>(&sums[c].squares)[0];
    }
    let columns = columns.map(|values| values.as_chunks::<LANES>().0);
    for (at, hashes) in hashes.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let mut next = *hashes;
        for c in 0..GANG {
            let x = &columns[c][at];
            for l in 0..LANES {
                next[l] = keys[c].add_number(next[l], x[l]);
            }
            let x = &few::<S, VECTORS>(x)[0];
            for v in 0..VECTORS {
                let x = simd.sub_f64s(x[v], shifts[c]);
                sum[c][v] = simd.add_f64s(sum[c][v], x);
                squares[c][v] = simd.mul_add_f64s(x, x, squares[c][v]);
            }
        }
        *hashes = next;
    }
    for c in 0..GANG {
        few_mut::<S, VECTORS>(&mut sums[c].sum)[0] = sum[c];
        few_mut::<S, VECTORS>(&mut sums[c].squares)[0] = squares[c];
        sums[c].mass[0] += ROWS as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::block::Segment;
    use crate::encoding::survey::tests::numbers;

    /// Sums of a column by a plain loop, in the order that vectors add in.
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
    fn moments_of_parts_are_those_of_the_whole() {
        let merged = |parts: &[Moments]| {
            let mut all = Moments::default();
            parts.iter().for_each(|part| all.merge(*part));
            (all.mass, all.mean, all.squares)
        };
        let part = |mass: f64, mean: f64, squares: f64| Moments { mass, mean, squares };
        assert_eq!(merged(&[part(1.0, 0.0, 0.5), part(3.0, 4.0, 1.0)]), (4.0, 3.0, 13.5));
        // Large means, and weights whose products are too large or too small.
        assert_eq!(merged(&[part(100.0, 1e160, 0.0)]), (100.0, 1e160, 0.0));
        assert_eq!(merged(&[part(1e-170, 0.0, 0.0), part(1e-170, 1.0, 0.0)]), (2e-170, 0.5, 5e-171));
        assert_eq!(merged(&[part(1e160, 2.0, 0.0), part(1e160, 2.0, 0.0)]), (2e160, 2.0, 0.0));
        // Of no weight, but with a value that is no number.
        assert!(merged(&[part(1.0, 2.0, 3.0), part(0.0, f64::NAN, f64::NAN)]).2.is_nan());
    }

    #[test]
    fn columns_together_have_the_bits_of_each_alone() {
        type Run<'a> = &'a dyn Fn(Sweeping<'_>);
        let runs: [Run<'_>; 5] = [
            &|sweeping| with_vectors(sweeping),
            &|sweeping| sweeping.with_simd(pulp::Scalar),
            &|sweeping| sweeping.with_simd(pulp::Scalar128b),
            &|sweeping| sweeping.with_simd(pulp::Scalar256b),
            &|sweeping| sweeping.with_simd(pulp::Scalar512b),
        ];
        // One stretch, and one vector of rows beyond it.
        let some = STRETCH + LANES;
        for (width, len) in
            (1..15).flat_map(|width| [1, 7, 8, 39, 255, 256, 301, 2049].map(|len| (width, len)))
        {
            let columns: Vec<Vec<f64>> = (0..width).map(|seed| numbers(len, seed)).collect();
            let expected: Vec<MomentSums> = columns.iter().map(|values| plain_sums(values)).collect();
            let numbers = columns.iter().map(|values| Column::Number(values.clone().into()));
            let block = Block::new(0, 0, Segment { columns: numbers.collect(), len });
            let hasher = RowHasher::new(&block);
            for run in runs {
                let mut sums = vec![MomentSums::default(); width as usize];
                let mut fingerprint = Fingerprint::default();
                for start in (0..len).step_by(some) {
                    let rows = start..len.min(start + some);
                    let columns: Vec<&[f64]> = columns.iter().map(|values| &values[rows.clone()]).collect();
                    let mut hashes = vec![0; rows.len()];
                    let keys = hasher.keys(0..width as usize);
                    run(Sweeping { columns: &columns, keys, sums: &mut sums, hashes: &mut hashes });
                    fingerprint.merge(Fingerprint::of_hashes(&hashes));
                }
                for (sums, expected) in sums.iter().zip(&expected) {
                    let parts = |sums: &MomentSums| (sums.shift, sums.mass, sums.sum, sums.squares);
                    assert_eq!(parts(sums), parts(expected), "{width} columns, {len} rows");
                }
                assert_eq!(fingerprint, Fingerprint::of(&block), "{width} columns, {len} rows");
            }
        }
    }
}
