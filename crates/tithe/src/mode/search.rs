//! The full data's posterior mode: every look at the likelihood is one pass, so a few rows serve as guides that save most of
//! them.
//!
//! With their weights they make a likelihood `L̃`, and corrected to the full data's gradient and Hessian at the last look `θ_k`,
//! `L̃(θ) + (∇L − ∇L̃)(θ − θ_k) + ½(θ − θ_k)ᵀ(∇²L − ∇²L̃)(θ − θ_k)`,
//! one whose mode is the next place to look: second order exact, all higher orders from the guides (compare the surrogate
//! likelihood of Jordan, Lee and Yang 2019).
//!
//! The first guides are the pilot, whose mode the search sets out from: a step with it leaves about a tenth of what Newton's would.
//! But a pilot chosen at random knows next to nothing of rare levels: its mode is then hundreds of standard deviations off, and
//! nearly separated coefficients go on by one unit of `z·θ` a Newton step. Then a look also keeps the rows that matter most
//! where the pilot is blind, and these are the guides.

use std::borrow::Cow;

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::rng::{Purpose, Seed};
use crate::data::block::Block;
use crate::data::points::{Lane, Points, TILE, Tile};
use crate::encoding::{Encoding, Scratch};
use crate::engine::Engine;
use crate::engine::pass::Pass;
use crate::model::likelihood::{Curvature, CurvatureSums};
use crate::model::local_features::{LocalMap, slope_and_curvature};
use crate::model::newton::{EXACT, Likelihood, Mode, mode, mode_from_afar};
use crate::model::quadratic::{Quadratic, add_ridge};
use crate::model::{Prior, Priors};
use crate::reservoir::pool::Race;

/// The squared decrement at which the full data's mode is near enough. A nearly separated coefficient's curvature changes
/// over a thousandth of its standard deviation, and a certificate compares curvatures: hence so near.
pub(crate) const NEAR: f64 = 1e-12;
/// So it is where the curvature should change by no more than this share of itself on the rest of the way: the certificate's KL
/// feels the square of it.
const STEADY: f64 = 1e-6;
/// Beyond this squared decrement for each coefficient the correction must leave the guides' likelihood concave.
const FAR: f64 = 1.0;
/// The prior of a pilot, for a start: the standard deviation of what the largest value of a column adds to `z·θ`.
const CAUTION: f64 = 1.0;
/// A corrected likelihood need not have a mode; where it has one, a search needs fewer steps than this.
const GUESSING_STEPS: usize = 30;
/// The same for what a search over guides finds: it is only a place to look next.
const GUESSED: f64 = 1e-14;
/// A step that leaves this much of the squared decrement calls for guides, unless the mode is as near as `WORTH_GUIDES`.
const SLOW: f64 = 0.1;
const WORTH_GUIDES: f64 = 1e-3;
/// So does a pilot whose mode is this many times as far away as a random choice of rows lets expect.
const POOR: f64 = 10.0;
/// A pilot is small beside data of so many times its rows: a few searches that it guides cost less than the look at all rows that they
/// save, unless these are in memory and many cores look at them.
const SMALL: u64 = 32;
/// Guides take no more than so many numbers.
const MOST_NUMBERS: usize = 1 << 24;
/// A pilot is blind where one of its rows, or the prior, has more than this share in what is known of a direction.
const BLIND: f64 = 0.1;

/// What a search for the full data's mode sets out from: a few weighted points that stand for all.
#[derive(Clone, Copy)]
pub(crate) enum Pilot<'a> {
    /// Chosen without a look at what matters: what they seem to say of rare levels is taken with caution.
    Random(&'a Points),
    /// A coreset whose own mode should be near.
    Calibrated(&'a Points),
}

/// A search for the mode of all rows, and of the points of a `rest` that is not among them: where to look first is known.
pub(crate) struct Search<'a> {
    encoding: &'a Encoding,
    rest: Option<&'a Points>,
    priors: Priors,
    start: Vec<f64>,
    guiding: Guiding<'a>,
}

