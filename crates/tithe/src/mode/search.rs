//! The search for the mode of the full data's posterior, where every evaluation of the likelihood is a pass over all rows.
//!
//! [Newton's method](crate::model::newton) evaluates; a few rows, the [guides](crate::mode::guides), predict where to
//! evaluate next. The first guides are the pilot, from whose mode the search starts: a step with it leaves about a tenth of
//! the error that a Newton step would. But a pilot chosen at random contains almost no information about rare levels: its
//! mode is then hundreds of standard deviations away, and nearly separated coefficients move by one unit of `z·θ` per Newton
//! step. Then an evaluation also selects the rows that matter most where the pilot is uninformative, and these are the
//! guides.

use std::borrow::Cow;

use crate::base::error::Result;
use crate::base::rng::Seed;
use crate::data::points::Points;
use crate::encoding::Encoding;
use crate::engine::Engine;
use crate::mode::evaluation::{EvaluatingCurvature, Evaluation};
use crate::mode::guides::{CorrectedLikelihood, GuideSelection, guides_of, is_uninformative, reweighted};
use crate::model::Priors;
use crate::model::likelihood::Curvature;
use crate::model::newton::{Likelihood, Mode, mode, mode_from_afar, mode_of_points, normal_priors};
use crate::model::quadratic::Quadratic;

/// The squared decrement at which the full data's mode is near enough. The curvature of a nearly separated coefficient changes
/// over a thousandth of its standard deviation, and a certificate compares curvatures, so the search must end this close.
pub(crate) const NEAR: f64 = 1e-12;
/// The mode is also near enough where the curvature is expected to change by no more than this fraction until there: the
/// certificate's KL depends on its square.
const STEADY: f64 = 1e-6;
/// Beyond this squared decrement per coefficient the corrected likelihood of guides must be concave.
const FAR: f64 = 1.0;
/// The standard deviation of what the largest value of a column adds to `z·θ`, in the prior of a random pilot.
const PILOT_PRIOR_SD: f64 = 1.0;
/// The squared decrement at which a search over guides ends: its mode is only where to evaluate next.
const PREDICTED: f64 = 1e-14;
/// A step that leaves this fraction of the squared decrement calls for guides, unless the mode is as near as `SLOW_DECREASE`.
const SLOW: f64 = 0.1;
const SLOW_DECREASE: f64 = 1e-3;
/// So does a pilot whose mode is this many times as far away as expected for a random selection.
const INACCURATE_PILOT: f64 = 10.0;
/// A pilot is small compared with data of this many times its rows: a few searches with it cost less than the pass that they
/// save, unless the rows are in memory and many cores evaluate them.
const SMALL: u64 = 32;

/// Where a search for the full data's mode starts: a few weighted points that represent all rows.
#[derive(Clone, Copy)]
pub(crate) enum Pilot<'a> {
    /// Rows selected at random, which are unreliable about rare levels.
    Random(&'a Points),
    /// A coreset, whose own mode should be near.
    Calibrated(&'a Points),
}

/// A search for the mode of all rows, of other points that are not among them, and of a residual that neither represents.
pub(crate) struct Search<'a> {
    encoding: &'a Encoding,
    others: Option<&'a Points>,
    residual: Option<&'a Quadratic>,
    priors: Priors,
    start: Vec<f64>,
    /// The squared decrement at which the search ends.
    near: f64,
    guidance: Guidance<'a>,
}

impl<'a> Search<'a> {
    /// A search from the mode of a pilot, which represents all rows and the others, `rows` in number.
    pub fn from_pilot(
        encoding: &'a Encoding,
        others: Option<&'a Points>,
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
        let selection = GuideSelection::new(pilot, prior_precision, seed)?;
        let guidance = if is_uninformative(pilot, &start, prior_precision)? {
            Guidance::Wanted(selection)
        } else {
            // The mode of a random pilot of n rows is about D/n of the rows' mass away, as a squared decrement.
            let each = pilot.weights().iter().sum::<f64>() / pilot.len().max(1) as f64;
            let last = INACCURATE_PILOT / SLOW * each * pilot.dim() as f64;
            let is_small = SMALL * pilot.len() as u64 <= rows;
            Guidance::Ready { selection, last, pilot: is_small.then_some(pilot) }
        };
        let priors = normal_priors(prior_precision);
        Ok(Search { encoding, others, residual: None, priors, start: start.mode, near: NEAR, guidance })
    }

