//! Figure 2 and robustness to k and a: posteriors of coresets and subsamples compared with the posterior of the full data.

use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tithe::base::error::Result;
use tithe::base::progress::Silent;
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, CertificateBy, build_on};
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::Radius;
use tithe::coreset::{Coreset, Method};
use tithe::encoding::EncodingSettings;
use tithe::engine::Missing;
use tithe::mcmc::Sampler;
use tithe::mcmc::draws::{Chain, Draws, Stats};
use tithe::results::compare::{compare, score};
use tithe::results::file::{read_posterior, write_posterior};
use tithe::results::fit::{Fit, FitSettings, fit_data};
use tithe::results::fit_grouped::fit_coreset;
use tithe::results::mmd::Kernel;
use tithe::stream::tree::{ReferencePoint, Tree, TreeSettings};

use crate::approach::Approach;
use crate::data::{Data, Set, prior};
use crate::profile::{Drawing, Profile};
use crate::runner::{Cell, Context, output};

/// Number of draws used to score the test rows.
const SCORED: usize = 200;
/// Memory limit for the full data, in bytes.
const MEMORY: u64 = 8 << 30;
/// If there are at most this many distinct rows, the full data is fitted as weighted distinct rows.
const FEW_DISTINCT: usize = 1 << 12;
/// The seed of the chains for the full data.
const TRUTH_SEED: Seed = Seed(1605);

/// The posterior of the full data, computed once per data set. All other posteriors are compared with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// The data set.
    pub set: Set,
    /// Sampler settings.
    pub drawing: Drawing,
}

/// How well a posterior agrees with the posterior of the full data, and how well it predicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Squared maximum mean discrepancy (MMD²) with the degree-3 polynomial kernel.
    pub mmd_squared: f64,
    /// KL divergence between normal approximations of the draws, in nats, if it exists.
    pub kl: Option<f64>,
    /// The largest error of a posterior mean, in standard deviations of the full-data posterior.
    pub largest_shift: f64,
    /// The smallest ratio of posterior standard deviations.
    pub smallest_sd_ratio: f64,
    /// The largest ratio of posterior standard deviations.
    pub largest_sd_ratio: f64,
    /// Negative test log-likelihood per row, as in the paper.
    pub negative_log_likelihood: f64,
    /// Brier score on the test rows.
    pub brier: f64,
}

/// Summary of the full-data posterior.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TruthOutcome {
    /// Number of training rows.
    pub rows: usize,
    /// Number of test rows.
    pub test_rows: usize,
    /// Number of coefficients.
    pub dimension: usize,
    /// MMD² between the two halves of the draws.
    pub noise_floor: f64,
    /// Negative test log-likelihood per row.
    pub negative_log_likelihood: f64,
    /// Brier score on the test rows.
    pub brier: f64,
    /// Smallest bulk effective sample size of any coefficient.
    pub least_ess: f64,
    /// Quality of the Laplace approximation at the mode of the full data.
    pub laplace: Quality,
    /// Number of rows in the fit: the distinct ones if there are few.
    pub fitted_rows: u64,
}

impl Cell for Truth {
    type Outcome = TruthOutcome;
    const EXPERIMENT: &'static str = "truth";

    fn slug(&self) -> String {
        self.set.slug().to_string()
    }

    fn run(&self, context: &Context<'_>) -> Result<TruthOutcome> {
        let data = context.library.get(self.set)?;
        let engine = data.train.engine()?;
        let settings = fit_settings(&self.drawing, TRUTH_SEED);
        let exact = build_on(
            &engine,
            &BuildSettings {
                method: Method::Sensitivity,
                size: Size::Rows(FEW_DISTINCT.min(data.train.rows() / 4)),
                encoding: data.encoding.clone(),
                ..BuildSettings::default()
            },
        )?
        .coreset;
        let (fit, fitted_rows) = if exact.provenance.exact {
            (fit_coreset(&exact, &settings, &Silent)?, exact.rows.len() as u64)
        } else {
            let rows = exact.provenance.rows;
            (fit_data(&engine, &data.encoding, &settings, MEMORY)?, rows)
        };
        let laplace = FitSettings { sampler: Sampler::Laplace, ..fit_settings(&self.drawing, Seed(1)) };
        let laplace = fit_data(&engine, &data.encoding, &laplace, MEMORY)?;
        let fit = thinned(fit, &self.drawing);
        let laplace = quality(&thinned(laplace, &self.drawing), &fit, &data)?;
        let scores = score(&data.test.engine()?, &fit, SCORED)?;
        let outcome = TruthOutcome {
            rows: data.train.rows(),
            test_rows: data.test.rows(),
            dimension: fit.encoding.dim(),
            noise_floor: compare(&fit, &fit, Kernel::default())?.noise_floor,
            negative_log_likelihood: scores.negative_log_likelihood,
            brier: scores.brier,
            least_ess: fit.summary.iter().fold(f64::INFINITY, |least, s| s.ess_bulk.min(least)),
            laplace,
            fitted_rows,
        };
        write_posterior(&fit, output(&draws_path(context, self.set))?)?;
        Ok(outcome)
    }
}

