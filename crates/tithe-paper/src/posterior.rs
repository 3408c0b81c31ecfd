//! Figure 2 and the robustness to k and a: posteriors of a few rows against the full data's.

use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tithe::base::error::Result;
use tithe::base::progress::Silent;
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::Radius;
use tithe::coreset::{Coreset, Method};
use tithe::encoding::survey::EncodingSettings;
use tithe::engine::Missing;
use tithe::mcmc::Sampler;
use tithe::mcmc::draws::{Chain, Draws, Stats};
use tithe::results::compare::{compare, score};
use tithe::results::file::{read_posterior, write_posterior};
use tithe::results::fit::{Fit, FitSettings, fit_coreset, fit_data};
use tithe::results::mmd::Kernel;
use tithe::stream::tree::{ReferencePoint, Tree, TreeSettings};

use crate::approach::Approach;
use crate::data::{Data, Set};
use crate::profile::{Drawing, Profile};
use crate::runner::{Cell, Context, output};

/// Draws by which test rows are scored.
const SCORED: usize = 200;
/// Bytes of points that the full data may take.
const MEMORY: u64 = 8 << 30;
/// Distinct rows up to which the full data is fitted as these.
const FEW_DISTINCT: usize = 1 << 12;
/// The seed of the truth's chains.
const TRUTH_SEED: Seed = Seed(1605);

/// The full data's posterior: drawn once for each set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// The set.
    pub set: Set,
    /// How it is drawn.
    pub drawing: Drawing,
}

/// What a posterior is like, against the full data's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Squared discrepancy of the degree-3 polynomial kernel.
    pub mmd_squared: f64,
    /// KL of normal fits, in nats, where there is one.
    pub kl: Option<f64>,
    /// The largest error of a mean, in the full posterior's standard deviations.
    pub largest_shift: f64,
    /// The smallest ratio of standard deviations.
    pub smallest_sd_ratio: f64,
    /// The largest.
    pub largest_sd_ratio: f64,
    /// The paper's negative test log-likelihood.
    pub negative_log_likelihood: f64,
    /// Brier score on the test rows.
    pub brier: f64,
}

/// What is known of the truth.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TruthOutcome {
    /// Training rows.
    pub rows: usize,
    /// Test rows.
    pub test_rows: usize,
    /// Coefficients.
    pub dimension: usize,
    /// MMD² of the two halves of the run.
    pub noise_floor: f64,
    /// Negative test log-likelihood of the full data's posterior.
    pub negative_log_likelihood: f64,
    /// Its Brier score.
    pub brier: f64,
    /// The fewest effective draws of any coefficient.
    pub least_ess: f64,
    /// The normal approximation at the full data's mode.
    pub laplace: Quality,
    /// Rows that the fit took: distinct ones where there are few.
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
        let fit = looked_at(fit, &self.drawing);
        let laplace = judge(&looked_at(laplace, &self.drawing), &fit, &data)?;
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

/// Where the full data's draws are kept.
fn draws_path(context: &Context<'_>, set: Set) -> PathBuf {
    context.cells().join("truth").join(format!("{}.parquet", set.slug()))
}

/// The posterior of a few rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Few {
    /// The set.
    pub set: Set,
    /// How the rows are chosen and weighed.
    pub approach: Approach,
    /// How many.
    pub size: usize,
    /// Number of clusters k.
    pub clusters: usize,
    /// The constant a of the radius `R = a/√I`.
    pub a: f64,
    /// The repeat, which is the seed.
    pub repeat: u64,
    /// How it is drawn.
    pub drawing: Drawing,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FewOutcome {
    /// Distinct rows.
    pub rows: usize,
    /// Against the full data's posterior.
    pub quality: Quality,
    /// Seconds to build.
    pub build_seconds: f64,
    /// Seconds to draw.
    pub draw_seconds: f64,
    /// The radius R, where the approach has one.
    pub radius: Option<f64>,
    /// The mean sensitivity bound, where the approach has one.
    pub mean_bound: Option<f64>,
    /// The certificate's KL, where the approach has one.
    pub certified_kl: Option<f64>,
}

impl Few {
    /// A cell with the paper's k and a.
    pub fn new(profile: Profile, set: Set, approach: Approach, size: usize, repeat: u64) -> Few {
        Few { set, approach, size, clusters: set.clusters(), a: 3.0, repeat, drawing: profile.drawing(set) }
    }

    /// The settings of the build; equal rows are not merged, so that the generated binary sets are data like any other.
    pub fn build_settings(&self, data: &Data) -> BuildSettings {
        BuildSettings {
            method: self.approach.method(),
            size: Size::Rows(self.size),
            clusters: self.clusters,
            radius: Radius::Auto(self.a),
            collapse: false,
            seed: Seed(self.repeat),
            encoding: data.encoding.clone(),
            ..BuildSettings::default()
        }
    }
}

