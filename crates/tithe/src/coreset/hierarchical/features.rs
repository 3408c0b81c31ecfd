//! The sparse local features of rows that belong to groups, in coordinates whitened by the arrow factor.
//!
//! Let `L Lᵀ` be the negative log-posterior's Hessian at the reference. `L⁻¹` times a row of the model matrix has q numbers `a` in its
//! group's slot and D dense ones `r`. With the row's slope `g = σ(−s)` and curvature `h = σ(−s)(1 − σ(−s))` its features are
//!
//! - of its group: `g a/√2`, `(h/2) svec(a aᵀ)` and `(h/√2) a rᵀ`, that is `q + q(q+1)/2 + q D` numbers;
//! - shared by all rows: `g r/√2` and `(h/2) svec(r rᵀ)`, that is `D(D+3)/2` numbers.
//!
//! To second order the KL of two posteriors is `‖Fᵀw − b‖²`, where `b` sums the features of all rows. The norm is that of features
//! whitened by a dense factor, because the two whitenings differ by a rotation.

use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

use rayon::prelude::*;

use crate::base::math::softplus_and_slope;
use crate::data::grouped::{GroupedPoints, GroupedTile};
use crate::data::points::{Lane, TILE};
use crate::model::arrow::{Arrow, ArrowFactor, ArrowShape};
use crate::model::grouped_likelihood::GroupedCurvature;

/// Up to which order of the log-likelihood features represent a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Second,
    /// With the third order in the effects of the row's group, `h' a_i a_j a_k`: a posterior at another scale of the effects lies
    /// elsewhere mainly in these.
    Third,
}

/// The map from rows to features.
pub(crate) struct ArrowMap<'a> {
    /// The factor of the posterior's precision at the reference.
    pub factor: &'a ArrowFactor,
    /// The reference: effects and fixed effects.
    pub at: &'a [f64],
}

/// The features of some rows: `own` ones of a row's group and `shared` ones.
pub(crate) struct SparseFeatures {
    /// The number of groups, of features per group, and of shared features.
    pub shape: ArrowShape,
    /// The group of each row.
    pub group: Vec<u32>,
    own: Vec<f64>,
    shared: Vec<f64>,
}

/// The sizes of the features of a model.
pub(crate) fn feature_shape(model: ArrowShape) -> ArrowShape {
    let ArrowShape { groups, width, dim } = model;
    let own = width + width * (width + 1) / 2 + width * dim;
    ArrowShape { groups, width: own, dim: dim * (dim + 3) / 2 }
}

impl SparseFeatures {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.group.len()
    }

    /// The features that only rows of the same group have.
    pub fn own(&self, row: usize) -> &[f64] {
        &self.own[row * self.shape.width..(row + 1) * self.shape.width]
    }

    /// The features that all rows have.
    pub fn shared(&self, row: usize) -> &[f64] {
        &self.shared[row * self.shape.dim..(row + 1) * self.shape.dim]
    }

    /// `Fᵀ w`: the features of each group, and then the shared ones.
    pub fn weighted_sum(&self, weights: &[f64]) -> Vec<f64> {
        let ArrowShape { width, dim, .. } = self.shape;
        let mut sum = vec![0.0; self.shape.len()];
        let (own, shared) = sum.split_at_mut(self.shape.effects());
        for (row, &w) in weights.iter().enumerate().filter(|(_, w)| **w != 0.0) {
            let start = self.group[row] as usize * width;
            own[start..start + width].iter_mut().zip(self.own(row)).for_each(|(sum, f)| *sum += w * f);
            shared[..dim].iter_mut().zip(self.shared(row)).for_each(|(sum, f)| *sum += w * f);
        }
        sum
    }
}

