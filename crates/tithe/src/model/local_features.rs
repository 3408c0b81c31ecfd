//! Local features: the contribution of each point to the gradient and the Hessian of the log-likelihood at a pilot, in units of the
//! posterior standard deviation.
//!
//! Let `θ̂` be the pilot, `H` the negative log-posterior's Hessian there, `H = LLᵀ`, `C = L⁻ᵀ`, so that
//! `CCᵀ = H⁻¹`. With `u = Cᵀz`, `g = φ'(z·θ̂)` and `h = φ''(z·θ̂)` the feature vector of a point is
//! `F(z) = [g·u/√2 ; (h/2)·svec(uuᵀ)]`, and `KL ≈ ‖Σ_m w_m F(z_m) − b‖²` to second order, where `b` is the
//! same sum over the full data. The `d = D + D(D+1)/2` entries are never stored: `svec` is an isometry, so a sum of features is a vector
//! and a symmetric matrix, and every inner product has a closed form.

use faer::reborrow::ReborrowMut;
use faer::{Mat, MatRef};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::linear::{Cholesky, add_lower_product, add_product, invert_lower, product};
use crate::base::math::{exp_nonpositive, vectorized};
use crate::data::points::{Lane, Points, TILE, Tile};

/// Points per parallel task; fixed, so that sums do not depend on the number of threads.
const CHUNK: usize = 512;

/// `φ'(s) = −1/(1+eˢ)` and `φ''(s) = 1/((1+eˢ)(1+e⁻ˢ))`.
#[inline(always)]
pub(crate) fn slope_and_curvature(s: f64) -> (f64, f64) {
    let e = exp_nonpositive(-s.abs());
    let half = 1.0 / (1.0 + e);
    let slope = if s > 0.0 { -e * half } else { -half };
    (slope, e * half * half)
}

/// The map from points to local features: a pilot and its whitening matrix.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "PlainMap", into = "PlainMap")]
pub struct LocalMap {
    /// The pilot `θ̂`.
    theta: Vec<f64>,
    /// `Cᵀ = L⁻¹`, lower triangular.
    whitening: Mat<f64>,
}

/// The serialised form of [`LocalMap`]: the pilot, and the whitening matrix column by column.
#[derive(Serialize, Deserialize)]
struct PlainMap(Vec<f64>, Vec<f64>);

impl From<LocalMap> for PlainMap {
    fn from(map: LocalMap) -> PlainMap {
        let dim = map.dim();
        let entries = (0..dim * dim).map(|at| map.whitening[(at % dim, at / dim)]);
        PlainMap(map.theta.clone(), entries.collect())
    }
}

impl From<PlainMap> for LocalMap {
    fn from(PlainMap(theta, entries): PlainMap) -> LocalMap {
        let dim = theta.len();
        let entry = |i, j| entries.get(j * dim + i).copied().unwrap_or(f64::NAN);
        LocalMap { whitening: Mat::from_fn(dim, dim, entry), theta }
    }
}

/// A sum of feature vectors `Σ w F`, the target `b`, or a difference of such sums.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalSum {
    /// `Σ w g u / √2`: D entries.
    pub first: Vec<f64>,
    /// `½ Σ w h u uᵀ`: D×D, symmetric; the Frobenius product is the product of `svec`s.
    pub second: Mat<f64>,
    /// The sums of further features, at a panel of draws; empty without a panel.
    pub panel: Vec<f64>,
}

/// The local features of some points: `u`, `g` and `h` of each.
#[derive(Clone, Debug)]
pub struct LocalFeatures {
    /// The whitened points `u`, one per column: D×M.
    directions: Mat<f64>,
    /// `g = φ'`.
    slopes: Vec<f64>,
    /// `h = φ''`.
    curvatures: Vec<f64>,
    /// Further features of each point, one column per point: what `F` leaves out, at a panel of draws. Without rows if there is
    /// no panel.
    panel: Mat<f64>,
}

/// How much each row of a tile matters near the mode.
#[derive(Clone, Copy, Debug)]
pub struct RowSizes {
    /// The norms `‖F‖` of the local features.
    pub norms: Lane,
    /// The leverages `(g² + h)‖u‖²`: about twice the fraction of the information in the direction of a point that the point
    /// contributes.
    pub leverages: Lane,
    /// The size of what the local features leave out: the remainder of `φ` beyond second order, over the posterior. The third
    /// derivative of `φ` is at most the second, `h`, and over a distance `t` that grows at most by a factor `e^t`: the remainder
    /// is of order `h‖u‖³` for small `‖u‖`, and larger for large. The polynomial `h‖u‖³(1 + ‖u‖²)²` represents the exponential.
    pub remainders: Lane,
}

