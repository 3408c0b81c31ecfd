//! A sparse form of points whose columns mostly have one value, as with levels of text and rare events: only the
//! differences from that value are stored, in groups of eight rows.
//!
//! With an intercept, `z_0 = y`, and a column that was centred is `z_j = b_j z_0 + e_j` with `e_j = 0` for most rows.
//! So `z·θ = z_0 (Σ_j b_j θ_j) + Σ_j e_j θ_j`, and `∂L/∂θ_j = b_j Σ w σ z_0 + Σ w σ e_j`. Without an intercept, `b = 0`.

use crate::base::math::{total, vectorized};
use crate::data::points::{Lane, Points, TILE};
use crate::model::likelihood::{LANES, Part, add_rows, groups, losses_and_pulls};

/// Cost of a stored column relative to a column of a dense tile.
const THIN: f64 = 0.5;

/// The largest number of rows; coresets have fewer. The sparse form is a second copy that no memory limit accounts for.
const MOST_ROWS: usize = 100_000;

/// The points in sparse form, in another order.
#[derive(Clone, Debug)]
pub(super) struct ThinPoints {
    /// `b_j`; 1 for the intercept itself.
    base: Vec<f64>,
    tiles: Vec<ThinTile>,
    /// For each group, the columns that differ from `b_j z_0` in some row, and the differences.
    columns: Vec<u32>,
    differences: Vec<Eight>,
}

#[derive(Clone, Debug)]
struct ThinTile {
    w: Lane,
    /// `z_0`, or 0 without an intercept.
    y: Lane,
    /// Where the columns of each group end.
    ends: [usize; TILE / LANES],
}

/// One number per row of a group, aligned like a [`Lane`].
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Eight(Part);

impl ThinPoints {
    /// The points in this form, if they are sparse enough for it to be faster.
    pub fn of(points: &Points) -> Option<ThinPoints> {
        let (dim, len) = (points.dim(), points.len());
        if len > MOST_ROWS {
            return None;
        }
        let z = |n: usize, j: usize| points.tile(n / TILE).z[j][n % TILE];
        let intercept = dim > 0 && (0..len).all(|n| z(n, 0).abs() == 1.0);
        let y = |n: usize| if intercept { z(n, 0) } else { 0.0 };
        let base =
            |j: usize| if intercept { shared_by_most((0..len).map(|n| z(n, j) * z(n, 0))) } else { 0.0 };
        let base: Vec<f64> = (0..dim).map(base).collect();
        let difference = |n: usize, j: usize| z(n, j) - base[j] * y(n);

        // One bit per column that differs. If this many differ, no order of the rows helps.
        let most = (THIN * (dim * len.div_ceil(LANES)) as f64) as usize;
        let words = dim.div_ceil(64);
        let mut differs = vec![0u64; len * words];
        let mut count = 0;
        for (n, differs) in differs.chunks_exact_mut(words.max(1)).enumerate() {
            for j in (0..dim).filter(|&j| difference(n, j) != 0.0) {
                differs[j / 64] |= 1 << (63 - j % 64);
                count += 1;
            }
            if count > most * LANES {
                return None;
            }
        }
        let differs = |n: usize| &differs[n * words..(n + 1) * words];

        // Sorts rows that differ in the same columns next to each other.
        let mut order: Vec<usize> = (0..len).collect();
        order.sort_unstable_by(|&a, &b| differs(a).cmp(differs(b)).then(a.cmp(&b)));
        let mut tiles = Vec::new();
        let (mut columns, mut differences) = (Vec::new(), Vec::new());
        for rows in order.chunks(TILE) {
            let mut tile = ThinTile { w: Lane::ZERO, y: Lane::ZERO, ends: [0; TILE / LANES] };
            for (r, &n) in rows.iter().enumerate() {
                (tile.w[r], tile.y[r]) = (points.weight(n), y(n));
            }
            for (g, end) in tile.ends.iter_mut().enumerate() {
                let group = rows.chunks(LANES).nth(g).unwrap_or(&[]);
                for j in (0..dim).filter(|&j| group.iter().any(|&n| difference(n, j) != 0.0)) {
                    let mut eight = Eight([0.0; LANES]);
                    for (value, &n) in eight.0.iter_mut().zip(group) {
                        *value = difference(n, j);
                    }
                    columns.push(j as u32);
                    differences.push(eight);
                }
                *end = columns.len();
            }
            tiles.push(tile);
        }
        (columns.len() <= most).then_some(ThinPoints { base, tiles, columns, differences })
    }

    /// `L(θ)`; its gradient is written to `gradient`.
    pub fn value_and_gradient(
        &self,
        theta: &[f64],
        gradient: &mut [f64],
        scratch: &mut Vec<[f64; 8]>,
    ) -> f64 {
        scratch.clear();
        scratch.resize(self.base.len(), [0.0; LANES]);
        let (mut loss, mut common) = ([0.0; LANES], [0.0; LANES]);
        vectorized(
            #[inline(always)]
            || self.add_all(theta, &mut loss, &mut common, scratch),
        );
        let common = total(&common);
        for ((gradient, part), base) in gradient.iter_mut().zip(scratch.iter()).zip(&self.base) {
            *gradient = base.mul_add(common, total(part));
        }
        -total(&loss)
    }

