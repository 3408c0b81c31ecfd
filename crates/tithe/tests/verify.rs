//! Verification and certificates on generated data: against long runs on all rows, with the wrong data, with rows missing, and
//! with data that is hard to fit.

use rand_distr::{Distribution, StandardNormal};
use tithe::base::error::{ErrorKind, Remedy};
use tithe::base::progress::Silent;
use tithe::base::rng::{Purpose, Seed, open_unit};
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::certify::{CertifySettings, certify};
use tithe::coreset::selection::Size;
use tithe::coreset::{Coreset, Method};
use tithe::data::block::{Column, RowSet, Segment};
use tithe::data::source::memory::Columns;
use tithe::data::table::{Roles, Table};
use tithe::encoding::EncodingSettings;
use tithe::engine::{Engine, EngineSettings, LocalEngine};
use tithe::mcmc::findings::Trouble;
use tithe::mcmc::{Sampler, Settings};
use tithe::model::{Prior, PriorChoice};
use tithe::results::epsilon_search::largest_relative_error;
use tithe::results::fit::{Fit, FitSettings, fit_data};
use tithe::results::fit_grouped::fit_coreset;
use tithe::results::judgement::Judgement;
use tithe::results::one_step::{FittedRows, OneStep, OneStepSettings, fit_in_one_step, verify_and_correct};
use tithe::results::verify::{VerifySettings, verify};

type Named = Vec<(String, Vec<f64>)>;

/// Correlated numbers on different scales and a rare positive class: one row in twenty-five.
fn skewed(rows: usize, columns: usize) -> Named {
    let mut rng = Seed(5).stream(Purpose::Generate, 0);
    let mut data: Named = (0..columns).map(|c| (format!("x{c}"), Vec::new())).collect();
    data.push(("y".to_string(), Vec::new()));
    for _ in 0..rows {
        let shared: f64 = StandardNormal.sample(&mut rng);
        let mut s = -4.0;
        for (c, (_, values)) in data[..columns].iter_mut().enumerate() {
            let own: f64 = StandardNormal.sample(&mut rng);
            let x = 0.6 * shared + own;
            s += x * if c % 2 == 0 { 0.8 } else { -0.5 };
            values.push(x * (c + 1) as f64);
        }
        let y = f64::from(u8::from(open_unit(&mut rng) < 1.0 / (1.0 + (-s).exp())));
        data[columns].1.push(y);
    }
    data
}

fn engine_of(data: Named) -> LocalEngine<'static> {
    let roles = Roles {
        label: "y".into(),
        weight: data.iter().any(|(name, _)| name == "w").then(|| "w".to_string()),
        ..Roles::default()
    };
    let table = Table::new(Box::new(Columns::new(data).expect("columns")), &roles).expect("a table");
    let settings = EngineSettings { block_rows: Some(1 << 12), ..EngineSettings::default() };
    LocalEngine::new(table, &settings, &Silent).expect("an engine")
}

fn built(engine: &LocalEngine<'_>, settings: BuildSettings) -> Coreset {
    build_on(engine, &settings).expect("a coreset").coreset
}

fn sized(method: Method, size: usize) -> BuildSettings {
    BuildSettings { method, size: Size::Rows(size), ..BuildSettings::default() }
}

fn fitted(coreset: &Coreset) -> Fit {
    fit_coreset(coreset, &FitSettings::default(), &Silent).expect("a posterior")
}

