//! The weighted logistic log-likelihood `L(θ) = −Σ w_n φ(z_n·θ)`, with gradient and Hessian, in one sweep over the tiles.
//!
//! `φ(s) = ln(1+e^{−s})`, so `∇L = Σ w σ z` and `−∇²L = Σ w σ(1−σ) z zᵀ` with `σ = 1/(1+e^{s})`, `s = z·θ`.
//! Every sum is accumulated in `LANES` interleaved parts, so that it vectorises and still gives the same bits on every
//! processor.

use rayon::prelude::*;

use crate::base::math::{softplus_and_slope, total, vectorized};
use crate::data::points::{Lane, Points, TILE, Tile};

/// Number of interleaved parts of every sum over rows.
pub(super) const LANES: usize = 8;

pub(super) type Part = [f64; LANES];

/// Rows of a lane as groups of [`LANES`].
#[inline(always)]
pub(super) fn groups(lane: &Lane) -> &[Part; TILE / LANES] {
    let (groups, _) = lane.as_chunks::<LANES>();
    groups.first_chunk().expect("TILE is a multiple of LANES")
}

/// `s_n = z_n·θ` for the rows of a tile.
#[inline(always)]
pub(crate) fn margins(tile: &Tile<'_>, theta: &[f64], margin: &mut Lane) {
    const ROWS: usize = 4 * LANES;
    for start in (0..TILE).step_by(ROWS) {
        let mut sum = [0.0; ROWS];
        for (z, &coefficient) in tile.z.iter().zip(theta) {
            let z: &[f64; ROWS] = z[start..].first_chunk().expect("TILE is a multiple of ROWS");
            for (sum, z) in sum.iter_mut().zip(z) {
                *sum = z.mul_add(coefficient, *sum);
            }
        }
        margin[start..start + ROWS].copy_from_slice(&sum);
    }
}

/// Adds `Σ_r a_r z_{rd}` to the parts of each column `d`.
#[inline(always)]
pub(super) fn add_columns(tile: &Tile<'_>, a: &Lane, sums: &mut [Part]) {
    let a = groups(a);
    for (z, sum) in tile.z.iter().zip(sums) {
        let (z, mut s) = (groups(z), *sum);
        for g in 0..TILE / LANES {
            for l in 0..LANES {
                s[l] = a[g][l].mul_add(z[g][l], s[l]);
            }
        }
        *sum = s;
    }
}

/// `w φ(s)` and `w σ(−s)` for the rows of a tile. The loop accumulates no sum, because then it would not vectorise.
#[inline(always)]
pub(super) fn losses_and_pulls(w: &Lane, margin: &Lane, loss: &mut Lane, pull: &mut Lane) {
    for r in 0..TILE {
        let (softplus, slope) = softplus_and_slope(margin[r]);
        loss[r] = w[r] * softplus;
        pull[r] = w[r] * slope;
    }
}

/// Adds the rows of a lane to the parts of a sum.
#[inline(always)]
pub(super) fn add_rows(lane: &Lane, sum: &mut Part) {
    for group in groups(lane) {
        for l in 0..LANES {
            sum[l] += group[l];
        }
    }
}

/// Adds one tile to the parts of the sums of value and gradient.
#[inline(always)]
fn value_and_gradient_of_tile(tile: &Tile<'_>, theta: &[f64], loss_sum: &mut Part, gradient: &mut [Part]) {
    let (mut margin, mut loss, mut pull) = (Lane::ZERO, Lane::ZERO, Lane::ZERO);
    margins(tile, theta, &mut margin);
    losses_and_pulls(tile.w, &margin, &mut loss, &mut pull);
    add_rows(&loss, loss_sum);
    add_columns(tile, &pull, gradient);
}

/// `L(θ)`; its gradient is written to `gradient`. `scratch` is working memory that is reused between calls.
pub fn value_and_gradient(
    points: &Points,
    theta: &[f64],
    gradient: &mut [f64],
    scratch: &mut Vec<[f64; 8]>,
) -> f64 {
    scratch.clear();
    scratch.resize(points.dim(), [0.0; LANES]);
    let mut loss = [0.0; LANES];
    vectorized(
        #[inline(always)]
        || {
            for tile in points.tiles() {
                value_and_gradient_of_tile(&tile, theta, &mut loss, scratch);
            }
        },
    );
    for (gradient, part) in gradient.iter_mut().zip(scratch.iter()) {
        *gradient = total(part);
    }
    -total(&loss)
}

