//! The log-likelihood of rows that belong to groups: value, gradient and arrow-shaped Hessian, as sums that merge.
//!
//! `L(u, β) = −Σ w φ(z·β + r·u_g)`, where `r` has the q values that the effects of a row's group multiply. The sums of some rows
//! have an entry only for groups that occur among them, so that partial results of few rows stay small.

use faer::Mat;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::base::math::{softplus_and_slope, vectorized};
use crate::data::grouped::{GroupedPoints, GroupedTile};
use crate::data::points::{Lane, TILE};
use crate::model::arrow::{Arrow, ArrowShape};
use crate::model::likelihood::{Curvature, CurvatureSums, margins};

/// Tiles whose sums one thread accumulates; a multiple of this is summed side by side.
const TILES: usize = 512;

impl GroupedPoints {
    /// The sizes of the model with one grouping factor.
    pub fn shape(&self) -> ArrowShape {
        let (groups, width) = self.factors.first().map_or((0, 0), |factor| (factor.groups, factor.width));
        ArrowShape { groups, width, dim: self.fixed.dim() }
    }
}

impl GroupedTile<'_> {
    /// The margins `z·β + r·u_g` at a vector of effects and fixed effects; 0 for padding.
    #[inline(always)]
    pub(crate) fn margins(&self, shape: ArrowShape, at: &[f64], margin: &mut Lane) {
        let (effects, fixed) = at.split_at(shape.effects());
        margins(&self.fixed, fixed, margin);
        let width = shape.width;
        for ((margin, &group), r) in
            margin.iter_mut().zip(self.group).zip(self.effects.chunks_exact(width.max(1)))
        {
            let of_group = &effects[group as usize * width..(group as usize + 1) * width];
            *margin += r.iter().zip(of_group).map(|(r, u)| r * u).sum::<f64>();
        }
    }
}

/// Value, gradient and Hessian of the log-likelihood of some rows at one vector of effects and fixed effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupedCurvature {
    /// Value, and gradient and Hessian with respect to the fixed effects.
    pub fixed: Curvature,
    /// The groups that occur, in ascending order.
    groups: Vec<u32>,
    /// The number q of effects per group.
    width: usize,
    /// For each of these groups: its weight, q numbers of the gradient, q × q of `d_g`, q × D of `B_g`.
    records: Vec<f64>,
}

/// The length of a group's record.
fn record_length(width: usize, dim: usize) -> usize {
    1 + width * (1 + width + dim)
}

impl GroupedCurvature {
    /// Sums over no rows.
    pub fn empty(width: usize, dim: usize) -> GroupedCurvature {
        GroupedCurvature { fixed: Curvature::new(dim), groups: Vec::new(), width, records: Vec::new() }
    }

    /// The sums of all points.
    pub fn of_points(points: &GroupedPoints, at: &[f64]) -> GroupedCurvature {
        let shape = points.shape();
        let parts: Vec<GroupedCurvature> = (0..points.tiles().div_ceil(TILES))
            .into_par_iter()
            .map(|part| {
                let mut sums = GroupedSums::new(shape);
                for t in part * TILES..points.tiles().min((part + 1) * TILES) {
                    sums.add_tile(&points.tile(t), at);
                }
                sums.finish()
            })
            .collect();
        let mut all = GroupedCurvature::empty(shape.width, shape.dim);
        parts.into_iter().for_each(|part| all.merge(part));
        all
    }

    /// Adds the sums of other rows.
    pub fn merge(&mut self, other: GroupedCurvature) {
        self.fixed.merge(&other.fixed);
        let length = record_length(self.width, self.fixed.gradient.len());
        if self.groups.is_empty() {
            (self.groups, self.records) = (other.groups, other.records);
            return;
        }
        if self.groups == other.groups {
            self.records.iter_mut().zip(&other.records).for_each(|(sum, more)| *sum += more);
            return;
        }
        let (ours, theirs) = (std::mem::take(&mut self.groups), other.groups);
        let (of_ours, of_theirs) = (std::mem::take(&mut self.records), other.records);
        let (mut i, mut j) = (0, 0);
        while i < ours.len() || j < theirs.len() {
            let group = match (ours.get(i), theirs.get(j)) {
                (Some(a), Some(b)) => *a.min(b),
                (Some(only), None) | (None, Some(only)) => *only,
                (None, None) => break,
            };
            self.groups.push(group);
            let start = self.records.len();
            self.records.resize(start + length, 0.0);
            for (groups, records, at) in [(&ours, &of_ours, &mut i), (&theirs, &of_theirs, &mut j)] {
                if groups.get(*at) == Some(&group) {
                    let record = &records[*at * length..(*at + 1) * length];
                    self.records[start..].iter_mut().zip(record).for_each(|(sum, more)| *sum += more);
                    *at += 1;
                }
            }
        }
    }

