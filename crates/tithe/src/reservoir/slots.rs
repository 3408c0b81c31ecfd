//! Weighted selection with replacement in one pass: M slots, each filled by an independent [exponential race](super).
//!
//! Every slot holds one row, selected with probability `s_n / Σ s`: the row with the smallest key, where the key of row n is
//! exponential with rate `s_n`. The smallest key of a block with total `S_b` is exponential with rate `S_b`, and it belongs to row n
//! with probability `s_n / S_b`. A block of any length therefore draws only M keys and at most M rows. Two states merge by keeping the
//! smaller key of each slot: exact, associative, commutative, and without randomness.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::base::math::{exponential, total, vectorized};
use crate::base::rng::{CounterRng, Rng};
use crate::data::block::{Block, RowSet};

/// Slots whose keys are drawn together: one bit of a `u64` each.
const BATCH: usize = 64;

/// A state of fewer values than this keeps the rows that have lost: discarding them takes time under the lock of the merge.
const COMPACT_ABOVE: usize = if cfg!(test) { 100 } else { 1 << 20 };

/// The state of M races, for some blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "PlainSlots", into = "PlainSlots")]
pub struct Slots {
    /// `S`, the sum of the shares.
    pub total: f64,
    /// Ordered by slot. The state of one block contains only winners that can still be the winner of all rows.
    winners: Vec<Winner>,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Winner {
    slot: u32,
    /// The smallest random key so far.
    #[serde(rename = "time")]
    key: f64,
    part: u32,
    row: u32,
}

/// Rows copied out of one block.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Part {
    rows: RowSet,
    shares: Vec<f64>,
}

/// The serialised form of [`Slots`], without the rows that have lost.
#[derive(Serialize, Deserialize)]
struct PlainSlots(f64, Vec<Winner>, Vec<Part>);

impl From<Slots> for PlainSlots {
    fn from(mut slots: Slots) -> PlainSlots {
        slots.compact();
        PlainSlots(slots.total, slots.winners, slots.parts)
    }
}

impl From<PlainSlots> for Slots {
    fn from(PlainSlots(total, winners, parts): PlainSlots) -> Slots {
        Slots { total, winners, parts }
    }
}

/// The rows that won, each once, in the order of the input.
#[derive(Clone, Debug)]
pub struct Picked {
    /// The rows.
    pub rows: RowSet,
    /// Their shares `s_n`.
    pub shares: Vec<f64>,
    /// The number of slots `K_n` that each row won.
    pub counts: Vec<u32>,
}

/// The M races of one pass. A value may run again over the same rows; other rows need a new value, because it shares keys between threads.
#[derive(Debug, Serialize, Deserialize)]
pub struct Races {
    slots: usize,
    /// The smallest keys so far, of all threads, as bits: for non-negative numbers these have the same order as the numbers.
    #[serde(skip)]
    best: OnceLock<Arc<[AtomicU64]>>,
}

/// The state that one thread keeps from block to block.
#[derive(Clone, Debug)]
pub struct Racer {
    /// The smallest keys at the start of the last block: a row with a larger key can no longer win. Which rows the state of a block
    /// omits depends on the threads; the merged state of all blocks does not.
    best: Vec<f64>,
    /// The smallest keys so far, of all threads.
    shared_best: Arc<[AtomicU64]>,
    /// Buffer for the running sums of the shares.
    cumulative: Vec<f64>,
}

impl Races {
    /// Races for this number of slots.
    pub fn new(slots: usize) -> Races {
        Races { slots, best: OnceLock::new() }
    }

    /// The number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The initial state of a thread.
    pub fn racer(&self) -> Racer {
        let infinite = || (0..self.slots).map(|_| AtomicU64::new(f64::INFINITY.to_bits())).collect();
        let shared_best = self.best.get_or_init(infinite).clone();
        Racer { best: vec![f64::INFINITY; self.slots], shared_best, cumulative: Vec::new() }
    }
}

impl Racer {
    /// Races the rows of a block, row n at rate `shares[n] ≥ 0`.
    pub fn race(&mut self, block: &Block, shares: &[f64], rng: &mut Rng) -> Slots {
        let mut cumulative = std::mem::take(&mut self.cumulative);
        let total = running_sums(shares, &mut cumulative);
        let find = |place: f64| row_at(place * total, shares, &cumulative);
        let outcome = self.outcome(shares.len(), total, find, rng);
        self.cumulative = cumulative;
        outcome.slots(block, |row| shares[row])
    }