#[test]
fn corrected_means_are_those_of_a_long_run_on_all_rows() {
    let engine = engine_of(skewed(6_000, 6));
    let draws = Settings { draws: 2000, ..FitSettings::default().draws };
    let settings = FitSettings { draws, ..FitSettings::default() };
    let truth = fit_data(&engine, &EncodingSettings::default(), &settings, 1 << 30).expect("a posterior");
    // Few rows, so that the posterior has errors to correct.
    for (size, off) in [(30, true), (300, false)] {
        let fit = fitted(&built(&engine, sized(Method::Calibrated, size)));
        let found =
            verify(&engine, &fit, &VerifySettings { draws: Some(4000), force: false }).expect("verified");
        assert!(found.same_data);
        assert_eq!(found.kl() > 0.01, off, "{size} rows: {}", found.kl());
        assert!(found.psis.k_hat < 0.7, "{}", found.psis.k_hat);
        for (corrected, c) in found.corrected.iter().zip(&truth.summary) {
            // Here a weighted draw of a chain counts as at least a third of an independent one. Within 4.5 standard errors:
            // a correct program fails once in 10,000 (14 figures, fixed seeds).
            let error = c.sd / (4000.0 * found.efficiency() / 3.0).sqrt();
            let error = error.hypot(c.mcse_mean);
            let apart = (corrected.mean - c.mean).abs();
            assert!(apart < 4.5 * error, "{}, {size} rows: {apart} apart, {error} expected", c.name);
            assert!((corrected.sd / c.sd - 1.0).abs() < 0.15, "{}: {} for {}", c.name, corrected.sd, c.sd);
        }
    }
}

#[test]
fn a_fit_in_one_step_corrects_the_draws_of_a_small_coreset() {
    let engine = engine_of(skewed(6_000, 6));
    let settings = |rows, size| OneStepSettings { rows, size, memory: 1 << 30, ..OneStepSettings::default() };
    // So few rows are quick to fit.
    let truth = fit_in_one_step(&engine, &settings(FittedRows::ByTime, None)).expect("a posterior");
    assert!(truth.by_coreset.is_none() && truth.fit.verified.is_none());
    let found = fit_in_one_step(&engine, &settings(FittedRows::Coreset, Some(Size::Rows(30))));
    let OneStep { fit, by_coreset } = found.expect("a posterior");
    let coreset = by_coreset.expect("a coreset").built.coreset;
    let verified = fit.verified.clone().expect("verified");
    assert!(verified.corrected && verified.verdict == Judgement::Correctable, "{verified:?}");
    assert!(verified.largest_mean_error > 0.05, "{verified:?}");
    assert_eq!((verified.rows, verified.draws, fit.settings.chains), (6000, 4000, 4));
    let plain = BuildSettings { seed: fit.settings.seed, ..sized(Method::Calibrated, 30) };
    assert_eq!(built(&engine, plain).weights, coreset.weights);
    // A correct program fails once in 10,000 (7 means, fixed seeds).
    for (own, full) in fit.summary.iter().zip(&truth.fit.summary) {
        let noise = own.sd / (4000.0 * verified.efficiency / 3.0).sqrt();
        let apart = (own.mean - full.mean).abs() / noise.hypot(full.mcse_mean);
        assert!(apart < 4.5, "{}: {apart} standard errors", own.name);
    }
}

#[test]
fn draws_too_far_away_to_be_corrected_are_reported() {
    let engine = engine_of(skewed(20_000, 6));
    let fit = fitted(&built(&engine, sized(Method::Uniform, 400)));
    let (kept, found) = verify_and_correct(&engine, fit.clone(), false).expect("verified");
    assert_eq!((found.judgement, &kept.draws), (Judgement::TooFar, &fit.draws));
    assert!(
        kept.findings.iter().any(|finding| finding.what == Trouble::TooFarFromData),
        "{:?}",
        kept.findings
    );
    assert!(kept.verified.is_some_and(|facts| !facts.corrected && facts.verdict == Judgement::TooFar));
}

#[test]
fn more_draws_are_compared_where_the_verdict_needs_them() {
    let engine = engine_of(skewed(6_000, 6));
    let draws_for = |rows| {
        let fit = fitted(&built(&engine, sized(Method::Calibrated, rows)));
        let found = verify(&engine, &fit, &VerifySettings::default()).expect("verified");
        (found.chosen.len(), found.kl(), found.judgement)
    };
    let sizes = [32, 36, 40, 44, 48, 52, 56, 1000];
    let found: Vec<_> = sizes.into_iter().map(draws_for).collect();
    // Clear verdicts need 400 draws; one of these sizes is a close call.
    assert_eq!(found.last().map(|(draws, ..)| *draws), Some(400), "{found:?}");
    assert!(found.iter().any(|(draws, ..)| *draws > 400), "{found:?}");
}

