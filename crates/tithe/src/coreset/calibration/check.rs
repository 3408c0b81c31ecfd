//! The check of a coreset: how far its log-likelihood is from the full data's at draws from its own posterior, and what the
//! draws teach about better weights.
//!
//! The full data's log-likelihood at a draw `θ` is known without another pass but for its third-order part: value, gradient
//! and Hessian at the reference parameter are sums over all rows, and what remains is `Σ w_n r_n(θ)`, the remainders of the
//! rows. A probability sample of rows estimates it without bias (Horvitz and Thompson 1952). The sample is drawn for this
//! purpose alone, so a coreset is not its own check. Where the estimate is not accurate enough to decide, one pass evaluates
//! the log-likelihood of all rows.
//!
//! Weights that match gradient and Hessian at the mode may still differ in third order. Where that shows, the remainders at a
//! second set of draws become further features that the weights have to match.

use faer::Mat;
use rayon::prelude::*;

use crate::base::error::{ErrorKind, Result};
use crate::coreset::Coreset;
use crate::coreset::calibration::certificate::{ByDraws, Certificate, Evidence};
use crate::coreset::calibration::choice::{Choice, Chooser, Targets, choose_approximately};
use crate::coreset::calibration::panel::{FullValues, Panel};
use crate::coreset::calibration::reference::Reference;
use crate::coreset::calibration::task::Task;
use crate::coreset::settings::CertificateBy;
use crate::coreset::steps::Build;
use crate::data::points::{Lane, Points, TILE, Tile};
use crate::engine::Engine;
use crate::mcmc::discrepancy::{normalised, weighted_moments};
use crate::mode::values::log_likelihoods;
use crate::model::Priors;
use crate::model::likelihood::remainders;
use crate::model::quadratic::Quadratic;
use crate::reservoir::pool::Pool;

/// Number of draws from a coreset's posterior. Two thirds of them check it; at the others, remainders may become features.
const DRAWS: usize = 600;
/// Number of draws if the importance weights of fewer are not reliable.
const MORE_DRAWS: usize = 2400;
/// Number of draws that check a coreset where a pass over all rows evaluates them.
const MEASURED: usize = 200;
/// How many numbers the remainders of the candidates may be.
const MOST_NUMBERS: usize = 1 << 25;
/// Number of draws for a step of a stream: at two thirds of them the remainders become features, the others check the step.
const STEP_DRAWS: usize = 150;
/// A coreset whose KL is at most this need not be improved.
const FINE: f64 = 1e-3;
/// The largest variance that the estimate may add to the log-ratios: it shifts no mean by more than its root, in standard
/// deviations.
const MOST_NOISE: f64 = 4e-4;
/// The largest standard error of an estimated KL, as a fraction of the KL, and a KL so small that it need not be known better.
const RELATIVE_ERROR: f64 = 0.1;
const SMALL_KL: f64 = 2e-3;
/// Streams of random numbers of the first draws, of more, and of those that compare a choice again.
const FIRST: u64 = 0;
const MORE: u64 = 1;
const AGAIN: u64 = 2;

/// A choice of rows and weights that was compared with the full data.
pub(crate) struct Checked {
    /// The choice; its certificate contains the comparison.
    pub choice: Choice,
    /// What its weights match.
    pub targets: Targets,
    /// Draws from its posterior, with the full data's log-likelihood there; `None` if the normal approximations are enough for
    /// the user.
    draws: Option<(Panel, FullValues)>,
}

impl Checked {
    /// The KL of another choice near this one, at the same draws; infinite if they do not represent its posterior, or if it
    /// misses a direction.
    pub fn kl_of(&self, choice: &Choice) -> Result<f64> {
        let Some((draws, full)) = &self.draws else { return Ok(choice.kl()) };
        Ok(match draws.reweighted(&choice.points) {
            Some(draws) if choice.kl().is_finite() => draws.discrepancy(full)?.discrepancy.kl,
            _ => f64::INFINITY,
        })
    }
}

/// A choice that was compared with the full data at draws from its posterior.
struct Compared {
    choice: Choice,
    /// The draws that were compared, with the full data's log-likelihood there.
    checks: (Panel, FullValues),
    /// Other draws, at which remainders may become features; with the full data's log-likelihood, if that was estimated.
    features: (Panel, Option<FullValues>),
}