    /// Races the rows of a block, all at rate 1.
    pub(crate) fn race_uniform(&mut self, block: &Block, rng: &mut Rng) -> Slots {
        let rows = block.len;
        let find = |place: f64| (place * rows as f64) as usize % rows;
        self.outcome(rows, rows as f64, find, rng).slots(block, |_| 1.0)
    }

    /// The winners among `rows` rows whose shares sum to `total`; `find` gives the row at a place in [0, 1) of the running total.
    fn outcome(&mut self, rows: usize, total: f64, find: impl Fn(f64) -> usize, rng: &mut Rng) -> Outcome {
        let mut winners = Vec::new();
        if total > 0.0 {
            for (best, shared) in self.best.iter_mut().zip(&*self.shared_best) {
                *best = f64::from_bits(shared.load(Ordering::Relaxed));
            }
            // Random numbers are indexed by slot, so they do not depend on which slots this thread has skipped.
            let (key_units, places) = (CounterRng::new(rng), CounterRng::new(rng));
            for (first, best) in (0..).step_by(BATCH).zip(self.best.chunks(BATCH)) {
                let mut keys = [f64::INFINITY; BATCH];
                let mut winning = vectorized(
                    #[inline(always)]
                    || race_batch(key_units, first, total, best, &mut keys),
                );
                while winning != 0 {
                    let at = winning.trailing_zeros() as usize;
                    winning &= winning - 1;
                    let slot = first + at as u64;
                    self.shared_best[slot as usize].fetch_min(keys[at].to_bits(), Ordering::Relaxed);
                    let row = find(places.unit(slot)) as u32;
                    winners.push(Winner { slot: slot as u32, key: keys[at], part: 0, row });
                }
            }
        }
        Outcome { total, rows: in_order(&mut winners, rows), winners }
    }
}

/// Draws the block's keys for a batch of slots that starts at slot `first`. Returns one bit per slot, set where the key is not larger than
/// the best one so far.
#[inline(always)]
fn race_batch(units: CounterRng, first: u64, total: f64, best: &[f64], keys: &mut [f64; BATCH]) -> u64 {
    for (slot, key) in (first..).zip(keys.iter_mut()) {
        *key = units.unit(slot);
    }
    // −ln(1 − u) ≥ u up to rounding, so most slots are decided without a logarithm; after many blocks, nearly all batches are.
    let total_rounded_up = total * (1.0 + 4.0 * f64::EPSILON);
    let mut undecided = 0u64;
    for (u, best) in keys.iter().zip(best) {
        undecided += u64::from(*u <= best * total_rounded_up);
    }
    if undecided == 0 {
        return 0;
    }
    for key in keys.iter_mut() {
        *key = exponential(*key) / total;
    }
    let mut bits = 0;
    for (at, (key, best)) in keys.iter().zip(best).enumerate() {
        bits |= u64::from(key <= best) << at;
    }
    bits
}