#[test]
fn a_uniform_coreset_is_judged_unreliable_and_a_calibrated_one_is_not() {
    let engine = engine_of(skewed(20_000, 6));
    let fit = fitted(&built(&engine, sized(Method::Uniform, 400)));
    let found = verify(&engine, &fit, &VerifySettings::default()).expect("verified");
    assert!(found.kl() > 5.0, "{}", found.kl());
    assert_eq!(found.judgement, Judgement::TooFar);

    let fit = fitted(&built(&engine, sized(Method::Calibrated, 400)));
    let found = verify(&engine, &fit, &VerifySettings::default()).expect("verified");
    assert!(found.kl() < 0.01 && found.efficiency() > 0.9, "{} {}", found.kl(), found.efficiency());
    assert_eq!(found.judgement, Judgement::Indistinguishable);
    assert_eq!(found.chosen.len(), 400);
}

#[test]
fn a_posterior_of_all_rows_needs_no_correction_but_laplace_does() {
    // Few positives: the posterior is skewed.
    let mut data = skewed(3_000, 3);
    let mut kept = 0;
    for y in &mut data[3].1 {
        kept += u32::from(*y == 1.0);
        if kept > 8 {
            *y = 0.0;
        }
    }
    let engine = engine_of(data);
    let fit = |sampler| {
        let settings = FitSettings { sampler, ..FitSettings::default() };
        fit_data(&engine, &EncodingSettings::default(), &settings, 1 << 30).expect("a fit")
    };
    let kl = |fit: &Fit| verify(&engine, fit, &VerifySettings::default()).expect("verified").kl();
    let (exact, approximate) = (kl(&fit(Sampler::Nuts)), kl(&fit(Sampler::Laplace)));
    assert!(exact < 1e-15, "{exact}");
    assert!(approximate > 0.02, "{approximate}");
    // For draws of a Laplace approximation, the KL is that of the approximation.
    let coreset = built(&engine, sized(Method::Calibrated, 300));
    let settings = FitSettings { sampler: Sampler::Laplace, ..FitSettings::default() };
    let of_coreset = kl(&fit_coreset(&coreset, &settings, &Silent).expect("a fit"));
    assert!((0.5..2.0).contains(&(of_coreset / approximate)), "{of_coreset} and {approximate}");
}

#[test]
fn other_data_is_rejected_and_another_order_is_accepted() {
    let data = skewed(5_000, 3);
    let coreset = built(&engine_of(data.clone()), sized(Method::Calibrated, 100));
    let fit = fitted(&coreset);
    let mut reversed = data.clone();
    reversed.iter_mut().for_each(|(_, values)| values.reverse());
    let engine = engine_of(reversed);
    assert!(verify(&engine, &fit, &VerifySettings::default()).expect("verified").same_data);
    assert!(certify(&engine, &coreset, &CertifySettings::default()).expect("certified").same_data);

    let mut other = data.clone();
    other[1].1[4_321] += 1e-9;
    let engine = engine_of(other);
    let refused = verify(&engine, &fit, &VerifySettings::default()).expect_err("other data");
    assert!(matches!(refused.kind(), ErrorKind::OtherData { .. }), "{refused}");
    assert!(refused.help().is_some_and(|help| help.remedies().contains(&Remedy::Force)));
    let forced = VerifySettings { force: true, ..VerifySettings::default() };
    assert!(!verify(&engine, &fit, &forced).expect("forced").same_data);
    let refused = certify(&engine, &coreset, &CertifySettings::default()).expect_err("other data");
    assert!(matches!(refused.kind(), ErrorKind::OtherData { .. }), "{refused}");
}

