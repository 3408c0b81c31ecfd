//! Posteriors by every sampler against independent answers.

use rand_distr::{Distribution, StandardNormal};
use serde::Deserialize;
use tithe::base::progress::{Event, Observer, Silent};
use tithe::base::rng::{Purpose, Rng, Seed, open_unit};
use tithe::data::points::Points;
use tithe::mcmc::diagnostics;
use tithe::mcmc::draws::{Draws, Stats};
use tithe::mcmc::findings::{self, Trouble};
use tithe::mcmc::{self, Sampler, Settings};
use tithe::model::{LogDensity, Posterior, Prior, Priors};

#[derive(Deserialize)]
struct Oracle {
    sets: Vec<Set>,
}

#[derive(Deserialize)]
struct Set {
    name: String,
    z: Vec<Vec<f64>>,
    w: Vec<f64>,
    posteriors: Vec<Known>,
}

#[derive(Deserialize)]
struct Known {
    prior: (String, f64),
    map: Vec<f64>,
    laplace_cov: Vec<Vec<f64>>,
    mean: Vec<f64>,
    sd: Vec<f64>,
    mcse_mean: Vec<f64>,
    mcse_sd: Vec<f64>,
    log_likelihood_at_map: f64,
}

/// Calls `check` with every posterior of the oracle.
fn every_known_posterior(check: impl Fn(&str, &Points, &Priors, &Known)) {
    let oracle: Oracle = serde_json::from_str(include_str!("fixtures/posterior.json"))
        .expect("a fixture of the expected form");
    for set in &oracle.sets {
        let dim = set.z[0].len();
        let points = Points::from_rows(dim, set.z.iter().map(Vec::as_slice).zip(set.w.iter().copied()));
        for known in &set.posteriors {
            let words = format!("{}:{}", known.prior.0, known.prior.1);
            let priors = Priors::same(words.parse().expect("a known prior"), dim);
            check(&format!("{}, {words}", set.name), &points, &priors, known);
        }
    }
}

fn names(dim: usize) -> Vec<String> {
    (0..dim).map(|i| format!("x{i}")).collect()
}

fn draw(points: &Points, priors: &Priors, sampler: Sampler, settings: &Settings) -> Draws {
    let posterior = Posterior::new(points, priors).expect("priors of the points' dimension");
    let approximation = posterior.laplace().expect("a mode");
    mcmc::run(&posterior, &names(points.dim()), &approximation, sampler, settings, &Silent).expect("draws")
}

#[test]
fn modes_and_covariances_are_exact() {
    every_known_posterior(|name, points, priors, known| {
        let posterior = Posterior::new(points, priors).expect("priors of the points' dimension");
        let laplace = posterior.laplace().expect("a mode");
        for i in 0..points.dim() {
            assert!((laplace.mean()[i] - known.map[i]).abs() < 1e-8, "{name}: mode {:?}", laplace.mean());
            for j in 0..points.dim() {
                let (ours, theirs) = (laplace.covariance(i, j), known.laplace_cov[i][j]);
                assert!((ours / theirs - 1.0).abs() < 1e-8, "{name}: covariance {ours} against {theirs}");
            }
        }
        let value = tithe::model::likelihood::value(points, &known.map);
        assert!((value / known.log_likelihood_at_map - 1.0).abs() < 1e-12, "{name}: {value}");
    });
}

/// Means and sds within 4 combined Monte Carlo errors: 36 comparisons per sampler, so a correct sampler fails for
/// fewer than one seed in 400.
fn moments_agree(sampler: Sampler, settings: Settings) {
    every_known_posterior(|name, points, priors, known| {
        let draws = draw(points, priors, sampler, &settings);
        for (i, ours) in diagnostics::summary(&draws).iter().enumerate() {
            assert!(ours.r_hat < 1.02, "{name}, {}: {ours:?}", ours.name);
            let error = (ours.mean - known.mean[i]) / ours.mcse_mean.hypot(known.mcse_mean[i]);
            assert!(
                error.abs() < 4.0,
                "{name}, {}: mean {} has an error of {error} standard errors",
                ours.name,
                ours.mean
            );
            let error = (ours.sd - known.sd[i]) / ours.mcse_sd.hypot(known.mcse_sd[i]);
            assert!(
                error.abs() < 4.0,
                "{name}, {}: sd {} has an error of {error} standard errors",
                ours.name,
                ours.sd
            );
        }
    });
}