    /// A search from where a residual was last evaluated, which is near the mode.
    pub fn from_residual(
        encoding: &'a Encoding,
        others: Option<&'a Points>,
        residual: &'a Quadratic,
        prior_precision: &[f64],
        near: f64,
    ) -> Search<'a> {
        Search {
            encoding,
            others,
            residual: Some(residual),
            priors: normal_priors(prior_precision),
            start: residual.theta.clone(),
            near,
            guidance: Guidance::None,
        }
    }

    /// The first evaluation, for a pass that also computes something else; a search from a residual makes its own.
    pub fn first_evaluation(&self) -> Option<EvaluatingCurvature<'_>> {
        let evaluating = || EvaluatingCurvature::new(self.encoding, &self.start);
        self.residual.is_none().then(|| evaluating().with_guides(self.guidance.wanted()))
    }

    /// The mode; `first` is the first evaluation, if another pass has made it.
    pub fn mode(self, engine: &impl Engine, first: Option<Evaluation>) -> Result<Mode> {
        let mut data = FullData {
            others: self.others,
            residual: self.residual,
            first,
            guidance: self.guidance,
            ..FullData::new(engine, self.encoding, &self.priors)
        };
        mode(&mut data, &self.priors, self.start, self.near)
    }
}

/// Finds the full data's mode under any priors, and whether the classes are separated.
pub(crate) fn full_mode_from_afar(
    engine: &impl Engine,
    encoding: &Encoding,
    priors: &Priors,
) -> Result<(Mode, bool)> {
    let mut data = FullData { margins: true, ..FullData::new(engine, encoding, priors) };
    let mode = mode_from_afar(&mut data, priors, NEAR)?;
    Ok((mode, data.separated))
}

/// The prior's precision, raised so far that no value of a column adds much to `z·θ`: a few rows that seem separated are no
/// reason to start far out.
fn cautious(pilot: &Points, prior_precision: &[f64]) -> Vec<f64> {
    let mut precision = prior_precision.to_vec();
    for tile in pilot.tiles() {
        for (precision, lane) in precision.iter_mut().zip(tile.z) {
            let largest = lane.iter().fold(0.0, |largest: f64, z| largest.max(z.abs()));
            *precision = precision.max((largest / PILOT_PRIOR_SD).powi(2));
        }
    }
    precision
}

/// What predicts the next parameter to evaluate.
enum Guidance<'a> {
    /// Newton's method alone.
    None,
    /// Guides are selected once the search is slow or the pilot turns out to be inaccurate: if the squared decrement has not fallen
    /// much below the `last`. Until then a pilot that is small compared with the data predicts.
    Ready { selection: GuideSelection, last: f64, pilot: Option<&'a Points> },
    /// The next evaluation should select guides.
    Wanted(GuideSelection),
    /// Guides have been selected.
    Found(Points),
}

impl Guidance<'_> {
    /// The selection, if the next evaluation should make it.
    fn wanted(&self) -> Option<&GuideSelection> {
        if let Guidance::Wanted(selection) = self { Some(selection) } else { None }
    }
}

/// The likelihood of all rows of an engine.
struct FullData<'a, E> {
    engine: &'a E,
    encoding: &'a Encoding,
    priors: &'a Priors,
    /// Whether margins and weights are evaluated.
    margins: bool,
    least_weight: f64,
    separated: bool,
    /// Points that are added to the rows.
    others: Option<&'a Points>,
    /// A log-likelihood that is added to both.
    residual: Option<&'a Quadratic>,
    /// The first evaluation, if another pass has made it.
    first: Option<Evaluation>,
    guidance: Guidance<'a>,
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
            others: None,
            residual: None,
            first: None,
            guidance: Guidance::None,
        }
    }

    /// One pass over all rows, unless the first evaluation is there already.
    fn run(&mut self, theta: &[f64]) -> Result<Evaluation> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let evaluating = EvaluatingCurvature::new(self.encoding, theta)
            .with_margins(self.margins)
            .with_guides(self.guidance.wanted());
        Ok(self.engine.run(&evaluating)?.unwrap_or_else(|| Evaluation::empty(theta.len())))
    }
}

