//! The driver of calibration: from sensitivity bounds to weights whose posterior is practically the full data's.

use std::borrow::Cow;

use faer::Mat;
use serde::{Deserialize, Serialize};

use crate::block::{Block, RowSet};
use crate::build::{
    Bounded, BuildSettings, Clock, Selected, exact_coreset, picked_points, run, sensitivity_bounds,
};
use crate::calibration::certificate::{Certificate, Gaussian, Guard};
use crate::calibration::features::{LocalMap, LocalSum};
use crate::calibration::pool::{Pool, Race};
use crate::calibration::{CalibrationSettings, calibrate, pool_capacity};
use crate::collapse::Distinct;
use crate::coreset::{CalibrationFacts, points};
use crate::encoding::{Encoding, Scratch};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::model::likelihood::Curvature;
use crate::newton::{Pilot, full_curvature, full_mode};
use crate::pass::Pass;
use crate::points::{Lane, Points, TILE};
use crate::rng::{Purpose, Seed};
use crate::selection::Size;
use crate::sensitivity::Bound;
use crate::survey::Learnt;

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
    let Bounded { bound, mut facts, mut distinct } = sensitivity_bounds(engine, learnt, settings, clock)?;
    let fits = |distinct: &Option<Distinct>, size: usize| matches!(distinct, Some(Distinct::Rows(rows)) if rows.mass.len() <= size);
    let few = if fits(&distinct, size) { distinct.take() } else { None };
    if let Some(exact) = exact_coreset(engine, learnt, settings, size as u64, few, &facts, clock)? {
        return Ok(exact);
    }

    // The full data's mode, from that of the rows which the survey picked.
    let prior_precision = vec![settings.prior_scale.powi(-2); encoding.dim()];
    let pilot = pilot_points(learnt)?;
    let rest = if let Place::Beside(rest) = place { Some(rest) } else { None };
    let all = rest.map(|rest| joined(&pilot, rest));
    let for_all = Pilot::Random(all.as_ref().unwrap_or(&pilot));
    let mode = full_mode(engine, encoding, rest, &prior_precision, for_all, settings.seed)?;
    clock.lap("mode");

    // The target b: the local features of all rows, which the last Newton pass has summed already.
    let (map, target) = match place {
        Place::Alone => {
            let map = LocalMap::new(mode.theta, mode.precision.as_ref())?;
            let target = target_of(&map, &mode.likelihood);
            (map, target)
        }
        // The shape of the whole posterior, the size of the part's: features are then as large as they would be alone.
        Place::Beside(rest) => {
            let share = learnt.mass / (learnt.mass + place.other_mass());
            let map = LocalMap::new(mode.theta, (&mode.precision * share).as_ref())?;
            let others = target_of(&map, &Curvature::of_points(rest, map.theta()));
            let target = target_of(&map, &mode.likelihood).minus(&others);
            (map, target)
        }
        Place::At(theta) => {
            let map = LocalMap::new(theta.to_vec(), mode.precision.as_ref())?;
            let target = target_of(&map, &full_curvature(engine, encoding, theta)?);
            (map, target)
        }
    };
    let totals = Totals::of(&pilot, &bound, &map);
    let full = Full {
        gaussian: Gaussian { mean: mode.mode, precision: mode.precision },
        prior_precision,
        map,
        target,
        rest,
    };

    let (pool, chosen) = loop {
        // Candidates: the winners of one race by sensitivity and of one by the size of the local features.
        let capacity = place.pool_capacity(size, encoding.dim());
        let pooling = Pooling {
            encoding: Cow::Borrowed(encoding),
            bound: Cow::Borrowed(&bound),
            map: Cow::Borrowed(&full.map),
            capacity,
            totals,
            seed: settings.seed,
        };
        let pooled = run(engine, &pooling)?;
        facts.mean_bound = Some(pooled.shares);
        let pool = pooled.race.finish();
        clock.lap("selection");
        let chosen = choose(&pool, &full, size, settings.seed, &place.calibration())?;
        clock.lap("calibration");
        if settings.size == Size::Rows(size) || chosen.certificate.meets(target_kl) {
            break (pool, chosen);
        }
        if size >= most {
            return Err(not_met(target_kl, size, &chosen.certificate));
        }
        size = (2 * size).min(most);
        if fits(&distinct, size)
            && let Some(exact) =
                exact_coreset(engine, learnt, settings, size as u64, distinct.take(), &facts, clock)?
        {
            return Ok(exact);
        }
    };

    // The chosen rows in the user's own units.
    let rows = RowSet::concat(run(engine, &Fetching { positions: (&chosen.positions).into() })?);
    check_places(encoding, &pool, &rows)?;
    clock.lap("rows");
    let calibration = CalibrationFacts {
        certificate: chosen.certificate,
        guard: chosen.guard,
        prior_scale: settings.prior_scale,
        pool: chosen.pool,
        rounds: chosen.rounds,
    };
    Ok(Selected {
        rows,
        weights: chosen.weights,
        draws: size as u64,
        exact: false,
        facts: Some(facts),
        calibration: Some(calibration),
        warning: None,
    })
}