#[test]
fn nuts_finds_the_known_moments() {
    moments_agree(Sampler::Nuts, Settings { draws: 4000, ..Settings::default() });
}

#[test]
fn preconditioned_mala_finds_the_known_moments() {
    let settings = Settings { draws: 10_000, warmup: 10_000, ..Settings::default() };
    moments_agree(Sampler::Mala { preconditioned: true }, settings);
}

#[test]
fn plain_mala_from_zero_finds_the_known_moments() {
    let settings = Settings { draws: 20_000, warmup: 20_000, ..Settings::default() };
    moments_agree(Sampler::Mala { preconditioned: false }, settings);
}

#[test]
fn laplace_draws_have_the_laplace_moments() {
    every_known_posterior(|name, points, priors, known| {
        let draws = draw(points, priors, Sampler::Laplace, &Settings { draws: 5000, ..Settings::default() });
        for (i, ours) in diagnostics::summary(&draws).iter().enumerate() {
            // 5 errors: fewer than one seed in 30,000 fails.
            assert!((ours.mean - known.map[i]).abs() < 5.0 * ours.mcse_mean, "{name}: {ours:?}");
            assert!(
                (ours.sd - known.laplace_cov[i][i].sqrt()).abs() < 5.0 * ours.mcse_sd,
                "{name}: {ours:?}"
            );
        }
        assert!(draws.chains.iter().all(|chain| chain.stats == Stats::Independent));
    });
}

/// Rows with labels drawn from the model, as `z`.
fn simulated(rng: &mut Rng, theta: &[f64], rows: usize) -> Points {
    let mut points = Points::new(theta.len());
    for _ in 0..rows {
        let x: Vec<f64> = theta.iter().map(|_| StandardNormal.sample(rng)).collect();
        let s: f64 = x.iter().zip(theta).map(|(x, t)| x * t).sum();
        let sign = if open_unit(rng) <= 1.0 / (1.0 + (-s).exp()) { 1.0 } else { -1.0 };
        points.push(&x.iter().map(|x| sign * x).collect::<Vec<f64>>(), 1.0);
    }
    points
}

/// Simulation-based calibration (Talts et al. 2018): with θ from the prior and data from θ, the rank of θ among
/// posterior draws is uniform. 200 replications, 10 bins, χ² with 9 degrees of freedom for each of three coefficients
/// and for the log-density; 31.7 is its 99.98 % quantile, so a correct sampler fails for one seed in 1000.
fn ranks_are_uniform(sampler: Sampler, settings: Settings, thin: usize) {
    const REPLICATIONS: u64 = 200;
    const BINS: usize = 10;
    let dim = 3;
    let priors = Priors::same(Prior::Normal { scale: 1.5 }, dim);
    let mut counts = vec![[0u32; BINS]; dim + 1];
    for replication in 0..REPLICATIONS {
        let mut rng = Seed(99).stream(Purpose::Generate, replication);
        let theta: Vec<f64> = (0..dim)
            .map(|_| {
                let z: f64 = StandardNormal.sample(&mut rng);
                1.5 * z
            })
            .collect();
        let points = simulated(&mut rng, &theta, 25);
        let settings = Settings { chains: 1, seed: Seed(1000 + replication), ..settings };
        let draws = draw(&points, &priors, sampler, &settings);
        let kept: Vec<&[f64]> = draws.rows().skip(thin - 1).step_by(thin).collect();
        // 99 draws give 100 ranks, ten per bin.
        assert_eq!(kept.len(), 99);
        for i in 0..dim {
            let rank = kept.iter().filter(|draw| draw[i] < theta[i]).count();
            counts[i][rank * BINS / 100] += 1;
        }
        let posterior = Posterior::new(&points, &priors).expect("priors of the points' dimension");
        let truth = posterior.value_and_gradient(&theta, &mut vec![0.0; dim], &mut Vec::new());
        let lp = &draws.chains[0].lp;
        let rank = lp.iter().skip(thin - 1).step_by(thin).filter(|lp| **lp < truth).count();
        counts[dim][rank * BINS / 100] += 1;
    }
    let expected = REPLICATIONS as f64 / BINS as f64;
    for (i, counts) in counts.iter().enumerate() {
        let chi_square: f64 = counts.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
        assert!(chi_square < 31.7, "quantity {i}: χ² = {chi_square}, ranks {counts:?}");
    }
}