/// The full data, against which choices are checked.
pub(crate) struct Checker<'a, 'b, E> {
    pub build: &'a Build<'b, E>,
    pub task: &'a Task<'a>,
    pub reference: &'a Reference,
    /// The probability sample of rows.
    pub sample: &'a Pool,
    /// The KL asked for, in nats; infinite if a size was asked for.
    pub target_kl: f64,
}

impl<E: Engine> Checker<'_, '_, E> {
    /// Chooses `size` rows and compares them with the full data at draws from their posterior. If the two differ, the rows
    /// are chosen again with further features; the better choice is returned.
    pub fn check(&self, chooser: &Chooser<'_>, size: usize) -> Result<Checked> {
        let targets = Targets::second_order(chooser.pool, self.reference);
        let choice = chooser.choose(&targets, size)?;
        if self.build.settings.certificate == CertificateBy::Normal {
            return Ok(Checked { choice, targets, draws: None });
        }
        let first = self.compare(choice, FIRST)?;
        let is_small = first.features.0.theta.len() <= MOST_NUMBERS / targets.features.len().max(1);
        if first.choice.kl() <= FINE.min(0.5 * self.target_kl) || !is_small {
            return Ok(Checked { choice: first.choice, targets, draws: Some(first.checks) });
        }
        let (panel, full) = match &first.features {
            (panel, Some(full)) => (panel.clone(), full.clone()),
            (panel, None) => {
                let panel = panel.thinned(2 * MEASURED);
                let full = self.measure(&panel)?;
                (panel, full)
            }
        };
        let more = self.with_remainders(targets.clone(), &panel, &full);
        let mut second = chooser.choose(&more, size)?;
        // The same draws say which of the two is better, unless the second is far from the first.
        let (draws, full) = &first.checks;
        let second = match draws.reweighted(&second.points) {
            Some(again) => {
                second.certify(again.discrepancy(full)?);
                Checked { choice: second, targets: more, draws: Some((again, full.clone())) }
            }
            None => {
                let Compared { choice, checks, .. } = self.compare(second, FIRST)?;
                Checked { choice, targets: more, draws: Some(checks) }
            }
        };
        Ok(match second.choice.kl() < first.choice.kl() {
            true => second,
            false => Checked { choice: first.choice, targets, draws: Some(first.checks) },
        })
    }

    /// Compares another choice near one that was checked, at draws of its own.
    pub fn check_again(&self, checked: &Checked, choice: Choice, turn: u64) -> Result<Checked> {
        let targets = checked.targets.clone();
        if checked.draws.is_none() {
            return Ok(Checked { choice, targets, draws: None });
        }
        let Compared { choice, checks, .. } = self.compare(choice, AGAIN + 2 * turn)?;
        Ok(Checked { choice, targets, draws: Some(checks) })
    }

    /// Chooses rows for one of many steps of a stream. Their weights come near to gradient, Hessian and, at draws from the
    /// posterior of everything that is held, to the remainders. Returns also the KL that the remainders they miss are worth, at
    /// other draws; in units of the posterior of the step's own rows, as [`Composition::kl`](crate::coreset::Composition) is.
    pub fn check_step(&self, pool: &Pool, size: usize) -> Result<(Choice, f64)> {
        let seed = self.build.settings.seed;
        let panel = Panel::of_normal(&self.reference.posterior, STEP_DRAWS, seed);
        let full = self.measure(&panel)?;
        let [(panel, panel_full), (checks, checks_full)] = panel.split(&full);
        let targets = Targets::second_order(pool, self.reference);
        let targets = self.with_remainders(targets, &panel, &panel_full);
        let choice = choose_approximately(pool, &targets, size);

        let expansion = self.expansion();
        let mut missed: Vec<f64> = checks
            .theta
            .iter()
            .zip(&checks_full.values)
            .map(|(theta, full)| full - expansion.value(theta))
            .collect();
        let remainders = remainders_of(&choice.points, self.reference.map.theta(), &checks.theta);
        let weights = choice.points.weights();
        for (weight, (lanes, r)) in weights.iter().zip(rows_of(&remainders, weights.len())) {
            missed.iter_mut().zip(lanes).for_each(|(missed, lane)| *missed -= weight * lane[r]);
        }
        let even = vec![1.0 / missed.len() as f64; missed.len()];
        let (_, variance) = weighted_moments(&even, missed.into_iter());
        Ok((choice, 0.5 * variance / self.reference.share))
    }