impl LocalMap {
    /// The map at `theta`, given the Hessian `H` of the negative log-posterior there (with the prior).
    ///
    /// # Errors
    /// If the Hessian is not positive definite.
    pub fn new(theta: Vec<f64>, hessian: MatRef<'_, f64>) -> Result<LocalMap> {
        let factor = Cholesky::new(hessian).ok_or_else(|| -> Error {
            ErrorKind::Numerical {
                what: "the Hessian of the log-posterior is not positive definite".to_string(),
                help: Some(
                    "give the prior a smaller scale, so that every coefficient has some information".into(),
                ),
            }
            .into()
        })?;
        Ok(LocalMap { theta, whitening: invert_lower(factor.lower()) })
    }

    /// The pilot `θ̂`.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// The dimension D.
    pub fn dim(&self) -> usize {
        self.theta.len()
    }

    /// The length of a feature vector, `d = D + D(D+1)/2`.
    pub fn feature_count(&self) -> usize {
        self.dim() + self.dim() * (self.dim() + 1) / 2
    }

    /// `Cᵀ`: lower triangular, `CCᵀ = H⁻¹`.
    pub fn whitening(&self) -> MatRef<'_, f64> {
        self.whitening.as_ref()
    }

    /// The sum of features from `Σ w g z` (D) and `Σ w h z zᵀ` (D×D, both triangles), both without the prior. The last Newton pass has
    /// these sums for the full data, which gives the target `b` without another pass.
    pub fn sum_of(&self, gradient: &[f64], curvature: MatRef<'_, f64>) -> LocalSum {
        let dim = self.dim();
        let gradient = Mat::from_fn(dim, 1, |i, _| gradient[i]);
        let first = product(self.whitening.as_ref(), gradient.as_ref());
        let half = product(self.whitening.as_ref(), curvature);
        let mut second = product(half.as_ref(), self.whitening.transpose()) * 0.5;
        // Rounding makes the two triangles differ slightly; restore symmetry.
        for j in 0..dim {
            for i in 0..j {
                second[(i, j)] = second[(j, i)];
            }
        }
        LocalSum {
            first: (0..dim).map(|i| first[(i, 0)] * std::f64::consts::FRAC_1_SQRT_2).collect(),
            second,
            panel: Vec::new(),
        }
    }

    /// The features of points, without their weights.
    pub fn features(&self, points: &Points) -> LocalFeatures {
        let dim = self.dim();
        let mut features = LocalFeatures {
            directions: Mat::zeros(dim, points.len()),
            slopes: vec![0.0; points.len()],
            curvatures: vec![0.0; points.len()],
            panel: Mat::zeros(0, points.len()),
        };
        let mut scratch = vec![Lane::ZERO; dim];
        for (t, tile) in points.tiles().enumerate() {
            let (slope, curvature) = self.tile(&tile, &mut scratch);
            for r in 0..tile.len {
                let m = t * TILE + r;
                features.slopes[m] = slope[r];
                features.curvatures[m] = curvature[r];
                for (value, lane) in features.directions.col_as_slice_mut(m).iter_mut().zip(&scratch) {
                    *value = lane[r];
                }
            }
        }
        features
    }

    /// The norms `‖F(z)‖` of a tile's points: `‖F‖² = g²‖u‖²/2 + h²‖u‖⁴/4`. `scratch` has D lanes.
    pub fn norms(&self, tile: &Tile<'_>, scratch: &mut [Lane]) -> Lane {
        self.sizes(tile, scratch).norms
    }

    /// How much each row of a tile matters near the mode.
    pub fn sizes(&self, tile: &Tile<'_>, scratch: &mut [Lane]) -> RowSizes {
        let (slope, curvature) = self.tile(tile, scratch);
        vectorized(
            #[inline(always)]
            || {
                let (mut norms, mut leverages, mut remainders) = (Lane::ZERO, Lane::ZERO, Lane::ZERO);
                for lane in &*scratch {
                    for r in 0..TILE {
                        norms[r] = lane[r].mul_add(lane[r], norms[r]);
                    }
                }
                for r in 0..TILE {
                    let (g, h, square) = (slope[r], curvature[r], norms[r]);
                    norms[r] = (square * (0.5 * g * g + 0.25 * h * h * square)).sqrt();
                    leverages[r] = (g * g + h) * square;
                    let growth = 1.0 + square;
                    remainders[r] = h * square * square.sqrt() * growth * growth;
                }
                RowSizes { norms, leverages, remainders }
            },
        )
    }

    /// Writes the whitened tile to `directions` (D lanes), and returns `g` and `h`.
    fn tile(&self, tile: &Tile<'_>, directions: &mut [Lane]) -> (Lane, Lane) {
        vectorized(
            #[inline(always)]
            || {
                let mut slope = Lane::ZERO;
                let mut curvature = Lane::ZERO;
                for (lane, &coefficient) in tile.z.iter().zip(&self.theta) {
                    for r in 0..TILE {
                        slope[r] = lane[r].mul_add(coefficient, slope[r]);
                    }
                }
                for r in 0..TILE {
                    (slope[r], curvature[r]) = slope_and_curvature(slope[r]);
                }
                for (i, direction) in directions.iter_mut().enumerate() {
                    *direction = Lane::ZERO;
                    for (j, lane) in tile.z[..=i].iter().enumerate() {
                        let factor = self.whitening[(i, j)];
                        for r in 0..TILE {
                            direction[r] = lane[r].mul_add(factor, direction[r]);
                        }
                    }
                }
                (slope, curvature)
            },
        )
    }
}

