//! Clustering: weighted k-means++ and Lloyd on a few thousand chosen rows, then one pass over all rows for
//! the mass and mean of each group.

use std::borrow::Cow;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::math::{Few, few, few_mut, with_vectors};
use crate::base::rng::{Purpose, Seed, open_unit};
use crate::coreset::collapse::{Collapser, Distinct};
use crate::data::block::Block;
use crate::data::points::{Lane, Points, TILE, Tile};
use crate::encoding::{Encoding, Scratch};
use crate::engine::parts::{Rooms, in_parts};
use crate::engine::pass::Pass;

/// Lloyd's steps stop when the score falls by less than this share, or after [`MOST_STEPS`].
const ENOUGH: f64 = 1e-3;
const MOST_STEPS: usize = 25;
const STARTS: u64 = 4;

/// Vectors of squared distances side by side.
const N: usize = 8;

/// Running sums side by side: their order never changes, whatever the processor's vectors hold.
const SQUARES: usize = 32;
/// The same for the sums of one group: those of a gang of groups and two columns keep the processor busy, and more would only
/// take longer to fetch and to put back for every tile.
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

/// `‖z_n − q‖²` for the `c`-th few rows of a tile.
#[inline(always)]
pub(crate) fn squared_distance<S: Simd, const N: usize>(
    simd: S,
    tile: &Tile<'_>,
    c: usize,
    q: &[f64],
) -> Few<S, N> {
    let mut sum = [simd.splat_f64s(0.0); N];
    for (z, &q) in tile.z.iter().zip(q) {
        let (z, q) = (&few::<S, N>(&z.0)[c], simd.splat_f64s(q));
        for v in 0..N {
            let apart = simd.sub_f64s(z[v], q);
            sum[v] = simd.mul_add_f64s(apart, apart, sum[v]);
        }
    }
    sum
}

/// The nearest of the centres that were looked at, for a few rows; of equally near ones the first.
pub(crate) struct Nearest<S: Simd, const N: usize> {
    /// `‖z_n − Q_i‖²`.
    pub square: Few<S, N>,
    /// The number i of the centre.
    pub center: Few<S, N>,
}

impl<S: Simd, const N: usize> Nearest<S, N> {
    /// Before the first centre.
    #[inline(always)]
    fn none(simd: S) -> Nearest<S, N> {
        Nearest { square: [simd.splat_f64s(f64::INFINITY); N], center: [simd.splat_f64s(0.0); N] }
    }

    /// Looks at the next centre.
    #[inline(always)]
    fn look(&mut self, simd: S, center: f64, square: &Few<S, N>) {
        for (&square, (least, nearest)) in square.iter().zip(self.square.iter_mut().zip(&mut self.center)) {
            let nearer = simd.less_than_f64s(square, *least);
            *least = simd.select_f64s(nearer, square, *least);
            *nearest = simd.select_f64s(nearer, simd.splat_f64s(center), *nearest);
        }
    }

    /// The nearest of some centres to the `c`-th few rows of a tile.
    #[inline(always)]
    pub fn find(simd: S, tile: &Tile<'_>, c: usize, centers: &Centers) -> Nearest<S, N> {
        let mut nearest = Nearest::none(simd);
        for (center, number) in centers.rows().zip(numbers()) {
            nearest.look(simd, number, &squared_distance(simd, tile, c, center));
        }
        nearest
    }
}

/// The numbers of centres or groups, as vectors hold them.
#[inline(always)]
pub(crate) fn numbers() -> impl Iterator<Item = f64> {
    (0u32..).map(f64::from)
}

/// Chooses k centres: k-means++ (D² weighting by mass), then Lloyd's steps, the best of a few starts. A poor start
/// is not rare, and can double the bounds that the clustering gives.
///
/// Fewer distinct points than `k` give fewer centres.
pub fn centers(points: &Points, k: usize, seed: Seed) -> Centers {
    let tries: Vec<(f64, Centers)> =
        (0..STARTS).into_par_iter().map(|start| lloyd(points, k, seed, start)).collect();
    let best = tries.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or_else(|| Centers::new(points.dim(), Vec::new()), |(_, centers)| centers)
}

