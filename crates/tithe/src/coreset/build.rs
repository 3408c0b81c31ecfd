//! The driver: Algorithm 1 of the paper, from a table to a coreset, top to bottom.

use std::borrow::Cow;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::progress::{Event, Silent};
use crate::base::rng::Seed;
use crate::coreset::calibration::driver::{Place, calibrated};
use crate::coreset::collapse::Distinct;
use crate::coreset::kmeans::{self, Grouped, Grouping};
use crate::coreset::selection::{Keeping, Selecting, Shares, Size, guaranteed_size};
use crate::coreset::sensitivity::{Bound, CenterRule, Radius};
use crate::coreset::{CalibrationFacts, Coreset, Method, Provenance, SensitivityFacts, points};
use crate::data::block::RowSet;
use crate::data::points::Points;
use crate::data::source::Source;
use crate::data::table::{Roles, Table};
use crate::encoding::Encoding;
use crate::encoding::survey::{EncodingSettings, Learnt, survey};
use crate::engine::pass::{Pass, Watching};
use crate::engine::{Engine, EngineSettings, LocalEngine};
use crate::model::quadratic::Quadratic;
use crate::reservoir::slots::{Picked, Races, Slots};

/// In (ε, δ) mode the size is not known when distinct rows are counted; more than this are not worth keeping.
const MOST_DISTINCT: usize = 1 << 14;

/// What coreset to build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildSettings {
    /// How rows are chosen.
    pub method: Method,
    /// How many.
    pub size: Size,
    /// Number of clusters k.
    pub clusters: usize,
    /// The radius of the ball.
    pub radius: Radius,
    /// The ball's centre: coefficients by name, on the user's own scale; those not named are 0.
    pub theta_star: Vec<(String, f64)>,
    /// Which points stand for the groups.
    pub centers: CenterRule,
    /// Whether data of few distinct rows is returned as those rows with their counts.
    pub collapse: bool,
    /// The seed.
    pub seed: Seed,
    /// The encoding.
    pub encoding: EncodingSettings,
    /// Calibration: the standard deviation of the normal prior under which the full data's mode is sought, on the
    /// model's scale. The result hardly depends on it.
    pub prior_scale: f64,
}

impl Default for BuildSettings {
    fn default() -> BuildSettings {
        BuildSettings {
            method: Method::Calibrated,
            size: Size::Rows(1000),
            clusters: 6,
            radius: Radius::Auto(3.0),
            theta_star: Vec::new(),
            centers: CenterRule::Exact,
            collapse: true,
            seed: Seed(0),
            encoding: EncodingSettings::default(),
            prior_scale: 2.0,
        }
    }
}

impl BuildSettings {
    /// Checks that the settings make sense.
    pub fn check(&self) -> Result<()> {
        self.size.check()?;
        if self.clusters == 0 || self.clusters > 1000 {
            return Err(Error::setting("--clusters", "must be between 1 and 1000"));
        }
        // Beyond these its square, or the inverse of that, is no number to compute with.
        if !(1e-100..=1e100).contains(&self.prior_scale) {
            let what = format!("must lie between 1e-100 and 1e100, but is {:e}", self.prior_scale);
            return Err(Error::setting("--prior-scale", what));
        }
        let (Radius::Fixed(radius) | Radius::Auto(radius)) = self.radius;
        if !(radius >= 0.0 && radius.is_finite()) {
            return Err(Error::setting(
                "--radius",
                format!("must be finite and not negative, but is {radius}"),
            ));
        }
        Ok(())
    }
}