#[test]
fn nuts_is_calibrated() {
    ranks_are_uniform(Sampler::Nuts, Settings { draws: 4 * 99, warmup: 200, ..Settings::default() }, 4);
}

#[test]
fn mala_is_calibrated() {
    let settings = Settings { draws: 20 * 99, warmup: 1000, ..Settings::default() };
    ranks_are_uniform(Sampler::Mala { preconditioned: true }, settings, 20);
}

/// Spike-and-slab by Gibbs on its indicator form: indicators given coefficients, then each coefficient given its
/// indicator by random-walk Metropolis steps. Returns a series of indicators and of coefficients.
fn by_gibbs(
    points: &Points,
    spike: f64,
    slab: f64,
    inclusion: f64,
    sweeps: usize,
) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let dim = points.dim();
    let rows: Vec<Vec<f64>> = (0..points.len()).map(|n| points.row(n)).collect();
    let weights = points.weights();
    let mut rng = Seed(77).stream(Purpose::Generate, 0);
    let mut theta = vec![0.0f64; dim];
    let mut margins = vec![0.0f64; rows.len()];
    let mut included = vec![true; dim];
    let (mut indicators, mut coefficients) = (vec![Vec::new(); dim], vec![Vec::new(); dim]);
    let burn_in = sweeps / 10;
    for sweep in 0..sweeps + burn_in {
        for d in 0..dim {
            let density = |scale: f64| (-0.5 * (theta[d] / scale).powi(2)).exp() / scale;
            let (wide, narrow) = (inclusion * density(slab), (1.0 - inclusion) * density(spike));
            included[d] = open_unit(&mut rng) * (wide + narrow) <= wide;
            let scale = if included[d] { slab } else { spike };
            // Proposals of several widths, for the spike and for the slab.
            for width in [0.05, 0.2, 0.6] {
                let noise: f64 = StandardNormal.sample(&mut rng);
                let change = width * noise;
                let moved = theta[d] + change;
                let mut log_ratio = 0.5 * ((theta[d] / scale).powi(2) - (moved / scale).powi(2));
                for ((row, w), s) in rows.iter().zip(&weights).zip(&margins) {
                    log_ratio += w * ((-s).exp().ln_1p() - (-s - change * row[d]).exp().ln_1p());
                }
                if open_unit(&mut rng).ln() <= log_ratio {
                    theta[d] = moved;
                    for (s, row) in margins.iter_mut().zip(&rows) {
                        *s += change * row[d];
                    }
                }
            }
            if sweep >= burn_in {
                indicators[d].push(f64::from(u8::from(included[d])));
                coefficients[d].push(theta[d]);
            }
        }
    }
    (indicators, coefficients)
}

