//! Compares two posteriors: how far apart they are, and which one predicts unseen rows better.

use std::borrow::Cow;

use faer::Mat;
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Result, Setting};
use crate::base::linear::{Cholesky, product};
use crate::base::math::{ln, ln_1p, softplus_and_slope, vectorized};
use crate::base::rng::{Purpose, Seed, open_unit};
use crate::data::block::{Block, row_name};
use crate::data::points::{Lane, TILE, Tile};
use crate::encoding::{Encoding, Scratch};
use crate::engine::pass::Pass;
use crate::engine::{Engine, thread_pool};
use crate::model::likelihood::margins;
use crate::results::fit::Fit;
use crate::results::mmd::{Kernel, mmd_squared};

/// A coefficient in two posteriors, on the user's own scale.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoefficientPair {
    /// Its name.
    pub name: String,
    /// Mean in the posterior that is compared.
    pub mean: f64,
    /// Standard deviation in the posterior that is compared.
    pub sd: f64,
    /// Mean in the reference.
    pub reference_mean: f64,
    /// Standard deviation in the reference.
    pub reference_sd: f64,
    /// Error of the mean, in standard deviations of the reference.
    pub shift: f64,
    /// The standard deviation as a ratio to the reference's.
    pub sd_ratio: f64,
}

/// How far a posterior is from a reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The kernel of the discrepancies.
    pub kernel: Kernel,
    /// MMD², on the reference's model scale.
    pub mmd_squared: f64,
    /// MMD² between two halves of the reference's own draws, see [`noise_floor`]: with this many draws, smaller values
    /// cannot be distinguished from 0.
    pub noise_floor: f64,
    /// KL from the posterior to the reference in nats, each approximated by the normal distribution with the mean and
    /// covariance of its draws; `None` if there are too few draws for a covariance.
    pub kl: Option<f64>,
    /// The coefficients.
    pub coefficients: Vec<CoefficientPair>,
}

impl Comparison {
    /// The largest error of a mean, in the reference's standard deviations.
    pub fn largest_shift(&self) -> f64 {
        self.coefficients.iter().fold(0.0, |largest, pair| pair.shift.abs().max(largest))
    }

    /// The smallest and largest ratio of standard deviations.
    pub fn sd_ratio_range(&self) -> (f64, f64) {
        self.coefficients
            .iter()
            .fold((f64::INFINITY, 0.0), |(low, high), pair| (pair.sd_ratio.min(low), pair.sd_ratio.max(high)))
    }
}

/// Compares a posterior with a reference.
///
/// # Errors
/// If the two posteriors have different coefficients.
pub fn compare(fit: &Fit, reference: &Fit, kernel: Kernel) -> Result<Comparison> {
    fit.refuse_groups("compared")?;
    reference.refuse_groups("compared")?;
    let kernel = kernel.check()?;
    let places = places(fit, reference)?;
    let dim = places.len();
    // On the reference's model scale, columns are standardised and the kernel gives all coefficients the same importance.
    let on_scale = |fit: &Fit, places: &[usize]| -> Vec<f64> {
        let ordered = |beta: &[f64]| places.iter().map(|&i| beta[i]).collect::<Vec<f64>>();
        fit.draws.rows().flat_map(|beta| reference.encoding.from_user_scale(&ordered(beta))).collect()
    };
    let ours = on_scale(fit, &places);
    let theirs = on_scale(reference, &(0..dim).collect::<Vec<_>>());
    let coefficients = places
        .iter()
        .zip(&reference.summary)
        .map(|(&i, reference)| {
            let own = &fit.summary[i];
            CoefficientPair {
                name: own.name.clone(),
                mean: own.mean,
                sd: own.sd,
                reference_mean: reference.mean,
                reference_sd: reference.sd,
                shift: (own.mean - reference.mean) / reference.sd,
                sd_ratio: own.sd / reference.sd,
            }
        })
        .collect();
    let pool = thread_pool(None)?;
    Ok(Comparison {
        kernel,
        mmd_squared: pool.install(|| mmd_squared(&ours, &theirs, dim, kernel)),
        noise_floor: pool.install(|| noise_floor(&theirs, dim, kernel)),
        kl: kl_of_normals(&ours, &theirs, dim),
        coefficients,
    })
}

/// Number of blocks that a run is cut into, each long enough to be almost independent of the others.
const BLOCKS: usize = 20;
/// Number of random splits of the blocks into halves.
const SPLITS: u64 = 8;

