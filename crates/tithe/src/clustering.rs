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

    /// Squared distances `‖z_n − Q_i‖²` of all rows of a tile to all centres: k lanes.
    #[inline(always)]
    pub(crate) fn squared_distances(&self, tile: &Tile<'_>, distances: &mut [Lane]) {
        for (center, distance) in self.rows().zip(distances) {
            squared_distance(tile, center, distance);
        }
    }
}

/// `‖z_n − q‖²` for all rows of a tile.
#[inline(always)]
pub(crate) fn squared_distance(tile: &Tile<'_>, q: &[f64], distance: &mut Lane) {
    *distance = [0.0; TILE];
    for (z, &q) in tile.z.iter().zip(q) {
        for r in 0..TILE {
            let apart = z[r] - q;
            distance[r] = apart.mul_add(apart, distance[r]);
        }
    }
}

/// The nearest centre of each row and its squared distance; of equals the first.
#[inline(always)]
pub(crate) fn nearest(distances: &[Lane], group: &mut Lane, least: &mut Lane) {
    *group = [0.0; TILE];
    *least = distances[0];
    for (i, distance) in distances.iter().enumerate().skip(1) {
        let i = i as f64;
        for r in 0..TILE {
            group[r] = if distance[r] < least[r] { i } else { group[r] };
            least[r] = if distance[r] < least[r] { distance[r] } else { least[r] };
        }
    }
}

/// Chooses k centres: k-means++ (D² weighting by mass), then Lloyd's steps.
///
/// Fewer distinct points than `k` give fewer centres.
pub fn centers(points: &Points, k: usize, seed: Seed) -> Centers {
    let mut centers = plus_plus(points, k, seed);
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
    centers
}

