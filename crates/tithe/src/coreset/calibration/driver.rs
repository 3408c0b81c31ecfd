//! The driver of calibration: from sensitivity bounds to weights whose posterior is practically the full data's.

use std::borrow::Cow;
use std::ops::Range;

use faer::Mat;
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::rng::{Purpose, Seed};
use crate::coreset::build::{
    Bounded, BuildSettings, Clock, Selected, exact_coreset, picked_points, run_over_the_same,
    sensitivity_bounds,
};
use crate::coreset::calibration::certificate::{Certificate, Gaussian, Guard};
use crate::coreset::calibration::{CalibrationSettings, calibrate, nudge, pool_capacity};
use crate::coreset::collapse::Distinct;
use crate::coreset::kmeans::Grouping;
use crate::coreset::selection::Size;
use crate::coreset::sensitivity::{Bound, Distances};
use crate::coreset::{CalibrationFacts, Method, Provenance};
use crate::data::block::{Block, RowSet};
use crate::data::points::{Lane, Points, TILE, Tile};
use crate::encoding::survey::Learnt;
use crate::encoding::{Encoding, Scratch};
use crate::engine::Engine;
use crate::engine::pass::Pass;
use crate::mode::search::{Looking, NEAR, Pilot, Search, full_curvature, mode_beside};
use crate::model::likelihood::Curvature;
use crate::model::local_features::{LocalMap, LocalSum};
use crate::model::newton::check_memory;
use crate::model::quadratic::Quadratic;
use crate::reservoir::pool::{Pool, Race};

/// The squared decrement of a step's reference: a tenth of a standard deviation matters little, for the next step has
/// another.
const NEAR_A_STEP: f64 = 1e-2;
/// The leverage from which on a row's place is as good as certain: at most a few times D rows have more.
const MUCH_LEVERAGE: f64 = 0.25;
/// Rows of so many blocks are held apart before they are put together.
const MOST_PARTS: usize = 64;
/// A target KL is sought with at most so many rows.
const MOST_ROWS: usize = 20_000;

