//! Independent weighted choices of rows in one pass: M slots, each a race that one row wins.
//!
//! Every slot holds one row, chosen with probability `s_n / Σ s`. A row's time in a slot's race is
//! exponential with rate `s_n`; the smallest time wins. The best time of a block with total `S_b` is
//! exponential with rate `S_b`, and its winner is row n with probability `s_n / S_b`: so a block draws
//! M times and M rows, whatever its length, and `S` need not be known in advance. Two states merge by
//! keeping the smaller time of each slot: exact, associative, commutative, and without randomness.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::base::math::{exponential, total, vectorized};
use crate::base::rng::{Lots, Rng};
use crate::data::block::{Block, RowSet};

/// Slots whose luck is drawn together.
const GANG: usize = 64;

/// Values of rows that may have lost that are kept in any case: to find out which have takes time, and holds up whoever merges.
const ROOM: usize = if cfg!(test) { 100 } else { 1 << 20 };

/// The state of M races, for some blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "PlainSlots", into = "PlainSlots")]
pub struct Slots {
    /// `S`, the sum of the shares.
    pub total: f64,
    /// In the order of the slots. A block's own state holds only what may still win.
    winners: Vec<Winner>,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Winner {
    slot: u32,
    time: f64,
    part: u32,
    row: u32,
}

/// Rows copied out of one block.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Part {
    rows: RowSet,
    shares: Vec<f64>,
}

/// Slots as they travel: without the rows that have lost.
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
    /// How many slots each won, `K_n`.
    pub counts: Vec<u32>,
}

/// Races of all rows for so many slots. They are run once, or over the same rows again: for other rows there are other races.
#[derive(Debug, Serialize, Deserialize)]
pub struct Races {
    slots: usize,
    /// The best times so far, of all threads: their bits, which have the order of the times.
    #[serde(skip)]
    best: OnceLock<Arc<[AtomicU64]>>,
}

/// What a thread keeps from block to block.
#[derive(Clone, Debug)]
pub struct Racer {
    /// The best times as the last block began: a slower row can no longer win. What a block's state leaves out depends on the
    /// threads; the merged state of all blocks does not.
    best: Vec<f64>,
    /// The best times so far, of all threads.
    everyones: Arc<[AtomicU64]>,
    /// Room for the shares' running sums.
    cumulative: Vec<f64>,
}

impl Races {
    /// So many races.
    pub fn new(slots: usize) -> Races {
        Races { slots, best: OnceLock::new() }
    }

    /// How many.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// A thread's start.
    pub fn racer(&self) -> Racer {
        let unbeaten = || (0..self.slots).map(|_| AtomicU64::new(f64::INFINITY.to_bits())).collect();
        let everyones = self.best.get_or_init(unbeaten).clone();
        Racer { best: vec![f64::INFINITY; self.slots], everyones, cumulative: Vec::new() }
    }
}

impl Racer {
    /// Races the rows of a block, row n at rate `shares[n] ≥ 0`.
    pub fn race(&mut self, block: &Block, shares: &[f64], rng: &mut Rng) -> Slots {
        let mut cumulative = std::mem::take(&mut self.cumulative);
        let total = running_sums(shares, &mut cumulative);
        let row_at = |place: f64| find(place * total, shares, &cumulative);
        let outcome = self.outcome(shares.len(), total, row_at, rng);
        self.cumulative = cumulative;
        outcome.slots(block, |row| shares[row])
    }

    /// Races the rows of a block, all at rate 1.
    pub(crate) fn race_uniform(&mut self, block: &Block, rng: &mut Rng) -> Slots {
        let rows = block.len;
        let row_at = |place: f64| (place * rows as f64) as usize % rows;
        self.outcome(rows, rows as f64, row_at, rng).slots(block, |_| 1.0)
    }

