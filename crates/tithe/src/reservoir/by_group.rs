//! A weighted choice of rows that covers every group, in one pass and bounded memory.
//!
//! Each row draws one key, exponential with the row's rate (Efraimidis and Spirakis 2006). A row is kept if its key is among the
//! smallest of its group or among the smallest of all. Given the keys of other rows, a row is kept with probability
//! `1 − e^{−rate·t}`, where `t` is the larger of the two thresholds: the first key of the group that was not kept, and the first of all.

use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::base::math::{exp_m1, ln};

/// A row that may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    group: u32,
    key: f64,
    rate: f64,
    position: u64,
}

/// How many rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCapacity {
    /// Of each group.
    pub per_group: usize,
    /// Of all rows, whatever their group.
    pub overall: usize,
}

/// The rows of some blocks that may be kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupRace {
    capacity: GroupCapacity,
    /// By group, then by key, then by position.
    entries: Vec<Entry>,
}

/// A row that was kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeptRow {
    /// Its position in the input.
    pub position: u64,
    /// The probability that it is kept.
    pub inclusion: f64,
}

/// Rejects rows that other rows have already beaten; it only saves work.
pub struct Beaten {
    capacity: GroupCapacity,
    by_group: Vec<BinaryHeap<u64>>,
    overall: BinaryHeap<u64>,
}

impl Beaten {
    /// Nothing is beaten yet.
    pub fn new(capacity: GroupCapacity, groups: usize) -> Beaten {
        Beaten { capacity, by_group: vec![BinaryHeap::new(); groups], overall: BinaryHeap::new() }
    }

    /// False if enough rows with smaller keys were entered before.
    fn admits(&mut self, group: u32, key: f64) -> bool {
        // The bits of positive numbers are in the order of the numbers.
        let bits = key.to_bits();
        let admit = |heap: &mut BinaryHeap<u64>, most: usize| {
            let admitted = heap.len() <= most || heap.peek().is_some_and(|worst| bits <= *worst);
            if admitted {
                heap.push(bits);
                if heap.len() > most + 1 {
                    heap.pop();
                }
            }
            admitted
        };
        let in_group =
            self.by_group.get_mut(group as usize).is_none_or(|heap| admit(heap, self.capacity.per_group));
        admit(&mut self.overall, self.capacity.overall) || in_group
    }
}

impl GroupRace {
    /// No rows.
    pub fn new(capacity: GroupCapacity) -> GroupRace {
        GroupRace { capacity, entries: Vec::new() }
    }

    /// Enters a row with a uniform number in (0, 1]. A row of rate 0 is never kept.
    pub fn enter(&mut self, group: u32, rate: f64, unit: f64, position: u64, beaten: &mut Beaten) {
        let key = -ln(unit) / rate;
        if key.is_finite() && rate > 0.0 && beaten.admits(group, key) {
            self.entries.push(Entry { group, key, rate, position });
        }
    }

    /// Sorts the rows that were entered, and drops those that cannot be kept.
    pub fn close(&mut self) {
        self.entries.sort_unstable_by(compare);
        self.trim();
    }

    /// Adds the rows of other blocks; both must be closed.
    pub fn merge(&mut self, other: GroupRace) {
        let ours = std::mem::take(&mut self.entries);
        self.entries.reserve(ours.len() + other.entries.len());
        let (mut ours, mut theirs) = (ours.into_iter().peekable(), other.entries.into_iter().peekable());
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            let next = if compare(a, b).is_le() { ours.next() } else { theirs.next() };
            self.entries.extend(next);
        }
        self.entries.extend(ours);
        self.entries.extend(theirs);
        self.trim();
    }

    /// The first key of all that is not kept.
    fn overall_threshold(&self) -> f64 {
        if self.entries.len() <= self.capacity.overall {
            return f64::INFINITY;
        }
        let mut keys: Vec<f64> = self.entries.iter().map(|entry| entry.key).collect();
        *keys.select_nth_unstable_by(self.capacity.overall, f64::total_cmp).1
    }

    /// Keeps the rows that are kept and those whose keys are the thresholds.
    fn trim(&mut self) {
        let overall = self.overall_threshold();
        let (mut group, mut rank) = (u32::MAX, 0);
        let per_group = self.capacity.per_group;
        self.entries.retain(|entry| {
            if entry.group != group {
                (group, rank) = (entry.group, 0);
            }
            rank += 1;
            rank <= per_group + 1 || entry.key <= overall
        });
    }

    /// The number of rows that may be kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The positions of all rows that may be kept, sorted.
    pub fn positions(&self) -> Vec<u64> {
        let mut positions: Vec<u64> = self.entries.iter().map(|entry| entry.position).collect();
        positions.sort_unstable();
        positions
    }

    /// Replaces the position of each row by `place(position)`, which must be increasing.
    pub fn relocate(&mut self, place: &dyn Fn(u64) -> u64) {
        self.entries.iter_mut().for_each(|entry| entry.position = place(entry.position));
    }

    /// The rows that are kept, by position.
    pub fn finish(self) -> Vec<KeptRow> {
        let overall = self.overall_threshold();
        let mut kept = Vec::new();
        for of_group in self.entries.chunk_by(|a, b| a.group == b.group) {
            let of_own = of_group.get(self.capacity.per_group).map_or(f64::INFINITY, |entry| entry.key);
            let threshold = of_own.max(overall);
            kept.extend(of_group.iter().filter(|entry| entry.key < threshold).map(|entry| KeptRow {
                position: entry.position,
                inclusion: if threshold.is_finite() { -exp_m1(-entry.rate * threshold) } else { 1.0 },
            }));
        }
        kept.sort_unstable_by_key(|row| row.position);
        kept
    }
}

