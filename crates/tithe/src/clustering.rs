//! Clustering: weighted k-means++ and Lloyd on a few thousand chosen rows, then one pass over all rows for
//! the mass and mean of each group.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::collapse::{Collapser, Distinct};
use crate::encoding::{Encoding, Scratch};
use crate::error::Result;
use crate::math::vectorized;
use crate::pass::Pass;
use crate::points::{Ahead, Lane, Points, TILE, Tile};
use crate::rng::{Purpose, Seed, open_unit};

/// Lloyd's steps stop when the score falls by less than this share, or after [`MOST_STEPS`].
const ENOUGH: f64 = 1e-3;
const MOST_STEPS: usize = 25;
const STARTS: u64 = 4;

/// Rows that a kernel works on side by side: the order of sums never changes, and each vector unit has several.
pub(crate) const LANES: usize = 32;
/// One number for each of these rows.
pub(crate) type Few = [f64; LANES];

/// Running sums of one group side by side, for the same reasons; few enough that those of several groups stay in
/// registers together.
const SUMS: usize = 16;
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

    /// Asks for what the next tile has in place of rows `c·LANES` and on, as much as is due with centre `i`.
    #[inline(always)]
    pub(crate) fn fetch_ahead(&self, tile: &Tile<'_>, c: usize, i: usize) {
        const LINES: usize = Ahead::LINES * LANES / TILE;
        for line in (i..LINES).step_by(self.len()) {
            tile.ahead.fetch(c * LINES + line);
        }
    }

    /// The nearest centres of rows `c·LANES` and on of a tile.
    #[inline(always)]
    fn nearest(&self, tile: &Tile<'_>, c: usize) -> Nearest {
        let mut nearest = Nearest::new();
        for (i, center) in self.rows().enumerate() {
            self.fetch_ahead(tile, c, i);
            nearest.add(i, &squared_distance(tile, c, center));
        }
        nearest
    }
}

/// The nearest centres of some rows, of equals the first.
pub(crate) struct Nearest {
    /// Their numbers, as `f64` for the vector units' sake.
    pub group: Few,
    /// The squared distances `‖z_n − Q_i‖²`.
    pub square: Few,
}

impl Nearest {
    #[inline(always)]
    pub(crate) fn new() -> Nearest {
        Nearest { group: [0.0; LANES], square: [f64::INFINITY; LANES] }
    }

    /// Takes note of centre `i`, at these squared distances.
    #[inline(always)]
    pub(crate) fn add(&mut self, i: usize, square: &Few) {
        for (l, &square) in square.iter().enumerate() {
            let nearer = square < self.square[l];
            self.group[l] = if nearer { i as f64 } else { self.group[l] };
            self.square[l] = if nearer { square } else { self.square[l] };
        }
    }
}

/// `‖z_n − q‖²` for rows `c·LANES` and on of a tile.
#[inline(always)]
pub(crate) fn squared_distance(tile: &Tile<'_>, c: usize, q: &[f64]) -> Few {
    let mut sum = [0.0; LANES];
    for (z, &q) in tile.z.iter().zip(q) {
        let z = &z.as_chunks::<LANES>().0[c];
        for l in 0..LANES {
            let apart = z[l] - q;
            sum[l] = apart.mul_add(apart, sum[l]);
        }
    }
    sum
}

/// Chooses k centres: k-means++ (D² weighting by mass), then Lloyd's steps, the best of a few starts. A poor start
/// is not rare, and can double the bounds that the clustering gives.
///
/// Fewer distinct points than `k` give fewer centres.
pub fn centers(points: &Points, k: usize, seed: Seed) -> Centers {
    let tries: Vec<(f64, Centers)> = (0..STARTS).map(|start| lloyd(points, k, seed, start)).collect();
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
            vectorized(
                #[inline(always)]
                || {
                    for (c, distance) in distance.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                        *distance = squared_distance(&tile, c, &center);
                    }
                },
            );
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

/// Sums over the groups of some tiles.
#[derive(Clone, Debug)]
pub(crate) struct GroupSums {
    centers: Centers,
    mass: Vec<Sums>,
    /// `Σ w z` over each group: k rows of dimension D.
    sum: Vec<Sums>,
    squares: Few,
}

/// The same, for some blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GroupTotals {
    mass: Vec<f64>,
    sum: Vec<f64>,
    squares: f64,
}

