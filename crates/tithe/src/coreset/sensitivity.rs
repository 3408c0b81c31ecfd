//! The sensitivity bound (Lemma 3.1, and Lemma B.5 with a ball centre), weighted: how much each row could
//! matter anywhere in the ball `θ* + B_R`.
//!
//! The share of row n is
//! `s_n = w_n / ( w_n + Σ_i W_i^(−n) · exp( −R‖μ_i^(−n) − z_n‖ − |(μ_i^(−n) − z_n)·θ*| ) )`,
//! where `W_i^(−n)` and `μ_i^(−n)` are the mass and mean of group i without row n. For unit weights the
//! paper's `m_n` is `N s_n` and its mean bound `m̄` is `Σ s_n`.
//!
//! The means without row n cost nothing: for n in group i, with `W_i` and `μ_i` of the whole group,
//! `μ_i^(−n) − z_n = W_i / (W_i − w_n) · (μ_i − z_n)`,
//! so the exact bound is the ordinary distance times one number.

use std::f64::consts::LOG2_E;

use pulp::{Simd, WithSimd};
use serde::{Deserialize, Serialize};

use crate::base::math::{Few, few, few_mut, two_to_minus, with_vectors};
use crate::coreset::kmeans::{Centers, Groups, Nearest, numbers, squared_distance};
use crate::data::points::{Lane, TILE, Tile};

/// Which points stand for the groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CenterRule {
    /// The groups' means without the row itself, as the lemma says.
    #[default]
    Exact,
    /// The cluster centres `Q_i`, the shortcut that the paper's experiments took.
    Quick,
}

/// The radius R of the ball over which a coreset is good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Radius {
    /// R itself.
    Fixed(f64),
    /// `R = a / √I`, with the normalised k-means score I.
    Auto(f64),
}

impl Radius {
    /// R for data of this score. Points that all stand on their centres allow no finite adaptive radius; any
    /// radius gives them the same shares, so 0 is taken.
    pub fn value(self, score: f64) -> f64 {
        match self {
            Radius::Fixed(radius) => radius,
            Radius::Auto(a) if score > 0.0 => a / score.sqrt(),
            Radius::Auto(_) => 0.0,
        }
    }
}

/// Vectors side by side where distances are found.
const FAR: usize = 4;
/// And where shares are: with more, the processor does not see the next ones before the first are done.
const N: usize = 2;

/// Room for what is found of a tile's rows before their shares.
#[derive(Clone, Debug)]
pub struct Distances {
    /// For each group `‖z_n − A_i‖`, the distances to what stands for it.
    apart: Vec<Lane>,
    /// The numbers of the rows' own groups.
    own: Lane,
}

impl Default for Distances {
    fn default() -> Distances {
        Distances { apart: Vec::new(), own: Lane::ZERO }
    }
}

/// All that the bound depends on but the row.
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

/// What is left of a group without one of its rows. Where that is nothing, the stretch is infinite or NaN; a mass of 0 counts for
/// nothing all the same.
struct Left<S: Simd> {
    /// The mass `W_i − w_n`.
    mass: Few<S, N>,
    /// By how much the mean moves away from the row: `W_i / (W_i − w_n)`.
    stretch: Few<S, N>,
}

impl Bound {
    /// The bound over `θ* + B_R`; no `theta_star` is `θ* = 0`.
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

    /// The groups that the bound was made from.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The radius R.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// The shares `s_n` of a tile's rows; 0 for its padding.
    pub fn shares(&self, tile: &Tile<'_>, room: &mut Distances, shares: &mut [f64; TILE]) {
        room.apart.resize(self.centers.len(), Lane::ZERO);
        with_vectors(Sharing { bound: self, tile, room, shares });
    }
}

/// Finds the shares of a tile's rows.
struct Sharing<'a> {
    bound: &'a Bound,
    tile: &'a Tile<'a>,
    room: &'a mut Distances,
    shares: &'a mut [f64; TILE],
}

impl WithSimd for Sharing<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let chunks = few::<S, FAR>(&self.tile.w.0).len();
        self.find_own_groups(simd);
        for c in 0..chunks {
            self.find_distances(simd, c);
            for c in c * FAR / N..(c + 1) * FAR / N {
                let own = few::<S, N>(&self.room.own.0)[c];
                few_mut::<S, N>(self.shares)[c] = self.few_shares(simd, c, &own);
            }
        }
    }
}