/// Selects rows by sensitivity and by what matters near the mode, and weighs them so that the gradient and Hessian
/// of the log-likelihood at the full data's mode are the full data's own.
///
/// Where the rows are a part of something larger, its other points count for the mode and for what matters near it: the
/// reference is then the posterior of all that is known, which is the one that the part will be used for.
pub(crate) fn calibrated(
    engine: &impl Engine,
    learnt: &Learnt,
    settings: &BuildSettings,
    place: Place<'_>,
    clock: &mut Clock,
) -> Result<Selected> {
    let encoding = &learnt.encoding;
    let (mut size, most, target_kl) = match settings.size {
        Size::Rows(rows) => (rows, rows, f64::INFINITY),
        Size::Kl { target } => {
            let first = (20 * encoding.dim()).clamp(200, 2000);
            (first, MOST_ROWS.min(learnt.rows as usize / 2).max(first), target)
        }
        Size::Guarantee { .. } => {
            let what =
                "goes with --method sensitivity, whose theorem it is; --method calibrated takes --size";
            return Err(Error::setting("--epsilon", what));
        }
    };
    // The search for the full data's mode sets out from that of the rows which the survey picked, and looks around for the first time
    // while the rows are grouped; or it goes on from where the mode was last.
    let prior_precision = vec![settings.prior_scale.powi(-2); encoding.dim()];
    let pilot = pilot_points(learnt)?;
    let (rest, remainder) = (place.rest(), place.remainder());
    let all = rest.filter(|_| remainder.is_none()).map(|rest| joined(&pilot, rest));
    let start = match remainder {
        Some(remainder) => Start::Last(remainder),
        None => {
            let pilot = Pilot::Random(all.as_ref().unwrap_or(&pilot));
            let rows = learnt.rows + rest.map_or(0, |rest| rest.len() as u64);
            let fits = check_memory(encoding.dim(), rayon::current_num_threads());
            Start::Pilot(
                fits.and_then(|()| Search::new(encoding, rest, &prior_precision, pilot, rows, settings.seed)),
            )
        }
    };
    clock.lap("mode");
    let mut first_look = None;
    let Bounded { bound, mut facts, mut distinct } =
        sensitivity_bounds(learnt, settings, clock, |grouping| match &start {
            Start::Pilot(Ok(search)) if learnt.rows > size as u64 => {
                let outset = Outset { grouping, look: search.first_look() };
                let outset = run_over_the_same(engine, learnt, outset)?;
                first_look = Some(outset.1);
                Ok(outset.0)
            }
            _ => run_over_the_same(engine, learnt, grouping),
        })?;
    let fits = |distinct: &Option<Distinct>, size: usize| matches!(distinct, Some(Distinct::Rows(rows)) if rows.mass.len() <= size);
    // All rows as they are leave what was left before: who makes up for it must weigh even them anew.
    if !place.makes_up() {
        let few = if fits(&distinct, size) { distinct.take() } else { None };
        if let Some(exact) = exact_coreset(engine, learnt, settings, size as u64, few, &facts, clock)? {
            return Ok(exact);
        }
    }

    let mode = match start {
        Start::Pilot(search) => search?.mode(engine, first_look)?,
        Start::Last(remainder) => {
            mode_beside(engine, encoding, rest, remainder, &prior_precision, place.near())?
        }
    };
    clock.lap("mode");

    // The target b: the local features of all that is not in the rest, which the last Newton pass has summed already.
    let share = learnt.mass / (learnt.mass + place.other_mass());
    let (map, wanted) = match place {
        Place::At(theta) => {
            let wanted = full_curvature(engine, encoding, theta)?;
            (LocalMap::new(theta.to_vec(), mode.precision.as_ref())?, wanted)
        }
        _ => {
            let wanted = match rest {
                Some(rest) => mode.likelihood.minus(&Curvature::of_points(rest, &mode.theta)),
                None => mode.likelihood,
            };
            // The shape of the whole posterior, the size of the part's: features are then as large as they would be alone.
            (LocalMap::new(mode.theta, (&mode.precision * share).as_ref())?, wanted)
        }
    };
    let first = match place {
        Place::Step { .. } | Place::Last(Some(_)) => First::Leverage { of_all: share },
        _ => First::Sensitivity(Cow::Borrowed(&bound)),
    };
    let totals = Totals::of(&pilot, &first, &map);
    // Of what was left before, a part makes up for its share.
    let asked = match remainder {
        Some(remainder) => wanted.minus(&remainder.at(map.theta()).times(1.0 - share)),
        None => wanted.clone(),
    };
    let full = Full {
        gaussian: Gaussian { mean: mode.mode, precision: mode.precision },
        prior_scale: settings.prior_scale,
        prior_precision,
        target: target_of(&map, &asked),
        map,
    };

    let met = |facts: &CalibrationFacts| facts.certificate.meets(target_kl);
    let mut missed_by = 0;
    let (pool, rows, mut chosen) = loop {
        // Candidates: the winners of one race by sensitivity (or leverage) and of one by the size of the local features.
        let capacity = place.pool_capacity(size, encoding.dim());
        let pooling = Pooling {
            encoding: Cow::Borrowed(encoding),
            first: first.clone(),
            map: Cow::Borrowed(&full.map),
            capacity,
            totals,
            seed: settings.seed,
        };
        let mut pooled = run_over_the_same(engine, learnt, pooling)?;
        if let First::Sensitivity(_) = first {
            facts.mean_bound = Some(pooled.shares);
        }
        let rows = pooled.take_rows();
        let pool = pooled.race.finish();
        clock.lap("selection");
        let chosen = match place {
            Place::Step { .. } => choose_for_a_step(&pool, &full, size),
            _ => choose(&pool, &full, size, settings.seed)?,
        };
        clock.lap("calibration");
        let Some(missed) =
            chosen.facts.as_ref().filter(|facts| settings.size != Size::Rows(size) && !met(facts))
        else {
            break (pool, rows, chosen);
        };
        if size >= most {
            return Err(not_met(target_kl, size, &missed.certificate));
        }
        missed_by = size;
        size = (2 * size).min(most);
        if fits(&distinct, size)
            && let Some(exact) =
                exact_coreset(engine, learnt, settings, size as u64, distinct.take(), &facts, clock)?
        {
            return Ok(exact);
        }
    };

    if matches!(settings.size, Size::Kl { .. })
        && let Some((fewer, rows)) = fewest(&pool, &full, missed_by..size, settings.seed, met)?
    {
        (size, chosen) = (fewer, rows);
    }
    clock.lap("calibration");

    // The chosen rows in the user's own units.
    let rows = rows.take(&places_in(&rows.positions, &chosen.positions));
    let kept = Curvature::of_points(&chosen.points, full.map.theta());
    let remainder = Quadratic { curvature: wanted.minus(&kept), theta: full.map.theta().to_vec() };
    Ok(Selected {
        rows,
        weights: chosen.points.weights(),
        draws: size as u64,
        exact: false,
        facts: Some(facts),
        calibration: chosen.facts,
        warning: None,
        remainder: Some(remainder),
    })
}

