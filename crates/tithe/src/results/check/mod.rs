//! Checks how well a posterior predicts labelled rows: discrimination, scores, calibration, predictive checks of groups, leave-one-out
//! cross-validation and average marginal effects, in one pass and bounded memory.

mod groups;
pub mod loo;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Result, Setting};
use crate::base::math::{ln, softplus_and_slope, vectorized};
use crate::data::block::{Block, Column};
use crate::data::points::{Lane, TILE, Tile};
use crate::encoding::full_data::Identity;
use crate::encoding::{Encoding, LabelValue, Scratch};
use crate::engine::Engine;
use crate::engine::pass::Pass;
use crate::mcmc::diagnostics::quantile;
use crate::model::likelihood::margins;
use crate::results::compare::require_usable;
use crate::results::fit::Fit;
pub use groups::LevelCheck;
use groups::LevelSums;
pub use loo::Loo;
use loo::Sample;

/// Bins of the predicted log-odds from −20 to 20. Two rows in the same bin count as ties for the AUC.
const BINS: usize = 8_000;
const LARGEST_LOG_ODDS: f64 = 20.0;

/// Settings of a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckSettings {
    /// The number of draws that predictions are averaged over, evenly spaced.
    pub draws: usize,
    /// The number of groups of the calibration curve.
    pub groups: usize,
    /// The number of rows that are left out one by one; 0 for none.
    pub loo_rows: usize,
}

impl Default for CheckSettings {
    fn default() -> CheckSettings {
        CheckSettings { draws: 400, groups: 10, loo_rows: 1000 }
    }
}

/// How well a posterior predicts labelled rows.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Number of rows.
    pub rows: u64,
    /// Whether these are the rows that the posterior was fitted to, for which predictions look better than they are.
    pub same_data: bool,
    /// Number of draws that predictions were averaged over.
    pub draws: usize,
    /// Share of the rows with the positive label.
    pub positive_rate: f64,
    /// The probability that a positive row has a higher prediction than a negative one; ties count half. `None` if there is only one
    /// class.
    pub auc: Option<f64>,
    /// Mean of `−ln p(y | x)`, where `p` is the mean over the draws.
    pub log_loss: f64,
    /// The same if every row had the prediction `positive_rate`.
    pub log_loss_of_rate: f64,
    /// Mean squared distance of the prediction from the label (Brier 1950).
    pub brier: f64,
    /// The same if every row had the prediction `positive_rate`.
    pub brier_of_rate: f64,
    /// The calibration curve: groups of about equal size, from the lowest predictions to the highest.
    pub calibration: Vec<CalibrationGroup>,
    /// The ROC curve: false positive rate and true positive rate, from (0, 0) to (1, 1).
    pub roc: Vec<[f64; 2]>,
    /// Posterior predictive checks of the levels of text columns.
    pub levels: Vec<LevelCheck>,
    /// Average marginal effects of the coefficients but the intercept.
    pub effects: Vec<MarginalEffect>,
    /// Leave-one-out cross-validation; `None` if these are not the rows that the posterior was fitted to, or rows have weights.
    pub loo: Option<Loo>,
}

/// By how much the probability changes on average over the rows if a column grows by one unit: the mean of `β p (1 − p)`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MarginalEffect {
    /// The coefficient.
    pub name: String,
    /// Posterior mean.
    pub mean: f64,
    /// 5 % quantile.
    pub lower: f64,
    /// 95 % quantile.
    pub upper: f64,
}

/// Rows with similar predictions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CalibrationGroup {
    /// Number of rows, or their weight.
    pub mass: f64,
    /// Mean prediction.
    pub predicted: f64,
    /// Share of the rows with the positive label.
    pub observed: f64,
    /// Lower end of the 95 % interval of that share (Wilson 1927).
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
}

impl CalibrationGroup {
    /// Whether the mean prediction lies in the interval of the observed share.
    pub fn is_calibrated(&self) -> bool {
        (self.lower..=self.upper).contains(&self.predicted)
    }
}