    /// Adds `w φ`, `w σ y` and `w σ e_j` of all rows to the parts of their sums.
    #[inline(always)]
    fn add_all(&self, theta: &[f64], loss_sum: &mut Part, common: &mut Part, sums: &mut [Part]) {
        let shared: f64 = self.base.iter().zip(theta).map(|(b, t)| b * t).sum();
        let mut start = 0;
        for tile in &self.tiles {
            let (mut margin, mut loss, mut pull) = (Lane::ZERO, Lane::ZERO, Lane::ZERO);
            let first = start;
            for (g, &end) in tile.ends.iter().enumerate() {
                let mut sum = groups(&tile.y)[g];
                for sum in &mut sum {
                    *sum *= shared;
                }
                for (&column, difference) in
                    self.columns[start..end].iter().zip(&self.differences[start..end])
                {
                    let coefficient = theta[column as usize];
                    for (sum, difference) in sum.iter_mut().zip(&difference.0) {
                        *sum = difference.mul_add(coefficient, *sum);
                    }
                }
                margin[g * LANES..(g + 1) * LANES].copy_from_slice(&sum);
                start = end;
            }
            losses_and_pulls(&tile.w, &margin, &mut loss, &mut pull);
            add_rows(&loss, loss_sum);
            start = first;
            for (g, &end) in tile.ends.iter().enumerate() {
                let (pull, y) = (&groups(&pull)[g], &groups(&tile.y)[g]);
                for l in 0..LANES {
                    common[l] = pull[l].mul_add(y[l], common[l]);
                }
                for (&column, difference) in
                    self.columns[start..end].iter().zip(&self.differences[start..end])
                {
                    let sum = &mut sums[column as usize];
                    for l in 0..LANES {
                        sum[l] = pull[l].mul_add(difference.0[l], sum[l]);
                    }
                }
                start = end;
            }
        }
    }
}

/// The value that more than half of them have (by Boyer and Moore's majority vote), or 0.
fn shared_by_most(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let (mut leader, mut lead) = (0.0, 0usize);
    for value in values.clone() {
        match lead {
            0 => (leader, lead) = (value, 1),
            _ if value == leader => lead += 1,
            _ => lead -= 1,
        }
    }
    let (mut votes, mut all) = (0, 0);
    for value in values {
        votes += usize::from(value == leader);
        all += 1;
    }
    if 2 * votes > all { leader } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Seed, open_unit};
    use crate::model::likelihood::value_and_gradient;

    /// Rows like those of an encoding: an optional intercept, numbers, and columns that are mostly 0, centred or not.
    fn points(dim: usize, len: usize, intercept: bool, rare: f64, seed: u64) -> Points {
        let mut rng = Seed(seed).stream(Purpose::Generate, 0);
        let mut unit = || open_unit(&mut rng);
        let mut points = Points::new(dim);
        for _ in 0..len {
            let y = if unit() < 0.4 { 1.0 } else { -1.0 };
            let z: Vec<f64> = (0..dim)
                .map(|j| match j {
                    0 if intercept => y,
                    0..3 => y * (2.0 * unit() - 1.0),
                    _ if intercept => y * if unit() < rare { 3.7 } else { -0.3 },
                    _ => y * if unit() < rare { 4.0 } else { 0.0 },
                })
                .collect();
            points.push(&z, 0.1 + unit());
        }
        points
    }

    #[test]
    fn they_have_the_same_value_and_gradient() {
        for (seed, (dim, len, intercept)) in [
            (20, 300, true),
            (20, 300, false),
            (9, 1, true),
            (40, 129, true),
            (40, 128, false),
            (17, 7, true),
        ]
        .into_iter()
        .enumerate()
        {
            let points = points(dim, len, intercept, 0.03, seed as u64);
            let thin = ThinPoints::of(&points).expect("thin points");
            let mut rng = Seed(9).stream(Purpose::Generate, seed as u64);
            for reach in [0.1, 2.0, 30.0] {
                let theta: Vec<f64> = (0..dim).map(|_| reach * (2.0 * open_unit(&mut rng) - 1.0)).collect();
                let (mut ours, mut plain) = (vec![0.0; dim], vec![0.0; dim]);
                let value = thin.value_and_gradient(&theta, &mut ours, &mut Vec::new());
                let expected = value_and_gradient(&points, &theta, &mut plain, &mut Vec::new());
                let size = 4.0 * points.weights().iter().sum::<f64>();
                assert!(
                    (value - expected).abs() <= 1e-13 * (size * reach * dim as f64),
                    "{value} {expected}"
                );
                for (ours, plain) in ours.iter().zip(&plain) {
                    assert!(
                        (ours - plain).abs() <= 1e-13 * size * reach.max(1.0) * dim as f64,
                        "{ours} {plain}"
                    );
                }
            }
        }
    }

    #[test]
    fn only_differences_are_stored_and_similar_rows_are_grouped() {
        let points = points(40, 640, true, 0.02, 5);
        let thin = ThinPoints::of(&points).expect("thin points");
        // Two columns of numbers in each of 80 groups; 37 columns that each differ in about 13 rows of 640.
        assert!(thin.columns.len() > 160 && thin.columns.len() < 160 + 37 * 20, "{}", thin.columns.len());
        assert_eq!(
            thin.tiles.iter().map(|tile| tile.w.iter().sum::<f64>()).sum::<f64>().round(),
            points.weights().iter().sum::<f64>().round()
        );
    }

    #[test]
    fn dense_points_have_no_sparse_form() {
        assert!(ThinPoints::of(&points(12, 500, true, 0.5, 1)).is_none());
        assert!(ThinPoints::of(&points(3, 500, false, 0.0, 1)).is_none());
    }

    #[test]
    fn a_value_must_be_shared_by_more_than_half() {
        let shared = |values: &[f64]| shared_by_most(values.iter().copied());
        assert_eq!(shared(&[1.0, 2.0, 2.0, 3.0, 2.0]), 2.0);
        assert_eq!(shared(&[1.0, 2.0, 2.0, 1.0]), 0.0);
        assert_eq!(shared(&[]), 0.0);
        assert_eq!(shared(&[f64::NAN, f64::NAN]), 0.0);
    }
}