    /// Compares a choice with the full data at draws from its posterior: more of them, if the importance weights of the first
    /// ones are not reliable. `first` is their stream of random numbers.
    fn compare(&self, mut choice: Choice, first: u64) -> Result<Compared> {
        let draw = |draws, index, measured| -> Result<_> {
            let (seed, reference) = (self.build.settings.seed, self.reference);
            let points = self.task.whole.map_or(&choice.points, |whole| &whole.points);
            let mut panel = Panel::draw(points, &reference.priors, draws, seed, index)?;
            if self.task.whole.is_some() {
                panel = panel.for_part(&choice.points, reference.error_scale);
            }
            let (checks, features) = match self.estimate(&panel) {
                Some(full) => {
                    let [checks, (features, full)] = panel.split(&full);
                    (checks, (features, Some(full)))
                }
                // A pass costs as much as its draws: fewer check, and the others wait until they are needed.
                None => {
                    let [checks, features] = panel.in_two();
                    let checks = checks.thinned(measured);
                    let full = self.measure(&checks)?;
                    ((checks, full), (features, None))
                }
            };
            Ok((checks.0.discrepancy(&checks.1)?, checks, features))
        };
        let draws = DRAWS.max(choice.points.len());
        let (mut found, mut checks, mut features) = draw(draws, first, MEASURED)?;
        if found.discrepancy.may_become_reliable() {
            (found, checks, features) = draw(MORE_DRAWS, first + MORE, 4 * MEASURED)?;
        }
        choice.certify(found);
        Ok(Compared { choice, checks, features })
    }

    /// The log-likelihood that the coreset has to represent, expanded about the reference to second order.
    fn expansion(&self) -> Quadratic {
        Quadratic { theta: self.reference.map.theta().to_vec(), curvature: self.reference.likelihood.clone() }
    }

    /// The full data's log-likelihood from its expansion about the reference and a sample of remainders; `None` if that is not
    /// accurate enough to determine how far the coreset is.
    fn estimate(&self, panel: &Panel) -> Option<FullValues> {
        let sample = Sample::new(self.sample, self.reference.map.theta(), &panel.theta);
        let expansion = self.expansion();
        let values: Vec<f64> = panel
            .theta
            .iter()
            .zip(&sample.total)
            .map(|(theta, remainder)| expansion.value(theta) + remainder)
            .collect();
        let weights = normalised(&panel.log_weights);
        let log_ratios: Vec<f64> = values.iter().zip(&panel.own).map(|(full, own)| full - own).collect();
        let (mean, variance) = weighted_moments(&weights, log_ratios.iter().copied());
        let squared_scale = panel.error_scale.unwrap_or(1.0).powi(2);
        let (variance, (noise, error)) =
            (squared_scale * variance, sample.noise(&weights, log_ratios.iter().map(|e| e - mean)));
        let (noise, error) = (squared_scale * noise, squared_scale * error);
        let kl = 0.5 * variance;
        // A target below what is small for a verdict has to be decided as well.
        let (most_noise, small) = (MOST_NOISE.min(0.2 * self.target_kl), SMALL_KL.min(self.target_kl));
        let is_accurate = noise <= most_noise.max(RELATIVE_ERROR * kl)
            && (error <= RELATIVE_ERROR * kl || kl + 2.0 * error <= small);
        is_accurate.then_some(FullValues { values, evidence: Evidence::SampledRows, error })
    }

    /// The full data's log-likelihood by a pass over all rows.
    fn measure(&self, panel: &Panel) -> Result<FullValues> {
        let learnt = self.build.learnt;
        let (mut values, identity) = log_likelihoods(self.build.engine, &learnt.encoding, &panel.theta)?;
        if identity.fingerprint != learnt.fingerprint {
            let what = "the rows are not those that the columns were learnt from".to_string();
            return Err(ErrorKind::Changed { what }.into());
        }
        if let Some(residual) = self.task.carried_residual {
            values.iter_mut().zip(&panel.theta).for_each(|(value, theta)| *value += residual.value(theta));
        }
        Ok(FullValues { values, evidence: Evidence::AllRows, error: 0.0 })
    }