/// The coreset without the rows for which column `c` is 1.
fn robbed(coreset: &Coreset, c: usize) -> Coreset {
    let numbers = |column: &Column| match column {
        Column::Number(values) => values.to_vec(),
        Column::Text { .. } => panic!("numbers expected"),
    };
    let marks = numbers(&coreset.rows.segment.columns[c]);
    let kept: Vec<usize> = (0..marks.len()).filter(|&row| marks[row] == 0.0).collect();
    assert!(kept.len() < marks.len(), "some rows were removed");
    let columns = coreset.rows.segment.columns.iter().map(numbers);
    let columns =
        columns.map(|values| Column::Number(kept.iter().map(|&row| values[row]).collect())).collect();
    Coreset {
        rows: RowSet {
            segment: Segment { columns, len: kept.len() },
            positions: kept.iter().map(|&row| coreset.rows.positions[row]).collect(),
        },
        weights: kept.iter().map(|&row| coreset.weights[row]).collect(),
        ..coreset.clone()
    }
}

#[test]
fn unknown_labels_are_rejected_even_with_force() {
    let data = skewed(5_000, 3);
    let coreset = built(&engine_of(data.clone()), sized(Method::Calibrated, 100));
    let fit = fitted(&coreset);
    let mut other = data;
    other[3].1[4321] = 2.0;
    let engine = engine_of(other);
    let verified = verify(&engine, &fit, &VerifySettings { force: true, ..VerifySettings::default() });
    let certified =
        certify(&engine, &coreset, &CertifySettings { force: true, ..CertifySettings::default() });
    for error in [verified.map(|_| ()), certified.map(|_| ())] {
        let error = error.expect_err("a label of 2").to_string();
        assert!(error.contains("row 4322 has the label '2'"), "{error}");
    }
}

/// Thirty columns with small effects and few positives: a posterior that is far from normal.
fn far_from_normal() -> Named {
    let mut rng = Seed(9).stream(Purpose::Generate, 2);
    let (rows, columns) = (4_000, 12);
    let mut data: Named = (0..columns).map(|c| (format!("x{c}"), Vec::new())).collect();
    let mut positives = Vec::new();
    for _ in 0..rows {
        let mut s = -5.5;
        for (c, (_, values)) in data.iter_mut().enumerate() {
            let x: f64 = StandardNormal.sample(&mut rng);
            // A long tail to the right.
            let x = (0.8 * x).exp();
            s += if c % 3 == 0 { 0.3 * x } else { -0.2 * x };
            values.push(x);
        }
        positives.push(f64::from(u8::from(open_unit(&mut rng) < 1.0 / (1.0 + (-s).exp()))));
    }
    data.push(("y".to_string(), positives));
    data
}

#[test]
fn where_laplace_is_wrong_a_calibrated_coreset_is_not() {
    let engine = engine_of(far_from_normal());
    let settings = FitSettings { sampler: Sampler::Laplace, ..FitSettings::default() };
    let laplace = fit_data(&engine, &EncodingSettings::default(), &settings, 1 << 30).expect("a fit");
    let kl = |fit: &Fit| verify(&engine, fit, &VerifySettings::default()).expect("verified").kl();
    let approximate = kl(&laplace);
    let drawn = kl(&fitted(&built(&engine, sized(Method::Calibrated, 400))));
    assert!(approximate > 1.0, "{approximate}");
    assert!(drawn < approximate / 20.0, "{drawn} for {approximate}");
}