/// Refuses rows that are not what stood at their places when they were chosen.
fn check_places(encoding: &Encoding, pool: &Pool, rows: &RowSet) -> Result<()> {
    let points = points(encoding, rows)?;
    let mut z = vec![0.0; encoding.dim()];
    let places = points.tiles().flat_map(|tile| (0..tile.len).map(move |r| (tile, r)));
    for ((tile, r), position) in places.zip(&rows.positions) {
        tile.copy_row(r, &mut z);
        let at = pool.candidates.partition_point(|candidate| candidate.position < *position);
        if pool.candidates.get(at).is_none_or(|candidate| candidate.z != z) {
            return Err(ErrorKind::Changed { what: format!("another row stands at {}", position + 1) }.into());
        }
    }
    Ok(())
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
    /// They are a part of something larger, of which these are the other points.
    Beside(&'a Points),
    /// The reference point is given.
    At(&'a [f64]),
}

impl Place<'_> {
    /// Rows that each race of the pool keeps. A part is one of many, whose errors are its own: it needs less choice.
    fn pool_capacity(self, size: usize, dim: usize) -> usize {
        match self {
            Place::Beside(_) => pool_capacity(size, dim).min(3 * size),
            Place::Alone | Place::At(_) => pool_capacity(size, dim),
        }
    }

    /// How hard to try, for the same reason.
    fn calibration(self) -> CalibrationSettings {
        match self {
            Place::Beside(_) => {
                CalibrationSettings { tolerance: 1e-5, rounds: 3, ..CalibrationSettings::default() }
            }
            Place::Alone | Place::At(_) => CalibrationSettings::default(),
        }
    }

    /// The mass of the other points.
    pub(crate) fn other_mass(self) -> f64 {
        match self {
            Place::Beside(rest) => rest.weights().iter().sum(),
            Place::Alone | Place::At(_) => 0.0,
        }
    }
}

/// What is known of the full data near its mode.
struct Full<'a> {
    gaussian: Gaussian,
    prior_precision: Vec<f64>,
    map: LocalMap,
    target: LocalSum,
    rest: Option<&'a Points>,
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
    weights: Vec<f64>,
    certificate: Certificate,
    guard: Guard,
    pool: usize,
    rounds: usize,
}

