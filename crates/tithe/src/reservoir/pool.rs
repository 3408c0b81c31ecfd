//! The candidates for a calibrated coreset, selected from all rows in one mergeable pass.
//!
//! Two [exponential races](super) run side by side, and each keeps the rows with the smallest keys. The rate of the first is the
//! sensitivity share `s_n` (rows that matter anywhere in parameter space). The rate of the second is `w_n‖F_n‖`, the size of the local
//! features (rows that matter near the pilot). The first rows of a race are themselves a smaller race. Given the threshold `τ`, the
//! smallest rejected key, a row is kept with probability `1 − exp(−rate·τ)`, independently of the others. These probabilities give the
//! reference weights.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::base::math::{exp_m1, ln};
use crate::base::rng::{Rng, open_unit};
use crate::data::points::{Lane, Points, Tile};

/// A row of the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Position of the row in the input.
    pub position: u64,
    /// The point `z_n`.
    pub z: Vec<f64>,
    /// Its weight `w_n`.
    pub weight: f64,
    /// Its sensitivity share `s_n`.
    pub share: f64,
    /// `w_n‖F_n‖`.
    pub norm: f64,
    /// Its random key in the race by share.
    share_key: f64,
    /// Its random key in the race by norm.
    norm_key: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Runner {
    key: f64,
    candidate: Candidate,
}

impl PartialEq for Runner {
    fn eq(&self, other: &Runner) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Runner {}

impl PartialOrd for Runner {
    fn partial_cmp(&self, other: &Runner) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Runner {
    fn cmp(&self, other: &Runner) -> Ordering {
        self.key.total_cmp(&other.key).then(self.candidate.position.cmp(&other.candidate.position))
    }
}

/// The state of both races for some rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Race {
    /// Rows that each race keeps; one more sets the threshold.
    capacity: usize,
    /// Larger keys are rejected even if the race has free places.
    limits: Thresholds,
    by_share: BinaryHeap<Runner>,
    by_norm: BinaryHeap<Runner>,
}

/// The pool: the rows that either race kept.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The rows, by position.
    pub candidates: Vec<Candidate>,
    /// The sorted keys of each race; the last one is the threshold from which rows were rejected.
    share_keys: Vec<f64>,
    norm_keys: Vec<f64>,
}

impl Race {
    /// An empty race that keeps `capacity` rows by share and as many by norm.
    pub fn new(capacity: usize) -> Race {
        Race::with_limits(capacity, Thresholds { share: f64::INFINITY, norm: f64::INFINITY })
    }

    /// The same with estimates of the totals `Σ s_n` and `Σ w_n‖F_n‖`: most rows are then rejected at once, where otherwise every
    /// block fills a race of its own. A wrong estimate makes the pool smaller or the pass slower, but never biases the weights.
    pub fn with_totals(capacity: usize, shares: f64, norms: f64) -> Race {
        // The expected number of keys below a threshold is at most total·threshold. Allow 50 % more than needed.
        let limit =
            |total: f64| if total > 0.0 { 1.5 * (capacity + 1) as f64 / total } else { f64::INFINITY };
        Race::with_limits(capacity, Thresholds { share: limit(shares), norm: limit(norms) })
    }

    fn with_limits(capacity: usize, limits: Thresholds) -> Race {
        Race { capacity, limits, by_share: BinaryHeap::new(), by_norm: BinaryHeap::new() }
    }

    /// Enters the rows of a tile, with their shares and norms `‖F_n‖`. `position` maps a row of the tile to its position in the input, and
    /// `rng` must be the random stream of the block.
    pub fn enter(
        &mut self,
        tile: &Tile<'_>,
        shares: &Lane,
        norms: &Lane,
        position: impl Fn(usize) -> u64,
        rng: &mut Rng,
    ) {
        let worst_share = worst(&self.by_share, self.capacity, self.limits.share);
        let worst_norm = worst(&self.by_norm, self.capacity, self.limits.norm);
        for r in 0..tile.len {
            let (share, norm) = (shares[r], tile.w[r] * norms[r]);
            let (share_unit, norm_unit) = (open_unit(rng), open_unit(rng));
            // E = −ln u ≥ 1 − u, so most rows are rejected without a logarithm.
            if 1.0 - share_unit > share * worst_share && 1.0 - norm_unit > norm * worst_norm {
                continue;
            }
            let (share_key, norm_key) = (key(share, share_unit), key(norm, norm_unit));
            let wanted_by_share = share_key.is_finite() && share_key <= worst_share;
            let wanted_by_norm = norm_key.is_finite() && norm_key <= worst_norm;
            if !(wanted_by_share || wanted_by_norm) {
                continue;
            }
            let mut z = vec![0.0; tile.z.len()];
            tile.copy_row(r, &mut z);
            let candidate =
                Candidate { position: position(r), z, weight: tile.w[r], share, norm, share_key, norm_key };
            if wanted_by_share {
                keep(
                    &mut self.by_share,
                    self.capacity,
                    Runner { key: share_key, candidate: candidate.clone() },
                );
            }
            if wanted_by_norm {
                keep(&mut self.by_norm, self.capacity, Runner { key: norm_key, candidate });
            }
        }
    }