#[test]
fn a_coreset_without_a_rare_level_is_reported_by_name() {
    let mut data = skewed(10_000, 3);
    let rare = (0..10_000).map(|n| f64::from(u8::from(n % 100 == 7))).collect();
    data.insert(3, ("rare".to_string(), rare));
    let engine = engine_of(data);
    let whole = built(&engine, sized(Method::Calibrated, 300));
    let settings = CertifySettings::default();
    let before = certify(&engine, &whole, &settings).expect("certified").certificate;
    assert!(before.normal.kl < 1e-3 && before.normal.deficiencies.is_empty(), "{}", before.normal.kl);
    let own = &whole.provenance.calibration.as_ref().expect("a certificate").certificate;
    assert!((before.normal.kl - own.normal.kl).abs() < 1e-6, "{} and {}", before.normal.kl, own.normal.kl);

    let after = certify(&engine, &robbed(&whole, 3), &settings).expect("certified").certificate;
    assert!(after.kl() > 0.5, "{}", after.kl());
    let worst = after.normal.deficiencies.first().expect("a deficiency");
    assert_eq!(whole.encoding.coefficient_names()[worst.coefficients[0].0], "rare");
}

/// Numbers and a column of 30 levels of which the rarest occur in a few rows in ten thousand and nearly always go with one label.
fn nearly_separated(rows: usize) -> Named {
    let mut data = skewed(rows, 3);
    let mut rng = Seed(6).stream(Purpose::Generate, 1);
    let mut levels = vec![vec![0.0; rows]; 30];
    for (n, y) in data[3].1.iter_mut().enumerate() {
        // The probability of level k is proportional to 2^{−k/2}.
        let level = ((-2.0 * open_unit(&mut rng).log2()) as usize).min(29);
        levels[level][n] = 1.0;
        if level > 10 && open_unit(&mut rng) < 0.98 {
            *y = f64::from(u8::from(level.is_multiple_of(2)));
        }
    }
    for (k, values) in levels.into_iter().enumerate() {
        data.insert(3 + k, (format!("level{k}"), values));
    }
    data
}

#[test]
fn a_certificate_at_the_mode_is_right_even_where_levels_are_nearly_separated() {
    let engine = engine_of(nearly_separated(30_000));
    for (size, seed) in [(400, 0), (400, 1), (800, 2)] {
        let before = engine.passes();
        let coreset = built(&engine, BuildSettings { seed: Seed(seed), ..sized(Method::Calibrated, size) });
        let passes = engine.passes() - before;
        assert!(passes <= 12, "{passes} passes");
        let certified = coreset.provenance.calibration.as_ref().expect("a certificate").certificate.normal.kl;
        let found =
            certify(&engine, &coreset, &CertifySettings::default()).expect("certified").certificate.normal.kl;
        let near = (0.5..2.0).contains(&(certified / found)) || certified.max(found) < 1e-9;
        assert!(near, "{size} rows, seed {seed}: certified {certified}, measured {found}");
    }
    // A search from the worst pilot ends at the same mode.
    let coreset = built(&engine, sized(Method::Calibrated, 400));
    let uniform = built(&engine, sized(Method::Uniform, 400));
    let exact = |coreset: &Coreset| {
        certify(&engine, coreset, &CertifySettings::default()).expect("certified").certificate
    };
    assert!(
        exact(&coreset).kl() < 1.0 && exact(&uniform).kl() > 10.0,
        "{} {}",
        exact(&coreset).kl(),
        exact(&uniform).kl()
    );
}

#[test]
fn the_prior_of_the_mode_hardly_matters() {
    let engine = engine_of(skewed(20_000, 6));
    for prior_scale in [1.0, 2.0, 10.0] {
        let priors = PriorChoice::same(Prior::Normal { scale: prior_scale });
        let coreset = built(&engine, BuildSettings { priors, ..sized(Method::Calibrated, 400) });
        let kl =
            certify(&engine, &coreset, &CertifySettings::default()).expect("certified").certificate.normal.kl;
        assert!(kl < 1e-3, "scale {prior_scale}: {kl}");
    }
}