/// The distinct rows among the winners, in order. Afterwards `Winner::row` is an index into this list. `rows` is the number of rows in the
/// block.
fn in_order(winners: &mut [Winner], rows: usize) -> Vec<usize> {
    let place = |winner: &Winner| (winner.row as usize / 64, winner.row % 64);
    // One bit per row, and for each word of bits the number of winning rows before it.
    let mut won = vec![0u64; rows.div_ceil(64)];
    for winner in &*winners {
        let (word, bit) = place(winner);
        won[word] |= 1 << bit;
    }
    let mut before = Vec::with_capacity(won.len());
    let mut in_order = Vec::with_capacity(winners.len());
    for (word, &bits) in won.iter().enumerate() {
        before.push(in_order.len() as u32);
        let mut bits = bits;
        while bits != 0 {
            in_order.push(word * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
    for winner in winners {
        let (word, bit) = place(winner);
        winner.row = before[word] + (won[word] & ((1 << bit) - 1)).count_ones();
    }
    in_order
}

/// The winners of a block's races.
struct Outcome {
    total: f64,
    winners: Vec<Winner>,
    /// The rows that won, each once, in order.
    rows: Vec<usize>,
}

impl Outcome {
    /// The state of the races, with copies of the rows that won.
    fn slots(self, block: &Block, share: impl Fn(usize) -> f64) -> Slots {
        if self.winners.is_empty() {
            return Slots { total: self.total, winners: Vec::new(), parts: Vec::new() };
        }
        let rows = RowSet::copy(block, &self.rows);
        let shares = self.rows.into_iter().map(share).collect();
        Slots { total: self.total, winners: self.winners, parts: vec![Part { rows, shares }] }
    }
}

/// Rows per running sum: a binary search finds the step, a short linear search the row in it.
const STEP: usize = 32;

/// Writes the running sum of the shares at the end of each step, and returns the sum of all shares.
fn running_sums(shares: &[f64], sums: &mut Vec<f64>) -> f64 {
    sums.clear();
    sums.reserve(shares.len().div_ceil(STEP));
    vectorized(
        #[inline(always)]
        || {
            let mut all = 0.0;
            for step in shares.chunks(STEP) {
                all += sum_of_step(step);
                sums.push(all);
            }
            all
        },
    )
}

#[inline(always)]
fn sum_of_step(shares: &[f64]) -> f64 {
    const LANES: usize = 8;
    let (whole, rest) = shares.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for shares in whole {
        for l in 0..LANES {
            lanes[l] += shares[l];
        }
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, share)| *lane += share);
    total(&lanes)
}

/// The row at which the running sum of the shares passes `place`. It has a positive share if any row has one.
fn row_at(place: f64, shares: &[f64], sums: &[f64]) -> usize {
    // Rounding may move a place to the very end, behind the last row with a positive share.
    let place = place.min(sums.last().map_or(0.0, |total| total.next_down()));
    let step = sums.partition_point(|&sum| sum <= place).min(sums.len() - 1);
    let mut sum = if step == 0 { 0.0 } else { sums[step - 1] };
    let first = step * STEP;
    let mut last = first;
    for (row, &share) in (first..).zip(&shares[first..shares.len().min(first + STEP)]) {
        sum += share;
        if share > 0.0 {
            last = row;
            if sum > place {
                break;
            }
        }
    }
    last
}

impl Part {
    fn take(&self, rows: &[usize]) -> Part {
        Part { rows: self.rows.take(rows), shares: rows.iter().map(|&row| self.shares[row]).collect() }
    }

    fn concat(parts: Vec<Part>) -> Part {
        Part {
            shares: parts.iter().flat_map(|part| part.shares.iter().copied()).collect(),
            rows: RowSet::concat(parts.into_iter().map(|part| part.rows).collect()),
        }
    }
}

impl Slots {
    /// Adds the races of other blocks: the smaller key wins each slot.
    pub fn merge(&mut self, other: Slots) {
        self.total += other.total;
        let shift = self.parts.len() as u32;
        self.parts.extend(other.parts);
        let mut theirs = other.winners;
        theirs.iter_mut().for_each(|winner| winner.part += shift);
        self.winners = smaller_keys(std::mem::take(&mut self.winners), theirs);
        // Discard rows that lost from time to time, so that memory stays O(M).
        let kept: usize = self.parts.iter().map(|part| part.rows.len()).sum();
        let columns = self.parts.first().map_or(0, |part| part.rows.segment.columns.len());
        if kept > 4 * self.winners.len() && kept * columns > COMPACT_ABOVE {
            self.compact();
        }
    }

    /// Discards the rows that win no slot, and joins the others into one part ordered by position.
    fn compact(&mut self) {
        // For each row its index among the winning rows, or `None` if it wins no slot.
        let mut indices: Vec<Vec<Option<u32>>> =
            self.parts.iter().map(|part| vec![None; part.rows.len()]).collect();
        for winner in &self.winners {
            indices[winner.part as usize][winner.row as usize] = Some(0);
        }
        let mut kept = Vec::with_capacity(self.parts.len());
        let mut next = 0..;
        for (part, indices) in self.parts.iter().zip(&mut indices) {
            let mut rows = Vec::with_capacity(indices.len());
            for (row, index) in indices.iter_mut().enumerate().filter(|(_, index)| index.is_some()) {
                rows.push(row);
                *index = next.next();
            }
            if !rows.is_empty() {
                kept.push(part.take(&rows));
            }
        }
        if kept.is_empty() {
            return;
        }
        let joined = Part::concat(kept);
        // Already sorted if the blocks were merged in order.
        let mut order: Vec<usize> = (0..joined.rows.len()).collect();
        order.sort_by_key(|&row| joined.rows.positions[row]);
        let mut rank = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(&row, sorted)| rank[row] = sorted);
        for winner in &mut self.winners {
            let index = indices[winner.part as usize][winner.row as usize].map_or(0, |index| index as usize);
            (winner.part, winner.row) = (0, rank[index]);
        }
        self.parts = vec![if order.is_sorted() { joined } else { joined.take(&order) }];
    }

    /// Replaces the position of each row by `place(position)`, which must be increasing.
    pub fn relocate(&mut self, place: &dyn Fn(u64) -> u64) {
        self.parts.iter_mut().for_each(|part| part.rows.relocate(place));
    }

    /// Keeps only the first `slots` slots. All slots are independent, so these are a valid selection of that size.
    pub fn truncate(&mut self, slots: usize) {
        self.winners.retain(|winner| (winner.slot as usize) < slots);
    }

    /// The rows that won, each once; `None` if no row had a positive share.
    pub fn finish(mut self) -> Option<Picked> {
        self.compact();
        let part = self.parts.pop()?;
        let mut counts = vec![0; part.rows.len()];
        for winner in &self.winners {
            counts[winner.row as usize] += 1;
        }
        Some(Picked { rows: part.rows, shares: part.shares, counts })
    }
}

/// Merges two lists ordered by slot: the winner with the smaller key of each slot.
fn smaller_keys(mut ours: Vec<Winner>, theirs: Vec<Winner>) -> Vec<Winner> {
    // If every slot has a winner, the index of a winner is its slot.
    if ours.last().is_some_and(|last| last.slot as usize + 1 == ours.len())
        && theirs.last().is_none_or(|last| (last.slot as usize) < ours.len())
    {
        for theirs in theirs {
            let ours = &mut ours[theirs.slot as usize];
            if theirs.key < ours.key {
                *ours = theirs;
            }
        }
        return ours;
    }
    let mut both = Vec::with_capacity(ours.len().max(theirs.len()));
    let mut ours = ours.into_iter().peekable();
    for theirs in theirs {
        while let Some(earlier) = ours.next_if(|ours| ours.slot < theirs.slot) {
            both.push(earlier);
        }
        let rival = ours.next_if(|ours| ours.slot == theirs.slot);
        both.push(rival.filter(|ours| ours.key <= theirs.key).unwrap_or(theirs));
    }
    both.extend(ours);
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Seed};
    use crate::data::block::{Column, Segment};

    fn block(index: u64, first_row: u64, values: &[f64]) -> Block {
        let column = Column::Number(values.to_vec().into());
        Block::new(index, first_row, Segment { columns: vec![column], len: values.len() })
    }

    fn race(blocks: &[Block], slots: usize, seed: u64, racers: usize) -> Vec<Slots> {
        let mut racers: Vec<Racer> = (0..racers).map(|_| Races::new(slots).racer()).collect();
        let turns = blocks.iter().zip((0..racers.len()).cycle());
        turns.map(|(block, racer)| one_race(&mut racers[racer], block, seed)).collect()
    }

    fn one_race(racer: &mut Racer, block: &Block, seed: u64) -> Slots {
        let Column::Number(shares) = &block.columns[0] else { unreachable!() };
        racer.race(block, shares, &mut Seed(seed).stream(Purpose::Selection, block.stream))
    }

    /// The states of all blocks in block order, raced in the given order by three threads that share their keys.
    fn race_in_order(blocks: &[Block], order: &[usize], slots: usize, seed: u64) -> Vec<Slots> {
        let races = Races::new(slots);
        let mut racers = [races.racer(), races.racer(), races.racer()];
        let turns = order.iter().zip((0..racers.len()).cycle());
        let mut states: Vec<(usize, Slots)> =
            turns.map(|(&b, racer)| (b, one_race(&mut racers[racer], &blocks[b], seed))).collect();
        states.sort_by_key(|(b, _)| *b);
        states.into_iter().map(|(_, state)| state).collect()
    }

    fn merged(states: Vec<Slots>) -> Picked {
        states
            .into_iter()
            .reduce(|mut all, next| {
                all.merge(next);
                all
            })
            .and_then(Slots::finish)
            .expect("rows were picked")
    }

    fn shares(n: usize) -> Vec<f64> {
        (0..n).map(|i| 1.0 + (i % 5) as f64 + if i == 7 { 30.0 } else { 0.0 }).collect()
    }

    fn split(all: &[f64], sizes: &[usize]) -> Vec<Block> {
        let mut start = 0;
        sizes
            .iter()
            .enumerate()
            .map(|(b, size)| {
                let block = block(b as u64, start as u64, &all[start..start + size]);
                start += size;
                block
            })
            .collect()
    }

    /// χ² of the counts against M p_n; n − 1 = 59 degrees of freedom.
    fn chi_squared(shares: &[f64], counts: &[f64]) -> f64 {
        let (total, all) = (shares.iter().sum::<f64>(), counts.iter().sum::<f64>());
        shares.iter().zip(counts).map(|(s, k)| (k - all * s / total).powi(2) / (all * s / total)).sum()
    }

    #[test]
    fn rows_win_in_proportion_to_their_shares_however_they_are_split() {
        // χ²(59) exceeds 110 with probability 6e-5: three splits, false alarm below 2e-4 (fixed seeds).
        let all = shares(60);
        for sizes in [&[60][..], &[1, 9, 50], &[20, 20, 20]] {
            let mut counts = vec![0.0; 60];
            for seed in 0..200 {
                let picked = merged(race(&split(&all, sizes), 100, seed, 1));
                for (position, count) in picked.rows.positions.iter().zip(&picked.counts) {
                    counts[*position as usize] += f64::from(*count);
                }
            }
            assert_eq!(counts.iter().sum::<f64>(), 20_000.0);
            let chi = chi_squared(&all, &counts);
            assert!(chi < 110.0, "chi squared {chi} for {sizes:?}");
        }
    }

    #[test]
    fn any_order_of_merging_and_any_number_of_processes_gives_the_same_rows() {
        let all = shares(300);
        let blocks = split(&all, &[50, 100, 1, 49, 100]);
        let reference = merged(race(&blocks, 40, 3, 1));
        for racers in 1..=4 {
            let mut states = race(&blocks, 40, 3, racers);
            states.reverse();
            states.swap(1, 3);
            let other = merged(states);
            assert_eq!(reference.rows.positions, other.rows.positions);
            assert_eq!(reference.counts, other.counts);
            assert_eq!(reference.shares, other.shares);
        }
    }

    #[test]
    fn threads_share_their_smallest_keys() {
        let blocks = split(&shares(900), &[300, 300, 300]);
        let alone = race(&blocks, 200, 5, 3);
        let winners = |states: &[Slots]| states.iter().map(|state| state.winners.len()).collect::<Vec<_>>();
        assert_eq!(winners(&alone), [200; 3]);
        let reference = merged(alone);
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let together = race_in_order(&blocks, &order, 200, 5);
            let found = winners(&together);
            let [first, second, third] = order.map(|b| found[b]);
            assert!(first == 200 && second < 140 && third < 110, "{second} and {third}");
            let picked = merged(together);
            assert_eq!(picked.rows.positions, reference.rows.positions);
            assert_eq!((picked.counts, &picked.shares), (reference.counts.clone(), &reference.shares));
        }
    }

    /// Of equal keys the one of the earlier block wins, in whatever order the blocks were raced.
    #[test]
    fn ties_do_not_depend_on_the_threads() {
        let mut blocks = split(&shares(200), &[100, 100]);
        let Column::Number(values) = blocks[0].columns[0].clone() else { unreachable!() };
        blocks[1].columns[0] = Column::Number(values);
        blocks[1].stream = blocks[0].stream;
        for order in [&[0, 1][..], &[1, 0]] {
            let states = race_in_order(&blocks, order, 70, 3);
            assert!(states.iter().all(|state| state.winners.len() == 70), "{order:?}");
            assert!(merged(states).rows.positions.iter().all(|&position| position < 100), "{order:?}");
        }
    }

    /// Many blocks, so that losing rows are discarded in between.
    #[test]
    fn rows_stay_with_their_values_in_any_order_of_merging() {
        let all: Vec<f64> =
            (0..6_000).map(|n| 1.0 + f64::from(n % 37) * 0.01 + f64::from(n) * 1e-6).collect();
        let blocks = split(&all, &[100; 60]);
        let in_order = merged(race(&blocks, 50, 5, 60));
        let mut states = race(&blocks, 50, 5, 60);
        states.reverse();
        states.swap(10, 40);
        let otherwise = merged(states);
        for picked in [&in_order, &otherwise] {
            let Column::Number(values) = &picked.rows.segment.columns[0] else { unreachable!() };
            let own: Vec<f64> =
                picked.rows.positions.iter().map(|&position| all[position as usize]).collect();
            assert_eq!((&values[..], &picked.shares), (&own[..], &own));
        }
        assert_eq!(in_order.rows.positions, otherwise.rows.positions);
        assert_eq!(in_order.counts, otherwise.counts);
    }

    #[test]
    fn winners_point_into_the_ordered_rows() {
        for rows in [&[][..], &[0], &[199, 0, 64, 63, 127, 128, 64, 5, 199], &[70, 70, 3]] {
            let winner = |(slot, row): (u32, &u32)| Winner { slot, key: 0.0, part: 0, row: *row };
            let mut winners: Vec<Winner> = (0..).zip(rows).map(winner).collect();
            let ordered = in_order(&mut winners, 200);
            assert!(ordered.is_sorted_by(|a, b| a < b));
            let rows_of_winners: Vec<u32> =
                winners.iter().map(|winner| ordered[winner.row as usize] as u32).collect();
            assert_eq!(rows_of_winners, rows);
            assert_eq!(ordered.len(), rows.iter().collect::<std::collections::BTreeSet<_>>().len());
        }
    }

    #[test]
    fn losing_rows_are_discarded() {
        let all = shares(20_000);
        let blocks = split(&all, &[100; 200]);
        let mut states = race(&blocks, 10, 1, 200).into_iter();
        let mut slots = states.next().expect("a block");
        for state in states {
            slots.merge(state);
            assert!(slots.parts.iter().map(|part| part.rows.len()).sum::<usize>() <= COMPACT_ABOVE);
        }
        let picked = slots.finish().expect("rows");
        assert_eq!(picked.counts.iter().sum::<u32>(), 10);
        assert!(picked.rows.positions.is_sorted());
        let Column::Number(values) = &picked.rows.segment.columns[0] else { unreachable!() };
        assert_eq!(values.to_vec(), picked.shares, "each row comes with its own share");
    }

    #[test]
    fn rows_are_found_as_by_plain_running_sums() {
        // Several steps. One has only shares of 0, the others have some.
        let without = |i: usize| (130..400).contains(&i) || i >= 620 || i.is_multiple_of(3);
        let share = |i: usize| if without(i) { 0.0 } else { (i % 7) as f64 + 0.5 };
        let shares: Vec<f64> = (0..900).map(share).collect();
        let mut sums = Vec::new();
        let total = running_sums(&shares, &mut sums);
        assert_eq!(total, shares.iter().sum::<f64>(), "halves add up exactly");
        for place in (0..4000).map(|k| total * f64::from(k) / 4000.0) {
            let mut sum = 0.0;
            let plain = shares.iter().position(|share| {
                sum += share;
                sum > place
            });
            assert_eq!(Some(row_at(place, &shares, &sums)), plain, "at {place} of {total}");
        }
        assert!(shares[row_at(total, &shares, &sums)] > 0.0, "rounding must not find a row with share 0");
    }

    #[test]
    fn rows_without_a_share_never_win() {
        let picked = merged(race(&split(&[0.0, 1.0, 0.0, 2.0, 0.0], &[2, 3]), 500, 1, 1));
        assert_eq!(picked.rows.positions, [1, 3]);
        assert!(race(&split(&[0.0; 4], &[4]), 5, 1, 1).pop().and_then(Slots::finish).is_none());
    }
}