/// MMD² between two halves of one run: the mean over several random splits of its blocks of consecutive draws. A single
/// split would have a large variance, since one direction often makes up most of the discrepancy.
pub fn noise_floor(draws: &[f64], dim: usize, kernel: Kernel) -> f64 {
    let rows = draws.len() / dim.max(1);
    let blocks = BLOCKS.min(rows);
    let block = |b: usize| &draws[b * rows / blocks * dim..(b + 1) * rows / blocks * dim];
    let mut total = 0.0;
    for split in 0..SPLITS {
        let mut rng = Seed(0).stream(Purpose::Resample, split);
        let mut order: Vec<(f64, usize)> = (0..blocks).map(|b| (open_unit(&mut rng), b)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half =
            |part: &[(f64, usize)]| part.iter().flat_map(|(_, b)| block(*b)).copied().collect::<Vec<f64>>();
        let (first, second) = order.split_at(blocks / 2);
        total += mmd_squared(&half(first), &half(second), dim, kernel);
    }
    total / SPLITS as f64
}

/// For each coefficient of the reference, its position in the fit.
fn places(fit: &Fit, reference: &Fit) -> Result<Vec<usize>> {
    let (ours, theirs) = (&fit.draws.names, &reference.draws.names);
    let missing = |from: &[String], name: &str| -> Error {
        let what = format!("is a coefficient of one posterior, and the other has only {}", from.join(", "));
        let help = Some("compare posteriors of the same columns with the same encoding".into());
        ErrorKind::Column { column: name.to_string(), what, help }.into()
    };
    if let Some(name) = ours.iter().find(|name| !theirs.contains(name)) {
        return Err(missing(theirs, name));
    }
    let place = |name: &String| ours.iter().position(|own| own == name).ok_or_else(|| missing(ours, name));
    theirs.iter().map(place).collect()
}

/// KL from one set of draws to another, each approximated by the normal distribution with its mean and covariance:
/// `½[tr(S⁻¹S̃) − D + (m̃−m)ᵀS⁻¹(m̃−m) + ln det S − ln det S̃]`. `None` if a covariance is singular.
pub fn kl_of_normals(draws: &[f64], reference: &[f64], dim: usize) -> Option<f64> {
    let (mean, covariance) = mean_and_covariance(draws, dim)?;
    let (reference_mean, reference_covariance) = mean_and_covariance(reference, dim)?;
    let factor = Cholesky::new(reference_covariance.as_ref())?;
    let own_factor = Cholesky::new(covariance.as_ref())?;
    let shift = Mat::from_fn(dim, 1, |i, _| mean[i] - reference_mean[i]);
    let (whitened, ratio) = (factor.solve(shift.clone()), factor.solve(covariance));
    let distance: f64 = (0..dim).map(|i| shift[(i, 0)] * whitened[(i, 0)]).sum();
    let trace: f64 = (0..dim).map(|i| ratio[(i, i)]).sum();
    let log_det = |factor: &Cholesky| (0..dim).map(|i| 2.0 * ln(factor.lower()[(i, i)])).sum::<f64>();
    let kl = 0.5 * (trace - dim as f64 + distance + log_det(&factor) - log_det(&own_factor));
    kl.is_finite().then_some(kl.max(0.0))
}

/// Mean and covariance of draws; `None` if there are too few for a covariance of full rank.
fn mean_and_covariance(draws: &[f64], dim: usize) -> Option<(Vec<f64>, Mat<f64>)> {
    let rows = draws.len() / dim.max(1);
    if dim == 0 || rows <= dim {
        return None;
    }
    let mut mean = vec![0.0; dim];
    for x in draws.chunks_exact(dim) {
        mean.iter_mut().zip(x).for_each(|(sum, x)| *sum += x / rows as f64);
    }
    let centred = Mat::from_fn(rows, dim, |s, i| draws[s * dim + i] - mean[i]);
    let products = product(centred.transpose(), centred.as_ref());
    let covariance = Mat::from_fn(dim, dim, |i, j| products[(i, j)] / (rows - 1) as f64);
    Some((mean, covariance))
}

/// How well a posterior predicts labelled rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// Number of rows.
    pub rows: u64,
    /// Number of draws that the scores are averaged over.
    pub draws: usize,
    /// Mean of `−ln p(y | x, θ)` over rows and draws: the paper's negative test log-likelihood.
    pub negative_log_likelihood: f64,
    /// Mean of `−ln p(y | x)` over rows, where `p` is the predictive probability: the mean over the draws.
    pub log_score: f64,
    /// Mean squared distance of the predictive probability from the label (Brier 1950).
    pub brier: f64,
}