/// Checks a posterior on the rows of an engine whose table was opened with the posterior's encoding.
///
/// # Errors
/// If there are no rows, a row has another label, or a setting makes no sense.
pub fn check(engine: &impl Engine, fit: &Fit, settings: &CheckSettings) -> Result<Check> {
    fit.refuse_groups("checked")?;
    if settings.draws == 0 {
        return Err(Error::setting(Setting::Draws, "must be at least 1"));
    }
    let (count, wanted) = (fit.draws.len(), settings.draws.min(fit.draws.len()));
    let all: Vec<&[f64]> = fit.draws.rows().collect();
    let theta: Vec<Vec<f64>> =
        (0..wanted).map(|s| fit.encoding.from_user_scale(all[s * count / wanted])).collect();
    // The weights of rows are not numbers of rows, so such rows cannot be left out one by one.
    let loo_rows = if fit.encoding.weight.is_some() { 0 } else { settings.loo_rows };
    let pass = Checking { encoding: Cow::Borrowed(&fit.encoding), theta: Cow::Borrowed(&theta), loo_rows };
    let sums = engine.run(&pass)?.unwrap_or_default();
    if sums.identity.rows == 0 {
        return Err(ErrorKind::NoRows { what: "there are no rows to check".to_string() }.into());
    }
    let fitted = Identity { rows: fit.basis.rows(), fingerprint: fit.basis.fingerprint() };
    let mut found = sums.summary(wanted, settings.groups, fitted);
    let names = fit.draws.names.iter().enumerate().skip(usize::from(fit.encoding.intercept));
    found.effects = names
        .map(|(j, name)| sums.effect(name, (0..wanted).map(|s| all[s * count / wanted][j]).collect()))
        .collect();
    if found.same_data && loo_rows > 0 {
        let theta: Vec<Vec<f64>> = all.iter().map(|beta| fit.encoding.from_user_scale(beta)).collect();
        let CheckSums { sample, identity, log_loss, squared_log_loss, .. } = sums;
        found.loo = engine.install(|| sample.estimate(&theta, identity.rows, -log_loss, squared_log_loss));
    }
    Ok(found)
}

/// The pass that compares predictions with labels.
#[derive(Serialize, Deserialize)]
pub(crate) struct Checking<'a> {
    encoding: Cow<'a, Encoding>,
    theta: Cow<'a, [Vec<f64>]>,
    /// The number of rows to sample.
    loo_rows: usize,
}

/// Weighted sums over rows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CheckSums {
    identity: Identity,
    log_loss: f64,
    brier: f64,
    /// `Σ (ln p)²` for the observed labels.
    squared_log_loss: f64,
    /// For each draw `Σ p (1 − p)`.
    slopes: Vec<f64>,
    levels: LevelSums,
    sample: Sample,
    /// For each bin of predictions: weight of the positive rows, weight of the negative rows, and weighted sum of the predictions.
    bins: Vec<[f64; 3]>,
}

impl Pass for Checking<'_> {
    const ID: &'static str = "check";
    const LABEL: &'static str = "checking predictions";
    type State = CheckSums;
    type Worker = Scratch;

    fn worker(&self) -> Scratch {
        Scratch::new(self.encoding.dim())
    }

    fn visit(&self, scratch: &mut Scratch, block: &Block) -> Result<CheckSums> {
        require_usable(&self.encoding, block)?;
        self.encoding.check_labels(block)?;
        let is_positive = positives(&self.encoding, block);
        let encoder = self.encoding.unlabelled_encoder(block)?;
        let mut sums = CheckSums {
            identity: Identity::of(block),
            bins: vec![[0.0; 3]; BINS],
            slopes: vec![0.0; self.theta.len()],
            levels: LevelSums::new(&self.encoding, block, self.theta.len()),
            sample: Sample::new(self.loo_rows),
            ..CheckSums::default()
        };
        for (t, labels) in is_positive.chunks(TILE).enumerate() {
            let tile = encoder.tile(t, scratch);
            let log_densities = sums.add(&tile, labels, &self.theta, t * TILE);
            for (r, log_density) in log_densities.into_iter().enumerate().filter(|_| self.loo_rows > 0) {
                let sign = if labels[r] { 1.0 } else { -1.0 };
                sums.sample.add(&tile, r, sign, block.position(t * TILE + r), log_density);
            }
        }
        sums.levels.forget_rows();
        Ok(sums)
    }

    fn merge(&self, state: &mut CheckSums, next: CheckSums) {
        state.identity.merge(next.identity);
        state.log_loss += next.log_loss;
        state.brier += next.brier;
        state.squared_log_loss += next.squared_log_loss;
        state.slopes.iter_mut().zip(next.slopes).for_each(|(our, their)| *our += their);
        state.levels.merge(next.levels);
        state.sample.merge(next.sample);
        for (ours, theirs) in state.bins.iter_mut().zip(next.bins) {
            ours.iter_mut().zip(theirs).for_each(|(our, their)| *our += their);
        }
    }
}