impl Cell for Few {
    type Outcome = FewOutcome;
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

    fn run(&self, context: &Context<'_>) -> Result<FewOutcome> {
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
        Ok(FewOutcome {
            rows: coreset.rows.len(),
            quality: judge(&looked_at(fit, &self.drawing), &truth, &data)?,
            build_seconds,
            draw_seconds,
            radius: sensitivity.map(|facts| facts.radius),
            mean_bound: sensitivity.and_then(|facts| facts.mean_bound),
            certified_kl: facts.calibration.as_ref().map(|facts| facts.certificate.kl),
        })
    }
}

/// Rows of a block of a stream: the program's own default, or an eighth of the data where that is less.
const BLOCK: usize = 50_000;

/// The coreset of one reading, block by block, with the truth's encoding.
fn streamed(data: &Data, settings: &BuildSettings, truth: &Fit) -> Result<Coreset> {
    let encoding = EncodingSettings { known: Some(truth.encoding.clone()), ..data.encoding.clone() };
    let mut tree = Tree::new(TreeSettings {
        build: BuildSettings { encoding, ..settings.clone() },
        missing: Missing::Error,
        threads: Some(1),
        reference: ReferencePoint::Renewed,
    })?;
    for rows in data.train.blocks(BLOCK.min(data.train.rows().div_ceil(8))) {
        tree.push(rows, &Silent)?;
    }
    tree.snapshot(None, &Silent)
}

/// The cells of Figure 2, the first repeats of all sets first.
pub fn figure_2(profile: Profile, sets: &[Set]) -> Vec<Few> {
    let mut cells = Vec::new();
    for &set in sets {
        for approach in Approach::ALL {
            for repeat in 0..profile.repeats(set, approach) as u64 {
                let sizes = profile.sizes(set, approach).iter();
                cells.extend(sizes.map(|&size| Few::new(profile, set, approach, size, repeat)));
            }
        }
    }
    cells.sort_by_key(|cell| cell.repeat);
    cells
}

/// The values of k and of a whose results the paper found to be similar.
pub const CLUSTERS: [usize; 5] = [4, 5, 6, 7, 8];
/// See [`CLUSTERS`].
pub const RADII: [f64; 3] = [2.5, 3.0, 3.5];

/// The size at which they are compared.
pub fn robustness_size(profile: Profile) -> usize {
    if profile == Profile::Quick { 1250 } else { 2500 }
}

/// The cells that vary k and a, for the paper's coreset.
pub fn robustness(profile: Profile, sets: &[Set]) -> Vec<Few> {
    let mut cells: Vec<Few> = Vec::new();
    for repeat in 0..profile.theory_repeats().div_ceil(2) as u64 {
        for &set in sets.iter().filter(|set| [Set::Binary10, Set::Mixture, Set::ChemReact].contains(set)) {
            let usual = Few::new(profile, set, Approach::Coreset, robustness_size(profile), repeat);
            cells.extend(CLUSTERS.iter().map(|&clusters| Few { clusters, ..usual.clone() }));
            cells.extend(RADII.iter().map(|&a| Few { a, ..usual.clone() }));
        }
    }
    cells.sort_by_key(|cell| cell.repeat);
    cells.dedup();
    cells
}

fn fit_settings(drawing: &Drawing, seed: Seed) -> FitSettings {
    FitSettings {
        sampler: drawing.sampler,
        draws: drawing.settings(seed),
        threads: Some(1),
        ..FitSettings::default()
    }
}

/// A posterior against the full data's, and on the test rows.
fn judge(fit: &Fit, truth: &Fit, data: &Data) -> Result<Quality> {
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

/// The draws that are looked at, evenly spaced; summaries stay those of all draws.
fn looked_at(fit: Fit, drawing: &Drawing) -> Fit {
    let (each, kept) = (fit.draws.draws_per_chain(), drawing.looked_at / drawing.chains.max(1));
    if kept >= each || kept == 0 {
        return fit;
    }
    let dim = fit.draws.dim();
    let thin = |chain: &Chain| {
        let places = || (0..kept).map(|s| s * each / kept);
        Chain {
            theta: places().flat_map(|s| chain.theta[s * dim..(s + 1) * dim].iter().copied()).collect(),
            lp: places().map(|s| chain.lp[s]).collect(),
            stats: Stats::Independent,
        }
    };
    let draws = Draws { names: fit.draws.names.clone(), chains: fit.draws.chains.iter().map(thin).collect() };
    Fit { draws, ..fit }
}