#[test]
fn spike_and_slab_finds_the_three_true_coefficients_and_agrees_with_gibbs() {
    let truth = [1.5, -1.2, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let points = simulated(&mut Seed(5).stream(Purpose::Generate, 0), &truth, 200);
    let prior: Prior = "spike-slab:0.1:3:0.3".parse().expect("a prior");
    let priors = Priors::same(prior, 10);
    let draws = draw(&points, &priors, Sampler::Nuts, &Settings { draws: 5000, ..Settings::default() });
    let (indicators, coefficients) = by_gibbs(&points, 0.1, 3.0, 0.3, 8_000);
    for d in 0..10 {
        let series = draws.map(|theta| prior.inclusion_probability(theta[d]).expect("it has a slab"));
        let inclusion = diagnostics::summarise("inclusion", &series);
        assert!(if d < 3 { inclusion.mean > 0.95 } else { inclusion.mean < 0.5 }, "{d}: {inclusion:?}");
        let ours = diagnostics::summarise("x", &draws.coefficient(d));
        assert!(ours.r_hat < 1.02, "{ours:?}");
        // Twenty comparisons within 4.5 combined errors: a correct answer fails for one seed in 7000. The standard error of an
        // indicator that never changes is 0; an excursion lasts some ten sweeps, so 10/8000 is its resolution.
        // (With 150,000 sweeps, which are too slow for this test, all agree within a tenth of that.)
        let (share, mean) = (
            diagnostics::summarise("share", &indicators[d..=d]),
            diagnostics::summarise("mean", &coefficients[d..=d]),
        );
        let error = inclusion.mcse_mean.hypot(share.mcse_mean).max(10.0 / 8000.0);
        assert!((inclusion.mean - share.mean).abs() < 4.5 * error, "{d}: {inclusion:?} by Gibbs {share:?}");
        let error = ours.mcse_mean.hypot(mean.mcse_mean);
        assert!((ours.mean - mean.mean).abs() < 4.5 * error, "{d}: {ours:?} by Gibbs {mean:?}");
        assert!(share.mcse_mean < 0.03, "{d}: Gibbs has converged well enough for the comparison: {share:?}");
    }
}

#[test]
fn threads_do_not_change_the_draws() {
    let points = simulated(&mut Seed(6).stream(Purpose::Generate, 0), &[1.0, -0.5], 150);
    let priors = Priors::same(Prior::Cauchy { scale: 2.5 }, 2);
    let settings = Settings { draws: 100, warmup: 100, ..Settings::default() };
    for sampler in [
        Sampler::Nuts,
        Sampler::Mala { preconditioned: true },
        Sampler::Mala { preconditioned: false },
        Sampler::Laplace,
    ] {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| draw(&points, &priors, sampler, &settings))
        };
        assert_eq!(with(1), with(2), "{sampler}");
        let other = draw(&points, &priors, sampler, &Settings { seed: Seed(2), ..settings });
        assert_ne!(other, with(1), "{sampler}: the seed matters");
        let one = with(1);
        assert_ne!(one.chains[0].theta, one.chains[1].theta, "{sampler}: chains differ");
    }
}

#[test]
fn heavy_tails_are_explored() {
    // No rows: the posterior is the prior, here a t with 3 degrees. Quantiles of |t₃|: 50 % 0.7649, 90 % 2.3534.
    let points = Points::new(2);
    let priors = Priors::same(Prior::StudentT { degrees: 3.0, scale: 1.0 }, 2);
    let draws = draw(&points, &priors, Sampler::Nuts, &Settings { draws: 5000, ..Settings::default() });
    for i in 0..2 {
        let series = draws.coefficient(i);
        for (limit, mass) in [(0.7649, 0.5), (2.3534, 0.9)] {
            let inside: Vec<Vec<f64>> = series
                .iter()
                .map(|chain| chain.iter().map(|x| f64::from(u8::from(x.abs() < limit))).collect())
                .collect();
            let share = diagnostics::summarise("inside", &inside);
            // Four comparisons within 4.5 errors: fewer than one seed in 30,000 fails.
            assert!((share.mean - mass).abs() < 4.5 * share.mcse_mean, "{limit}: {share:?}");
        }
    }
}