/// A coreset, and how long its phases took.
#[derive(Clone, Debug)]
pub struct Built {
    /// The coreset.
    pub coreset: Coreset,
    /// Seconds by phase, in order.
    pub seconds: Vec<(&'static str, f64)>,
    /// Mean and standard deviation of each feature that holds numbers.
    pub moments: Vec<Option<(f64, f64)>>,
    /// What the coreset leaves of the log-likelihood of its rows, and of what was left before: for the steps to come.
    pub(crate) remainder: Option<Quadratic>,
    /// True if what was left before had to be let go: nobody knows how much was lost with it.
    pub(crate) let_go: bool,
}

/// Builds a coreset of a source on this machine, in silence: the short way.
pub fn build(source: Box<dyn Source>, roles: &Roles, settings: &BuildSettings) -> Result<Coreset> {
    let table = Table::new(source, roles)?;
    let engine = LocalEngine::new(table, &EngineSettings::default(), &Silent)?;
    build_on(&engine, settings).map(|built| built.coreset)
}

/// Builds a coreset of an engine's table.
pub fn build_on(engine: &impl Engine, settings: &BuildSettings) -> Result<Built> {
    build_part(engine, settings, Place::Alone)
}

/// Builds a coreset of an engine's table where that may be a part of something larger; only calibration takes note of it.
pub(crate) fn build_part(engine: &impl Engine, settings: &BuildSettings, place: Place<'_>) -> Result<Built> {
    settings.check()?;
    engine.install(|| build_steps(engine, settings, place))
}

fn build_steps(engine: &impl Engine, settings: &BuildSettings, place: Place<'_>) -> Result<Built> {
    let mut clock = Clock::start();

    // What the columns hold, and some rows for the clustering.
    let learnt = survey(engine, &settings.encoding, settings.clusters, settings.seed)?;
    clock.lap("survey");
    let mut let_go = false;
    let selected = match settings.method {
        Method::Calibrated => match calibrated(engine, &learnt, settings, place, &mut clock) {
            // What was left before may be more than the rows that are there can carry: there is no mode then.
            Err(error) if error.is_numerical() && place.remainder().is_some() => {
                let_go = true;
                calibrated(engine, &learnt, settings, place.letting_go(), &mut clock)?
            }
            selected => selected?,
        },
        Method::Sensitivity => algorithm_1(engine, &learnt, settings, &mut clock)?,
        Method::Uniform => select_uniformly(engine, &learnt, settings, &mut clock)?,
    };

    // A part of something larger may be small.
    let warning = selected.warning.filter(|_| matches!(place, Place::Alone));
    let warnings: Vec<String> = learnt.warnings.into_iter().chain(warning).collect();
    for warning in &warnings {
        engine.observer().event(Event::Warning(warning.clone()));
    }
    let table = engine.table();
    let coreset = Coreset {
        fields: table.features().iter().chain([table.label()]).cloned().collect(),
        rows: selected.rows.without_columns_from(table.features().len() + 1),
        weights: selected.weights,
        encoding: learnt.encoding,
        provenance: Provenance {
            method: settings.method,
            size: settings.size,
            draws: selected.draws,
            exact: selected.exact,
            rows_read: learnt.rows_read,
            rows: learnt.rows,
            rows_dropped: learnt.rows_read - learnt.rows,
            mass: learnt.mass,
            fingerprint: learnt.fingerprint,
            passes: engine.passes(),
            seed: settings.seed,
            missing: engine.missing(),
            sensitivity: selected.facts,
            calibration: selected.calibration,
            composition: None,
            warnings,
        },
    };
    // What is exact adds nothing to what was left.
    let remainder = selected.remainder.or_else(|| place.remainder().cloned());
    Ok(Built { coreset, seconds: clock.laps, moments: learnt.moments, remainder, let_go })
}

/// Rows and their weights, as a method chose them.
pub(crate) struct Selected {
    pub rows: RowSet,
    pub weights: Vec<f64>,
    pub draws: u64,
    pub exact: bool,
    pub facts: Option<SensitivityFacts>,
    pub calibration: Option<CalibrationFacts>,
    pub warning: Option<String>,
    /// What the rows leave of the log-likelihood, near its mode; only calibration knows.
    pub remainder: Option<Quadratic>,
}

/// Algorithm 1 of the paper, for weighted rows.
fn algorithm_1(
    engine: &impl Engine,
    learnt: &Learnt,
    settings: &BuildSettings,
    clock: &mut Clock,
) -> Result<Selected> {
    let encoding = &learnt.encoding;

    // A k-clustering, and the sensitivity bounds m_n that it gives (Lemma 3.1).
    let Bounded { bound, mut facts, distinct } =
        sensitivity_bounds(learnt, settings, clock, |grouping| run_over_the_same(engine, learnt, grouping))?;
    let selecting = |slots: usize| Selecting {
        encoding: Cow::Borrowed(encoding),
        shares: Shares::Sensitivity(Cow::Borrowed(&bound)),
        races: Races::new(slots),
        seed: settings.seed,
    };

    // The number of draws M: given, or enough for (ε, δ).
    let draws = match settings.size {
        Size::Rows(rows) => rows as u64,
        Size::Guarantee { epsilon, delta, constant } => {
            let total = run_over_the_same(engine, learnt, selecting(0))?.total;
            clock.lap("bounds");
            facts.mean_bound = Some(total);
            guaranteed_size(total, encoding.dim(), epsilon, delta, constant)
        }
        Size::Kl { .. } => return Err(only_calibrated()),
    };
    if let Some(exact) = exact_coreset(engine, learnt, settings, draws, distinct, &facts, clock)? {
        return Ok(exact);
    }

    // M draws with probability p_n = m_n / Σ m; a row drawn K_n times weighs γ_n = K_n w_n / (p_n M).
    let slots = run_over_the_same(engine, learnt, selecting(draws as usize))?;
    facts.mean_bound = Some(slots.total);
    clock.lap("selection");
    weighed(encoding, slots, draws, Some(facts))
}

/// Sensitivity bounds, and what else the same pass has found.
pub(crate) struct Bounded {
    pub bound: Bound,
    pub facts: SensitivityFacts,
    pub distinct: Option<Distinct>,
}

/// A k-clustering of the points, one pass for the mass and mean of each group, which `group` runs, and the bounds that these give.
pub(crate) fn sensitivity_bounds(
    learnt: &Learnt,
    settings: &BuildSettings,
    clock: &mut Clock,
    group: impl FnOnce(Grouping<'_>) -> Result<Grouped>,
) -> Result<Bounded> {
    let encoding = &learnt.encoding;
    let theta_star = ball_center(learnt, &settings.theta_star)?;
    let centers = kmeans::centers(
        &picked_points(encoding, &learnt.clustering_picks)?,
        settings.clusters,
        settings.seed,
    );
    clock.lap("clustering");

    // The distinct rows come with it, for data of few has an exact coreset.
    let most_distinct = most_distinct(learnt, settings);
    let mut grouped = group(Grouping {
        encoding: Cow::Borrowed(encoding),
        centers: Cow::Borrowed(&centers),
        most_distinct,
    })?;
    let distinct = grouped.distinct.take();
    let groups = grouped.groups(&centers);
    clock.lap("grouping");

    let radius = settings.radius.value(groups.score);
    let facts = SensitivityFacts {
        clusters: centers.len(),
        centers: settings.centers,
        radius_rule: settings.radius,
        radius,
        theta_star: theta_star.clone(),
        score: groups.score,
        mean_bound: None,
    };
    let bound = Bound::new(centers, groups, radius, theta_star, settings.centers);
    Ok(Bounded { bound, facts, distinct })
}

/// The data itself, where its distinct rows fit the size, or it is no larger than that.
pub(crate) fn exact_coreset(
    engine: &impl Engine,
    learnt: &Learnt,
    settings: &BuildSettings,
    draws: u64,
    distinct: Option<Distinct>,
    facts: &SensitivityFacts,
    clock: &mut Clock,
) -> Result<Option<Selected>> {
    let facts = Some(facts.clone());
    if let Some(Distinct::Rows(distinct)) = distinct
        && distinct.mass.len() as u64 <= draws
    {
        return Ok(Some(Selected::exactly(distinct.rows, distinct.mass, facts, None)));
    }
    match too_small_for_a_coreset(learnt.rows, draws, settings.size) {
        Some(why) => keep_all(engine, learnt, facts, why, clock).map(Some),
        None => Ok(None),
    }
}

/// The baseline: M draws in proportion to the rows' own weights.
fn select_uniformly(
    engine: &impl Engine,
    learnt: &Learnt,
    settings: &BuildSettings,
    clock: &mut Clock,
) -> Result<Selected> {
    let encoding = &learnt.encoding;
    let rows = match settings.size {
        Size::Rows(rows) => rows,
        Size::Kl { .. } => return Err(only_calibrated()),
        Size::Guarantee { .. } => {
            let what = "goes with --method sensitivity: a uniform choice gives no guarantee";
            return Err(Error::setting("--epsilon", what));
        }
    };
    let draws = rows as u64;
    if let Some(why) = too_small_for_a_coreset(learnt.rows, draws, settings.size) {
        return keep_all(engine, learnt, None, why, clock);
    }
    let selecting = Selecting {
        encoding: Cow::Borrowed(encoding),
        shares: Shares::Weights,
        races: Races::new(rows),
        seed: settings.seed,
    };
    let slots = run_over_the_same(engine, learnt, selecting)?;
    clock.lap("selection");
    weighed(encoding, slots, draws, None)
}

impl Selected {
    fn exactly(
        rows: RowSet,
        weights: Vec<f64>,
        facts: Option<SensitivityFacts>,
        warning: Option<String>,
    ) -> Selected {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by_key(|&row| rows.positions[row]);
        Selected {
            rows: rows.take(&order),
            weights: order.iter().map(|&row| weights[row]).collect(),
            draws: rows.len() as u64,
            exact: true,
            facts,
            calibration: None,
            warning,
            remainder: None,
        }
    }
}

/// The rows that won slots, with their weights `γ_n = K_n w_n S / (s_n M)`.
fn weighed(
    encoding: &Encoding,
    slots: Slots,
    draws: u64,
    facts: Option<SensitivityFacts>,
) -> Result<Selected> {
    let total = slots.total;
    let Picked { rows, shares, counts } = slots.finish().ok_or_else(no_rows)?;
    let own = points(encoding, &rows)?.weights();
    let weights = own
        .iter()
        .zip(&shares)
        .zip(&counts)
        .map(|((w, share), count)| f64::from(*count) * w * (total / share) / draws as f64)
        .collect();
    Ok(Selected {
        rows,
        weights,
        draws,
        exact: false,
        facts,
        calibration: None,
        warning: None,
        remainder: None,
    })
}

fn only_calibrated() -> Error {
    Error::setting("--kl", "goes with --method calibrated, which has a certificate")
}

/// Why all rows should be kept, if they should.
fn too_small_for_a_coreset(rows: u64, draws: u64, size: Size) -> Option<String> {
    match size {
        Size::Rows(_) | Size::Kl { .. } if draws >= rows => {
            Some(format!("the data has only {rows} rows: all are kept, each with its own weight"))
        }
        Size::Guarantee { .. } if draws > rows / 2 => Some(format!(
            "the guarantee asks for {draws} draws from {rows} rows: all rows are kept instead, each with its own weight"
        )),
        _ => None,
    }
}

fn keep_all(
    engine: &impl Engine,
    learnt: &Learnt,
    facts: Option<SensitivityFacts>,
    why: String,
    clock: &mut Clock,
) -> Result<Selected> {
    let rows = RowSet::concat(run_over_the_same(engine, learnt, Keeping)?);
    let weights = points(&learnt.encoding, &rows)?.weights();
    clock.lap("selection");
    Ok(Selected::exactly(rows, weights, facts, Some(why)))
}

/// How many distinct rows are worth counting: the size asked for; and where all rows fit it anyway, only as
/// many as make the data clearly smaller.
fn most_distinct(learnt: &Learnt, settings: &BuildSettings) -> Option<usize> {
    let asked = match settings.size {
        Size::Rows(rows) if rows as u64 >= learnt.rows => learnt.rows as usize / 2,
        Size::Rows(rows) => rows,
        Size::Guarantee { .. } | Size::Kl { .. } => MOST_DISTINCT,
    };
    settings.collapse.then_some(asked)
}

/// Rows that the survey picked, as points that weigh as often as they were picked.
pub(crate) fn picked_points(encoding: &Encoding, picks: &Picked) -> Result<Points> {
    let mut points = points(encoding, &picks.rows)?;
    points.set_weights(&picks.counts.iter().map(|&count| f64::from(count)).collect::<Vec<_>>());
    Ok(points)
}

/// The ball's centre `θ*` on the model's scale; `None` is 0.
fn ball_center(learnt: &Learnt, theta_star: &[(String, f64)]) -> Result<Option<Vec<f64>>> {
    let names = learnt.encoding.coefficient_names();
    let mut beta = vec![0.0; names.len()];
    for (name, value) in theta_star {
        let position = names.iter().position(|known| known == name).ok_or_else(|| {
            let what = format!("there is no coefficient '{name}'; there are {}", names.join(", "));
            Error::setting("--theta-star", what)
        })?;
        if !value.is_finite() {
            return Err(Error::setting("--theta-star", format!("the value of '{name}' is {value}")));
        }
        beta[position] = *value;
    }
    Ok((!theta_star.is_empty()).then(|| learnt.encoding.from_user_scale(&beta)))
}

/// Runs a pass over data that is known to have rows.
fn run<P: Pass>(engine: &impl Engine, pass: &P) -> Result<P::State> {
    engine.run(pass)?.ok_or_else(no_rows)
}

/// Runs a pass that may choose rows: if they are others than those of the survey, and the engine could not know, it fails.
pub(crate) fn run_over_the_same<P: Pass>(engine: &impl Engine, learnt: &Learnt, pass: P) -> Result<P::State> {
    let watching = Watching { pass, rows_may_change: engine.rows_may_change() };
    let (state, fingerprint) = run(engine, &watching)?;
    match fingerprint {
        Some(now) if now != learnt.fingerprint => {
            let what = "other rows came than when the columns were learnt".to_string();
            Err(ErrorKind::Changed { what }.into())
        }
        _ => Ok(state),
    }
}

fn no_rows() -> Error {
    ErrorKind::NoRows { what: "the data has no rows".to_string() }.into()
}

/// Seconds by phase.
pub(crate) struct Clock {
    last: Instant,
    laps: Vec<(&'static str, f64)>,
}

impl Clock {
    fn start() -> Clock {
        Clock { last: Instant::now(), laps: Vec::new() }
    }

    /// A phase that comes again counts on.
    pub(crate) fn lap(&mut self, phase: &'static str) {
        let now = Instant::now();
        let seconds = (now - self.last).as_secs_f64();
        match self.laps.iter_mut().find(|(earlier, _)| *earlier == phase) {
            Some((_, sum)) => *sum += seconds,
            None => self.laps.push((phase, seconds)),
        }
        self.last = now;
    }
}
