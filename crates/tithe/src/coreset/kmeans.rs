//! Weighted k-means clustering: k-means++ and Lloyd's algorithm on a as_vectors thousand selected rows, then one pass over all rows for the mass
//! and mean of each group.

use std::borrow::Cow;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::math::{Vectors, as_vectors, as_vectors_mut, with_vectors};
use crate::base::rng::{Purpose, Seed, open_unit};
use crate::coreset::collapse::{Collapser, Distinct};
use crate::data::block::Block;
use crate::data::points::{Lane, Points, TILE, Tile};
use crate::encoding::{Encoding, Scratch};
use crate::engine::parts::{ScratchPool, part_ranges};
use crate::engine::pass::Pass;

/// Lloyd's algorithm stops when the score falls by less than this fraction, or after [`MAX_STEPS`] steps.
const TOLERANCE: f64 = 1e-3;
const MAX_STEPS: usize = 25;
const STARTS: u64 = 4;

/// Vectors of squared distances computed together.
const N: usize = 8;

/// Partial sums of squared distances. Their number is fixed, so that the order of additions does not depend on the vector width.
const SQUARES: usize = 32;
/// Partial sums per group and column. Those of a batch of groups and two columns hide the latency of additions; more partial sums
/// would take longer to load and store for every tile.
const SUMS: usize = 8;
type Sums = [f64; SUMS];

/// Cluster centres `Q_i`: k rows of dimension D.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Centers {
    dim: usize,
    q: Vec<f64>,
}

/// The groups `G_i` of the rows nearest to each centre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Groups {
    /// Mass `W_i = Σ w_n` of each group.
    pub mass: Vec<f64>,
    /// Mean `μ_i` of each group: k rows of dimension D; 0 where the group is empty.
    pub mean: Vec<f64>,
    /// The normalised k-means score `I = W⁻¹ Σ w_n ‖z_n − Q_{i(n)}‖²`.
    pub score: f64,
}

impl Centers {
    /// Centres given as rows.
    pub fn new(dim: usize, q: Vec<f64>) -> Centers {
        Centers { dim, q }
    }

    /// The dimension D.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The number of centres k.
    pub fn len(&self) -> usize {
        self.q.len() / self.dim.max(1)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.q.is_empty()
    }

    /// The centres, one row after the other.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.q.chunks_exact(self.dim)
    }
}

/// `‖z_n − q‖²` for the `c`-th group of vectors of a tile.
#[inline(always)]
pub(crate) fn squared_distance<S: Simd, const N: usize>(
    simd: S,
    tile: &Tile<'_>,
    c: usize,
    q: &[f64],
) -> Vectors<S, N> {
    let mut sum = [simd.splat_f64s(0.0); N];
    for (z, &q) in tile.z.iter().zip(q) {
        let (z, q) = (&as_vectors::<S, N>(&z.0)[c], simd.splat_f64s(q));
        for v in 0..N {
            let difference = simd.sub_f64s(z[v], q);
            sum[v] = simd.mul_add_f64s(difference, difference, sum[v]);
        }
    }
    sum
}

/// The nearest centre to each of some rows; of equally near centres the first.
pub(crate) struct Nearest<S: Simd, const N: usize> {
    /// `‖z_n − Q_i‖²`.
    pub square: Vectors<S, N>,
    /// The index i of the centre.
    pub center: Vectors<S, N>,
}

impl<S: Simd, const N: usize> Nearest<S, N> {
    /// The start, before any centre.
    #[inline(always)]
    fn none(simd: S) -> Nearest<S, N> {
        Nearest { square: [simd.splat_f64s(f64::INFINITY); N], center: [simd.splat_f64s(0.0); N] }
    }

    /// Compares with the next centre.
    #[inline(always)]
    fn update(&mut self, simd: S, center: f64, square: &Vectors<S, N>) {
        for (&square, (least, nearest)) in square.iter().zip(self.square.iter_mut().zip(&mut self.center)) {
            let nearer = simd.less_than_f64s(square, *least);
            *least = simd.select_f64s(nearer, square, *least);
            *nearest = simd.select_f64s(nearer, simd.splat_f64s(center), *nearest);
        }
    }

    /// The nearest centre to each row of the `c`-th group of vectors of a tile.
    #[inline(always)]
    pub fn find(simd: S, tile: &Tile<'_>, c: usize, centers: &Centers) -> Nearest<S, N> {
        let mut nearest = Nearest::none(simd);
        for (center, index) in centers.rows().zip(indices()) {
            nearest.update(simd, index, &squared_distance(simd, tile, c, center));
        }
        nearest
    }
}