/// Scores a posterior on the rows of an engine whose table was opened with the posterior's encoding. Uses at most `most`
/// draws, evenly spaced.
pub fn score(engine: &impl Engine, fit: &Fit, most: usize) -> Result<Scores> {
    fit.refuse_groups("scored")?;
    if most == 0 {
        return Err(Error::setting(Setting::Draws, "must be at least 1"));
    }
    let (count, wanted) = (fit.draws.len(), most.min(fit.draws.len()));
    let all: Vec<&[f64]> = fit.draws.rows().collect();
    let theta: Vec<Vec<f64>> =
        (0..wanted).map(|s| fit.encoding.from_user_scale(all[s * count / wanted])).collect();
    let sums = engine
        .run(&Scoring { encoding: Cow::Borrowed(&fit.encoding), theta: (&theta).into() })?
        .unwrap_or_default();
    if sums.rows == 0 {
        return Err(ErrorKind::NoRows { what: "there are no rows to score".to_string() }.into());
    }
    Ok(Scores {
        rows: sums.rows,
        draws: wanted,
        negative_log_likelihood: sums.loss / (sums.mass * wanted as f64),
        log_score: sums.log_score / sums.mass,
        brier: sums.brier / sums.mass,
    })
}

/// The pass that scores the predictions of all rows.
#[derive(Serialize, Deserialize)]
pub(crate) struct Scoring<'a> {
    encoding: Cow<'a, Encoding>,
    theta: Cow<'a, [Vec<f64>]>,
}

/// Weighted sums over rows.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ScoreSums {
    rows: u64,
    mass: f64,
    loss: f64,
    log_score: f64,
    brier: f64,
}

impl Pass for Scoring<'_> {
    const ID: &'static str = "score";
    const LABEL: &'static str = "scoring predictions";
    type State = ScoreSums;
    type Worker = Scratch;

    fn worker(&self) -> Scratch {
        Scratch::new(self.encoding.dim())
    }

    fn visit(&self, scratch: &mut Scratch, block: &Block) -> Result<ScoreSums> {
        require_usable(&self.encoding, block)?;
        self.encoding.check_labels(block)?;
        let encoder = self.encoding.encoder(block)?;
        let mut sums = ScoreSums { rows: block.len as u64, ..ScoreSums::default() };
        for t in 0..encoder.tiles() {
            sums.add(&encoder.tile(t, scratch), &self.theta);
        }
        Ok(sums)
    }

    fn merge(&self, state: &mut ScoreSums, next: ScoreSums) {
        state.rows += next.rows;
        state.mass += next.mass;
        state.loss += next.loss;
        state.log_score += next.log_score;
        state.brier += next.brier;
    }
}

/// Returns an error for a row with a value that cannot be used, which the scores need.
pub(crate) fn require_usable(encoding: &Encoding, block: &Block) -> Result<()> {
    let Some((row, column)) = encoding.first_unusable(block) else { return Ok(()) };
    let features = encoding.features.iter().map(|feature| &feature.column);
    let mut names = features.chain([&encoding.label.column]).chain(&encoding.weight);
    Err(ErrorKind::Column {
        column: names.nth(column).cloned().unwrap_or_default(),
        what: format!(
            "the value in {} of the test data is {}",
            row_name(block.position(row)),
            block.columns[column].show(row)
        ),
        help: Some("scores need every value: repair such rows or leave them out".into()),
    }
    .into())
}