/// The file with the draws for the full data.
fn draws_path(context: &Context<'_>, set: Set) -> PathBuf {
    context.cells().join("truth").join(format!("{}.parquet", set.slug()))
}

/// The posterior of a weighted subset of the rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subset {
    /// The data set.
    pub set: Set,
    /// The method.
    pub approach: Approach,
    /// Number of rows of the subset.
    pub size: usize,
    /// Number of clusters k.
    pub clusters: usize,
    /// The constant a of the radius `R = a/√I`.
    pub a: f64,
    /// Number of the repeat; also the seed.
    pub repeat: u64,
    /// Sampler settings.
    pub drawing: Drawing,
}

/// The result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubsetOutcome {
    /// Number of distinct rows.
    pub rows: usize,
    /// Comparison with the full-data posterior.
    pub quality: Quality,
    /// Seconds to build.
    pub build_seconds: f64,
    /// Seconds to sample.
    pub draw_seconds: f64,
    /// The radius R, if the method has one.
    pub radius: Option<f64>,
    /// The mean sensitivity bound, if the method has one.
    pub mean_bound: Option<f64>,
    /// The KL divergence stated by the certificate, if the method has one.
    pub certified_kl: Option<f64>,
}

impl Subset {
    /// A cell with the k and a of the paper.
    pub fn new(profile: Profile, set: Set, approach: Approach, size: usize, repeat: u64) -> Subset {
        Subset {
            set,
            approach,
            size,
            clusters: set.clusters(),
            a: 3.0,
            repeat,
            drawing: profile.drawing(set),
        }
    }

    /// The build settings. Equal rows are not merged, so that the generated binary data are treated like any other.
    pub fn build_settings(&self, data: &Data) -> BuildSettings {
        BuildSettings {
            certificate: CertificateBy::Normal,
            method: self.approach.method(),
            size: Size::Rows(self.size),
            clusters: self.clusters,
            radius: Radius::Auto(self.a),
            collapse: false,
            seed: Seed(self.repeat),
            encoding: data.encoding.clone(),
            priors: prior(),
            ..BuildSettings::default()
        }
    }
}

impl Cell for Subset {
    type Outcome = SubsetOutcome;
    const EXPERIMENT: &'static str = "posterior";

    fn slug(&self) -> String {
        format!(
            "{}-{}-m{}-k{}-a{}-r{:02}",
            self.set.slug(),
            self.approach.slug(),
            self.size,
            self.clusters,
            self.a,
            self.repeat
        )
    }

    fn run(&self, context: &Context<'_>) -> Result<SubsetOutcome> {
        let data = context.library.get(self.set)?;
        let truth = read_posterior(&draws_path(context, self.set))?;
        let start = Instant::now();
        let settings = self.build_settings(&data);
        let coreset = match self.approach {
            Approach::Stream => streamed(&data, &settings, &truth)?,
            _ => build_on(&data.train.engine()?, &settings)?.coreset,
        };
        let build_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let fit = fit_coreset(&coreset, &fit_settings(&self.drawing, Seed(self.repeat)), &Silent)?;
        let draw_seconds = start.elapsed().as_secs_f64();
        let facts = &coreset.provenance;
        let sensitivity = facts.sensitivity.as_ref();
        Ok(SubsetOutcome {
            rows: coreset.rows.len(),
            quality: quality(&thinned(fit, &self.drawing), &truth, &data)?,
            build_seconds,
            draw_seconds,
            radius: sensitivity.map(|facts| facts.radius),
            mean_bound: sensitivity.and_then(|facts| facts.mean_bound),
            certified_kl: facts.calibration.as_ref().map(|facts| facts.certificate.normal.kl),
        })
    }
}

/// Rows per block of a stream: the default of the command line, or an eighth of the data if that is less.
const BLOCK: usize = 50_000;