    /// Targets with the remainders at the draws of a panel as further features, `(r_n(θ_s) − r̄_n) √(v_s/2)` for draws of weight
    /// `v_s`: the square of what weights miss of their sums is the third-order part of `½ Var(L − L̃)`.
    fn with_remainders(&self, targets: Targets, panel: &Panel, full: &FullValues) -> Targets {
        let weights = normalised(&panel.log_weights);
        let error_scale = panel.error_scale.unwrap_or(1.0);
        let scale: Vec<f64> = weights.iter().map(|v| error_scale * (0.5 * v).sqrt()).collect();
        let centred = |values: &mut [f64]| {
            let mean: f64 = values.iter().zip(&weights).map(|(r, v)| r * v).sum();
            values.iter_mut().zip(&scale).for_each(|(r, scale)| *r = (*r - mean) * scale);
        };
        let expansion = self.expansion();
        let mut total: Vec<f64> =
            panel.theta.iter().zip(&full.values).map(|(theta, full)| full - expansion.value(theta)).collect();
        centred(&mut total);
        let points = &targets.points;
        let mut features = Mat::zeros(panel.theta.len(), points.len());
        let remainders = remainders_of(points, self.reference.map.theta(), &panel.theta);
        for (row, (lanes, r)) in rows_of(&remainders, points.len()).enumerate() {
            let column = features.col_as_slice_mut(row);
            column.iter_mut().zip(lanes).for_each(|(value, lane)| *value = lane[r]);
            centred(column);
        }
        targets.with_panel(features, total)
    }
}

/// The certificate of a coreset by any method, completed by a comparison at draws: one pass over all rows, or two.
pub(crate) fn certify_by_draws(
    engine: &impl Engine,
    coreset: &Coreset,
    points: &Points,
    priors: &Priors,
    certificate: Certificate,
) -> Result<Certificate> {
    let compare = |draws: usize, index| -> Result<ByDraws> {
        let panel = Panel::draw(points, priors, draws, coreset.provenance.seed, index)?;
        let (values, _) = log_likelihoods(engine, &coreset.encoding, &panel.theta)?;
        panel.discrepancy(&FullValues { values, evidence: Evidence::AllRows, error: 0.0 })
    };
    let mut found = compare(2 * DRAWS / 3, FIRST)?;
    if found.discrepancy.may_become_reliable() {
        found = compare(2 * MORE_DRAWS / 3, MORE)?;
    }
    Ok(certificate.with_draws(found, points.len()))
}

/// The remainders of rows at each draw: a lane for each draw and tile.
fn remainders_of(points: &Points, origin: &[f64], theta: &[Vec<f64>]) -> Vec<Vec<Lane>> {
    let tiles: Vec<Tile<'_>> = points.tiles().collect();
    let of_tile = |tile: &Tile<'_>| {
        let mut lanes = vec![Lane::ZERO; theta.len()];
        remainders(tile, origin, theta, &mut lanes);
        lanes
    };
    tiles.par_iter().map(of_tile).collect()
}

/// For each of `count` rows the lanes of its tile, one for each draw, and its place in them.
fn rows_of(remainders: &[Vec<Lane>], count: usize) -> impl Iterator<Item = (&[Lane], usize)> {
    (0..count).map(|row| (&remainders[row / TILE][..], row % TILE))
}

/// The remainders of sampled rows at the draws of a panel.
struct Sample {
    remainders: Vec<Vec<Lane>>,
    /// For each row what its remainder counts, `w/π`, and the probability `1 − π` that it is not in the sample.
    rows: Vec<(f64, f64)>,
    /// The estimate of `Σ w_n r_n` at each draw.
    total: Vec<f64>,
}

impl Sample {
    fn new(pool: &Pool, origin: &[f64], theta: &[Vec<f64>]) -> Sample {
        let counts = pool.reference_weights(pool.len());
        let rows: Vec<(f64, f64)> = pool
            .candidates
            .iter()
            .zip(counts)
            .map(|(candidate, count)| (count, (1.0 - candidate.weight / count).max(0.0)))
            .collect();
        let remainders = remainders_of(&pool.points(), origin, theta);
        let mut total = vec![0.0; theta.len()];
        for ((count, _), (lanes, r)) in rows.iter().zip(rows_of(&remainders, rows.len())) {
            total.iter_mut().zip(lanes).for_each(|(sum, lane)| *sum += count * lane[r]);
        }
        Sample { remainders, rows, total }
    }