impl<E: Engine> Likelihood for FullData<'_, E> {
    fn evaluate(&mut self, theta: &[f64]) -> Result<Curvature> {
        let mut found = self.run(theta)?;
        if self.margins {
            self.least_weight = found.least_weight;
            self.separated |= found.least_margin > 0.0;
        }
        if let Some(race) = found.race {
            let mut guides = guides_of(race);
            self.others.iter().flat_map(|others| others.tiles()).for_each(|tile| guides.push_tile(&tile));
            self.guidance = Guidance::Found(guides);
        }
        if let Some(others) = self.others {
            found.curvature.merge(&Curvature::of_points(others, theta));
        }
        if let Some(residual) = self.residual {
            found.curvature.merge(&residual.at(theta));
        }
        Ok(found.curvature)
    }

    fn least_weight(&self) -> f64 {
        self.least_weight
    }

    fn steady(&self) -> f64 {
        STEADY
    }

    fn discourage(&mut self) {
        if let Guidance::Ready { pilot, .. } = &mut self.guidance {
            *pilot = None;
        }
    }

    fn predict(&mut self, theta: &[f64], evaluated: &Curvature, decrement: f64) -> Option<Vec<f64>> {
        self.guidance = match std::mem::replace(&mut self.guidance, Guidance::None) {
            Guidance::Ready { selection, last, .. }
                if decrement > SLOW * last && decrement > SLOW_DECREASE =>
            {
                Guidance::Wanted(selection)
            }
            Guidance::Ready { selection, pilot, .. } => Guidance::Ready { selection, pilot, last: decrement },
            other => other,
        };
        let search = |mut corrected: CorrectedLikelihood<'_>| {
            mode(&mut corrected, self.priors, theta.to_vec(), PREDICTED).ok().map(|mode| mode.mode)
        };
        match &self.guidance {
            Guidance::Ready { pilot: Some(pilot), .. } => {
                search(CorrectedLikelihood::new(Cow::Borrowed(pilot), theta, evaluated))
            }
            Guidance::Found(guides) => {
                let corrected = || {
                    let guides = reweighted(guides, theta, evaluated)?;
                    Some(CorrectedLikelihood::new(Cow::Owned(guides), theta, evaluated))
                };
                let near = if decrement <= FAR * theta.len() as f64 { search(corrected()?) } else { None };
                near.or_else(|| search(corrected()?.concave()?))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;
    use crate::base::progress::Silent;
    use crate::coreset::points;
    use crate::coreset::selection::Keeping;
    use crate::data::block::RowSet;
    use crate::data::generate::Recipe;
    use crate::data::source::memory::Columns;
    use crate::data::table::{Roles, Table};
    use crate::encoding::EncodingSettings;
    use crate::encoding::survey::survey;
    use crate::engine::{EngineSettings, LocalEngine};

    #[test]
    fn the_gradient_is_zero_at_the_mode_from_any_start() {
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

    /// The mode found in few passes is that of a plain search over all points, and so is the curvature there.
    #[test]
    fn a_pilot_saves_passes_and_finds_the_same_mode() {
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
                Search::from_pilot(&learnt.encoding, None, &precision, pilot, ROWS as u64, Seed(0))
                    .expect("a start")
            };
            let before = engine.passes();
            let mode = new_search().mode(&engine, None).expect("a mode");
            let passes = engine.passes() - before;
            let apart = Mat::from_fn(all.dim(), 1, |i, _| mode.mode[i] - exact.mode[i]);
            let squared = (apart.transpose() * &exact.precision * &apart)[(0, 0)];
            let relative = (&mode.precision - &exact.precision).norm_l2() / exact.precision.norm_l2();
            assert!(squared < 1e-16, "error {squared:e}");
            assert!(relative < STEADY, "error of the curvature {relative:e}");

            // A first evaluation made by another pass is as good.
            let search = new_search();
            let first =
                engine.run(&search.first_evaluation().expect("an evaluation")).expect("an evaluation");
            let (before, again) = (engine.passes(), search.mode(&engine, first).expect("a mode"));
            assert_eq!(engine.passes() - before, passes - 1);
            assert_eq!((again.mode, again.theta), (mode.mode, mode.theta));
            passes
        };
        let rows = |count: usize| -> Vec<Vec<f64>> { (0..count).map(|n| all.row(n)).collect() };
        // A pilot that is not small compared with the data is not used, although it is nearer.
        assert_eq!((found(&rows(3000)), found(&rows(8000))), (3, 4));
        // Nor is a misleading one used for long: it has other labels, or much longer rows.
        let mut misleading = rows(3000);
        misleading.iter_mut().step_by(3).flatten().for_each(|z| *z = -*z);
        assert!(found(&misleading) <= 7, "{}", found(&misleading));
        misleading.iter_mut().flatten().for_each(|z| *z *= 20.0);
        assert!(found(&misleading) <= 9, "{}", found(&misleading));
    }
}