/// The log-likelihood `L(θ)` alone.
pub fn value(points: &Points, theta: &[f64]) -> f64 {
    let mut sum = [0.0; LANES];
    vectorized(
        #[inline(always)]
        || {
            for tile in points.tiles() {
                let (mut margin, mut loss, mut pull) = (Lane::ZERO, Lane::ZERO, Lane::ZERO);
                margins(&tile, theta, &mut margin);
                losses_and_pulls(tile.w, &margin, &mut loss, &mut pull);
                add_rows(&loss, &mut sum);
            }
        },
    );
    -total(&sum)
}

/// `s_n = z_n·θ` for the rows of a tile and four parameters: each `z` is loaded once for all four.
#[inline(always)]
fn margins_of_four(tile: &Tile<'_>, theta: [&[f64]; 4], margin: &mut [Lane; 4]) {
    let dim = tile.z.len();
    let theta = theta.map(|theta| &theta[..dim]);
    for start in (0..TILE).step_by(LANES) {
        let mut sum = [[0.0; LANES]; 4];
        for (d, z) in tile.z.iter().enumerate() {
            let z: &Part = z[start..].first_chunk().expect("TILE is a multiple of LANES");
            for k in 0..4 {
                let coefficient = theta[k][d];
                for l in 0..LANES {
                    sum[k][l] = z[l].mul_add(coefficient, sum[k][l]);
                }
            }
        }
        for k in 0..4 {
            margin[k][start..start + LANES].copy_from_slice(&sum[k]);
        }
    }
}

/// Accumulates the log-likelihood at many parameters, tile by tile.
#[derive(Clone, Debug)]
pub struct ValueSums {
    loss: Vec<Part>,
}

impl ValueSums {
    /// Empty sums for this many parameters.
    pub fn new(parameters: usize) -> ValueSums {
        ValueSums { loss: vec![[0.0; LANES]; parameters] }
    }

    /// Adds one tile; the parameters must be the same for all tiles.
    pub fn add_tile(&mut self, tile: &Tile<'_>, theta: &[Vec<f64>]) {
        vectorized(
            #[inline(always)]
            || {
                let mut margin = [Lane::ZERO; 4];
                for (theta, sums) in theta.chunks(4).zip(self.loss.chunks_mut(4)) {
                    if let [a, b, c, d] = theta {
                        margins_of_four(tile, [a, b, c, d], &mut margin);
                    } else {
                        for (theta, margin) in theta.iter().zip(&mut margin) {
                            margins(tile, theta, margin);
                        }
                    }
                    for (sum, margin) in sums.iter_mut().zip(&margin) {
                        let mut loss = Lane::ZERO;
                        for r in 0..TILE {
                            loss[r] = tile.w[r] * softplus_and_slope(margin[r]).0;
                        }
                        add_rows(&loss, sum);
                    }
                }
            },
        );
    }

    /// `L(θ)` for each parameter.
    pub fn finish(&self) -> Vec<f64> {
        self.loss.iter().map(|loss| -total(loss)).collect()
    }
}

/// For the rows of a tile what the expansion of their log-likelihood about `origin` to second order leaves out, without their
/// weights: `−φ(s + t) + φ(s) + φ'(s) t + ½ φ''(s) t²` with `s = z·origin` and `t = z·(θ − origin)`, one lane for each `θ`.
pub(crate) fn remainders(tile: &Tile<'_>, origin: &[f64], theta: &[Vec<f64>], remainders: &mut [Lane]) {
    vectorized(
        #[inline(always)]
        || {
            let (mut start, mut losses) = (Lane::ZERO, Lane::ZERO);
            let (mut pulls, mut curvatures) = (Lane::ZERO, Lane::ZERO);
            margins(tile, origin, &mut start);
            for r in 0..TILE {
                (losses[r], pulls[r]) = softplus_and_slope(start[r]);
                curvatures[r] = pulls[r] * (1.0 - pulls[r]);
            }
            let mut margin = Lane::ZERO;
            for (theta, remainder) in theta.iter().zip(remainders) {
                margins(tile, theta, &mut margin);
                for r in 0..TILE {
                    let t = margin[r] - start[r];
                    let change = softplus_and_slope(margin[r]).0 - losses[r];
                    remainder[r] = t * (0.5 * curvatures[r] * t - pulls[r]) - change;
                }
            }
        },
    );
}

