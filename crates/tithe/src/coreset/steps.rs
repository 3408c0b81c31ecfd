//! One build in progress, with the steps that all methods share.

use std::borrow::Cow;
use std::time::Instant;

use crate::base::error::{Error, ErrorKind, Result, Setting};
use crate::coreset::collapse::Distinct;
use crate::coreset::hierarchical::facts::HierarchicalFacts;
use crate::coreset::kmeans::{self, Centers, Grouped, Grouping};
use crate::coreset::selection::{Keeping, Size};
use crate::coreset::sensitivity::Bound;
use crate::coreset::settings::BuildSettings;
use crate::coreset::{CalibrationFacts, SensitivityFacts, points};
use crate::data::block::RowSet;
use crate::data::points::Points;
use crate::encoding::Encoding;
use crate::encoding::survey::Learnt;
use crate::engine::Engine;
use crate::engine::pass::{Pass, Watching};
use crate::model::Gaussian;
use crate::model::quadratic::Quadratic;
use crate::reservoir::slots::Picked;

/// In (ε, δ) mode the size is not known when distinct rows are counted; more than this are not kept.
const MOST_DISTINCT: usize = 1 << 14;

/// A build in progress: what every step needs.
pub(crate) struct Build<'a, E> {
    pub engine: &'a E,
    pub settings: &'a BuildSettings,
    /// What the survey learnt about the columns.
    pub learnt: &'a Learnt,
    pub clock: &'a mut Clock,
}

/// Rows and weights, as a method chose them.
pub(crate) struct Selected {
    pub rows: RowSet,
    pub weights: Vec<f64>,
    /// Number of draws M; the number of rows where the coreset is exact.
    pub draws: u64,
    /// True if the coreset's likelihood is the data's own.
    pub exact: bool,
    pub sensitivity: Option<SensitivityFacts>,
    pub calibration: Option<CalibrationFacts>,
    /// For models with groups.
    pub hierarchical: Option<HierarchicalFacts>,
    pub warning: Option<String>,
    /// The log-likelihood of all rows minus the coreset's, near the mode; only calibration measures it.
    pub residual: Option<Quadratic>,
    /// For a step of a stream: the KL of what neither the coreset nor the residual represents.
    pub step_kl: Option<f64>,
    /// The normal approximation of the posterior of everything that the task counts; only calibration finds it.
    pub held: Option<Gaussian>,
}

/// Sensitivity bounds, and the distinct rows found in the same pass.
pub(crate) struct Bounds {
    pub bound: Bound,
    pub facts: SensitivityFacts,
    /// For data with few distinct rows, which are an exact coreset.
    pub distinct: Option<Distinct>,
}

impl Bounds {
    /// The distinct rows, if there are at most `size`; they are taken out.
    pub fn take_distinct(&mut self, size: usize) -> Option<Distinct> {
        match &self.distinct {
            Some(Distinct::Rows(rows)) if rows.mass.len() <= size => self.distinct.take(),
            _ => None,
        }
    }
}

impl<'a, E: Engine> Build<'a, E> {
    /// Runs a pass that may choose rows.
    ///
    /// # Errors
    /// If the rows are not those of the survey: engines that cannot notice a change themselves compare fingerprints.
    pub fn run<P: Pass>(&self, pass: P) -> Result<P::State> {
        let watching = Watching { pass, rows_may_change: self.engine.rows_may_change() };
        let (state, fingerprint) = self.engine.run(&watching)?.ok_or_else(no_rows)?;
        match fingerprint {
            Some(now) if now != self.learnt.fingerprint => {
                let what = "the rows are not those that the encoding was learnt from".to_string();
                Err(ErrorKind::Changed { what }.into())
            }
            _ => Ok(state),
        }
    }

    /// Ends a phase of the build: its seconds are added to those of the same name.
    pub fn lap(&mut self, phase: &'static str) {
        self.clock.lap(phase);
    }

    /// A k-means clustering of the rows that the survey picked.
    pub fn cluster(&mut self) -> Result<Centers> {
        // A wrong name is an error before any long pass.
        self.ball_center()?;
        let picked = picked_points(&self.learnt.encoding, &self.learnt.clustering_picks)?;
        let centers = kmeans::centers(&picked, self.settings.clusters, self.settings.seed);
        self.lap("clustering");
        Ok(centers)
    }