impl LocalSum {
    /// The zero sum.
    pub fn zero(dim: usize) -> LocalSum {
        LocalSum { first: vec![0.0; dim], second: Mat::zeros(dim, dim), panel: Vec::new() }
    }

    /// The same with these values of the remainders at the draws of a panel.
    pub fn with_panel(self, panel: Vec<f64>) -> LocalSum {
        LocalSum { panel, ..self }
    }

    /// `‖·‖²`.
    pub fn norm_squared(&self) -> f64 {
        self.dot(self)
    }

    /// The inner product of two sums.
    pub fn dot(&self, other: &LocalSum) -> f64 {
        let first: f64 = self.first.iter().zip(&other.first).map(|(a, b)| a * b).sum();
        let second: f64 = (0..self.first.len())
            .map(|j| {
                let columns = self.second.col_as_slice(j).iter().zip(other.second.col_as_slice(j));
                columns.map(|(a, b)| a * b).sum::<f64>()
            })
            .sum();
        let beyond: f64 = self.panel.iter().zip(&other.panel).map(|(a, b)| a * b).sum();
        first + second + beyond
    }

    /// `self − other`.
    pub fn minus(&self, other: &LocalSum) -> LocalSum {
        LocalSum {
            first: self.first.iter().zip(&other.first).map(|(a, b)| a - b).collect(),
            second: &self.second - &other.second,
            panel: self.panel.iter().zip(&other.panel).map(|(a, b)| a - b).collect(),
        }
    }

    /// All d entries, `[first ; svec(second)]`.
    pub fn to_vec(&self) -> Vec<f64> {
        let mut entries = self.first.clone();
        for j in 0..self.first.len() {
            entries.push(self.second[(j, j)]);
            entries.extend((j + 1..self.first.len()).map(|i| self.second[(i, j)] * std::f64::consts::SQRT_2));
        }
        entries.extend(&self.panel);
        entries
    }
}

impl LocalFeatures {
    /// The same points with more features, one column for each point: what the local features leave out, at a panel of draws.
    pub fn with_panel(self, panel: Mat<f64>) -> LocalFeatures {
        assert_eq!(panel.ncols(), self.len(), "one column for each point");
        LocalFeatures { panel, ..self }
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.slopes.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.slopes.is_empty()
    }

    /// The dimension D of the points.
    pub fn dim(&self) -> usize {
        self.directions.nrows()
    }

    /// The length of a feature vector, `d = D + D(D+1)/2`.
    pub fn feature_count(&self) -> usize {
        self.dim() + self.dim() * (self.dim() + 1) / 2 + self.panel.nrows()
    }