impl<'a> Search<'a> {
    /// Sets out from a pilot for all rows and the rest, so many together.
    pub fn new(
        encoding: &'a Encoding,
        rest: Option<&'a Points>,
        prior_precision: &[f64],
        pilot: Pilot<'a>,
        rows: u64,
        seed: Seed,
    ) -> Result<Search<'a>> {
        let (pilot, precision) = match pilot {
            Pilot::Random(points) => (points, cautious(points, prior_precision)),
            Pilot::Calibrated(points) => (points, prior_precision.to_vec()),
        };
        let start = mode_of_points(pilot, &precision, vec![0.0; pilot.dim()])?;
        let guides = Guides::new(pilot, prior_precision, seed)?;
        let guiding = if is_blind(pilot, &start, prior_precision)? {
            Guiding::Wanted(guides)
        } else {
            // A random pilot of n rows is about D/n of the rows' mass away from the mode.
            let each = pilot.weights().iter().sum::<f64>() / pilot.len().max(1) as f64;
            let last = POOR / SLOW * each * pilot.dim() as f64;
            let is_small = SMALL * pilot.len() as u64 <= rows;
            Guiding::Ready { guides, last, pilot: is_small.then_some(pilot) }
        };
        Ok(Search { encoding, rest, priors: normal(prior_precision), start: start.mode, guiding })
    }

    /// The first look, for a pass that takes it along.
    pub fn first_look(&self) -> Looking<'_> {
        Looking::new(self.encoding, &self.start, &self.guiding)
    }

    /// The mode; `first` is what the first look saw, where another pass has taken it along.
    pub fn mode(self, engine: &impl Engine, first: Option<Look>) -> Result<Mode> {
        let (rest, guiding) = (self.rest, self.guiding);
        let mut data =
            FullData { guiding, rest, first, ..FullData::new(engine, self.encoding, &self.priors) };
        mode(&mut data, &self.priors, self.start, NEAR)
    }
}

/// Finds the mode of all rows, of the points of a `rest`, and of the `remainder` that neither speaks of, from where that was
/// last known.
pub(crate) fn mode_beside(
    engine: &impl Engine,
    encoding: &Encoding,
    rest: Option<&Points>,
    remainder: &Quadratic,
    prior_precision: &[f64],
    near: f64,
) -> Result<Mode> {
    let priors = normal(prior_precision);
    let mut data = FullData { rest, remainder: Some(remainder), ..FullData::new(engine, encoding, &priors) };
    mode(&mut data, &priors, remainder.theta.clone(), near)
}

/// Value, gradient and Hessian of all rows' log-likelihood at a parameter.
pub(crate) fn full_curvature(engine: &impl Engine, encoding: &Encoding, theta: &[f64]) -> Result<Curvature> {
    let look = engine.run(&Looking::new(encoding, theta, &Guiding::No))?;
    Ok(look.map_or_else(|| Curvature::new(theta.len()), |look| look.curvature))
}

/// Finds the full data's mode under any priors, and tells whether the rows are separated.
pub(crate) fn full_mode_from_afar(
    engine: &impl Engine,
    encoding: &Encoding,
    priors: &Priors,
) -> Result<(Mode, bool)> {
    let mut data = FullData { margins: true, ..FullData::new(engine, encoding, priors) };
    let mode = mode_from_afar(&mut data, priors, NEAR)?;
    Ok((mode, data.separated))
}

/// Finds the mode of a few points, to the last digits.
pub(crate) fn mode_of_points(mut points: &Points, prior_precision: &[f64], start: Vec<f64>) -> Result<Mode> {
    mode(&mut points, &normal(prior_precision), start, EXACT)
}

/// A prior's precision, and where that is more one by which no value of a column adds much to `z·θ`: a few rows that seem
/// separated are no reason to start far out.
fn cautious(pilot: &Points, prior_precision: &[f64]) -> Vec<f64> {
    let mut precision = prior_precision.to_vec();
    for tile in pilot.tiles() {
        for (precision, lane) in precision.iter_mut().zip(tile.z) {
            let largest = lane.iter().fold(0.0, |largest: f64, z| largest.max(z.abs()));
            *precision = precision.max((largest / CAUTION).powi(2));
        }
    }
    precision
}

fn normal(precision: &[f64]) -> Priors {
    Priors { coefficients: precision.iter().map(|p| Prior::Normal { scale: p.sqrt().recip() }).collect() }
}

/// The pass: value, gradient and Hessian of the log-likelihood at one parameter, and what else is asked for.
#[derive(Serialize, Deserialize)]
pub(crate) struct Looking<'a> {
    encoding: Cow<'a, Encoding>,
    theta: Cow<'a, [f64]>,
    margins: bool,
    guides: Option<Cow<'a, Guides>>,
}

/// What the pass saw, for some blocks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Look {
    curvature: Curvature,
    least_weight: f64,
    least_margin: f64,
    race: Option<Race>,
}