impl ArrowMap<'_> {
    fn model(&self) -> ArrowShape {
        self.factor.shape()
    }

    /// The features of points, without their weights.
    pub fn features(&self, points: &GroupedPoints, order: Order) -> SparseFeatures {
        let mut shape = feature_shape(self.model());
        if order == Order::Third {
            let width = self.model().width;
            shape.width += width * (width + 1) * (width + 2) / 6;
        }
        let parts: Vec<(Vec<f64>, Vec<f64>)> = (0..points.tiles())
            .into_par_iter()
            .map(|t| {
                let tile = points.tile(t);
                let (mut own, mut shared) =
                    (vec![0.0; tile.fixed.len * shape.width], vec![0.0; tile.fixed.len * shape.dim]);
                self.visit(&tile, |row, a, r, slope, curvature| {
                    own_features(
                        a,
                        r,
                        slope,
                        curvature,
                        &mut own[row * shape.width..(row + 1) * shape.width],
                    );
                    shared_features(r, slope, curvature, &mut shared[row * shape.dim..(row + 1) * shape.dim]);
                });
                (own, shared)
            })
            .collect();
        let group = points.factors.first().map_or_else(Vec::new, |factor| factor.group.clone());
        let mut features = SparseFeatures { shape, group, own: Vec::new(), shared: Vec::new() };
        for (own, shared) in parts {
            features.own.extend(own);
            features.shared.extend(shared);
        }
        features
    }

    /// The norms `‖F_n‖` of the rows of a tile: `½ g²|v|² + ¼ h²|v|⁴` with `v` the whitened row.
    pub fn norms(&self, tile: &GroupedTile<'_>, norms: &mut Lane) {
        self.visit(tile, |row, a, r, slope, curvature| {
            let square = a.iter().chain(r.iter()).map(|x| x * x).sum::<f64>();
            norms[row] = (0.5 * slope * slope * square + 0.25 * (curvature * square).powi(2)).sqrt();
        });
    }

    /// The sum `b` of the features of all rows, from their likelihood at the reference.
    pub fn target(&self, likelihood: &GroupedCurvature) -> Vec<f64> {
        let (model, shape) = (self.model(), feature_shape(self.model()));
        let ArrowShape { groups, width, dim } = model;
        let mut gradient = likelihood.gradient(groups);
        self.factor.solve_lower(&mut gradient);
        let hessian: Arrow = self.factor.whiten_arrow(&likelihood.hessian(groups));
        let mut target = Vec::with_capacity(shape.len());
        let pair = |i: usize, j: usize, value: f64| if i == j { 0.5 * value } else { FRAC_1_SQRT_2 * value };
        for g in 0..groups {
            target.extend(gradient[g * width..(g + 1) * width].iter().map(|x| FRAC_1_SQRT_2 * x));
            for i in 0..width {
                target.extend((0..=i).map(|j| pair(i, j, hessian.block(g)[i * width + j])));
            }
            target.extend(hessian.border(g).iter().map(|x| FRAC_1_SQRT_2 * x));
        }
        target.extend(gradient[model.effects()..].iter().map(|x| FRAC_1_SQRT_2 * x));
        for i in 0..dim {
            target.extend((0..=i).map(|j| pair(i, j, hessian.corner()[(i, j)])));
        }
        target
    }

    /// Calls `use_row` with each row's index in the tile, its whitened numbers `a` and `r`, its slope and its curvature.
    fn visit(&self, tile: &GroupedTile<'_>, mut use_row: impl FnMut(usize, &[f64], &[f64], f64, f64)) {
        let model = self.model();
        let mut margin = Lane::ZERO;
        tile.margins(model, self.at, &mut margin);
        let (mut a, mut r) = (vec![0.0; model.width], vec![0.0; model.dim]);
        for row in 0..tile.fixed.len.min(TILE) {
            let slope = softplus_and_slope(margin[row]).1;
            a.copy_from_slice(&tile.effects[row * model.width..(row + 1) * model.width]);
            tile.fixed.copy_row(row, &mut r);
            self.factor.whiten_row(tile.group[row] as usize, &mut a, &mut r);
            use_row(row, &a, &r, slope, slope * (1.0 - slope));
        }
    }
}

/// The features of a row's group.
fn own_features(a: &[f64], r: &[f64], slope: f64, curvature: f64, into: &mut [f64]) {
    let mut next = into.iter_mut();
    let mut put = |value: f64| {
        if let Some(into) = next.next() {
            *into = value;
        }
    };
    a.iter().for_each(|a| put(FRAC_1_SQRT_2 * slope * a));
    for i in 0..a.len() {
        (0..=i).for_each(|j| put(pair_factor(i, j) * curvature * a[i] * a[j]));
    }
    for a in a {
        r.iter().for_each(|r| put(FRAC_1_SQRT_2 * curvature * a * r));
    }
    // Without places for them these are not stored.
    let bend = curvature * (1.0 - 2.0 * slope);
    for i in 0..a.len() {
        for j in 0..=i {
            (0..=j).for_each(|k| put(bend * a[i] * a[j] * a[k]));
        }
    }
}

/// The features that all rows have.
fn shared_features(r: &[f64], slope: f64, curvature: f64, into: &mut [f64]) {
    let (first, second) = into.split_at_mut(r.len());
    first.iter_mut().zip(r).for_each(|(into, r)| *into = FRAC_1_SQRT_2 * slope * r);
    let pairs = (0..r.len()).flat_map(|i| (0..=i).map(move |j| (i, j)));
    second
        .iter_mut()
        .zip(pairs)
        .for_each(|(into, (i, j))| *into = pair_factor(i, j) * curvature * r[i] * r[j]);
}

/// The factor of an entry of `½ svec(v vᵀ)`: ½ on the diagonal, and √2 times it beside.
fn pair_factor(i: usize, j: usize) -> f64 {
    if i == j { 0.5 } else { 0.5 * SQRT_2 }
}