/// For each row, whether its label is the positive one.
fn positives(encoding: &Encoding, block: &Block) -> Vec<bool> {
    match (&encoding.label.positive, block.columns.get(encoding.features.len())) {
        (LabelValue::Number(positive), Some(Column::Number(values))) => {
            values.iter().map(|value| value == positive).collect()
        }
        (LabelValue::Boolean(positive), Some(Column::Number(values))) => {
            values.iter().map(|value| (*value != 0.0) == *positive).collect()
        }
        (LabelValue::Text(positive), Some(Column::Text { codes, levels })) => {
            codes.iter().map(|&code| levels.get(code as usize) == Some(positive)).collect()
        }
        _ => vec![false; block.len],
    }
}

impl CheckSums {
    /// Adds the rows `x` of a tile with their labels, and returns their log predictive densities; `first` is the first of them in the block.
    fn add(&mut self, tile: &Tile<'_>, labels: &[bool], theta: &[Vec<f64>], first: usize) -> Vec<f64> {
        let (mut present, mut absent) = (Lane::ZERO, Lane::ZERO);
        let (slopes, levels) = (&mut self.slopes, &mut self.levels);
        vectorized(
            #[inline(always)]
            || {
                for (s, theta) in theta.iter().enumerate() {
                    let (mut margin, mut slope) = (Lane::ZERO, Lane::ZERO);
                    margins(tile, theta, &mut margin);
                    for r in 0..TILE {
                        // 1/(1+e^m) is the slope at m; both are summed, because 1 − p loses digits.
                        let (no, yes) = (softplus_and_slope(margin[r]).1, softplus_and_slope(-margin[r]).1);
                        absent[r] += no;
                        present[r] += yes;
                        (margin[r], slope[r]) = (yes, tile.w[r] * yes * no);
                    }
                    if let Some(sum) = slopes.get_mut(s) {
                        *sum += slope.iter().sum::<f64>();
                    }
                    levels.keep_draw(s, &margin);
                }
            },
        );
        let draws = theta.len() as f64;
        let mut log_densities = Vec::with_capacity(labels.len());
        for (r, &is_positive) in labels.iter().enumerate() {
            let (w, p, q) = (tile.w[r], present[r] / draws, absent[r] / draws);
            let (likelihood, miss) = if is_positive { (p, q) } else { (q, p) };
            let log_density = ln(likelihood.max(f64::MIN_POSITIVE));
            self.log_loss -= w * log_density;
            self.squared_log_loss += w * log_density * log_density;
            log_densities.push(log_density);
            self.levels.add_row(first + r, r, w, is_positive, p * q);
            self.brier += w * miss * miss;
            let place = (ln(p / q) + LARGEST_LOG_ODDS) / (2.0 * LARGEST_LOG_ODDS) * BINS as f64;
            // NaN and numbers that are too small become 0.
            let bin = &mut self.bins[(place as usize).min(BINS - 1)];
            bin[usize::from(!is_positive)] += w;
            bin[2] += w * p;
        }
        log_densities
    }

    /// The average marginal effect of a coefficient with these draws.
    fn effect(&self, name: &str, beta: Vec<f64>) -> MarginalEffect {
        let mass: f64 = self.bins.iter().map(|bin| bin[0] + bin[1]).sum();
        let mut effects: Vec<f64> =
            beta.iter().zip(&self.slopes).map(|(beta, slope)| beta * slope / mass).collect();
        effects.sort_by(f64::total_cmp);
        MarginalEffect {
            name: name.to_string(),
            mean: effects.iter().sum::<f64>() / effects.len() as f64,
            lower: quantile(&effects, 0.05),
            upper: quantile(&effects, 0.95),
        }
    }