    /// The features of some of the points, in the order given.
    pub fn select(&self, rows: &[usize]) -> LocalFeatures {
        let mut directions = Mat::zeros(self.dim(), rows.len());
        for (m, &row) in rows.iter().enumerate() {
            directions.col_as_slice_mut(m).copy_from_slice(self.directions.col_as_slice(row));
        }
        let mut panel = Mat::zeros(self.panel.nrows(), rows.len());
        for (m, &row) in rows.iter().enumerate() {
            panel.col_as_slice_mut(m).copy_from_slice(self.panel.col_as_slice(row));
        }
        LocalFeatures {
            directions,
            slopes: rows.iter().map(|&row| self.slopes[row]).collect(),
            curvatures: rows.iter().map(|&row| self.curvatures[row]).collect(),
            panel,
        }
    }

    /// `‖F_m‖²` of every point.
    pub fn norms_squared(&self) -> Vec<f64> {
        (0..self.len())
            .map(|m| {
                let square: f64 = self.directions.col_as_slice(m).iter().map(|u| u * u).sum();
                let (g, h) = (self.slopes[m], self.curvatures[m]);
                let beyond: f64 = self.panel.col_as_slice(m).iter().map(|p| p * p).sum();
                square * (0.5 * g * g + 0.25 * h * h * square) + beyond
            })
            .collect()
    }

    /// The leverage `h‖u‖²` of every point: the fraction of the information in its direction that a row at this point contributes.
    pub fn leverages(&self) -> Vec<f64> {
        (0..self.len())
            .map(|m| self.curvatures[m] * self.directions.col_as_slice(m).iter().map(|u| u * u).sum::<f64>())
            .collect()
    }

    /// `A w = Σ w_m F_m`.
    pub fn sum(&self, weights: &[f64]) -> LocalSum {
        let dim = self.dim();
        let starts: Vec<usize> = (0..self.len()).step_by(CHUNK).collect();
        let parts: Vec<LocalSum> = starts.par_iter().map(|&start| self.sum_chunk(weights, start)).collect();
        let mut total = LocalSum::zero(dim).with_panel(vec![0.0; self.panel.nrows()]);
        for part in parts {
            total.first.iter_mut().zip(&part.first).for_each(|(a, b)| *a += b);
            total.panel.iter_mut().zip(&part.panel).for_each(|(a, b)| *a += b);
            total.second += part.second;
        }
        for j in 0..dim {
            for i in 0..j {
                total.second[(i, j)] = total.second[(j, i)];
            }
        }
        total
    }

    /// The sum over one chunk of points; only the lower triangle is computed.
    fn sum_chunk(&self, weights: &[f64], start: usize) -> LocalSum {
        let end = (start + CHUNK).min(self.len());
        let mut part = LocalSum::zero(self.dim()).with_panel(vec![0.0; self.panel.nrows()]);
        let mut scaled = Mat::zeros(self.dim(), end - start);
        for (m, weight) in weights.iter().enumerate().take(end).skip(start) {
            let column = self.directions.col_as_slice(m);
            let slope = weight * self.slopes[m] * std::f64::consts::FRAC_1_SQRT_2;
            let curvature = weight * self.curvatures[m] * 0.5;
            for ((sum, scaled), u) in
                part.first.iter_mut().zip(scaled.col_as_slice_mut(m - start)).zip(column)
            {
                *sum += slope * u;
                *scaled = curvature * u;
            }
            part.panel.iter_mut().zip(self.panel.col_as_slice(m)).for_each(|(sum, p)| *sum += weight * p);
        }
        let directions = self.directions.subcols(start, end - start);
        add_lower_product(part.second.as_mut(), scaled.as_ref(), directions.transpose());
        part
    }