/// The indices 0, 1, 2, … of centres or groups as floating-point numbers, for use in vectors.
#[inline(always)]
pub(crate) fn indices() -> impl Iterator<Item = f64> {
    (0u32..).map(f64::from)
}

/// Computes k centres by weighted k-means++ and Lloyd's algorithm, the best of several starts. Poor starts are not rare, and can double
/// the sensitivity bounds.
///
/// Returns fewer centres if there are fewer distinct points than `k`.
pub fn centers(points: &Points, k: usize, seed: Seed) -> Centers {
    let tries: Vec<(f64, Centers)> =
        (0..STARTS).into_par_iter().map(|start| lloyd(points, k, seed, start)).collect();
    let best = tries.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or_else(|| Centers::new(points.dim(), Vec::new()), |(_, centers)| centers)
}

fn lloyd(points: &Points, k: usize, seed: Seed, start: u64) -> (f64, Centers) {
    let mut centers = plus_plus(points, k, seed, start);
    let mut score = f64::INFINITY;
    for _ in 0..MAX_STEPS {
        let groups = groups(points, &centers);
        for (i, _) in groups.mass.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
            let row = i * centers.dim..(i + 1) * centers.dim;
            centers.q[row.clone()].copy_from_slice(&groups.mean[row]);
        }
        if groups.score >= score * (1.0 - TOLERANCE) {
            break;
        }
        score = groups.score;
    }
    (score, centers)
}

fn plus_plus(points: &Points, k: usize, seed: Seed, start: u64) -> Centers {
    let mut rng = seed.stream(Purpose::Clustering, start);
    let mut chances = points.weights();
    let mut least = vec![f64::INFINITY; points.len()];
    let mut centers = Centers::new(points.dim(), Vec::new());
    let mut distance = Lane::ZERO;
    for _ in 0..k {
        let total: f64 = chances.iter().sum();
        if total.is_nan() || total <= 0.0 {
            break;
        }
        let chosen = choose(&chances, open_unit(&mut rng) * total);
        let center = points.row(chosen);
        for (t, tile) in points.tiles().enumerate() {
            with_vectors(SquaredDistances { tile: &tile, q: &center, squares: &mut distance });
            let rows = t * TILE..t * TILE + tile.len;
            for ((least, chance), (distance, w)) in
                least[rows.clone()].iter_mut().zip(&mut chances[rows]).zip(distance.iter().zip(tile.w.iter()))
            {
                *least = least.min(*distance);
                *chance = w * *least;
            }
        }
        centers.q.extend(center);
    }
    centers
}

/// Computes `‖z_n − q‖²` for the rows of a tile.
struct SquaredDistances<'a> {
    tile: &'a Tile<'a>,
    q: &'a [f64],
    squares: &'a mut Lane,
}

impl WithSimd for SquaredDistances<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (c, squares) in as_vectors_mut::<S, N>(&mut self.squares.0).iter_mut().enumerate() {
            *squares = squared_distance(simd, self.tile, c, self.q);
        }
    }
}

/// The first row at which the running sum of the probabilities reaches `place`.
fn choose(chances: &[f64], place: f64) -> usize {
    let mut sum = 0.0;
    let mut last = 0;
    for (row, chance) in chances.iter().enumerate().filter(|(_, chance)| **chance > 0.0) {
        sum += chance;
        last = row;
        if sum >= place {
            break;
        }
    }
    last
}

/// The masses, means and score of the groups of some points.
pub fn groups(points: &Points, centers: &Centers) -> Groups {
    let mut sums = GroupSums::new(centers);
    for tile in points.tiles() {
        sums.add(&tile);
    }
    sums.take().groups(centers)
}

/// Groups summed in one sweep over a column.
const BATCH: usize = 4;

/// Running sums per group over some tiles.
#[derive(Clone, Debug)]
pub(crate) struct GroupSums {
    centers: Centers,
    /// For each batch of groups the masses `Σ w`, followed by `Σ w z` for each column.
    sums: Vec<[Sums; BATCH]>,
    squares: [f64; SQUARES],
    /// Buffer, per batch of groups: the weight of each row of a tile in the lane of its own group, 0 in the other lanes.
    members: Vec<[Lane; BATCH]>,
}

/// The sums per group over parts of blocks or whole blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GroupTotals {
    mass: Vec<f64>,
    sum: Vec<f64>,
    squares: f64,
}