    /// At most 100 points of the ROC curve, and (0, 0).
    fn roc(&self, positive: f64, negative: f64) -> Vec<[f64; 2]> {
        if positive == 0.0 || negative == 0.0 {
            return Vec::new();
        }
        let mut curve = vec![[0.0, 0.0]];
        let (mut hits, mut alarms, mut last) = (0.0, 0.0, 0.0);
        for bin in self.bins.iter().rev() {
            (hits, alarms) = (hits + bin[0], alarms + bin[1]);
            let [x, y] = [alarms / negative, hits / positive];
            // Steps of one fiftieth in either direction.
            if x + y >= last + 0.02 || (bin[0] + bin[1] > 0.0 && x + y >= 2.0 - 1e-12) {
                last = x + y;
                curve.push([x.min(1.0), y.min(1.0)]);
            }
        }
        curve
    }

    fn summary(&self, draws: usize, groups: usize, fitted: Identity) -> Check {
        let [positive, negative] = [0, 1].map(|class| self.bins.iter().map(|bin| bin[class]).sum::<f64>());
        let mass = positive + negative;
        let rate = positive / mass;
        let mut below = 0.0;
        let mut pairs = 0.0;
        for [positive, negative, _] in &self.bins {
            pairs += positive * (below + 0.5 * negative);
            below += negative;
        }
        let entropy = |p: f64| if p > 0.0 { -p * ln(p) } else { 0.0 };
        Check {
            rows: self.identity.rows,
            same_data: self.identity == fitted,
            draws,
            positive_rate: rate,
            auc: (positive > 0.0 && negative > 0.0).then(|| pairs / (positive * negative)),
            log_loss: self.log_loss / mass,
            log_loss_of_rate: entropy(rate) + entropy(1.0 - rate),
            brier: self.brier / mass,
            brier_of_rate: rate * (1.0 - rate),
            calibration: self.calibration(mass, groups),
            roc: self.roc(positive, negative),
            levels: self.levels.checks(),
            effects: Vec::new(),
            loo: None,
        }
    }

    /// Groups of about equal mass.
    fn calibration(&self, mass: f64, groups: usize) -> Vec<CalibrationGroup> {
        let mut found = Vec::new();
        let mut group = [0.0; 3];
        let mut done = 0.0;
        for bin in &self.bins {
            group.iter_mut().zip(bin).for_each(|(sum, value)| *sum += value);
            let total = group[0] + group[1];
            if total > 0.0
                && done + total >= mass * (found.len() + 1) as f64 / groups.max(1) as f64 * (1.0 - 1e-12)
            {
                found.push(calibration_group(group));
                done += total;
                group = [0.0; 3];
            }
        }
        found.extend((group[0] + group[1] > 0.0).then(|| calibration_group(group)));
        found
    }
}