/// Of the pool the coreset's rows, and the weights nearest to the selection's that meet the target.
fn choose(
    pool: &Pool,
    full: &Full<'_>,
    size: usize,
    seed: Seed,
    settings: &CalibrationSettings,
) -> Result<Chosen> {
    let calibrated = calibrate(pool, &full.map, &full.target, size, seed, settings);
    let certify = |rows: &[usize], weights: &[f64], predicted: Option<f64>| {
        let mut points = pool_points(pool, rows, weights);
        if let Some(rest) = full.rest {
            points = joined(rest, &points);
        }
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
    let positions = rows.iter().map(|&p| pool.candidates[p].position).collect();
    Ok(Chosen { positions, weights, certificate, guard, pool: pool.len(), rounds: calibrated.rounds })
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

/// Estimates of `Σ s_n` and `Σ w_n‖F_n‖` from the pilot.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Totals {
    shares: f64,
    norms: f64,
}

impl Totals {
    fn of(pilot: &Points, bound: &Bound, map: &LocalMap) -> Totals {
        let mut directions = vec![Lane::ZERO; map.dim()];
        let mut totals = Totals { shares: 0.0, norms: 0.0 };
        for tile in pilot.tiles() {
            let mut shares: Lane = Lane::ZERO;
            // Rows of the data weigh one on average here; the pilot's weight says how many each stands for.
            let ones = crate::points::Tile { w: &Lane::of(1.0), ..tile };
            bound.shares(&ones, &mut shares);
            let norms = map.norms(&tile, &mut directions);
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
    bound: Cow<'a, Bound>,
    map: Cow<'a, LocalMap>,
    capacity: usize,
    totals: Totals,
    seed: Seed,
}

/// What the pass found, for some blocks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pooled {
    race: Race,
    /// `Σ s_n`.
    shares: f64,
}

pub(crate) struct PoolingWorker {
    scratch: Scratch,
    directions: Vec<Lane>,
}

impl Pass for Pooling<'_> {
    const NAME: &'static str = "selecting candidates";
    type State = Pooled;
    type Worker = PoolingWorker;

    fn worker(&self) -> PoolingWorker {
        PoolingWorker {
            scratch: Scratch::new(self.encoding.dim()),
            directions: vec![Lane::ZERO; self.encoding.dim()],
        }
    }

    fn visit(&self, worker: &mut PoolingWorker, block: &Block) -> Result<Pooled> {
        let encoder = self.encoding.encoder(block)?;
        let mut race = Race::with_totals(self.capacity, self.totals.shares, self.totals.norms);
        let mut rng = self.seed.stream(Purpose::Pool, block.stream);
        let (mut shares, mut total) = (Lane::ZERO, 0.0);
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, &mut worker.scratch);
            self.bound.shares(&tile, &mut shares);
            let norms = self.map.norms(&tile, &mut worker.directions);
            race.enter(&tile, &shares, &norms, |r| block.position(t * TILE + r), &mut rng);
            total += shares.iter().sum::<f64>();
        }
        Ok(Pooled { race, shares: total })
    }

    fn merge(&self, state: &mut Pooled, next: Pooled) {
        state.race.merge(next.race);
        state.shares += next.shares;
    }

    fn relocate(&self, state: &mut Pooled, place: &dyn Fn(u64) -> u64) {
        state.race.relocate(place);
    }
}

/// The pass that brings rows by their positions, which ascend.
#[derive(Serialize, Deserialize)]
pub(crate) struct Fetching<'a> {
    positions: Cow<'a, [u64]>,
}

impl Pass for Fetching<'_> {
    const NAME: &'static str = "fetching the rows";
    type State = Vec<RowSet>;
    type Worker = ();

    fn worker(&self) {}

    fn visit(&self, _worker: &mut (), block: &Block) -> Result<Vec<RowSet>> {
        if block.len == 0 {
            return Ok(Vec::new());
        }
        let (first, last) = (block.position(0), block.position(block.len - 1));
        let start = self.positions.partition_point(|&position| position < first);
        let end = self.positions.partition_point(|&position| position <= last);
        let rows: Vec<usize> =
            self.positions[start..end].iter().filter_map(|&position| block.find(position)).collect();
        Ok(if rows.is_empty() { Vec::new() } else { vec![RowSet::copy(block, &rows)] })
    }

    fn merge(&self, state: &mut Vec<RowSet>, next: Vec<RowSet>) {
        state.extend(next);
    }

    fn relocate(&self, state: &mut Vec<RowSet>, place: &dyn Fn(u64) -> u64) {
        state.iter_mut().for_each(|rows| rows.relocate(place));
    }
}