    /// Adds the race over other rows.
    pub fn merge(&mut self, other: Race) {
        for runner in other.by_share {
            keep(&mut self.by_share, self.capacity, runner);
        }
        for runner in other.by_norm {
            keep(&mut self.by_norm, self.capacity, runner);
        }
    }

    /// The positions of the rows in either race, sorted.
    pub(crate) fn positions(&self) -> Vec<u64> {
        let runners = self.by_share.iter().chain(&self.by_norm);
        let mut positions: Vec<u64> = runners.map(|runner| runner.candidate.position).collect();
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// Replaces the position of each row by `place(position)`, which must be increasing.
    pub(crate) fn relocate(&mut self, place: &dyn Fn(u64) -> u64) {
        for heap in [&mut self.by_share, &mut self.by_norm] {
            let moved = std::mem::take(heap).into_iter().map(|mut runner| {
                runner.candidate.position = place(runner.candidate.position);
                runner
            });
            *heap = moved.collect();
        }
    }

    /// The pool.
    pub fn finish(self) -> Pool {
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut ordered = |heap: BinaryHeap<Runner>, limit: f64| {
            let runners = heap.into_sorted_vec();
            let mut keys: Vec<f64> = runners.iter().map(|runner| runner.key).collect();
            candidates.extend(runners.into_iter().take(self.capacity).map(|runner| runner.candidate));
            // In a race with free places, the limit is the threshold.
            if keys.len() <= self.capacity {
                keys.push(limit);
            }
            keys
        };
        let share_keys = ordered(self.by_share, self.limits.share);
        let norm_keys = ordered(self.by_norm, self.limits.norm);
        candidates.sort_by_key(|candidate| candidate.position);
        candidates.dedup_by_key(|candidate| candidate.position);
        Pool { candidates, share_keys, norm_keys }
    }
}

/// The largest key that the race still accepts.
fn worst(heap: &BinaryHeap<Runner>, capacity: usize, limit: f64) -> f64 {
    if heap.len() <= capacity { limit } else { heap.peek().map_or(limit, |runner| runner.key) }
}

/// The random key of a row: exponential with this rate, from a uniform number. Infinite for rate 0.
fn key(rate: f64, unit: f64) -> f64 {
    if rate > 0.0 { -ln(unit) / rate } else { f64::INFINITY }
}

fn keep(heap: &mut BinaryHeap<Runner>, capacity: usize, runner: Runner) {
    heap.push(runner);
    if heap.len() > capacity + 1 {
        heap.pop();
    }
}

/// The keys below which rows are selected.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Thresholds {
    share: f64,
    norm: f64,
}

impl Pool {
    /// Number of candidates.
    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// The candidates as points with their own weights.
    pub fn points(&self) -> Points {
        let dim = self.candidates.first().map_or(0, |candidate| candidate.z.len());
        Points::from_rows(
            dim,
            self.candidates.iter().map(|candidate| (candidate.z.as_slice(), candidate.weight)),
        )
    }

    /// The rows with the smallest keys of both races: as many as possible, but at most `size` distinct rows.
    pub fn first(&self, size: usize) -> Vec<usize> {
        let thresholds = self.thresholds(size);
        (0..self.len()).filter(|&p| self.is_within(p, thresholds)).collect()
    }

    /// The weight `w/π` of every candidate, where `π` is its probability to be in [`Pool::first`] of that size.
    pub fn reference_weights(&self, size: usize) -> Vec<f64> {
        let thresholds = self.thresholds(size);
        self.candidates
            .iter()
            .map(|candidate| {
                let expected = expected_keys(candidate.share, thresholds.share)
                    + expected_keys(candidate.norm, thresholds.norm);
                let inclusion = -exp_m1(-expected);
                candidate.weight / inclusion.max(f64::MIN_POSITIVE)
            })
            .collect()
    }

    fn is_within(&self, p: usize, thresholds: Thresholds) -> bool {
        let candidate = &self.candidates[p];
        candidate.share_key < thresholds.share || candidate.norm_key < thresholds.norm
    }

    /// The largest thresholds that select at most `size` distinct rows.
    fn thresholds(&self, size: usize) -> Thresholds {
        let at = |each: usize| {
            let threshold = |keys: &[f64]| keys.get(each).or(keys.last()).copied().unwrap_or(f64::INFINITY);
            Thresholds { share: threshold(&self.share_keys), norm: threshold(&self.norm_keys) }
        };
        let count = |each: usize| (0..self.len()).filter(|&p| self.is_within(p, at(each))).count();
        // The count grows with `each`: bisect for the largest that fits.
        let (mut fits, mut too_many) = (0, self.share_keys.len().max(self.norm_keys.len()) + 1);
        while too_many - fits > 1 {
            let middle = (fits + too_many) / 2;
            if count(middle) <= size { fits = middle } else { too_many = middle }
        }
        at(fits)
    }
}