/// Where the search for the mode begins.
enum Start<'a> {
    /// Where the mode was last.
    Last(&'a Quadratic),
    /// At that of a pilot. If there is none, that matters only to rows that are not their own coreset.
    Pilot(Result<Search<'a>>),
}

/// The fewest rows of a pool that meet a target, to within a quarter; nothing if all sizes in the range miss it.
fn fewest(
    pool: &Pool,
    full: &Full,
    sizes: Range<usize>,
    seed: Seed,
    met: impl Fn(&CalibrationFacts) -> bool,
) -> Result<Option<(usize, Chosen)>> {
    // Rows must at least span the coefficients.
    let (mut missed, mut enough) = (sizes.start.max(full.prior_precision.len()), sizes.end);
    let mut best = None;
    while enough > missed + 1 && 4 * enough > 5 * missed {
        let size = ((missed as f64 * enough as f64).sqrt() as usize).clamp(missed + 1, enough - 1);
        match choose(pool, full, size, seed) {
            Ok(chosen) if chosen.facts.as_ref().is_some_and(&met) => {
                (enough, best) = (size, Some((size, chosen)));
            }
            Err(error) if !error.is_numerical() => return Err(error),
            _ => missed = size,
        }
    }
    Ok(best)
}

/// Where those of some positions stand that are `wanted`, which ascend.
fn places_in(positions: &[u64], wanted: &[u64]) -> Vec<usize> {
    (0..positions.len()).filter(|&place| wanted.binary_search(&positions[place]).is_ok()).collect()
}

fn not_met(target: f64, size: usize, best: &Certificate) -> Error {
    let missing = match best.deficiencies.len() {
        0 => String::new(),
        count => format!(", and know too little of {count} directions"),
    };
    ErrorKind::Numerical {
        what: format!("a KL of {target} was not reached: {size} rows reach {:.3e}{missing}", best.kl),
        help: Some(format!("ask for a larger --kl, or take what {size} rows give with --size {size}")),
    }
    .into()
}

/// Where the rows that are to be reduced stand.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// They are all that there is.
    Alone,
    /// They are a part of something larger, in one of many steps.
    Step {
        /// The other points.
        rest: Option<&'a Points>,
        /// What earlier steps left.
        remainder: Option<&'a Quadratic>,
    },
    /// They are all that is held, and earlier steps left something.
    Last(Option<&'a Quadratic>),
    /// The reference point is given.
    At(&'a [f64]),
}

impl<'a> Place<'a> {
    fn rest(self) -> Option<&'a Points> {
        if let Place::Step { rest, .. } = self { rest } else { None }
    }

    pub(crate) fn remainder(self) -> Option<&'a Quadratic> {
        match self {
            Place::Step { remainder, .. } | Place::Last(remainder) => remainder,
            Place::Alone | Place::At(_) => None,
        }
    }

    /// True if all that was left before is to be made up for.
    pub(crate) fn makes_up(self) -> bool {
        matches!(self, Place::Last(Some(_)))
    }

    /// The same, had nothing been left before.
    pub(crate) fn letting_go(self) -> Place<'a> {
        match self {
            Place::Step { rest, .. } => Place::Step { rest, remainder: None },
            Place::Last(_) => Place::Last(None),
            other => other,
        }
    }

    /// Rows that each race of the pool keeps. A step makes no choice among them.
    fn pool_capacity(self, size: usize, dim: usize) -> usize {
        match self {
            Place::Step { .. } => size,
            _ => pool_capacity(size, dim),
        }
    }

    /// How near to the mode its reference is, as a squared decrement.
    fn near(self) -> f64 {
        if let Place::Step { .. } = self { NEAR_A_STEP } else { NEAR }
    }

    /// What steps add to the KL in all, in nats, after the one that `made` something of what had lost `was`. A step leaves what it
    /// misses to those after it, and the last answers for everything that was left.
    pub(crate) fn composed_kl(self, was: Option<f64>, made: &Provenance) -> Option<f64> {
        match self {
            Place::Step { .. } if made.method == Method::Calibrated => was,
            Place::Last(Some(_)) => was.and(made.step_kl()),
            _ => was.zip(made.step_kl()).map(|(was, added)| was + added),
        }
    }

    /// The mass of the other points.
    fn other_mass(self) -> f64 {
        self.rest().map_or(0.0, |rest| rest.weights().iter().sum())
    }
}

