//! The pass that keeps a pool of candidate rows, from which calibration chooses the coreset's.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::rng::{Purpose, Seed};
use crate::coreset::calibration::pricing::pool_capacity;
use crate::coreset::calibration::reference::Reference;
use crate::coreset::calibration::task::{Matching, RankBy, Task};
use crate::coreset::kmeans::{Centers, Grouped, Grouping};
use crate::coreset::sensitivity::{Bound, Distances};
use crate::coreset::steps::Build;
use crate::data::block::{Block, RowSet};
use crate::data::points::{Lane, Points, TILE, Tile};
use crate::encoding::{Encoding, Scratch};
use crate::engine::Engine;
use crate::engine::pass::Pass;
use crate::mode::evaluation::{EvaluatingCurvature, Evaluation};
use crate::mode::search::Search;
use crate::model::local_features::{LocalMap, RowSizes};
use crate::reservoir::pool::{Pool, Race};

/// A leverage above which a row is as good as certain to be kept: at most a few times D rows have more.
const MUCH_LEVERAGE: f64 = 0.25;
/// Rows of so many blocks are held separately before they are joined.
const MOST_PARTS: usize = 64;

/// How rows rank as candidates. Two exponential races choose them ([`Race`]): the first by the value here, the second by
/// the norm of the local features.
#[derive(Clone)]
pub(crate) struct Ranking {
    first: FirstRace,
    totals: Totals,
}

/// What the first race goes by.
#[derive(Clone, Serialize, Deserialize)]
enum FirstRace {
    /// The sensitivity bound: how much a row can matter anywhere in the ball.
    Sensitivity(Bound),
    /// The fourth power of the leverage `w(g² + h)‖u‖²`. What a step drops is lost for good, and a nearly separated level is
    /// represented by the few rows on the wrong side, of large `g` and small `h`: the power makes it certain that they are kept.
    Leverage {
        /// The rows' share of the mass of everything that counts for the posterior.
        of_all: f64,
    },
}

impl Ranking {
    /// The ranking of a task; a pilot gives rough totals, so that hopeless rows are dropped early.
    pub fn new(task: &Task<'_>, bound: &Bound, reference: &Reference, pilot: &Points) -> Ranking {
        let first = match task.ranking {
            RankBy::Sensitivity => FirstRace::Sensitivity(bound.clone()),
            RankBy::Leverage => FirstRace::Leverage { of_all: reference.share },
        };
        let totals = Totals::of(pilot, &first, &reference.map);
        Ranking { first, totals }
    }
}

impl FirstRace {
    /// The rates of the rows of a tile.
    fn rates(&self, map: &LocalMap, tile: &Tile<'_>, buffers: &mut Buffers) -> Rates {
        let RowSizes { norms, leverages: mut shares, remainders } = map.sizes(tile, &mut buffers.directions);
        match self {
            FirstRace::Sensitivity(bound) => bound.shares(tile, &mut buffers.distances, &mut shares),
            FirstRace::Leverage { of_all } => {
                for (share, w) in shares.iter_mut().zip(tile.w.iter()) {
                    *share = (of_all * w * *share).min(MUCH_LEVERAGE).powi(4);
                }
            }
        }
        Rates { shares, norms, remainders }
    }
}

/// The rates of the rows of a tile in the races: the value in the first race, the norm of the local features, and the size of
/// the remainder that these leave out.
struct Rates {
    shares: Lane,
    norms: Lane,
    remainders: Lane,
}

/// Memory for the intermediate results of a tile.
struct Buffers {
    directions: Vec<Lane>,
    distances: Distances,
}

impl Buffers {
    fn new(dim: usize) -> Buffers {
        Buffers { directions: vec![Lane::ZERO; dim], distances: Distances::default() }
    }
}

/// Estimates from the pilot of `Σ s_n`, of `Σ w_n‖F_n‖` of the sum of the sizes of remainders, and of `Σ w_n`.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Totals {
    shares: f64,
    norms: f64,
    remainders: f64,
    mass: f64,
}