/// `rate·threshold`, the expected number of points of a Poisson process below the threshold; 0 for rate 0, even if the threshold is
/// infinite.
fn expected_keys(rate: f64, threshold: f64) -> f64 {
    if rate > 0.0 { rate * threshold } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(mut all: Race, next: Race) -> Race {
        all.merge(next);
        all
    }

    use crate::base::rng::{Purpose, Seed};
    use crate::data::points::TILE;

    /// Rows 0..count with share 1 + n mod 3 and norm 1 + n mod 5, raced in blocks of one tile.
    fn races(count: usize, capacity: usize, seed: u64) -> Vec<Race> {
        let points = Points::from_rows(1, (0..count).map(|_| (&[1.0][..], 1.0)));
        points
            .tiles()
            .enumerate()
            .map(|(t, tile)| {
                let mut race = Race::new(capacity);
                let shares: Lane = Lane(std::array::from_fn(|r| 1.0 + ((t * TILE + r) % 3) as f64));
                let norms: Lane = Lane(std::array::from_fn(|r| 1.0 + ((t * TILE + r) % 5) as f64));
                let mut rng = Seed(seed).stream(Purpose::Pool, t as u64);
                race.enter(&tile, &shares, &norms, |r| (t * TILE + r) as u64, &mut rng);
                race
            })
            .collect()
    }

    fn positions(pool: &Pool) -> Vec<u64> {
        pool.candidates.iter().map(|candidate| candidate.position).collect()
    }

    #[test]
    fn the_order_of_merging_does_not_matter() {
        let forwards = races(1000, 50, 1).into_iter().fold(Race::new(50), merged).finish();
        let backwards = races(1000, 50, 1).into_iter().rev().fold(Race::new(50), merged).finish();
        assert_eq!(positions(&forwards), positions(&backwards));
        assert_eq!(forwards.reference_weights(20), backwards.reference_weights(20));
        assert!(forwards.len() > 50 && forwards.len() <= 100);
    }

    #[test]
    fn a_smaller_selection_is_within_a_larger_one() {
        let pool = races(1000, 100, 2).into_iter().fold(Race::new(100), merged).finish();
        let (small, large) = (pool.first(30), pool.first(60));
        assert!(small.len() <= 30 && small.len() >= 28, "{}", small.len());
        assert!(large.len() <= 60 && large.len() >= 58);
        assert!(small.iter().all(|p| large.contains(p)));
    }

    #[test]
    fn reference_weights_estimate_the_number_of_rows() {
        // The estimate Σ w/π is unbiased; over 200 seeds its mean is within 5 standard errors of 1000, except once in a million cases.
        let estimates: Vec<f64> = (0..200)
            .map(|seed| {
                let pool = races(1000, 100, seed).into_iter().fold(Race::new(100), merged).finish();
                let weights = pool.reference_weights(60);
                pool.first(60).iter().map(|&p| weights[p]).sum()
            })
            .collect();
        let mean = estimates.iter().sum::<f64>() / 200.0;
        let variance = estimates.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / 199.0;
        assert!(
            (mean - 1000.0).abs() < 5.0 * (variance / 200.0).sqrt(),
            "{mean} ± {}",
            (variance / 200.0).sqrt()
        );
    }

    #[test]
    fn estimated_totals_do_not_change_the_result() {
        let race = |make: fn() -> Race| {
            let points = Points::from_rows(1, (0..5000).map(|_| (&[1.0][..], 1.0)));
            let mut race = make();
            let mut rng = Seed(4).stream(Purpose::Pool, 0);
            for (t, tile) in points.tiles().enumerate() {
                race.enter(&tile, &Lane::of(2.0), &Lane::of(0.5), |r| (t * TILE + r) as u64, &mut rng);
            }
            race.finish()
        };
        let free = race(|| Race::new(200));
        let limited = race(|| Race::with_totals(200, 10_000.0, 2_500.0));
        assert_eq!(positions(&free), positions(&limited));
        assert_eq!(free.reference_weights(150), limited.reference_weights(150));
        // With totals ten times too large there are fewer rows, but their weights still sum to about 5000: Poisson selection of 60 of
        // 5000 rows has a relative standard deviation of 13 %.
        let few = race(|| Race::with_totals(200, 100_000.0, 25_000.0));
        assert!(few.len() < 100, "{}", few.len());
        let total: f64 = few.reference_weights(1000).iter().sum();
        assert!((total / 5000.0 - 1.0).abs() < 0.65, "{total}");
    }

    #[test]
    fn a_pool_as_large_as_the_data_keeps_every_row_with_its_weight() {
        let pool = races(200, 500, 3).into_iter().fold(Race::new(500), merged).finish();
        assert_eq!(positions(&pool), (0..200).collect::<Vec<u64>>());
        assert_eq!(pool.reference_weights(400), vec![1.0; 200]);
        assert_eq!(pool.first(400).len(), 200);
    }
}
