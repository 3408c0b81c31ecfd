//! Fits data of any size in one step: all rows where that is quick, or else a coreset, whose draws are verified against all
//! rows and corrected.

use std::time::Instant;

use crate::base::error::{Remedy, Result, Setting};
use crate::coreset::Coreset;
use crate::coreset::build::{BuildSettings, Built, build_surveyed};
use crate::coreset::calibration::task::Task;
use crate::coreset::selection::Size;
use crate::coreset::steps::Clock;
use crate::encoding::EncodingSettings;
use crate::encoding::survey::survey;
use crate::engine::Engine;
use crate::mcmc::Sampler;
use crate::mcmc::discrepancy::HOPELESS;
use crate::mcmc::findings::{Finding, Trouble};
use crate::results::corrected::resampled;
use crate::results::fit::{Fit, FitSettings, SHORT_FIT, fit_surveyed, whole_fit_seconds};
use crate::results::fit_grouped::{fit_coreset, fit_groups_of_data};
use crate::results::judgement::Judgement;
use crate::results::verify::{Verification, VerifySettings, verify};

/// The fewest rows of a coreset, and the fewest per coefficient, where the user names no size.
const FEWEST_ROWS: usize = 1000;
const ROWS_PER_COEFFICIENT: usize = 20;
/// Where these are too few, this many times as many, up to a limit.
const GROWTH: usize = 4;
const MOST_ROWS: usize = 20_000;

/// How many times as long draws of a model with group effects take, with more leapfrog steps and sparse sums.
const COST_OF_GROUPS: f64 = 3.0;
/// The KL that the coreset of such a model must reach where no size is given.
const KL_OF_GROUPS: f64 = 0.02;

/// Which rows are fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FittedRows {
    /// All rows where [`whole_fit_seconds`] is at most [`SHORT_FIT`] or the sampler is Laplace, or else a coreset.
    #[default]
    ByTime,
    /// All rows, however long that takes.
    All,
    /// A coreset.
    Coreset,
}

/// How to fit data of any size.
#[derive(Clone, Debug, Default)]
pub struct OneStepSettings {
    /// How to draw. Its priors and its seed are those of the coreset too.
    pub fit: FitSettings,
    /// How many rows the coreset has; `None` is 1,000 or 20 per coefficient, and more where these are too few.
    pub size: Option<Size>,
    /// Which rows are fitted.
    pub rows: FittedRows,
    /// The encoding.
    pub encoding: EncodingSettings,
    /// Bytes that all rows may use as points, where they are fitted.
    pub memory: u64,
}

/// A fit of data of any size.
#[derive(Clone, Debug)]
pub struct OneStep {
    /// The posterior.
    pub fit: Fit,
    /// The coreset that was fitted, and how its draws compare with all rows; `None` if all rows were fitted.
    pub by_coreset: Option<ByCoreset>,
}

/// The coreset behind a fit, and how its draws compare with all rows.
#[derive(Clone, Debug)]
pub struct ByCoreset {
    /// The coreset.
    pub built: Built,
    /// The comparison with all rows; `None` for an exact coreset.
    pub verification: Option<Verification>,
    /// Seconds of the build, the draws, and the comparison.
    pub seconds: [f64; 3],
    /// The estimated seconds of a fit of all rows.
    pub whole_seconds: f64,
}

/// Fits an engine's table: all rows or a coreset.
///
/// # Errors
/// If a setting does not make sense, a row cannot be used, or all rows are wanted and do not fit into memory.
pub fn fit_in_one_step(engine: &impl Engine, settings: &OneStepSettings) -> Result<OneStep> {
    let build = BuildSettings {
        size: settings.size.unwrap_or(BuildSettings::default().size),
        seed: settings.fit.draws.seed,
        encoding: settings.encoding.clone(),
        priors: settings.fit.priors.clone().unwrap_or_default(),
        ..BuildSettings::default()
    };
    build.check()?;
    let start = Instant::now();
    let learnt = engine.install(|| survey(engine, &build.encoding, build.clusters, build.seed))?;
    let dim = learnt.encoding.dim();
    let has_groups = !learnt.encoding.groups.is_empty();
    let cost = if has_groups { COST_OF_GROUPS } else { 1.0 };
    let whole_seconds = cost * whole_fit_seconds(learnt.rows, dim, &settings.fit);
    let is_quick = whole_seconds <= SHORT_FIT || settings.fit.sampler == Sampler::Laplace;
    if settings.rows == FittedRows::All || settings.rows == FittedRows::ByTime && is_quick {
        let fit = match has_groups {
            true => fit_groups_of_data(engine, &learnt, &settings.fit, settings.memory)?,
            false => fit_surveyed(engine, &learnt, &settings.fit, settings.memory)?,
        };
        return Ok(OneStep { fit, by_coreset: None });
    }

    let task = Task::all_rows();
    // How many rows a hierarchical model needs depends on its groups: as few as reach a KL.
    let size = settings.size.or(has_groups.then_some(Size::Kl { target: KL_OF_GROUPS }));
    let mut sizes = Sizes::new(size, dim, learnt.rows);
    loop {
        let build = BuildSettings { size: sizes.size, ..build.clone() };
        let built = build_surveyed(engine, &build, &task, learnt.clone(), Clock::start())?;
        if sizes.can_grow() && is_hopeless(&built.coreset) {
            sizes.grow();
            continue;
        }
        let build_seconds = start.elapsed().as_secs_f64();
        let fit = fit_coreset(&built.coreset, &settings.fit, engine.observer())?;
        let fit_seconds = start.elapsed().as_secs_f64() - build_seconds;
        let (fit, verification) = match built.coreset.provenance.exact {
            true => (fit, None),
            false => {
                let (fit, found) = verify_and_correct(engine, fit, false)?;
                (fit, Some(found))
            }
        };
        let is_too_far = verification.as_ref().is_some_and(|found| found.judgement == Judgement::TooFar);
        if sizes.can_grow() && is_too_far {
            sizes.grow();
            continue;
        }
        let verify_seconds = start.elapsed().as_secs_f64() - build_seconds - fit_seconds;
        let seconds = [build_seconds, fit_seconds, verify_seconds];
        let by_coreset = Some(ByCoreset { built, verification, seconds, whole_seconds });
        return Ok(OneStep { fit, by_coreset });
    }
}