fn lloyd(points: &Points, k: usize, seed: Seed, start: u64) -> (f64, Centers) {
    let mut centers = plus_plus(points, k, seed, start);
    let mut score = f64::INFINITY;
    for _ in 0..MOST_STEPS {
        let groups = groups(points, &centers);
        for (i, _) in groups.mass.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
            let row = i * centers.dim..(i + 1) * centers.dim;
            centers.q[row.clone()].copy_from_slice(&groups.mean[row]);
        }
        if groups.score >= score * (1.0 - ENOUGH) {
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

/// Finds `‖z_n − q‖²` for the rows of a tile.
struct SquaredDistances<'a> {
    tile: &'a Tile<'a>,
    q: &'a [f64],
    squares: &'a mut Lane,
}

impl WithSimd for SquaredDistances<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (c, squares) in few_mut::<S, N>(&mut self.squares.0).iter_mut().enumerate() {
            *squares = squared_distance(simd, self.tile, c, self.q);
        }
    }
}

/// The first row at which the running sum of chances reaches `place`.
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

/// Masses, means and score of the groups of some points.
pub fn groups(points: &Points, centers: &Centers) -> Groups {
    let mut sums = GroupSums::new(centers);
    for tile in points.tiles() {
        sums.add(&tile);
    }
    sums.take().groups(centers)
}

/// Groups that are summed in one sweep over a column.
const GANG: usize = 4;

/// Sums over the groups of some tiles.
#[derive(Clone, Debug)]
pub(crate) struct GroupSums {
    centers: Centers,
    /// For each gang of groups its masses `Σ w`, and then for each column `Σ w z`.
    sums: Vec<[Sums; GANG]>,
    squares: [f64; SQUARES],
    /// For each gang, room for the weights of a tile's rows: each stands in the row's own group, and 0 in the others.
    members: Vec<[Lane; GANG]>,
}

/// The same, of parts of blocks or of whole ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GroupTotals {
    mass: Vec<f64>,
    sum: Vec<f64>,
    squares: f64,
}

impl GroupSums {
    pub(crate) fn new(centers: &Centers) -> GroupSums {
        let gangs = centers.len().div_ceil(GANG);
        GroupSums {
            centers: centers.clone(),
            sums: vec![[[0.0; SUMS]; GANG]; gangs * (1 + centers.dim)],
            squares: [0.0; SQUARES],
            members: vec![[Lane::ZERO; GANG]; gangs],
        }
    }

    pub(crate) fn add(&mut self, tile: &Tile<'_>) {
        with_vectors(Adding { sums: self, tile });
    }

    /// The totals of what was added; ready for other tiles.
    pub(crate) fn take(&mut self) -> GroupTotals {
        let (groups, dim) = (self.centers.len(), self.centers.dim);
        let total = |group: usize, column: usize| -> f64 {
            self.sums[group / GANG * (1 + dim) + column][group % GANG].iter().sum()
        };
        let totals = GroupTotals {
            mass: (0..groups).map(|group| total(group, 0)).collect(),
            sum: (0..groups * dim).map(|at| total(at / dim, 1 + at % dim)).collect(),
            squares: self.squares.iter().sum(),
        };
        self.sums.fill([[0.0; SUMS]; GANG]);
        self.squares = [0.0; SQUARES];
        totals
    }
}

/// Adds a tile to sums.
struct Adding<'a> {
    sums: &'a mut GroupSums,
    tile: &'a Tile<'a>,
}