    /// `Aᵀ r`: the scores `F_m · r`, in closed form `g (u·r₁)/√2 + (h/2) uᵀ R₂ u`.
    pub fn scores(&self, residual: &LocalSum) -> Vec<f64> {
        let mut scores = vec![0.0; self.len()];
        scores.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, scores)| {
            let start = chunk * CHUNK;
            let directions = self.directions.subcols(start, scores.len());
            let mut product = Mat::zeros(self.dim(), scores.len());
            add_product(product.as_mut(), residual.second.as_ref(), directions);
            for (r, score) in scores.iter_mut().enumerate() {
                let m = start + r;
                let (mut linear, mut quadratic) = (0.0, 0.0);
                for ((u, v), first) in
                    self.directions.col_as_slice(m).iter().zip(product.col_as_slice(r)).zip(&residual.first)
                {
                    linear += u * first;
                    quadratic += u * v;
                }
                let beyond: f64 =
                    self.panel.col_as_slice(m).iter().zip(&residual.panel).map(|(p, r)| p * r).sum();
                *score = self.slopes[m] * linear * std::f64::consts::FRAC_1_SQRT_2
                    + 0.5 * self.curvatures[m] * quadratic
                    + beyond;
            }
        });
        scores
    }

    /// The Gram matrix of these points and others:
    /// `F_m · F_n = g_m g_n (u_m·u_n)/2 + h_m h_n (u_m·u_n)²/4`.
    pub fn gram(&self, others: &LocalFeatures) -> Mat<f64> {
        let rows = self.len();
        let mut gram = Mat::zeros(rows, others.len());
        let mut blocks = Vec::new();
        let mut rest = gram.as_mut();
        while rest.ncols() > 0 {
            let columns = CHUNK.min(rest.ncols());
            let (block, after) = rest.split_at_col_mut(columns);
            blocks.push(block);
            rest = after;
        }
        blocks.into_par_iter().enumerate().for_each(|(chunk, mut block)| {
            let start = chunk * CHUNK;
            let columns = block.ncols();
            let others_directions = others.directions.subcols(start, columns);
            add_product(block.rb_mut(), self.directions.transpose(), others_directions);
            for j in 0..columns {
                let (g, h) = (0.5 * others.slopes[start + j], 0.25 * others.curvatures[start + j]);
                for i in 0..rows {
                    let product = block[(i, j)];
                    block[(i, j)] = product * (self.slopes[i] * g + self.curvatures[i] * h * product);
                }
            }
            if self.panel.nrows() > 0 {
                let others = others.panel.subcols(start, columns);
                add_product(block.rb_mut(), self.panel.transpose(), others);
            }
        });
        gram
    }

    /// All feature vectors as a d×M matrix. For small problems only.
    pub(crate) fn dense(&self) -> Mat<f64> {
        let d = self.feature_count();
        let mut dense = Mat::zeros(d, self.len());
        for m in 0..self.len() {
            let u = self.directions.col_as_slice(m);
            let (g, h) = (self.slopes[m] * std::f64::consts::FRAC_1_SQRT_2, self.curvatures[m] * 0.5);
            let column = dense.col_as_slice_mut(m);
            let mut next = 0;
            let mut put = |value: f64| {
                column[next] = value;
                next += 1;
            };
            u.iter().for_each(|u| put(g * u));
            for j in 0..u.len() {
                put(h * u[j] * u[j]);
                u[j + 1..].iter().for_each(|v| put(h * u[j] * v * std::f64::consts::SQRT_2));
            }
            self.panel.col_as_slice(m).iter().for_each(|&value| put(value));
        }
        dense
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Seed, open_unit};

    /// Points with entries in ±2, weights in (0, 3], and a map at a pilot with a random positive definite Hessian.
    pub(crate) fn example(dim: usize, count: usize, seed: u64) -> (LocalMap, Points) {
        let mut rng = Seed(seed).stream(Purpose::Generate, 0);
        let mut uniform = || 4.0 * open_unit(&mut rng) - 2.0;
        let theta: Vec<f64> = (0..dim).map(|_| 0.5 * uniform()).collect();
        let root = Mat::from_fn(dim, dim, |_, _| uniform());
        let mut hessian = &root * root.transpose();
        (0..dim).for_each(|i| hessian[(i, i)] += 1.0);
        let mut points = Points::new(dim);
        for _ in 0..count {
            let z: Vec<f64> = (0..dim).map(|_| uniform()).collect();
            points.push(&z, 0.75 * (uniform() + 2.0) + 1e-3);
        }
        (LocalMap::new(theta, hessian.as_ref()).expect("positive definite"), points)
    }

    /// `[g·u/√2 ; (h/2)·svec(uuᵀ)]`, entry by entry from the definition.
    fn plain(map: &LocalMap, z: &[f64]) -> Vec<f64> {
        let s: f64 = z.iter().zip(map.theta()).map(|(z, t)| z * t).sum();
        let g = -1.0 / (1.0 + s.exp());
        let h = 1.0 / ((1.0 + s.exp()) * (1.0 + (-s).exp()));
        let u: Vec<f64> =
            (0..z.len()).map(|i| (0..z.len()).map(|j| map.whitening()[(i, j)] * z[j]).sum()).collect();
        let mut features: Vec<f64> = u.iter().map(|u| g * u / 2f64.sqrt()).collect();
        for j in 0..u.len() {
            features.push(h / 2.0 * u[j] * u[j]);
            for i in j + 1..u.len() {
                features.push(h / 2.0 * 2f64.sqrt() * u[i] * u[j]);
            }
        }
        features
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn near(a: f64, b: f64, scale: f64) -> bool {
        (a - b).abs() <= 1e-11 * scale.max(1.0)
    }

    #[test]
    fn the_whitening_is_the_inverse_root_of_the_hessian() {
        let hessian = faer::mat![[4.0, 1.0], [1.0, 3.0]];
        let map = LocalMap::new(vec![0.0; 2], hessian.as_ref()).expect("positive definite");
        let identity = map.whitening() * hessian * map.whitening().transpose();
        assert!((identity - Mat::<f64>::identity(2, 2)).norm_max() < 1e-14);
    }

    #[test]
    fn closed_forms_agree_with_explicit_feature_vectors() {
        let (map, points) = example(4, 700, 1);
        let features = map.features(&points);
        let explicit: Vec<Vec<f64>> = (0..points.len()).map(|n| plain(&map, &points.row(n))).collect();
        let dense = features.dense();
        let sum = features.sum(&points.weights());
        let mut expected = vec![0.0; map.feature_count()];
        for (n, row) in explicit.iter().enumerate() {
            expected.iter_mut().zip(row).for_each(|(e, f)| *e += points.weight(n) * f);
            for (a, b) in dense.col_as_slice(n).iter().zip(row) {
                assert!(near(*a, *b, b.abs()));
            }
        }
        for (a, b) in sum.to_vec().iter().zip(&expected) {
            assert!(near(*a, *b, 100.0), "{a} against {b}");
        }
        assert!(near(sum.norm_squared(), dot(&expected, &expected), dot(&expected, &expected)));
        let squares = features.norms_squared();
        let scores = features.scores(&sum);
        let gram = features.gram(&features.select(&[3, 600]));
        for (n, row) in explicit.iter().enumerate() {
            assert!(near(squares[n], dot(row, row), 1.0));
            assert!(near(scores[n], dot(row, &expected), 100.0));
            assert!(near(gram[(n, 0)], dot(row, &explicit[3]), 1.0));
            assert!(near(gram[(n, 1)], dot(row, &explicit[600]), 1.0));
        }
        let mut scratch = vec![Lane::ZERO; 4];
        for (t, tile) in points.tiles().enumerate() {
            let norms = map.norms(&tile, &mut scratch);
            for r in 0..tile.len {
                assert!(near(norms[r] * norms[r], squares[t * TILE + r], 1.0));
            }
        }
    }

    #[test]
    fn the_target_needs_only_the_gradient_and_hessian_sums() {
        let (map, points) = example(3, 300, 2);
        let mut gradient = vec![0.0; 3];
        let mut curvature = Mat::zeros(3, 3);
        for n in 0..points.len() {
            let z = points.row(n);
            let (g, h) = slope_and_curvature(dot(&z, map.theta()));
            for i in 0..3 {
                gradient[i] += points.weight(n) * g * z[i];
                for j in 0..3 {
                    curvature[(i, j)] += points.weight(n) * h * z[i] * z[j];
                }
            }
        }
        let target = map.sum_of(&gradient, curvature.as_ref());
        let direct = map.features(&points).sum(&points.weights());
        assert!(target.minus(&direct).norm_squared() < 1e-20 * direct.norm_squared());
    }

    #[test]
    fn an_indefinite_hessian_is_an_error() {
        let hessian = faer::mat![[1.0, 2.0], [2.0, 1.0]];
        assert!(LocalMap::new(vec![0.0; 2], hessian.as_ref()).is_err());
    }

    #[test]
    fn slope_and_curvature_far_out() {
        for s in [-800.0, -30.0, 0.0, 30.0, 800.0] {
            let (g, h) = slope_and_curvature(s);
            assert!((-1.0..=0.0).contains(&g) && (0.0..=0.25).contains(&h), "{s}: {g} {h}");
        }
        assert_eq!(slope_and_curvature(0.0), (-0.5, 0.25));
    }
}