impl<'a> Looking<'a> {
    fn new(encoding: &'a Encoding, theta: &'a [f64], guiding: &'a Guiding<'_>) -> Looking<'a> {
        let guides = match guiding {
            Guiding::Wanted(guides) => Some(Cow::Borrowed(guides)),
            _ => None,
        };
        Looking { encoding: Cow::Borrowed(encoding), theta: theta.into(), margins: false, guides }
    }
}

impl Look {
    fn new(dim: usize) -> Look {
        let least = f64::INFINITY;
        Look { curvature: Curvature::new(dim), least_weight: least, least_margin: least, race: None }
    }
}

impl Pass for Looking<'_> {
    const ID: &'static str = "newton";
    const LABEL: &'static str = "Newton step";
    type State = Look;
    type Worker = (Scratch, Vec<Lane>);

    fn worker(&self) -> (Scratch, Vec<Lane>) {
        (Scratch::new(self.encoding.dim()), vec![Lane::ZERO; self.encoding.dim()])
    }

    fn visit(&self, (scratch, directions): &mut (Scratch, Vec<Lane>), block: &Block) -> Result<Look> {
        let encoder = self.encoding.encoder(block)?;
        let mut look = Look::new(self.encoding.dim());
        let mut sums = CurvatureSums::new(self.encoding.dim());
        look.race = self.guides.as_deref().map(Guides::race);
        let mut rng = self.guides.as_deref().map(|guides| guides.seed.stream(Purpose::Guides, block.stream));
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, scratch);
            sums.add_tile(&tile, &self.theta);
            if let (Some(guides), Some(race), Some(rng)) = (self.guides.as_deref(), &mut look.race, &mut rng)
            {
                let norms = guides.map.norms(&tile, directions);
                let mut leverages = norms;
                leverages.iter_mut().zip(tile.w.iter()).for_each(|(norm, w)| *norm = w * norm.powi(2));
                race.enter(&tile, &leverages, &norms, |r| block.position(t * TILE + r), rng);
            }
            if self.margins {
                look.least_margin = look.least_margin.min(least_margin(&tile, &self.theta));
                look.least_weight = tile.w[..tile.len].iter().copied().fold(look.least_weight, f64::min);
            }
        }
        look.curvature = sums.finish();
        Ok(look)
    }

    fn merge(&self, look: &mut Look, next: Look) {
        look.curvature.merge(&next.curvature);
        look.least_weight = look.least_weight.min(next.least_weight);
        look.least_margin = look.least_margin.min(next.least_margin);
        if let (Some(race), Some(next)) = (&mut look.race, next.race) {
            race.merge(next);
        }
    }

    fn relocate(&self, look: &mut Look, place: &dyn Fn(u64) -> u64) {
        if let Some(race) = &mut look.race {
            race.relocate(place);
        }
    }
}

/// The least `z·θ` of a tile's rows: positive if `θ` puts all of them on the right side.
pub(crate) fn least_margin(tile: &Tile<'_>, theta: &[f64]) -> f64 {
    let mut margins = Lane::ZERO;
    for (z, theta) in tile.z.iter().zip(theta) {
        for (margin, z) in margins.iter_mut().zip(z.iter()) {
            *margin += z * theta;
        }
    }
    margins[..tile.len].iter().copied().fold(f64::INFINITY, f64::min)
}

/// How rows become guides: half of them raced by their leverage in the pilot's eyes, `‖F‖² ≈ ‖u‖²/8`, which is enormous where
/// it is blind; half by `‖F‖`, so that the many others are well spoken for.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Guides {
    map: LocalMap,
    capacity: usize,
    /// `Σ w‖F‖²` and `Σ w‖F‖` of all rows, roughly.
    leverages: f64,
    norms: f64,
    seed: Seed,
}

/// Whether a pilot's mode is worth little somewhere: one row, or the prior, has a large share in what is known of a direction.
fn is_blind(pilot: &Points, start: &Mode, prior_precision: &[f64]) -> Result<bool> {
    let dim = pilot.dim();
    let features = LocalMap::new(start.theta.clone(), start.precision.as_ref())?.features(pilot);
    let by_a_row = features.leverages().iter().zip(pilot.weights()).any(|(share, w)| share * w > BLIND);
    let by_the_prior = start.precision.llt(Side::Lower).is_ok_and(|factor| {
        let covariance = factor.solve(Mat::<f64>::identity(dim, dim));
        (0..dim).any(|i| covariance[(i, i)] * prior_precision[i] > BLIND)
    });
    Ok(by_a_row || by_the_prior)
}