    /// The winners among `rows` rows whose shares sum to `total`; `row_at` gives the row at a place in [0, 1) of the running total.
    fn outcome(&mut self, rows: usize, total: f64, row_at: impl Fn(f64) -> usize, rng: &mut Rng) -> Outcome {
        let mut winners = Vec::new();
        if total > 0.0 {
            for (best, everyones) in self.best.iter_mut().zip(&*self.everyones) {
                *best = f64::from_bits(everyones.load(Ordering::Relaxed));
            }
            // A slot's luck goes by its number alone: no thread's earlier blocks have a say in it.
            let (waits, places) = (Lots::new(rng), Lots::new(rng));
            for (first, best) in (0..).step_by(GANG).zip(self.best.chunks(GANG)) {
                let mut times = [f64::INFINITY; GANG];
                let mut faster = vectorized(
                    #[inline(always)]
                    || race_gang(waits, first, total, best, &mut times),
                );
                while faster != 0 {
                    let at = faster.trailing_zeros() as usize;
                    faster &= faster - 1;
                    let slot = first + at as u64;
                    self.everyones[slot as usize].fetch_min(times[at].to_bits(), Ordering::Relaxed);
                    let row = row_at(places.unit(slot)) as u32;
                    winners.push(Winner { slot: slot as u32, time: times[at], part: 0, row });
                }
            }
        }
        Outcome { total, rows: in_order(&mut winners, rows), winners }
    }
}

/// Draws the times of a gang of slots, the first of which is number `first`; a bit for each that is not beaten by the best one.
#[inline(always)]
fn race_gang(waits: Lots, first: u64, total: f64, best: &[f64], times: &mut [f64; GANG]) -> u64 {
    for (slot, time) in (first..).zip(times.iter_mut()) {
        *time = waits.unit(slot);
    }
    // −ln(1 − u) ≥ u, but for rounding: once there have been many blocks, there is nearly always nobody with a chance.
    let about_total = total * (1.0 + 4.0 * f64::EPSILON);
    let mut chances = 0u64;
    for (u, best) in times.iter().zip(best) {
        chances += u64::from(*u <= best * about_total);
    }
    if chances == 0 {
        return 0;
    }
    for time in times.iter_mut() {
        *time = exponential(*time) / total;
    }
    let mut bits = 0;
    for (at, (time, best)) in times.iter().zip(best).enumerate() {
        bits |= u64::from(time <= best) << at;
    }
    bits
}