impl WithSimd for Adding<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let GroupSums { centers, sums, squares, members } = self.sums;
        let (tile, w) = (self.tile, few::<S, N>(&self.tile.w.0));
        let squares = S::as_mut_simd_f64s(squares).0;
        for (c, w) in w.iter().enumerate() {
            let nearest = Nearest::<S, N>::find(simd, tile, c, centers);
            for v in 0..N {
                let sum = &mut squares[(c * N + v) % (SQUARES / S::F64_LANES)];
                *sum = simd.mul_add_f64s(w[v], nearest.square[v], *sum);
            }
            for (member, number) in members.as_flattened_mut().iter_mut().zip(numbers()) {
                for (v, member) in few_mut::<S, N>(&mut member.0)[c].iter_mut().enumerate() {
                    let is_member = simd.equal_f64s(nearest.center[v], simd.splat_f64s(number));
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

/// Adds `Σ_r m_r z_r` for the members `m` of each group of a gang and a few columns `z`.
#[inline(always)]
fn add_products<S: Simd, const COLUMNS: usize>(
    simd: S,
    sums: [&mut [Sums; GANG]; COLUMNS],
    members: &[Lane; GANG],
    z: [&Lane; COLUMNS],
) {
    let turns = SUMS / S::F64_LANES;
    for turn in 0..turns {
        let mut local = [[simd.splat_f64s(0.0); GANG]; COLUMNS];
        for c in 0..COLUMNS {
            for g in 0..GANG {
                local[c][g] = S::as_simd_f64s(&sums[c][g]).0[turn];
            }
        }
        for at in (turn..TILE / S::F64_LANES).step_by(turns) {
            for g in 0..GANG {
                let member = S::as_simd_f64s(&members[g].0).0[at];
                for c in 0..COLUMNS {
                    let z = S::as_simd_f64s(&z[c].0).0[at];
                    local[c][g] = simd.mul_add_f64s(member, z, local[c][g]);
                }
            }
        }
        for c in 0..COLUMNS {
            for g in 0..GANG {
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

/// The pass over all rows: groups, and the distinct rows while they are few.
#[derive(Serialize, Deserialize)]
pub(crate) struct Grouping<'a> {
    /// How blocks become points.
    pub encoding: Cow<'a, Encoding>,
    /// The centres.
    pub centers: Cow<'a, Centers>,
    /// How many distinct rows are worth keeping; `None` does not look for them.
    pub most_distinct: Option<usize>,
}

/// What the pass found, for some blocks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Grouped {
    totals: GroupTotals,
    /// The distinct rows, if they were looked for.
    pub distinct: Option<Distinct>,
}

impl Grouped {
    /// Masses, means and score of the groups.
    pub fn groups(self, centers: &Centers) -> Groups {
        self.totals.groups(centers)
    }
}

pub(crate) struct GroupingWorker {
    rooms: Rooms<(Scratch, GroupSums)>,
    collapser: Option<Collapser>,
}

impl Pass for Grouping<'_> {
    const ID: &'static str = "cluster-sums";
    const LABEL: &'static str = "assigning rows to clusters";
    type State = Grouped;
    type Worker = GroupingWorker;

    fn worker(&self) -> GroupingWorker {
        let collapser = self.most_distinct.map(Collapser::new);
        GroupingWorker { rooms: Rooms::default(), collapser }
    }

    fn visit(&self, worker: &mut GroupingWorker, block: &Block) -> Result<Grouped> {
        let encoder = self.encoding.encoder(block)?;
        let parts = in_parts(encoder.tiles()).collect();
        let new_room = || (encoder.scratch(), GroupSums::new(&self.centers));
        let totals = worker.rooms.share_out(parts, new_room, |(scratch, sums), tiles| {
            for t in tiles {
                sums.add(&encoder.tile(t, scratch));
            }
            sums.take()
        });
        let mut all = GroupTotals::none(&self.centers);
        totals.iter().for_each(|totals| all.merge(totals));
        // Nearly always there are too many, which is soon found out.
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