impl Guides {
    /// The map is that at 0, where rows matter whatever their label is: near a mode, those of nearly separated levels
    /// hardly do.
    fn new(pilot: &Points, prior_precision: &[f64], seed: Seed) -> Result<Guides> {
        let dim = pilot.dim();
        let origin = Curvature::of_points(pilot, &vec![0.0; dim]);
        let precision =
            Mat::from_fn(dim, dim, |i, j| origin.entry(i, j) + if i == j { prior_precision[i] } else { 0.0 });
        let map = LocalMap::new(vec![0.0; dim], precision.as_ref())?;
        let squares = map.features(pilot).norms_squared();
        let weights = pilot.weights();
        let leverages = squares.iter().zip(&weights).map(|(square, w)| w * square).sum();
        let norms = squares.iter().zip(&weights).map(|(square, w)| w * square.sqrt()).sum();
        let capacity = (20 * dim).max(3000).min((MOST_NUMBERS / dim.max(1)).max(1000));
        Ok(Guides { map, capacity, leverages, norms, seed })
    }

    fn race(&self) -> Race {
        Race::with_totals(self.capacity, self.leverages, self.norms)
    }
}

/// The rows that won a race, with the weights that make them stand for all.
fn guides_of(race: Race) -> Points {
    let pool = race.finish();
    let mut points = pool.points();
    points.set_weights(&pool.reference_weights(pool.len()));
    points
}

/// Guides on their way.
enum Guiding<'a> {
    /// Nobody asks for any.
    No,
    /// They will be looked for once the search goes slowly, or the pilot turns out to be poor: a squared decrement that has not
    /// fallen much below the `last`. Until then a pilot that is small beside the data guides.
    Ready { guides: Guides, last: f64, pilot: Option<&'a Points> },
    /// The next look should find them.
    Wanted(Guides),
    /// They are there.
    Found(Points),
}

/// All rows of an engine.
struct FullData<'a, E> {
    engine: &'a E,
    encoding: &'a Encoding,
    priors: &'a Priors,
    /// Whether margins and weights are looked at.
    margins: bool,
    least_weight: f64,
    separated: bool,
    /// Points that count beside the rows.
    rest: Option<&'a Points>,
    /// What counts beside both.
    remainder: Option<&'a Quadratic>,
    /// What the first look saw, where another pass has taken it along.
    first: Option<Look>,
    guiding: Guiding<'a>,
}

impl<'a, E: Engine> FullData<'a, E> {
    fn new(engine: &'a E, encoding: &'a Encoding, priors: &'a Priors) -> FullData<'a, E> {
        FullData {
            engine,
            encoding,
            priors,
            margins: false,
            least_weight: 0.0,
            separated: false,
            rest: None,
            remainder: None,
            first: None,
            guiding: Guiding::No,
        }
    }
}

impl<E: Engine> Likelihood for FullData<'_, E> {
    fn look(&mut self, theta: &[f64]) -> Result<Curvature> {
        let taken_along = self.first.take();
        let run = || {
            let looking = Looking::new(self.encoding, theta, &self.guiding);
            self.engine.run(&Looking { margins: self.margins, ..looking })
        };
        let look = taken_along.map_or_else(run, |look| Ok(Some(look)))?;
        let mut look = look.unwrap_or_else(|| Look::new(theta.len()));
        if self.margins {
            self.least_weight = look.least_weight;
            self.separated |= look.least_margin > 0.0;
        }
        if let Some(race) = look.race {
            let mut guides = guides_of(race);
            self.rest.iter().flat_map(|rest| rest.tiles()).for_each(|tile| guides.push_tile(&tile));
            self.guiding = Guiding::Found(guides);
        }
        if let Some(rest) = self.rest {
            look.curvature.merge(&Curvature::of_points(rest, theta));
        }
        if let Some(remainder) = self.remainder {
            look.curvature.merge(&remainder.at(theta));
        }
        Ok(look.curvature)
    }

    fn least_weight(&self) -> f64 {
        self.least_weight
    }

    fn steady(&self) -> f64 {
        STEADY
    }

    fn discourage(&mut self) {
        if let Guiding::Ready { pilot, .. } = &mut self.guiding {
            *pilot = None;
        }
    }