/// Value, gradient and Hessian of the log-likelihood of some rows; those of other rows can be added.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Curvature {
    /// `L(θ)`.
    pub value: f64,
    /// `∇L(θ)`.
    pub gradient: Vec<f64>,
    /// `−∇²L(θ)`, row by row; row `i` has only the entries `j ≤ i`. See [`Curvature::entry`].
    pub hessian: Vec<f64>,
    /// The expected weight of wrongly predicted rows, `Σ w σ(−s)`: near 0 only if the classes are separated.
    pub misfit: f64,
}

impl Curvature {
    /// Sums over no rows.
    pub fn new(dim: usize) -> Curvature {
        Curvature { value: 0.0, gradient: vec![0.0; dim], hessian: vec![0.0; dim * dim], misfit: 0.0 }
    }

    /// The sums of all points.
    pub fn of_points(points: &Points, theta: &[f64]) -> Curvature {
        let mut sums = CurvatureSums::new(points.dim());
        for tile in points.tiles() {
            sums.add_tile(&tile, theta);
        }
        sums.finish()
    }

    /// Entry `(i, j)` of `−∇²L(θ)`.
    pub fn entry(&self, i: usize, j: usize) -> f64 {
        self.hessian[i.max(j) * self.gradient.len() + i.min(j)]
    }

    /// Adds the sums of other rows.
    pub fn merge(&mut self, other: &Curvature) {
        self.value += other.value;
        self.misfit += other.misfit;
        for (sum, more) in self.gradient.iter_mut().zip(&other.gradient) {
            *sum += more;
        }
        for (sum, more) in self.hessian.iter_mut().zip(&other.hessian) {
            *sum += more;
        }
    }

    /// The sums with all weights multiplied by a factor.
    pub fn times(&self, factor: f64) -> Curvature {
        let times = |sums: &[f64]| sums.iter().map(|sum| factor * sum).collect();
        Curvature {
            value: factor * self.value,
            gradient: times(&self.gradient),
            hessian: times(&self.hessian),
            misfit: factor * self.misfit,
        }
    }

    /// The difference of these sums and others.
    pub fn minus(&self, other: &Curvature) -> Curvature {
        let minus = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect();
        Curvature {
            value: self.value - other.value,
            gradient: minus(&self.gradient, &other.gradient),
            hessian: minus(&self.hessian, &other.hessian),
            misfit: self.misfit - other.misfit,
        }
    }
}

/// Accumulates a [`Curvature`] at one parameter, tile by tile.
#[derive(Clone, Debug)]
pub struct CurvatureSums {
    loss: Part,
    misfit: Part,
    gradient: Vec<Part>,
    /// Blocks of three rows and two columns of the lower triangle, strip by strip (see [`blocks`]).
    hessian: Vec<[Part; 6]>,
    /// `w σ(1−σ) z` of the current tile.
    weighted: Vec<Lane>,
}

/// The positions of the blocks in the lower triangle: first row and first column.
fn blocks(dim: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..dim).step_by(3).flat_map(move |i| (0..dim.min(i + 3)).step_by(2).map(move |j| (i, j)))
}

impl CurvatureSums {
    /// Sums over no rows.
    pub fn new(dim: usize) -> CurvatureSums {
        CurvatureSums {
            loss: [0.0; LANES],
            misfit: [0.0; LANES],
            gradient: vec![[0.0; LANES]; dim],
            hessian: vec![[[0.0; LANES]; 6]; blocks(dim).count()],
            weighted: vec![Lane::ZERO; dim],
        }
    }

    /// Adds one tile.
    pub fn add_tile(&mut self, tile: &Tile<'_>, theta: &[f64]) {
        vectorized(
            #[inline(always)]
            || {
                let mut margin = Lane::ZERO;
                margins(tile, theta, &mut margin);
                self.add_tile_at(tile, &margin);
            },
        );
    }

    /// The accumulated sums.
    pub fn finish(&self) -> Curvature {
        let dim = self.gradient.len();
        let mut hessian = vec![0.0; dim * dim];
        for ((i, j), block) in blocks(dim).zip(&self.hessian) {
            for (k, part) in block.iter().enumerate() {
                let (row, column) = (i + k / 2, j + k % 2);
                // A block may extend beyond the edge or the diagonal.
                if row < dim && column <= row {
                    hessian[row * dim + column] = total(part);
                }
            }
        }
        Curvature {
            value: -total(&self.loss),
            gradient: self.gradient.iter().map(total).collect(),
            hessian,
            misfit: total(&self.misfit),
        }
    }