/// The rows that won, of so many, each once and in order; the winners then name places among these.
fn in_order(winners: &mut [Winner], rows: usize) -> Vec<usize> {
    let place = |winner: &Winner| (winner.row as usize / 64, winner.row % 64);
    // A bit for each row; and how many rows ahead of each word of them have won.
    let mut won = vec![0u64; rows.div_ceil(64)];
    for winner in &*winners {
        let (word, bit) = place(winner);
        won[word] |= 1 << bit;
    }
    let mut ahead = Vec::with_capacity(won.len());
    let mut in_order = Vec::with_capacity(winners.len());
    for (word, &bits) in won.iter().enumerate() {
        ahead.push(in_order.len() as u32);
        let mut left = bits;
        while left != 0 {
            in_order.push(word * 64 + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
    for winner in winners {
        let (word, bit) = place(winner);
        winner.row = ahead[word] + (won[word] & ((1 << bit) - 1)).count_ones();
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

/// Rows whose shares make one running sum: few are looked at one by one, and their sum is quick.
const STEP: usize = 32;

/// The sums of the shares up to and with each step; returns that of all.
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

/// The row at `place` of the shares' running total; never one without a share, if there is any other.
fn find(place: f64, shares: &[f64], sums: &[f64]) -> usize {
    // A place that rounding has moved to the end is still that of a row with a share.
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
    /// Adds the races of other blocks: the smaller time wins each slot.
    pub fn merge(&mut self, other: Slots) {
        self.total += other.total;
        let shift = self.parts.len() as u32;
        self.parts.extend(other.parts);
        let mut theirs = other.winners;
        theirs.iter_mut().for_each(|winner| winner.part += shift);
        self.winners = faster(std::mem::take(&mut self.winners), theirs);
        // Rows that lost are let go in time, so that memory stays O(M).
        let kept: usize = self.parts.iter().map(|part| part.rows.len()).sum();
        let columns = self.parts.first().map_or(0, |part| part.rows.segment.columns.len());
        if kept > 4 * self.winners.len() && kept * columns > ROOM {
            self.compact();
        }
    }

    /// Lets go of the rows that won nothing, and makes one part of the others, by position.
    fn compact(&mut self) {
        // For each row that still wins something its place among those, and nothing for the others.
        let mut places: Vec<Vec<Option<u32>>> =
            self.parts.iter().map(|part| vec![None; part.rows.len()]).collect();
        for winner in &self.winners {
            places[winner.part as usize][winner.row as usize] = Some(0);
        }
        let mut kept = Vec::with_capacity(self.parts.len());
        let mut next = 0..;
        for (part, places) in self.parts.iter().zip(&mut places) {
            let mut rows = Vec::with_capacity(places.len());
            for (row, place) in places.iter_mut().enumerate().filter(|(_, place)| place.is_some()) {
                rows.push(row);
                *place = next.next();
            }
            if !rows.is_empty() {
                kept.push(part.take(&rows));
            }
        }
        if kept.is_empty() {
            return;
        }
        let joined = Part::concat(kept);
        // Blocks that were merged in order are in order; others are put in order.
        let mut order: Vec<usize> = (0..joined.rows.len()).collect();
        order.sort_by_key(|&row| joined.rows.positions[row]);
        let mut rank = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(&row, place)| rank[row] = place);
        for winner in &mut self.winners {
            let place = places[winner.part as usize][winner.row as usize].map_or(0, |place| place as usize);
            (winner.part, winner.row) = (0, rank[place]);
        }
        self.parts = vec![if order.is_sorted() { joined } else { joined.take(&order) }];
    }

    /// Moves all rows to other positions, in the same order.
    pub fn relocate(&mut self, place: &dyn Fn(u64) -> u64) {
        self.parts.iter_mut().for_each(|part| part.rows.relocate(place));
    }

    /// Keeps only the first `slots` races: they are as independent as all of them.
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

/// Of two lists in the order of the slots, the faster winner of each slot.
fn faster(mut ours: Vec<Winner>, theirs: Vec<Winner>) -> Vec<Winner> {
    // Where no slot is without a winner, each stands at its slot's own place.
    if ours.last().is_some_and(|last| last.slot as usize + 1 == ours.len())
        && theirs.last().is_none_or(|last| (last.slot as usize) < ours.len())
    {
        for theirs in theirs {
            let ours = &mut ours[theirs.slot as usize];
            if theirs.time < ours.time {
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
        both.push(rival.filter(|ours| ours.time <= theirs.time).unwrap_or(theirs));
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

    /// The states of all blocks, in their order, where threads that know of each other have raced them in another one.
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
    fn what_one_thread_has_seen_saves_the_others_work() {
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

    /// Of equal times the one of the earlier block wins, whoever was there first; and rows may race again.
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

    /// Many blocks, so that rows are let go in between.
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
    fn winners_name_their_places_among_the_rows_in_order() {
        for rows in [&[][..], &[0], &[199, 0, 64, 63, 127, 128, 64, 5, 199], &[70, 70, 3]] {
            let winner = |(slot, row): (u32, &u32)| Winner { slot, time: 0.0, part: 0, row: *row };
            let mut winners: Vec<Winner> = (0..).zip(rows).map(winner).collect();
            let ordered = in_order(&mut winners, 200);
            assert!(ordered.is_sorted_by(|a, b| a < b));
            let named: Vec<u32> = winners.iter().map(|winner| ordered[winner.row as usize] as u32).collect();
            assert_eq!(named, rows);
            assert_eq!(ordered.len(), rows.iter().collect::<std::collections::BTreeSet<_>>().len());
        }
    }

    #[test]
    fn losers_are_let_go() {
        let all = shares(20_000);
        let blocks = split(&all, &[100; 200]);
        let mut states = race(&blocks, 10, 1, 200).into_iter();
        let mut slots = states.next().expect("a block");
        for state in states {
            slots.merge(state);
            assert!(slots.parts.iter().map(|part| part.rows.len()).sum::<usize>() <= ROOM);
        }
        let picked = slots.finish().expect("rows");
        assert_eq!(picked.counts.iter().sum::<u32>(), 10);
        assert!(picked.rows.positions.is_sorted());
        let Column::Number(values) = &picked.rows.segment.columns[0] else { unreachable!() };
        assert_eq!(values.to_vec(), picked.shares, "each row comes with its own share");
    }

    #[test]
    fn a_place_is_found_as_by_plain_running_sums() {
        // Several steps, one of them without any share, and rows without one among the others.
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
            assert_eq!(Some(find(place, &shares, &sums)), plain, "at {place} of {total}");
        }
        assert!(shares[find(total, &shares, &sums)] > 0.0, "rounding must not find a row without a share");
    }

    #[test]
    fn rows_without_a_share_never_win() {
        let picked = merged(race(&split(&[0.0, 1.0, 0.0, 2.0, 0.0], &[2, 3]), 500, 1, 1));
        assert_eq!(picked.rows.positions, [1, 3]);
        assert!(race(&split(&[0.0; 4], &[4]), 5, 1, 1).pop().and_then(Slots::finish).is_none());
    }
}
