//! Upper bounds on the sensitivity of each row: the largest share that it can have in the log-likelihood anywhere in the ball `θ* + B_R`
//! (Lemma 3.1, and Lemma B.5 for a ball centre, with weights).
//!
//! The share of row n is
//! `s_n = w_n / ( w_n + Σ_i W_i^(−n) · exp( −R‖μ_i^(−n) − z_n‖ − |(μ_i^(−n) − z_n)·θ*| ) )`,
//! where `W_i^(−n)` and `μ_i^(−n)` are the mass and mean of group i without row n. For unit weights the
//! paper's `m_n` is `N s_n` and its mean bound `m̄` is `Σ s_n`.
//!
//! The means without row n need no extra pass: for n in group i, with `W_i` and `μ_i` of all rows of the group,
//! `μ_i^(−n) − z_n = W_i / (W_i − w_n) · (μ_i − z_n)`,
//! so the exact distance is the distance to `μ_i` times one number.

use std::f64::consts::LOG2_E;

use pulp::{Simd, WithSimd};
use serde::{Deserialize, Serialize};

use crate::base::math::{Vectors, as_vectors, as_vectors_mut, exp, two_to_minus, with_vectors};
use crate::coreset::kmeans::{Centers, Groups, Nearest, indices, squared_distance};
use crate::data::points::{Lane, TILE, Tile};

/// Which point represents each group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum CenterRule {
    /// The mean of the group without the row itself, as in the lemma.
    #[default]
    Exact,
    /// The cluster centre `Q_i`, the approximation in the paper's experiments.
    Quick,
}

/// The radius R of the ball in which the error of a coreset is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Radius {
    /// R itself.
    Fixed(f64),
    /// `R = a / √I`, with the normalised k-means score I.
    Auto(f64),
}

impl Radius {
    /// R for data with this score. A score of 0 (every point is a centre) has no finite adaptive radius; the shares are then the same
    /// for any radius, and this returns 0.
    pub fn value(self, score: f64) -> f64 {
        match self {
            Radius::Fixed(radius) => radius,
            Radius::Auto(a) if score > 0.0 => a / score.sqrt(),
            Radius::Auto(_) => 0.0,
        }
    }
}

/// Vectors of distances computed together.
const DISTANCE_VECTORS: usize = 4;
/// Vectors of shares computed together. With more, the out-of-order window of the processor is too small to overlap iterations.
const N: usize = 2;

/// Buffers for the distances and groups of the rows of a tile.
#[derive(Clone, Debug)]
pub struct Distances {
    /// For each group the distances `‖z_n − A_i‖` to the point that represents it.
    to_anchors: Vec<Lane>,
    /// The index of each row's own group.
    own: Lane,
}

impl Default for Distances {
    fn default() -> Distances {
        Distances { to_anchors: Vec::new(), own: Lane::ZERO }
    }
}

/// The sensitivity bound as a function of the row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bound {
    centers: Centers,
    groups: Groups,
    /// For each group the point `A_i` that represents it.
    anchors: Vec<Vec<f64>>,
    radius: f64,
    theta_star: Option<Vec<f64>>,
    rule: CenterRule,
}

/// The own group of each of some rows, without that row. In a group of one row the mass is 0 and the factor infinite or NaN; such a group
/// adds 0 to the bound.
struct WithoutRow<S: Simd> {
    /// The mass `W_i − w_n`.
    mass: Vectors<S, N>,
    /// The factor `W_i / (W_i − w_n)` by which the distance to the mean grows.
    factor: Vectors<S, N>,
}

impl Bound {
    /// The bound over `θ* + B_R`; `θ* = 0` if `theta_star` is `None`.
    pub fn new(
        centers: Centers,
        groups: Groups,
        radius: f64,
        theta_star: Option<Vec<f64>>,
        rule: CenterRule,
    ) -> Bound {
        let anchors = match rule {
            // The mean of an empty group does not matter: its mass is 0.
            CenterRule::Exact => groups.mean.chunks_exact(centers.dim()).map(<[f64]>::to_vec).collect(),
            CenterRule::Quick => centers.rows().map(<[f64]>::to_vec).collect(),
        };
        Bound { centers, groups, anchors, radius, theta_star, rule }
    }

