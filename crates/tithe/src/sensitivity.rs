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

use serde::{Deserialize, Serialize};

use crate::clustering::{Centers, Groups, nearest, squared_distance};
use crate::math::{exp_nonpositive, vectorized};
use crate::points::{Lane, TILE, Tile};

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

/// All that the bound depends on but the row.
#[derive(Clone, Debug)]
pub struct Bound {
    centers: Centers,
    groups: Groups,
    /// The points that stand for the groups.
    anchors: Centers,
    radius: f64,
    theta_star: Option<Vec<f64>>,
    rule: CenterRule,
}

/// Room for one tile.
#[derive(Clone, Debug)]
pub struct BoundScratch {
    distances: Vec<Lane>,
    group: Lane,
    least: Lane,
    along: Lane,
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
            CenterRule::Exact => Centers::new(centers.dim(), groups.mean.clone()),
            CenterRule::Quick => centers.clone(),
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

    /// Room for one tile.
    pub fn scratch(&self) -> BoundScratch {
        BoundScratch {
            distances: vec![Lane::ZERO; self.centers.len()],
            group: Lane::ZERO,
            least: Lane::ZERO,
            along: Lane::ZERO,
        }
    }

    /// The shares `s_n` of a tile's rows; 0 for its padding.
    pub fn shares(&self, tile: &Tile<'_>, scratch: &mut BoundScratch, shares: &mut Lane) {
        vectorized(
            #[inline(always)]
            || self.shares_kernel(tile, scratch, shares),
        );
    }

    #[inline(always)]
    fn shares_kernel(&self, tile: &Tile<'_>, scratch: &mut BoundScratch, shares: &mut Lane) {
        let BoundScratch { distances, group, least, along } = scratch;
        self.centers.squared_distances(tile, distances);
        nearest(distances, group, least);

        // The mass of each row's own group without it, and by how much that moves its mean away.
        let mut rest: Lane = Lane::ZERO;
        for (i, &mass) in self.groups.mass.iter().enumerate() {
            for r in 0..TILE {
                rest[r] = if group[r] == i as f64 { mass } else { rest[r] };
            }
        }
        let mut stretch: Lane = Lane::of(1.0);
        for r in 0..TILE {
            let others = rest[r] - tile.w[r];
            let others = if others > 0.0 { others } else { 0.0 };
            let ratio = if others > 0.0 { rest[r] / others } else { 1.0 };
            stretch[r] = if self.rule == CenterRule::Exact { ratio } else { 1.0 };
            rest[r] = others;
        }

        let mut sum: Lane = *tile.w;
        for ((i, anchor), &mass) in self.anchors.rows().enumerate().zip(&self.groups.mass) {
            if mass == 0.0 {
                continue;
            }
            let distance = &mut distances[i];
            if self.rule == CenterRule::Exact {
                squared_distance(tile, anchor, distance);
            }
            *along = Lane::ZERO;
            if let Some(theta_star) = &self.theta_star {
                for ((z, &q), &theta) in tile.z.iter().zip(anchor).zip(theta_star) {
                    for r in 0..TILE {
                        along[r] = (q - z[r]).mul_add(theta, along[r]);
                    }
                }
            }
            for r in 0..TILE {
                let own = group[r] == i as f64;
                let far = self.radius.mul_add(distance[r].sqrt(), along[r].abs());
                let far = if own { far * stretch[r] } else { far };
                let mass = if own { rest[r] } else { mass };
                sum[r] = mass.mul_add(exp_nonpositive(-far), sum[r]);
            }
        }
        for r in 0..TILE {
            shares[r] = if tile.w[r] > 0.0 { tile.w[r] / sum[r] } else { 0.0 };
        }
    }
}

/// The same shares by the definition, with every mean computed anew without its row: slow, and plainly right.
pub fn plain_shares(
    points: &[(Vec<f64>, f64)],
    centers: &Centers,
    radius: f64,
    theta_star: &[f64],
    rule: CenterRule,
) -> Vec<f64> {
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    let nearest = |z: &[f64]| {
        let distances: Vec<f64> = centers.rows().map(|q| distance(z, q)).collect();
        (0..distances.len()).rev().min_by(|&a, &b| distances[a].total_cmp(&distances[b])).unwrap_or(0)
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
            sum += mass * (-radius * distance(&anchor, z) - along.abs()).exp();
        }
        w / sum
    };
    (0..points.len()).map(share).collect()
}