#[test]
fn a_target_is_met_with_few_rows_or_the_best_is_reported() {
    let engine = engine_of(skewed(20_000, 6));
    let kl = |target| BuildSettings { size: Size::Kl { target }, ..BuildSettings::default() };
    let coreset = built(&engine, kl(1e-3));
    let facts = coreset.provenance.calibration.as_ref().expect("a certificate");
    assert!(facts.certificate.kl() <= 1e-3 && coreset.rows.len() <= 800, "{}", coreset.rows.len());
    let again = certify(&engine, &coreset, &CertifySettings::default()).expect("certified");
    assert!(again.certificate.kl() <= 2e-3, "{}", again.certificate.kl());

    let refused = build_on(&engine, &kl(1e-30)).expect_err("out of reach");
    assert!(refused.to_string().starts_with("a KL of 0.000"), "{refused}");
    for method in [Method::Uniform, Method::Sensitivity] {
        let refused = build_on(&engine, &BuildSettings { method, ..kl(0.1) });
        assert!(matches!(refused.expect_err("no certificate").kind(), ErrorKind::Setting { .. }));
    }
    // Data smaller than the first size is kept completely.
    assert!(built(&engine_of(skewed(150, 2)), kl(1e-9)).provenance.exact);
}

#[test]
fn the_search_finds_an_error_of_plausible_size() {
    let engine = engine_of(skewed(5_000, 3));
    let coreset = built(&engine, sized(Method::Sensitivity, 200));
    let worst = largest_relative_error(&engine, &coreset, Seed(1)).expect("searched");
    let norm = worst.theta.iter().map(|t| t * t).sum::<f64>().sqrt();
    assert!(norm <= worst.radius * (1.0 + 1e-12));
    assert!(worst.relative_error > 0.005 && worst.relative_error < 2.0, "{}", worst.relative_error);
    let all = built(&engine, sized(Method::Sensitivity, 5_000));
    let none = largest_relative_error(&engine, &all, Seed(1)).expect("searched");
    assert!(none.relative_error < 1e-12, "{}", none.relative_error);
}

/// Every step must succeed with finite numbers.
fn survives(what: &str, data: Named, size: usize) {
    let engine = engine_of(data);
    let coreset = built(&engine, sized(Method::Calibrated, size));
    assert!(coreset.weights.iter().all(|w| *w > 0.0 && w.is_finite()), "{what}");
    let certificate = certify(&engine, &coreset, &CertifySettings::default())
        .unwrap_or_else(|error| panic!("{what}: {error}"))
        .certificate;
    assert!(
        certificate.normal.kl.is_finite() && certificate.normal.kl >= -1e-9,
        "{what}: {}",
        certificate.normal.kl
    );
    let fit = fitted(&coreset);
    let found =
        verify(&engine, &fit, &VerifySettings::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(found.kl().is_finite() && found.corrected.iter().all(|c| c.mean.is_finite()), "{what}");
}

#[test]
fn hard_data_gives_finite_results() {
    let base = || skewed(3_000, 4);
    let mut separable = base();
    separable[4].1 = separable[0].1.iter().map(|x| f64::from(u8::from(*x > 0.1))).collect();
    survives("separable", separable, 200);

    let mut collinear = base();
    let sum = (0..3_000).map(|n| collinear[0].1[n] + collinear[1].1[n]).collect();
    collinear.insert(0, ("sum".to_string(), sum));
    let copy = collinear[1].1.clone();
    collinear.insert(0, ("copy".to_string(), copy));
    survives("collinear", collinear, 200);

    let mut constant = base();
    constant.insert(0, ("constant".to_string(), vec![7.25; 3_000]));
    survives("a constant column", constant, 200);

    // Nearly always 0: a single row has all the information.
    let mut empty = base();
    empty.insert(0, ("hardly".to_string(), (0..3_000).map(|n| f64::from(u8::from(n == 17))).collect()));
    survives("a column with one value that is not 0", empty, 200);

    let mut weighted = base();
    let weights = (0..3_000).map(|n| 10f64.powi((n % 25) - 12)).collect();
    weighted.push(("w".to_string(), weights));
    survives("weights from 1e-12 to 1e12", weighted, 200);

    survives("fewer rows than coefficients", skewed(30, 40), 20);
    survives("hardly more rows than the coreset has", skewed(120, 10), 100);
}