impl GroupSums {
    pub(crate) fn new(centers: &Centers) -> GroupSums {
        let zero = [0.0; SUMS];
        GroupSums {
            centers: centers.clone(),
            mass: vec![zero; centers.len()],
            sum: vec![zero; centers.q.len()],
            squares: [0.0; LANES],
        }
    }

    pub(crate) fn add(&mut self, tile: &Tile<'_>) {
        vectorized(
            #[inline(always)]
            || self.add_kernel(tile),
        );
    }

    #[inline(always)]
    fn add_kernel(&mut self, tile: &Tile<'_>) {
        let mut group = Lane::ZERO;
        // Copies, which nothing can alias: the sums become vectors, and the choices below masks.
        let mut squares = self.squares;
        for (c, group) in group.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let nearest = self.centers.nearest(tile, c);
            let w = &tile.w.as_chunks::<LANES>().0[c];
            for l in 0..LANES {
                squares[l] = w[l].mul_add(nearest.square[l], squares[l]);
            }
            *group = nearest.group;
        }
        self.squares = squares;
        let (w, ones) = (*tile.w, Lane::of(1.0));
        for first in (0..self.mass.len()).step_by(TOGETHER) {
            let mut member = [Lane::ZERO; TOGETHER];
            for (member, i) in member.iter_mut().zip(first..) {
                for r in 0..TILE {
                    member[r] = if group[r] == i as f64 { w[r] } else { 0.0 };
                }
            }
            let groups = first..self.mass.len().min(first + TOGETHER);
            add_products(&mut self.mass[groups.clone()], 1, &member, &ones);
            for (d, z) in tile.z.iter().enumerate() {
                let sums = &mut self.sum
                    [groups.start * self.centers.dim + d..(groups.end - 1) * self.centers.dim + d + 1];
                add_products(sums, self.centers.dim, &member, z);
            }
        }
    }

    /// The totals of what was added; ready for the next block.
    pub(crate) fn take(&mut self) -> GroupTotals {
        let total = |sums: &mut Sums| std::mem::replace(sums, [0.0; SUMS]).iter().sum();
        GroupTotals {
            mass: self.mass.iter_mut().map(total).collect(),
            sum: self.sum.iter_mut().map(total).collect(),
            squares: std::mem::replace(&mut self.squares, [0.0; LANES]).iter().sum(),
        }
    }
}

/// Groups that are summed in one sweep over a column.
const TOGETHER: usize = 4;

/// Adds `Σ_r m_r z_r` for the members `m` of each group to every `stride`-th of the sums.
#[inline(always)]
fn add_products(sums: &mut [Sums], stride: usize, members: &[Lane; TOGETHER], z: &Lane) {
    let mut local = [[0.0; SUMS]; TOGETHER];
    for (local, sums) in local.iter_mut().zip(sums.iter().step_by(stride)) {
        *local = *sums;
    }
    for (c, z) in z.as_chunks::<SUMS>().0.iter().enumerate() {
        for (local, member) in local.iter_mut().zip(members) {
            let member = &member.as_chunks::<SUMS>().0[c];
            for l in 0..SUMS {
                local[l] = member[l].mul_add(z[l], local[l]);
            }
        }
    }
    for (local, sums) in local.iter().zip(sums.iter_mut().step_by(stride)) {
        *sums = *local;
    }
}

impl GroupTotals {
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
    scratch: Scratch,
    sums: GroupSums,
    collapser: Option<Collapser>,
}

impl Pass for Grouping<'_> {
    const NAME: &'static str = "grouping the rows";
    type State = Grouped;
    type Worker = GroupingWorker;

    fn worker(&self) -> GroupingWorker {
        GroupingWorker {
            scratch: Scratch::new(self.encoding.dim()),
            sums: GroupSums::new(&self.centers),
            collapser: self.most_distinct.map(Collapser::new),
        }
    }

    fn visit(&self, worker: &mut GroupingWorker, block: &Block) -> Result<Grouped> {
        let GroupingWorker { scratch, sums, collapser } = worker;
        let encoder = self.encoding.encoder(block)?;
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, scratch);
            sums.add(&tile);
            if let Some(collapser) = collapser {
                collapser.add(&tile, t * TILE);
            }
        }
        Ok(Grouped {
            totals: sums.take(),
            distinct: collapser.as_mut().map(|collapser| collapser.finish(block)),
        })
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