    fn guess(&mut self, theta: &[f64], seen: &Curvature, decrement: f64) -> Option<Vec<f64>> {
        self.guiding = match std::mem::replace(&mut self.guiding, Guiding::No) {
            Guiding::Ready { guides, last, .. } if decrement > SLOW * last && decrement > WORTH_GUIDES => {
                Guiding::Wanted(guides)
            }
            Guiding::Ready { guides, pilot, .. } => Guiding::Ready { guides, pilot, last: decrement },
            other => other,
        };
        let search = |mut guided: Guided<'_>| {
            mode(&mut guided, self.priors, theta.to_vec(), GUESSED).ok().map(|mode| mode.mode)
        };
        match &self.guiding {
            Guiding::Ready { pilot: Some(pilot), .. } => {
                search(Guided::new(Cow::Borrowed(pilot), theta, seen))
            }
            Guiding::Found(guides) => {
                let guided = || Some(Guided::new(Cow::Owned(reweighed(guides, theta, seen)?), theta, seen));
                let near = if decrement <= FAR * theta.len() as f64 { search(guided()?) } else { None };
                near.or_else(|| search(guided()?.concave()?))
            }
            _ => None,
        }
    }
}

/// The guides' log-likelihood, corrected to the full data's gradient and Hessian at one parameter.
struct Guided<'a> {
    guides: Cow<'a, Points>,
    /// Their own sums there.
    own: Curvature,
    /// What these lack.
    lacking: Quadratic,
    most_steps: usize,
}

impl<'a> Guided<'a> {
    fn new(guides: Cow<'a, Points>, theta: &[f64], seen: &Curvature) -> Guided<'a> {
        let own = Curvature::of_points(&guides, theta);
        let curvature = Curvature { value: 0.0, misfit: 0.0, ..seen.minus(&own) };
        let lacking = Quadratic { theta: theta.to_vec(), curvature };
        Guided { guides, own, lacking, most_steps: GUESSING_STEPS }
    }

    /// Of the Hessian that the guides lack, keeps what adds curvature: where they have too much of it, they keep it.
    fn concave(self) -> Option<Guided<'a>> {
        let lacking = self.lacking.concave_beside(&self.own)?;
        // There is a mode now, however far it is.
        Some(Guided { lacking, most_steps: 10 * GUESSING_STEPS, ..self })
    }
}

/// The guides with weights changed as little as gives them the full data's gradient. The likelihood of a nearly separated
/// level is `Σ w e^{−s}`, so its gradient tells how much it weighs at any distance, as no correction by a polynomial could.
fn reweighed(guides: &Points, theta: &[f64], seen: &Curvature) -> Option<Points> {
    let dim = theta.len();
    let weights = guides.weights();
    // Columns √w σ z, so that the change of the gradient by a tilt λ, Σ w σ² z zᵀ λ, is a product.
    let mut pulls = Mat::zeros(dim, weights.len());
    let mut lacking = Mat::from_fn(dim, 1, |i, _| seen.gradient[i]);
    for (m, weight) in weights.iter().enumerate() {
        let z = guides.row(m);
        let margin: f64 = z.iter().zip(theta).map(|(z, theta)| z * theta).sum();
        let pull = -slope_and_curvature(margin).0;
        for i in 0..dim {
            pulls[(i, m)] = weight.sqrt() * pull * z[i];
            lacking[(i, 0)] -= weight * pull * z[i];
        }
    }
    let mut system = &pulls * pulls.transpose();
    add_ridge(&mut system);
    let tilt = system.llt(Side::Lower).ok()?.solve(lacking);
    let changes = pulls.transpose() * tilt;
    let new =
        weights.iter().enumerate().map(|(m, w)| w * (1.0 + changes[(m, 0)] / w.sqrt()).clamp(0.1, 10.0));
    let mut guides = guides.clone();
    guides.set_weights(&new.collect::<Vec<_>>());
    Some(guides)
}