    /// Adds one tile whose margins are known. Returns the rows' `w σ` and `w σ(1−σ)`.
    #[inline(always)]
    pub(crate) fn add_tile_at(&mut self, tile: &Tile<'_>, margin: &Lane) -> (Lane, Lane) {
        let (mut loss, mut pull, mut stiffness) = (Lane::ZERO, Lane::ZERO, Lane::ZERO);
        for r in 0..TILE {
            let (softplus, slope) = softplus_and_slope(margin[r]);
            loss[r] = tile.w[r] * softplus;
            pull[r] = tile.w[r] * slope;
            stiffness[r] = pull[r] * (1.0 - slope);
        }
        add_rows(&loss, &mut self.loss);
        add_rows(&pull, &mut self.misfit);
        add_columns(tile, &pull, &mut self.gradient);
        for (z, weighted) in tile.z.iter().zip(&mut self.weighted) {
            for r in 0..TILE {
                weighted[r] = z[r] * stiffness[r];
            }
        }
        let last = tile.z.len().saturating_sub(1);
        let mut sums = self.hessian.iter_mut();
        for i in (0..tile.z.len()).step_by(3) {
            let rows = [i, (i + 1).min(last), (i + 2).min(last)].map(|row| groups(&self.weighted[row]));
            for j in (0..(last + 1).min(i + 3)).step_by(2) {
                let columns = [j, (j + 1).min(last)].map(|column| groups(&tile.z[column]));
                if let Some(sums) = sums.next() {
                    add_products(rows, columns, sums);
                }
            }
        }
        (pull, stiffness)
    }
}

/// Adds the products of three lanes with two. The sums use twelve four-wide registers, the most that fit without spilling.
#[inline(always)]
fn add_products(
    [a, b, c]: [&[Part; TILE / LANES]; 3],
    [x, y]: [&[Part; TILE / LANES]; 2],
    sums: &mut [Part; 6],
) {
    let [mut ax, mut ay, mut bx, mut by, mut cx, mut cy] = *sums;
    for g in 0..TILE / LANES {
        for l in 0..LANES {
            ax[l] = a[g][l].mul_add(x[g][l], ax[l]);
            ay[l] = a[g][l].mul_add(y[g][l], ay[l]);
            bx[l] = b[g][l].mul_add(x[g][l], bx[l]);
            by[l] = b[g][l].mul_add(y[g][l], by[l]);
            cx[l] = c[g][l].mul_add(x[g][l], cx[l]);
            cy[l] = c[g][l].mul_add(y[g][l], cy[l]);
        }
    }
    *sums = [ax, ay, bx, by, cx, cy];
}