impl Totals {
    fn of(pilot: &Points, first: &FirstRace, map: &LocalMap) -> Totals {
        let mut buffers = Buffers::new(map.dim());
        let mut totals = Totals { shares: 0.0, norms: 0.0, remainders: 0.0, mass: 0.0 };
        for tile in pilot.tiles() {
            // Rows of the data have weight 1 on average; the pilot's weight is the number of rows that each represents.
            let ones = Tile { w: &Lane::of(1.0), ..tile };
            let rates = first.rates(map, &ones, &mut buffers);
            for r in 0..tile.len {
                totals.shares += tile.w[r] * rates.shares[r];
                totals.norms += tile.w[r] * rates.norms[r];
                totals.remainders += tile.w[r] * rates.remainders[r];
                totals.mass += tile.w[r];
            }
        }
        totals
    }
}

/// The candidates: as points, and as rows in the user's units.
pub(crate) struct Candidates {
    /// The candidates as points, with the random keys by which they were chosen.
    pub pool: Pool,
    /// The mean sensitivity bound `Σ s_n`, where rows rank by it.
    pub mean_bound: Option<f64>,
    /// Rows that check the coreset: a probability sample of its own, so that the rows of a coreset are not their own check.
    pub sample: Pool,
    rows: RowSet,
}

/// How many rows check a coreset.
const SAMPLE: usize = 4096;

impl Candidates {
    /// One pass that keeps the candidates for a coreset of `size` rows, and rows that check it if it is to be certified.
    pub fn find(
        build: &Build<'_, impl Engine>,
        ranking: &Ranking,
        reference: &Reference,
        matching: Matching,
        size: usize,
    ) -> Result<Candidates> {
        // Half of the sample by the size of the remainders, so that no row of a large one is missed; half by weight, so that
        // the many rows of small ones are represented, too.
        let (capacity, sample) = match matching {
            Matching::Certified => (pool_capacity(size, build.learnt.encoding.dim()), SAMPLE / 2),
            Matching::Approximate => (size, 0),
        };
        let mut pooled = build.run(Pooling {
            encoding: Cow::Borrowed(&build.learnt.encoding),
            first: ranking.first.clone(),
            map: Cow::Borrowed(&reference.map),
            capacity,
            sample,
            totals: ranking.totals,
            seed: build.settings.seed,
        })?;
        let is_bound = matches!(ranking.first, FirstRace::Sensitivity(_));
        let rows = pooled.take_rows();
        let mean_bound = is_bound.then_some(pooled.shares);
        Ok(Candidates { pool: pooled.race.finish(), mean_bound, sample: pooled.sample.finish(), rows })
    }

    /// The candidates at these ascending positions of the data, in the user's units.
    pub fn rows_at(&self, positions: &[u64]) -> RowSet {
        self.rows.take(&indices_of(&self.rows.positions, positions))
    }
}

/// The indices of those positions that are among the `wanted` ones, which ascend.
fn indices_of(positions: &[u64], wanted: &[u64]) -> Vec<usize> {
    (0..positions.len()).filter(|&index| wanted.binary_search(&positions[index]).is_ok()).collect()
}

/// The pass that races the rows for a place in the pool.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pooling<'a> {
    encoding: Cow<'a, Encoding>,
    first: FirstRace,
    map: Cow<'a, LocalMap>,
    capacity: usize,
    /// Rows that each race of the sample keeps; 0 for no sample.
    sample: usize,
    totals: Totals,
    seed: Seed,
}

/// The candidates of some blocks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pooled {
    race: Race,
    /// The rows that check the coreset, as points only.
    sample: Race,
    /// The rows in the race in the user's units, in order; some of them may have been beaten since.
    rows: Vec<RowSet>,
    /// `Σ s_n`.
    shares: f64,
}