fn plus_plus(points: &Points, k: usize, seed: Seed) -> Centers {
    let mut rng = seed.stream(Purpose::Clustering, 0);
    let mut chances = points.weights();
    let mut least = vec![f64::INFINITY; points.len()];
    let mut centers = Centers::new(points.dim(), Vec::new());
    let mut distance = [0.0; TILE];
    for _ in 0..k {
        let total: f64 = chances.iter().sum();
        if !(total > 0.0) {
            break;
        }
        let chosen = choose(&chances, open_unit(&mut rng) * total);
        let center = points.row(chosen);
        for (t, tile) in points.tiles().enumerate() {
            vectorized(
                #[inline(always)]
                || squared_distance(&tile, &center, &mut distance),
            );
            let rows = t * TILE..t * TILE + tile.len;
            for ((least, chance), (distance, w)) in
                least[rows.clone()].iter_mut().zip(&mut chances[rows]).zip(distance.iter().zip(tile.w))
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
    let mut scratch = GroupScratch::new(centers.len());
    for tile in points.tiles() {
        sums.add(centers, &tile, &mut scratch);
    }
    sums.finish(centers)
}

/// Sums for the groups: about the centre, so that a far-off mean costs no accuracy.
#[derive(Clone, Debug)]
pub(crate) struct GroupSums {
    mass: Vec<f64>,
    /// `Σ w (z − Q_i)` over each group: k rows of dimension D.
    offset: Vec<f64>,
    squares: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct GroupScratch {
    distances: Vec<Lane>,
    group: Lane,
    least: Lane,
}

impl GroupScratch {
    pub(crate) fn new(k: usize) -> GroupScratch {
        GroupScratch { distances: vec![[0.0; TILE]; k], group: [0.0; TILE], least: [0.0; TILE] }
    }
}

impl GroupSums {
    pub(crate) fn new(centers: &Centers) -> GroupSums {
        GroupSums { mass: vec![0.0; centers.len()], offset: vec![0.0; centers.q.len()], squares: 0.0 }
    }

    pub(crate) fn add(&mut self, centers: &Centers, tile: &Tile<'_>, scratch: &mut GroupScratch) {
        vectorized(
            #[inline(always)]
            || self.add_kernel(centers, tile, scratch),
        );
    }

    #[inline(always)]
    fn add_kernel(&mut self, centers: &Centers, tile: &Tile<'_>, scratch: &mut GroupScratch) {
        centers.squared_distances(tile, &mut scratch.distances);
        nearest(&scratch.distances, &mut scratch.group, &mut scratch.least);
        self.squares += dot(tile.w, &scratch.least);
        let mut member = [0.0; TILE];
        for (i, q) in centers.rows().enumerate() {
            let number = i as f64;
            for r in 0..TILE {
                member[r] = if scratch.group[r] == number { tile.w[r] } else { 0.0 };
            }
            let mass = sum(&member);
            if mass == 0.0 {
                continue;
            }
            self.mass[i] += mass;
            let offsets = &mut self.offset[i * centers.dim..(i + 1) * centers.dim];
            for ((offset, z), &q) in offsets.iter_mut().zip(tile.z).zip(q) {
                *offset += offset_dot(&member, z, q);
            }
        }
    }

    pub(crate) fn merge(&mut self, next: &GroupSums) {
        let add = |ours: &mut [f64], theirs: &[f64]| {
            ours.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        };
        add(&mut self.mass, &next.mass);
        add(&mut self.offset, &next.offset);
        self.squares += next.squares;
    }

    pub(crate) fn finish(self, centers: &Centers) -> Groups {
        let total: f64 = self.mass.iter().sum();
        let mut mean = self.offset;
        for ((mean, q), mass) in mean.chunks_exact_mut(centers.dim).zip(centers.rows()).zip(&self.mass) {
            for (mean, q) in mean.iter_mut().zip(q) {
                *mean = if *mass > 0.0 { q + *mean / mass } else { 0.0 };
            }
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
    sums: GroupSums,
    /// The distinct rows, if they were looked for.
    pub distinct: Option<Distinct>,
}

impl Grouped {
    /// Masses, means and score of the groups.
    pub fn groups(self, centers: &Centers) -> Groups {
        self.sums.finish(centers)
    }
}

impl Pass for Grouping<'_> {
    const NAME: &'static str = "grouping the rows";
    type State = Grouped;
    type Worker = (Scratch, GroupScratch, Option<Collapser>);

    fn worker(&self) -> Self::Worker {
        let scratch = Scratch::new(self.encoding.dim());
        (scratch, GroupScratch::new(self.centers.len()), self.most_distinct.map(Collapser::new))
    }

    fn visit(
        &self,
        (scratch, group_scratch, collapser): &mut Self::Worker,
        block: &Block,
    ) -> Result<Grouped> {
        let encoder = self.encoding.encoder(block)?;
        let mut sums = GroupSums::new(self.centers);
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, scratch);
            sums.add(self.centers, &tile, group_scratch);
            if let Some(collapser) = collapser {
                collapser.add(&tile, t * TILE);
            }
        }
        Ok(Grouped { sums, distinct: collapser.as_mut().map(|collapser| collapser.finish(block)) })
    }

    fn merge(&self, state: &mut Grouped, next: Grouped) {
        state.sums.merge(&next.sums);
        if let (Some(ours), Some(theirs)) = (&mut state.distinct, next.distinct) {
            ours.merge(theirs);
        }
    }
}

const LANES: usize = 16;

#[inline(always)]
pub(crate) fn sum(values: &Lane) -> f64 {
    let mut lanes = [0.0; LANES];
    for chunk in values.as_chunks::<LANES>().0 {
        for l in 0..LANES {
            lanes[l] += chunk[l];
        }
    }
    lanes.iter().sum()
}

#[inline(always)]
pub(crate) fn dot(a: &Lane, b: &Lane) -> f64 {
    let mut lanes = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for l in 0..LANES {
            lanes[l] = a[l].mul_add(b[l], lanes[l]);
        }
    }
    lanes.iter().sum()
}

/// `Σ w (z − q)`.
#[inline(always)]
fn offset_dot(w: &Lane, z: &Lane, q: f64) -> f64 {
    let mut lanes = [0.0; LANES];
    for (w, z) in w.as_chunks::<LANES>().0.iter().zip(z.as_chunks::<LANES>().0) {
        for l in 0..LANES {
            lanes[l] = w[l].mul_add(z[l] - q, lanes[l]);
        }
    }
    lanes.iter().sum()
}