impl Likelihood for Guided<'_> {
    fn look(&mut self, theta: &[f64]) -> Result<Curvature> {
        let mut look = Curvature::of_points(&self.guides, theta);
        look.merge(&self.lacking.at(theta));
        Ok(look)
    }

    fn least_weight(&self) -> f64 {
        0.0
    }

    fn most_steps(&self) -> usize {
        self.most_steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::progress::Silent;
    use crate::coreset::points;
    use crate::coreset::selection::Keeping;
    use crate::data::block::RowSet;
    use crate::data::generate::Recipe;
    use crate::data::source::memory::Columns;
    use crate::data::table::{Roles, Table};
    use crate::encoding::survey::{EncodingSettings, survey};
    use crate::engine::{EngineSettings, LocalEngine};

    #[test]
    fn the_mode_has_no_gradient_even_from_afar() {
        let rows: Vec<([f64; 2], f64)> = (0..500)
            .map(|n| {
                let x = f64::from(n % 17) - 8.0;
                let y = if (n * 7) % 10 < 5 + n % 3 { 1.0 } else { -1.0 };
                ([y, y * x], 1.0 + f64::from(n % 4))
            })
            .collect();
        let points = Points::from_rows(2, rows.iter().map(|(z, w)| (&z[..], *w)));
        for start in [[0.0, 0.0], [5.0, -3.0], [-20.0, 8.0]] {
            let mode = mode_of_points(&points, &[0.25, 0.25], start.to_vec()).expect("a mode").mode;
            for d in 0..2 {
                let pull =
                    |(z, w): &([f64; 2], f64)| w * z[d] / (1.0 + (z[0] * mode[0] + z[1] * mode[1]).exp());
                let gradient: f64 = rows.iter().map(pull).sum::<f64>() - 0.25 * mode[d];
                assert!(gradient.abs() < 1e-9, "{start:?}: {gradient}");
            }
        }
    }

    /// The mode that is found in few looks is that of a plain search over all points, and so is the curvature there.
    #[test]
    fn a_pilot_saves_looks_and_finds_the_same_mode() {
        const ROWS: usize = 120_000;
        let columns = Recipe::Mixture.data(Seed(4), ROWS).columns();
        let roles = Roles { label: "y".into(), ..Roles::default() };
        let source = Columns::new(columns).expect("columns");
        let table = Table::new(Box::new(source), &roles).expect("a table");
        let engine = LocalEngine::new(table, &EngineSettings::default(), &Silent).expect("an engine");
        let learnt = survey(&engine, &EncodingSettings::default(), 6, Seed(0)).expect("rows");
        let rows = engine.run(&Keeping).expect("rows").expect("some");
        let all = points(&learnt.encoding, &RowSet::concat(rows)).expect("points");
        let precision = vec![0.25; all.dim()];
        let exact = mode_of_points(&all, &precision, vec![0.0; all.dim()]).expect("a mode");
        let found = |pilot: &[Vec<f64>]| {
            let weight = ROWS as f64 / pilot.len() as f64;
            let pilot = Points::from_rows(all.dim(), pilot.iter().map(|z| (&z[..], weight)));
            let new_search = || {
                let pilot = Pilot::Random(&pilot);
                Search::new(&learnt.encoding, None, &precision, pilot, ROWS as u64, Seed(0)).expect("a start")
            };
            let before = engine.passes();
            let mode = new_search().mode(&engine, None).expect("a mode");
            let passes = engine.passes() - before;
            let apart = Mat::from_fn(all.dim(), 1, |i, _| mode.mode[i] - exact.mode[i]);
            let squared = (apart.transpose() * &exact.precision * &apart)[(0, 0)];
            let relative = (&mode.precision - &exact.precision).norm_l2() / exact.precision.norm_l2();
            assert!(squared < 1e-16, "off by {squared:e}");
            assert!(relative < STEADY, "the curvature is off by {relative:e}");

            // A first look that another pass takes along is as good.
            let search = new_search();
            let first = engine.run(&search.first_look()).expect("a look");
            let (before, again) = (engine.passes(), search.mode(&engine, first).expect("a mode"));
            assert_eq!(engine.passes() - before, passes - 1);
            assert_eq!((again.mode, again.theta), (mode.mode, mode.theta));
            passes
        };
        let rows = |count: usize| -> Vec<Vec<f64>> { (0..count).map(|n| all.row(n)).collect() };
        // One that is not small beside the data is not asked, although it is nearer.
        assert_eq!((found(&rows(3000)), found(&rows(8000))), (3, 4));
        // Nor is one that leads astray asked for long: it has other labels, or much longer rows.
        let mut astray = rows(3000);
        astray.iter_mut().step_by(3).flatten().for_each(|z| *z = -*z);
        assert!(found(&astray) <= 7, "{}", found(&astray));
        astray.iter_mut().flatten().for_each(|z| *z *= 20.0);
        assert!(found(&astray) <= 9, "{}", found(&astray));
    }
}