impl Pooled {
    /// The rows in the race, without those that have been beaten.
    fn take_rows(&mut self) -> RowSet {
        let running = self.race.positions();
        let parts = std::mem::take(&mut self.rows).into_iter();
        RowSet::concat(parts.map(|part| part.take(&indices_of(&part.positions, &running))).collect())
    }
}

pub(crate) struct PoolingWorker {
    scratch: Scratch,
    buffers: Buffers,
}

impl Pass for Pooling<'_> {
    const ID: &'static str = "pool";
    const LABEL: &'static str = "selecting candidates";
    type State = Pooled;
    type Worker = PoolingWorker;

    fn worker(&self) -> PoolingWorker {
        let dim = self.encoding.dim();
        PoolingWorker { scratch: Scratch::new(dim), buffers: Buffers::new(dim) }
    }

    fn visit(&self, worker: &mut PoolingWorker, block: &Block) -> Result<Pooled> {
        let encoder = self.encoding.encoder(block)?;
        let mut race = Race::with_totals(self.capacity, self.totals.shares, self.totals.norms);
        let mut rng = self.seed.stream(Purpose::Pool, block.stream);
        let mut sample = Race::with_totals(self.sample, self.totals.remainders, self.totals.mass);
        let mut sample_rng = self.seed.stream(Purpose::Check, block.stream);
        let mut total = 0.0;
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, &mut worker.scratch);
            let Rates { shares, norms, remainders } = self.first.rates(&self.map, &tile, &mut worker.buffers);
            let position = |r| block.position(t * TILE + r);
            race.enter(&tile, &shares, &norms, position, &mut rng);
            if self.sample > 0 {
                let mut weighted = remainders;
                weighted.iter_mut().zip(tile.w.iter()).for_each(|(size, w)| *size *= w);
                sample.enter(&tile, &weighted, &Lane::of(1.0), position, &mut sample_rng);
            }
            total += shares.iter().sum::<f64>();
        }
        let rows: Vec<usize> =
            race.positions().into_iter().filter_map(|position| block.find(position)).collect();
        let rows = if rows.is_empty() { Vec::new() } else { vec![RowSet::copy(block, &rows)] };
        Ok(Pooled { race, sample, rows, shares: total })
    }

    fn merge(&self, state: &mut Pooled, next: Pooled) {
        state.race.merge(next.race);
        state.sample.merge(next.sample);
        state.rows.extend(next.rows);
        // Both races together keep half as many rows at most, of however many blocks.
        let held = state.rows.iter().map(RowSet::len).sum::<usize>();
        if held > 4 * (self.capacity + 1) || state.rows.len() > MOST_PARTS {
            state.rows = vec![state.take_rows()];
        }
        state.shares += next.shares;
    }

    fn relocate(&self, state: &mut Pooled, place: &dyn Fn(u64) -> u64) {
        state.race.relocate(place);
        state.sample.relocate(place);
        state.rows.iter_mut().for_each(|rows| rows.relocate(place));
    }
}

/// Runs the grouping pass; where there is a search for the mode and more rows than `size`, the first evaluation of the
/// likelihood shares that pass.
pub(crate) fn group_and_evaluate(
    build: &Build<'_, impl Engine>,
    centers: &Centers,
    search: Option<&Search<'_>>,
    size: usize,
) -> Result<(Grouped, Option<Evaluation>)> {
    let grouping = build.grouping(centers);
    let is_needed = build.learnt.rows > size as u64;
    match search.and_then(Search::first_evaluation).filter(|_| is_needed) {
        Some(evaluating) => {
            let (grouped, evaluation) = build.run(GroupingAndEvaluating { grouping, evaluating })?;
            Ok((grouped, Some(evaluation)))
        }
        None => Ok((build.run(grouping)?, None)),
    }
}

/// Two passes in one reading: the groups of the rows, and the first evaluation of the likelihood.
#[derive(Serialize, Deserialize)]
pub(crate) struct GroupingAndEvaluating<'a> {
    grouping: Grouping<'a>,
    evaluating: EvaluatingCurvature<'a>,
}