/// What is known of the full data near its mode.
struct Full {
    gaussian: Gaussian,
    prior_scale: f64,
    prior_precision: Vec<f64>,
    map: LocalMap,
    target: LocalSum,
}

/// The sum of local features, from the log-likelihood's gradient and Hessian.
fn target_of(map: &LocalMap, likelihood: &Curvature) -> LocalSum {
    let gradient: Vec<f64> = likelihood.gradient.iter().map(|g| -g).collect();
    let curvature = Mat::from_fn(map.dim(), map.dim(), |i, j| likelihood.entry(i, j));
    map.sum_of(&gradient, curvature.as_ref())
}

/// Some points and then others.
fn joined(first: &Points, then: &Points) -> Points {
    let mut all = first.clone();
    then.tiles().for_each(|tile| all.push_tile(&tile));
    all
}

/// The rows chosen from a pool.
struct Chosen {
    positions: Vec<u64>,
    points: Points,
    /// What is known of them; nothing of a step's.
    facts: Option<CalibrationFacts>,
}

impl Chosen {
    fn new(pool: &Pool, rows: &[usize], weights: &[f64], facts: Option<CalibrationFacts>) -> Chosen {
        let positions = rows.iter().map(|&p| pool.candidates[p].position).collect();
        Chosen { positions, points: pool_points(pool, rows, weights), facts }
    }
}

/// The rows of one of many steps: whatever they leave of the target is for the next, so they need not meet it.
fn choose_for_a_step(pool: &Pool, full: &Full, size: usize) -> Chosen {
    let calibrated = nudge(pool, &full.map, &full.target, size);
    Chosen::new(pool, &calibrated.rows, &calibrated.weights, None)
}

/// Of the pool the coreset's rows, and the weights nearest to the selection's that meet the target.
fn choose(pool: &Pool, full: &Full, size: usize, seed: Seed) -> Result<Chosen> {
    let calibrated = calibrate(pool, &full.map, &full.target, size, seed, &CalibrationSettings::default());
    let certify = |rows: &[usize], weights: &[f64], predicted: Option<f64>| {
        let points = pool_points(pool, rows, weights);
        Certificate::new(&points, &full.gaussian, &full.prior_precision, predicted)
    };
    let after = certify(&calibrated.rows, &calibrated.weights, Some(calibrated.predicted));

    // The guard: weights are kept only if they are better than the selection's own.
    let selected = pool.first(size);
    let reference: Vec<f64> = {
        let weights = pool.reference_weights(size);
        selected.iter().map(|&p| weights[p]).collect()
    };
    let before = certify(&selected, &reference, None);
    let (rows, weights, certificate, guard) = match (after, before) {
        (Ok(after), Ok(before)) if Guard::decide(&after, &before) == Guard::Reference => {
            (selected, reference, before, Guard::Reference)
        }
        (Ok(after), _) => (calibrated.rows, calibrated.weights, after, Guard::Calibrated),
        (Err(_), before) => (selected, reference, before?, Guard::Reference),
    };
    let facts = CalibrationFacts {
        certificate,
        guard,
        prior_scale: full.prior_scale,
        pool: pool.len(),
        rounds: calibrated.rounds,
    };
    Ok(Chosen::new(pool, &rows, &weights, Some(facts)))
}