/// Three rows of a rare level, all of one class: the posterior of its coefficient drops within 1/150 of the prior's width.
/// The step size must not adapt as if trajectories that reach this drop were fine.
#[test]
fn a_level_that_separates_the_classes_makes_few_trajectories_diverge() {
    const ROWS: usize = 41_000;
    let share = 3.0 / ROWS as f64;
    let scale = (share * (1.0 - share)).sqrt();
    let (absent, present) = (-share / scale, (1.0 - share) / scale);
    let mut rng = Seed(5).stream(Purpose::Clustering, 0);
    let mut points = Points::new(3);
    let mut push = |level: f64, y: f64, w: f64| {
        let x: f64 = StandardNormal.sample(&mut rng);
        points.push(&[y, y * x, y * level], w);
    };
    push(present, -1.0, 3.0);
    for n in 0..400 {
        push(absent, if n % 9 == 0 { 1.0 } else { -1.0 }, 100.0);
    }
    let priors = Priors::same("normal:2".parse().expect("a prior"), 3);
    let draws = draw(&points, &priors, Sampler::Nuts, &Settings::default());
    for chain in &draws.chains {
        let Stats::Hamiltonian { diverging, .. } = &chain.stats else { panic!("NUTS") };
        let count = diverging.iter().filter(|diverging| **diverging).count();
        assert!(count * 50 < diverging.len(), "{count} of {}", diverging.len());
    }
    let summary = diagnostics::summary(&draws);
    assert!(summary.iter().all(|c| c.r_hat < 1.02), "{summary:?}");
}

#[test]
fn invalid_settings_are_rejected() {
    let points = simulated(&mut Seed(7).stream(Purpose::Generate, 0), &[1.0], 20);
    let priors = Priors::same(Prior::Normal { scale: 1.0 }, 1);
    let posterior = Posterior::new(&points, &priors).expect("priors of the points' dimension");
    let approximation = posterior.laplace().expect("a mode");
    let run = |settings: Settings| {
        mcmc::run(&posterior, &names(1), &approximation, Sampler::Nuts, &settings, &Silent)
            .expect_err("it makes no sense")
            .to_string()
    };
    assert_eq!(run(Settings { draws: 0, ..Settings::default() }), "draws must be at least 1");
    assert_eq!(run(Settings { chains: 0, ..Settings::default() }), "chains must be at least 1");
    assert!(Posterior::new(&points, &Priors::same(Prior::Flat, 2)).is_err());
    assert!(Posterior::new(&points, &Priors::same(Prior::Normal { scale: -1.0 }, 1)).is_err());
    assert!(
        "hmc"
            .parse::<Sampler>()
            .expect_err("no such sampler")
            .to_string()
            .contains("must be one of nuts, mala")
    );
}

#[test]
fn a_start_without_density_is_an_error_and_not_a_stuck_chain() {
    struct Nowhere;
    impl LogDensity for Nowhere {
        fn dim(&self) -> usize {
            1
        }
        fn value_and_gradient(&self, _: &[f64], gradient: &mut [f64], _: &mut Vec<[f64; 8]>) -> f64 {
            gradient[0] = 0.0;
            f64::NAN
        }
    }
    let standard = tithe::model::Gaussian::standard(1);
    for sampler in
        [Sampler::Nuts, Sampler::Mala { preconditioned: true }, Sampler::Mala { preconditioned: false }]
    {
        let error = mcmc::run(&Nowhere, &names(1), &standard, sampler, &Settings::default(), &Silent)
            .expect_err("there is no density");
        assert!(error.to_string().contains("a chain cannot start"), "{error}");
    }
}

#[test]
fn no_warm_up_and_one_draw_work() {
    let points = simulated(&mut Seed(8).stream(Purpose::Generate, 0), &[1.0], 20);
    let priors = Priors::same(Prior::Normal { scale: 1.0 }, 1);
    for sampler in [Sampler::Nuts, Sampler::Mala { preconditioned: true }, Sampler::Laplace] {
        let draws = draw(&points, &priors, sampler, &Settings { warmup: 0, draws: 1, ..Settings::default() });
        assert_eq!((draws.len(), draws.draws_per_chain()), (4, 1));
        let summary = diagnostics::summary(&draws);
        assert!(summary[0].mean.is_finite() && summary[0].r_hat.is_nan());
        findings::findings(&draws, &summary);
    }
}