    /// The log-likelihood.
    pub fn value(&self) -> f64 {
        self.fixed.value
    }

    fn records(&self) -> impl Iterator<Item = (usize, &[f64])> {
        let length = record_length(self.width, self.fixed.gradient.len());
        self.groups.iter().map(|&group| group as usize).zip(self.records.chunks_exact(length))
    }

    /// The weight of the rows of each group.
    pub fn group_weights(&self, groups: usize) -> Vec<f64> {
        let mut weights = vec![0.0; groups];
        self.records().for_each(|(group, record)| weights[group] = record[0]);
        weights
    }

    /// The gradient, for the effects and then for the fixed effects.
    pub fn gradient(&self, groups: usize) -> Vec<f64> {
        let width = self.width;
        let mut gradient = vec![0.0; groups * width];
        for (group, record) in self.records() {
            gradient[group * width..(group + 1) * width].copy_from_slice(&record[1..=width]);
        }
        gradient.extend_from_slice(&self.fixed.gradient);
        gradient
    }

    /// The negative Hessian.
    pub fn hessian(&self, groups: usize) -> Arrow {
        let (width, dim) = (self.width, self.fixed.gradient.len());
        let mut arrow = Arrow::zeros(ArrowShape { groups, width, dim });
        let (block, border) = (1 + width, 1 + width + width * width);
        for (group, record) in self.records() {
            arrow.block_mut(group).copy_from_slice(&record[block..border]);
            arrow.border_mut(group).copy_from_slice(&record[border..]);
        }
        *arrow.corner_mut() = Mat::from_fn(dim, dim, |i, j| self.fixed.entry(i, j));
        arrow
    }
}

/// Accumulates a [`GroupedCurvature`] at one vector, tile by tile.
pub struct GroupedSums {
    shape: ArrowShape,
    fixed: CurvatureSums,
    /// For each group one more than the position of its record; 0 for groups that did not occur.
    place: Vec<u32>,
    groups: Vec<u32>,
    records: Vec<f64>,
}

impl GroupedSums {
    /// Sums over no rows.
    pub fn new(shape: ArrowShape) -> GroupedSums {
        let (place, fixed) = (vec![0; shape.groups], CurvatureSums::new(shape.dim));
        GroupedSums { shape, fixed, place, groups: Vec::new(), records: Vec::new() }
    }

    /// Adds one tile.
    pub fn add_tile(&mut self, tile: &GroupedTile<'_>, at: &[f64]) {
        vectorized(
            #[inline(always)]
            || {
                let mut margin = Lane::ZERO;
                tile.margins(self.shape, at, &mut margin);
                let (pull, stiffness) = self.fixed.add_tile_at(&tile.fixed, &margin);
                self.add_groups(tile, &pull, &stiffness);
            },
        );
    }

    #[inline(always)]
    fn add_groups(&mut self, tile: &GroupedTile<'_>, pull: &Lane, stiffness: &Lane) {
        let ArrowShape { width, dim, .. } = self.shape;
        let length = record_length(width, dim);
        for (row, (&group, r)) in tile.group.iter().zip(tile.effects.chunks_exact(width.max(1))).enumerate() {
            let place = &mut self.place[group as usize];
            if *place == 0 {
                self.groups.push(group);
                self.records.resize(self.records.len() + length, 0.0);
                *place = self.groups.len() as u32;
            }
            let start = (*place as usize - 1) * length;
            let record = &mut self.records[start..start + length];
            record[0] += tile.fixed.w[row];
            let (gradient, rest) = record[1..].split_at_mut(width);
            let (block, border) = rest.split_at_mut(width * width);
            for i in 0..width {
                gradient[i] += pull[row] * r[i];
                let stiff = stiffness[row] * r[i];
                for j in 0..width {
                    block[i * width + j] += stiff * r[j];
                }
                for (sum, z) in border[i * dim..(i + 1) * dim].iter_mut().zip(tile.fixed.z) {
                    *sum += stiff * z[row];
                }
            }
        }
    }

    /// The accumulated sums.
    pub fn finish(self) -> GroupedCurvature {
        let length = record_length(self.shape.width, self.shape.dim);
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_unstable_by_key(|&at| self.groups[at]);
        let records = order
            .iter()
            .flat_map(|&at| self.records[at * length..(at + 1) * length].iter().copied())
            .collect();
        GroupedCurvature {
            fixed: self.fixed.finish(),
            groups: order.iter().map(|&at| self.groups[at]).collect(),
            width: self.shape.width,
            records,
        }
    }
}

