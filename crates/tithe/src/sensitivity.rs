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

use serde::{Deserialize, Serialize};

use crate::clustering::{Centers, Few, Groups, LANES, Nearest, squared_distance};
use crate::math::{dot, roots, two_to_minus, vectorized};
use crate::points::{Lane, Tile};

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

/// Where less than this share is left of what a squared distance is put together from, it is computed anew.
const LEAST_LEFT: f64 = 0.125;

/// Room for the distances of some rows to every group.
#[derive(Clone, Debug, Default)]
pub struct Distances(Vec<Few>);

/// All that the bound depends on but the row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bound {
    centers: Centers,
    groups: Groups,
    anchors: Vec<Anchor>,
    radius: f64,
    theta_star: Option<Vec<f64>>,
    rule: CenterRule,
}

/// What stands for a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Anchor {
    /// The point `A_i`.
    point: Vec<f64>,
    /// `2(Q_i − A_i)`.
    offset: Vec<f64>,
    /// `‖Q_i − A_i‖²`.
    between: f64,
}

impl Anchor {
    fn new(center: &[f64], point: &[f64]) -> Anchor {
        let offset: Vec<f64> = center.iter().zip(point).map(|(q, a)| 2.0 * (q - a)).collect();
        Anchor { point: point.to_vec(), between: dot(&offset, &offset) / 4.0, offset }
    }
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
        let means = groups.mean.chunks_exact(centers.dim()).zip(&groups.mass);
        let anchors = centers.rows().zip(means).map(|(center, (mean, mass))| match rule {
            // Nothing stands for an empty group, and its centre costs least.
            CenterRule::Exact if *mass > 0.0 => Anchor::new(center, mean),
            CenterRule::Exact | CenterRule::Quick => Anchor::new(center, center),
        });
        let anchors = anchors.collect();
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
    pub fn shares(&self, tile: &Tile<'_>, room: &mut Distances, shares: &mut Lane) {
        room.0.resize(self.centers.len(), [0.0; LANES]);
        vectorized(
            #[inline(always)]
            || {
                for (c, shares) in shares.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                    *shares = self.few_shares(tile, c, &mut room.0);
                }
            },
        );
    }

    /// The shares of rows `c·LANES` and on of a tile, with room for one distance to each anchor.
    #[inline(always)]
    fn few_shares(&self, tile: &Tile<'_>, c: usize, distances: &mut [Few]) -> Few {
        let w = &tile.w.as_chunks::<LANES>().0[c];
        let group = self.distances(tile, c, distances);

        // The mass of each row's own group without it, and by how much that moves its mean away.
        let mut own_mass = [0.0; LANES];
        for (i, &mass) in self.groups.mass.iter().enumerate() {
            for l in 0..LANES {
                own_mass[l] = if group[l] == i as f64 { mass } else { own_mass[l] };
            }
        }
        // Where nothing is left of a group the stretch is infinite or NaN; its mass of 0 counts for nothing all the same.
        // A branch around the division would take the rows one by one.
        let (mut rest, mut stretch) = ([0.0; LANES], [1.0; LANES]);
        for l in 0..LANES {
            rest[l] = (own_mass[l] - w[l]).max(0.0);
        }
        if self.rule == CenterRule::Exact {
            for l in 0..LANES {
                stretch[l] = own_mass[l] / rest[l];
            }
        }

        // e⁻ᵃ = 2^(−a·log₂e), which is quicker to compute.
        let rate = self.radius * LOG2_E;
        let mut sum = *w;
        for ((i, distance), (anchor, &mass)) in
            distances.iter().enumerate().zip(self.anchors.iter().zip(&self.groups.mass))
        {
            let along = match &self.theta_star {
                Some(theta_star) => along(tile, c, &anchor.point, theta_star),
                None => [0.0; LANES],
            };
            for l in 0..LANES {
                let own = group[l] == i as f64;
                let far = rate.mul_add(distance[l], along[l] * LOG2_E);
                let far = if own { far * stretch[l] } else { far };
                let mass = if own { rest[l] } else { mass };
                sum[l] = mass.mul_add(two_to_minus(far), sum[l]);
            }
        }
        let mut shares = [0.0; LANES];
        for l in 0..LANES {
            shares[l] = if w[l] > 0.0 { w[l] / sum[l] } else { 0.0 };
        }
        shares
    }

    /// The distances `‖z_n − A_i‖` of rows `c·LANES` and on of a tile to every anchor, and the numbers of their groups.
    ///
    /// One sweep over the columns serves a centre and its anchor:
    /// `‖z − A‖² = ‖z − Q‖² + (z − Q)·2(Q − A) + ‖Q − A‖²`.
    #[inline(always)]
    fn distances(&self, tile: &Tile<'_>, c: usize, distances: &mut [Few]) -> Few {
        let mut nearest = Nearest::new();
        for (i, ((distance, center), anchor)) in
            distances.iter_mut().zip(self.centers.rows()).zip(&self.anchors).enumerate()
        {
            self.centers.fetch_ahead(tile, c, i);
            let (mut square, mut along) = ([0.0; LANES], [0.0; LANES]);
            for ((z, &q), &offset) in tile.z.iter().zip(center).zip(&anchor.offset) {
                let z = &z.as_chunks::<LANES>().0[c];
                for l in 0..LANES {
                    let apart = z[l] - q;
                    square[l] = apart.mul_add(apart, square[l]);
                    along[l] = apart.mul_add(offset, along[l]);
                }
            }
            nearest.add(i, &square);
            // A local array, which nothing can alias, and signs gathered by bits: both become vectors.
            let mut squares = [0.0; LANES];
            let mut signs = 0;
            for l in 0..LANES {
                squares[l] = square[l] + (along[l] + anchor.between);
                signs |= LEAST_LEFT.mul_add(-(square[l] + anchor.between), squares[l]).to_bits();
            }
            // Near an anchor far from its centre the three terms cancel.
            if signs >> 63 != 0 {
                squares = squared_distance(tile, c, &anchor.point);
            }
            roots(&mut squares);
            *distance = squares;
        }
        nearest.group
    }
}

/// `|(q − z_n)·θ*|` for rows `c·LANES` and on of a tile.
#[inline(always)]
fn along(tile: &Tile<'_>, c: usize, q: &[f64], theta_star: &[f64]) -> Few {
    let mut sum = [0.0; LANES];
    for ((z, &q), &theta) in tile.z.iter().zip(q).zip(theta_star) {
        let z = &z.as_chunks::<LANES>().0[c];
        for l in 0..LANES {
            sum[l] = (q - z[l]).mul_add(theta, sum[l]);
        }
    }
    sum.map(f64::abs)
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