    /// The groups of the clustering.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The radius R.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// The shares `s_n` of a tile's rows; 0 for its padding.
    pub fn shares(&self, tile: &Tile<'_>, distances: &mut Distances, shares: &mut [f64; TILE]) {
        distances.to_anchors.resize(self.centers.len(), Lane::ZERO);
        with_vectors(Sharing { bound: self, tile, distances, shares });
    }
}

/// The kernel that computes the shares of the rows of a tile.
struct Sharing<'a> {
    bound: &'a Bound,
    tile: &'a Tile<'a>,
    distances: &'a mut Distances,
    shares: &'a mut [f64; TILE],
}

impl WithSimd for Sharing<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let chunks = as_vectors::<S, DISTANCE_VECTORS>(&self.tile.w.0).len();
        self.find_own_groups(simd);
        for c in 0..chunks {
            self.find_distances(simd, c);
            for c in c * DISTANCE_VECTORS / N..(c + 1) * DISTANCE_VECTORS / N {
                let own = as_vectors::<S, N>(&self.distances.own.0)[c];
                as_vectors_mut::<S, N>(self.shares)[c] = self.some_shares(simd, c, &own);
            }
        }
    }
}

impl Sharing<'_> {
    /// Finds the own group of each row: the one with the nearest centre.
    #[inline(always)]
    fn find_own_groups<S: Simd>(&mut self, simd: S) {
        for (c, own) in
            as_vectors_mut::<S, DISTANCE_VECTORS>(&mut self.distances.own.0).iter_mut().enumerate()
        {
            *own = Nearest::find(simd, self.tile, c, &self.bound.centers).center;
        }
    }

    /// Computes the distances of the `c`-th group of vectors to all anchors. The latency of square roots overlaps with the work for the next
    /// anchor.
    #[inline(always)]
    fn find_distances<S: Simd>(&mut self, simd: S, c: usize) {
        for (lane, anchor) in self.distances.to_anchors.iter_mut().zip(&self.bound.anchors) {
            let mut distances: Vectors<S, DISTANCE_VECTORS> = squared_distance(simd, self.tile, c, anchor);
            for distance in &mut distances {
                *distance = simd.sqrt_f64s(*distance);
            }
            as_vectors_mut::<S, DISTANCE_VECTORS>(&mut lane.0)[c] = distances;
        }
    }

    /// The shares of the `c`-th group of vectors, whose rows belong to the groups `own`.
    #[inline(always)]
    fn some_shares<S: Simd>(&self, simd: S, c: usize, own: &Vectors<S, N>) -> Vectors<S, N> {
        let Bound { groups, anchors, radius, theta_star, .. } = self.bound;
        let (zero, w) = (simd.splat_f64s(0.0), &as_vectors::<S, N>(&self.tile.w.0)[c]);

        // e⁻ᵃ = 2^(−a·log₂e), which is faster to compute.
        let rate = simd.splat_f64s(radius * LOG2_E);
        let without_row = self.without_row(simd, c, own);
        let mut sum = *w;
        for ((distance, index), (anchor, &mass)) in
            self.distances.to_anchors.iter().zip(indices()).zip(anchors.iter().zip(&groups.mass))
        {
            let distance = &as_vectors::<S, N>(&distance.0)[c];
            let mut exponent = match theta_star {
                Some(theta_star) => along(simd, self.tile, c, anchor, theta_star),
                None => [zero; N],
            };
            let mut mass = [simd.splat_f64s(mass); N];
            for v in 0..N {
                exponent[v] = simd.mul_add_f64s(rate, distance[v], exponent[v]);
                let is_own = simd.equal_f64s(own[v], simd.splat_f64s(index));
                exponent[v] =
                    simd.select_f64s(is_own, simd.mul_f64s(exponent[v], without_row.factor[v]), exponent[v]);
                mass[v] = simd.select_f64s(is_own, without_row.mass[v], mass[v]);
            }
            two_to_minus(simd, &mut exponent);
            for v in 0..N {
                sum[v] = simd.mul_add_f64s(mass[v], exponent[v], sum[v]);
            }
        }
        for v in 0..N {
            let share = simd.div_f64s(w[v], sum[v]);
            sum[v] = simd.select_f64s(simd.greater_than_f64s(w[v], zero), share, zero);
        }
        sum
    }

    /// The own groups of some rows, each without the row.
    #[inline(always)]
    fn without_row<S: Simd>(&self, simd: S, c: usize, own: &Vectors<S, N>) -> WithoutRow<S> {
        let (zero, w) = (simd.splat_f64s(0.0), &as_vectors::<S, N>(&self.tile.w.0)[c]);
        let (mut mass, mut factor) = ([zero; N], [simd.splat_f64s(1.0); N]);
        for (&group_mass, index) in self.bound.groups.mass.iter().zip(indices()) {
            for (v, mass) in mass.iter_mut().enumerate() {
                let is_own = simd.equal_f64s(own[v], simd.splat_f64s(index));
                *mass = simd.select_f64s(is_own, simd.splat_f64s(group_mass), *mass);
            }
        }
        for v in 0..N {
            let all = mass[v];
            mass[v] = simd.max_f64s(simd.sub_f64s(all, w[v]), zero);
            if self.bound.rule == CenterRule::Exact {
                factor[v] = simd.div_f64s(all, mass[v]);
            }
        }
        WithoutRow { mass, factor }
    }
}