impl Sharing<'_> {
    /// Finds the group of each row: the one with the nearest centre.
    #[inline(always)]
    fn find_own_groups<S: Simd>(&mut self, simd: S) {
        for (c, own) in few_mut::<S, FAR>(&mut self.room.own.0).iter_mut().enumerate() {
            *own = Nearest::find(simd, self.tile, c, &self.bound.centers).center;
        }
    }

    /// Finds the distances of the `c`-th few rows to what stands for each group. A slow root delays nobody here: what comes after it
    /// is about another group.
    #[inline(always)]
    fn find_distances<S: Simd>(&mut self, simd: S, c: usize) {
        for (apart, anchor) in self.room.apart.iter_mut().zip(&self.bound.anchors) {
            let mut distances: Few<S, FAR> = squared_distance(simd, self.tile, c, anchor);
            for distance in &mut distances {
                *distance = simd.sqrt_f64s(*distance);
            }
            few_mut::<S, FAR>(&mut apart.0)[c] = distances;
        }
    }

    /// The shares of the `c`-th few rows of the groups `own`.
    #[inline(always)]
    fn few_shares<S: Simd>(&self, simd: S, c: usize, own: &Few<S, N>) -> Few<S, N> {
        let Bound { groups, anchors, radius, theta_star, .. } = self.bound;
        let (zero, w) = (simd.splat_f64s(0.0), &few::<S, N>(&self.tile.w.0)[c]);

        // e⁻ᵃ = 2^(−a·log₂e), which is quicker to compute.
        let rate = simd.splat_f64s(radius * LOG2_E);
        let left = self.left(simd, c, own);
        let mut sum = *w;
        for ((apart, number), (anchor, &mass)) in
            self.room.apart.iter().zip(numbers()).zip(anchors.iter().zip(&groups.mass))
        {
            let apart = &few::<S, N>(&apart.0)[c];
            let mut far = match theta_star {
                Some(theta_star) => along(simd, self.tile, c, anchor, theta_star),
                None => [zero; N],
            };
            let mut mass = [simd.splat_f64s(mass); N];
            for v in 0..N {
                far[v] = simd.mul_add_f64s(rate, apart[v], far[v]);
                let is_own = simd.equal_f64s(own[v], simd.splat_f64s(number));
                far[v] = simd.select_f64s(is_own, simd.mul_f64s(far[v], left.stretch[v]), far[v]);
                mass[v] = simd.select_f64s(is_own, left.mass[v], mass[v]);
            }
            two_to_minus(simd, &mut far);
            for v in 0..N {
                sum[v] = simd.mul_add_f64s(mass[v], far[v], sum[v]);
            }
        }
        for v in 0..N {
            let share = simd.div_f64s(w[v], sum[v]);
            sum[v] = simd.select_f64s(simd.greater_than_f64s(w[v], zero), share, zero);
        }
        sum
    }

    /// What is left of the own groups of a few rows without them.
    #[inline(always)]
    fn left<S: Simd>(&self, simd: S, c: usize, own: &Few<S, N>) -> Left<S> {
        let (zero, w) = (simd.splat_f64s(0.0), &few::<S, N>(&self.tile.w.0)[c]);
        let (mut mass, mut stretch) = ([zero; N], [simd.splat_f64s(1.0); N]);
        for (&group_mass, number) in self.bound.groups.mass.iter().zip(numbers()) {
            for (v, mass) in mass.iter_mut().enumerate() {
                let is_own = simd.equal_f64s(own[v], simd.splat_f64s(number));
                *mass = simd.select_f64s(is_own, simd.splat_f64s(group_mass), *mass);
            }
        }
        for v in 0..N {
            let whole = mass[v];
            mass[v] = simd.max_f64s(simd.sub_f64s(whole, w[v]), zero);
            if self.bound.rule == CenterRule::Exact {
                stretch[v] = simd.div_f64s(whole, mass[v]);
            }
        }
        Left { mass, stretch }
    }
}

/// `|(q − z_n)·θ*|·log₂e` for the `c`-th few rows of a tile.
#[inline(always)]
fn along<S: Simd>(simd: S, tile: &Tile<'_>, c: usize, q: &[f64], theta_star: &[f64]) -> Few<S, N> {
    let mut sum = [simd.splat_f64s(0.0); N];
    for (z, (&q, &theta)) in tile.z.iter().zip(q.iter().zip(theta_star)) {
        let (z, q, theta) = (&few::<S, N>(&z.0)[c], simd.splat_f64s(q), simd.splat_f64s(theta));
        for v in 0..N {
            sum[v] = simd.mul_add_f64s(simd.sub_f64s(q, z[v]), theta, sum[v]);
        }
    }
    for sum in &mut sum {
        *sum = simd.mul_f64s(simd.abs_f64s(*sum), simd.splat_f64s(LOG2_E));
    }
    sum
}

/// The same shares by the definition, with every mean computed anew without its row: slow, and plainly right.
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
        // Of equals the first.
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
            sum += mass * (-radius * squared(&anchor, z).sqrt() - along.abs()).exp();
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
                    let (mut room, mut native) = (Distances::default(), Lane::ZERO);
                    bound.shares(&tile, &mut room, &mut native);
                    let shares_by = |run: &dyn Fn(Sharing<'_>)| {
                        let nothing = Lane::of(f64::NAN);
                        let mut room = Distances { apart: vec![nothing; 3], own: nothing };
                        let mut shares = nothing;
                        run(Sharing { bound: &bound, tile: &tile, room: &mut room, shares: &mut shares });
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
        // Here the squares of distances to the centre overflow, and those to the mean do not.
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