fn compare(a: &Entry, b: &Entry) -> std::cmp::Ordering {
    a.group.cmp(&b.group).then(a.key.total_cmp(&b.key)).then(a.position.cmp(&b.position))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Seed, open_unit};

    const CAPACITY: GroupCapacity = GroupCapacity { per_group: 20, overall: 100 };

    /// Row n has rate 1 + n mod 3 and belongs to group 0, or to group 1 + n/1000 if n is a multiple of 50.
    fn group_and_rate(n: u64) -> (u32, f64) {
        (if n.is_multiple_of(50) { 1 + (n / 1000) as u32 } else { 0 }, 1.0 + (n % 3) as f64)
    }

    fn races(rows: u64, block: u64, seed: u64, shared: bool) -> Vec<GroupRace> {
        let mut beaten = Beaten::new(CAPACITY, 8);
        (0..rows.div_ceil(block))
            .map(|b| {
                if !shared {
                    beaten = Beaten::new(CAPACITY, 8);
                }
                let mut rng = Seed(seed).stream(Purpose::Pool, b);
                let mut race = GroupRace::new(CAPACITY);
                for n in b * block..rows.min((b + 1) * block) {
                    let (group, rate) = group_and_rate(n);
                    race.enter(group, rate, open_unit(&mut rng), n, &mut beaten);
                }
                race.close();
                race
            })
            .collect()
    }

    fn merged(races: impl Iterator<Item = GroupRace>) -> Vec<KeptRow> {
        let mut all = GroupRace::new(CAPACITY);
        races.for_each(|race| all.merge(race));
        all.finish()
    }

    #[test]
    fn neither_the_order_of_merging_nor_early_rejection_matters() {
        let forwards = merged(races(7000, 300, 1, false).into_iter());
        assert_eq!(forwards, merged(races(7000, 300, 1, false).into_iter().rev()));
        assert_eq!(forwards, merged(races(7000, 300, 1, true).into_iter()));
    }

    #[test]
    fn every_group_is_covered_and_small_groups_are_whole() {
        let kept = merged(races(7000, 500, 2, true).into_iter());
        for group in 1..8 {
            let of_group = kept.iter().filter(|row| group_and_rate(row.position).0 == group);
            assert_eq!(of_group.clone().count(), 20, "each of these groups has 20 rows");
            assert!(of_group.clone().all(|row| row.inclusion == 1.0));
        }
        assert!(kept.len() > 200 && kept.len() < 300, "{}", kept.len());
    }

    #[test]
    fn inverse_probabilities_estimate_totals() {
        // Over 300 seeds the mean of an unbiased estimate is within 5 standard errors, except once in a million cases.
        let estimates: Vec<f64> = (0..300)
            .map(|seed| {
                merged(races(3500, 700, seed, true).into_iter()).iter().map(|row| row.inclusion.recip()).sum()
            })
            .collect();
        let mean = estimates.iter().sum::<f64>() / 300.0;
        let variance = estimates.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / 299.0;
        let error = (variance / 300.0).sqrt();
        assert!((mean - 3500.0).abs() < 5.0 * error && error < 30.0, "{mean} ± {error}");
    }
}