/// `L(θ)` of weighted points at each of many parameters; the work is shared among the threads.
pub(crate) fn values(points: &Points, theta: &[Vec<f64>]) -> Vec<f64> {
    const PARAMETERS: usize = 16;
    theta
        .par_chunks(PARAMETERS)
        .flat_map_iter(|theta| {
            let mut sums = ValueSums::new(theta.len());
            points.tiles().for_each(|tile| sums.add_tile(&tile, theta));
            sums.finish()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A plain version: row by row, with the functions of the standard library.
    fn plainly(points: &Points, theta: &[f64]) -> Curvature {
        let dim = points.dim();
        let mut sums = Curvature::new(dim);
        for n in 0..points.len() {
            let (z, w) = (points.row(n), points.weight(n));
            let s: f64 = z.iter().zip(theta).map(|(z, t)| z * t).sum();
            let slope = if s > 0.0 { (-s).exp() / (1.0 + (-s).exp()) } else { 1.0 / (1.0 + s.exp()) };
            sums.value -= w * ((-s).max(0.0) + (-s.abs()).exp().ln_1p());
            sums.misfit += w * slope;
            for i in 0..dim {
                sums.gradient[i] += w * slope * z[i];
                for j in 0..=i {
                    sums.hessian[i * dim + j] += w * slope * (1.0 - slope) * z[i] * z[j];
                }
            }
        }
        sums
    }

    fn points_and_theta() -> impl Strategy<Value = (Points, Vec<f64>)> {
        (1usize..14, 0usize..300).prop_flat_map(|(dim, len)| {
            let rows = proptest::collection::vec(
                (proptest::collection::vec(-3.0..3.0f64, dim), 0.01..100.0f64),
                len,
            );
            (rows, proptest::collection::vec(-2.0..2.0f64, dim)).prop_map(move |(rows, theta)| {
                (Points::from_rows(dim, rows.iter().map(|(z, w)| (z.as_slice(), *w))), theta)
            })
        })
    }

    fn near(a: f64, b: f64, size: f64) -> bool {
        (a - b).abs() <= 1e-12 * (1.0 + size)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn values_at_many_parameters_are_those_at_each((points, theta) in points_and_theta(), count in 0usize..10) {
            let many: Vec<Vec<f64>> =
                (0..count).map(|k| theta.iter().map(|t| t * (1.0 - 0.3 * k as f64)).collect()).collect();
            let mut sums = ValueSums::new(count);
            points.tiles().for_each(|tile| sums.add_tile(&tile, &many));
            for (theta, found) in many.iter().zip(sums.finish()) {
                let size: f64 = points.weights().iter().sum::<f64>() * 9.0;
                prop_assert!(near(found, plainly(&points, theta).value, size));
            }
        }

        #[test]
        fn the_fast_sweeps_agree_with_the_plain_one((points, theta) in points_and_theta()) {
            let plain = plainly(&points, &theta);
            let fast = Curvature::of_points(&points, &theta);
            let size: f64 = points.weights().iter().sum::<f64>() * 9.0;
            let mut gradient = vec![0.0; points.dim()];
            let alone = value_and_gradient(&points, &theta, &mut gradient, &mut Vec::new());
            prop_assert!(near(fast.value, plain.value, size));
            prop_assert!(near(alone, plain.value, size));
            prop_assert!(near(value(&points, &theta), plain.value, size));
            prop_assert!(near(fast.misfit, plain.misfit, size));
            for (i, alone) in gradient.iter().enumerate() {
                prop_assert!(near(fast.gradient[i], plain.gradient[i], size));
                prop_assert!(near(*alone, plain.gradient[i], size));
                for j in 0..points.dim() {
                    prop_assert!(near(fast.entry(i, j), plain.entry(i, j), size));
                }
            }
        }

        #[test]
        fn the_gradient_is_the_slope_of_the_value((points, theta) in points_and_theta()) {
            let mut gradient = vec![0.0; points.dim()];
            value_and_gradient(&points, &theta, &mut gradient, &mut Vec::new());
            let size: f64 = points.weights().iter().sum::<f64>() * 27.0;
            for (i, gradient) in gradient.iter().enumerate() {
                let step = 1e-5;
                let at = |x: f64| {
                    let mut theta = theta.clone();
                    theta[i] += x;
                    value(&points, &theta)
                };
                let slope = (at(step) - at(-step)) / (2.0 * step);
                prop_assert!((slope - gradient).abs() <= 1e-9 * (1.0 + size), "{slope} {gradient}");
            }
        }
    }

    #[test]
    fn the_likelihood_is_linear_far_out() {
        // One row with z·θ = ∓1e4: φ(−1e4) = 1e4 exactly, φ(1e4) = 0.
        let points = Points::from_rows(2, [([1.0, 2.0].as_slice(), 3.0)]);
        let mut gradient = [0.0; 2];
        let bad = value_and_gradient(&points, &[-2e3, -4e3], &mut gradient, &mut Vec::new());
        assert_eq!(bad, -3e4);
        assert_eq!(gradient, [3.0, 6.0]);
        let good = value_and_gradient(&points, &[2e3, 4e3], &mut gradient, &mut Vec::new());
        assert!(good <= 0.0 && good > -1e-300);
        assert!(gradient.iter().all(|g| (0.0..1e-300).contains(g)));
        let curvature = Curvature::of_points(&points, &[2e3, 4e3]);
        assert!(curvature.hessian.iter().all(|h| h.is_finite()));
    }

    #[test]
    fn a_parameter_that_is_not_finite_is_not_taken_for_a_good_one() {
        let points = Points::from_rows(1, [([1.0].as_slice(), 1.0)]);
        let mut gradient = [0.0];
        assert!(value_and_gradient(&points, &[f64::NAN], &mut gradient, &mut Vec::new()).is_nan());
    }

    #[test]
    fn sums_merge() {
        let rows: Vec<[f64; 2]> =
            (0..400).map(|n| [f64::from(n % 7) - 3.0, f64::from(n % 5) - 2.0]).collect();
        let points = |rows: &[[f64; 2]]| Points::from_rows(2, rows.iter().map(|z| (z.as_slice(), 1.5)));
        let theta = [0.3, -0.2];
        let mut merged = Curvature::of_points(&points(&rows[..256]), &theta);
        merged.merge(&Curvature::of_points(&points(&rows[256..]), &theta));
        let whole = Curvature::of_points(&points(&rows), &theta);
        assert!(near(merged.value, whole.value, 1e3) && near(merged.hessian[2], whole.hessian[2], 1e3));
    }
}