/// `|(q − z_n)·θ*|·log₂e` for the `c`-th group of vectors of a tile.
#[inline(always)]
fn along<S: Simd>(simd: S, tile: &Tile<'_>, c: usize, q: &[f64], theta_star: &[f64]) -> Vectors<S, N> {
    let mut sum = [simd.splat_f64s(0.0); N];
    for (z, (&q, &theta)) in tile.z.iter().zip(q.iter().zip(theta_star)) {
        let (z, q, theta) = (&as_vectors::<S, N>(&z.0)[c], simd.splat_f64s(q), simd.splat_f64s(theta));
        for v in 0..N {
            sum[v] = simd.mul_add_f64s(simd.sub_f64s(q, z[v]), theta, sum[v]);
        }
    }
    for sum in &mut sum {
        *sum = simd.mul_f64s(simd.abs_f64s(*sum), simd.splat_f64s(LOG2_E));
    }
    sum
}

/// The same shares by the definition, with every mean recomputed without its row: the plain, slow version of [`Bound::shares`].
pub fn plain_shares(
    points: &[(Vec<f64>, f64)],
    centers: &Centers,
    radius: f64,
    theta_star: &[f64],
    rule: CenterRule,
) -> Vec<f64> {
    let squared = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let nearest = |z: &[f64]| {
        let distances: Vec<f64> = centers.rows().map(|q| squared(z, q)).collect();
        // Of equally near centres the first.
        (0..distances.len()).min_by(|&a, &b| distances[a].total_cmp(&distances[b])).unwrap_or(0)
    };
    let group: Vec<usize> = points.iter().map(|(z, _)| nearest(z)).collect();
    let share = |n: usize| {
        let (z, w) = &points[n];
        let mut sum = *w;
        for (i, q) in centers.rows().enumerate() {
            let others = || (0..points.len()).filter(|&m| m != n && group[m] == i).map(|m| &points[m]);
            let mass: f64 = others().map(|(_, w)| w).sum();
            if mass == 0.0 {
                continue;
            }
            let anchor: Vec<f64> = match rule {
                CenterRule::Quick => q.to_vec(),
                CenterRule::Exact => {
                    (0..z.len()).map(|d| others().map(|(z, w)| w * z[d]).sum::<f64>() / mass).collect()
                }
            };
            let along: f64 = anchor.iter().zip(z).zip(theta_star).map(|((a, z), t)| (a - z) * t).sum();
            sum += mass * exp(-radius * squared(&anchor, z).sqrt() - along.abs());
        }
        w / sum
    };
    (0..points.len()).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coreset::kmeans::groups;
    use crate::data::points::Points;
    use crate::data::points::tests::some_points;

    #[test]
    fn vectors_of_any_width_give_the_same_bits() {
        let mut points = some_points(3, 300);
        // The last centre is far from the mean of its rows.
        let centers = Centers::new(3, vec![0.5, 0.1, -0.3, -0.4, 0.2, 0.1, 40.0, 30.0, 20.0]);
        for n in 0..60 {
            let off = f64::from(n) * 0.01;
            points.push(&[80.0 + off, 60.0 - off, 40.0 + off * off], 1.0);
        }
        for theta_star in [None, Some(vec![0.3, -0.2, 0.1])] {
            for rule in [CenterRule::Exact, CenterRule::Quick] {
                let groups = groups(&points, &centers);
                let bound = Bound::new(centers.clone(), groups, 1.5, theta_star.clone(), rule);
                for tile in points.tiles() {
                    let (mut distances, mut native) = (Distances::default(), Lane::ZERO);
                    bound.shares(&tile, &mut distances, &mut native);
                    let shares_by = |run: &dyn Fn(Sharing<'_>)| {
                        let nothing = Lane::of(f64::NAN);
                        let mut distances = Distances { to_anchors: vec![nothing; 3], own: nothing };
                        let mut shares = nothing;
                        run(Sharing {
                            bound: &bound,
                            tile: &tile,
                            distances: &mut distances,
                            shares: &mut shares,
                        });
                        shares
                    };
                    assert_eq!(shares_by(&|sharing| sharing.with_simd(pulp::Scalar)), native);
                    assert_eq!(shares_by(&|sharing| sharing.with_simd(pulp::Scalar128b)), native);
                    assert_eq!(shares_by(&|sharing| sharing.with_simd(pulp::Scalar256b)), native);
                    assert_eq!(shares_by(&|sharing| sharing.with_simd(pulp::Scalar512b)), native);
                }
            }
        }
    }

    #[test]
    fn groups_of_many_rows_of_one_and_of_none_have_the_shares_of_the_plain_version() {
        let mut points = some_points(3, TILE - 1);
        points.push(&[-80.0, 60.0, 40.0], 1.0);
        points.set_weights(&[1.0; TILE]);
        let rows: Vec<(Vec<f64>, f64)> = (0..TILE).map(|n| (points.row(n), 1.0)).collect();
        let centers = Centers::new(3, vec![0.5, 0.1, -0.3, -81.0, 60.0, 40.0, 90.0, 90.0, 90.0]);
        let theta_star = [0.3, -0.2, 0.1];
        for rule in [CenterRule::Exact, CenterRule::Quick] {
            let groups = groups(&points, &centers);
            assert_eq!(groups.mass, [TILE as f64 - 1.0, 1.0, 0.0]);
            let bound = Bound::new(centers.clone(), groups, 1.5, Some(theta_star.to_vec()), rule);
            let mut shares = Lane::ZERO;
            bound.shares(&points.tile(0), &mut Distances::default(), &mut shares);
            let plain = plain_shares(&rows, &centers, 1.5, &theta_star, rule);
            for (share, plain) in shares.iter().zip(plain) {
                assert!((share / plain - 1.0).abs() < 1e-12, "{rule:?}: {share} against {plain}");
            }
        }
    }

    /// Squares that overflow, and squares close to the smallest normal number.
    #[test]
    fn very_large_and_very_small_rows_have_the_shares_of_the_plain_version() {
        let apart = [1.0, 2.0, 3.0, 4.0];
        // The squared distances to the centre overflow, those to the mean do not.
        let on_both_sides = [-6.9, -6.9, 6.9, 6.9];
        for (rows, scale, center, radius) in [
            (apart, 1e155, 1e155, 1.5),
            (apart, 1.0, 1e155, 1.5),
            (apart, 1e-141, 1e-141, 1e141),
            (on_both_sides, 1e153, 6.6e153, 1e-154),
        ] {
            let rows: Vec<(Vec<f64>, f64)> = rows.iter().map(|z| (vec![z * scale], 1.0)).collect();
            let points = Points::from_rows(1, rows.iter().map(|(z, w)| (z.as_slice(), *w)));
            let centers = Centers::new(1, vec![center]);
            let plain = plain_shares(&rows, &centers, radius, &[0.0], CenterRule::Exact);
            let bound =
                Bound::new(centers.clone(), groups(&points, &centers), radius, None, CenterRule::Exact);
            let mut shares = Lane::ZERO;
            bound.shares(&points.tile(0), &mut Distances::default(), &mut shares);
            for (share, plain) in shares.iter().zip(plain) {
                assert!((share / plain - 1.0).abs() < 1e-12, "{scale}: {share} against {plain}");
            }
        }
    }
}
