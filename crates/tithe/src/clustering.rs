//! Clustering: weighted k-means++ and Lloyd on a few thousand chosen rows, then one pass over all rows for
//! the mass and mean of each group.

use crate::block::Block;
use crate::collapse::{Collapser, Distinct};
use crate::encoding::{Encoding, Scratch};
use crate::error::Result;
use crate::math::vectorized;
use crate::pass::Pass;
use crate::points::{Lane, Points, TILE, Tile};
use crate::rng::{Purpose, Seed, open_unit};

/// Lloyd's steps stop when the score falls by less than this share, or after [`MOST_STEPS`].
const ENOUGH: f64 = 1e-3;
const MOST_STEPS: usize = 25;
const STARTS: u64 = 4;

/// Rows that a kernel works on side by side: the order of sums never changes, and each vector unit has several.
pub(crate) const LANES: usize = 32;
/// One number for each of these rows.
pub(crate) type Few = [f64; LANES];

/// Cluster centres `Q_i`: k rows of dimension D.
#[derive(Clone, Debug, PartialEq)]
pub struct Centers {
    dim: usize,
    q: Vec<f64>,
}

/// The groups `G_i` of the rows nearest to each centre.
#[derive(Clone, Debug, PartialEq)]
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

/// Tells which centre a row is nearest to, of equals the first, by the numbers
/// `½‖z − Q_i‖² − ½‖z − Q_0‖² = c_i − d_i·z` with `d_i = Q_i − Q_0`: one multiplication a coordinate.
/// Everything that speaks of groups goes by these, so all agree on a row's group to the last bit.
#[derive(Clone, Debug)]
pub(crate) struct Nearest {
    origin: Vec<f64>,
    /// `c_i` and `d_i`, for i from 1.
    others: Vec<(f64, Vec<f64>)>,
}

/// The nearest centres of a few rows.
pub(crate) struct Assigned {
    /// The numbers of the centres, as `f64` for the vector units' sake.
    pub group: Few,
    /// `½‖z − Q_i‖² − ½‖z − Q_0‖²` of the nearest: 0 or less.
    lead: Few,
}

impl Nearest {
    pub fn new(centers: &Centers) -> Nearest {
        let origin = centers.rows().next().unwrap_or_default().to_vec();
        let others = centers.rows().skip(1).map(|q| {
            let apart: Vec<f64> = q.iter().zip(&origin).map(|(q, o)| q - o).collect();
            let middle = apart.iter().zip(q.iter().zip(&origin)).map(|(d, (q, o))| 0.5 * d * (q + o)).sum();
            (middle, apart)
        });
        Nearest { others: others.collect(), origin }
    }

    /// The nearest centres of rows `c·LANES` and on of a tile.
    #[inline(always)]
    pub fn assign(&self, tile: &Tile<'_>, c: usize) -> Assigned {
        let (mut group, mut lead) = ([0.0; LANES], [0.0; LANES]);
        for (i, (middle, apart)) in self.others.iter().enumerate() {
            let mut value = [*middle; LANES];
            for (z, &d) in tile.z.iter().zip(apart) {
                let z = &z.as_chunks::<LANES>().0[c];
                for l in 0..LANES {
                    value[l] = z[l].mul_add(-d, value[l]);
                }
            }
            let number = (i + 1) as f64;
            for l in 0..LANES {
                group[l] = if value[l] < lead[l] { number } else { group[l] };
                lead[l] = if value[l] < lead[l] { value[l] } else { lead[l] };
            }
        }
        Assigned { group, lead }
    }

    /// `‖z − Q_i‖²` of the nearest centres; what rounding makes negative is 0.
    #[inline(always)]
    fn squared_distance(&self, tile: &Tile<'_>, c: usize, assigned: &Assigned) -> Few {
        let mut distance = squared_distance(tile, c, &self.origin);
        for l in 0..LANES {
            let nearest = assigned.lead[l].mul_add(2.0, distance[l]);
            distance[l] = if nearest > 0.0 { nearest } else { 0.0 };
        }
        distance
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
    nearest: Nearest,
    dim: usize,
    mass: Vec<Few>,
    /// `Σ w z` over each group: k rows of dimension D.
    sum: Vec<Few>,
    squares: Few,
}

/// The same, for some blocks.
#[derive(Clone, Debug)]
pub(crate) struct GroupTotals {
    mass: Vec<f64>,
    sum: Vec<f64>,
    squares: f64,
}

impl GroupSums {
    pub(crate) fn new(centers: &Centers) -> GroupSums {
        let zero = [0.0; LANES];
        GroupSums {
            nearest: Nearest::new(centers),
            dim: centers.dim,
            mass: vec![zero; centers.len()],
            sum: vec![zero; centers.q.len()],
            squares: zero,
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
        for (c, group) in group.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let assigned = self.nearest.assign(tile, c);
            let squares = self.nearest.squared_distance(tile, c, &assigned);
            let w = &tile.w.as_chunks::<LANES>().0[c];
            for l in 0..LANES {
                self.squares[l] = w[l].mul_add(squares[l], self.squares[l]);
            }
            *group = assigned.group;
        }
        // Copies, which nothing can alias: the choices below become masks.
        let (w, ones) = (*tile.w, Lane::of(1.0));
        let mut member = Lane::ZERO;
        for (i, sums) in self.sum.chunks_exact_mut(self.dim).enumerate() {
            let number = i as f64;
            for r in 0..TILE {
                member[r] = if group[r] == number { w[r] } else { 0.0 };
            }
            add_products(&mut self.mass[i], &member, &ones);
            for (sum, z) in sums.iter_mut().zip(tile.z) {
                add_products(sum, &member, z);
            }
        }
    }

    /// The totals of what was added; ready for the next block.
    pub(crate) fn take(&mut self) -> GroupTotals {
        let total = |sums: &mut Few| std::mem::replace(sums, [0.0; LANES]).iter().sum();
        GroupTotals {
            mass: self.mass.iter_mut().map(total).collect(),
            sum: self.sum.iter_mut().map(total).collect(),
            squares: total(&mut self.squares),
        }
    }
}

/// Adds `a_r b_r` to the running sums.
#[inline(always)]
fn add_products(sums: &mut Few, a: &Lane, b: &Lane) {
    let mut local = *sums;
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for l in 0..LANES {
            local[l] = a[l].mul_add(b[l], local[l]);
        }
    }
    *sums = local;
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
pub(crate) struct Grouping<'a> {
    /// How blocks become points.
    pub encoding: &'a Encoding,
    /// The centres.
    pub centers: &'a Centers,
    /// How many distinct rows are worth keeping; `None` does not look for them.
    pub most_distinct: Option<usize>,
}

/// What the pass found, for some blocks.
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
            sums: GroupSums::new(self.centers),
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
}