impl GroupSums {
    pub(crate) fn new(centers: &Centers) -> GroupSums {
        let batches = centers.len().div_ceil(BATCH);
        GroupSums {
            centers: centers.clone(),
            sums: vec![[[0.0; SUMS]; BATCH]; batches * (1 + centers.dim)],
            squares: [0.0; SQUARES],
            members: vec![[Lane::ZERO; BATCH]; batches],
        }
    }

    pub(crate) fn add(&mut self, tile: &Tile<'_>) {
        with_vectors(Adding { sums: self, tile });
    }

    /// Returns the totals, and resets the sums to 0.
    pub(crate) fn take(&mut self) -> GroupTotals {
        let (groups, dim) = (self.centers.len(), self.centers.dim);
        let total = |group: usize, column: usize| -> f64 {
            self.sums[group / BATCH * (1 + dim) + column][group % BATCH].iter().sum()
        };
        let totals = GroupTotals {
            mass: (0..groups).map(|group| total(group, 0)).collect(),
            sum: (0..groups * dim).map(|at| total(at / dim, 1 + at % dim)).collect(),
            squares: self.squares.iter().sum(),
        };
        self.sums.fill([[0.0; SUMS]; BATCH]);
        self.squares = [0.0; SQUARES];
        totals
    }
}

/// The kernel that adds a tile to the sums.
struct Adding<'a> {
    sums: &'a mut GroupSums,
    tile: &'a Tile<'a>,
}

impl WithSimd for Adding<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let GroupSums { centers, sums, squares, members } = self.sums;
        let (tile, w) = (self.tile, as_vectors::<S, N>(&self.tile.w.0));
        let squares = S::as_mut_simd_f64s(squares).0;
        for (c, w) in w.iter().enumerate() {
            let nearest = Nearest::<S, N>::find(simd, tile, c, centers);
            for v in 0..N {
                let sum = &mut squares[(c * N + v) % (SQUARES / S::F64_LANES)];
                *sum = simd.mul_add_f64s(w[v], nearest.square[v], *sum);
            }
            for (member, index) in members.as_flattened_mut().iter_mut().zip(indices()) {
                for (v, member) in as_vectors_mut::<S, N>(&mut member.0)[c].iter_mut().enumerate() {
                    let is_member = simd.equal_f64s(nearest.center[v], simd.splat_f64s(index));
                    *member = simd.select_f64s(is_member, w[v], simd.splat_f64s(0.0));
                }
            }
        }
        for (members, sums) in members.iter().zip(sums.chunks_exact_mut(1 + centers.dim)) {
            if let Some((masses, sums)) = sums.split_first_mut() {
                add_products(simd, [masses], members, [&Lane::of(1.0)]);
                let (sums, last_sums) = sums.as_chunks_mut();
                let (z, last_z) = tile.z.as_chunks();
                for ([sums_0, sums_1], [z_0, z_1]) in sums.iter_mut().zip(z) {
                    add_products(simd, [sums_0, sums_1], members, [z_0, z_1]);
                }
                for (sums, z) in last_sums.iter_mut().zip(last_z) {
                    add_products(simd, [sums], members, [z]);
                }
            }
        }
    }
}

/// Adds `Σ_r m_r z_r` for the member weights `m` of each group of a batch and some columns `z`.
#[inline(always)]
fn add_products<S: Simd, const COLUMNS: usize>(
    simd: S,
    sums: [&mut [Sums; BATCH]; COLUMNS],
    members: &[Lane; BATCH],
    z: [&Lane; COLUMNS],
) {
    let turns = SUMS / S::F64_LANES;
    for turn in 0..turns {
        let mut local = [[simd.splat_f64s(0.0); BATCH]; COLUMNS];
        for c in 0..COLUMNS {
            for g in 0..BATCH {
                local[c][g] = S::as_simd_f64s(&sums[c][g]).0[turn];
            }
        }
        for at in (turn..TILE / S::F64_LANES).step_by(turns) {
            for g in 0..BATCH {
                let member = S::as_simd_f64s(&members[g].0).0[at];
                for c in 0..COLUMNS {
                    let z = S::as_simd_f64s(&z[c].0).0[at];
                    local[c][g] = simd.mul_add_f64s(member, z, local[c][g]);
                }
            }
        }
        for c in 0..COLUMNS {
            for g in 0..BATCH {
                S::as_mut_simd_f64s(&mut sums[c][g]).0[turn] = local[c][g];
            }
        }
    }
}

impl GroupTotals {
    fn none(centers: &Centers) -> GroupTotals {
        GroupTotals { mass: vec![0.0; centers.len()], sum: vec![0.0; centers.q.len()], squares: 0.0 }
    }