impl ScoreSums {
    /// Adds a tile. With `z = y·x` the probability of the observed label is `1 − 1/(1+e^{z·θ})`.
    fn add(&mut self, tile: &Tile<'_>, theta: &[Vec<f64>]) {
        let (mut loss, mut miss) = (Lane::ZERO, Lane::ZERO);
        vectorized(
            #[inline(always)]
            || {
                for theta in theta {
                    let mut margin = Lane::ZERO;
                    margins(tile, theta, &mut margin);
                    for r in 0..TILE {
                        let (softplus, slope) = softplus_and_slope(margin[r]);
                        loss[r] += softplus;
                        miss[r] += slope;
                    }
                }
            },
        );
        for r in 0..tile.len {
            // The predictive probability of the other label.
            let miss = miss[r] / theta.len() as f64;
            self.mass += tile.w[r];
            self.loss += tile.w[r] * loss[r];
            self.log_score -= tile.w[r] * ln_1p(-miss);
            self.brier += tile.w[r] * miss * miss;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;

    fn normals(count: usize, rng: &mut Rng) -> Vec<f64> {
        use rand_distr::{Distribution, StandardNormal};
        (0..count).map(|_| StandardNormal.sample(rng)).collect()
    }

    #[test]
    fn the_noise_floor_matches_independent_draws() {
        // Linear kernel: MMD² is the squared distance of the means, D·4/S in expectation for halves of S independent
        // standard normal draws in D dimensions. Its relative standard deviation, by 20 blocks and D = 5, is below 0.15:
        // a factor of 2 is beyond 5 of them, a false alarm in a million.
        let mut rng = Seed(6).stream(Purpose::Chain, 0);
        let draws = normals(2_000 * 5, &mut rng);
        let found = noise_floor(&draws, 5, Kernel::Polynomial { degree: 1, offset: 0.0 });
        let expected = 5.0 * 4.0 / 2_000.0;
        assert!((0.5..2.0).contains(&(found / expected)), "{found} against {expected}");
    }

    #[test]
    fn the_kl_of_normals_is_that_of_its_formula() {
        // Axis-aligned clouds of known mean and variance: corners of a box, so that covariances are exact.
        let corners = |mean: [f64; 2], sd: [f64; 2]| -> Vec<f64> {
            // Four points ±a give the sample variance 4a²/3.
            let a = sd.map(|sd| sd * 0.75f64.sqrt());
            [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]
                .iter()
                .flat_map(|sign| [mean[0] + sign[0] * a[0], mean[1] + sign[1] * a[1]])
                .collect()
        };
        let (ours, theirs) = (corners([1.0, 0.0], [2.0, 1.0]), corners([0.0, 0.5], [1.0, 3.0]));
        let one = |m: f64, s: f64, m0: f64, s0: f64| {
            0.5 * ((s / s0).powi(2) - 1.0 + ((m - m0) / s0).powi(2) + 2.0 * (s0 / s).ln())
        };
        let expected = one(1.0, 2.0, 0.0, 1.0) + one(0.0, 1.0, 0.5, 3.0);
        let found = kl_of_normals(&ours, &theirs, 2).expect("covariances");
        assert!((found - expected).abs() < 1e-12, "{found} against {expected}");
    }

    #[test]
    fn too_few_draws_have_no_covariance() {
        assert_eq!(kl_of_normals(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 2.0, 1.0], 2), None);
    }

    #[test]
    fn scores_of_a_tile_are_those_of_the_definition() {
        let mut rng = Seed(4).stream(Purpose::Chain, 0);
        let rows: Vec<([f64; 2], f64)> = (0..5)
            .map(|_| ([6.0 * open_unit(&mut rng) - 3.0, open_unit(&mut rng)], open_unit(&mut rng)))
            .collect();
        let theta: Vec<Vec<f64>> = (0..3).map(|_| vec![open_unit(&mut rng), -open_unit(&mut rng)]).collect();
        let points = crate::data::points::Points::from_rows(2, rows.iter().map(|(z, w)| (&z[..], *w)));
        let mut sums = ScoreSums::default();
        sums.add(&points.tile(0), &theta);
        let (mut loss, mut log_score, mut brier) = (0.0, 0.0, 0.0);
        for (z, w) in &rows {
            let margins: Vec<f64> = theta.iter().map(|theta| z[0] * theta[0] + z[1] * theta[1]).collect();
            let chance = margins.iter().map(|s| 1.0 / (1.0 + (-s).exp())).sum::<f64>() / 3.0;
            loss += w * margins.iter().map(|s| (1.0 + (-s).exp()).ln()).sum::<f64>();
            log_score -= w * chance.ln();
            brier += w * (1.0 - chance).powi(2);
        }
        for (found, expected) in [(sums.loss, loss), (sums.log_score, log_score), (sums.brier, brier)] {
            assert!((found - expected).abs() < 1e-12 * expected.abs().max(1.0), "{found} against {expected}");
        }
    }
}