/// The rows that the survey picked, weighted to stand for all.
fn pilot_points(learnt: &Learnt) -> Result<Points> {
    let mut points = picked_points(&learnt.encoding, &learnt.picks)?;
    let counts = points.weights();
    let each = learnt.mass / counts.iter().sum::<f64>();
    points.set_weights(&counts.iter().map(|count| count * each).collect::<Vec<_>>());
    Ok(points)
}

fn pool_points(pool: &Pool, rows: &[usize], weights: &[f64]) -> Points {
    let dim = pool.candidates.first().map_or(0, |candidate| candidate.z.len());
    let rows = rows.iter().zip(weights).map(|(&p, &weight)| (pool.candidates[p].z.as_slice(), weight));
    Points::from_rows(dim, rows)
}

/// What the first of the pool's two races goes by; the second goes by the size of the local features.
#[derive(Clone, Serialize, Deserialize)]
enum First<'a> {
    /// How much a row could matter anywhere in the ball.
    Sensitivity(Cow<'a, Bound>),
    /// How much a row tells of what few others do, the fourth power of `w(g² + h)‖u‖²`: what a step loses is lost for good, and a nearly
    /// separated level is known by the few rows on the wrong side, of large `g` and small `h`. The power makes their places
    /// certain.
    Leverage {
        /// The part's share of all mass.
        of_all: f64,
    },
}

impl First<'_> {
    fn shares_and_norms(&self, map: &LocalMap, tile: &Tile<'_>, room: &mut Room) -> (Lane, Lane) {
        let (norms, mut shares) = map.norms_and_leverages(tile, &mut room.directions);
        match self {
            First::Sensitivity(bound) => bound.shares(tile, &mut room.distances, &mut shares),
            First::Leverage { of_all } => {
                for (share, w) in shares.iter_mut().zip(tile.w.iter()) {
                    *share = (of_all * w * *share).min(MUCH_LEVERAGE).powi(4);
                }
            }
        }
        (shares, norms)
    }
}

/// Room for what is computed of a tile on the way to its shares and norms.
struct Room {
    directions: Vec<Lane>,
    distances: Distances,
}

impl Room {
    fn new(dim: usize) -> Room {
        Room { directions: vec![Lane::ZERO; dim], distances: Distances::default() }
    }
}

/// Estimates of `Σ s_n` and `Σ w_n‖F_n‖` from the pilot.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Totals {
    shares: f64,
    norms: f64,
}

impl Totals {
    fn of(pilot: &Points, first: &First<'_>, map: &LocalMap) -> Totals {
        let mut room = Room::new(map.dim());
        let mut totals = Totals { shares: 0.0, norms: 0.0 };
        for tile in pilot.tiles() {
            // Rows of the data weigh one on average here; the pilot's weight says how many each stands for.
            let ones = Tile { w: &Lane::of(1.0), ..tile };
            let (shares, norms) = first.shares_and_norms(map, &ones, &mut room);
            for r in 0..tile.len {
                totals.shares += tile.w[r] * shares[r];
                totals.norms += tile.w[r] * norms[r];
            }
        }
        totals
    }
}

/// The pass that races the rows for a place in the pool.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pooling<'a> {
    encoding: Cow<'a, Encoding>,
    first: First<'a>,
    map: Cow<'a, LocalMap>,
    capacity: usize,
    totals: Totals,
    seed: Seed,
}