/// Adds the log-likelihoods of the rows of a tile at many vectors to `sums`.
pub(crate) fn add_values(tile: &GroupedTile<'_>, shape: ArrowShape, at: &[Vec<f64>], sums: &mut [f64]) {
    vectorized(
        #[inline(always)]
        || {
            let mut margin = Lane::ZERO;
            for (at, sum) in at.iter().zip(sums) {
                tile.margins(shape, at, &mut margin);
                let mut loss = Lane::ZERO;
                for r in 0..TILE {
                    loss[r] = tile.fixed.w[r] * softplus_and_slope(margin[r]).0;
                }
                *sum -= loss.iter().sum::<f64>();
            }
        },
    );
}

/// The log-likelihood of points at many vectors; the work is shared among the threads.
pub(crate) fn grouped_values(points: &GroupedPoints, at: &[Vec<f64>]) -> Vec<f64> {
    at.par_chunks(4)
        .flat_map_iter(|at| {
            let mut sums = vec![0.0; at.len()];
            (0..points.tiles()).for_each(|t| add_values(&points.tile(t), points.shape(), at, &mut sums));
            sums
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Seed, open_unit, standard_normal};
    use crate::data::grouped::Memberships;
    use crate::data::points::Points;

    /// Rows of a model with an intercept and slopes, whose groups have different sizes.
    pub(crate) fn random_rows(rows: usize, shape: ArrowShape, seed: u64) -> GroupedPoints {
        let mut rng = Seed(seed).stream(Purpose::Generate, 0);
        let mut points = GroupedPoints {
            fixed: Points::new(shape.dim),
            factors: vec![Memberships::new(shape.groups, shape.width)],
        };
        for _ in 0..rows {
            let y = if open_unit(&mut rng) < 0.4 { 1.0 } else { -1.0 };
            let x: Vec<f64> =
                (0..shape.dim).map(|d| if d == 0 { y } else { y * standard_normal(&mut rng) }).collect();
            let group = (open_unit(&mut rng).powi(2) * shape.groups as f64).ceil() as u32 - 1;
            points.fixed.push(&x, 0.5 + open_unit(&mut rng));
            points.factors[0].push(group, &x[..shape.width]);
        }
        points
    }

    /// The same rows as points whose effects are ordinary coefficients, in the order of a vector.
    pub(crate) fn dense(points: &GroupedPoints) -> Points {
        let shape = points.shape();
        let mut dense = Points::new(shape.len());
        for n in 0..points.fixed.len() {
            let mut row = vec![0.0; shape.effects()];
            let start = points.factors[0].group[n] as usize * shape.width;
            row[start..start + shape.width].copy_from_slice(points.factors[0].row(n));
            row.extend(points.fixed.row(n));
            dense.push(&row, points.fixed.weight(n));
        }
        dense
    }

    const SHAPE: ArrowShape = ArrowShape { groups: 9, width: 2, dim: 4 };

    #[test]
    fn sums_are_those_of_effects_as_ordinary_coefficients() {
        let points = random_rows(700, SHAPE, 1);
        let at: Vec<f64> = (0..SHAPE.len()).map(|i| (i as f64).sin()).collect();
        let (ours, theirs) =
            (GroupedCurvature::of_points(&points, &at), Curvature::of_points(&dense(&points), &at));
        assert!((ours.value() - theirs.value).abs() < 1e-9 * theirs.value.abs());
        for (a, b) in ours.gradient(SHAPE.groups).iter().zip(&theirs.gradient) {
            assert!((a - b).abs() < 1e-9, "{a} {b}");
        }
        let x: Vec<f64> = (0..SHAPE.len()).map(|i| (i as f64).cos()).collect();
        for (i, value) in ours.hessian(SHAPE.groups).times(&x).iter().enumerate() {
            let expected: f64 = (0..SHAPE.len()).map(|j| theirs.entry(i, j) * x[j]).sum();
            assert!((value - expected).abs() < 1e-9, "{i}: {value} {expected}");
        }
        let total: f64 = ours.group_weights(SHAPE.groups).iter().sum();
        assert!((total - points.fixed.weights().iter().sum::<f64>()).abs() < 1e-9);
        let values = grouped_values(&points, &[at.clone(), x]);
        assert!((values[0] - theirs.value).abs() < 1e-9 * theirs.value.abs());
    }

    #[test]
    fn sums_of_parts_merge_in_any_grouping() {
        let points = random_rows(900, ArrowShape { groups: 400, width: 1, dim: 3 }, 2);
        let at = vec![0.1; points.shape().len()];
        let part = |tiles: std::ops::Range<usize>| {
            let mut sums = GroupedSums::new(points.shape());
            tiles.for_each(|t| sums.add_tile(&points.tile(t), &at));
            sums.finish()
        };
        let mut left = part(0..2);
        left.merge(part(2..5));
        let mut right = part(5..6);
        right.merge(part(6..8));
        left.merge(right);
        let all = GroupedCurvature::of_points(&points, &at);
        assert_eq!(left.groups, all.groups);
        for (a, b) in left.records.iter().zip(&all.records) {
            assert!((a - b).abs() < 1e-10);
        }
    }
}