fn calibration_group([positive, negative, predicted]: [f64; 3]) -> CalibrationGroup {
    const Z: f64 = 1.959_963_984_540_054;
    let mass = positive + negative;
    let observed = positive / mass;
    let middle = (observed + Z * Z / (2.0 * mass)) / (1.0 + Z * Z / mass);
    let half =
        Z / (1.0 + Z * Z / mass) * (observed * (1.0 - observed) / mass + Z * Z / (4.0 * mass * mass)).sqrt();
    CalibrationGroup {
        mass,
        predicted: predicted / mass,
        observed,
        lower: (middle - half).max(0.0),
        upper: (middle + half).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::survey::tests::numbers;

    /// Sums of rows with these predictions, without a model.
    fn sums(rows: &[(f64, bool)]) -> CheckSums {
        let mut sums = CheckSums { bins: vec![[0.0; 3]; BINS], ..CheckSums::default() };
        sums.identity.rows = rows.len() as u64;
        // With the coefficient 1, the only column is the log-odds of the prediction.
        for chunk in rows.chunks(TILE) {
            let (mut z, mut w) = (vec![Lane::ZERO], Lane::ZERO);
            for (r, (p, _)) in chunk.iter().enumerate() {
                (z[0][r], w[r]) = ((p / (1.0 - p)).ln(), 1.0);
            }
            let labels: Vec<bool> = chunk.iter().map(|(_, label)| *label).collect();
            sums.add(&Tile { z: &z, w: &w, len: chunk.len() }, &labels, &[vec![1.0]], 0);
        }
        sums
    }

    #[test]
    fn the_figures_are_those_of_plain_loops() {
        let (p, u) = (numbers(3000, 1), numbers(3000, 2));
        let share = |x: &f64| (x + 1.0) / 3.0 * 0.98 + 0.01;
        let rows: Vec<(f64, bool)> = p.iter().zip(&u).map(|(p, u)| (share(p), share(u) < share(p))).collect();
        let found = sums(&rows).summary(1, 10, Identity::default());
        let of = |wanted: bool| rows.iter().filter(move |(_, label)| *label == wanted).map(|(p, _)| *p);
        let (positives, negatives): (Vec<f64>, Vec<f64>) = (of(true).collect(), of(false).collect());
        let mut wins = 0.0;
        for a in &positives {
            for b in &negatives {
                wins += if a > b { 1.0 } else { 0.5 * f64::from(u8::from(a == b)) };
            }
        }
        let auc = wins / (positives.len() * negatives.len()) as f64;
        assert!((found.auc.expect("two classes") - auc).abs() < 1e-4, "{:?} {auc}", found.auc);
        let n = rows.len() as f64;
        let log_loss =
            -rows.iter().map(|(p, y)| if *y { f64::ln(*p) } else { f64::ln(1.0 - p) }).sum::<f64>() / n;
        let brier = rows.iter().map(|(p, y)| (p - f64::from(u8::from(*y))).powi(2)).sum::<f64>() / n;
        assert!((found.log_loss - log_loss).abs() < 1e-12 && (found.brier - brier).abs() < 1e-12);
        assert_eq!(found.calibration.len(), 10);
        assert!((found.roc.len() > 50) && found.roc.last() == Some(&[1.0, 1.0]), "{:?}", found.roc);
        let area: f64 = found.roc.windows(2).map(|p| (p[1][0] - p[0][0]) * (p[0][1] + p[1][1]) / 2.0).sum();
        assert!((area - auc).abs() < 2e-3, "{area} {auc}");
        let mut sorted = rows.clone();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (group, rows) in found.calibration.iter().zip(sorted.chunks(300)) {
            let mean = rows.iter().map(|(p, _)| p).sum::<f64>() / 300.0;
            assert!((group.predicted - mean).abs() < 0.005 && (group.mass - 300.0).abs() < 10.0, "{group:?}");
        }
        // The labels were drawn with these probabilities: with 10 groups and 95 %, a correct program has 5 or fewer in 1e-6 of all cases.
        assert!(found.calibration.iter().filter(|group| group.is_calibrated()).count() > 5);
    }

    #[test]
    fn one_class_and_sure_predictions_give_no_nan() {
        let found = sums(&[(1e-300, false), (0.5, false)]).summary(1, 10, Identity::default());
        assert_eq!((found.auc, found.positive_rate, found.log_loss_of_rate), (None, 0.0, 0.0));
        assert!(found.log_loss.is_finite() && found.calibration.iter().all(|group| group.lower >= 0.0));
    }

    #[test]
    fn merged_parts_give_the_sums_of_all_rows() {
        let rows: Vec<(f64, bool)> = numbers(400, 3).iter().map(|x| ((x + 1.1) / 3.2, *x > 0.3)).collect();
        let pass_free = |a: &mut CheckSums, b: CheckSums| {
            a.log_loss += b.log_loss;
            for (ours, theirs) in a.bins.iter_mut().zip(b.bins) {
                ours.iter_mut().zip(theirs).for_each(|(our, their)| *our += their);
            }
        };
        let mut parts = sums(&rows[..128]);
        pass_free(&mut parts, sums(&rows[128..]));
        let all = sums(&rows);
        assert!((parts.log_loss - all.log_loss).abs() < 1e-9);
        for (a, b) in parts.bins.iter().zip(&all.bins) {
            assert_eq!(a[..2], b[..2]);
        }
    }
}