/// The coreset of a stream over the training rows, with the encoding of the full-data posterior.
fn streamed(data: &Data, settings: &BuildSettings, truth: &Fit) -> Result<Coreset> {
    let encoding = EncodingSettings { known: Some(truth.encoding.clone()), ..data.encoding.clone() };
    let mut tree = Tree::new(TreeSettings {
        build: BuildSettings { encoding, ..settings.clone() },
        missing: Missing::Error,
        threads: Some(1),
        reference: ReferencePoint::Renewed,
        fading: None,
    })?;
    for rows in data.train.blocks(BLOCK.min(data.train.rows().div_ceil(8))) {
        tree.push(rows, &Silent)?;
    }
    tree.snapshot(None, &Silent)
}

/// The cells of Figure 2, ordered by repeat, so that an interrupted run has results for all data sets.
pub fn figure_2(profile: Profile, sets: &[Set]) -> Vec<Subset> {
    let mut cells = Vec::new();
    for &set in sets {
        for approach in Approach::ALL {
            for repeat in 0..profile.repeats(set, approach) as u64 {
                let sizes = profile.sizes(set, approach).iter();
                cells.extend(sizes.map(|&size| Subset::new(profile, set, approach, size, repeat)));
            }
        }
    }
    cells.sort_by_key(|cell| cell.repeat);
    cells
}

/// The values of k for which the paper reports similar results.
pub const CLUSTERS: [usize; 5] = [4, 5, 6, 7, 8];
/// The values of a for which the paper reports similar results.
pub const RADII: [f64; 3] = [2.5, 3.0, 3.5];

/// The coreset size at which k and a are varied.
pub fn robustness_size(profile: Profile) -> usize {
    if profile == Profile::Quick { 1250 } else { 2500 }
}

/// The cells that vary k and a, for the paper's coreset.
pub fn robustness(profile: Profile, sets: &[Set]) -> Vec<Subset> {
    let mut cells: Vec<Subset> = Vec::new();
    for repeat in 0..profile.theory_repeats().div_ceil(2) as u64 {
        for &set in sets.iter().filter(|set| [Set::Binary10, Set::Mixture, Set::ChemReact].contains(set)) {
            let default = Subset::new(profile, set, Approach::Coreset, robustness_size(profile), repeat);
            let other_clusters = CLUSTERS.iter().map(|&clusters| Subset { clusters, ..default.clone() });
            let other_radii = RADII.iter().map(|&a| Subset { a, ..default.clone() });
            for cell in other_clusters.chain(other_radii) {
                // The default k and a are in both lists.
                if !cells.contains(&cell) {
                    cells.push(cell);
                }
            }
        }
    }
    cells
}

fn fit_settings(drawing: &Drawing, seed: Seed) -> FitSettings {
    FitSettings {
        sampler: drawing.sampler,
        priors: Some(prior()),
        group_prior: None,
        draws: drawing.settings(seed),
        threads: Some(1),
    }
}

/// Compares a posterior with the full-data posterior and scores it on the test rows.
fn quality(fit: &Fit, truth: &Fit, data: &Data) -> Result<Quality> {
    let compared = compare(fit, truth, Kernel::default())?;
    let scores = score(&data.test.engine()?, fit, SCORED)?;
    let (smallest_sd_ratio, largest_sd_ratio) = compared.sd_ratio_range();
    Ok(Quality {
        mmd_squared: compared.mmd_squared,
        kl: compared.kl,
        largest_shift: compared.largest_shift(),
        smallest_sd_ratio,
        largest_sd_ratio,
        negative_log_likelihood: scores.negative_log_likelihood,
        brier: scores.brier,
    })
}