/// Compares a posterior with the rows of an engine whose table was opened with the posterior's encoding, and corrects it where
/// that is needed. Draws that are accurate are kept as they are. Others are compared one and all, and resampled in proportion
/// to their weights. Draws that weights cannot correct have a finding.
///
/// # Errors
/// As for [`verify`].
pub fn verify_and_correct(engine: &impl Engine, fit: Fit, force: bool) -> Result<(Fit, Verification)> {
    let mut found = verify(engine, &fit, &VerifySettings { draws: None, force })?;
    let can_resample = fit.groups.is_none();
    if found.judgement == Judgement::Correctable && can_resample && found.chosen.len() < fit.draws.len() {
        found = verify(engine, &fit, &VerifySettings { draws: Some(fit.draws.len()), force })?;
    }
    let mut fit = match found.judgement {
        Judgement::Correctable if can_resample => resampled(&fit, &found, fit.settings.seed)?,
        _ => Fit { verified: Some(found.facts(false)), ..fit },
    };
    // What was measured replaces what was only feared.
    fit.findings.retain(|finding| finding.what != Trouble::PriorMovesMode);
    if found.judgement == Judgement::TooFar {
        fit.findings.push(Finding {
            what: Trouble::TooFarFromData,
            how_much: format!(
                "the draws are about {:.2} nats from the posterior of all rows, and weights do not correct them",
                found.kl()
            ),
            what_to_do: Remedy::using("build a larger coreset", Setting::Size).into(),
        });
    }
    Ok((fit, found))
}

/// Whether draws from a coreset's posterior would be too far away to be corrected.
fn is_hopeless(coreset: &Coreset) -> bool {
    coreset.provenance.calibration.as_ref().is_some_and(|facts| facts.certificate.kl() > HOPELESS)
}

/// The size of the coreset, and whether it may grow.
struct Sizes {
    size: Size,
    most: usize,
}

impl Sizes {
    fn new(size: Option<Size>, dim: usize, rows: u64) -> Sizes {
        let first = (ROWS_PER_COEFFICIENT * dim).clamp(FEWEST_ROWS, MOST_ROWS);
        match size {
            Some(size) => Sizes { size, most: 0 },
            None => {
                let most = MOST_ROWS.min(usize::try_from(rows / 2).unwrap_or(MOST_ROWS));
                Sizes { size: Size::Rows(first), most }
            }
        }
    }

    fn can_grow(&self) -> bool {
        matches!(self.size, Size::Rows(rows) if rows < self.most)
    }

    fn grow(&mut self) {
        if let Size::Rows(rows) = self.size {
            self.size = Size::Rows((GROWTH * rows).min(self.most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coreset_grows_where_no_size_was_named() {
        let sizes_of = |size, dim, rows| {
            let mut sizes = Sizes::new(size, dim, rows);
            let mut tried = vec![sizes.size];
            while sizes.can_grow() {
                sizes.grow();
                tried.push(sizes.size);
            }
            tried
        };
        let rows = |counts: &[usize]| counts.iter().map(|&rows| Size::Rows(rows)).collect::<Vec<_>>();
        assert_eq!(sizes_of(None, 11, 1_000_000), rows(&[1000, 4000, 16_000, 20_000]));
        assert_eq!(sizes_of(None, 194, 1_000_000), rows(&[3880, 15_520, 20_000]));
        assert_eq!(sizes_of(None, 5000, 1_000_000), rows(&[20_000]));
        assert_eq!(sizes_of(None, 11, 6000), rows(&[1000, 3000]));
        assert_eq!(sizes_of(Some(Size::Rows(50)), 11, 6000), rows(&[50]));
    }

    #[test]
    fn the_estimated_time_grows_with_rows_and_draws() {
        let seconds = |rows, sampler| {
            let settings = FitSettings { sampler, ..FitSettings::default() };
            whole_fit_seconds(rows, 11, &settings)
        };
        assert!(seconds(20_000, Sampler::Nuts) < SHORT_FIT && seconds(200_000, Sampler::Nuts) > SHORT_FIT);
        assert!((seconds(200_000, Sampler::Nuts) / seconds(20_000, Sampler::Nuts) - 10.0).abs() < 1e-9);
        assert!(seconds(200_000, Sampler::Laplace) < 0.1);
    }
}