#[test]
fn an_observer_sees_every_iteration_and_can_stop() {
    use std::sync::atomic::{AtomicU64, Ordering};
    struct Counting {
        iterations: AtomicU64,
        limit: u64,
    }
    impl Observer for Counting {
        fn event(&self, event: Event) {
            if let Event::IterationsDone(n) = event {
                self.iterations.fetch_add(n, Ordering::Relaxed);
            }
        }
        fn cancelled(&self) -> bool {
            self.iterations.load(Ordering::Relaxed) >= self.limit
        }
    }
    let points = simulated(&mut Seed(9).stream(Purpose::Generate, 0), &[1.0], 20);
    let priors = Priors::same(Prior::Normal { scale: 1.0 }, 1);
    let posterior = Posterior::new(&points, &priors).expect("priors of the points' dimension");
    let approximation = posterior.laplace().expect("a mode");
    let settings = Settings { draws: 130, warmup: 71, ..Settings::default() };
    for sampler in [Sampler::Nuts, Sampler::Mala { preconditioned: true }] {
        let run = |limit: u64| {
            let observer = Counting { iterations: AtomicU64::new(0), limit };
            let result = mcmc::run(&posterior, &names(1), &approximation, sampler, &settings, &observer);
            (result, observer.iterations.into_inner())
        };
        let (result, seen) = run(u64::MAX);
        assert!(result.is_ok() && seen == 4 * 201, "{seen}");
        let (result, seen) = run(100);
        assert!(result.is_err_and(|error| error.to_string().starts_with("stopped")) && seen < 804, "{seen}");
    }
}

#[test]
fn findings_name_each_kind_of_problem() {
    let points = simulated(&mut Seed(10).stream(Purpose::Generate, 0), &[1.0, 0.5], 100);
    let priors = Priors::same(Prior::Normal { scale: 1.0 }, 2);
    let found = |draws: &Draws| {
        let findings = findings::findings(draws, &diagnostics::summary(draws));
        findings.iter().map(|f| (f.what, f.to_string())).collect::<Vec<_>>()
    };
    let good = draw(&points, &priors, Sampler::Nuts, &Settings::default());
    assert_eq!(found(&good), []);

    let short = draw(&points, &priors, Sampler::Nuts, &Settings { draws: 50, ..Settings::default() });
    assert!(
        found(&short)
            .iter()
            .any(|(what, text)| *what == Trouble::FewEffectiveDraws && text.contains("use draws="))
    );

    let mut apart = good.clone();
    for x in &mut apart.chains[0].theta {
        *x += 1.0;
    }
    let said = found(&apart);
    assert!(
        said.iter().any(|(what, text)| *what == Trouble::ChainsDisagree && text.contains("2 of 2")),
        "{said:?}"
    );

    let single = draw(&points, &priors, Sampler::Nuts, &Settings { chains: 1, ..Settings::default() });
    assert!(
        found(&single).iter().any(|(what, text)| *what == Trouble::OneChain && text.contains("use chains=4"))
    );

    let mut diverged = good.clone();
    if let Stats::Hamiltonian { diverging, energy, .. } = &mut diverged.chains[1].stats {
        diverging[3] = true;
        // Energies that change slowly: a random walk has E-BFMI near 0.
        for i in 1..energy.len() {
            energy[i] = energy[i - 1] + if i % 3 == 0 { -0.1 } else { 0.1 };
        }
    }
    let said = found(&diverged);
    assert!(
        said.iter().any(|(what, text)| *what == Trouble::Divergences && text.starts_with("1 of 4000")),
        "{said:?}"
    );
    assert!(said.iter().any(|(what, text)| *what == Trouble::SlowEnergy && text.contains("1 of 4 chains")));

    let untuned = Settings { warmup: 0, draws: 500, ..Settings::default() };
    let mut stuck = draw(&points, &priors, Sampler::Mala { preconditioned: true }, &untuned);
    if let Stats::Metropolis { acceptance_rate, .. } = &mut stuck.chains[0].stats {
        acceptance_rate.fill(0.01);
    }
    assert!(found(&stuck).iter().any(|(what, _)| *what == Trouble::Acceptance));

    let mut broken = good;
    broken.chains[2].theta[7] = f64::NAN;
    assert_eq!(found(&broken)[0].0, Trouble::NotFinite);
}