/// Thins the draws to an evenly spaced selection. The summaries remain those of all draws.
fn thinned(fit: Fit, drawing: &Drawing) -> Fit {
    let (each, kept) = (fit.draws.draws_per_chain(), drawing.thinned_draws / drawing.chains.max(1));
    if kept >= each || kept == 0 {
        return fit;
    }
    let dim = fit.draws.dim();
    let thin = |chain: &Chain| {
        let positions = || (0..kept).map(|s| s * each / kept);
        Chain {
            theta: positions().flat_map(|s| chain.theta[s * dim..(s + 1) * dim].iter().copied()).collect(),
            lp: positions().map(|s| chain.lp[s]).collect(),
            stats: Stats::Independent,
        }
    };
    let draws = Draws { names: fit.draws.names.clone(), chains: fit.draws.chains.iter().map(thin).collect() };
    Fit { draws, ..fit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Library, Part, plain_encoding};
    use crate::runner::testing::Log;

    /// 400 training and 100 test rows with two features.
    fn data() -> Data {
        let columns = crate::theory::two_feature_data(500, 1.0);
        let part = |rows: std::ops::Range<usize>| {
            let columns = columns.iter().map(|(name, v)| (name.clone(), v[rows.clone()].to_vec()));
            Part::new(columns.collect()).expect("a part")
        };
        let (train, test) = (part(0..400), part(400..500));
        Data { set: Set::Binary5, title: String::new(), train, test, encoding: plain_encoding() }
    }

    fn drawing(chains: usize, draws: usize, thinned_draws: usize) -> Drawing {
        Drawing { sampler: Sampler::Laplace, chains, warmup: 0, draws, thinned_draws }
    }

    fn fit(data: &Data, drawing: &Drawing, seed: u64) -> Fit {
        let engine = data.train.engine().expect("an engine");
        let settings = fit_settings(drawing, Seed(seed));
        fit_data(&engine, &data.encoding, &settings, MEMORY).expect("a posterior")
    }

    #[test]
    fn a_posterior_agrees_with_itself() {
        let data = data();
        let own = fit(&data, &drawing(2, 200, 400), 1);
        let quality = quality(&own, &own, &data).expect("a comparison");
        assert!(
            quality.mmd_squared.abs() < 1e-9 && quality.kl.is_some_and(|kl| kl.abs() < 1e-9),
            "{quality:?}"
        );
        assert_eq!(
            (quality.largest_shift, quality.smallest_sd_ratio, quality.largest_sd_ratio),
            (0.0, 1.0, 1.0)
        );
    }

    #[test]
    fn a_shifted_posterior_has_the_error_of_the_shift() {
        let data = data();
        let truth = fit(&data, &drawing(1, 400, 400), 1);
        let dim = truth.draws.dim();
        // Half a standard deviation in the second coefficient.
        let values: Vec<f64> = truth.draws.chains[0].theta.iter().skip(1).step_by(dim).copied().collect();
        let sd = crate::page::mean_and_sd(&values).1.expect("a deviation");
        let mut moved = truth.clone();
        moved.draws.chains[0].theta.iter_mut().skip(1).step_by(dim).for_each(|x| *x += 0.5 * sd);
        moved.summary.iter_mut().skip(1).for_each(|summary| summary.mean += 0.5 * sd);
        let quality = quality(&moved, &truth, &data).expect("a comparison");
        assert!((quality.largest_shift - 0.5).abs() < 1e-6, "{quality:?}");
        assert!(
            (quality.smallest_sd_ratio - 1.0).abs() < 1e-9 && (quality.largest_sd_ratio - 1.0).abs() < 1e-9
        );
        // KL of two normal distributions with equal covariance: half the squared Mahalanobis distance of the means. It is
        // smallest, ½·0.5², for uncorrelated coefficients.
        let kl = quality.kl.expect("a divergence");
        assert!((0.125 - 1e-9..0.5).contains(&kl), "{kl}");
        assert!(quality.mmd_squared > 0.0);
    }

    #[test]
    fn predictions_are_scored_on_the_test_rows() {
        // The mean over test rows and draws of −ln p(y | x, θ), with all draws.
        let data = data();
        let own = fit(&data, &drawing(1, SCORED, SCORED), 1);
        let found = quality(&own, &own, &data).expect("a comparison").negative_log_likelihood;
        let test = crate::theory::points_of(&crate::theory::two_feature_data(500, 1.0));
        let mut total = 0.0;
        for theta in own.draws.chains[0].theta.chunks(2) {
            for row in 400..500 {
                total += crate::theory::softplus(crate::theory::dot(&test.row(row), theta));
            }
        }
        let expected = total / (100 * SCORED) as f64;
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} and {expected}");
    }

    #[test]
    fn thinning_keeps_evenly_spaced_draws() {
        let data = data();
        let full = fit(&data, &drawing(2, 10, 20), 1);
        // 8 of 20 draws, 4 per chain: numbers 0, 2, 5 and 7.
        let thin = thinned(full.clone(), &drawing(2, 10, 8));
        assert_eq!((thin.draws.chains.len(), thin.draws.draws_per_chain()), (2, 4));
        for (thin, full) in thin.draws.chains.iter().zip(&full.draws.chains) {
            let expected: Vec<f64> =
                [0, 2, 5, 7].iter().flat_map(|&s| full.theta[2 * s..2 * s + 2].to_vec()).collect();
            assert_eq!(thin.theta, expected);
            assert_eq!(thin.lp, [0, 2, 5, 7].map(|s| full.lp[s]));
        }
        assert_eq!(thin.summary, full.summary);
        assert_eq!(thinned(full.clone(), &drawing(2, 10, 20)).draws.draws_per_chain(), 10);
        assert_eq!(thinned(full, &drawing(2, 10, 0)).draws.draws_per_chain(), 10);
    }

    #[test]
    fn coresets_have_the_settings_of_the_paper() {
        let cell = Subset::new(Profile::Full, Set::CovType, Approach::Coreset, 625, 7);
        assert_eq!((cell.clusters, cell.a), (6, 3.0));
        let settings = cell.build_settings(&data());
        assert_eq!((settings.clusters, settings.seed, settings.collapse), (6, Seed(7), false));
        assert!(matches!(settings.size, Size::Rows(625)));
        assert!(matches!(settings.radius, Radius::Auto(a) if a == 3.0));
    }

    #[test]
    fn figure_2_has_one_cell_per_setting_and_starts_with_the_first_repeats() {
        let cells = figure_2(Profile::Full, &Set::ALL);
        assert_eq!(cells.len(), 6 * 4 * 20 * 7);
        let mut slugs: Vec<String> = cells.iter().map(Subset::slug).collect();
        slugs.sort_unstable();
        slugs.dedup();
        assert_eq!(slugs.len(), cells.len());
        assert!(cells.windows(2).all(|pair| pair[0].repeat <= pair[1].repeat));
    }

    #[test]
    fn robustness_varies_one_setting_at_a_time() {
        let cells = robustness(Profile::Full, &Set::ALL);
        assert!(cells.iter().all(|cell| cell.a == 3.0 || cell.clusters == cell.set.clusters()));
        for set in [Set::Binary10, Set::Mixture, Set::ChemReact] {
            for clusters in CLUSTERS {
                assert!(
                    cells.iter().any(|cell| cell.set == set && cell.clusters == clusters && cell.a == 3.0)
                );
            }
            for a in RADII {
                assert!(cells.iter().any(|cell| cell.set == set && cell.a == a));
            }
        }
        assert!(cells.iter().all(|cell| ![Set::Binary5, Set::Webspam, Set::CovType].contains(&cell.set)));
        let has_duplicates = cells.iter().enumerate().any(|(at, cell)| cells[..at].contains(cell));
        assert!(!has_duplicates, "{} cells", cells.len());
        assert!(
            cells.is_sorted_by_key(|cell| cell.repeat),
            "a run that stops early has all cells of a repeat"
        );
    }

    #[test]
    fn calibrated_coresets_are_closer_to_the_full_posterior_than_uniform_subsamples() {
        // Binary5 with 20,000 rows and coresets of 312. With seeds 0 to 9 the ratio of the two MMD² was between 5e-7 and 1e-3; the
        // limit is 1e-2.
        let folder = tempfile::tempdir().expect("a directory");
        let log = Log::default();
        let context = Context {
            profile: Profile::Quick,
            library: Library::new(None, Profile::Quick),
            folder: folder.path().to_path_buf(),
            threads: 2,
            deadline: None,
            watch: &log,
        };
        let truth = Truth { set: Set::Binary5, drawing: Profile::Quick.drawing(Set::Binary5) };
        let truth = context.run(&[truth]).expect("the full posterior").done.remove(0).outcome;
        assert_eq!((truth.rows, truth.test_rows, truth.dimension), (20_000, 1_000, 5));
        // Five binary columns, one of them constant, and the label: at most 32 distinct rows.
        assert!(truth.fitted_rows <= 32, "{}", truth.fitted_rows);
        let cell = |approach| Subset::new(Profile::Quick, Set::Binary5, approach, 312, 0);
        let cells = Approach::ALL.map(cell);
        let done = context.run(&cells).expect("posteriors").done;
        assert_eq!(done.len(), 4, "{:?}", log.failures.lock());
        let mmd = |approach: Approach| {
            let found = done.iter().find(|done| done.cell.approach == approach);
            found.map(|done| done.outcome.quality.mmd_squared).expect("a cell")
        };
        for approach in [Approach::Calibrated, Approach::Stream] {
            assert!(mmd(approach) < 0.01 * mmd(Approach::Uniform), "{approach:?}: {}", mmd(approach));
        }
        assert!(done.iter().all(|done| done.outcome.rows <= 312));
        let of =
            |approach: Approach| done.iter().find(|d| d.cell.approach == approach).map(|d| d.outcome.clone());
        assert!(of(Approach::Coreset).is_some_and(|o| o.radius.is_some() && o.mean_bound.is_some()));
        assert!(of(Approach::Calibrated).is_some_and(|o| o.certified_kl.is_some_and(|kl| kl < 0.01)));
    }
}