/// What the pass found, for some blocks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pooled {
    race: Race,
    /// The rows in the race as the user has them, in order; some of them may have been beaten since.
    rows: Vec<RowSet>,
    /// `Σ s_n`.
    shares: f64,
}

impl Pooled {
    /// The rows in the race, without those that have been beaten.
    fn take_rows(&mut self) -> RowSet {
        let running = self.race.positions();
        let parts = std::mem::take(&mut self.rows).into_iter();
        RowSet::concat(parts.map(|part| part.take(&places_in(&part.positions, &running))).collect())
    }
}

pub(crate) struct PoolingWorker {
    scratch: Scratch,
    room: Room,
}

impl Pass for Pooling<'_> {
    const ID: &'static str = "pool";
    const LABEL: &'static str = "selecting candidates";
    type State = Pooled;
    type Worker = PoolingWorker;

    fn worker(&self) -> PoolingWorker {
        let dim = self.encoding.dim();
        PoolingWorker { scratch: Scratch::new(dim), room: Room::new(dim) }
    }

    fn visit(&self, worker: &mut PoolingWorker, block: &Block) -> Result<Pooled> {
        let encoder = self.encoding.encoder(block)?;
        let mut race = Race::with_totals(self.capacity, self.totals.shares, self.totals.norms);
        let mut rng = self.seed.stream(Purpose::Pool, block.stream);
        let mut total = 0.0;
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, &mut worker.scratch);
            let (shares, norms) = self.first.shares_and_norms(&self.map, &tile, &mut worker.room);
            race.enter(&tile, &shares, &norms, |r| block.position(t * TILE + r), &mut rng);
            total += shares.iter().sum::<f64>();
        }
        let rows: Vec<usize> =
            race.positions().into_iter().filter_map(|position| block.find(position)).collect();
        let rows = if rows.is_empty() { Vec::new() } else { vec![RowSet::copy(block, &rows)] };
        Ok(Pooled { race, rows, shares: total })
    }

    fn merge(&self, state: &mut Pooled, next: Pooled) {
        state.race.merge(next.race);
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
        state.rows.iter_mut().for_each(|rows| rows.relocate(place));
    }
}

/// The pass that sets out: the groups of the rows, and the first look at the likelihood, in one reading.
#[derive(Serialize, Deserialize)]
pub(crate) struct Outset<'a> {
    grouping: Grouping<'a>,
    look: Looking<'a>,
}

impl<'a> Pass for Outset<'a> {
    const ID: &'static str = "cluster-sums-and-newton";
    const LABEL: &'static str = "assigning rows to clusters, and a Newton step";
    type State = (<Grouping<'a> as Pass>::State, <Looking<'a> as Pass>::State);
    type Worker = (<Grouping<'a> as Pass>::Worker, <Looking<'a> as Pass>::Worker);

    fn worker(&self) -> Self::Worker {
        (self.grouping.worker(), self.look.worker())
    }

    fn visit(&self, (grouping, look): &mut Self::Worker, block: &Block) -> Result<Self::State> {
        Ok((self.grouping.visit(grouping, block)?, self.look.visit(look, block)?))
    }

    fn merge(&self, state: &mut Self::State, next: Self::State) {
        self.grouping.merge(&mut state.0, next.0);
        self.look.merge(&mut state.1, next.1);
    }

    fn relocate(&self, state: &mut Self::State, place: &dyn Fn(u64) -> u64) {
        self.grouping.relocate(&mut state.0, place);
        self.look.relocate(&mut state.1, place);
    }
}

#[cfg(test)]
mod tests {
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
            features: vec![Feature {
                column: "x".into(),
                coding: Coding::Number { center: 0.0, scale: 1.0 },
            }],
            unseen: Unseen::Error,
        };
        let pooling = Pooling {
            encoding: Cow::Borrowed(&encoding),
            first: First::Leverage { of_all: 1.0 },
            map: Cow::Owned(LocalMap::new(vec![0.0], Mat::<f64>::identity(1, 1).as_ref()).expect("a map")),
            capacity: 5,
            totals: Totals { shares: 0.0, norms: 0.0 },
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