    /// The variance that sampling adds to the estimate, averaged over the weighted draws, and the standard error of half the
    /// variance of the centred log-ratios `e`. With the sampling error `η` of the estimate, `Var(e + η)` is off by
    /// `2 Cov(e, η) + Var(η)`.
    fn noise(&self, weights: &[f64], e: impl Iterator<Item = f64>) -> (f64, f64) {
        let weighted: Vec<f64> = weights.iter().zip(e).map(|(v, e)| v * e).collect();
        let (mut noise, mut covariance) = (0.0, 0.0);
        for ((count, missed), (lanes, r)) in self.rows.iter().zip(rows_of(&self.remainders, self.rows.len()))
        {
            if *missed == 0.0 {
                continue;
            }
            let (mut mean, mut square, mut product) = (0.0, 0.0, 0.0);
            for ((lane, v), ve) in lanes.iter().zip(weights).zip(&weighted) {
                let remainder = lane[r];
                mean += v * remainder;
                square += v * remainder * remainder;
                product += ve * remainder;
            }
            let scale = missed * count * count;
            noise += scale * (square - mean * mean).max(0.0);
            covariance += scale * product * product;
        }
        (noise, (covariance + 0.5 * noise * noise).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Seed, open_unit};
    use crate::data::points::Lane;
    use crate::reservoir::pool::Race;

    /// The estimate from a sample is right on average, and its stated noise is its variance.
    #[test]
    fn sampled_remainders_estimate_the_sum_over_all_rows() {
        let mut rng = Seed(4).stream(Purpose::Generate, 0);
        let mut points = Points::new(2);
        for _ in 0..3000 {
            points.push(&[open_unit(&mut rng), 2.0 * open_unit(&mut rng) - 1.0], 1.0);
        }
        let (origin, theta) = ([0.2, -0.4], vec![vec![0.9, 0.3], vec![-0.5, -1.0], vec![0.2, 0.8]]);
        let all = remainders_of(&points, &origin, &theta);
        let exact: Vec<f64> =
            (0..3).map(|s| rows_of(&all, 3000).map(|(lanes, r)| lanes[s][r]).sum()).collect();
        let even = [1.0 / 3.0; 3];
        let centred = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / 3.0;
            values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 3.0
        };
        let (mut mean, mut error, mut noise) = (vec![0.0; 3], 0.0, 0.0);
        const SEEDS: u64 = 200;
        for seed in 0..SEEDS {
            let mut race = Race::new(100);
            let mut rng = Seed(seed).stream(Purpose::Check, 0);
            for (t, tile) in points.tiles().enumerate() {
                let rates = Lane(std::array::from_fn(|r| 0.1 + tile.z[0][r].powi(3)));
                race.enter(&tile, &rates, &rates, |r| (t * TILE + r) as u64, &mut rng);
            }
            let sample = Sample::new(&race.finish(), &origin, &theta);
            mean.iter_mut().zip(&sample.total).for_each(|(mean, total)| *mean += total / SEEDS as f64);
            let missed: Vec<f64> = sample.total.iter().zip(&exact).map(|(a, b)| a - b).collect();
            error += centred(&missed) / SEEDS as f64;
            noise += sample.noise(&even, [0.0; 3].into_iter()).0 / SEEDS as f64;
        }
        // 200 seeds: the mean is within 4.5 standard errors, and the variance within a third, except once in 10,000 cases.
        let spread: Vec<f64> = exact.iter().zip(&mean).map(|(a, b)| a - b).collect();
        assert!(centred(&spread) < 4.5 * 4.5 * error / SEEDS as f64, "{exact:?} {mean:?}");
        assert!((noise / error - 1.0).abs() < 0.35, "{noise} for {error}");
    }

    /// The remainder of one row by the definition.
    #[test]
    fn remainders_are_what_the_second_order_leaves_out() {
        let phi = |s: f64| (-s).exp().ln_1p();
        let points = Points::from_rows(1, [([1.5].as_slice(), 1.0)]);
        let remainders = remainders_of(&points, &[0.4], &[vec![1.0], vec![-2.0]]);
        let s: f64 = 0.6;
        let sigma = 1.0 / (1.0 + s.exp());
        for (lane, theta) in remainders[0].iter().zip([1.0, -2.0]) {
            let t = 1.5 * (theta - 0.4);
            let expected = -phi(s + t) + phi(s) - sigma * t + 0.5 * sigma * (1.0 - sigma) * t * t;
            assert!((lane[0] - expected).abs() < 1e-14, "{} for {expected}", lane[0]);
        }
    }
}