    pub(crate) fn merge(&mut self, next: &GroupTotals) {
        let add = |ours: &mut [f64], theirs: &[f64]| {
            ours.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        };
        add(&mut self.mass, &next.mass);
        add(&mut self.sum, &next.sum);
        self.squares += next.squares;
    }

    pub(crate) fn groups(self, centers: &Centers) -> Groups {
        let total: f64 = self.mass.iter().sum();
        let mut mean = self.sum;
        for (mean, mass) in mean.chunks_exact_mut(centers.dim).zip(&self.mass) {
            mean.iter_mut().for_each(|mean| *mean = if *mass > 0.0 { *mean / mass } else { 0.0 });
        }
        Groups { mass: self.mass, mean, score: self.squares / total }
    }
}

/// The pass over all rows that sums each group, and collects the distinct rows if there are as_vectors.
#[derive(Serialize, Deserialize)]
pub(crate) struct Grouping<'a> {
    /// The encoding of blocks as points.
    pub encoding: Cow<'a, Encoding>,
    /// The centres.
    pub centers: Cow<'a, Centers>,
    /// The largest number of distinct rows to collect; `None` collects none.
    pub most_distinct: Option<usize>,
}

/// The state of the pass for some blocks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Grouped {
    totals: GroupTotals,
    /// The distinct rows, if they were requested.
    pub distinct: Option<Distinct>,
}

impl Grouped {
    /// The masses, means and score of the groups.
    pub fn groups(self, centers: &Centers) -> Groups {
        self.totals.groups(centers)
    }
}

pub(crate) struct GroupingWorker {
    scratch: ScratchPool<(Scratch, GroupSums)>,
    collapser: Option<Collapser>,
}

impl Pass for Grouping<'_> {
    const ID: &'static str = "cluster-sums";
    const LABEL: &'static str = "assigning rows to clusters";
    type State = Grouped;
    type Worker = GroupingWorker;

    fn worker(&self) -> GroupingWorker {
        let collapser = self.most_distinct.map(Collapser::new);
        GroupingWorker { scratch: ScratchPool::default(), collapser }
    }

    fn visit(&self, worker: &mut GroupingWorker, block: &Block) -> Result<Grouped> {
        let encoder = self.encoding.encoder(block)?;
        let parts = part_ranges(encoder.tiles()).collect();
        let new_scratch = || (encoder.scratch(), GroupSums::new(&self.centers));
        let totals = worker.scratch.process_parts(parts, new_scratch, |(scratch, sums), tiles| {
            for t in tiles {
                sums.add(&encoder.tile(t, scratch));
            }
            sums.take()
        });
        let mut all = GroupTotals::none(&self.centers);
        totals.iter().for_each(|totals| all.merge(totals));
        // Most data has too many distinct rows, which is detected early.
        let distinct = worker.collapser.as_mut().map(|collapser| collapser.distinct(&encoder));
        Ok(Grouped { totals: all, distinct })
    }

    fn merge(&self, state: &mut Grouped, next: Grouped) {
        state.totals.merge(&next.totals);
        if let (Some(ours), Some(theirs)) = (&mut state.distinct, next.distinct) {
            ours.merge(theirs);
        }
    }

    fn relocate(&self, state: &mut Grouped, place: &dyn Fn(u64) -> u64) {
        if let Some(Distinct::Rows(distinct)) = &mut state.distinct {
            distinct.rows.relocate(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::points::tests::some_points;

    #[test]
    fn vectors_of_any_width_give_the_same_bits() {
        let points = some_points(3, 300);
        for k in [1, 3, 4, 6] {
            let centers = centers(&points, k, Seed(1));
            let totals = |add: &dyn Fn(Adding<'_>)| {
                let mut sums = GroupSums::new(&centers);
                points.tiles().for_each(|tile| add(Adding { sums: &mut sums, tile: &tile }));
                sums.take()
            };
            let native = totals(&|adding| with_vectors(adding));
            assert!(
                (native.mass.iter().sum::<f64>() / points.weights().iter().sum::<f64>() - 1.0).abs() < 1e-14
            );
            assert_eq!(totals(&|adding| adding.with_simd(pulp::Scalar)), native);
            assert_eq!(totals(&|adding| adding.with_simd(pulp::Scalar128b)), native);
            assert_eq!(totals(&|adding| adding.with_simd(pulp::Scalar256b)), native);
            assert_eq!(totals(&|adding| adding.with_simd(pulp::Scalar512b)), native);
        }
    }
}