    /// The pass that finds mass and mean of each cluster, and the distinct rows if they are few.
    pub fn grouping<'c>(&self, centers: &'c Centers) -> Grouping<'c>
    where
        'a: 'c,
    {
        Grouping {
            encoding: Cow::Borrowed(&self.learnt.encoding),
            centers: Cow::Borrowed(centers),
            most_distinct: self.most_distinct(),
        }
    }

    /// The sensitivity bounds `m_n` that a clustering and the groups around its centres give (Lemma 3.1).
    pub fn sensitivity_bounds(&mut self, centers: Centers, mut grouped: Grouped) -> Result<Bounds> {
        let theta_star = self.ball_center()?;
        let distinct = grouped.distinct.take();
        let groups = grouped.groups(&centers);
        self.lap("grouping");
        let radius = self.settings.radius.value(groups.score);
        let facts = SensitivityFacts {
            clusters: centers.len(),
            centers: self.settings.centers,
            radius_rule: self.settings.radius,
            radius,
            theta_star: theta_star.clone(),
            score: groups.score,
            mean_bound: None,
        };
        let bound = Bound::new(centers, groups, radius, theta_star, self.settings.centers);
        Ok(Bounds { bound, facts, distinct })
    }

    /// All rows, or all distinct rows with their counts, where these fit into `draws` rows; otherwise nothing.
    pub fn exact_coreset(&mut self, draws: u64, bounds: &mut Bounds) -> Result<Option<Selected>> {
        let facts = Some(bounds.facts.clone());
        if let Some(Distinct::Rows(distinct)) = bounds.take_distinct(draws as usize) {
            return Ok(Some(Selected::exact(distinct.rows, distinct.mass, facts, None)));
        }
        self.all_rows_if_few(draws, facts)
    }

    /// All rows, where a coreset of `draws` rows would not be clearly smaller than the data; otherwise nothing.
    pub fn all_rows_if_few(
        &mut self,
        draws: u64,
        facts: Option<SensitivityFacts>,
    ) -> Result<Option<Selected>> {
        let rows = self.learnt.rows;
        let why = match self.settings.size {
            Size::Rows(_) | Size::Kl { .. } if draws >= rows => {
                format!("the data has only {rows} rows: all are kept, each with its own weight")
            }
            Size::Guarantee { .. } if draws > rows / 2 => format!(
                "the guarantee needs {draws} draws from {rows} rows: all rows are kept instead, each with its own weight"
            ),
            _ => return Ok(None),
        };
        let rows = RowSet::concat(self.run(Keeping)?);
        let weights = points(&self.learnt.encoding, &rows)?.weights();
        self.lap("selection");
        Ok(Some(Selected::exact(rows, weights, facts, Some(why))))
    }

    /// The largest number of distinct rows to count: the requested size; if all rows fit that size, only as many as make
    /// the data clearly smaller.
    fn most_distinct(&self) -> Option<usize> {
        let asked = match self.settings.size {
            Size::Rows(rows) if rows as u64 >= self.learnt.rows => self.learnt.rows as usize / 2,
            Size::Rows(rows) => rows,
            Size::Guarantee { .. } | Size::Kl { .. } => MOST_DISTINCT,
        };
        self.settings.collapse.then_some(asked)
    }

    /// The ball's centre `θ*` on the model's scale; `None` is 0.
    fn ball_center(&self) -> Result<Option<Vec<f64>>> {
        let (encoding, theta_star) = (&self.learnt.encoding, &self.settings.theta_star);
        let names = encoding.coefficient_names();
        let mut beta = vec![0.0; names.len()];
        for (name, value) in theta_star {
            let position = names.iter().position(|known| known == name).ok_or_else(|| {
                let what = format!(
                    "names a coefficient '{name}' that does not exist; the coefficients are {}",
                    names.join(", ")
                );
                Error::setting(Setting::ThetaStar, what)
            })?;
            if !value.is_finite() {
                return Err(Error::setting(
                    Setting::ThetaStar,
                    format!("has the value {value} for '{name}'"),
                ));
            }
            beta[position] = *value;
        }
        Ok((!theta_star.is_empty()).then(|| encoding.from_user_scale(&beta)))
    }
}

impl Selected {
    fn exact(
        rows: RowSet,
        weights: Vec<f64>,
        sensitivity: Option<SensitivityFacts>,
        warning: Option<String>,
    ) -> Selected {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by_key(|&row| rows.positions[row]);
        Selected {
            rows: rows.take(&order),
            weights: order.iter().map(|&row| weights[row]).collect(),
            draws: rows.len() as u64,
            exact: true,
            sensitivity,
            calibration: None,
            hierarchical: None,
            warning,
            residual: None,
            step_kl: None,
            held: None,
        }
    }
}

/// Rows that the survey picked, as points weighted by how often they were picked.
pub(crate) fn picked_points(encoding: &Encoding, picks: &Picked) -> Result<Points> {
    let mut points = points(encoding, &picks.rows)?;
    points.set_weights(&picks.counts.iter().map(|&count| f64::from(count)).collect::<Vec<_>>());
    Ok(points)
}

/// The error for data without rows.
pub(crate) fn no_rows() -> Error {
    ErrorKind::NoRows { what: "the data has no rows".to_string() }.into()
}

/// Seconds by phase, in the order in which phases first end.
pub(crate) struct Clock {
    last: Instant,
    pub laps: Vec<(&'static str, f64)>,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { last: Instant::now(), laps: Vec::new() }
    }

    /// Ends a phase; the seconds of phases of the same name are added up.
    pub fn lap(&mut self, phase: &'static str) {
        let now = Instant::now();
        let seconds = (now - self.last).as_secs_f64();
        match self.laps.iter_mut().find(|(earlier, _)| *earlier == phase) {
            Some((_, sum)) => *sum += seconds,
            None => self.laps.push((phase, seconds)),
        }
        self.last = now;
    }
}