impl<'a> Pass for GroupingAndEvaluating<'a> {
    const ID: &'static str = "cluster-sums-and-newton";
    const LABEL: &'static str = "assigning rows to clusters, and a Newton step";
    type State = (<Grouping<'a> as Pass>::State, <EvaluatingCurvature<'a> as Pass>::State);
    type Worker = (<Grouping<'a> as Pass>::Worker, <EvaluatingCurvature<'a> as Pass>::Worker);

    fn worker(&self) -> Self::Worker {
        (self.grouping.worker(), self.evaluating.worker())
    }

    fn visit(&self, (grouping, evaluating): &mut Self::Worker, block: &Block) -> Result<Self::State> {
        Ok((self.grouping.visit(grouping, block)?, self.evaluating.visit(evaluating, block)?))
    }

    fn merge(&self, state: &mut Self::State, next: Self::State) {
        self.grouping.merge(&mut state.0, next.0);
        self.evaluating.merge(&mut state.1, next.1);
    }

    fn relocate(&self, state: &mut Self::State, place: &dyn Fn(u64) -> u64) {
        self.grouping.relocate(&mut state.0, place);
        self.evaluating.relocate(&mut state.1, place);
    }
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;
    use crate::data::block::{Column, Segment};
    use crate::encoding::{Coding, Feature, Label, LabelValue, Unseen};

    /// With no idea of the totals every block sends as many rows as the whole pool may have.
    #[test]
    fn a_pool_brings_the_rows_that_are_in_its_race_and_few_others() {
        let [negative, positive] = [-1.0, 1.0].map(LabelValue::Number);
        let encoding = Encoding {
            label: Label { column: "y".into(), negative, positive },
            weight: None,
            intercept: false,
            groups: Vec::new(),
            features: vec![Feature::new("x", Coding::Number { center: 0.0, scale: 1.0 })],
            unseen: Unseen::Error,
            design: None,
        };
        let pooling = Pooling {
            encoding: Cow::Borrowed(&encoding),
            first: FirstRace::Leverage { of_all: 1.0 },
            map: Cow::Owned(LocalMap::new(vec![0.0], Mat::<f64>::identity(1, 1).as_ref()).expect("a map")),
            capacity: 5,
            sample: 0,
            totals: Totals { shares: 0.0, norms: 0.0, remainders: 0.0, mass: 0.0 },
            seed: Seed(1),
        };
        // A row's value is its position.
        let blocks = (0..40u64).map(|index| {
            let values: Vec<f64> = (0..100).map(|row| (100 * index + row) as f64).collect();
            let signs: Vec<f64> =
                values.iter().map(|value| if value % 3.0 == 0.0 { 1.0 } else { -1.0 }).collect();
            let columns = vec![Column::Number(values.into()), Column::Number(signs.into())];
            Block::new(index, 100 * index, Segment { columns, len: 100 })
        });
        let mut worker = pooling.worker();
        let mut pooled: Option<Pooled> = None;
        for block in blocks {
            let next = pooling.visit(&mut worker, &block).expect("a state");
            match &mut pooled {
                Some(pooled) => pooling.merge(pooled, next),
                none => *none = Some(next),
            }
            let held = pooled.iter().flat_map(|pooled| &pooled.rows).map(RowSet::len).sum::<usize>();
            assert!(held <= 4 * (pooling.capacity + 1), "{held} rows");
        }
        let mut pooled = pooled.expect("a state");
        pooling.relocate(&mut pooled, &|position| position + 7);
        let (running, rows) = (pooled.race.positions(), pooled.take_rows());
        assert!((6..=12).contains(&running.len()));
        assert_eq!(rows.positions, running);
        let Column::Number(values) = &rows.segment.columns[0] else { panic!("numbers") };
        assert!(values.iter().zip(&running).all(|(value, position)| *value + 7.0 == *position as f64));
    }
}
